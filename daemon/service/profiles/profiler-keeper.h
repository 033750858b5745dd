/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The keeper: a small process that starts the profiler, waits for its end, and starts it again.
 *
 * It is forked before there are threads and before the daemon gives up privileges, which the profiler then still has.
 * It has three descriptors beside the standard ones: a socket to the daemon and the files of the table of processes,
 * whose content so survives a crash of the profiler. The profiler is an exec of /proc/self/exe, with the descriptors
 * that profiler/protocol.h names. Each start has a new pair of sockets: no message of an earlier profiler arrives.
 *
 * A profiler that ends is started again after 0.1 s. The pause doubles with each profiler that lived less than the
 * longest pause, up to that; it is 0.1 s again after one that lived longer. A start that fails counts as a profiler
 * that did not live, and the files for the table are made by the first start that can.
 *
 * Lives are tied together. The keeper ends when its socket to the daemon does. The profiler gets SIGKILL when the
 * keeper ends (PR_SET_PDEATHSIG); where the program has file capabilities, the exec clears that (prctl(2)), and the
 * profiler ends by its own socket alone. Keeper and profiler ignore SIGINT, SIGTERM and SIGHUP: these may be sent to
 * the whole group, and it is the daemon that stops or reloads.
 */

#include "base/util/reason.h"

#include <stdint.h>

struct profiler_keeper;

#define PROFILER_LONGEST_PAUSE_NS (60 * (uint64_t)1000000000)

/* A start of the profiler, or one that failed. */
struct profiler_start {
	uint64_t number;     /* of the start, from 1 on; those that failed count */
	uint64_t pause_ns;   /* that came before it */
	int last_status;     /* how the profiler before it ended (wait(2)); -1: there was none */
	int error;	     /* errno of a start that failed, which is tried again; 0: the profiler runs */
	const char *failure; /* and a sentence on which of its steps failed, or NULL */
	int socket;	     /* SOCK_SEQPACKET to the profiler, non-blocking, close-on-exec; -1 on error */
	int pidfd;	     /* of the profiler, close-on-exec; -1 on error */
};

/* Forks the keeper, which starts the profiler at once. To be called before there are threads. argv ends with NULL.
 * Negative errno with a sentence in why. */
int profiler_keeper_start(struct profiler_keeper **ret, const char *const argv[], uint64_t longest_pause_ns,
			  struct reason *why);

/* Ends keeper and profiler: without delay for the profiler, which is to be asked to stop before. */
struct profiler_keeper *profiler_keeper_free(struct profiler_keeper *keeper);
DEFINE_CLEANUP(struct profiler_keeper *, profiler_keeper_free)

/* Readable when profiler_keeper_receive() has something to return. It stays the keeper's. */
int profiler_keeper_fd(const struct profiler_keeper *keeper);

/*
 * The next start, whose descriptors are the caller's. -EAGAIN: there is none yet. With a sentence in why:
 *   -EPIPE    the keeper has ended: there is no profiler any more, and none will be started
 *   -EMFILE   there is no room for the descriptors: this profiler ends, and the next start is another try
 *   -EBADMSG  no message of a keeper's
 *   others    errors of recvmsg(2)
 */
int profiler_keeper_receive(struct profiler_keeper *keeper, struct profiler_start *ret, struct reason *why);
