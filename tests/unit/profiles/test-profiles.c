/* SPDX-License-Identifier: MIT */

/* The daemon's side of profiles: what the profiler is told, and what becomes of what it says. */

#include "base/util/clock.h"
#include "setup/no-memory.h"
#include "setup/profiled-world.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PATIENCE_NS (60 * (uint64_t)NS_PER_S)
#define NOT_ASKED ((enum due_answer)77)
#define RESTARTED "the profiler has ended, and is being started again"

/* To the question that was put last. */
static struct answer {
	unsigned nr; /* that came */
	int error;
	char text[REASON_MAX]; /* the document, or why there is none */
} answer;

/* --- who asks */

static void take_answer(void *asker, int error, struct blob *document, const char *why)
{
	assert_ptr_equal(asker, &answer);
	answer.nr++;
	answer.error = error;
	if (document)
		(void)snprintf(answer.text, sizeof(answer.text), "%.*s", (int)document->len, document->data);
	else
		(void)snprintf(answer.text, sizeof(answer.text), "%s", why);
}

static int try_ask(struct profiled_world *f, enum profile_form form, struct reason *why)
{
	const struct profile_question question = {
		.event = PROFILE_CPU_CLOCK,
		.form = form,
		.counted = form != PROFILE_FORM_CAPTURES,
	};

	answer = (struct answer){};
	why->text[0] = '\0';
	return profiles_ask(f->profiles, &question, take_answer, &answer, why);
}

/* The profiler has got the question, with this number. */
static void ask(struct profiled_world *f, uint64_t number)
{
	struct reason why;
	struct message message;
	struct profile_question question;

	if (try_ask(f, PROFILE_FORM_FOLDED, &why) < 0)
		fail_msg("%s", why.text);
	message = next_message(f, PROFILER_QUESTION);
	assert_int_equal(message.number, number);
	assert_int_equal(read_question(&question, message.content, message.len), 0);
	assert_string_equal(question.event, PROFILE_CPU_CLOCK);
	assert_int_equal(question.form, PROFILE_FORM_FOLDED);
	/* This world counts no cgroups. */
	assert_true(question.counted && question.counts.problem);
	profile_question_release(&question);
	message_release(&message);
	assert_int_equal(answer.nr, 0);
}

static void expect_answer(int error, const char *text)
{
	assert_int_equal(answer.nr, 1);
	assert_int_equal(answer.error, error);
	assert_string_equal(answer.text, text);
}

/* --- tests: what the profiler is told */

static void test_start(void **state)
{
	struct profiled_world *f = *state;
	const struct profiler_state on = a_state(1, ""), early = a_state(0, "");
	struct profile_stats stats;

	assert_string_equal(profiles_problem(f->profiles), "the profiler is being started");
	assert_false(profiles_are_in_force(f->profiles));
	start_profiler(f);
	expect_everything(f, 1, 77);
	assert_string_equal(profiles_problem(f->profiles), "the profiler is being started");
	say_state(f, &early);
	assert_false(profiles_are_in_force(f->profiles));
	say_state(f, &on);
	assert_true(profiles_are_in_force(f->profiles));
	assert_true(profiles_are_on(f->profiles));
	profiles_follow(f->profiles);
	expect_silence(f);
	profiles_stats(f->profiles, &stats);
	assert_int_equal(stats.up, 1);
	assert_int_equal(stats.restarts, 0);
}

static void test_reload(void **state)
{
	struct profiled_world *f = *state;

	start_profiler(f);
	expect_everything(f, 1, 77);
	reload_world(f, "[profiles]\nrate = 99\n" RULE);
	expect_settings(f, 2, 99, 77);
	expect_silence(f);
	reload_world(f, "[profiles]\nenabled = no\n" RULE);
	expect_settings(f, 3, 0, 0);
	expect_silence(f);
	assert_true(profiles_are_in_force(f->profiles));
	/* Nobody missed samples meanwhile. */
	reload_world(f, RULE);
	expect_settings(f, 4, 19, 0);
	expect_silence(f);
}

