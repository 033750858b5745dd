/* SPDX-License-Identifier: MIT */

/* Names and passwords: the parsers, the penalty of an address, and the whole with real hashes in their thread. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "web/http/auth.h"
#include "web/http/basic.h"
#include "web/http/host.h"
#include "web/http/password-limit.h"
#include "web/http/password-worker.h"

#include "base/util/buf.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Of the cheapest kind. */
#define HASH_ENGINE "$2b$04$abcdefghijklmnopqrstuuCiRMDOSPunoGZ1DCFvc2WqLWXwAsJFG"
#define HASH_PASS_WORD "$2y$04$ABCDEFGHIJKLMNOPQRSTUutlBuUdeDR0ZnzoKNtEvRlhuE1NRx6b6"

#define TWO_USERS "ada:" HASH_ENGINE "\nbob:" HASH_PASS_WORD "\n"

/* "ada:engine", "bob:pass:word", "ada:wrong", "eve:engine" */
#define ADA "Basic YWRhOmVuZ2luZQ=="
#define BOB "Basic Ym9iOnBhc3M6d29yZA=="
#define ADA_WRONG "Basic YWRhOndyb25n"
#define EVE "Basic ZXZlOmVuZ2luZQ=="

/* --- parsers */

static void test_basic(void **state)
{
	static const struct {
		const char *header;
		int r;
		const char *name, *password;
	} cases[] = {
		{ ADA, 0, "ada", "engine" },
		{ BOB, 0, "bob", "pass:word" },
		{ "basic   YWRhOmVuZ2luZQ==", 0, "ada", "engine" },
		{ "Basic Og==", 0, "", "" },
		{ "Basic YTo=", 0, "a", "" },
		{ "Basic OmI=", 0, "", "b" },
		{ "Basic", -EINVAL, "", "" },
		{ "Basic ", -EINVAL, "", "" },
		{ "Bearer YWRhOmVuZ2luZQ==", -EINVAL, "", "" },
		{ "Basic YWRh", -EINVAL, "", "" },	      /* no colon */
		{ "Basic YWRhOmVuZ2luZQ=", -EINVAL, "", "" }, /* not whole groups */
		{ "Basic YWRhOmVuZ2luZQ", -EINVAL, "", "" },
		{ "Basic YWRhOmVuZ2luZR==", -EINVAL, "", "" }, /* bits behind the end */
		{ "Basic YWRhOmVuZ2luZQ==x", -EINVAL, "", "" },
		{ "Basic YWRhOmVuZ2luZQ== ", -EINVAL, "", "" },
		{ "Basic YWRh=OmV", -EINVAL, "", "" },
		{ "Basic YWRhOgBi", -EINVAL, "", "" }, /* a NUL */
		{ "Basic ====", -EINVAL, "", "" },
		{ "Basic YWRhOm-_", -EINVAL, "", "" }, /* another alphabet */
	};
	struct basic basic;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (basic_parse(cases[i].header, &basic) != cases[i].r)
			fail_msg("%s", cases[i].header);
		assert_string_equal(basic.name, cases[i].name);
		assert_string_equal(basic.password, cases[i].password);
	}
}

static void test_long_basic(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	_cleanup_(freep) char *header = NULL;
	struct basic basic;

	(void)state;
	buf_str(&b, "Basic Ojpi"); /* "::b" */
	while (b.len < strlen("Basic ") + 680)
		buf_str(&b, "YWFh");
	header = buf_steal(&b);
	assert_int_equal(basic_parse(header, &basic), 0);
	assert_int_equal(strlen(basic.password), 509);
	assert_int_equal(asprintf((char **)&b.data, "%sYWFh", header), strlen(header) + 4);
	assert_int_equal(basic_parse(b.data, &basic), -E2BIG);
	assert_string_equal(basic.name, "");
}

static void test_users(void **state)
{
	_cleanup_(users_freep) struct users *users = NULL;
	struct reason why = {};

	(void)state;
	assert_int_equal(users_parse(&users, "f", "# who may come in\n\n" TWO_USERS, &why), 0);
	assert_int_equal(users->nr, 2);
	assert_string_equal(users_find(users, "bob")->hash, HASH_PASS_WORD);
	assert_null(users_find(users, "bo"));
	assert_null(users_find(users, "bobb"));
	assert_null(users_find(users, ""));
}

