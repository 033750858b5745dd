/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Threads that help the loop: all signals are blocked in them, so that they reach the loop.
 */

#include <pthread.h>

/* pthread_create(3): a negative errno, or 0. */
int thread_start(pthread_t *ret, void *(*run)(void *argument), void *argument);
