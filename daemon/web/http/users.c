/* SPDX-License-Identifier: MIT */

#include "web/http/users.h"

#include "base/util/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A bcrypt hash: "$2y$10$", a salt of 22 characters and a hash of 31. */
#define BCRYPT_PREFIX 7
#define BCRYPT_LENGTH 60
#define BCRYPT_COST_MIN 4

static const char bcrypt_letters[] = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

struct users *users_free(struct users *users)
{
	if (!users)
		return NULL;
	for (size_t i = 0; i < users->nr; i++) {
		free(users->items[i].name);
		free(users->items[i].hash);
	}
	free(users->items);
	free(users);
	return NULL;
}

static int user_check_hash(const char *hash, struct reason *why)
{
	char version = hash[0] == '$' && hash[1] == '2' ? hash[2] : '\0';
	int cost;

	if (!version || !strchr("aby", version) || hash[3] != '$')
		return reason_set(why, -EINVAL, "the hash is not a bcrypt hash ($2y$...), as htpasswd -nB makes it");
	if (strspn(hash + 4, "0123456789") != 2 || hash[6] != '$' || strlen(hash) != BCRYPT_LENGTH ||
	    hash[BCRYPT_PREFIX + strspn(hash + BCRYPT_PREFIX, bcrypt_letters)])
		return reason_set(why, -EINVAL, "the hash is malformed: a bcrypt hash has %d characters",
				  BCRYPT_LENGTH);
	cost = (hash[4] - '0') * 10 + hash[5] - '0';
	if (cost < BCRYPT_COST_MIN || cost > USERS_COST_MAX)
		return reason_set(why, -EINVAL, "the hash's cost is %d; %d to %d are allowed, 10 is usual", cost,
				  BCRYPT_COST_MIN, USERS_COST_MAX);
	return 0;
}

static int user_check_name(const struct users *users, const char *name, struct reason *why)
{
	char excerpt[EXCERPT_MAX];
	size_t n = strlen(name);

	if (n == 0 || n > USER_NAME_MAX)
		return reason_set(why, -EINVAL, "a name has 1 to %d bytes", USER_NAME_MAX);
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return reason_set(why, -EINVAL, "the name '%s' contains a control character",
					  text_excerpt(excerpt, name));
	if (users_find(users, name))
		return reason_set(why, -EINVAL, "there are two users '%s'", text_excerpt(excerpt, name));
	return 0;
}

struct users *users_new(void)
{
	_cleanup_(users_freep) struct users *users = calloc(1, sizeof(*users));

	if (!users)
		return NULL;
	users->items = calloc(USERS_MAX, sizeof(*users->items));
	return users->items ? steal_ptr(users) : NULL;
}

int users_add(struct users *users, const char *name, const char *hash, struct reason *why)
{
	struct user *user;
	int r = user_check_name(users, name, why);

	if (r == 0)
		r = user_check_hash(hash, why);
	if (r < 0)
		return r;
	if (users->nr == USERS_MAX)
		return reason_set(why, -EINVAL, "more than %d users", USERS_MAX);
	user = &users->items[users->nr++];
	user->name = strdup(name);
	user->hash = strdup(hash);
	return user->name && user->hash ? 0 : -ENOMEM;
}

/* Modifies the line. */
static int users_add_line(struct users *users, char *line, struct reason *why)
{
	char *colon = strchr(line, ':');

	if (!colon)
		return reason_set(why, -EINVAL, "this line is not NAME:HASH, as htpasswd -nB writes it");
	*colon = '\0';
	return users_add(users, line, colon + 1, why);
}

static int users_add_lines(struct users *users, const char *file, char *text, struct reason *why)
{
	char *line;

	for (unsigned number = 1; (line = strsep(&text, "\n")); number++) {
		int r = *line && *line != '#' ? users_add_line(users, line, why) : 0;

		if (r == -EINVAL)
			return reason_prefix(why, r, "%s:%u", file, number);
		if (r < 0)
			return r;
	}
	return users->nr ? 0 : reason_set(why, -EINVAL, "%s has no users in it: nobody could log in", file);
}

int users_parse(struct users **ret, const char *file, const char *text, struct reason *why)
{
	_cleanup_(users_freep) struct users *users = users_new();
	_cleanup_(freep) char *copy = strdup(text);
	int r = -ENOMEM;

	if (users && copy)
		r = users_add_lines(users, file, copy, why);
	if (r == -ENOMEM)
		return reason_set(why, r, "out of memory");
	if (r < 0)
		return r;
	*ret = steal_ptr(users);
	return 0;
}

/* Compares in a time that does not depend on where the names differ. */
static bool names_are_equal(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned char differ = n != m;

	for (size_t i = 0; i < m; i++)
		differ |= (unsigned char)(a[i < n ? i : n] ^ b[i]);
	return !differ;
}

const struct user *users_find(const struct users *users, const char *name)
{
	const struct user *found = NULL;

	for (size_t i = 0; i < users->nr; i++)
		if (names_are_equal(users->items[i].name, name))
			found = &users->items[i];
	return found;
}
