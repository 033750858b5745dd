/* SPDX-License-Identifier: MIT */

/* Profiling as a part of the world: on or off by the config, with the CPUs and the tree that there are. */

#include "counting/world/world.h"

#include "base/util/clock.h"
#include "counting/world/world-internal.h"
#include "profiler/answer/answer.h"
#include "profiler/capture/capture-list.h"
#include "profiler/capture/capture-saver.h"
#include "profiler/profile-counts.h"
#include "profiler/profile-events.h"

#include <errno.h>
#include <string.h>

static struct profiler_world sampled_world(const struct world *world)
{
	return (struct profiler_world){
		.tree = world->tree,
		.part = world->machine->mount.path && cgroup_mount_is_part(&world->machine->mount),
	};
}

static const char no_profiles[] = "nothing is profiled: set \"enabled = yes\" in the section [profiles] of the config";

/* Why there is no profiler. */
static const char *why_no_profiler(const struct world *world)
{
	return world->profile_problem.text[0] ? world->profile_problem.text : no_profiles;
}

static struct capturer_world captured_world(const struct world *world)
{
	return (struct capturer_world){
		.profiler = world->profiler,
		.clock = &world->clock,
	};
}

void world_take_samples(struct world *world)
{
	const struct capturer_world captured = captured_world(world);
	const struct profiler_world sampled = sampled_world(world);

	if (!world->profiler)
		return;
	(void)world_note_clocks(world);
	profiler_turn(world->profiler, &sampled);
	capturer_turn(world->capturer, &captured);
}

static const char *sampled_event_of(const struct config_capture *config)
{
	return config->event.text && *config->event.text ? config->event.text : PROFILE_CPU_CLOCK;
}

/* The values of the capture's counter come from the history, which the profiler does not know. Without memory for them,
 * the capture has none. */
static void begin_values(struct world *world, const struct capture_order *order)
{
	const struct capture_values capture = {
		.id = order->id,
		.cgroup = order->cgroup,
		.counter = order->counter,
		.from = order->time > order->before ? order->time - order->before : 0,
		.to = order->time + order->after,
	};

	(void)capture_values_add(&world->values, &capture);
}

/* Opens the directory of a cgroup, of which samples are to be taken at a higher rate. -1 with the reason: it can't be
 * opened. */
static int open_directory(const struct world *world, const struct cgroup_identity *identity, const char **ret_problem)
{
	const struct cgroup *cgroup = world->tree ? cgroup_tree_find(world->tree, identity->id) : NULL;
	int fd = cgroup ? cgroup_open(world->tree, cgroup) : -ENOENT;

	if (fd >= 0)
		return fd;
	*ret_problem = strerror(-fd);
	return -1;
}

/* Has the samples of a target kept. */
static enum due_answer order_capture(void *userdata, const struct watched_rule *rule, const struct due_target *target)
{
	struct world *world = userdata;
	const struct capturer_world captured = captured_world(world);
	const struct config_capture *config = rule->config;
	const char *unit = event_unit_name(target->event->unit);
	uint64_t shown = clock_steps_shown(&world->clock, clock_steps_moment(&world->clock, target->now));
	_cleanup_(freep) char *id = capture_values_new_id(&world->values, rule->name, shown);
	_cleanup_(closep) int fd = -1;
	struct reason reason;
	struct capture_order order = {
		.id = id,
		.rule = rule->name,
		.when = rule->when,
		.cgroup = target->identity ? target->identity->label : NULL,
		.counter = rule->rule.event,
		.unit = unit[0] ? unit : "count",
		.reason = reason.text,
		.value = target->value,
		.threshold = rule->rule.threshold,
		.time = target->now,
		.before = config->before,
		.after = config->after,
		.clock = world->clock,
		.event = sampled_event_of(config),
		.rate = config->rate,
		.keep = config->keep,
		.save = config->save,
	};
	int r;

	capture_rule_explain(&reason, rule, target);
	if (config->rate && target->identity)
		fd = open_directory(world, target->identity, &order.cgroup_problem);
	order.cgroup_fd = fd;
	r = id ? capturer_keep(world->capturer, &order, &captured) : -ENOMEM;
	if (r == 0)
		begin_values(world, &order);
	return r == 0 ? DUE_TAKEN : r == -EACCES ? DUE_IGNORED : DUE_NOT_NOW;
}

static bool is_kept(const void *userdata, const char *id)
{
	return captures_find(userdata, id);
}

