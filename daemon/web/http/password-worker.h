/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks passwords against hashes of crypt(3), in a thread of its own, since a check takes tens to hundreds of
 * milliseconds by design. The thread is started with the first password. It uses half a CPU at most, whoever keeps it
 * busy: after each check it rests for as long as the check took.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

/* Passwords that can be queued. */
#define PASSWORD_QUEUE 32

struct password_worker;

/* Called on the loop, in the order of submission. same: the password fits the hash. */
typedef void (*password_worker_done_t)(void *userdata, uint64_t number, bool same);

/* Negative errno. */
int password_worker_new(struct password_worker **ret, sd_event *loop, password_worker_done_t done, void *userdata);
/* Waits for a check that is under way; its result is not reported. */
struct password_worker *password_worker_free(struct password_worker *worker);
DEFINE_CLEANUP(struct password_worker *, password_worker_free)

/* Queues a check of copies of both. Numbers count up from 0. -EAGAIN: the queue is full, or the thread cannot be
 * started; -E2BIG: password or hash is too long for crypt(3). */
int password_worker_submit(struct password_worker *worker, const char *password, const char *hash,
			   uint64_t *ret_number);
