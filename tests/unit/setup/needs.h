/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A test does not find out by itself what this machine can do. The runner does that once (tests/lib/machine.py), and
 * lists the abilities that are missing in the variable MACHINE_LACKS, with a line "NAME: reason" for each.
 */

/* Skips the test, and prints why, where the machine lacks that ability. Without MACHINE_LACKS it has all. */
void needs(const char *ability);
