/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Works out a response that takes long, in a child of the daemon. The child has a copy of the daemon's memory as it was
 * when the child began (fork(2)), but for what is not lent to children (base/util/memory.h). So what happens meanwhile,
 * such as samples that come and go, does not disturb it, and the loop does not wait for it. The response is handed over
 * as a file in memory.
 *
 * There is one child at a time: all questions together use one CPU at most, and the memory of one answer. A child that
 * works for too long is killed, and where memory is short, the kernel ends it first.
 */

#include "counting/snapshot/self-stats.h"
#include "web/api/response.h"

#include <systemd/sd-event.h>

struct work_child;

/* Called in the child. It has no open files, and its memory is lost. */
typedef void (*work_child_work_t)(struct response *ret, const void *what);

/* Called on the loop when the child has ended, also if it was given up. */
typedef void (*work_child_done_t)(void *userdata);

/* In µs: the limit_us of a web. */
#define ANSWER_LIMIT_US 30000000U

/* stats: the CPU time of children is added there. limit_us: a child that has worked for so long is killed. Negative
 * errno. */
int work_child_new(struct work_child **ret, sd_event *loop, struct web_stats *stats, uint64_t limit_us,
		   work_child_done_t done, void *userdata);
/* Kills a child that is at work. */
struct work_child *work_child_free(struct work_child *child);
DEFINE_CLEANUP(struct work_child *, work_child_free)

/* Is a child at work, or its response not taken yet? */
bool work_child_is_busy(const struct work_child *child);

/* Begins to work. Negative errno: there is no room for a process, a file or memory; -EBUSY. */
int work_child_start(struct work_child *child, work_child_work_t work, const void *what);

/* Takes the response of a child that has ended. -EAGAIN: it is at work, or there is none; -ETIME: it took too long;
 * -ENOMEM: it took too much memory; -ECHILD: it crashed, which is logged; the error of mmap(2). */
int work_child_take(struct work_child *child, struct response *ret);

/* The response is not wanted any more. A child at work stays busy until it has ended. */
void work_child_give_up(struct work_child *child);
