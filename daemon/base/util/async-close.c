/* SPDX-License-Identifier: MIT */

#include "base/util/async-close.h"

#include "base/util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

struct async_close {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* any of the members below */
	int *fds;		/* a queue: from `at` to `end`, in an array of `room` */
	size_t at, end, room;
	unsigned paused; /* how many times */
	bool closing;	 /* a file is being closed */
	bool ending;
	bool has_thread;
	pthread_t thread;
	atomic_size_t pending;
};

/* The lock is held on entry and return, but not during close(2). */
static void close_next(struct async_close *closer)
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

/* At the end it closes all that is left, even if it is paused: the owner waits for it. */
static void *thread_run(void *argument)
{
	struct async_close *closer = argument;

	(void)pthread_mutex_lock(&closer->lock);
	while (closer->at < closer->end || !closer->ending)
		if (closer->at < closer->end && (!closer->paused || closer->ending))
			close_next(closer);
		else
			(void)pthread_cond_wait(&closer->changed, &closer->lock);
	(void)pthread_mutex_unlock(&closer->lock);
	return NULL;
}

static bool start(struct async_close *closer)
{
	if (!closer->has_thread)
		closer->has_thread = thread_start(&closer->thread, thread_run, closer) == 0;
	return closer->has_thread;
}

int async_close_new(struct async_close **ret)
{
	struct async_close *closer = calloc(1, sizeof(*closer));

	if (!closer)
		return -ENOMEM;
	(void)pthread_mutex_init(&closer->lock, NULL);
	(void)pthread_cond_init(&closer->changed, NULL);
	*ret = closer;
	return 0;
}

struct async_close *async_close_free(struct async_close *closer)
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

/* Makes room for one more: by moving the queue to the front of the array if half of it is free, else by a larger
 * one. */
static bool queue_grow(struct async_close *closer)
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

static bool queue_add(struct async_close *closer, int fd)
{
	bool fits;

	(void)pthread_mutex_lock(&closer->lock);
	fits = queue_grow(closer);
	if (fits) {
		closer->fds[closer->end++] = fd;
		atomic_fetch_add(&closer->pending, 1);
		(void)pthread_cond_broadcast(&closer->changed);
	}
	(void)pthread_mutex_unlock(&closer->lock);
	return fits;
}

void async_close_submit(struct async_close *closer, int fd)
{
	if (fd < 0)
		return;
	if (!closer || !start(closer) || !queue_add(closer, fd))
		safe_close(fd);
}

size_t async_close_pending(const struct async_close *closer)
{
	return closer ? atomic_load(&closer->pending) : 0;
}

void async_close_pause(struct async_close *closer)
{
	if (!closer)
		return;
	(void)pthread_mutex_lock(&closer->lock);
	closer->paused++;
	while (closer->closing)
		(void)pthread_cond_wait(&closer->changed, &closer->lock);
	(void)pthread_mutex_unlock(&closer->lock);
}

void async_close_resume(struct async_close *closer)
{
	if (!closer)
		return;
	(void)pthread_mutex_lock(&closer->lock);
	assert(closer->paused > 0);
	closer->paused--;
	(void)pthread_cond_broadcast(&closer->changed);
	(void)pthread_mutex_unlock(&closer->lock);
}
