/* SPDX-License-Identifier: MIT */

#include "util/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

struct closer {
	int to, from; /* a pipe of fd numbers */
	bool has_thread;
	pthread_t thread;
	atomic_size_t pending;
};

static void *run(void *argument)
{
	struct closer *closer = argument;
	int fd;

	/* Numbers are written whole. */
	while (read(closer->from, &fd, sizeof(fd)) == sizeof(fd)) {
		safe_close(fd);
		atomic_fetch_sub(&closer->pending, 1);
	}
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
	_cleanup_(closer_freep) struct closer *closer = calloc(1, sizeof(*closer));
	int ends[2];

	if (!closer)
		return -ENOMEM;
	closer->to = closer->from = -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	closer->from = ends[0];
	closer->to = ends[1];
	/* The thread waits, and who hands something over does not. */
	if (fcntl(closer->to, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*ret = steal_ptr(closer);
	return 0;
}

struct closer *closer_free(struct closer *closer)
{
	if (!closer)
		return NULL;
	safe_close(closer->to);
	if (closer->has_thread)
		(void)pthread_join(closer->thread, NULL);
	safe_close(closer->from);
	free(closer);
	return NULL;
}

void closer_close(struct closer *closer, int fd)
{
	if (fd < 0)
		return;
	if (!closer || !start(closer)) {
		safe_close(fd);
		return;
	}
	atomic_fetch_add(&closer->pending, 1);
	if (write(closer->to, &fd, sizeof(fd)) == sizeof(fd))
		return;
	atomic_fetch_sub(&closer->pending, 1);
	safe_close(fd);
}

size_t closer_pending(const struct closer *closer)
{
	return closer ? atomic_load(&closer->pending) : 0;
}