static void test_off(void **state)
{
	struct profiled_world *f = *state;
	struct reason why;

	start_profiler(f);
	/* It has captures on disk all the same. */
	expect_settings(f, 1, 0, 0);
	expect_cgroups(f, true, ALL, 0);
	expect_silence(f);
	assert_string_equal(profiles_problem(f->profiles), "");
	assert_true(profiles_are_in_force(f->profiles));
	assert_int_equal(try_ask(f, PROFILE_FORM_TREE, &why), -EOPNOTSUPP);
	assert_non_null(strstr(why.text, "enabled = yes"));
	reload_world(f, RULE);
	expect_settings(f, 2, 19, 0);
	expect_silence(f);
}

static void test_cgroups(void **state)
{
	struct profiled_world *f = *state;

	start_profiler(f);
	expect_everything(f, 1, 77);
	scratch_mkdir(&f->scratch, "cgroups/c");
	scratch_rmdir(&f->scratch, "cgroups/a/b");
	follow_tree();
	profiles_follow(f->profiles);
	expect_cgroups(f, false, "/c|", 1);
	expect_silence(f);
	cgroup_changes_lost = true;
	profiles_follow(f->profiles);
	expect_cgroups(f, true, "/|/a|/c|", 0);
	expect_silence(f);
}

static void test_problems(void **state)
{
	struct profiled_world *f = *state;
	const struct profiler_state off = a_state(1, "the kernel has it so");

	start_profiler(f);
	expect_everything(f, 1, 77);
	say_state(f, &off);
	assert_false(profiles_are_on(f->profiles));
	assert_string_equal(profiles_problem(f->profiles), "the kernel has it so");
	profiles_tick(f->profiles);
	assert_string_equal(due_rule.problem.text, "the kernel has it so");
}

/* --- tests: questions */

static void test_answers(void **state)
{
	struct profiled_world *f = *state;

	start_profiler(f);
	expect_everything(f, 1, 77);
	ask(f, 1);
	/* Nobody asked these. */
	say_answer(f, 0, "none");
	say_answer(f, 2, "none");
	say_refusal(f, UINT64_MAX, -EBUSY, "none");
	assert_int_equal(answer.nr, 0);
	say_answer(f, 1, "a document");
	expect_answer(0, "a document");
	say_answer(f, 1, "once more");
	expect_answer(0, "a document");
	ask(f, 2);
	say_refusal(f, 2, -E2BIG, "it is too much");
	expect_answer(-E2BIG, "it is too much");
	expect_silence(f);
}

static void test_cancel(void **state)
{
	struct profiled_world *f = *state;
	struct message message;

	start_profiler(f);
	expect_everything(f, 1, 77);
	profiles_cancel(f->profiles);
	expect_silence(f);
	ask(f, 1);
	profiles_cancel(f->profiles);
	message = next_message(f, PROFILER_CANCEL);
	assert_int_equal(message.number, 1);
	message_release(&message);
	ask(f, 2);
	say_answer(f, 1, "too late");
	say_refusal(f, 1, -EBUSY, "too late");
	assert_int_equal(answer.nr, 0);
	say_answer(f, 2, "in time");
	expect_answer(0, "in time");
}

/* --- tests: no memory for a file */

static bool no_memfd;

int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (!no_memfd)
		return __real_memfd_create(name, flags);
	errno = ENOMEM;
	return -1;
}

/* More bytes than a packet has. */
#define LARGE 900
#define NAME "cgroup-%090d"

/* They are sent when there is memory again. */
static void test_no_memfd_for_settings(void **state)
{
	struct profiled_world *f = *state;
	_cleanup_(buf_release) struct buf config = {};

	start_profiler(f);
	expect_everything(f, 1, 77);
	buf_str(&config, RULE "[profiles]\nrate = 99\n");
	for (int i = 0; i < LARGE; i++)
		buf_printf(&config, "include = /" NAME "\n", i);
	buf_char(&config, '\0');
	no_memfd = true;
	reload_world(f, config.data);
	expect_silence(f);
	assert_false(profiles_are_in_force(f->profiles) && profiles_are_on(f->profiles));
	no_memfd = false;
	profiles_follow(f->profiles);
	expect_settings(f, 2, 99, 77);
	expect_silence(f);
}

