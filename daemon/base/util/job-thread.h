/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A thread that does one job at a time, so that the loop does not wait for it. The thread is started with the first
 * job, and stays until it is freed. Between two jobs it sleeps.
 *
 * All that a job reads and writes belongs to the job from job_thread_start() until job_thread_is_busy() is false, or
 * done() is called; otherwise it belongs to the caller.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct job_thread;

/* Called in the thread. */
typedef void (*job_thread_run_t)(void *userdata);
/* Called on the loop, with that priority, when a job has ended. */
typedef void (*job_thread_done_t)(void *userdata);

/* loop NULL: the end of a job is not reported, and done is NULL; job_thread_is_busy() tells it. -ENOMEM, or the error
 * of eventfd(2) or of the loop. */
int job_thread_new(struct job_thread **ret, sd_event *loop, int64_t priority, job_thread_run_t run,
		   job_thread_done_t done, void *userdata);
/* Waits for a job that runs; its end is not reported. A job that has not begun is not done. */
struct job_thread *job_thread_free(struct job_thread *thread);
DEFINE_CLEANUP(struct job_thread *, job_thread_free)

/* Has the thread do a job. Precondition: it is not busy. False: no thread can be started. */
bool job_thread_start(struct job_thread *thread);
/* The same in the caller's thread, before it returns; the loop reports the end, too. */
void job_thread_run_here(struct job_thread *thread);

/* Is a job not done yet? */
bool job_thread_is_busy(const struct job_thread *thread);
