/* SPDX-License-Identifier: MIT */

/* Events that are not there, texts that are none, and the list of what there is. */

#include "counting/event/walk.h"
#include "setup/machines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void check_absent(const struct event_env *env, const char *text, int absent, const char *metric,
			 const char *part)
{
	struct event_list list = {};
	struct reason why = {};

	assert_int_equal(event_parse(&list, env, text, &why), 0);
	assert_int_equal(list.nr, 1);
	assert_int_equal(list.events[0].absent, absent);
	assert_string_equal(list.events[0].metric, metric);
	assert_string_equal(list.events[0].text, text);
	if (!strstr(list.events[0].why_absent, part))
		fail_msg("%s: '%s' has no '%s'", text, list.events[0].why_absent, part);
	event_list_release(&list);
}

static void test_absent(_unused_ void **state)
{
	struct machine m = machine_new(machine_hybrid);
	struct event_env env = m.env;

	check_absent(&env, "cpu/event=0x3c/u", -ENOENT, "cpu_event_0x3c_user",
		     "this machine has no PMU 'cpu'; it has: breakpoint, cpu_atom, cpu_core, kprobe, power, ");
	check_absent(&env, "msr/tsc,name=ticks/", -ENOENT, "ticks", "no PMU 'msr'");
	check_absent(&env, "sched:gone", -ENOENT, "sched_gone", "no tracepoint 'sched:gone'");
	check_absent(&env, "gone:gone:k", -ENOENT, "gone_gone_kernel", "no tracepoint 'gone:gone'");
	check_absent(&env, "broken:empty", -EBADMSG, "broken_empty", "events/broken/empty/id holds no number");

	env.tracefs = NULL;
	check_absent(&env, "sched:sched_switch", -ENODEV, "sched_sched_switch", "tracefs is not mounted");
	env.tracefs_problem = "the sentence";
	check_absent(&env, "sched:sched_switch", -ENODEV, "sched_sched_switch", "the sentence");
	machine_release(&m);

	/* All its CPUs are gone: not an event on every CPU. */
	m = machine_new(machine_intel);
	check_absent(&m.env, "i915/rc6-residency/", -ENODEV, "i915_rc6_residency", "cpumask is empty");
	/* An event that this PMU lacks, and that of another machine may have. */
	check_absent(&m.env, "msr/tcs/", -ENOENT, "msr_tcs",
		     "PMU 'msr' has no term or event 'tcs'; it has the terms event and the events "
		     "cpu_thermal_margin, smi, tsc");
	check_absent(&m.env, "cpu/cycles,inv/", -ENOENT, "cpu_cycles_inv", "no term or event 'cycles'");
	check_absent(&m.env, "software/x/", -ENOENT, "software_x", "it has the terms none and the events none");
	check_absent(&m.env, "uncore_cbox/nothing,name=n/", -ENOENT, "n",
		     "PMU 'uncore_cbox_1' has no term or event 'nothing'");
	env = (struct event_env){};
	check_absent(&env, "msr/tsc/", -ENOENT, "msr_tsc", "it has: none");
	machine_release(&m);
}

static void check_refused(const struct machine *m, const char *text, const char *part1, const char *part2)
{
	struct event_list list = machine_parse(m, "cs");
	struct reason why = {};
	int r = event_parse(&list, &m->env, text, &why);

	if (r != -EINVAL || !strstr(why.text, part1) || !strstr(why.text, part2))
		fail_msg("%s: %d, '%s', not '%s' and '%s'", text, r, why.text, part1, part2);
	assert_int_equal(list.nr, 1);
	assert_string_equal(list.events[0].metric, "context_switches");
	event_list_release(&list);
	assert_int_equal(event_parse(&list, &m->env, text, NULL), -EINVAL);
	assert_null(list.events);
}

