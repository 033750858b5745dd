/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who may come in: a file of lines "name:hash", as `htpasswd -nB` writes them. Pure.
 *
 * Hashes are bcrypt's ($2a$, $2b$, $2y$). Its cost is 2^n rounds; beyond USERS_COST_MAX, one password would take
 * longer to check than a scrape waits.
 */

#include "util/reason.h"

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
	size_t nr; /* at least one */
};

/* Empty lines, and those that begin with '#', are passed over. -EINVAL with the sentence in why, which begins with
 * "file:line: "; -ENOMEM. */
int users_parse(struct users **ret, const char *file, const char *text, struct reason *why);
struct users *users_free(struct users *users);
DEFINE_CLEANUP(struct users *, users_free)

/* NULL: there is none of that name. How long it takes does not depend on the name. */
const struct user *users_find(const struct users *users, const char *name);
