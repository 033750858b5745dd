/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How often an address may be wrong: PENALTY_BURST times in a row, and once every PENALTY_NS from then on. What is
 * under way counts as wrong until it is known.
 */

#include "web/peer.h"

#include <stddef.h>

#define PENALTY_BURST 10
#define PENALTY_NS 2000000000U
/* Addresses that are remembered; of more, those that have the least to wait are forgotten. */
#define PENALTY_PEERS 256

struct penalty {
	struct {
		struct peer peer;
		uint64_t until; /* ns: when all is forgiven; in the past: not in use */
	} items[PENALTY_PEERS];
};

/* Counts one more. false, and it is not counted: there were too many. */
bool penalty_add(struct penalty *penalty, const struct peer *peer, uint64_t now);
/* It was right after all. */
void penalty_take_back(struct penalty *penalty, const struct peer *peer);
