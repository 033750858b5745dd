/* SPDX-License-Identifier: MIT */

#include "base/util/thread.h"

#include <semaphore.h>
#include <signal.h>

/* Until `began` is posted, it is the starter's. */
struct start {
	void *(*run)(void *argument);
	void *argument;
	sem_t began;
};

static void *begin(void *argument)
{
	struct start *start = argument, copy = { .run = start->run, .argument = start->argument };

	(void)sem_post(&start->began);
	return copy.run(copy.argument);
}

int thread_start(pthread_t *ret, void *(*run)(void *argument), void *argument)
{
	struct start start = { .run = run, .argument = argument };
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	r = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r != 0)
		return -r;
	(void)sem_init(&start.began, 0, 0);
	r = pthread_create(ret, NULL, begin, &start);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (r == 0 && sem_wait(&start.began) < 0)
		;
	(void)sem_destroy(&start.began);
	return -r;
}
