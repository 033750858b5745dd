/* SPDX-License-Identifier: MIT */

/* Responses that need an answer of the profiler: the loop goes on, whatever happens meanwhile. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/web-fixture.h"

#include "base/util/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define QUEUE 32
#define QUESTION "GET /api/v1/profile?format=folded HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define ANSWER "\r\n\r\n/a;x;f 1\n"
/* Takes long to check. */
#define HASH_ENGINE "$2b$12$abcdefghijklmnopqrstuu/Cf7Myu4ZEkrhxcW5BTjTArIUtD3XL."
#define ADA "Authorization: Basic YWRhOmVuZ2luZQ==\r\n"

/* A moment ago: a stretch that ends now has none of the samples of this millisecond. */
static void add_sample(struct fixture *f, const char *cgroup, uint64_t number)
{
	const struct archive_place place = {
		.path = "/bin/x", .offset = 1 + number, .name = number ? "g" : "f", .naming = NAMING_NAMED
	};
	const struct archive_sample sample = {
		.time = clock_monotonic_ns() - 10 * NS_PER_MS,
		.event = "cpu-clock",
		.cgroup = cgroup,
		.command = "x",
		.weight = 1,
		.places = &place,
		.nr = 1,
	};

	assert_int_equal(archive_add(f->fake->archive, &sample), 0);
}

/* A sample, and answers that are held back. */
static int setup(void **state)
{
	int r = fixture_setup(state);
	struct fixture *f = *state;

	f->holds_answers = true;
	add_sample(f, "/a", 0);
	return r;
}

/* No question is left, and neither is a connection. */
static int teardown(void **state)
{
	struct fixture *f = *state;

	f->web = web_free(f->web);
	assert_int_equal(f->fake->stats.connections, 0);
	assert_int_equal(f->fake->stats.unsent, 0);
	assert_null(f->fake->pending.answered);
	return fixture_teardown(state);
}

static void until_asked(struct fixture *f, unsigned times)
{
	turn_until(f, f->fake->nr_asked >= times);
}

static int ask(struct fixture *f)
{
	int fd = dial(f, 0);

	send_text(f, fd, QUESTION);
	return fd;
}

/* It is unavailable, but may be had again in a moment. */
static void expect_soon(struct fixture *f, int fd, const char *says)
{
	_cleanup_(freep) char *reply = receive(f, fd, false);

	if (status_of(reply) != 503 || !has_header(reply, "Retry-After: 1") || !strstr(reply, says))
		fail_msg("%s", reply);
	close(fd);
}

/* Others are answered before it, and it comes as it was worked out. */
static void test_beside(void **state)
{
	struct fixture *f = *state;
	int fd = ask(f);
	_cleanup_(freep) char *metrics = NULL;

	until_asked(f, 1);
	assert_works(f);
	metrics = get(f, "GET", "/metrics");
	assert_int_equal(status_of(metrics), 200);
	add_sample(f, "/a", 1);
	for (int i = 0; i < 20; i++)
		turn(f);
	assert_waits(fd);
	assert_int_equal(f->fake->nr_asked, 1);
	f->holds_answers = false;
	expect(f, fd, 200, ANSWER);
	/* The next one is of what is there now. */
	expect(f, ask(f), 200, "\r\n\r\n/a;x;f 1\n/a;x;g 1\n");
}

/* The same in other forms, with errors and without a body. */
static void test_forms(void **state)
{
	static const struct {
		const char *method, *target;
		unsigned status;
		const char *header;
	} cases[] = {
		{ "GET", "/api/v1/profile", 200, "Content-Type: application/json" },
		{ "HEAD", "/api/v1/profile/heat", 200, "Content-Type: application/json" },
		{ "GET", "/api/v1/profile?format=folded&from=now", 200, "Content-Length: 0" },
		{ "GET", "/debug/pprof/profile", 200, "Content-Type: application/octet-stream" },
		{ "GET", "/debug/pprof/other", 404, "Content-Type: text/plain; charset=utf-8" },
		{ "GET", "/api/v1/profile/top?x=1", 400, "Content-Type: application/json" },
	};
	struct fixture *f = *state;

	f->holds_answers = false;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(closep) int fd = dial(f, 0);
		_cleanup_(freep) char *reply = NULL;
		char request[256];

		(void)snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n", cases[i].method,
			       cases[i].target);
		send_text(f, fd, request);
		reply = receive(f, fd, strcmp(cases[i].method, "HEAD") == 0);
		if (status_of(reply) != cases[i].status || !has_header(reply, cases[i].header))
			fail_msg("%s: %s", cases[i].target, reply);
	}
}

