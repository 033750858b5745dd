/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A web on a real loop and real sockets, and a client. Both are in one process: the client's sockets do not
 * block, and the loop is run in turns with them. What takes longer than two minutes fails the test.
 *
 * The machine may let this process wait for seconds at any place, which no timeout of the web is about: the clock that
 * the web and the test look at goes on by a tenth of a second meanwhile. Timers of the loop expire by the kernel's.
 */

#include "setup/fake-source.h"

#include <systemd/sd-event.h>

struct fixture {
	sd_event *loop;
	struct web *web;
	struct web_options *options; /* the defaults, and as many connections from one address as at all */
	struct fake_source *fake;    /* context-switches on CPU 0 are 7, page-faults are counted for cgroups */
	unsigned answer_ms;	     /* by so much the clock goes on with each answer that is written */
	uint64_t stopped_ns;	     /* the clock stands at that; 0: it goes */
	bool holds_answers;	     /* of the profiler; else they are delivered after each turn */
	char folder[64];	     /* for Unix sockets; has to be empty in the end */
};

/* cmocka's: a web on a free port of 127.0.0.1; and its end. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

#define fixture_test(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

/* Anew, with options that were changed, on a free port. */
void fixture_restart(struct fixture *f);

/* Stops the web and starts one on other addresses; what web_new() says. */
int fixture_start(struct fixture *f, const char *const *listen, size_t nr, struct reason *why);
void fixture_start_one(struct fixture *f, const char *listen);

/* Adds LARGE cgroups, with which an answer has some MB, which no socket buffer holds. */
#define LARGE 20000U
void fixture_make_large(struct fixture *f);

/* A wait begins; has it taken two minutes, with all pauses? */
uint64_t wait_begin(void);
bool is_too_long(uint64_t begin);

/* CLOCK_MONOTONIC without pauses, in milliseconds. */
uint64_t now_ms(void);

/* A turn of the loop: 2 ms, where nothing happens; did something happen? */
bool turn(struct fixture *f);

/* Turns of the loop until something is so; after two minutes the test fails. */
#define turn_until(f, condition)                                                                                       \
	do                                                                                                             \
		for (uint64_t begin = wait_begin(); !(condition); turn(f))                                             \
			if (is_too_long(begin))                                                                        \
				fail_msg("after two minutes it is not so: %s", #condition);                            \
	while (0)

/* Nothing happens: the loop waits, and does not spin. */
void assert_idle(struct fixture *f);

/* A connection to address number `listener`. */
int dial(struct fixture *f, size_t listener);
/* Sends all of it, or what the server takes before it hangs up. */
void send_all(struct fixture *f, int fd, const char *data, size_t n);
void send_text(struct fixture *f, int fd, const char *text);
/* One reply, as text; NULL where the connection ended before it was whole. `head`: to a HEAD. */
char *receive(struct fixture *f, int fd, bool head);

/* Connects, sends, receives and hangs up. */
char *exchange_on(struct fixture *f, size_t listener, const char *request);
char *exchange(struct fixture *f, const char *request);
char *get(struct fixture *f, const char *method, const char *target);

/* Of a reply; 0 for NULL. */
unsigned status_of(const char *reply);
/* Does it have this line? */
bool has_header(const char *reply, const char *header);

/* Nothing has come on the connection yet. */
void assert_waits(int fd);
/* Receives a reply of this status that has this text, and hangs up. */
void expect(struct fixture *f, int fd, unsigned status, const char *says);
/* A plain request is answered. */
void assert_works(struct fixture *f);
