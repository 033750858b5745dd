/* SPDX-License-Identifier: MIT */

#include "web/http/password-worker.h"

#include "base/util/clock.h"
#include "base/util/thread.h"

#include <crypt.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/eventfd.h>

struct job {
	char password[CRYPT_MAX_PASSPHRASE_SIZE];
	char hash[CRYPT_OUTPUT_SIZE];
	bool same;
};

/* Job n is in jobs[n % PASSWORD_QUEUE]. Three numbers count up, reported <= checked <= submitted: a job below the
 * first is over, below the second the loop has to report it, below the third the thread has to check it. */
struct password_worker {
	password_worker_done_t done;
	void *userdata;
	sd_event_source *io;
	int fd; /* an eventfd, written to when a job is done */
	pthread_mutex_t mutex;
	pthread_cond_t wake; /* a job was submitted, or the thread has to end */
	bool has_thread, ends;
	pthread_t thread;
	uint64_t reported, checked, submitted;
	struct job jobs[PASSWORD_QUEUE];
};

/* --- the thread */

static bool password_fits(const char *password, const char *hash, struct crypt_data *data)
{
	const char *result = crypt_r(password, hash, data);
	size_t n = strlen(hash);

	return result && strlen(result) == n && gnutls_memcmp(result, hash, n) == 0;
}

/* Waits for as long as the check took that began at start_ns. Called, and returns, with the mutex held. */
static void worker_rest(struct password_worker *worker, uint64_t start_ns)
{
	uint64_t now = clock_monotonic_ns();
	const struct timespec end = timespec_of_ns(now + (now - start_ns));

	while (!worker->ends && pthread_cond_timedwait(&worker->wake, &worker->mutex, &end) == 0)
		;
}

/* Called, and returns, with the mutex held, which is free during the check: the job stays at its place. */
static void worker_check(struct password_worker *worker, struct job *job, struct crypt_data *data)
{
	const uint64_t one = 1;
	bool same;

	(void)pthread_mutex_unlock(&worker->mutex);
	same = password_fits(job->password, job->hash, data);
	explicit_bzero(data, sizeof(*data));
	explicit_bzero(job->password, sizeof(job->password));
	(void)pthread_mutex_lock(&worker->mutex);
	job->same = same;
	worker->checked++;
	(void)!write(worker->fd, &one, sizeof(one));
}

static void *worker_main(void *argument)
{
	struct password_worker *worker = argument;
	struct crypt_data *data = calloc(1, sizeof(*data));

	(void)pthread_mutex_lock(&worker->mutex);
	while (data && !worker->ends) {
		uint64_t start_ns = clock_monotonic_ns();

		if (worker->checked == worker->submitted) {
			(void)pthread_cond_wait(&worker->wake, &worker->mutex);
			continue;
		}
		worker_check(worker, &worker->jobs[worker->checked % PASSWORD_QUEUE], data);
		worker_rest(worker, start_ns);
	}
	(void)pthread_mutex_unlock(&worker->mutex);
	free(data);
	return NULL;
}

/* --- on the loop */

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct password_worker *worker = userdata;
	uint64_t count;

	(void)source;
	(void)revents;
	(void)!read(fd, &count, sizeof(count));
	(void)pthread_mutex_lock(&worker->mutex);
	while (worker->reported < worker->checked) {
		uint64_t number = worker->reported++;
		bool same = worker->jobs[number % PASSWORD_QUEUE].same;

		(void)pthread_mutex_unlock(&worker->mutex);
		worker->done(worker->userdata, number, same);
		(void)pthread_mutex_lock(&worker->mutex);
	}
	(void)pthread_mutex_unlock(&worker->mutex);
	return 0;
}

static bool worker_start(struct password_worker *worker)
{
	if (!worker->has_thread)
		worker->has_thread = thread_start(&worker->thread, worker_main, worker) == 0;
	return worker->has_thread;
}

static int condition_init(pthread_cond_t *ret)
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

int password_worker_new(struct password_worker **ret, sd_event *loop, password_worker_done_t done, void *userdata)
{
	struct password_worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->done = done;
	worker->userdata = userdata;
	(void)pthread_mutex_init(&worker->mutex, NULL);
	r = condition_init(&worker->wake);
	if (r < 0) {
		(void)pthread_mutex_destroy(&worker->mutex);
		free(worker);
		return r;
	}
	worker->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = worker->fd < 0 ? -errno : sd_event_add_io(loop, &worker->io, worker->fd, EPOLLIN, on_done, worker);
	if (r < 0) {
		password_worker_free(worker);
		return r;
	}
	*ret = worker;
	return 0;
}

struct password_worker *password_worker_free(struct password_worker *worker)
{
	if (!worker)
		return NULL;
	(void)pthread_mutex_lock(&worker->mutex);
	worker->ends = true;
	(void)pthread_cond_signal(&worker->wake);
	(void)pthread_mutex_unlock(&worker->mutex);
	if (worker->has_thread)
		(void)pthread_join(worker->thread, NULL);
	sd_event_source_disable_unref(worker->io);
	safe_close(worker->fd);
	(void)pthread_cond_destroy(&worker->wake);
	(void)pthread_mutex_destroy(&worker->mutex);
	explicit_bzero(worker->jobs, sizeof(worker->jobs));
	free(worker);
	return NULL;
}

int password_worker_submit(struct password_worker *worker, const char *password, const char *hash, uint64_t *ret_number)
{
	struct job *job;

	if (strlen(password) >= sizeof(job->password) || strlen(hash) >= sizeof(job->hash))
		return -E2BIG;
	if (!worker_start(worker))
		return -EAGAIN;
	(void)pthread_mutex_lock(&worker->mutex);
	if (worker->submitted - worker->reported == PASSWORD_QUEUE) {
		(void)pthread_mutex_unlock(&worker->mutex);
		return -EAGAIN;
	}
	*ret_number = worker->submitted;
	job = &worker->jobs[worker->submitted++ % PASSWORD_QUEUE];
	strcpy(job->password, password);
	strcpy(job->hash, hash);
	(void)pthread_cond_signal(&worker->wake);
	(void)pthread_mutex_unlock(&worker->mutex);
	return 0;
}
