/* SPDX-License-Identifier: MIT */

#include "base/host/maps-reader.h"

#include "base/util/clock.h"
#include "base/util/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS_MAX 4

/* Of an answer. Mappings for which there is no room are left out. */
#define ANSWER_SIZE ((size_t)1 << 20)
#define ALIGNMENT _Alignof(struct proc_mapping)

enum job_state {
	JOB_FREE,
	JOB_ASKED, /* the thread reads */
	JOB_DONE,
};

/* A thread's. The answer's members are the thread's own while it reads. */
struct job {
	struct maps_reader *reader;
	bool has_thread;
	enum job_state state;
	uint32_t pid;
	int error;
	unsigned char *answer; /* struct proc_mapping, its path, padding, and so on; the threads allocate nothing */
	size_t size;
};

struct maps_reader {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a job's state, or `ending`, or the number of threads */
	char *procroot;
	uint64_t patience;
	uint64_t left;	   /* ns that may be waited in vain … */
	uint64_t refilled; /* … at this moment, CLOCK_MONOTONIC ns */
	struct job jobs[THREADS_MAX];
	size_t nr_threads;
	bool ending, abandoned; /* the last thread frees it */
	atomic_size_t nr_done;
};

static size_t padded(size_t size)
{
	return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* --- in a thread */

static int keep_mapping(void *userdata, const struct proc_mapping *mapping)
{
	size_t path_size = strlen(mapping->path) + 1, size = padded(sizeof(*mapping) + path_size);
	struct job *job = userdata;
	struct proc_mapping *kept = (struct proc_mapping *)(void *)(job->answer + job->size);

	if (size > ANSWER_SIZE - job->size)
		return 0;
	*kept = *mapping;
	kept->path = memcpy(kept + 1, mapping->path, path_size);
	job->size += size;
	return 0;
}

static void reader_destroy(struct maps_reader *reader)
{
	for (size_t i = 0; i < THREADS_MAX; i++)
		if (reader->jobs[i].answer)
			(void)munmap(reader->jobs[i].answer, ANSWER_SIZE);
	(void)pthread_cond_destroy(&reader->changed);
	(void)pthread_mutex_destroy(&reader->lock);
	free(reader->procroot);
	free(reader);
}

/* The lock is held on entry and return, but not while it reads. */
static void do_job(struct maps_reader *reader, struct job *job)
{
	int r;

	(void)pthread_mutex_unlock(&reader->lock);
	job->size = 0;
	r = proc_maps_read(reader->procroot, job->pid, MAPPINGS_MAX, keep_mapping, job);
	(void)pthread_mutex_lock(&reader->lock);
	job->error = r;
	job->state = JOB_DONE;
	atomic_fetch_add(&reader->nr_done, 1);
	(void)pthread_cond_broadcast(&reader->changed);
}

static void *thread_run(void *argument)
{
	struct job *job = argument;
	struct maps_reader *reader = job->reader;
	bool last;

	(void)pthread_mutex_lock(&reader->lock);
	while (job->state == JOB_ASKED || !reader->ending)
		if (job->state == JOB_ASKED)
			do_job(reader, job);
		else
			(void)pthread_cond_wait(&reader->changed, &reader->lock);
	last = --reader->nr_threads == 0 && reader->abandoned;
	(void)pthread_cond_broadcast(&reader->changed);
	(void)pthread_mutex_unlock(&reader->lock);
	if (last)
		reader_destroy(reader);
	return NULL;
}

/* --- in the caller's thread, with the lock held */

static bool start_thread(struct job *job)
{
	pthread_t thread;
	void *memory;

	if (!job->answer) {
		memory = mmap(NULL, ANSWER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			return false;
		job->answer = memory;
	}
	job->has_thread = thread_start(&thread, thread_run, job) == 0;
	if (job->has_thread)
		(void)pthread_detach(thread);
	job->reader->nr_threads += job->has_thread;
	return job->has_thread;
}

static struct job *find_job(struct maps_reader *reader, uint32_t pid)
{
	for (size_t i = 0; i < THREADS_MAX; i++)
		if (reader->jobs[i].state != JOB_FREE && reader->jobs[i].pid == pid)
			return &reader->jobs[i];
	return NULL;
}

/* NULL: all threads are busy, or there can be no other. */
static struct job *begin_job(struct maps_reader *reader, uint32_t pid)
{
	for (size_t i = 0; i < THREADS_MAX; i++) {
		struct job *job = &reader->jobs[i];

		if (job->state != JOB_FREE)
			continue;
		if (!job->has_thread && !start_thread(job))
			return NULL;
		job->pid = pid;
		job->state = JOB_ASKED;
		(void)pthread_cond_broadcast(&reader->changed);
		return job;
	}
	return NULL;
}

static void end_job(struct job *job)
{
	job->state = JOB_FREE;
	atomic_fetch_sub(&job->reader->nr_done, 1);
	(void)madvise(job->answer, ANSWER_SIZE, MADV_DONTNEED);
}

/* As long as there is patience; what is waited in vain is taken from it. */
static void wait_for(struct maps_reader *reader, const struct job *job)
{
	uint64_t begun = clock_monotonic_ns(), all = reader->left + (begun - reader->refilled) / 10;
	struct timespec until;

	reader->left = all < reader->patience ? all : reader->patience;
	reader->refilled = begun;
	until = timespec_of_ns(begun + reader->left);
	while (job->state == JOB_ASKED)
		if (reader->patience == MAPS_READER_FOREVER)
			(void)pthread_cond_wait(&reader->changed, &reader->lock);
		else if (pthread_cond_timedwait(&reader->changed, &reader->lock, &until) == ETIMEDOUT)
			break;
	if (job->state == JOB_ASKED)
		reader->left = 0;
}

static int take_answer(const struct job *job, int (*take)(void *userdata, const struct proc_mapping *mapping),
		       void *userdata)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < job->size;) {
		const struct proc_mapping *mapping = (const struct proc_mapping *)(void *)(job->answer + at);

		r = take(userdata, mapping);
		at += padded(sizeof(*mapping) + strlen(mapping->path) + 1);
	}
	return r < 0 ? r : job->error;
}