static void test_wrong_users(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "f has no users in it" },
		{ "\n# nobody\n", "f has no users in it" },
		{ "ada\n", "f:1: this line is not NAME:HASH" },
		{ TWO_USERS "eve", "f:3: this line is not NAME:HASH" },
		{ ":" HASH_ENGINE, "f:1: a name has 1 to 255 bytes" },
		{ "a\tb:" HASH_ENGINE, "f:1: the name 'a?b' contains a control character" },
		{ TWO_USERS "ada:" HASH_ENGINE, "f:3: there are two users 'ada'" },
		{ "ada:engine", "f:1: the hash is not a bcrypt hash" },
		{ "ada:", "f:1: the hash is not a bcrypt hash" },
		{ "ada:$6$salt$xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		  "f:1: the hash is not a bcrypt hash" },
		{ "ada:$2x$04$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuuabcdefghi", "f:1: the hash is not a" },
		{ "ada:$2y$04$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuuabcdefgh", "f:1: the hash is malformed" },
		{ "ada:" HASH_ENGINE " \n", "f:1: the hash is malformed" },
		{ "ada:" HASH_ENGINE ":1000", "f:1: the hash is malformed" },
		{ "ada:$2y$4a$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuuabcdefghi", "f:1: the hash is malformed" },
		{ "ada:$2y$31$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuuabcdefghi", "f:1: the hash's cost is 31" },
		{ "ada:$2y$03$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuuabcdefghi", "f:1: the hash's cost is 3;" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct users *users = NULL;
		struct reason why = {};

		assert_int_equal(users_parse(&users, "f", cases[i].text, &why), -EINVAL);
		if (strncmp(why.text, cases[i].says, strlen(cases[i].says)) != 0)
			fail_msg("'%s': %s", cases[i].text, why.text);
		assert_null(users);
	}
}

static void test_too_many_users(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	_cleanup_(freep) char *text = NULL;
	struct users *users = NULL;
	struct reason why = {};

	(void)state;
	for (int i = 0; i <= USERS_MAX; i++)
		buf_printf(&b, "user%d:" HASH_ENGINE "\n", i);
	text = buf_steal(&b);
	assert_int_equal(users_parse(&users, "f", text, &why), -EINVAL);
	assert_string_equal(why.text, "f:1001: more than 1000 users");
	*strstr(text, "user1000:") = '\0';
	assert_int_equal(users_parse(&users, "f", text, &why), 0);
	assert_int_equal(users->nr, USERS_MAX);
	users_free(users);
}

