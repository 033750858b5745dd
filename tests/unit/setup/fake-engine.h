/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A second engine, played by the test, beside the one of perf events. Everything that it counts happens as often as
 * fake_engine.happened says, on each CPU and in each cgroup. It opens no files.
 */

#include "counting/engine/engine.h"

struct fake_engine {
	uint64_t takes;	    /* a bit for each config of a software event that it can count */
	uint64_t happened;  /* on each CPU, and on each CPU in each cgroup */
	int error;	    /* add() fails with it; 0: it does not */
	size_t max_cgroups; /* that it has room for; 0: any number */
	int offline;	    /* life() says that this CPU has been offline; -1: none */
};

extern struct fake_engine fake_engine;

void fake_engine_reset(void);

extern const struct engine_ops engine_fake;

/* By preference: the fake engine, then perf; and the other way round. */
extern const struct engine_ops *const fake_first[], *const perf_first[];
