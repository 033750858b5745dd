/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The users that may log in: a file with lines "name:hash", as `htpasswd -nB` writes them. Pure.
 *
 * Hashes are bcrypt ($2a$, $2b$, $2y$). The cost n stands for 2^n rounds: above USERS_COST_MAX, checking one password
 * would take longer than the timeout of a scrape.
 */

#include "base/util/reason.h"

#include <stddef.h>

#define USERS_MAX 1000
#define USER_NAME_MAX 255
#define USERS_COST_MAX 15

struct user {
	char *name;
	char *hash;
};

struct users {
	struct user *items;
	size_t nr; /* at least one once it is in use */
};

/* Without users. NULL: out of memory. */
struct users *users_new(void);
/* Adds a user with copies of both. -EINVAL with the sentence in why; -ENOMEM. */
int users_add(struct users *users, const char *name, const char *hash, struct reason *why);

/* Ignores empty lines and lines that begin with '#'. -EINVAL with the sentence in why, which begins with "file:line: ";
 * -ENOMEM. */
int users_parse(struct users **ret, const char *file, const char *text, struct reason *why);
struct users *users_free(struct users *users);
DEFINE_CLEANUP(struct users *, users_free)

/* NULL: there is no user with that name. The time that this takes does not depend on the name. */
const struct user *users_find(const struct users *users, const char *name);