/* --- without the lock */

int maps_reader_read(struct maps_reader *reader, uint32_t pid,
		     int (*take)(void *userdata, const struct proc_mapping *mapping), void *userdata)
{
	struct job *job;
	int r = -EBUSY;

	(void)pthread_mutex_lock(&reader->lock);
	job = find_job(reader, pid);
	if (!job) {
		job = begin_job(reader, pid);
		if (job)
			wait_for(reader, job);
	}
	if (job && job->state == JOB_ASKED)
		r = -EAGAIN;
	/* The thread leaves what is done alone. */
	(void)pthread_mutex_unlock(&reader->lock);
	if (!job || r == -EAGAIN)
		return r;
	r = take_answer(job, take, userdata);
	(void)pthread_mutex_lock(&reader->lock);
	end_job(job);
	(void)pthread_mutex_unlock(&reader->lock);
	return r;
}

uint32_t maps_reader_late(struct maps_reader *reader)
{
	uint32_t pid = 0;

	if (atomic_load(&reader->nr_done) == 0)
		return 0;
	(void)pthread_mutex_lock(&reader->lock);
	for (size_t i = 0; i < THREADS_MAX; i++)
		if (reader->jobs[i].state == JOB_DONE)
			pid = reader->jobs[i].pid;
	(void)pthread_mutex_unlock(&reader->lock);
	return pid;
}

void maps_reader_forget(struct maps_reader *reader, uint32_t pid)
{
	struct job *job;

	(void)pthread_mutex_lock(&reader->lock);
	job = find_job(reader, pid);
	if (job && job->state == JOB_DONE)
		end_job(job);
	(void)pthread_mutex_unlock(&reader->lock);
}

int maps_reader_new(struct maps_reader **ret, const char *procroot, uint64_t patience)
{
	struct maps_reader *reader = calloc(1, sizeof(*reader));
	pthread_condattr_t monotonic;

	if (!reader)
		return -ENOMEM;
	reader->procroot = strdup(procroot);
	if (!reader->procroot || pthread_condattr_init(&monotonic) != 0) {
		free(reader->procroot);
		free(reader);
		return -ENOMEM;
	}
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&reader->lock, NULL);
	(void)pthread_cond_init(&reader->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	reader->patience = reader->left = patience;
	reader->refilled = clock_monotonic_ns();
	for (size_t i = 0; i < THREADS_MAX; i++)
		reader->jobs[i].reader = reader;
	*ret = reader;
	return 0;
}

/* How many threads wait for a process. */
static size_t nr_reading(const struct maps_reader *reader)
{
	size_t nr = 0;

	for (size_t i = 0; i < THREADS_MAX; i++)
		nr += reader->jobs[i].state == JOB_ASKED;
	return nr;
}

struct maps_reader *maps_reader_free(struct maps_reader *reader)
{
	bool last;

	if (!reader)
		return NULL;
	(void)pthread_mutex_lock(&reader->lock);
	reader->ending = true;
	(void)pthread_cond_broadcast(&reader->changed);
	while (reader->nr_threads > nr_reading(reader))
		(void)pthread_cond_wait(&reader->changed, &reader->lock);
	last = reader->nr_threads == 0;
	reader->abandoned = !last;
	(void)pthread_mutex_unlock(&reader->lock);
	if (last)
		reader_destroy(reader);
	return NULL;
}