static void test_no_memfd_for_cgroups(void **state)
{
	struct profiled_world *f = *state;
	struct message message;

	start_profiler(f);
	expect_everything(f, 1, 77);
	for (int i = 0; i < LARGE; i++) {
		char name[128];

		(void)snprintf(name, sizeof(name), "cgroups/" NAME, i);
		scratch_mkdir(&f->scratch, name);
	}
	follow_tree();
	no_memfd = true;
	profiles_follow(f->profiles);
	expect_silence(f);
	no_memfd = false;
	profiles_follow(f->profiles);
	message = next_message(f, PROFILER_CGROUPS);
	assert_true(message.len > CHANNEL_PACKET_MAX);
	message_release(&message);
	expect_silence(f);
}

/* --- tests: ends */

static void test_end(void **state)
{
	struct profiled_world *f = *state;
	const struct profiler_state on = a_state(1, "");
	struct profile_stats stats;
	struct reason why;

	assert_int_equal(try_ask(f, PROFILE_FORM_TREE, &why), -EAGAIN);
	assert_string_equal(why.text, "the profiler is being started");
	start_profiler(f);
	expect_everything(f, 1, 77);
	say_state(f, &on);
	ask(f, 1);
	f->far = channel_free(f->far);
	run_loop(f);
	expect_answer(-EAGAIN, "the profiler has ended while it was at the answer; it is being started again");
	assert_int_equal(try_ask(f, PROFILE_FORM_TREE, &why), -EAGAIN);
	assert_string_equal(why.text, RESTARTED);
	assert_string_equal(profiles_problem(f->profiles), RESTARTED);
	assert_false(profiles_are_in_force(f->profiles));
	assert_false(profiles_are_on(f->profiles));
	profiles_stats(f->profiles, &stats);
	assert_int_equal(stats.up, 0);
	profiles_follow(f->profiles);

	/* The next one is told until when there are samples. */
	start_profiler(f);
	expect_everything(f, 2, 1234);
	profiles_stats(f->profiles, &stats);
	assert_int_equal(stats.up, 1);
	assert_int_equal(stats.restarts, 1);
	ask(f, 2);
	say_answer(f, 2, "again");
	expect_answer(0, "again");
}

/* The keeper's news can be there before the end of the connection is. */
static void test_next_start(void **state)
{
	struct profiled_world *f = *state;
	struct channel *first;

	start_profiler(f);
	expect_everything(f, 1, 77);
	ask(f, 1);
	first = steal_ptr(f->far);
	start_profiler(f);
	assert_int_equal(answer.error, -EAGAIN);
	expect_everything(f, 2, 77);
	channel_free(first);
}

static void test_failed_start(void **state)
{
	struct profiled_world *f = *state;

	keeper_news.start = (struct profiler_start){
		.number = ++keeper_news.starts,
		.last_status = -1,
		.error = ENOMEM,
		.failure = "there is no table",
		.socket = -1,
		.pidfd = -1,
	};
	tell_news(f, 0);
	assert_string_equal(
		profiles_problem(f->profiles),
		"the profiler can't be started: there is no table (Cannot allocate memory); it is tried again");
	start_profiler(f);
	expect_everything(f, 1, 77);
	assert_string_equal(profiles_problem(f->profiles), "the profiler is being started");
}

static void test_keeper_gone(void **state)
{
	struct profiled_world *f = *state;
	struct reason why;

	start_profiler(f);
	expect_everything(f, 1, 77);
	/* One profiler is missed, and then there are none any more. */
	tell_news(f, -EMFILE);
	assert_string_equal(profiles_problem(f->profiles), "the profiler is being started");
	ask(f, 1);
	tell_news(f, -EPIPE);
	assert_int_equal(answer.error, -EAGAIN);
	assert_string_equal(profiles_problem(f->profiles), "the keeper is gone");
	assert_int_equal(try_ask(f, PROFILE_FORM_TREE, &why), -EAGAIN);
	assert_string_equal(why.text, "the keeper is gone");
	profiles_follow(f->profiles);
}

static void test_leave(void **state)
{
	struct profiled_world *f = *state;
	struct message message;

	profiles_leave(f->profiles, PATIENCE_NS);
	start_profiler(f);
	expect_everything(f, 1, 77);
	/* It has ended, and is waited for no longer. */
	assert_int_equal(kill(f->pid, SIGKILL), 0);
	profiles_leave(f->profiles, PATIENCE_NS);
	message = next_message(f, PROFILER_STOP);
	message_release(&message);
	assert_int_equal(reap_profiler(f, true), SIGKILL);
}

