/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks passwords against hashes of crypt(3) in a thread of its own, since one takes tens to hundreds of milliseconds
 * by design. The thread is there from the first password on. Who keeps it busy gets no more than half a CPU: after each
 * hash it rests for as long as that took.
 */

#include "util/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

/* So many passwords may wait. */
#define HASHER_QUEUE 32

struct hasher;

/* Called on the loop, in the order of the numbers. */
typedef void (*hasher_done_t)(void *userdata, uint64_t number, bool same);

/* Negative errno. */
int hasher_new(struct hasher **ret, sd_event *loop, hasher_done_t done, void *userdata);
/* Waits for the hash under way; no more is heard of it. */
struct hasher *hasher_free(struct hasher *hasher);
DEFINE_CLEANUP(struct hasher *, hasher_free)

/* Both are copied. Numbers count up from 0. -EAGAIN: too many wait already, or there is no thread to be had; -E2BIG:
 * one is too long for crypt(3). */
int hasher_submit(struct hasher *hasher, const char *password, const char *hash, uint64_t *number);
