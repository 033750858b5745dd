/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Basic authentication: who is let in. Everything is behind it, /-/healthy too, as with Prometheus's own exporters.
 *
 * A password is checked by the hasher, which takes its time: the request waits for the number it is given. Passwords
 * that were right are remembered, as a keyed hash whose key nobody else has; so a scrape costs one hash in the daemon's
 * life. What is remembered is that a name's password fits a hash of crypt(3): where the user has another one, or is
 * there no more, it is of no use, and where the users are the same after a reload, nothing is asked again. The same
 * password twice at once is one hash. An address that is wrong too often is answered 429 without one.
 */

#include "web/peer.h"
#include "web/users.h"

#include <systemd/sd-event.h>

enum auth_verdict {
	AUTH_GOOD,
	AUTH_WRONG,   /* 401 */
	AUTH_TOO_MANY, /* 429 */
	AUTH_BUSY,    /* 503: the queue is full */
	AUTH_WAIT,    /* for the number */
};

struct auth;

/* Called on the loop: what waited for that number is good, or wrong. */
typedef void (*auth_done_t)(void *userdata, uint64_t number, enum auth_verdict verdict);

/* Without users, so that everybody may come in. Negative errno. */
int auth_new(struct auth **ret, sd_event *loop, auth_done_t done, void *userdata);
struct auth *auth_free(struct auth *auth);
DEFINE_CLEANUP(struct auth *, auth_free)

/* Borrows them; NULL: everybody. What waits is not told, but where it has asked again: with the same user, for the same
 * number. */
void auth_set_users(struct auth *auth, const struct users *users);

/* header: Authorization's value, or NULL. */
enum auth_verdict auth_check(struct auth *auth, const char *header, const struct peer *peer, uint64_t *number);
