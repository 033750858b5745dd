/* SPDX-License-Identifier: MIT */

#include "web/hasher.h"

#include <crypt.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

struct job {
	char password[CRYPT_MAX_PASSPHRASE_SIZE];
	char hash[CRYPT_OUTPUT_SIZE];
	bool same;
};

/* Jobs told < run < made: each number counts up, and job n stands in jobs[n % HASHER_QUEUE]. What the thread works at
 * stays at its place. */
struct hasher {
	hasher_done_t done;
	void *userdata;
	sd_event_source *io;
	int fd; /* an eventfd, written to when a job is done */
	pthread_mutex_t mutex;
	pthread_cond_t wake; /* there is a job, or it ends */
	bool has_thread, ends;
	pthread_t thread;
	uint64_t told, run, made;
	struct job jobs[HASHER_QUEUE];
};

/* --- the thread */

static bool is_same(const char *password, const char *hash, struct crypt_data *data)
{
	const char *made = crypt_r(password, hash, data);
	size_t n = strlen(hash);

	return made && strlen(made) == n && gnutls_memcmp(made, hash, n) == 0;
}

static struct timespec now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts;
}

/* As long as it was since start. Called, and returns, with the mutex held. */
static void rest(struct hasher *hasher, const struct timespec *start)
{
	struct timespec end = now();
	int64_t ns = (end.tv_sec - start->tv_sec) * 1000000000 + end.tv_nsec - start->tv_nsec;

	end.tv_sec += (end.tv_nsec + ns) / 1000000000;
	end.tv_nsec = (end.tv_nsec + ns) % 1000000000;
	while (!hasher->ends && pthread_cond_timedwait(&hasher->wake, &hasher->mutex, &end) == 0)
		;
}

/* Called, and returns, with the mutex held. */
static void do_job(struct hasher *hasher, struct job *job, struct crypt_data *data)
{
	const uint64_t one = 1;
	bool same;

	(void)pthread_mutex_unlock(&hasher->mutex);
	same = is_same(job->password, job->hash, data);
	explicit_bzero(data, sizeof(*data));
	explicit_bzero(job->password, sizeof(job->password));
	(void)pthread_mutex_lock(&hasher->mutex);
	job->same = same;
	hasher->run++;
	(void)!write(hasher->fd, &one, sizeof(one));
}

static void *work(void *argument)
{
	struct hasher *hasher = argument;
	struct crypt_data *data = calloc(1, sizeof(*data));

	(void)pthread_mutex_lock(&hasher->mutex);
	while (data && !hasher->ends) {
		struct timespec start = now();

		if (hasher->run == hasher->made) {
			(void)pthread_cond_wait(&hasher->wake, &hasher->mutex);
			continue;
		}
		do_job(hasher, &hasher->jobs[hasher->run % HASHER_QUEUE], data);
		rest(hasher, &start);
	}
	(void)pthread_mutex_unlock(&hasher->mutex);
	free(data);
	return NULL;
}

/* --- the loop's side */

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct hasher *hasher = userdata;
	uint64_t count;

	(void)source;
	(void)revents;
	(void)!read(fd, &count, sizeof(count));
	(void)pthread_mutex_lock(&hasher->mutex);
	while (hasher->told < hasher->run) {
		uint64_t number = hasher->told++;
		bool same = hasher->jobs[number % HASHER_QUEUE].same;

		(void)pthread_mutex_unlock(&hasher->mutex);
		hasher->done(hasher->userdata, number, same);
		(void)pthread_mutex_lock(&hasher->mutex);
	}
	(void)pthread_mutex_unlock(&hasher->mutex);
	return 0;
}

/* Signals are the loop's. */
static bool start(struct hasher *hasher)
{
	sigset_t all, before;

	if (hasher->has_thread)
		return true;
	(void)sigfillset(&all);
	if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
		return false;
	hasher->has_thread = pthread_create(&hasher->thread, NULL, work, hasher) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return hasher->has_thread;
}

static int make_condition(pthread_cond_t *ret)
{
	pthread_condattr_t attributes;
	int r = pthread_condattr_init(&attributes);

	if (r == 0) {
		(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
		r = pthread_cond_init(ret, &attributes);
		(void)pthread_condattr_destroy(&attributes);
	}
	return -r;
}

int hasher_new(struct hasher **ret, sd_event *loop, hasher_done_t done, void *userdata)
{
	struct hasher *hasher = calloc(1, sizeof(*hasher));
	int r;

	if (!hasher)
		return -ENOMEM;
	hasher->done = done;
	hasher->userdata = userdata;
	(void)pthread_mutex_init(&hasher->mutex, NULL);
	r = make_condition(&hasher->wake);
	if (r < 0) {
		(void)pthread_mutex_destroy(&hasher->mutex);
		free(hasher);
		return r;
	}
	hasher->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = hasher->fd < 0 ? -errno : sd_event_add_io(loop, &hasher->io, hasher->fd, EPOLLIN, on_done, hasher);
	if (r < 0) {
		hasher_free(hasher);
		return r;
	}
	*ret = hasher;
	return 0;
}

struct hasher *hasher_free(struct hasher *hasher)
{
	if (!hasher)
		return NULL;
	(void)pthread_mutex_lock(&hasher->mutex);
	hasher->ends = true;
	(void)pthread_cond_signal(&hasher->wake);
	(void)pthread_mutex_unlock(&hasher->mutex);
	if (hasher->has_thread)
		(void)pthread_join(hasher->thread, NULL);
	sd_event_source_disable_unref(hasher->io);
	safe_close(hasher->fd);
	(void)pthread_cond_destroy(&hasher->wake);
	(void)pthread_mutex_destroy(&hasher->mutex);
	explicit_bzero(hasher->jobs, sizeof(hasher->jobs));
	free(hasher);
	return NULL;
}

int hasher_submit(struct hasher *hasher, const char *password, const char *hash, uint64_t *number)
{
	struct job *job;

	if (strlen(password) >= sizeof(job->password) || strlen(hash) >= sizeof(job->hash))
		return -E2BIG;
	if (!start(hasher))
		return -EAGAIN;
	(void)pthread_mutex_lock(&hasher->mutex);
	if (hasher->made - hasher->told == HASHER_QUEUE) {
		(void)pthread_mutex_unlock(&hasher->mutex);
		return -EAGAIN;
	}
	*number = hasher->made;
	job = &hasher->jobs[hasher->made++ % HASHER_QUEUE];
	strcpy(job->password, password);
	strcpy(job->hash, hash);
	(void)pthread_cond_signal(&hasher->wake);
	(void)pthread_mutex_unlock(&hasher->mutex);
	return 0;
}
