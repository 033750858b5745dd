/* SPDX-License-Identifier: MIT */

#include "base/util/job-thread.h"

#include "base/util/thread.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct job_thread {
	job_thread_run_t run;
	job_thread_done_t done;
	void *userdata;
	sd_event_source *io; /* NULL: nothing is reported */
	int fd;		     /* an eventfd, written to when a job has ended; -1: none */
	sem_t wake;	     /* there is a job, or the thread has to end */
	atomic_bool is_busy, ends;
	bool has_thread;
	pthread_t thread;
};

static void run_job(struct job_thread *thread)
{
	const uint64_t one = 1;

	thread->run(thread->userdata);
	atomic_store(&thread->is_busy, false);
	if (thread->fd >= 0)
		(void)!write(thread->fd, &one, sizeof(one));
}

static void *thread_main(void *argument)
{
	struct job_thread *thread = argument;

	for (;;) {
		while (sem_wait(&thread->wake) < 0)
			;
		if (atomic_load(&thread->ends))
			return NULL;
		run_job(thread);
	}
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	const struct job_thread *thread = userdata;
	uint64_t count;

	(void)source;
	(void)revents;
	(void)!read(fd, &count, sizeof(count));
	thread->done(thread->userdata);
	return 0;
}

static int report_to(struct job_thread *thread, sd_event *loop, int64_t priority)
{
	int r;

	thread->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (thread->fd < 0)
		return -errno;
	r = sd_event_add_io(loop, &thread->io, thread->fd, EPOLLIN, on_done, thread);
	return r < 0 ? r : sd_event_source_set_priority(thread->io, priority);
}

int job_thread_new(struct job_thread **ret, sd_event *loop, int64_t priority, job_thread_run_t run,
		   job_thread_done_t done, void *userdata)
{
	_cleanup_(job_thread_freep) struct job_thread *thread = calloc(1, sizeof(*thread));
	int r;

	if (!thread)
		return -ENOMEM;
	thread->run = run;
	thread->done = done;
	thread->userdata = userdata;
	thread->fd = -1;
	(void)sem_init(&thread->wake, 0, 0);
	r = loop ? report_to(thread, loop, priority) : 0;
	if (r < 0)
		return r;
	*ret = steal_ptr(thread);
	return 0;
}

struct job_thread *job_thread_free(struct job_thread *thread)
{
	if (!thread)
		return NULL;
	atomic_store(&thread->ends, true);
	(void)sem_post(&thread->wake);
	if (thread->has_thread)
		(void)pthread_join(thread->thread, NULL);
	sd_event_source_disable_unref(thread->io);
	safe_close(thread->fd);
	(void)sem_destroy(&thread->wake);
	free(thread);
	return NULL;
}

bool job_thread_start(struct job_thread *thread)
{
	assert(!atomic_load(&thread->is_busy));
	if (!thread->has_thread)
		thread->has_thread = thread_start(&thread->thread, thread_main, thread) == 0;
	if (!thread->has_thread)
		return false;
	atomic_store(&thread->is_busy, true);
	(void)sem_post(&thread->wake);
	return true;
}

void job_thread_run_here(struct job_thread *thread)
{
	assert(!atomic_load(&thread->is_busy));
	run_job(thread);
}

bool job_thread_is_busy(const struct job_thread *thread)
{
	return atomic_load(&thread->is_busy);
}
