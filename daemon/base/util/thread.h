/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Threads that help the loop: all signals are blocked in them, so that they reach the loop.
 *
 * A child of fork(2) has only the thread that has forked it. Locks that other threads held stay locked in the child for
 * ever. glibc frees those of malloc(3), but the allocator of AddressSanitizer does not (in gcc 12, at least). So if a
 * process has children that allocate (work-child.h), its threads allocate and free nothing. While a thread begins or
 * ends, the C library and sanitizers allocate and free. So a thread stays between its jobs (job-thread.h).
 */

#include <pthread.h>

/* pthread_create(3): a negative errno, or 0. Returns when the thread has begun. */
int thread_start(pthread_t *ret, void *(*run)(void *argument), void *argument);
