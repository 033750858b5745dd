/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The machine's CPUs: which are online, from /sys/devices/system/cpu/online.
 */

#include "util/cpulist.h"
#include "util/reason.h"

/* Reads sysroot/devices/system/cpu/online (sysroot is "/sys" but in tests). Negative errno with the
 * sentence, which names the file, in why. */
int cpu_online(struct cpulist *ret, const char *sysroot, struct reason *why);
