/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The state directory belongs to one daemon at a time: two would take each other's totals, and the last to stop would
 * leave its own for both. The claim is a lock (flock(2)) on the folder itself. The kernel lets go of it however the
 * daemon ends, and nothing is left behind that would have to be removed.
 */

#include "util/reason.h"

#include <stdint.h>

/*
 * Claims the folder, waiting for up to patience ns for one that is just ending, and removes what a save of `file` that
 * was killed has left there. Returns the fd that holds the claim until it is closed. -EBUSY: another daemon has it;
 * other errors: the folder, or its file system, does not allow it. why is set with each.
 */
int state_folder_claim(const char *folder, const char *file, uint64_t patience, struct reason *why);