void world_tick_captures(struct world *world)
{
	if (world->rules.nr)
		capture_rules_tick(&world->rules, world->session, clock_monotonic_ns(),
				   world->profiler ? NULL : why_no_profiler(world), order_capture, world);
	capture_values_trim(&world->values, is_kept, capturer_captures(world->capturer));
	capture_values_take(&world->values, &world->history);
}

/* -ENOMEM: there are no rules any more. */
static int use_rules(struct world *world)
{
	struct captures *captures = capturer_captures(world->capturer);
	int r = capture_rules_use(&world->rules, world->config);

	/* Captures of a rule that is gone stay. */
	captures_keep(captures, NULL, UINT64_MAX);
	for (size_t i = 0; i < world->rules.nr; i++) {
		struct watched_rule *rule = world->rules.items[i];
		struct profile_measure measure;
		const char *key;

		captures_keep(captures, rule->name, rule->config->keep);
		rule->not_sampled.text[0] = '\0';
		if (world->profiler)
			(void)profiler_describe(world->profiler, sampled_event_of(rule->config), &measure, &key,
						&rule->not_sampled);
	}
	return r;
}

void world_finish_profiles(struct world *world)
{
	world_take_samples(world);
	if (world->profiler)
		capturer_pause(world->capturer, world->profiler);
}

void world_note_sampled(struct world *world)
{
	if (world->profiler)
		world->sampled = clock_monotonic_ns();
	session_set_sampled(world->session, world->sampled);
}

static void use_profiler(struct world *world)
{
	const struct profiler_setup setup = {
		.config = world->config,
		.cpus = &world->machine->cpus,
		.env = &world->machine->env,
		.closer = world->closer,
		.rate = &world->sample_rate,
		.fd_limit = world->machine->privilege.fd_limit,
		.sampled = world->sampled,
	};
	struct reason why = {};
	int r;

	sample_rate_read(&world->sample_rate, world->config->procfs.text);
	world->nr_profilers++; /* its fd may be another */
	r = world->profiler ? profiler_use(world->profiler, &setup, &why) :
			      profiler_new(&world->profiler, &setup, &why);
	if (r >= 0) {
		reason_set(&world->profile_problem, 0, "%s", profiler_problem(world->profiler));
		return;
	}
	world->profiler = profiler_free(world->profiler);
	if ((r == -EACCES || r == -EPERM) && !privilege_may_count_cpus(&world->machine->privilege)) {
		privilege_explain(&world->machine->privilege, &why);
		reason_prefix(&why, 0, "not permitted (%s)", strerrorname_np(-r));
	}
	reason_prefix(&why, 0, "no profiles");
	world->profile_problem = why;
}

void world_follow_profiles(struct world *world)
{
	world->profile_problem.text[0] = '\0';
	if (world->config->profiles_enabled) {
		use_profiler(world);
	} else {
		world->profiler = profiler_free(world->profiler);
		world->sampled = 0; /* nobody misses it */
	}
	world_note_sampled(world);
	capturer_use(world->capturer, (size_t)world->config->capture_memory, world->profiler);
	if (use_rules(world) < 0)
		reason_set(&world->profile_problem, 0, "no captures: out of memory");
}

/* Sampling goes on with the events that are open. What is wrong with it may be something else. */
static void tell_problem(struct world *world, const struct reason *before, struct reason *news)
{
	const char *problem = profiler_problem(world->profiler);

	if (strcmp(before->text, problem) == 0)
		return;
	reason_set(&world->profile_problem, 0, "%s", problem);
	reason_set(news, 0, "%s", problem[0] ? problem : "profiles have no problem any more");
}

/* Can sampling go on as it is? */
static bool goes_on(struct world *world, const struct sample_rate *rate)
{
	bool safe = sample_rate_check(rate, NULL) == 0;

	if (!world->profiler)
		return !safe || sample_rate_check(&world->sample_rate, NULL) == 0;
	return safe && profiler_follow_rate(world->profiler, &world->machine->env, rate);
}

void world_follow_sample_rate(struct world *world, struct reason *news)
{
	bool had = world->profiler;
	struct reason before = {};
	struct sample_rate rate;

	if (!world->config->profiles_enabled)
		return;
	if (had)
		reason_set(&before, 0, "%s", profiler_problem(world->profiler));
	sample_rate_read(&rate, world->config->procfs.text);
	if (goes_on(world, &rate)) {
		if (had)
			tell_problem(world, &before, news);
		return;
	}
	world_finish_profiles(world);
	world_follow_profiles(world);
	reason_set(news, 0, "%s", world->profile_problem.text);
	if (had && world->profiler && !news->text[0])
		reason_set(news, 0, "profiles are sampled as often as configured again");
	else if (!had && world->profiler)
		reason_set(news, 0, "profiles are taken again%s%s", world->profile_problem.text[0] ? ": " : "",
			   world->profile_problem.text);
}

