/* SPDX-License-Identifier: MIT */

#include "web/http/password-worker.h"

#include "base/util/clock.h"
#include "base/util/job-thread.h"

#include <crypt.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <string.h>

struct job {
	char password[CRYPT_MAX_PASSPHRASE_SIZE];
	char hash[CRYPT_OUTPUT_SIZE];
};

/* Job n is in jobs[n % PASSWORD_QUEUE]. Jobs from `checked` to before `submitted` wait; the thread has the first of
 * them if it is at work. */
struct password_worker {
	password_worker_done_t done;
	void *userdata;
	struct job_thread *thread;
	sd_event_source *rest;
	bool is_at_work; /* or rests */
	uint64_t checked, submitted;
	struct job jobs[PASSWORD_QUEUE];
	/* The thread's: */
	struct crypt_data data;
	uint64_t ns; /* that the check took */
	bool same;
};

/* --- the thread */

static bool password_fits(const char *password, const char *hash, struct crypt_data *data)
{
	const char *result = crypt_r(password, hash, data);
	size_t n = strlen(hash);

	return result && strlen(result) == n && gnutls_memcmp(result, hash, n) == 0;
}

static void check(void *userdata)
{
	struct password_worker *worker = userdata;
	struct job *job = &worker->jobs[worker->checked % PASSWORD_QUEUE];
	uint64_t start_ns = clock_monotonic_ns();

	worker->same = password_fits(job->password, job->hash, &worker->data);
	explicit_bzero(&worker->data, sizeof(worker->data));
	explicit_bzero(job->password, sizeof(job->password));
	worker->ns = clock_monotonic_ns() - start_ns;
}

/* --- on the loop */

/* False: no thread can be started. */
static bool check_next(struct password_worker *worker)
{
	worker->is_at_work = worker->checked < worker->submitted && job_thread_start(worker->thread);
	return worker->is_at_work;
}

static int on_rested(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	(void)check_next(userdata); /* the thread is there */
	return 0;
}

/* Rests for as long as the check took. */
static void on_checked(void *userdata)
{
	struct password_worker *worker = userdata;
	int r = sd_event_source_set_time_relative(worker->rest, worker->ns / NS_PER_US);

	if (r >= 0)
		r = sd_event_source_set_enabled(worker->rest, SD_EVENT_ONESHOT);
	worker->done(worker->userdata, worker->checked++, worker->same);
	if (r < 0)
		(void)check_next(worker);
}

int password_worker_new(struct password_worker **ret, sd_event *loop, password_worker_done_t done, void *userdata)
{
	_cleanup_(password_worker_freep) struct password_worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->done = done;
	worker->userdata = userdata;
	r = job_thread_new(&worker->thread, loop, SD_EVENT_PRIORITY_NORMAL, check, on_checked, worker);
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &worker->rest, CLOCK_MONOTONIC, 0, 1, on_rested, worker);
	if (r >= 0)
		r = sd_event_source_set_enabled(worker->rest, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = steal_ptr(worker);
	return 0;
}

struct password_worker *password_worker_free(struct password_worker *worker)
{
	if (!worker)
		return NULL;
	job_thread_free(worker->thread);
	sd_event_source_disable_unref(worker->rest);
	explicit_bzero(worker->jobs, sizeof(worker->jobs));
	free(worker);
	return NULL;
}

int password_worker_submit(struct password_worker *worker, const char *password, const char *hash, uint64_t *ret_number)
{
	struct job *job = &worker->jobs[worker->submitted % PASSWORD_QUEUE];

	if (strlen(password) >= sizeof(job->password) || strlen(hash) >= sizeof(job->hash))
		return -E2BIG;
	if (worker->submitted - worker->checked == PASSWORD_QUEUE)
		return -EAGAIN;
	strcpy(job->password, password);
	strcpy(job->hash, hash);
	worker->submitted++;
	if (!worker->is_at_work && !check_next(worker)) {
		worker->submitted--;
		explicit_bzero(job, sizeof(*job));
		return -EAGAIN;
	}
	*ret_number = worker->submitted - 1;
	return 0;
}
