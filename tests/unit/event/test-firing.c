/* SPDX-License-Identifier: MIT */

/* Each kind of event that can be provoked is, and this kernel counts it. */

#include "base/util/cleanup.h"
#include "counting/event/firing.h"
#include "setup/needs.h"

#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char text[64];

static struct event made_event(uint32_t type, uint64_t config)
{
	(void)snprintf(text, sizeof(text), "event");
	return (struct event){ .text = text,
			       .attr = { .type = type, .size = sizeof(struct perf_event_attr), .config = config } };
}

static void assert_fires(const struct event *event)
{
	struct reason why;
	int fd;
	bool fires = event_fires(event, &fd, &why);

	assert_int_equal(fd >= 0, event_is_slow_to_close(event));
	safe_close(fd);
	if (!fires)
		fail_msg("type %u: %s", event->attr.type, why.text);
}

static void test_software(_unused_ void **state)
{
	static const uint64_t configs[] = { PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN,
					    PERF_COUNT_SW_CONTEXT_SWITCHES };

	needs("perf-self");
	for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
		const struct event event = made_event(PERF_TYPE_SOFTWARE, configs[i]);

		assert_fires(&event);
	}
}

/* An event that leaves out the kernel or the user is provoked without that. */
static void test_modifiers(_unused_ void **state)
{
	struct event event = made_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES);

	needs("perf-self");
	event.attr.exclude_kernel = 1;
	assert_fires(&event);
}

static void test_breakpoints(_unused_ void **state)
{
	static const struct {
		uint32_t type;
		size_t size;
	} cases[] = { { HW_BREAKPOINT_W, 1 },
		      { HW_BREAKPOINT_W, 8 },
		      { HW_BREAKPOINT_RW, 4 },
		      { HW_BREAKPOINT_X, sizeof(long) } };

	needs("breakpoint");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct event event = made_event(PERF_TYPE_BREAKPOINT, 0);

		event.attr.bp_type = cases[i].type;
		event.attr.bp_len = cases[i].size;
		event.attr.bp_addr = 0x1000;
		assert_fires(&event);
	}
}

static void test_hardware(_unused_ void **state)
{
	static const uint64_t configs[] = { PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
					    PERF_COUNT_HW_BRANCH_INSTRUCTIONS };

	needs("pmu");
	for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
		struct event event = made_event(PERF_TYPE_HARDWARE, configs[i]);

		event.steady = configs[i] != PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
		assert_fires(&event);
	}
}

static unsigned read_number(const char *path)
{
	unsigned number = 0;
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%u", &number), 1);
	(void)fclose(file);
	return number;
}

/* Of a file that this program does not run: its own stands for it. */
static void test_uprobes(_unused_ void **state)
{
	char file[] = "/nowhere";
	struct event event;

	needs("uprobe");
	needs("sys-admin");
	event = made_event(read_number("/sys/bus/event_source/devices/uprobe/type"), 0);
	event.probe = file;
	event.probe_ino = 1;
	assert_fires(&event);
}

/* An event that nobody can provoke, or that can't be opened, is believed. */
static void test_unknown(_unused_ void **state)
{
	struct event event = made_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS);
	struct reason why;
	int fd;

	assert_true(event_fires(&event, &fd, &why));
	assert_int_equal(fd, -1);
	event = made_event(PERF_TYPE_TRACEPOINT, 1);
	(void)snprintf(text, sizeof(text), "syscalls:sys_enter_exit_group");
	assert_true(event_fires(&event, &fd, &why));
	assert_int_equal(fd, -1);
	(void)snprintf(text, sizeof(text), "syscalls:sys_enter_read");
	event.attr.config = UINT32_MAX;
	assert_true(event_fires(&event, &fd, &why));
	assert_int_equal(fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_software), cmocka_unit_test(test_modifiers), cmocka_unit_test(test_breakpoints),
		cmocka_unit_test(test_hardware), cmocka_unit_test(test_uprobes),   cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests_name("firing", tests, NULL, NULL);
}
