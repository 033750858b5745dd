/* SPDX-License-Identifier: MIT */

#include "commands.h"

#include "access.h"
#include "event/tracefs.h"
#include "expose/expose.h"
#include "monitor.h"
#include "util/glob.h"
#include "util/log.h"
#include "util/mountinfo.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* How long --check counts, so that groups that never run are seen. */
#define CHECK_NS 200000000U

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000U), .tv_nsec = (long)(ns % 1000000000U) };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

/* A monitor that has counted for a while, with all cgroups open. Says on standard error what is wrong. */
static int count_for(const struct options *options, uint64_t ns, struct monitor **ret)
{
	_cleanup_(config_freep) struct config *config = NULL;
	_cleanup_(monitor_freep) struct monitor *monitor = NULL;
	struct reason why;
	uint64_t end;
	int r = options_load_config(options, &config, &why);

	if (r >= 0)
		r = monitor_new(&monitor, config, NULL, &why);
	if (r >= 0) {
		config = NULL;
		r = monitor_start(monitor, &why);
	}
	if (r < 0) {
		log_error("%s", why.text);
		return r;
	}

	if (why.text[0])
		log_warning("%s", why.text);

	(void)monitor_admit(monitor, UINT64_MAX);
	monitor_tick(monitor);
	/* Cgroups are followed meanwhile; the last of them is read once more at its removal. */
	for (end = count_now() + ns; count_now() < end;) {
		uint64_t left = end - count_now();

		sleep_ns(left < CHECK_NS ? left : CHECK_NS);
		(void)monitor_follow_cgroups(monitor, CHECK_NS, &why);
		(void)monitor_admit(monitor, UINT64_MAX);
	}
	monitor_tick(monitor);
	*ret = steal_ptr(monitor);
	return 0;
}

/* --- --check */

static void print_pmus(const struct machine *machine)
{
	printf("PMUs:");
	for (size_t i = 0; i < machine->pmus->nr; i++)
		printf("%s %s", i ? "," : "", machine->pmus->pmus[i].name);
	printf("%s\n", machine->pmus->nr ? "" : " none");
	for (size_t i = 0; i < machine->pmus->nr_problems; i++)
		printf("  problem: %s\n", machine->pmus->problems[i]);
	if (machine->nmi_watchdog)
		printf("NMI watchdog: on, and where it is the one that counts cycles, it has a hardware counter of "
		       "each CPU (sysctl kernel.nmi_watchdog=0 gives it back)\n");
}

static void print_privileges(const struct privilege *privilege)
{
	const char *sys_admin = privilege->raises_sys_admin ? "raised for what needs it" :
				privilege->cap_sys_admin    ? "yes" :
							      "no";

	if (privilege->paranoid == PARANOID_UNKNOWN)
		printf("privileges: kernel.perf_event_paranoid can't be read");
	else
		printf("privileges: kernel.perf_event_paranoid is %d", privilege->paranoid);
	printf(", CAP_PERFMON: %s, CAP_SYS_ADMIN: %s%s: %s\n", privilege->cap_perfmon ? "yes" : "no", sys_admin,
	       privilege->wants_sys_admin ? ", which this kernel wants for every event" : "",
	       privilege_may_count_cpus(privilege) ? "may count whole CPUs" : "may NOT count whole CPUs");
}

static void print_machine(const struct monitor *monitor)
{
	const struct machine *machine = monitor->machine;
	_cleanup_(freep) char *online = cpulist_format(&machine->online), *cpus = cpulist_format(&machine->cpus);
	struct utsname name = {};

	(void)uname(&name);
	printf("machine: Linux %s %s, %zu CPUs online (%s)", name.release, name.machine, machine->online.nr,
	       online ? online : "?");
	if (machine->cpus.nr < machine->online.nr)
		printf(", %zu counted (%s)", machine->cpus.nr, cpus ? cpus : "?");
	printf("\n");
	if (machine->cpus_problem.text[0])
		printf("  problem: %s\n", machine->cpus_problem.text);
	print_privileges(&machine->privilege);
	print_pmus(machine);
	printf("tracefs: %s\n", machine->tracefs ? machine->tracefs : machine->tracefs_problem.text);
	if (machine->mount.path)
		printf("cgroups: version %d at %s; %zu found, %zu counted, %zu excluded, %zu left out\n",
		       machine->mount.version, machine->mount.path, cgroup_tree_size(monitor->tree),
		       monitor->roster.nr_status[CGROUP_COUNTED], monitor->roster.nr_status[CGROUP_EXCLUDED],
		       monitor->roster.nr_status[CGROUP_OVER_MAX] + monitor->roster.nr_status[CGROUP_OVER_FDS] +
			       monitor->roster.nr_status[CGROUP_FAILED] + cgroup_tree_stats(monitor->tree).unlisted);
	else
		printf("cgroups: %s\n", machine->no_cgroups.text);
	if (machine->part_of_tree.text[0])
		printf("  problem: %s\n", machine->part_of_tree.text);
	printf("open files: %zu for counting (%zu a cgroup); all that is wanted takes a limit of %zu, it is %" PRIu64
	       "\n",
	       count_stats(monitor->count).fds, plan_fds_per_cgroup(count_plan(monitor->count)),
	       monitor_needed_fds(monitor), machine->privilege.fd_limit);
}

