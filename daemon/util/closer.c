/* SPDX-License-Identifier: MIT */

#include "util/closer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

struct closer {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* of what is below */
	int *fds;		/* a queue: from `at` to `end`, in an array of `room` */
	size_t at, end, room;
	unsigned paused; /* how many times */
	bool closing;	 /* a file, just now */
	bool ending;
	bool has_thread;
	pthread_t thread;
	atomic_size_t pending;
};

/* With the lock held, but not while it closes. */
static void close_next(struct closer *closer)
{
	int fd = closer->fds[closer->at++];

	if (closer->at == closer->end)
		closer->at = closer->end = 0;
	closer->closing = true;
	(void)pthread_mutex_unlock(&closer->lock);
	safe_close(fd);
	atomic_fetch_sub(&closer->pending, 1);
	(void)pthread_mutex_lock(&closer->lock);
	closer->closing = false;
	(void)pthread_cond_broadcast(&closer->changed);
}

static void *run(void *argument)
{
	struct closer *closer = argument;

	(void)pthread_mutex_lock(&closer->lock);
	while (closer->at < closer->end || !closer->ending)
		if (closer->at < closer->end && (!closer->paused || closer->ending))
			close_next(closer);
		else
			(void)pthread_cond_wait(&closer->changed, &closer->lock);
	(void)pthread_mutex_unlock(&closer->lock);
	return NULL;
}

/* Signals are the loop's. */
static bool start(struct closer *closer)
{
	sigset_t all, before;

	if (closer->has_thread)
		return true;
	(void)sigfillset(&all);
	if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
		return false;
	closer->has_thread = pthread_create(&closer->thread, NULL, run, closer) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return closer->has_thread;
}

int closer_new(struct closer **ret)
{
	struct closer *closer = calloc(1, sizeof(*closer));

	if (!closer)
		return -ENOMEM;
	(void)pthread_mutex_init(&closer->lock, NULL);
	(void)pthread_cond_init(&closer->changed, NULL);
	*ret = closer;
	return 0;
}

struct closer *closer_free(struct closer *closer)
{
	if (!closer)
		return NULL;
	(void)pthread_mutex_lock(&closer->lock);
	closer->ending = true;
	(void)pthread_cond_broadcast(&closer->changed);
	(void)pthread_mutex_unlock(&closer->lock);
	if (closer->has_thread)
		(void)pthread_join(closer->thread, NULL);
	(void)pthread_cond_destroy(&closer->changed);
	(void)pthread_mutex_destroy(&closer->lock);
	free(closer->fds);
	free(closer);
	return NULL;
}

/* Makes room for one more. */
static bool grow(struct closer *closer)
{
	size_t nr = closer->end - closer->at, room = closer->room ? 2 * closer->room : 64;
	int *fds;

	if (closer->end < closer->room)
		return true;
	if (nr <= closer->room / 2 && nr > 0) {
		memmove(closer->fds, closer->fds + closer->at, nr * sizeof(*fds));
		closer->at = 0;
		closer->end = nr;
		return true;
	}
	fds = reallocarray(closer->fds, room, sizeof(*fds));
	if (!fds)
		return false;
	closer->fds = fds;
	closer->room = room;
	return true;
}

static bool enqueue(struct closer *closer, int fd)
{
	bool fits;

	(void)pthread_mutex_lock(&closer->lock);
	fits = grow(closer);
	if (fits) {
		closer->fds[closer->end++] = fd;
		atomic_fetch_add(&closer->pending, 1);
		(void)pthread_cond_broadcast(&closer->changed);
	}
	(void)pthread_mutex_unlock(&closer->lock);
	return fits;
}

void closer_close(struct closer *closer, int fd)
{
	if (fd < 0)
		return;
	if (!closer || !start(closer) || !enqueue(closer, fd))
		safe_close(fd);
}

size_t closer_pending(const struct closer *closer)
{
	return closer ? atomic_load(&closer->pending) : 0;
}

void closer_pause(struct closer *closer)
{
	if (!closer)
		return;
	(void)pthread_mutex_lock(&closer->lock);
	closer->paused++;
	while (closer->closing)
		(void)pthread_cond_wait(&closer->changed, &closer->lock);
	(void)pthread_mutex_unlock(&closer->lock);
}

void closer_resume(struct closer *closer)
{
	if (!closer)
		return;
	(void)pthread_mutex_lock(&closer->lock);
	closer->paused--;
	(void)pthread_cond_broadcast(&closer->changed);
	(void)pthread_mutex_unlock(&closer->lock);
}
