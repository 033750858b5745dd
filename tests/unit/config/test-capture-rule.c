/* SPDX-License-Identifier: MIT */

/* The rules of captures, and the sections that they are in. */

#include "base/config/capture-rule.h"

#include "base/util/clock.h"
#include "setup/configs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)NS_PER_S)

static void test_rules(_unused_ void **state)
{
	static const struct {
		const char *text, *event, *cgroup;
		bool below;
		double threshold;
		uint64_t duration;
	} cases[] = {
		{ "task-clock@/a/b.service > 3.5 for 10s", "task-clock", "/a/b.service", false, 3.5, 10 * SECOND },
		{ "task-clock@/a < 0.25", "task-clock", "/a", true, 0.25, 0 },
		{ "\t page-faults:u@** \t > \t 1e3 \t for\t1min \t", "page-faults:u", "**", false, 1000, 60 * SECOND },
		{ "context-switches > 0", "context-switches", NULL, false, 0, 0 },
		{ "context-switches@cpu > 100", "context-switches", NULL, false, 100, 0 },
		{ "cpu/event=0x3c,umask=0/@/cpu > 1", "cpu/event=0x3c,umask=0/", "/cpu", false, 1, 0 },
		/* Units of users have an @ in their names, and any cgroup may have spaces, > and "for" in it. */
		{ "cycles@/user@1000.service/* > 5", "cycles", "/user@1000.service/*", false, 5, 0 },
		{ "cycles@/a > 3 for 10s > 5 for 2s", "cycles", "/a > 3 for 10s", false, 5, 2 * SECOND },
		{ "sched:sched_switch@/[ab]?/** > 7", "sched:sched_switch", "/[ab]?/**", false, 7, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(capture_rule_release) struct capture_rule rule = {};
		struct reason why = {};

		if (capture_rule_parse(&rule, cases[i].text, &why) < 0)
			fail_msg("%s: %s", cases[i].text, why.text);
		assert_string_equal(rule.event, cases[i].event);
		assert_string_equal(rule.cgroup ?: "(none)", cases[i].cgroup ?: "(none)");
		assert_int_equal(rule.below, cases[i].below);
		assert_true(rule.threshold >= cases[i].threshold && rule.threshold <= cases[i].threshold);
		assert_int_equal(rule.duration, cases[i].duration);
	}
}

static void test_wrong_rules(_unused_ void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{ "", "'' stands where > or < should" },
		{ ">", "'' stands where > or < should" },
		{ "5", "'' stands where > or < should" },
		{ "> 5", "there is no event" },
		{ "@/a > 5", "there is no event" },
		{ "task-clock", "'' stands where > or < should" },
		{ "task-clock 5",
		  "'task-clock' stands where > or < should, with spaces around it; write EVENT@CGROUP" },
		{ "task-clock>5", "'' stands where > or < should" },
		{ "task-clock >5", "'task-clock' stands where > or < should" },
		{ "task-clock >= 5", "'>=' stands where > or < should" },
		{ "task-clock > x", "'x' is not a number per second" },
		{ "task-clock > 5%", "'5%' is not a number per second" },
		{ "task-clock > 0x5", "'0x5' is not a number per second" },
		{ "task-clock > nan", "'nan' is not a number per second" },
		{ "task-clock > 1e999", "'1e999' is not a number per second" },
		{ "task-clock > -1", "'-1' is not a number per second" },
		{ "task-clock > 5 for", "there is no duration after \"for\"; write for example 10s or 1min" },
		{ "task-clock > 5 for x", "'x' after \"for\" is not a duration; write for example 10s" },
		{ "task-clock > 5 for 10 s", "'10' stands where" },
		{ "task-clock < 0", "no rate is below 0" },
		{ "task-clock@ > 5", "'@' is no cgroup" },
		{ "task-clock@a.service > 5",
		  "'@a.service' is no cgroup, since their paths begin with '/'; write '@/a.service', or @cpu for all "
		  "CPUs" },
		{ "task clock@/a > 5", "the event's name has a space in it" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct capture_rule rule = {};
		struct reason why = {};

		assert_int_equal(capture_rule_parse(&rule, cases[i].text, &why), -EINVAL);
		assert_null(rule.event);
		if (!strstr(why.text, cases[i].expected))
			fail_msg("%s: %s", cases[i].text, why.text);
	}
}

static void test_long_rule(_unused_ void **state)
{
	char text[1200] = "cycles@/";
	struct capture_rule rule = {};
	struct reason why = {};

	memset(text + strlen(text), 'a', 1024);
	(void)snprintf(text + strlen(text), 10, " > 1");
	assert_int_equal(capture_rule_parse(&rule, text, &why), -EINVAL);
	assert_non_null(strstr(why.text, "is longer than 1024 bytes"));
}

/* --- sections */

static void test_sections(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = parsed("[profiles]\n"
							       "capture_memory = 4MiB\n"
							       "[capture \"plain\"]\n"
							       "when = task-clock@/a > 1\n"
							       "[capture \"busy\"]\n"
							       "when = page-faults > 10\n"
							       "before = 1min\n"
							       "after = 20s\n"
							       "event = faults\n"
							       "every = 1h\n"
							       "keep = 3\n"
							       "save = yes\n"
							       "[profile \"faults\"]\n"
							       "event = page-faults\n"
							       "rate = 10\n"
							       "[capture \"busy\"]\n"
							       "rate = 199\n");
	_cleanup_(config_release) struct config copy = {};
	const struct config_capture *capture;

	assert_int_equal(config_check(config, NULL), 0);
	assert_int_equal(config->capture_memory, 4 * 1024 * 1024);
	assert_int_equal(config->nr_captures, 2);
	capture = &config->captures[0];
	assert_string_equal(capture->name, "plain");
	assert_null(capture->event.text);
	assert_int_equal(capture->before, 30 * SECOND);
	assert_int_equal(capture->after, 10 * SECOND);
	assert_int_equal(capture->every, 600 * SECOND);
	assert_int_equal(capture->keep, 16);
	assert_int_equal(capture->rate, 0);
	assert_false(capture->save);
	assert_int_equal(config_copy(&copy, config), 0);
	capture = &copy.captures[1];
	assert_string_equal(capture->when.text, "page-faults > 10");
	assert_int_equal(capture->when.place.line, 6);
	assert_string_equal(capture->event.text, "faults");
	assert_int_equal(capture->before, 60 * SECOND);
	assert_int_equal(capture->after, 20 * SECOND);
	assert_int_equal(capture->every, 3600 * SECOND);
	assert_int_equal(capture->keep, 3);
	assert_int_equal(capture->rate, 199);
	assert_true(capture->save);
}

static void check_wrong(const char *text, const char *message)
{
	expect_error(text, strlen(text), message);
}

static void test_wrong_sections(_unused_ void **state)
{
	char many[4096] = "";

	check_wrong("[capture]\n", "f:1: a capture begins with [capture \"NAME\"]; a name has letters");
	check_wrong("[capture \"a\"]\nwhem = x\n", "f:2: [capture \"…\"] has no key 'whem'; did you mean 'when'?");
	check_wrong("\n[capture \"a\"]\nkeep = 2\n", "f:2: [capture \"a\"] has no rule; add when = …");
	check_wrong("[capture \"a\"]\nwhen =\n", "f:2: when: '' stands where > or < should");
	check_wrong("[capture \"a\"]\nwhen = a > 1\nwhen = b\n", "f:3: when: '' stands where > or < should");
	check_wrong("[capture \"a\"]\nafter = 0\n", "f:2: after: 0 is out of bounds; 1s to 10min is allowed");
	check_wrong("[capture \"a\"]\nbefore = 11min\n", "f:2: before: 11min is out of bounds; 0s to 10min");
	check_wrong("[capture \"a\"]\nrate = 1001\n", "f:2: rate: 1001 is out of bounds; 0 to 1000 is allowed");
	check_wrong("[capture \"a\"]\nkeep = 0\n", "f:2: keep: 0 is out of bounds; 1 to 1000 is allowed");
	check_wrong("[capture \"a\"]\nevery = 1ms\n", "f:2: every: 1ms is out of bounds; 1s to 24h is allowed");
	check_wrong("[capture \"a\"]\nsave = maybe\n", "f:2: save: 'maybe' is neither yes nor no");
	check_wrong("[profiles]\ncapture_memory = 1MiB\n", "f:2: capture_memory: 1MiB is out of bounds; 2MiB to 64GiB");
	check_wrong("[capture \"a\"]\nwhen = a > 1\nevent = b\n",
		    "f:3: event: 'b' is neither cpu-clock nor the name of a [profile \"NAME\"]");
	check_wrong("[profile \"b\"]\nevent = x\nperiod = 1\n[capture \"a\"]\nwhen = a > 1\nevent = b\nrate = 9\n",
		    "f:4: [capture \"a\"] has a rate, but [profile \"b\"] has samples by its period");
	for (int i = 0; i <= CONFIG_MAX_CAPTURES; i++)
		(void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "[capture \"c%d\"]\nwhen = a > 1\n",
			       i);
	check_wrong(many, "f:65: more than 32 captures");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),	       cmocka_unit_test(test_wrong_rules),
		cmocka_unit_test(test_long_rule),      cmocka_unit_test(test_sections),
		cmocka_unit_test(test_wrong_sections),
	};

	return cmocka_run_group_tests_name("capture-rule", tests, NULL, NULL);
}
