/* SPDX-License-Identifier: MIT */

/* Responses that are written in a thread: the loop goes on, whatever happens meanwhile. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/web-fixture.h"

#include "setup/made-snapshot.h"
#include "web/api/rendering.h"
#include "web/http/peer.h"
#include "web/http/web.h"

#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>

#define GET(target) "GET " target " HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define METRICS GET("/metrics")

void __real_rendering_run(struct rendering *rendering);
void __wrap_rendering_run(struct rendering *rendering);
struct peer __real_peer_of(int fd);
struct peer __wrap_peer_of(int fd);

/* Of the one test that runs. Each rendering needs a leave. */
static sem_t leaves;
static _Atomic unsigned nr_begun;
static uint8_t peer_number; /* of the next connection; 0: its own */

void __wrap_rendering_run(struct rendering *rendering)
{
	nr_begun++;
	while (sem_wait(&leaves) < 0)
		;
	__real_rendering_run(rendering);
}

struct peer __wrap_peer_of(int fd)
{
	struct peer peer = { .family = AF_INET, .bytes = { 192, 0, 2, peer_number } };

	return peer_number ? peer : __real_peer_of(fd);
}

static int setup(void **state)
{
	nr_begun = 0;
	peer_number = 0;
	assert_int_equal(sem_init(&leaves, 0, 0), 0);
	return fixture_setup(state);
}

/* No rendering is left, and neither is a connection. */
static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(sem_post(&leaves), 0);
	f->web = web_free(f->web);
	assert_int_equal(f->fake->stats.connections, 0);
	assert_int_equal(f->fake->stats.unsent, 0);
	assert_int_equal(f->fake->snapshot->refs, 1);
	assert_int_equal(sem_destroy(&leaves), 0);
	return fixture_teardown(state);
}

#define rendering_test(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static int ask(struct fixture *f, const char *request)
{
	int fd = dial(f, 0);

	send_text(f, fd, request);
	return fd;
}

/* All that can be done now is done. */
static void settle(struct fixture *f)
{
	for (int i = 0; i < 30; i++)
		turn(f);
}

/* Another reading: the responses of the last one are not those of the next. */
static void renew_snapshot(struct fixture *f)
{
	static const struct made_event events[] = { { SCOPE_CPU, "g", "context-switches", .set = 0 }, {} };

	snapshot_unref(f->fake->snapshot);
	f->fake->snapshot = made_snapshot(events);
	made_row(f->fake->snapshot, SCOPE_CPU, 0, NULL, 0);
	made_cell(f->fake->snapshot, SCOPE_CPU, 0, 0, 8, 1);
}