static void test_hosts(void **state)
{
	static const char *const own[] = {
		"localhost",	"LocalHost",	  "localhost:9753", "localhost:", "127.0.0.1",
		"127.0.0.1:80", "127.1.2.3:9753", "[::1]",	    "[::1]:9753",
	};
	static const char *const others[] = {
		"",
		":9753",
		"localhost.evil.example",
		"evil.localhost",
		"localhost:80.evil",
		"localhost:-1",
		"127.0.0.1.evil.example",
		"127.0.0.1:x",
		"127.1",
		"128.0.0.1",
		"10.0.0.1:9753",
		"::1",
		"[::1",
		"[::1]x",
		"[::1]:a",
		"[::2]",
		"[",
		"0.0.0.0",
		"localhost@evil",
		"localhost/",
		" localhost",
		"127.0.0.1127.0.0.1127.0.0.1127.0.0.1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (!host_is_loopback(own[i]))
			fail_msg("%s", own[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (host_is_loopback(others[i]))
			fail_msg("%s", others[i]);
}

/* --- how often an address may be wrong */

static struct peer made_peer(uint32_t n)
{
	struct peer peer = { .family = AF_INET };

	memcpy(peer.bytes, &n, sizeof(n));
	return peer;
}

static void test_penalty(void **state)
{
	_cleanup_(freep) struct rate_limit *limit = calloc(1, sizeof(*limit));
	const struct peer one = made_peer(1), two = made_peer(2);
	uint64_t now = 1000000000000U;

	(void)state;
	for (int i = 0; i < RATE_LIMIT_BURST; i++)
		assert_true(rate_limit_add(limit, &one, now));
	assert_false(rate_limit_add(limit, &one, now));
	assert_true(rate_limit_add(limit, &two, now));

	assert_false(rate_limit_add(limit, &one, now + RATE_LIMIT_NS - 1));
	assert_true(rate_limit_add(limit, &one, now + RATE_LIMIT_NS));
	assert_false(rate_limit_add(limit, &one, now + RATE_LIMIT_NS));
	rate_limit_undo(limit, &one);
	assert_true(rate_limit_add(limit, &one, now + RATE_LIMIT_NS));

	now += (RATE_LIMIT_BURST + 5) * (uint64_t)RATE_LIMIT_NS;
	for (int i = 0; i < RATE_LIMIT_BURST; i++)
		assert_true(rate_limit_add(limit, &one, now));
	assert_false(rate_limit_add(limit, &one, now));
}

/* Filling the table of addresses evicts those that would be forgiven first, and not one that is at its limit. */
static void test_penalty_of_many(void **state)
{
	_cleanup_(freep) struct rate_limit *limit = calloc(1, sizeof(*limit));
	const struct peer bad = made_peer(1);
	uint64_t now = 1000000000000U;

	(void)state;
	for (int i = 0; i < RATE_LIMIT_BURST; i++)
		assert_true(rate_limit_add(limit, &bad, now));
	for (uint32_t i = 2; i < 10 * RATE_LIMIT_PEERS; i++) {
		const struct peer other = made_peer(i);

		assert_true(rate_limit_add(limit, &other, now));
	}
	assert_false(rate_limit_add(limit, &bad, now));
}

/* --- the whole */

struct world {
	sd_event *loop;
	struct auth *auth;
	struct users *users;
	uint64_t last;
	enum auth_verdict verdict; /* of the last that was told; AUTH_WAIT: none */
	unsigned told;
};

static void on_done(void *userdata, uint64_t number, enum auth_verdict verdict)
{
	struct world *w = userdata;

	w->last = number;
	w->verdict = verdict;
	w->told++;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_int_equal(sd_event_new(&w->loop), 0);
	assert_int_equal(auth_new(&w->auth, w->loop, on_done, w), 0);
	assert_int_equal(users_parse(&w->users, "f", TWO_USERS, NULL), 0);
	auth_set_users(w->auth, w->users);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	auth_free(w->auth);
	users_free(w->users);
	assert_null(sd_event_unref(w->loop));
	free(w);
	return 0;
}

/* Asks, and waits for what comes of it. */
static enum auth_verdict ask(struct world *w, const char *header, const struct peer *peer)
{
	uint64_t number = 0;
	enum auth_verdict verdict = auth_check(w->auth, header, peer, &number);
	unsigned told = w->told;

	if (verdict != AUTH_WAIT)
		return verdict;
	while (w->told == told)
		assert_true(sd_event_run(w->loop, 10000000) > 0);
	assert_int_equal(w->last, number);
	return w->verdict;
}

/* "ada:" and two bytes that differ for each number. */
static char *made_header(unsigned n)
{
	char *header;

	assert_true(asprintf(&header, "Basic YWRhOm%c%c", (int)('A' + n % 26), (int)('a' + n / 26)) > 0);
	return header;
}

static void test_nobody_is_asked(void **state)
{
	struct world *w = *state;
	const struct peer peer = made_peer(1);
	uint64_t number;

	auth_set_users(w->auth, NULL);
	assert_int_equal(auth_check(w->auth, NULL, &peer, &number), AUTH_GOOD);
	assert_int_equal(auth_check(w->auth, "nonsense", &peer, &number), AUTH_GOOD);
}

static void test_passwords(void **state)
{
	struct world *w = *state;
	const struct peer peer = made_peer(1);
	uint64_t number;

	assert_int_equal(ask(w, NULL, &peer), AUTH_WRONG);
	assert_int_equal(ask(w, "Basic nonsense", &peer), AUTH_WRONG);
	assert_int_equal(w->told, 0);
	assert_int_equal(ask(w, ADA, &peer), AUTH_GOOD);
	assert_int_equal(ask(w, BOB, &peer), AUTH_GOOD);
	assert_int_equal(w->told, 2);
	/* Remembered, whoever asks. */
	assert_int_equal(auth_check(w->auth, ADA, &peer, &number), AUTH_GOOD);
	/* What is wrong is hashed each time, also for a user that does not exist: its password is ada's. */
	assert_int_equal(ask(w, ADA_WRONG, &peer), AUTH_WRONG);
	assert_int_equal(ask(w, ADA_WRONG, &peer), AUTH_WRONG);
	assert_int_equal(ask(w, EVE, &peer), AUTH_WRONG);
	assert_int_equal(w->told, 5);
}

static void test_new_users_forget(void **state)
{
	struct world *w = *state;
	_cleanup_(users_freep) struct users *only_bob = NULL;
	const struct peer peer = made_peer(1);

	assert_int_equal(ask(w, ADA, &peer), AUTH_GOOD);
	assert_int_equal(users_parse(&only_bob, "f", "bob:" HASH_PASS_WORD, NULL), 0);
	auth_set_users(w->auth, only_bob);
	assert_int_equal(ask(w, ADA, &peer), AUTH_WRONG);
	assert_int_equal(ask(w, BOB, &peer), AUTH_GOOD);
	auth_set_users(w->auth, NULL);
}

/* A verdict from a check against the old users is neither reported nor remembered. */
static void test_new_users_while_one_waits(void **state)
{
	struct world *w = *state;
	_cleanup_(users_freep) struct users *only_bob = NULL;
	const struct peer peer = made_peer(1);
	uint64_t number;

	assert_int_equal(auth_check(w->auth, ADA, &peer, &number), AUTH_WAIT);
	assert_int_equal(users_parse(&only_bob, "f", "bob:" HASH_PASS_WORD, NULL), 0);
	auth_set_users(w->auth, only_bob);
	assert_int_equal(ask(w, BOB, &peer), AUTH_GOOD);
	assert_int_equal(w->told, 1);
	assert_int_equal(ask(w, ADA, &peer), AUTH_WRONG);
	auth_set_users(w->auth, NULL);
}

/* After a reload, a user with the same hash is let in at once, at any rate limit; one with a new hash is checked. */
static void test_the_same_users_again(void **state)
{
	struct world *w = *state;
	_cleanup_(users_freep) struct users *again = NULL, *new_bob = NULL;
	const struct peer peer = made_peer(1);
	uint64_t number;

	assert_int_equal(ask(w, ADA, &peer), AUTH_GOOD);
	assert_int_equal(ask(w, BOB, &peer), AUTH_GOOD);
	for (unsigned i = 0; i < 2 * RATE_LIMIT_BURST; i++) {
		_cleanup_(freep) char *header = made_header(i);

		(void)auth_check(w->auth, header, &peer, &number);
	}
	assert_int_equal(users_parse(&again, "f", TWO_USERS, NULL), 0);
	auth_set_users(w->auth, again);
	assert_int_equal(auth_check(w->auth, ADA, &peer, &number), AUTH_GOOD);
	assert_int_equal(auth_check(w->auth, BOB, &peer, &number), AUTH_GOOD);

	/* The password "pass:word" becomes "engine", and back. */
	assert_int_equal(users_parse(&new_bob, "f", "ada:" HASH_ENGINE "\nbob:" HASH_ENGINE, NULL), 0);
	auth_set_users(w->auth, new_bob);
	assert_int_equal(auth_check(w->auth, ADA, &peer, &number), AUTH_GOOD);
	assert_int_equal(auth_check(w->auth, BOB, &peer, &number), AUTH_TOO_MANY);
	auth_set_users(w->auth, again);
	assert_int_equal(auth_check(w->auth, BOB, &peer, &number), AUTH_GOOD);
	auth_set_users(w->auth, NULL);
}

/* Reloads during a check: the request waits for the same check, is reported once, and no reload counts as a failure. */
static void test_the_same_users_while_one_waits(void **state)
{
	struct world *w = *state;
	_cleanup_(users_freep) struct users *again = NULL;
	const struct peer peer = made_peer(1);
	uint64_t first, number;

	assert_int_equal(users_parse(&again, "f", TWO_USERS, NULL), 0);
	assert_int_equal(auth_check(w->auth, ADA, &peer, &first), AUTH_WAIT);
	for (unsigned i = 0; i < 3 * RATE_LIMIT_BURST; i++) {
		auth_set_users(w->auth, i % 2 ? w->users : again);
		assert_int_equal(auth_check(w->auth, ADA, &peer, &number), AUTH_WAIT);
		assert_int_equal(number, first);
	}
	while (!w->told)
		assert_true(sd_event_run(w->loop, 10000000) > 0);
	assert_int_equal(w->verdict, AUTH_GOOD);
	assert_int_equal(auth_check(w->auth, ADA, &peer, &number), AUTH_GOOD);
	assert_int_equal(w->told, 1);
	/* All of its tries are there again. */
	for (unsigned i = 0; i < RATE_LIMIT_BURST; i++) {
		_cleanup_(freep) char *header = made_header(i);

		assert_int_equal(auth_check(w->auth, header, &peer, &number), AUTH_WAIT);
	}
	auth_set_users(w->auth, NULL);
}

/* The same password at once is one hash, and one number. */
static void test_the_same_at_once(void **state)
{
	struct world *w = *state;
	const struct peer peer = made_peer(1);
	uint64_t first, again;

	for (int i = 0; i < 100; i++) {
		assert_int_equal(auth_check(w->auth, ADA, &peer, i ? &again : &first), AUTH_WAIT);
		assert_true(i == 0 || again == first);
	}
	while (!w->told)
		assert_true(sd_event_run(w->loop, 10000000) > 0);
	assert_int_equal(w->verdict, AUTH_GOOD);
	assert_int_equal(auth_check(w->auth, ADA, &peer, &again), AUTH_GOOD);
}

/* An address at its limit has to wait, and others do not; a remembered password is let in all the same. */
static void test_guessing(void **state)
{
	struct world *w = *state;
	const struct peer bad = made_peer(1), other = made_peer(2);
	unsigned told, refused = 0;
	uint64_t number;

	assert_int_equal(ask(w, ADA, &bad), AUTH_GOOD);
	for (unsigned i = 0; i < 3 * RATE_LIMIT_BURST; i++) {
		_cleanup_(freep) char *header = made_header(i);
		enum auth_verdict verdict = auth_check(w->auth, header, &bad, &number);

		assert_true(verdict == AUTH_WAIT || verdict == AUTH_TOO_MANY);
		refused += verdict == AUTH_TOO_MANY;
	}
	/* None is forgiven as quickly. */
	assert_in_range(refused, 2 * RATE_LIMIT_BURST - 1, 2 * RATE_LIMIT_BURST);
	assert_int_equal(auth_check(w->auth, ADA, &bad, &number), AUTH_GOOD);
	assert_int_equal(auth_check(w->auth, BOB, &bad, &number), AUTH_TOO_MANY);
	told = w->told;
	assert_int_equal(auth_check(w->auth, BOB, &other, &number), AUTH_WAIT);
	while (w->last != number || w->told == told)
		assert_true(sd_event_run(w->loop, 10000000) > 0);
	assert_int_equal(w->verdict, AUTH_GOOD);
}

static void test_full_queue(void **state)
{
	struct world *w = *state;
	unsigned busy = 0;
	uint64_t number;

	for (unsigned i = 0; i < 2 * PASSWORD_QUEUE; i++) {
		_cleanup_(freep) char *header = made_header(i);
		const struct peer peer = made_peer(i);
		enum auth_verdict verdict = auth_check(w->auth, header, &peer, &number);

		assert_int_equal(verdict, i < PASSWORD_QUEUE ? AUTH_WAIT : AUTH_BUSY);
		busy += verdict == AUTH_BUSY;
	}
	assert_int_equal(busy, PASSWORD_QUEUE);
	while (w->told < PASSWORD_QUEUE)
		assert_true(sd_event_run(w->loop, 10000000) > 0);
	assert_int_equal(w->last, PASSWORD_QUEUE - 1);
}

/* With jobs under way, and none. */
static void test_end(void **state)
{
	struct world *w = *state;
	const struct peer peer = made_peer(1);
	uint64_t number;

	assert_int_equal(auth_check(w->auth, ADA, &peer, &number), AUTH_WAIT);
	assert_int_equal(auth_check(w->auth, BOB, &peer, &number), AUTH_WAIT);
}

int main(void)
{
#define world_test(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_basic),	       cmocka_unit_test(test_long_basic),
		cmocka_unit_test(test_users),	       cmocka_unit_test(test_wrong_users),
		cmocka_unit_test(test_too_many_users), cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_penalty),	       cmocka_unit_test(test_penalty_of_many),
		world_test(test_nobody_is_asked),      world_test(test_passwords),
		world_test(test_new_users_forget),     world_test(test_new_users_while_one_waits),
		world_test(test_the_same_users_again), world_test(test_the_same_users_while_one_waits),
		world_test(test_the_same_at_once),     world_test(test_guessing),
		world_test(test_full_queue),	       world_test(test_end),
	};

	return cmocka_run_group_tests_name("web-auth", tests, NULL, NULL);
}
