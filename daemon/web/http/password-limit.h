/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits how often an address may send a wrong password: RATE_LIMIT_BURST times in a row, and then once every
 * RATE_LIMIT_NS. A password that is still being checked counts as wrong until it is known to be right.
 *
 * Each failure adds RATE_LIMIT_NS to the time at which all of them are forgiven (a leaky bucket).
 */

#include "web/http/peer.h"

#include <stddef.h>

#define RATE_LIMIT_BURST 10
#define RATE_LIMIT_NS 2000000000U
/* Addresses remembered. When there are more, those that would be forgiven first are forgotten. */
#define RATE_LIMIT_PEERS 256

struct rate_limit {
	struct {
		struct peer peer;
		uint64_t until; /* ns: when all failures are forgiven; in the past: the item is unused */
	} items[RATE_LIMIT_PEERS];
};

/* Counts one more failure. False, and it is not counted: the limit is reached. */
bool rate_limit_add(struct rate_limit *limit, const struct peer *peer, uint64_t now);
/* Takes back one that was no failure after all. */
void rate_limit_undo(struct rate_limit *limit, const struct peer *peer);
