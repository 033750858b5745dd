/* SPDX-License-Identifier: MIT */

#include "base/util/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret, void *(*run)(void *argument), void *argument)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	r = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r != 0)
		return -r;
	r = pthread_create(ret, NULL, run, argument);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}
