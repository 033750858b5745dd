/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A glob of a query, and the bound on what matching it may cost: a constant, some tens of milliseconds, and for each
 * byte of the names as many steps as a glob of 64 positions takes. The bound is needed because the client chooses the
 * glob, and users to whom cgroups are delegated choose names.
 */

#include "base/util/glob.h"
#include "counting/event/event.h"

#include <stdbool.h>

struct sieve {
	bool on; /* there is a glob; without one, everything is admitted */
	struct glob glob;
};

/* glob NULL: none. It is borrowed. */
void sieve_init(struct sieve *sieve, const char *glob);
void sieve_release(struct sieve *sieve);

bool sieve_admits_text(struct sieve *sieve, const char *text);
/* By the name of its metric, or by its text. */
bool sieve_admits_event(struct sieve *sieve, const struct event *event);

/* True: the glob has taken too many steps. The selection is incomplete, and the query fails with -E2BIG. */
bool sieve_is_exhausted(const struct sieve *sieve);
