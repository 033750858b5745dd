/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The procfs of this process's own PID namespace. It is read for the process itself (mounts, memory) and for values
 * that are the same in every procfs (boot_id), whatever [daemon] procfs names: the procfs of another PID namespace may
 * have no entry for this process.
 */
#define OWN_PROCFS "/proc"