static void test_refused(_unused_ void **state)
{
	static const char *const table[][3] = {
		{ "", "the event's name is missing", "" },
		{ ":u", "event ':u'", "before the ':'" },
		{ "cylces", "unknown event 'cylces'; did you mean 'cycles'?", "" },
		{ "cylces:u", "unknown event 'cylces'; did you mean 'cycles'?", "" },
		{ "dumym", "did you mean 'dummy'?", "" },
		{ "page-fault", "did you mean 'page-faults'?", "" },
		{ "context_switches", "did you mean 'context-switches'?", "" },
		{ "L1-dcache-laod-misses", "did you mean 'L1-dcache-load-misses'?", "" },
		{ "mem-load", "did you mean 'mem-loads'?", "" },
		{ "quux-quux-quux", "unknown event 'quux-quux-quux'; --list-events", "" },
		{ "iTLB-stores", "unknown event 'iTLB-stores'", "" },
		{ "LLC-load-load", "unknown event 'LLC-load-load'", "" },
		{ "r", "unknown event 'r'", "" },
		{ "rxyz", "unknown event 'rxyz'", "" },
		{ "r0x", "unknown event 'r0x'", "" },
		{ "r1ffffffffffffffff", "event 'r1ffffffffffffffff'", "64 bits" },

		{ "cycles:x", "event 'cycles:x': unknown modifier 'x'", "u, k, h, G, H, I, D, p and e" },
		{ "cycles:uX", "unknown modifier 'X'", "" },
		{ "cycles:u:k", "unknown modifier ':'", "" },
		{ "cycles:", "a modifier is missing", "" },
		{ "cycles:uu", "modifier 'u' is given twice", "" },
		{ "cycles:pppp", "'p' can be given 3 times at most", "" },
		{ "msr/tsc/x", "event 'msr/tsc/x': unknown modifier 'x'", "" },
		{ "msr/tsc/:", "a modifier is missing", "" },
		{ "msr/tsc/u/", "unknown modifier '/'", "" },
		{ "sched:sched_switch:x", "unknown modifier 'x'", "" },
		{ "sched:sched_switch:", "a modifier is missing", "" },

		{ "sched:*", "wildcards are not supported", "event 'sched:*'" },
		{ "sched:..", "a tracepoint is SUBSYSTEM:NAME", "" },
		{ "sched:a@b", "a tracepoint is SUBSYSTEM:NAME", "" },

		{ "1=cycles", "a label before '='", "1=cycles" },
		{ "=cycles", "a label", "" },
		{ "a.b=cycles", "a label", "" },
		{ "-a=cycles", "a label", "" },
		{ "label=", "the event's name is missing", "" },
		{ "cycles instructions", "event 'cycles…': white space inside", "commas separate events" },
		{ "cy\x01", "byte 0x01", "'cy…'" },
		{ "caf\xc3\xa9", "byte 0xc3", "'caf…'" },

		{ "/tsc/", "the PMU's name is missing before the '/'", "" },
		{ "msr/tsc", "the '/' after the terms is missing", "write 'msr/tsc/'" },
		{ "a'b'/tsc/", "is not a PMU's name", "" },
		{ "cycles/name=x/", "'cycles' is an event, not a PMU", "" },
		{ "cs//u", "'cs' is an event, not a PMU", "" },
		{ "msr/tsc=1/", "'tsc' is an event of PMU 'msr' and takes no value", "" },
		{ "cpu/umsk=1/", "no term or event 'umsk'",
		  "cmask, edge, event, frontend, in_tx, inv, ldlat, offcore_rsp, pc, umask" },
		{ "cpu/umask=0x100/", "term 'umask' is 0xff at most (8 bits), not 0x100", "event 'cpu/umask=0x100/'" },
		{ "cpu/inv=2/", "term 'inv' is 0x1 at most (1 bits), not 0x2", "" },
		{ "cpu/frontend=0x1000000/", "term 'frontend' is 0xffffff at most", "" },
		{ "cpu/event=0x10000000000000000/", "term 'event' has more than 64 bits", "" },
		{ "cpu/event=/", "term 'event' has no value after its '='", "" },
		{ "cpu/event=x/", "the value of term 'event' is not a number: 'x'", "" },
		{ "cpu/event=-1/", "not a number: '-1'", "" },
		{ "cpu/config=1x/", "the value of term 'config' is not a number", "" },
		{ "cpu/event=?/", "is not a number: '?'", "" },
		{ "cpu/,/", "there is an empty term", "" },
		{ "cpu/event=1,/", "there is an empty term", "" },
		{ "cpu/=1/", "there is an empty term", "" },
		{ "cpu/ev@nt=1/", "a term is NAME or NAME=NUMBER", "" },
		{ "cpu/name='x,event=1/", "a single quote is not closed", "" },
		{ "cpu/name='x'y,event=1/", "the quotes of term 'name'", "" },
		{ "cpu/event=1,name/", "name=METRIC", "" },
		{ "nopmu/event=/", "term 'event' has no value", "" },
		{ "nopmu/event=1/x", "unknown modifier 'x'", "" },
	};
	struct machine m = machine_new(machine_intel);
	char *text;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		check_refused(&m, table[i][0], table[i][1], table[i][2]);

	text = malloc(10001);
	assert_non_null(text);
	memset(text, 'x', 10000);
	text[10000] = '\0';
	check_refused(&m, text, "an event of 10000 bytes", "4096");
	text[4000] = '\0';
	check_refused(&m, text, "unknown event 'xxxxxxxx", "");
	free(text);
	machine_release(&m);

	m = machine_new(machine_power);
	check_refused(&m, "hv_24x7/PM_PB_CYC/", "event 'PM_PB_CYC' of PMU 'hv_24x7' needs a value for chip",
		      "chip=NUMBER");
	check_refused(&m, "PM_PB_CYC", "needs a value for chip", "");
	check_refused(&m, "hv_24x7/PM_PB_CYC,chip/", "needs a value for chip", "");
	check_refused(&m, "hv_24x7/PM_PB_CYC,chip=0x10000/", "term 'chip' is 0xffff at most (16 bits)", "");
	machine_release(&m);
}