/* The reasons that events have, each once. */
struct reasons {
	const char **texts; /* the plan's, or of the counting */
	size_t nr;
};

static void reasons_release(struct reasons *reasons)
{
	free(reasons->texts);
}

/* The reason's number, from 1; 0 where there is no memory. */
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
	printf("\n");
	for (size_t i = 0; i < reasons->nr; i++)
		printf("[%zu] %s\n", i + 1, reasons->texts[i]);
	if (reasons->nr)
		printf("\n");
}

/* Prints the events of a scope; returns how many of them are not counted. */
static size_t print_events(const struct monitor *monitor, enum scope scope, struct reasons *reasons)
{
	const struct scope_plan *plan = &count_plan(monitor->count)->scope[scope];
	size_t lost = 0;

	printf("\nper %s:\n", scope == SCOPE_CPU ? "CPU" : "cgroup");
	for (size_t i = 0; i < plan->nr_columns; i++) {
		const struct column *column = &plan->columns[i];
		const char *why;
		enum event_state state = count_column_state(monitor->count, scope, i, &why);

		printf("  %-12s %-28s %s", column->group->name, column->event->text, event_state_name(state));
		if (why)
			printf(" [%zu]", number_reason(reasons, why));
		printf("\n");
		lost += state != EVENT_OK && state != EVENT_MULTIPLEXED;
	}
	return lost;
}

/* Of those that are not even in the tree, one stands for all. */
static size_t print_unlisted(const struct cgroup_tree *tree)
{
	const char *example = cgroup_tree_unlisted(tree);
	size_t nr = cgroup_tree_stats(tree).unlisted;

	if (example)
		printf("  %s\n", example);
	if (example && nr > 1)
		printf("  and %zu more that are not listed\n", nr - 1);
	return nr;
}

/* Prints why cgroups are left out: each reason once, with the first cgroup it holds for. */
static size_t print_left_out(const struct monitor *monitor)
{
	size_t left_out = 0, shown = 0;
	const struct cgroup *cgroup;

	/* With no event to count in cgroups, the events have said it all. */
	if (!monitor->tree || count_plan(monitor->count)->scope[SCOPE_CGROUP].nr_sets == 0)
		return 0;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(monitor->tree), in_all) {
		if (!cgroup->why)
			continue;
		left_out++;
		if (shown < 10) {
			printf("  %s: %s: %s\n", cgroup->identity->label,
			       cgroup_status_name((enum cgroup_status)cgroup->status), cgroup->why);
			shown++;
		}
	}
	if (left_out > shown)
		printf("  and %zu more\n", left_out - shown);
	return left_out + print_unlisted(monitor->tree);
}

/* What the daemon would say of the files that [web] names. */
static int check_access(const struct monitor *monitor)
{
	_cleanup_(web_options_unrefp) struct web_options *options = NULL;
	struct reason why;
	int r = access_load(&options, monitor->config, monitor->machine->privilege.fd_limit, &why);

	if (r < 0)
		log_error("%s", why.text);
	return r;
}

