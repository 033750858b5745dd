/* SPDX-License-Identifier: MIT */

/* Profiling as a part of the monitor: on or off by the config, with the CPUs and the tree that there are. */

#include "counting/world/world.h"

#include "base/util/clock.h"
#include "counting/world/world-internal.h"

#include <errno.h>
#include <string.h>

static struct profiler_world world_of(const struct monitor *monitor)
{
	return (struct profiler_world){
		.tree = monitor->tree,
		.part = monitor->machine->mount.path && cgroup_mount_is_part(&monitor->machine->mount),
	};
}

static const char no_profiles[] = "nothing is profiled: set \"enabled = yes\" in the section [profiles] of the config";

/* Why there is no profiler. */
static const char *why_no_profiler(const struct monitor *monitor)
{
	return monitor->profile_problem.text[0] ? monitor->profile_problem.text : no_profiles;
}

static struct capturer_world captured_world(const struct monitor *monitor)
{
	return (struct capturer_world){
		.profiler = monitor->profiler,
		.no_profiler = why_no_profiler(monitor),
		.count = monitor->count,
		.history = &monitor->history,
		.clock = &monitor->clock,
		.tree = monitor->tree,
	};
}

void monitor_take_samples(struct monitor *monitor)
{
	const struct capturer_world captured = captured_world(monitor);
	const struct profiler_world world = world_of(monitor);

	if (!monitor->profiler)
		return;
	(void)monitor_note_clocks(monitor);
	profiler_turn(monitor->profiler, &world);
	capturer_turn(monitor->capturer, &captured);
}

void monitor_tick_captures(struct monitor *monitor)
{
	const struct capturer_world world = captured_world(monitor);

	capturer_tick(monitor->capturer, &world);
}

void monitor_finish_profiles(struct monitor *monitor)
{
	monitor_take_samples(monitor);
	if (monitor->profiler)
		capturer_pause(monitor->capturer, monitor->profiler);
}

void monitor_note_sampled(struct monitor *monitor)
{
	if (monitor->profiler)
		monitor->sampled = clock_monotonic_ns();
	count_set_sampled(monitor->count, monitor->sampled);
}

static void use_profiler(struct monitor *monitor)
{
	const struct profiler_setup setup = {
		.config = monitor->config,
		.cpus = &monitor->machine->cpus,
		.env = &monitor->machine->env,
		.closer = monitor->closer,
		.rate = &monitor->sample_rate,
		.fd_limit = monitor->machine->privilege.fd_limit,
		.sampled = monitor->sampled,
	};
	struct reason why = {};
	int r;

	sample_rate_read(&monitor->sample_rate, monitor->config->procfs.text);
	monitor->nr_profilers++; /* its fd may be another */
	r = monitor->profiler ? profiler_use(monitor->profiler, &setup, &why) :
				profiler_new(&monitor->profiler, &setup, &why);
	if (r >= 0) {
		reason_set(&monitor->profile_problem, 0, "%s", profiler_problem(monitor->profiler));
		return;
	}
	monitor->profiler = profiler_free(monitor->profiler);
	if ((r == -EACCES || r == -EPERM) && !privilege_may_count_cpus(&monitor->machine->privilege)) {
		privilege_explain(&monitor->machine->privilege, &why);
		reason_prefix(&why, 0, "not permitted (%s)", strerrorname_np(-r));
	}
	reason_prefix(&why, 0, "no profiles");
	monitor->profile_problem = why;
}

void monitor_follow_profiles(struct monitor *monitor)
{
	monitor->profile_problem.text[0] = '\0';
	if (monitor->config->profiles_enabled) {
		use_profiler(monitor);
	} else {
		monitor->profiler = profiler_free(monitor->profiler);
		monitor->sampled = 0; /* nobody misses it */
	}
	monitor_note_sampled(monitor);
	if (capturer_use(monitor->capturer, monitor->config, monitor->profiler) < 0)
		reason_set(&monitor->profile_problem, 0, "no captures: out of memory");
}