int world_profile_fd(const struct world *world, uint64_t *ret_number)
{
	*ret_number = world->nr_profilers;
	return world->profiler ? profiler_fd(world->profiler) : -1;
}

const char *world_profile_problem(const struct world *world)
{
	return world->profile_problem.text;
}

size_t world_nr_lost_profiles(const struct world *world)
{
	if (!world->config->profiles_enabled)
		return 0;
	return world->profiler ? profiler_nr_lost(world->profiler) : world->config->nr_profiles;
}

struct profile_stats world_profile_stats(const struct world *world)
{
	struct profiler_stats stats = {};

	if (world->profiler)
		profiler_stats(world->profiler, &stats);
	capturer_stats(world->capturer, &stats);
	return (struct profile_stats){
		.samples = stats.samples,
		.lost = stats.lost,
		.unfollowed = stats.unfollowed,
		.unsampled = stats.unsampled,
		.throttled = stats.throttled,
		.dropped = stats.dropped,
		.bytes = stats.bytes,
		.ring_bytes = stats.ring_bytes,
		.gap_ns = stats.gap_ns,
		.reach = stats.reach,
		.cpu_ns = stats.cpu_ns,
		.processes = stats.processes,
		.captures = stats.captures,
		.capture_bytes = stats.capture_bytes,
		.captures_dropped = stats.captures_dropped,
	};
}

/* --- questions */

struct asked {
	const struct world *world;
	const struct profile_question *question;
};

static int ask_profiler(const void *userdata, const struct profile_query *query, struct profile **ret,
			struct profile_measure *ret_measure, struct reason *why)
{
	const struct asked *asked = userdata;
	const struct world *world = asked->world;
	const char *name = asked->question->event;
	_cleanup_(profile_counts_release) struct profile_counts counts = {};
	struct profile_query whole = *query;
	const struct profile_event *event;
	int r = 0;

	if (!world->profiler)
		return reason_set(why, -EOPNOTSUPP, "%s", why_no_profiler(world));
	event = profiler_event(world->profiler, name);
	if (event && asked->question->counted) {
		r = profile_counts_read(&counts, &world->history, event);
		whole.counts = &counts;
	}
	return r < 0 ? r : profiler_ask(world->profiler, name, &whole, ret, ret_measure, why);
}

int world_answer(const struct world *world, const struct profile_question *question, struct buf *out,
		 struct reason *why)
{
	const struct asked asked = { .world = world, .question = question };
	const struct answer_samples samples = { .ask = ask_profiler, .userdata = &asked, .clock = &question->clock };
	const struct capture *capture;
	_cleanup_(freep) char *folder = NULL;

	if (!question->capture)
		return answer_question(out, question, &samples, why);
	capture = captures_find(capturer_captures(world->capturer), question->capture);
	if (capture)
		return capture_answer(out, capture, question, why);
	return capture_saver_folder(&folder) < 0 ? reason_set(why, -ENOMEM, "out of memory") :
						   capture_folder_answer(out, folder, question, why);
}

/* --- captures */

int world_list_captures(const struct world *world, struct buf *out)
{
	_cleanup_(freep) char *folder = NULL;
	_cleanup_(freep) struct capture_saved *files = NULL;
	size_t nr_files = 0;
	int r = capture_saver_folder(&folder);

	if (r == 0)
		r = capture_folder_list(folder, &files, &nr_files);
	if (r == 0)
		capture_list_json(out, capturer_captures(world->capturer), files, nr_files);
	return buf_finish(out, r);
}

const struct capture_values_list *world_capture_values(const struct world *world)
{
	return &world->values;
}

bool world_capture_rule(const struct world *world, size_t i, struct capture_rule_info *ret)
{
	return capture_rules_info(&world->rules, i, ret);
}

void world_capture_news(struct world *world, struct reason *news)
{
	capturer_news(world->capturer, news);
}

void world_finish_captures(struct world *world)
{
	const struct capturer_world captured = captured_world(world);

	world_take_samples(world);
	capturer_finish(world->capturer, &captured);
}

struct captures *world_captures(struct world *world)
{
	return capturer_captures(world->capturer);
}
