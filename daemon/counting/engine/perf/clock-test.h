/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Does the kernel keep what cpu-clock has counted when the event leaves its CPU? Linux 6.16 and 6.17 do not (since
 * commit bc4394e5e79c, until f1f96511b1c4): what has passed since the last reading is lost. An event of a CPU never
 * leaves it, but that of a cgroup does at each switch, and reads nearly 0. task-clock is right on all kernels.
 *
 * The test is a cpu-clock of this thread that is read, stopped, and read again.
 */

#include <stdbool.h>

/* True: it is lost. False too where that can't be found out. */
bool clock_test_loses(void);
