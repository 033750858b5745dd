/* SPDX-License-Identifier: MIT */

#include "setup/made-messages.h"

#include <errno.h>
#include <math.h>

#define TEXT(text) ((char *)(uintptr_t)(text))
#define TEXTS(...) ((char *[]){ __VA_ARGS__ })
#define CPUS(...)                                                                                                      \
	{                                                                                                              \
		.cpu = (int[]){ __VA_ARGS__ }, .nr = sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)                      \
	}

static struct sampled_variant variants[] = {
	{
		.text = TEXT("cpu_core/event=0x3c/pp"),
		.attr.attr = { .type = 4,
			       .bp_type = 3,
			       .config = 0x3c,
			       .config1 = UINT64_MAX,
			       .config2 = 1,
			       .exclude_user = 1,
			       .exclude_hv = 1,
			       .exclude_host = 1,
			       .precise_ip = 2,
			       .size = sizeof(union event_attr) },
		.cpus = CPUS(0, 3, CPULIST_MAX_CPU),
	},
	{
		.text = TEXT("uprobe:/bin/true:main"),
		.attr.attr = { .type = UINT32_MAX,
			       .config = (uint64_t)1 << 63,
			       .exclude_kernel = 1,
			       .exclude_idle = 1,
			       .exclude_guest = 1,
			       .precise_ip = 1,
			       .size = sizeof(struct perf_event_attr) },
		.probe = TEXT("/bin/true"),
		.filter = TEXT(""),
		.is_slow_to_close = true,
	},
};

static struct sampled_event events[] = {
	{ .name = TEXT(PROFILE_CPU_CLOCK),
	  .key = TEXT("cpu-clock=cpu-clock"),
	  .variants = variants,
	  .nr = 2,
	  .rate = 19,
	  .stack_bytes = SAMPLED_STACK_MAX,
	  .unit = TEXT("seconds"),
	  .scale = 1e-9 },
	{ .name = TEXT("absent"),
	  .key = TEXT("absent=cycles"),
	  .variants = variants,
	  .period = UINT64_MAX,
	  .unit = TEXT("count"),
	  .scale = -1.5e300,
	  .problem = TEXT("no PMU \xff counts it") },
};

static float counted[3][3] = { { 0, 1.5F, 3e38F }, { NAN, 7, NAN }, { 1, 2, 4 } };
static struct profile_count profile_counts[] = { { "/", counted[0] }, { "/a", counted[1] }, { "/a/b", counted[2] } };

#define CLOCK                                                                                                          \
	{                                                                                                              \
		.items = { { 1, 2, UINT64_MAX, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } }, .nr = 3, .now = 13            \
	}

static const struct profiler_settings settings = { .events = events,
						   .nr_events = 2,
						   .cpus = CPUS(1, 5),
						   .include = TEXTS(TEXT("/a"), TEXT("")),
						   .nr_include = 2,
						   .exclude = TEXTS(TEXT("/12345678")),
						   .nr_exclude = 1,
						   .memory = UINT64_MAX,
						   .capture_memory = 0,
						   .tables = 1 << 20,
						   .jit = true,
						   .keeps = (struct capture_keep[]){ { TEXT("busy"), 3 },
										     { TEXT("idle"), 0 } },
						   .nr_keeps = 2,
						   .procfs = TEXT("/proc"),
						   .part = true,
						   .sampled = 99 };

const struct profiler_settings *made_settings(void)
{
	/* A member of another struct in the union. */
	variants[0].attr.config3 = 77;
	return &settings;
}

static struct told_cgroup told[] = { { 1, TEXT("") }, { UINT64_MAX, TEXT("a\n/\xc3") }, { 5, NULL } };

const struct told_cgroups made_cgroups = { .is_all = true, .is_new_tree = true, .items = told, .nr = ARRAY_SIZE(told) };

static struct told_rule rules[] = { { "busy", "task-clock > 1", "", 1, 2 }, { "b", "", "no group", 0, UINT64_MAX } };
static struct told_rate rates[] = { { 1, NAN }, { UINT64_MAX, -1.5 } };
static struct told_values values[] = { { "busy-1", rates, 2 }, { "b-2", rates, 0 } };

const struct profile_question made_question = { .event = "faults",
						.capture = "busy-1",
						.from = { MOMENT_AGO, 3 },
						.to = { MOMENT_SINCE_EPOCH, UINT64_MAX },
						.last = 4,
						.now = 5,
						.clock = CLOCK,
						.cgroup = "/a*",
						.command = "",
						.below = true,
						.counted = true,
						.counts = { .problem = "some",
							    .root_is_idle = true,
							    .begin = 100,
							    .ends = { 100, 200, UINT64_MAX },
							    .nr_slots = 3,
							    .cgroups = profile_counts,
							    .nr = 3 },
						.told = { rules, 2, values, 2 },
						.form = PROFILE_FORM_HEAT,
						.gzip = true,
						.by = PROFILE_BY_CGROUP | PROFILE_BY_COMMAND,
						.min = 0.25,
						.limit = SIZE_MAX,
						.columns = 1000,
						.rows = 100,
						.top_by = PROFILE_TOP_CGROUP };

const struct profiler_refusal made_refusal = { -EBUSY, { "another question is at work" } };

const struct capture_order made_order = { .id = "busy-20250101-000000",
					  .rule = "busy",
					  .when = "task-clock > 1",
					  .cgroup = "/a",
					  .cgroup_fd = -1,
					  .cgroup_problem = "No such file or directory",
					  .counter = "task-clock",
					  .unit = "seconds",
					  .reason = "task-clock of /a was 2",
					  .value = 2,
					  .threshold = -0.0,
					  .time = 1,
					  .before = 2,
					  .after = 3,
					  .clock = CLOCK,
					  .event = PROFILE_CPU_CLOCK,
					  .rate = 4,
					  .keep = 5,
					  .save = true };

const struct profiler_state made_state = { .settings = 1,
					   .is_on = true,
					   .drained = 2,
					   .problem = TEXT("a sentence"),
					   .problems = TEXTS(TEXT(""), TEXT("another")),
					   .nr_problems = 2,
					   .captures = TEXTS(TEXT("busy-1")),
					   .nr_captures = 1,
					   .orders = 3,
					   .room = 4,
					   .stats = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,	     13,
						      14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, UINT64_MAX } };
