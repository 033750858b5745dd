/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which events of the CPUs are read at switches, under which numbers.
 *
 * The events are another engine's: it opens them, and opens them anew when a CPU has been offline or a reload has
 * changed them. So the wiring is compared with what is open at each reading.
 */

#include "counting/engine/bpf/target.h"

/* Gives numbers to the plan's sets: those of the predecessor to equal sets, free ones to others. -E2BIG: there are too
 * few. */
int wiring_number_sets(struct bpf_engine *engine);

/* Are there numbers left in the predecessor's part for the sets that it lacks? */
bool wiring_has_numbers(const struct bpf_engine *engine, const struct bpf_engine *from);

/* Reads at switches the events that are open by now, and no others. */
void wiring_update(struct bpf_engine *engine);

/* From the next flush on, the engine's sets are counted, and no others. */
void wiring_start(struct bpf_engine *engine);

/* From the next flush on, nothing is counted. */
void wiring_end(struct bpf_engine *engine);

/* No other events but those of the engine's sets, on their CPUs, are needed any more. */
void wiring_drop_others(struct bpf_engine *engine);
