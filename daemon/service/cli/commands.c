/* SPDX-License-Identifier: MIT */

#include "service/cli/commands.h"

#include "base/elf/kallsyms.h"
#include "base/host/process-list.h"
#include "base/util/clock.h"
#include "base/util/glob.h"
#include "base/util/log.h"
#include "base/util/mountinfo.h"
#include "base/util/text.h"
#include "counting/engine/perf/open.h"
#include "counting/event/catalog/tracefs.h"
#include "counting/event/walk.h"
#include "counting/world/world.h"
#include "service/cli/counting.h"
#include "service/cli/dump-image.h"
#include "service/cli/record.h"
#include "service/profiles/profiles.h"
#include "web/expose/expose.h"
#include "web/http/web-config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/utsname.h>
#include <systemd/sd-event.h>
#include <time.h>

/* A line on standard output. Names of cgroups and of much else are foreign text, which must not reach a terminal as
 * commands to it. */
_printf_(1, 2) static void print_line(const char *format, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) >= 0) {
		(void)puts(text_make_plain(text, ' '));
		free(text);
	}
	va_end(ap);
}

/* How long --check counts: long enough for groups that never run to be recognised. */
#define CHECK_NS 200000000U

/* In µs: how long the loop may wait for something to happen before the time is looked at. */
#define LOOK_AGAIN_US 500000U

/* And for how long a cgroup that could not be opened may still go. */
#define REMOVAL_NS 500000000U

/* Makes a world that has counted for ns, with all cgroups open. Errors are logged. */
static int count_for(struct world **ret, const struct options *options, uint64_t ns)
{
	_cleanup_(world_freep) struct world *world = NULL;
	int r = counting_start(&world, options);

	if (r < 0)
		return r;
	(void)counting_wait(world, clock_monotonic_ns() + ns, NULL);
	world_tick(world);
	*ret = steal_ptr(world);
	return 0;
}

/* --- --check */