static void test_two_events(_unused_ void **state)
{
	struct machine m = machine_new(machine_intel);

	check_refused(&m, "power/energy-pkg,energy-cores/", "it names two events, 'energy-pkg' and 'energy-cores'", "");
	check_refused(&m, "cpu/cpu-cycles,mem-stores/", "it names two events", "");
	machine_release(&m);
}

static void test_next_text(_unused_ void **state)
{
	static const char *const parts[] = { "a",   "pmu/x=1,y=2/:u", "label=b", "cpu/event=1,umask=2/", "",
					     "x:y", "open/a, b" };
	char text[] = " a, pmu/x=1,y=2/:u,\tlabel=b ,cpu/event=1,umask=2/, ,x:y ,open/a, b";
	char empty[] = "", comma[] = "a,", *cursor = text;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		assert_string_equal(event_next_text(&cursor), parts[i]);
	assert_null(event_next_text(&cursor));
	assert_null(event_next_text(&cursor));

	cursor = empty;
	assert_string_equal(event_next_text(&cursor), "");
	assert_null(event_next_text(&cursor));
	cursor = comma;
	assert_string_equal(event_next_text(&cursor), "a");
	assert_string_equal(event_next_text(&cursor), "");
	assert_null(event_next_text(&cursor));
}

static void test_units(_unused_ void **state)
{
	static const struct {
		const char *text;
		enum event_unit unit;
		double factor;
	} table[] = {
		{ "Joules", EVENT_UNIT_JOULES, 1 },   { "mJ", EVENT_UNIT_JOULES, 1e-3 },
		{ "MiB", EVENT_UNIT_BYTES, 1048576 }, { "KiB", EVENT_UNIT_BYTES, 1024 },
		{ "GiB", EVENT_UNIT_BYTES, 0x1p30 },  { "Bytes", EVENT_UNIT_BYTES, 1 },
		{ "ns", EVENT_UNIT_SECONDS, 1e-9 },   { "us", EVENT_UNIT_SECONDS, 1e-6 },
		{ "ms", EVENT_UNIT_SECONDS, 1e-3 },   { "s", EVENT_UNIT_SECONDS, 1 },
		{ "seconds", EVENT_UNIT_SECONDS, 1 }, { "C", EVENT_UNIT_CELSIUS, 1 },
		{ "parsecs", EVENT_UNIT_NONE, 1 },    { "", EVENT_UNIT_NONE, 1 },
		{ NULL, EVENT_UNIT_NONE, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		double scale = 0.5;

		assert_int_equal(event_unit_parse(table[i].text, &scale), table[i].unit);
		assert_true(scale == 0.5 * table[i].factor);
	}
	assert_string_equal(event_unit_name(EVENT_UNIT_NONE), "");
}

/* --- the list */

struct seen {
	size_t nr, of_kind[6];
	struct event_listing want[9];
	bool found[9];
};

static int see(void *userdata, const struct event_listing *listing)
{
	static const char *const kinds[] = { "Hardware event",	 "Hardware cache event", "Software event",
					     "Kernel PMU event", "Tracepoint",		 "User probe" };
	struct seen *seen = userdata;

	/* Those depend on this machine's CPU; test-pfm.c looks at them. */
	if (strcmp(listing->kind, "libpfm event") == 0)
		return 0;
	seen->nr++;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		seen->of_kind[i] += strcmp(listing->kind, kinds[i]) == 0;
	for (size_t i = 0; i < ARRAY_SIZE(seen->want) && seen->want[i].kind; i++)
		if (strcmp(listing->kind, seen->want[i].kind) == 0 && strcmp(listing->pmu, seen->want[i].pmu) == 0 &&
		    strcmp(listing->name, seen->want[i].name) == 0 && strcmp(listing->unit, seen->want[i].unit) == 0 &&
		    listing->is_generic == seen->want[i].is_generic)
			seen->found[i] = true;
	return 0;
}

static int parse_listing(void *userdata, const struct event_listing *listing)
{
	struct event_list list;

	/* Forms, not names. */
	if (strcmp(listing->kind, "Hardware breakpoint") == 0 || strstr(listing->kind, " probe"))
		return 0;
	list = machine_parse(userdata, listing->name);
	assert_true(list.events[0].absent == 0 || list.events[0].absent == -ENODEV);
	event_list_release(&list);
	return 0;
}

static int stop_at_third(void *userdata, _unused_ const struct event_listing *listing)
{
	return ++*(int *)userdata == 3 ? 42 : 0;
}

static void test_walk(_unused_ void **state)
{
	struct seen seen = { .want = {
				     { "Hardware event", "cpu", "cycles", "", true },
				     { "Hardware cache event", "cpu", "L1-dcache-load-misses", "", true },
				     { "Software event", "software", "task-clock", "seconds", false },
				     { "Software event", "software", "context-switches", "", false },
				     { "Kernel PMU event", "msr", "msr/tsc/", "", false },
				     { "Kernel PMU event", "power", "power/energy-pkg/", "joules", false },
				     { "Kernel PMU event", "uncore_imc", "uncore_imc/data_reads/", "bytes", false },
				     { "Tracepoint", "tracepoint", "sched:sched_switch", "", false },
				     { "Hardware breakpoint", "breakpoint", "mem:ADDRESS[/LENGTH][:rwx]", "", false },
			     } };
	struct machine m = machine_new(machine_intel);
	int n = 0;

	assert_int_equal(event_walk(&m.env, see, &seen), 0);
	for (size_t i = 0; i < ARRAY_SIZE(seen.found); i++)
		if (!seen.found[i])
			fail_msg("%s is not listed", seen.want[i].name);
	assert_int_equal(seen.of_kind[0], 10);
	assert_int_equal(seen.of_kind[1], 32);
	assert_int_equal(seen.of_kind[2], 12);
	assert_int_equal(seen.of_kind[3], 18);
	assert_int_equal(seen.of_kind[4], 4);
	assert_int_equal(seen.of_kind[5], 2);
	assert_int_equal(seen.nr, 10 + 32 + 12 + 18 + 4 + 5);
	assert_int_equal(event_walk(&m.env, stop_at_third, &n), 42);

	/* Everything that is listed can be configured, but for the tracepoint with the empty id. */
	tree_remove(m.tracefs, "events/broken");
	assert_int_equal(event_walk(&m.env, parse_listing, &m), 0);
	machine_release(&m);

	/* What the user has to give is shown as such. */
	m = machine_new(machine_power);
	seen = (struct seen){ .want = { { "Kernel PMU event", "hv_24x7", "hv_24x7/PM_PB_CYC,chip=?/", "", false } } };
	assert_int_equal(event_walk(&m.env, see, &seen), 0);
	assert_true(seen.found[0]);
	machine_release(&m);

	/* Without a core PMU there are no hardware events to list; without tracefs, no tracepoints. */
	m = machine_new(NULL);
	m.env.tracefs = NULL;
	seen = (struct seen){};
	assert_int_equal(event_walk(&m.env, see, &seen), 0);
	assert_int_equal(seen.nr, 12);
	machine_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_absent),	  cmocka_unit_test(test_refused), cmocka_unit_test(test_two_events),
		cmocka_unit_test(test_next_text), cmocka_unit_test(test_units),	  cmocka_unit_test(test_walk),
	};

	return cmocka_run_group_tests_name("event wrong", tests, NULL, NULL);
}