/* --- tests: nonsense */

static void say_cut(struct profiled_world *f)
{
	_cleanup_(buf_release) struct buf content = {};
	const struct profiler_state on = a_state(1, "");

	write_state(&content, &on);
	content.len -= sizeof(uint64_t);
	say(f, PROFILER_STATE, 0, &content);
}

static void say_no_refusal(struct profiled_world *f)
{
	say_refusal(f, 1, 0, "it is none");
}

/* Of a kind that goes the other way. */
static void say_stop(struct profiled_world *f)
{
	const struct buf empty = {};

	say(f, PROFILER_STOP, 0, &empty);
}

/* Of no kind, as the channel has it. */
static void say_garbage(struct profiled_world *f)
{
	assert_int_equal(send(channel_fd(f->far), "garbage", 7, MSG_NOSIGNAL), 7);
	run_loop(f);
}

static void say_other_settings(struct profiled_world *f)
{
	const struct profiler_state other = a_state(99, "");

	say_state(f, &other);
}

static void say_other_orders(struct profiled_world *f)
{
	struct profiler_state other = a_state(0, "");

	other.orders = 1;
	say_state(f, &other);
}

static void say_too_large(struct profiled_world *f)
{
	struct profiler_state large = a_state(1, "");

	/* 8 MiB for samples, 8 MiB for captures and 32 MiB for tables, the rings, and what else it may have. */
	large.stats.ring_bytes = 1 << 20;
	large.stats.memory = (uint64_t)(8 + 8 + 32 + 1 + 128) << 20;
	say_state(f, &large);
	assert_true(profiles_are_on(f->profiles));
	large.stats.memory++;
	say_state(f, &large);
}

/* It is killed, why is told until the next one tells something else, and that one is told everything. */
static void test_nonsense(void **state)
{
	static const struct {
		void (*say)(struct profiled_world *f);
		const char *why;
	} all[] = {
		{ say_too_large, "it was too large: 177 MiB, bound 177 MiB" },
		{ say_cut, "its message of kind 7 makes no sense" },
		{ say_no_refusal, "its message of kind 9 makes no sense" },
		{ say_stop, "its message of kind 6 makes no sense" },
		{ say_garbage, "a packet of 7 bytes is shorter than a header" },
		{ say_other_settings, "its message of kind 7 makes no sense" },
		{ say_other_orders, "its message of kind 7 makes no sense" },
	};
	struct profiled_world *f = *state;
	struct profile_stats stats;
	struct reason told;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		start_profiler(f);
		expect_everything(f, i + 1, i ? 1234 : 77);
		if (i)
			assert_string_equal(profiles_problem(f->profiles), told.text);
		ask(f, i + 1);
		all[i].say(f);
		reason_set(&told, 0, "the profiler is started again: %s", all[i].why);
		assert_int_equal(reap_profiler(f, true), SIGKILL);
		assert_int_equal(answer.nr, 1);
		assert_int_equal(answer.error, -EAGAIN);
		assert_string_equal(profiles_problem(f->profiles), told.text);
		profiles_stats(f->profiles, &stats);
		assert_int_equal(stats.up, 0);
	}
}

/* --- tests: captures */

static const struct event faults = { .text = (char *)(uintptr_t) "page-faults", .scale = 1 };

static enum due_answer tick(const struct profiled_world *f, const struct cgroup *cgroup)
{
	due_rule.is_due = true;
	due_rule.answer = NOT_ASKED;
	due_rule.target = (struct due_target){
		.identity = cgroup ? cgroup->identity : NULL,
		.value = 2,
		.event = &faults,
	};
	profiles_tick(f->profiles);
	return due_rule.answer;
}

static struct capture_order next_order(struct profiled_world *f, uint64_t number, int *ret_fd)
{
	_cleanup_(message_release) struct message message = next_message(f, PROFILER_KEEP);
	struct capture_order order;