static void print_pmus(const struct machine *machine, const struct pmu_counters_list *tested)
{
	_cleanup_(buf_release) struct buf names = {};
	_cleanup_(freep) char *text = NULL;

	for (size_t i = 0; i < machine->pmus->nr; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", machine->pmus->pmus[i].name);
	text = machine->pmus->nr ? buf_steal(&names) : NULL;
	print_line("PMUs: %s", text ?: "none");
	for (size_t i = 0; i < machine->pmus->nr_problems; i++)
		print_line("  problem: %s", machine->pmus->problems[i]);
	for (size_t i = 0; i < tested->nr; i++) {
		struct reason counters;

		(void)pmu_counters_describe(&tested->pmus[i], &counters);
		print_line("%s", counters.text);
	}
	if (machine->nmi_watchdog)
		print_line("NMI watchdog: on; where it counts cycles, it takes a hardware counter of each CPU (sysctl "
			   "kernel.nmi_watchdog=0 frees it)");
}

static void print_privileges(const struct privilege *privilege)
{
	const char *sys_admin = privilege->raises_sys_admin ? "raised for what needs it" :
				privilege->cap_sys_admin    ? "yes" :
							      "no";
	struct reason paranoid;

	if (privilege->paranoid == PARANOID_UNKNOWN)
		reason_set(&paranoid, 0, "can't be read");
	else
		reason_set(&paranoid, 0, "is %d", privilege->paranoid);
	print_line("privileges: kernel.perf_event_paranoid %s, CAP_PERFMON: %s, CAP_SYS_ADMIN: %s%s: %s", paranoid.text,
		   privilege->cap_perfmon ? "yes" : "no", sys_admin,
		   privilege->wants_sys_admin ? ", which this kernel wants for every event" : "",
		   privilege_may_count_cpus(privilege) ? "may count whole CPUs" : "may NOT count whole CPUs");
}

/* The config wants cgroups to be counted by crediting, and not all of their events that could be are. */
static bool lacks_crediting(const struct world *world)
{
	return world_config(world)->cgroup_engine == CONFIG_ENGINE_BPF && world_no_crediting(world)[0];
}

static void print_cgroups(const struct world *world)
{
	const struct machine *machine = world_machine(world);
	const struct cgroup_tree *tree = world_tree(world);
	struct reason crediting;

	if (tree)
		print_line("cgroups: version %d at %s; %zu found, %zu counted, %zu excluded, %zu left out",
			   machine->mount.version, machine->mount.path, cgroup_tree_size(tree),
			   world_nr_cgroups(world, CGROUP_COUNTED), world_nr_cgroups(world, CGROUP_EXCLUDED),
			   world_nr_cgroups(world, CGROUP_OVER_MAX) + world_nr_cgroups(world, CGROUP_OVER_FDS) +
				   world_nr_cgroups(world, CGROUP_FAILED) + cgroup_tree_stats(tree).unlisted);
	else
		print_line("cgroups: %s", machine->no_cgroups.text);
	if (machine->part_of_tree.text[0])
		print_line("  problem: %s", machine->part_of_tree.text);
	world_describe_crediting(world, &crediting);
	if (crediting.text[0])
		print_line("  %s", crediting.text);
	if (world_no_crediting(world)[0])
		print_line("  %s%s", lacks_crediting(world) ? "problem: " : "", world_no_crediting(world));
}

static void print_profiles(const struct world *world, const struct profiles *profiles)
{
	const struct config *config = world_config(world);
	const char *problem = profiles_problem(profiles);

	if (!config->profiles_enabled)
		print_line("profiles: off");
	else if (!profiles_are_on(profiles))
		print_line("%s", problem);
	else
		print_line("profiles: each CPU is sampled %" PRIu64 " times per second%s%s", config->profiles_rate,
			   problem[0] ? "; " : "", problem);
}

static void print_machine(const struct world *world, const struct profiles *profiles)
{
	const struct machine *machine = world_machine(world);
	const struct session *session = world_session(world);
	_cleanup_(freep) char *online = cpulist_format(&machine->online), *cpus = cpulist_format(&machine->cpus);
	struct reason counted = {};
	struct utsname name = {};

	(void)uname(&name);
	if (machine->cpus.nr < machine->online.nr)
		reason_set(&counted, 0, ", %zu counted (%s)", machine->cpus.nr, cpus ? cpus : "?");
	print_line("machine: Linux %s %s, %zu CPUs online (%s)%s", name.release, name.machine, machine->online.nr,
		   online ? online : "?", counted.text);
	if (machine->cpus_problem.text[0])
		print_line("  problem: %s", machine->cpus_problem.text);
	print_privileges(&machine->privilege);
	print_pmus(machine, &session_plan(session)->pmus);
	print_line("tracefs: %s", machine->tracefs ? machine->tracefs : machine->tracefs_problem.text);
	print_cgroups(world);
	print_profiles(world, profiles);
	print_line("open files: %zu for counting (%zu a cgroup); counting everything configured needs a limit of %zu; "
		   "it is %" PRIu64,
		   session_stats(session).fds, session_fds_per_cgroup(session), world_needed_fds(world),
		   world_fd_limit(world));
}

/* The events' reasons, each once: they are long, and many events share one. */
struct reasons {
	const char **texts; /* borrowed, of the plan and the session */
	size_t nr;
};

static void reasons_release(struct reasons *reasons)
{
	free(reasons->texts);
}

/* Adds the reason where it is new. Its number, from 1; 0 where there is no memory. */
static size_t number_reason(struct reasons *reasons, const char *text)
{
	const char **texts;

	for (size_t i = 0; i < reasons->nr; i++)
		if (strcmp(reasons->texts[i], text) == 0)
			return i + 1;
	texts = reallocarray(reasons->texts, reasons->nr + 1, sizeof(*texts));
	if (!texts)
		return 0;
	reasons->texts = texts;
	texts[reasons->nr++] = text;
	return reasons->nr;
}

static void print_reasons(const struct reasons *reasons)
{
	print_line("%s", "");
	for (size_t i = 0; i < reasons->nr; i++)
		print_line("[%zu] %s", i + 1, reasons->texts[i]);
	if (reasons->nr)
		print_line("%s", "");
}

/* Prints the events of a scope; returns the number of those that are counted nowhere. */
static size_t print_events(const struct world *world, enum scope scope, struct reasons *reasons)
{
	const struct scope_plan *plan = &session_plan(world_session(world))->scope[scope];
	size_t lost = 0;

	print_line("%s", "");
	print_line("per %s:", scope == SCOPE_CPU ? "CPU" : "cgroup");
	for (size_t i = 0; i < plan_nr_shown(plan); i++) {
		const struct column *column = &plan->columns[i];
		_cleanup_(buf_release) struct buf title = {};
		struct reason number = {};
		const char *why;
		enum event_state state = session_column_state(world_session(world), scope, i, &why);

		event_title(&title, column->event);
		if (why)
			reason_set(&number, 0, " [%zu]", number_reason(reasons, why));
		print_line("  %-12s %-28.*s %s%s", column->group->name, (int)title.len, title.data ?: "",
			   event_state_name(state), number.text);
		lost += state != EVENT_OK && state != EVENT_MULTIPLEXED &&
			!session_column_is_partial(world_session(world), scope, i);
	}
	return lost;
}

/* Prints the rules that make captures; returns the number of those that are not evaluated. */
static size_t print_captures(const struct profiles *profiles, struct reasons *reasons)
{
	struct capture_rule_info rule;
	size_t lost = 0;

	for (size_t i = 0; profiles_rule(profiles, i, &rule); i++) {
		struct reason number = {};

		if (i == 0) {
			print_line("%s", "");
			print_line("captures:");
		}
		if (rule.problem[0])
			reason_set(&number, 0, "not evaluated [%zu]", number_reason(reasons, rule.problem));
		print_line("  %-12s %-28s %s", rule.name, rule.when, rule.problem[0] ? number.text : "ok");
		lost += rule.problem[0] != '\0';
	}
	return lost;
}

/* Cgroups that are not even in the tree: one as an example, and their number. */
static size_t print_unlisted(const struct cgroup_tree *tree)
{
	const char *example = cgroup_tree_unlisted(tree);
	size_t nr = cgroup_tree_stats(tree).unlisted;

	if (example)
		print_line("  %s", example);
	if (example && nr > 1)
		print_line("  and %zu more that are not listed", nr - 1);
	return nr;
}

/* Prints cgroups that are left out or lack events, ten at most, each with the reason; returns the number of those that
 * are left out. */
static size_t print_left_out(const struct world *world)
{
	const struct cgroup_tree *tree = world_tree(world);
	size_t left_out = 0, found = 0, shown = 0;
	const struct cgroup *cgroup;

	/* With no event to count in cgroups, the list of events shows why. */
	if (!tree || session_plan(world_session(world))->scope[SCOPE_CGROUP].nr_sets == 0)
		return 0;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(tree), in_all) {
		if (!cgroup->why)
			continue;
		found++;
		left_out += cgroup->status != CGROUP_COUNTED;
		if (shown < 10) {
			print_line("  %s: %s: %s", cgroup->identity->label,
				   cgroup_status_name((enum cgroup_status)cgroup->status), cgroup->why);
			shown++;
		}
	}
	if (found > shown)
		print_line("  and %zu more", found - shown);
	return left_out + print_unlisted(tree);
}