/* Sampling goes on with the events that are open. What is wrong with it may be something else. */
static void tell_problem(struct monitor *monitor, const struct reason *before, struct reason *news)
{
	const char *problem = profiler_problem(monitor->profiler);

	if (strcmp(before->text, problem) == 0)
		return;
	reason_set(&monitor->profile_problem, 0, "%s", problem);
	reason_set(news, 0, "%s", problem[0] ? problem : "profiles have no problem any more");
}

/* Can sampling go on as it is? */
static bool goes_on(struct monitor *monitor, const struct sample_rate *rate)
{
	bool safe = sample_rate_check(rate, NULL) == 0;

	if (!monitor->profiler)
		return !safe || sample_rate_check(&monitor->sample_rate, NULL) == 0;
	return safe && profiler_follow_rate(monitor->profiler, &monitor->machine->env, rate);
}

void monitor_follow_sample_rate(struct monitor *monitor, struct reason *news)
{
	bool had = monitor->profiler;
	struct reason before = {};
	struct sample_rate rate;

	if (!monitor->config->profiles_enabled)
		return;
	if (had)
		reason_set(&before, 0, "%s", profiler_problem(monitor->profiler));
	sample_rate_read(&rate, monitor->config->procfs.text);
	if (goes_on(monitor, &rate)) {
		if (had)
			tell_problem(monitor, &before, news);
		return;
	}
	monitor_finish_profiles(monitor);
	monitor_follow_profiles(monitor);
	reason_set(news, 0, "%s", monitor->profile_problem.text);
	if (had && monitor->profiler && !news->text[0])
		reason_set(news, 0, "profiles are sampled as often as configured again");
	else if (!had && monitor->profiler)
		reason_set(news, 0, "profiles are taken again%s%s", monitor->profile_problem.text[0] ? ": " : "",
			   monitor->profile_problem.text);
}

int monitor_profile_fd(const struct monitor *monitor, uint64_t *ret_number)
{
	*ret_number = monitor->nr_profilers;
	return monitor->profiler ? profiler_fd(monitor->profiler) : -1;
}

const char *monitor_profile_problem(const struct monitor *monitor)
{
	return monitor->profile_problem.text;
}

size_t monitor_nr_lost_profiles(const struct monitor *monitor)
{
	if (!monitor->config->profiles_enabled)
		return 0;
	return monitor->profiler ? profiler_nr_lost(monitor->profiler) : monitor->config->nr_profiles;
}

int monitor_ask_profile(const struct monitor *monitor, const char *event, const struct profile_query *query,
			bool counted, struct profile **ret, struct profile_measure *ret_measure, struct reason *why)
{
	if (!monitor->profiler)
		return reason_set(why, -EOPNOTSUPP, "%s", why_no_profiler(monitor));
	return profiler_ask(monitor->profiler, event, query, counted ? &monitor->history : NULL, ret, ret_measure, why);
}

/* --- captures */

const struct captures *monitor_captures(const struct monitor *monitor)
{
	return capturer_captures(monitor->capturer);
}

bool monitor_capture_rule(const struct monitor *monitor, size_t i, struct capture_rule_info *ret)
{
	return capturer_rule(monitor->capturer, i, ret);
}

void monitor_capture_news(struct monitor *monitor, struct reason *news)
{
	capturer_news(monitor->capturer, news);
}

void monitor_finish_captures(struct monitor *monitor)
{
	const struct capturer_world world = captured_world(monitor);

	monitor_take_samples(monitor);
	capturer_finish(monitor->capturer, &world);
}

const struct capture *monitor_capture_to_save(const struct monitor *monitor)
{
	return capturer_to_save(monitor->capturer);
}

void monitor_capture_saved(struct monitor *monitor, const char *id, const char *problem)
{
	capturer_saved(monitor->capturer, id, problem);
}

int monitor_ask_capture(const struct monitor *monitor, const char *id, const struct profile_query *query,
			struct profile **ret, struct profile_measure *ret_measure, struct reason *why)
{
	const struct capture *capture = captures_find(capturer_captures(monitor->capturer), id);

	if (!capture)
		return reason_set(why, -ENOENT,
				  "there is no such capture, or not any more; /api/v1/captures lists them");
	return capture_ask(capture, query, ret, ret_measure);
}
