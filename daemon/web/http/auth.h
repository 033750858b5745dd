/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Basic authentication. All paths require it, /-/healthy too, as in Prometheus's own exporters.
 *
 * The password worker takes a while to check a password: the request waits for the number of the check. Right passwords
 * are remembered, so that a scraper's password is checked once in the daemon's life: as a hash of the name, the
 * password and the user's hash of crypt(3), keyed with a random key that never leaves the process. It becomes useless
 * when the user gets another hash or is removed, and stays valid over a reload that changes neither. Requests with the
 * same password at the same time share one check. Requests from an address with too many wrong passwords get 429
 * without a check.
 */

#include "web/http/peer.h"
#include "web/http/users.h"

#include <systemd/sd-event.h>

enum auth_verdict {
	AUTH_GOOD,
	AUTH_WRONG,    /* 401 */
	AUTH_TOO_MANY, /* 429 */
	AUTH_BUSY,     /* 503: the queue is full */
	AUTH_WAIT,     /* done() will be called with the number */
};

struct auth;

/* Called on the loop with the verdict for all requests that wait for that number: AUTH_GOOD or AUTH_WRONG. */
typedef void (*auth_done_t)(void *userdata, uint64_t number, enum auth_verdict verdict);

/* Without users at first, so that no password is required. Negative errno. */
int auth_new(struct auth **ret, sd_event *loop, auth_done_t done, void *userdata);
struct auth *auth_free(struct auth *auth);
DEFINE_CLEANUP(struct auth *, auth_free)

/* Borrows the users; NULL: no password is required. Requests that wait must be checked again: done() is called only for
 * numbers that auth_check() has returned since, which can be the same ones. */
void auth_set_users(struct auth *auth, const struct users *users);

/* header: the value of Authorization, or NULL. *ret_number is set for AUTH_WAIT only. */
enum auth_verdict auth_check(struct auth *auth, const char *header, const struct peer *peer, uint64_t *ret_number);
