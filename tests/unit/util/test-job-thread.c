/* SPDX-License-Identifier: MIT */

/* The thread that does one job at a time: jobs are done, their ends are reported once, and it stays. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/util/job-thread.h"

#include <pthread.h>
#include <semaphore.h>

struct fixture {
	sd_event *loop;
	struct job_thread *thread;
	sem_t go; /* a job ends after that */
	pthread_t ran_in;
	unsigned nr_run, nr_done;
};

static void run(void *userdata)
{
	struct fixture *f = userdata;

	while (sem_wait(&f->go) < 0)
		;
	f->ran_in = pthread_self();
	f->nr_run++;
}

static void on_done(void *userdata)
{
	struct fixture *f = userdata;

	f->nr_done++;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(sem_init(&f->go, 0, 0), 0);
	assert_int_equal(sd_event_new(&f->loop), 0);
	assert_int_equal(job_thread_new(&f->thread, f->loop, SD_EVENT_PRIORITY_NORMAL, run, on_done, f), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	job_thread_free(f->thread);
	assert_null(sd_event_unref(f->loop));
	(void)sem_destroy(&f->go);
	free(f);
	return 0;
}

static void run_until_done(struct fixture *f, unsigned nr)
{
	while (f->nr_done < nr)
		assert_true(sd_event_run(f->loop, UINT64_MAX) >= 0);
}

/* All jobs are done in one thread, which is not the loop's. */
static void test_jobs(void **state)
{
	struct fixture *f = *state;
	pthread_t first;

	assert_false(job_thread_is_busy(f->thread));
	assert_true(job_thread_start(f->thread));
	assert_true(job_thread_is_busy(f->thread));
	(void)sem_post(&f->go);
	run_until_done(f, 1);
	first = f->ran_in;
	assert_false(pthread_equal(first, pthread_self()));
	for (unsigned i = 2; i <= 5; i++) {
		assert_false(job_thread_is_busy(f->thread));
		assert_true(job_thread_start(f->thread));
		(void)sem_post(&f->go);
		run_until_done(f, i);
		assert_true(pthread_equal(f->ran_in, first));
	}
	assert_int_equal(f->nr_run, 5);
	/* Each end is reported once. */
	assert_int_equal(sd_event_run(f->loop, 0), 0);
	assert_int_equal(f->nr_done, 5);
}

static void test_here(void **state)
{
	struct fixture *f = *state;

	(void)sem_post(&f->go);
	job_thread_run_here(f->thread);
	assert_int_equal(f->nr_run, 1);
	assert_true(pthread_equal(f->ran_in, pthread_self()));
	assert_int_equal(f->nr_done, 0);
	run_until_done(f, 1);
}

/* A job that runs is waited for; its end is not reported. */
static void test_end(void **state)
{
	struct fixture *f = *state;

	(void)sem_post(&f->go);
	assert_true(job_thread_start(f->thread));
	while (job_thread_is_busy(f->thread))
		(void)sched_yield();
	assert_true(job_thread_start(f->thread));
	(void)sem_post(&f->go);
	f->thread = job_thread_free(f->thread);
	assert_true(f->nr_run == 1 || f->nr_run == 2);
	assert_int_equal(sd_event_run(f->loop, 0), 0);
	assert_int_equal(f->nr_done, 0);
}

/* Without a loop, only the state tells. */
static void test_without_loop(void **state)
{
	struct fixture *f = *state;
	struct job_thread *thread;

	assert_int_equal(job_thread_new(&thread, NULL, 0, run, NULL, f), 0);
	assert_true(job_thread_start(thread));
	assert_true(job_thread_is_busy(thread));
	(void)sem_post(&f->go);
	while (job_thread_is_busy(thread))
		(void)sched_yield();
	assert_int_equal(f->nr_run, 1);
	job_thread_free(thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_jobs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_here, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_loop, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