/* Reads the files that [web] names as the daemon would, for their errors. */
static int check_web_files(const struct world *world)
{
	_cleanup_(web_options_unrefp) struct web_options *options = NULL;
	struct reason why;
	int r = web_config_load(&options, world_config(world), world_fd_limit(world), &why);

	if (r < 0)
		log_error("%s", why.text);
	return r;
}

/* A cgroup can't be opened while it is being removed: it is not left out, and the tree soon forgets it. New ones are
 * not opened any more. */
static void forget_removed(struct world *world)
{
	const struct timespec pause = timespec_of_ns(REMOVAL_NS / 10);
	struct reason why;

	for (int i = 0; i < 10 && world_nr_cgroups(world, CGROUP_FAILED); i++) {
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		(void)world_follow_cgroups(world, REMOVAL_NS, &why);
	}
}

static void print_unused(const struct config *config)
{
	struct reason unused;

	for (size_t i = 0; config_unused_group(config, i, &unused); i++)
		print_line("warning: %s", unused.text);
}

/* Waits until it is known whether profiles can be had. */
static int wait_for_profiles(sd_event *loop, struct profiles *profiles)
{
	int r = 0;

	while (r >= 0 && !profiles_have_started(profiles))
		r = sd_event_run(loop, LOOK_AGAIN_US);
	return r;
}

/* Profiles of the world, and the rules of captures after an interval. Errors are logged. */
static int check_profiles(struct profiles **ret, sd_event *loop, struct world *world, struct profiler_keeper *keeper)
{
	_cleanup_(profiles_freep) struct profiles *profiles = NULL;
	int r = profiles_new(&profiles, loop, world, keeper, 0);

	if (r >= 0)
		r = wait_for_profiles(loop, profiles);
	if (r < 0) {
		log_error("profiles can't be checked: %s", strerror(-r));
		return r;
	}
	profiles_tick(profiles);
	*ret = steal_ptr(profiles);
	return 0;
}