/* Requests that are sent at once on a connection have their responses one after the other. */
static void test_pipeline(void **state)
{
	struct fixture *f = *state;
	int fd = dial(f, 0);

	send_text(f, fd, QUESTION QUESTION);
	until_asked(f, 1);
	for (int i = 0; i < 20; i++)
		turn(f);
	assert_int_equal(f->fake->nr_asked, 1);
	assert_waits(fd);
	f->holds_answers = false;
	until_asked(f, 2);
	expect(f, fd, 200, ANSWER);
}

/* One after the other, and too many are refused, in a sentence. */
static void test_queue(void **state)
{
	struct fixture *f = *state;
	int fds[1 + QUEUE];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = ask(f);
	until_asked(f, 1);
	for (int i = 0; i < 50; i++)
		turn(f);
	assert_int_equal(f->fake->nr_asked, 1);
	for (int i = 0; i < 3; i++)
		expect_soon(f, ask(f), "{\"error\":\"too many questions wait for their answers; try again later\"}");
	assert_works(f);
	f->holds_answers = false;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		expect(f, fds[i], 200, ANSWER);
	assert_int_equal(f->fake->nr_asked, ARRAY_SIZE(fds));
}

/* Who asks again when the profiler is free comes after those that wait for it. */
static void test_order(void **state)
{
	struct fixture *f = *state;
	int greedy = dial(f, 0), patient;

	send_text(f, greedy, QUESTION QUESTION QUESTION);
	until_asked(f, 1);
	patient = ask(f);
	for (int i = 0; i < 20; i++)
		turn(f);
	assert_true(fake_source_deliver(f->fake));
	until_asked(f, 2);
	assert_true(fake_source_deliver(f->fake));
	until_asked(f, 3);
	expect(f, patient, 200, ANSWER);
	f->holds_answers = false;
	expect(f, greedy, 200, ANSWER);
}

/* Nobody waits for ever: the client is told. */
static void test_late(void **state)
{
	static const char says[] = "{\"error\":\"the questions before this one took too long; try again later\"}";
	struct fixture *f = *state;
	int first, second;

	f->options->work_timeout = NS_PER_S;
	fixture_restart(f);
	first = ask(f);
	until_asked(f, 1);
	second = ask(f);
	expect(f, first, 503, says);
	expect(f, second, 503, says);
	assert_int_equal(f->fake->stats.dropped_answer, 0);
	f->holds_answers = false;
	expect(f, ask(f), 200, ANSWER);
}

/* A client that goes away leaves its place to the next, whether it has asked or waits for that. */
static void test_gone(void **state)
{
	struct fixture *f = *state;
	int fds[4];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = ask(f);
	until_asked(f, 1);
	close(fds[1]);
	close(fds[0]);
	until_asked(f, 2);
	assert_int_equal(f->fake->stats.connections, 2);
	/* One that closes only its own direction is taken for gone, too. */
	assert_int_equal(shutdown(fds[2], SHUT_WR), 0);
	until_asked(f, 3);
	f->holds_answers = false;
	assert_null(receive(f, fds[2], false));
	close(fds[2]);
	expect(f, fds[3], 200, ANSWER);
	assert_int_equal(f->fake->nr_asked, 3);
	assert_int_equal(f->fake->stats.dropped_malformed, 0);
}