	assert_int_equal(message.number, number);
	assert_int_equal(read_order(&order, message.content, message.len), 0);
	assert_string_equal(order.rule, "busy");
	assert_string_equal(order.event, PROFILE_CPU_CLOCK);
	assert_int_equal(order.keep, 3);
	assert_int_equal(order.rate, 99);
	assert_true(order.reason[0]);
	*ret_fd = steal_fd(&message.fd);
	return order;
}

static void test_orders(void **state)
{
	struct profiled_world *f = *state;
	struct profiler_state on = a_state(1, "");
	struct capture_order first, second;
	struct stat is, was;
	int fd;

	start_profiler(f);
	expect_everything(f, 1, 77);
	/* The first one may take a moment. */
	assert_int_equal(tick(f, NULL), NOT_ASKED);
	assert_string_equal(due_rule.problem.text, "");
	say_state(f, &on);
	assert_int_equal(tick(f, NULL), DUE_NOT_NOW);
	assert_string_equal(due_rule.problem.text, "");
	on.room = 2;
	say_state(f, &on);
	assert_int_equal(tick(f, NULL), DUE_TAKEN);
	first = next_order(f, 1, &fd);
	assert_null(first.cgroup);
	assert_int_equal(fd, -1);

	/* With the directory of the cgroup, whose samples come more often then. */
	assert_int_equal(tick(f, cgroup_of("/a")), DUE_TAKEN);
	second = next_order(f, 2, &fd);
	assert_string_equal(second.cgroup, "/a");
	assert_null(second.cgroup_problem);
	assert_int_equal(fstat(fd, &is), 0);
	assert_int_equal(stat(scratch_path(&f->scratch, "cgroups/a"), &was), 0);
	assert_int_equal(is.st_ino, was.st_ino);
	assert_string_not_equal(first.id, second.id);
	close(fd);
	capture_order_release(&first);
	capture_order_release(&second);

	/* A state from before the second order: there is no room but for that one. */
	on.orders = 1;
	on.room = 1;
	say_state(f, &on);
	assert_int_equal(tick(f, NULL), DUE_NOT_NOW);
	on.orders = 2;
	say_state(f, &on);
	assert_int_equal(tick(f, NULL), DUE_TAKEN);
	first = next_order(f, 3, &fd);
	capture_order_release(&first);
	assert_int_equal(tick(f, NULL), DUE_NOT_NOW);
	expect_silence(f);
}

/* The question of the list of captures has the rules, and the values of the capture that was ordered. */
static void test_list(void **state)
{
	struct profiled_world *f = *state;
	struct profiler_state on = a_state(1, "");
	struct profile_question question;
	struct message message;
	struct reason why;

	start_profiler(f);
	expect_everything(f, 1, 77);
	on.room = 1;
	say_state(f, &on);
	assert_int_equal(tick(f, NULL), DUE_TAKEN);
	message = next_message(f, PROFILER_KEEP);
	message_release(&message);
	assert_int_equal(try_ask(f, PROFILE_FORM_CAPTURES, &why), 0);
	message = next_message(f, PROFILER_QUESTION);
	assert_int_equal(read_question(&question, message.content, message.len), 0);
	assert_int_equal(question.told.nr_rules, 1);
	assert_string_equal(question.told.rules[0].name, "busy");
	assert_int_equal(question.told.nr_values, 1);
	assert_memory_equal(question.told.values[0].capture, "busy-", 5);
	profile_question_release(&question);
	message_release(&message);
}

static void expect_rule(const struct profiled_world *f, uint64_t captures, uint64_t passed_over)
{
	struct capture_rule_info info;

	assert_true(profiles_rule(f->profiles, 0, &info));
	assert_int_equal(info.captures, captures);
	assert_int_equal(info.passed_over, passed_over);
}

/* A capture counts when the profiler has it. An order that was refused, that was lost on its way, or that the profiler
 * took with it, is passed over. */