/* While one is written, others are answered, and equal questions share it. */
static void test_beside(void **state)
{
	struct fixture *f = *state;
	int one = ask(f, METRICS), same, gzip;
	_cleanup_(freep) char *healthy = NULL, *status = NULL;

	turn_until(f, nr_begun == 1);
	same = ask(f, METRICS);
	gzip = ask(f, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
	healthy = get(f, "GET", "/-/healthy");
	status = get(f, "GET", "/api/v1/status");
	assert_int_equal(status_of(healthy), 200);
	assert_int_equal(status_of(status), 200);
	settle(f);
	assert_waits(one);
	assert_waits(same);
	assert_waits(gzip);
	assert_int_equal(nr_begun, 1);
	sem_post(&leaves);
	expect(f, one, 200, "context_switches_total{cpu=\"0\"} 7\n");
	expect(f, same, 200, "context_switches_total{cpu=\"0\"} 7\n");
	turn_until(f, nr_begun == 2);
	sem_post(&leaves);
	expect(f, gzip, 200, "Content-Encoding: gzip");
	assert_int_equal(f->fake->nr_scraped, 3);
	/* The compressed one was made of the plain one. */
	assert_int_equal(f->fake->nr_written, 1);
	expect(f, ask(f, METRICS), 200, "7\n");
	assert_int_equal(nr_begun, 2);
}

/* A body is of the snapshot that was there when its request came. Who comes with another one waits for another body. */
static void test_another_snapshot(void **state)
{
	struct fixture *f = *state;
	int one = ask(f, METRICS), other;

	turn_until(f, nr_begun == 1);
	renew_snapshot(f);
	other = ask(f, METRICS);
	settle(f);
	sem_post(&leaves);
	expect(f, one, 200, "context_switches_total{cpu=\"0\"} 7\n");
	turn_until(f, nr_begun == 2);
	sem_post(&leaves);
	expect(f, other, 200, "context_switches_total{cpu=\"0\"} 8\n");
}

/* Those that wait for the same are written once, when it is their turn. */
static void test_equals_wait(void **state)
{
	struct fixture *f = *state;
	int one = ask(f, METRICS), events[3];

	turn_until(f, nr_begun == 1);
	for (int i = 0; i < 3; i++)
		events[i] = ask(f, GET("/api/v1/events"));
	settle(f);
	sem_post(&leaves);
	expect(f, one, 200, "7\n");
	turn_until(f, nr_begun == 2);
	sem_post(&leaves);
	for (int i = 0; i < 3; i++)
		expect(f, events[i], 200, "{\"events\":[");
	assert_int_equal(nr_begun, 2);
}

/* An address with many requests has one turn after the other only if nobody else waits. */
static void test_turns(void **state)
{
	static const char *const busy[] = { GET("/metrics?event=a"), GET("/metrics?event=b"), GET("/metrics?event=c") };
	struct fixture *f = *state;
	int one, many[3], other;

	peer_number = 1;
	one = ask(f, METRICS);
	turn_until(f, nr_begun == 1);
	for (int i = 0; i < 3; i++)
		many[i] = ask(f, busy[i]);
	settle(f);
	peer_number = 2;
	other = ask(f, GET("/api/v1/events"));
	settle(f);
	sem_post(&leaves);
	expect(f, one, 200, "7\n");
	sem_post(&leaves);
	expect(f, other, 200, "{\"events\":[");
	for (int i = 0; i < 3; i++) {
		assert_waits(many[i]);
		sem_post(&leaves);
		expect(f, many[i], 200, "perfmond_up 1");
	}
	assert_int_equal(nr_begun, 5);
}

/* Who has gone leaves nothing in the queue. A body that was being written is there for the next one. */
static void test_gone(void **state)
{
	struct fixture *f = *state;
	int one = ask(f, METRICS), waiting, last;

	turn_until(f, nr_begun == 1);
	waiting = ask(f, GET("/api/v1/events"));
	last = ask(f, GET("/api/v1/cgroups"));
	settle(f);
	close(one);
	close(waiting);
	turn_until(f, f->fake->stats.connections == 1);
	sem_post(&leaves);
	sem_post(&leaves);
	expect(f, last, 200, "{\"cgroups\":[");
	assert_int_equal(nr_begun, 2);
	expect(f, ask(f, METRICS), 200, "7\n");
	assert_int_equal(nr_begun, 2);
}

/* A reload: requests begin anew. Those that are equal to the one that is written have it then. */
static void test_reload(void **state)
{
	struct fixture *f = *state;
	int one = ask(f, METRICS), waiting;
	struct reason why;

	turn_until(f, nr_begun == 1);
	waiting = ask(f, GET("/api/v1/events"));
	settle(f);
	assert_int_equal(web_set_options(f->web, f->options, &why), 0);
	settle(f);
	assert_waits(one);
	assert_waits(waiting);
	sem_post(&leaves);
	sem_post(&leaves);
	expect(f, one, 200, "7\n");
	expect(f, waiting, 200, "{\"events\":[");
	assert_int_equal(nr_begun, 2);
}

/* A stop waits for the body that is being written, and for no other. */
static void test_stop(void **state)
{
	struct fixture *f = *state;
	int one = ask(f, METRICS), waiting;

	turn_until(f, nr_begun == 1);
	waiting = ask(f, GET("/api/v1/events"));
	settle(f);
	sem_post(&leaves);
	f->web = web_free(f->web);
	assert_int_equal(nr_begun, 1);
	close(one);
	close(waiting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rendering_test(test_beside),	  rendering_test(test_another_snapshot),
		rendering_test(test_equals_wait), rendering_test(test_turns),
		rendering_test(test_gone),	  rendering_test(test_reload),
		rendering_test(test_stop),
	};

	return cmocka_run_group_tests_name("web-rendering", tests, NULL, NULL);
}
