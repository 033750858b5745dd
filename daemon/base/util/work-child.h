/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Does work that takes long in a child of the daemon. The child has a copy of the daemon's memory as it was at the
 * fork(2), except memory that children do not get (memory.h). So changes in the daemon do not disturb the work, and
 * the loop does not wait for it.
 *
 * The result has two parts: a head of a fixed size, in memory that both processes share, and a body of any size, in a
 * memfd. A pointer in the head may only point to constants of the program, which have the same address in both.
 *
 * A struct work_child has one child at a time. A child that works for too long is killed. Where memory is short, the
 * kernel ends the child and not the daemon.
 *
 * The child allocates memory. So threads of the process must not hold locks of the allocator at the fork (thread.h).
 */

#include "base/util/buf.h"
#include "base/util/reason.h"

#include <systemd/sd-event.h>

struct work_child;

/* Called in the child. It has no open files, and its memory is lost. out becomes the body; head is zeroed. */
typedef void (*work_child_work_t)(struct buf *out, void *head, const void *what);

/* Called on the loop when the child has ended, also if it was given up. */
typedef void (*work_child_done_t)(void *userdata);

/* head_size: in bytes. limit_us: a child that has worked for so long is killed. Negative errno. */
int work_child_new(struct work_child **ret, sd_event *loop, size_t head_size, uint64_t limit_us, work_child_done_t done,
		   void *userdata);
/* Kills a child that is at work. */
struct work_child *work_child_free(struct work_child *child);
DEFINE_CLEANUP(struct work_child *, work_child_free)

/* Is a child at work, or its result not taken yet? */
bool work_child_is_busy(const struct work_child *child);

/* Begins to work. Negative errno, with the sentence on what there is no room for: a file in memory, a process, or what
 * is needed to wait for it; -EBUSY. */
int work_child_start(struct work_child *child, work_child_work_t work, const void *what, struct reason *why);

/*
 * Takes the result of a child that has ended: copies its head, and returns its body as a file of ret_len bytes, which
 * is the caller's and changes no more (blob_new_mapped()). ret_body may be NULL: the body is dropped.
 *
 * Errors, with a predicate for a sentence about the child in why: -EAGAIN it is at work, or there is none; -ETIME "took
 * too long"; -ENOMEM "took too much memory"; -ECHILD "crashed: signal 11 (Segmentation fault)".
 */
int work_child_take(struct work_child *child, void *ret_head, int *ret_body, size_t *ret_len, struct reason *why);

/* The result is not wanted any more. A child at work stays busy until it has ended. */
void work_child_give_up(struct work_child *child);

/* CPU time, in ns, of the child that ended last (getrusage(2), user and system). */
uint64_t work_child_cpu_ns(const struct work_child *child);