static void test_refused_orders(void **state)
{
	struct profiled_world *f = *state;
	struct profiler_state on = a_state(1, "");
	struct capture_order orders[4];
	char *ids[1];
	int fd;

	start_profiler(f);
	expect_everything(f, 1, 77);
	on.room = 4;
	say_state(f, &on);
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		assert_int_equal(tick(f, NULL), DUE_TAKEN);
		orders[i] = next_order(f, i + 1, &fd);
	}
	expect_rule(f, 0, 0);
	ids[0] = (char *)(uintptr_t)orders[0].id;
	on.captures = ids;
	on.nr_captures = 1;
	on.orders = 1;
	say_state(f, &on);
	expect_rule(f, 1, 0);
	/* It has heard of the third alone, and has none of both. */
	on.orders = 3;
	say_state(f, &on);
	expect_rule(f, 1, 2);
	start_profiler(f);
	expect_rule(f, 1, 3);
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
		capture_order_release(&orders[i]);
}

/* Allocations that go well before one that fails. */
static long allocations_left;

static bool next_fails(void)
{
	return allocations_left-- == 0;
}

/* Without memory an order is asked for again, or is sent as a whole. */
static void test_order_without_memory(void **state)
{
	struct profiled_world *f = *state;
	struct profiler_state on = a_state(1, "");
	enum due_answer result = DUE_NOT_NOW;
	struct capture_order order;
	size_t nr_refused = 0;
	int fd;

	start_profiler(f);
	expect_everything(f, 1, 77);
	on.room = 1;
	say_state(f, &on);
	for (long i = 0; result == DUE_NOT_NOW; i++) {
		allocations_left = i;
		memory_fails = next_fails;
		result = tick(f, NULL);
		memory_fails = NULL;
		nr_refused += result == DUE_NOT_NOW;
		if (result == DUE_NOT_NOW)
			expect_silence(f);
	}
	assert_int_equal(result, DUE_TAKEN);
	/* The id, the two texts and the message. */
	assert_true(nr_refused >= 4);
	order = next_order(f, 1, &fd);
	capture_order_release(&order);
	expect_rule(f, 0, 0);
}

/* Numbers of orders begin anew with each profiler. */
static void test_orders_anew(void **state)
{
	struct profiled_world *f = *state;
	struct profiler_state on = a_state(1, "");
	char *ids[] = { (char *)(uintptr_t) "one" };
	struct capture_order order;
	struct profile_stats stats;
	int fd;

	on.room = 1;
	start_profiler(f);
	expect_everything(f, 1, 77);
	on.nr_captures = 1;
	on.captures = ids;
	say_state(f, &on);
	assert_int_equal(tick(f, NULL), DUE_TAKEN);
	profiles_stats(f->profiles, &stats);
	assert_int_equal(stats.captures_dropped, 0);
	start_profiler(f);
	/* The one in memory; the one that was ordered was passed over. */
	profiles_stats(f->profiles, &stats);
	assert_int_equal(stats.captures_dropped, 1);
	assert_int_equal(tick(f, NULL), NOT_ASKED);
	expect_everything(f, 2, 1234);
	on.settings = 2;
	say_state(f, &on);
	assert_int_equal(tick(f, NULL), DUE_TAKEN);
	order = next_order(f, 1, &fd);
	capture_order_release(&order);
}

/* Whose samples nobody may see. */
static void test_hidden(void **state)
{
	struct profiled_world *f = *state;
	struct profiler_state on = a_state(2, "");

	on.room = 1;
	start_profiler(f);
	expect_everything(f, 1, 77);
	reload_world(f, "[profiles]\nexclude = /a\n" RULE);
	expect_settings(f, 2, 19, 77);
	say_state(f, &on);
	assert_int_equal(tick(f, cgroup_of("/a")), DUE_IGNORED);
	expect_silence(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, profiled_setup, profiled_teardown)
	const struct CMUnitTest tests[] = {
		TEST(start),
		TEST(reload),
		cmocka_unit_test_setup_teardown(test_off, profiled_setup_off, profiled_teardown),
		TEST(cgroups),
		TEST(problems),
		TEST(answers),
		TEST(cancel),
		TEST(no_memfd_for_settings),
		TEST(no_memfd_for_cgroups),
		TEST(end),
		TEST(next_start),
		TEST(failed_start),
		TEST(keeper_gone),
		TEST(leave),
		TEST(nonsense),
		TEST(orders),
		TEST(list),
		TEST(orders_anew),
		TEST(refused_orders),
		TEST(order_without_memory),
		TEST(hidden),
	};

	return cmocka_run_group_tests_name("profiles", tests, NULL, NULL);
}