int command_check(const struct options *options)
{
	_cleanup_(monitor_freep) struct monitor *monitor = NULL;
	_cleanup_(reasons_release) struct reasons reasons = {};
	size_t lost, left_out;

	if (count_for(options, CHECK_NS, &monitor) < 0 || check_access(monitor) < 0)
		return EXIT_FAILURE;
	print_machine(monitor);
	lost = print_events(monitor, SCOPE_CPU, &reasons) + print_events(monitor, SCOPE_CGROUP, &reasons);
	print_reasons(&reasons);
	left_out = print_left_out(monitor);
	if (lost == 0 && left_out == 0) {
		printf("all that is configured can be counted\n");
		return EXIT_SUCCESS;
	}
	if (lost > 0)
		printf("%zu of the events above can't be counted\n", lost);
	if (left_out > 0)
		printf("%zu cgroups are left out\n", left_out);
	return EXIT_CANNOT_COUNT;
}

/* --- --once */

static int expose_as(enum format format, struct buf *out, const struct snapshot *snapshot)
{
	const struct expose_query all = {};

	switch (format) {
	case FORMAT_OPENMETRICS:
		return expose_openmetrics(out, snapshot);
	case FORMAT_JSON:
		return expose_json_snapshot(out, snapshot, &all);
	default:
		return expose_prometheus(out, snapshot);
	}
}

int command_once(const struct options *options)
{
	_cleanup_(monitor_freep) struct monitor *monitor = NULL;
	_cleanup_(snapshot_unrefp) struct snapshot *snapshot = NULL;
	_cleanup_(buf_release) struct buf out = {};
	int r = count_for(options, options->duration, &monitor);

	if (r < 0)
		return EXIT_FAILURE;
	r = monitor_snapshot(monitor, UINT64_MAX, &snapshot);
	if (r >= 0)
		r = expose_as(options->format, &out, snapshot);
	if (r < 0) {
		log_error("out of memory");
		return EXIT_FAILURE;
	}
	if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0) {
		log_error("standard output: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* --- --list-events */

struct list {
	const struct machine *machine;
	const char *glob; /* or NULL */
};

/* The kernel's own names are on every machine, whatever its PMU has: they are tried. */
static bool is_missing(const struct machine *machine, const struct event_listing *listing)
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
	const struct list *list = userdata;

	/* As for perf(1), a plain '*' goes over everything: names of events are no paths. */
	if (list->glob && !glob_match(list->glob, listing->name))
		return 0;
	if (listing->is_generic && is_missing(list->machine, listing))
		return 0;
	printf("%-50s [%s%s%s%s%s]\n", listing->name, listing->kind, listing->pmu[0] ? ", " : "", listing->pmu,
	       listing->unit[0] ? ", " : "", listing->unit);
	return 0;
}

/* The events are there to be listed also where the config is wrong, which is when they are looked up. */
static int load_or_default(const struct options *options, struct config **ret)
{
	struct reason why;
	int r = options_load_config(options, ret, &why);

	if (r >= 0)
		return r;
	log_warning("%s; the events are those of the default config", why.text);
	return config_new(ret);
}

static int find_machine(const struct options *options, struct machine **ret)
{
	_cleanup_(config_freep) struct config *config = NULL;
	struct reason why;
	int r = load_or_default(options, &config);

	if (r < 0)
		reason_set(&why, r, "out of memory");
	else
		r = machine_new(ret, config, NULL, &why);
	if (r < 0)
		log_error("%s", why.text);
	return r;
}

int command_list_events(const struct options *options)
{
	_cleanup_(machine_freep) struct machine *machine = NULL;
	_cleanup_(freep) char *glob = NULL;
	struct buf b = {};
	struct list list;

	if (find_machine(options, &machine) < 0)
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
	list = (struct list){ .machine = machine, .glob = glob };
	if (event_walk(&machine->env, print_listing, &list) < 0 || fflush(stdout) != 0) {
		log_error("the events could not all be listed");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* --- --save-tracepoints */

/* Where tracefs is not mounted, it is not mounted here: whether it should be is the administrator's to decide. */
int command_save_tracepoints(const struct options *options)
{
	_cleanup_(freep) char *root = NULL;
	struct reason why = {};
	int r = tracefs_find(OWN_MOUNTINFO, &root, &why);

	if (r >= 0)
		r = tracefs_save(root, options->file, &why);
	if (r < 0) {
		log_notice("no tracepoints are saved: %s", why.text[0] ? why.text : strerror(-r));
		return EXIT_FAILURE;
	}
	log_debug("%d tracepoints of %s are saved in %s", r, root, options->file);
	return EXIT_SUCCESS;
}
