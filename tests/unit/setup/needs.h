/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Abilities of the machine, which tests/lib/machine.py finds out once for a run. MACHINE_LACKS in the environment has a
 * line `NAME: reason` for each one that is missing. Without it, everything is taken to be there.
 */

/* Skips the test, with the reason, where the machine lacks the ability. */
void needs(const char *ability);