static int check_config(const struct options *options, struct profiler_keeper *keeper)
{
	_cleanup_(sd_event_unrefp) sd_event *loop = NULL;
	_cleanup_(world_freep) struct world *world = NULL;
	_cleanup_(reasons_release) struct reasons reasons = {};
	_cleanup_(profiles_freep) struct profiles *profiles = NULL;
	size_t events, captures, lost, cgroups, incomplete;

	if (sd_event_new(&loop) < 0 || count_for(&world, options, CHECK_NS) < 0 || check_web_files(world) < 0 ||
	    check_profiles(&profiles, loop, world, keeper) < 0)
		return EXIT_FAILURE;
	forget_removed(world);
	print_machine(world, profiles);
	events = print_events(world, SCOPE_CPU, &reasons) + print_events(world, SCOPE_CGROUP, &reasons);
	captures = print_captures(profiles, &reasons);
	print_reasons(&reasons);
	lost = profiles_nr_lost(profiles);
	cgroups = print_left_out(world);
	incomplete = world_nr_incomplete(world);
	print_unused(world_config(world));
	if (events + captures + lost + cgroups + incomplete == 0 && !lacks_crediting(world)) {
		print_line("all that is configured can be counted");
		return EXIT_SUCCESS;
	}
	if (events > 0)
		print_line("%zu of the events above can't be counted", events);
	if (lost > 0)
		print_line("%zu of the [profile] sections can't be sampled", lost);
	if (captures > 0)
		print_line("%zu of the captures above can't be made", captures);
	if (cgroups > 0)
		print_line(cgroups == 1 ? "1 cgroup is left out" : "%zu cgroups are left out", cgroups);
	if (incomplete > 0)
		print_line(incomplete == 1 ? "1 cgroup lacks some events" : "%zu cgroups lack some events", incomplete);
	if (lacks_crediting(world))
		print_line("[cgroup] engine = bpf can't be kept");
	return EXIT_CANNOT_COUNT;
}

/* --- --once */

static int write_format(enum format format, struct buf *out, const struct snapshot *snapshot)
{
	const struct expose_query all = {};

	switch (format) {
	case FORMAT_OPENMETRICS:
		return expose_openmetrics(out, snapshot, NULL);
	case FORMAT_JSON:
		return expose_json_snapshot(out, snapshot, &all);
	default:
		return expose_prometheus(out, snapshot, NULL);
	}
}

static int print_once(const struct options *options)
{
	_cleanup_(world_freep) struct world *world = NULL;
	_cleanup_(snapshot_unrefp) struct snapshot *snapshot = NULL;
	_cleanup_(buf_release) struct buf out = {};
	int r = count_for(&world, options, options->duration ?: NS_PER_S);

	if (r < 0)
		return EXIT_FAILURE;
	r = world_snapshot(world, UINT64_MAX, NULL, &snapshot);
	if (r >= 0)
		r = write_format(options->format, &out, snapshot);
	if (r < 0) {
		log_error("out of memory");
		return EXIT_FAILURE;
	}
	(void)fwrite(out.data, 1, out.len, stdout);
	return EXIT_SUCCESS;
}

/* --- --list-events */

struct listing_filter {
	const struct machine *machine;
	const char *glob; /* or NULL */
};

/* The kernel has the generic names on every machine, whether or not its PMU can count them: they are tried. */
static bool is_unsupported(const struct machine *machine, const struct event_listing *listing)
{
	_cleanup_(event_list_release) struct event_list list = {};
	bool missing = false;

	if (event_parse(&list, &machine->env, listing->name, NULL) < 0)
		return true;
	for (size_t i = 0; i < list.nr && !missing; i++) {
		const struct event *event = &list.events[i];
		_cleanup_(closep) int fd = -1;

		if (strcmp(event->pmu, listing->pmu) != 0)
			continue;
		fd = perf_open(event, &event->attr, event->cpus.nr ? event->cpus.cpu[0] : machine->cpus.cpu[0], -1, -1);
		missing = fd == -ENOENT || fd == -EOPNOTSUPP || fd == -EINVAL;
	}
	return missing;
}

static int print_listing(void *userdata, const struct event_listing *listing)
{
	const struct listing_filter *filter = userdata;

	/* As with perf(1), '*' also matches '/': names of events are no paths. */
	if (filter->glob && !glob_match(filter->glob, listing->name))
		return 0;
	if (listing->is_generic && is_unsupported(filter->machine, listing))
		return 0;
	print_line("%-50s [%s%s%s%s%s]", listing->name, listing->kind, listing->pmu[0] ? ", " : "", listing->pmu,
		   listing->unit[0] ? ", " : "", listing->unit);
	return 0;
}

