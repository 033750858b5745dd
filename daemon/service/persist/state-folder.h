/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The state directory belongs to one daemon at a time: two would take each other's totals, and the last to stop would
 * leave its own for both. The claim is a lock (flock(2)) on the folder itself, which the kernel releases however the
 * daemon ends. No lock file is left behind.
 */

#include "base/util/reason.h"

#include <stdint.h>

/*
 * Claims the folder and removes temporary files that were left where a save of `file` was killed. Waits up to patience
 * ns for a daemon that is stopping. Returns the fd that holds the claim until it is closed. -EBUSY: another daemon has
 * it; other errors: the folder, or its file system, does not allow it. why is set with each.
 */
int state_folder_claim(const char *folder, const char *file, uint64_t patience, struct reason *why);

/* In a folder that is claimed: removes temporary files of another file than that one. */
void state_folder_tidy(int folder, const char *file);