/* With other options each question begins anew: its password may be another. */
static void test_reload(void **state)
{
	struct fixture *f = *state;
	struct web_options *options = web_options_new();
	int fds[3];

	assert_non_null(options);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = ask(f);
	until_asked(f, 1);
	assert_int_equal(web_set_options(f->web, options, NULL), 0);
	web_options_unref(options);
	/* Not before the reload is over. */
	assert_null(f->fake->pending.answered);
	until_asked(f, 2);
	add_sample(f, "/a", 0);
	assert_works(f);
	f->holds_answers = false;
	expect(f, fds[0], 200, ANSWER);
	for (size_t i = 1; i < ARRAY_SIZE(fds); i++)
		expect(f, fds[i], 200, "\r\n\r\n/a;x;f 2\n");
}

/* A client that goes away while its password is checked again has asked nothing any more. */
static void test_gone_after_reload(void **state)
{
	struct fixture *f = *state;
	struct web_options *options = web_options_new();
	int fd = dial(f, 0);

	assert_non_null(options);
	options->users = users_new();
	assert_int_equal(users_add(options->users, "ada", HASH_ENGINE, NULL), 0);
	send_text(f, fd, "GET /api/v1/profile HTTP/1.1\r\nHost: localhost\r\n" ADA "\r\n");
	until_asked(f, 1);
	assert_int_equal(web_set_options(f->web, options, NULL), 0);
	web_options_unref(options);
	close(fd);
	turn_until(f, f->fake->stats.connections == 0);
	assert_int_equal(f->fake->nr_asked, 1);
}

/* The teardown frees the web, and looks for what is left. */
static void test_shutdown(void **state)
{
	struct fixture *f = *state;
	int fds[3];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = ask(f);
	until_asked(f, 1);
	f->web = web_free(f->web);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

/* The same when the answer is there, and the client has not been resumed yet. */
static void test_shutdown_after_the_answer(void **state)
{
	struct fixture *f = *state;
	int fd = ask(f);

	until_asked(f, 1);
	assert_true(fake_source_deliver(f->fake));
	f->web = web_free(f->web);
	close(fd);
}

/* An answer can be an error, with its sentence; and one can be had again soon where the profiler has ended. */
static void test_errors(void **state)
{
	static const struct {
		int error;
		unsigned status;
		const char *retry;
	} cases[] = {
		{ -EAGAIN, 503, "Retry-After: 1" },    { -ENOMEM, 503, "Retry-After: 5" },
		{ -ETIME, 503, "Retry-After: 5" },     { -EOPNOTSUPP, 503, "Retry-After: 5" },
		{ -EINVAL, 400, "Connection: close" }, { -ENOENT, 400, "Connection: close" },
	};
	struct fixture *f = *state;

	f->holds_answers = false;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *reply = NULL;

		f->fake->answer_error = cases[i].error;
		reply = get(f, "GET", "/api/v1/profile");
		if (status_of(reply) != cases[i].status || !has_header(reply, cases[i].retry) ||
		    !strstr(reply, "\r\n\r\n{\"error\":\"it is \\\"lost\\\"\"}\n"))
			fail_msg("%d: %s", cases[i].error, reply);
	}
	f->fake->answer_error = 0;
	expect(f, ask(f), 200, ANSWER);
}

/* There is no profiler: all that wait are told, and later all is well. */
static void test_no_profiler(void **state)
{
	struct fixture *f = *state;
	int fds[3];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = ask(f);
	until_asked(f, 1);
	f->fake->ask_error = -EAGAIN;
	f->fake->pending.error = reason_set(&f->fake->pending.why, -EAGAIN, "there is no profiler");
	assert_true(fake_source_deliver(f->fake));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		expect_soon(f, fds[i], "{\"error\":\"there is no profiler\"}");
	f->fake->ask_error = 0;
	f->holds_answers = false;
	expect(f, ask(f), 200, ANSWER);
}

#define answer_test(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		answer_test(test_beside),
		answer_test(test_forms),
		answer_test(test_pipeline),
		answer_test(test_queue),
		answer_test(test_order),
		answer_test(test_late),
		answer_test(test_gone),
		answer_test(test_reload),
		answer_test(test_gone_after_reload),
		answer_test(test_shutdown),
		answer_test(test_shutdown_after_the_answer),
		answer_test(test_errors),
		answer_test(test_no_profiler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