/* The default config where the file is wrong: that is when somebody looks up the names of events. */
static int load_or_default(struct config **ret, const struct options *options)
{
	struct reason why;
	int r = options_load_config(ret, options, &why);

	if (r >= 0)
		return r;
	log_warning("%s; listing events with the default config", why.text);
	return config_new(ret);
}

static int find_machine(struct machine **ret, const struct options *options)
{
	_cleanup_(config_freep) struct config *config = NULL;
	struct reason why;
	int r = load_or_default(&config, options);

	if (r < 0)
		reason_set(&why, r, "out of memory");
	else
		r = machine_new(ret, config, NULL, &why);
	if (r < 0)
		log_error("%s", why.text);
	return r;
}

static int list_events(const struct options *options)
{
	_cleanup_(machine_freep) struct machine *machine = NULL;
	_cleanup_(freep) char *glob = NULL;
	struct buf b = {};
	struct listing_filter filter;

	if (find_machine(&machine, options) < 0)
		return EXIT_FAILURE;
	for (const char *p = options->glob; p && *p; p++)
		buf_str(&b, *p == '*' ? "**" : (char[]){ *p, '\0' });
	glob = options->glob ? buf_steal(&b) : NULL;
	if (options->glob && !glob) {
		log_error("out of memory");
		return EXIT_FAILURE;
	}
	if (glob && strlen(glob) > GLOB_MAX) {
		log_error("the glob is too long");
		return EXIT_FAILURE;
	}

	if (!machine->tracefs)
		log_notice("no tracepoints are listed: %s", machine->tracefs_problem.text);
	for (size_t i = 0; i < machine->pmus->nr_problems; i++)
		log_warning("%s", machine->pmus->problems[i]);
	filter = (struct listing_filter){ .machine = machine, .glob = glob };
	if (event_walk(&machine->env, print_listing, &filter) < 0) {
		log_error("the events could not all be listed");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* --- lists that root saves for a service */

/* tracefs is not mounted here where it is missing: that is for the administrator to decide. */
static int save_tracepoints(const char *file, struct reason *why)
{
	_cleanup_(freep) char *root = NULL;
	int r = tracefs_find(OWN_MOUNTINFO, &root, why);

	return r < 0 ? r : tracefs_save(root, file, why);
}

static int save_kallsyms(const char *file, struct reason *why)
{
	return kallsyms_save("/proc/kallsyms", file, why);
}

static int save_processes(const char *file, struct reason *why)
{
	return process_list_save("/proc", file, why);
}

static int save_list(const struct options *options, const char *what, int (*save)(const char *file, struct reason *why))
{
	struct reason why = {};
	int r = save(options->file, &why);

	if (r < 0) {
		log_notice("no %s are saved: %s", what, why.text[0] ? why.text : strerror(-r));
		return EXIT_FAILURE;
	}
	log_debug("saved %d %s in %s", r, what, options->file);
	return EXIT_SUCCESS;
}

static int run_command(const struct options *options, struct profiler_keeper *keeper)
{
	switch (options->command) {
	case COMMAND_CHECK:
		return check_config(options, keeper);
	case COMMAND_ONCE:
		return print_once(options);
	case COMMAND_RECORD:
		return record_run(options);
	case COMMAND_LIST_EVENTS:
		return list_events(options);
	case COMMAND_SAVE_TRACEPOINTS:
		return save_list(options, "tracepoints", save_tracepoints);
	case COMMAND_SAVE_KALLSYMS:
		return save_list(options, "kernel symbols", save_kallsyms);
	case COMMAND_SAVE_PROCESSES:
		return save_list(options, "processes", save_processes);
	case COMMAND_DUMP_IMAGE:
		return dump_image_run(options);
	case COMMAND_RUN:
	case COMMAND_PROFILER:
	case COMMAND_MAKE_FRAME_TABLE:
	case COMMAND_LIST_FUNCTIONS:
	case COMMAND_EXIT:
		break;
	}
	return EXIT_SUCCESS;
}

int command_run(const struct options *options, struct profiler_keeper *keeper)
{
	int status = run_command(options, keeper);
	bool flushed = fflush(stdout) == 0;

	if (flushed && !ferror(stdout))
		return status;
	log_error("standard output: %s", flushed ? "a part could not be written" : strerror(errno));
	return EXIT_FAILURE;
}
