/* SPDX-License-Identifier: MIT */
#pragma once

/* What all children of the daemon have in common: they leave its files alone, and their end keeps nobody waiting. */

#include <sys/types.h>

/* In the child: closes all files from `first` on, but for one, if that is among them (-1: none). Allocates nothing. */
void child_close_files(int first, int but);

/* In the child: where memory is short, the kernel ends it rather than its parent. score: of oom_score_adj (proc(5)),
 * above the parent's. A process may always raise its own; it fails where the process is not dumpable. */
void child_offer_to_oom_killer(const char *score);

/* In the daemon: kills the child, and waits for its end, but for a moment only: it may hang where no signal reaches it.
 * pidfd -1: it has none. */
void child_kill(pid_t pid, int pidfd);
