/* SPDX-License-Identifier: MIT */

#include "monitor.h"

#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Left to what is not counting: connections, listening sockets, the loop, files of sysfs. */
#define FD_RESERVE 256

/* Events of a scope. Each is tried at start, and each has series on every target. */
#define MAX_EVENTS 1000

/* How often the tree is read again while not all of it can be watched, and what was left out is tried. */
#define RESCAN_NS 10000000000U

struct monitor *monitor_free(struct monitor *monitor)
{
	if (!monitor)
		return NULL;
	snapshot_unref(monitor->latest);
	count_free(monitor->count);
	cgroup_tree_free(monitor->tree);
	machine_free(monitor->machine);
	config_free(monitor->config);
	cpu_busy_release(&monitor->busy);
	free(monitor);
	return NULL;
}

/* What is to be put in force. */
struct reload {
	struct machine *machine; /* NULL, as is config: what is in force stays */
	struct config *config;
	struct count *count;
};

/* --- from config to plan */

static int parse_group(struct group *ret, const struct config_group *config, const struct event_env *env,
		       size_t max_events, struct reason *why)
{
	_cleanup_(freep) char *texts = strdup(config->events);
	_cleanup_(event_list_release) struct event_list events = {};
	char *cursor = texts, *text;

	if (!texts)
		return reason_set(why, -ENOMEM, "out of memory");
	while ((text = event_next_text(&cursor))) {
		int r = event_parse(&events, env, text, why);

		if (r == -ENOMEM)
			reason_set(why, r, "out of memory");
		if (r >= 0 && events.nr > max_events)
			r = reason_set(why, -EINVAL, "more than %d events per CPU, or per cgroup", MAX_EVENTS);
		if (r < 0)
			return reason_prefix(why, r, "%s:%u: group '%s'", config->events_place.file,
					     config->events_place.line, config->name);
	}

	ret->name = strdup(config->name);
	if (!ret->name)
		return reason_set(why, -ENOMEM, "out of memory");
	ret->alone = config->alone;
	ret->split = config->split;
	ret->events = events;
	events = (struct event_list){};
	return 0;
}

static int parse_groups(struct group_list *ret, const struct config *config, const struct config_list *names,
			const struct event_env *env, struct reason *why)
{
	_cleanup_(group_list_release) struct group_list list = {
		.groups = calloc(names->nr + 1, sizeof(struct group)),
	};

	size_t nr_events = 0;

	if (!list.groups)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < names->nr; i++) {
		const struct config_group *group = config_find_group(config, names->items[i]);
		int r;

		if (!group)
			return reason_set(why, -EINVAL, "%s:%u: there is no [group \"%s\"]", names->places[i].file,
					  names->places[i].line, names->items[i]);
		r = parse_group(&list.groups[list.nr], group, env, MAX_EVENTS - nr_events, why);
		if (r < 0)
			return r;
		nr_events += list.groups[list.nr].events.nr;
		list.nr++;
	}
	*ret = list;
	list = (struct group_list){};
	return 0;
}

/* The hierarchy's root, to try events on; -1 with the sentence in why where there is none. */
static int open_hierarchy(const struct machine *machine, struct reason *why)
{
	int fd = -1;

	*why = machine->no_cgroups;
	if (machine->mount.path) {
		fd = open(machine->mount.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			reason_set(why, 0, "%s: %s", machine->mount.path, strerror(errno));
	}
	return fd;
}

static int make_plan(struct plan **ret, const struct config *config, const struct machine *machine,
		     const struct plan *counting, struct reason *why)
{
	struct group_list groups[_SCOPE_MAX] = {};
	struct reason no_cgroups;
	_cleanup_(closep) int cgroup_fd = open_hierarchy(machine, &no_cgroups);
	int r;

	r = parse_groups(&groups[SCOPE_CPU], config, &config->cpu_groups, &machine->env, why);
	if (r == 0)
		r = parse_groups(&groups[SCOPE_CGROUP], config, &config->cgroup_groups, &machine->env, why);
	if (r < 0) {
		group_list_release(&groups[SCOPE_CPU]);
		return r;
	}
	r = plan_new(ret, groups, &machine->cpus, cgroup_fd, no_cgroups.text, &machine->privilege, counting, why);
	return r == -EEXIST ? -EINVAL : r;
}

static int make_count(struct count **ret, const struct config *config, const struct machine *machine,
		      const struct plan *counting, struct reason *why)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	const struct count_options options = {
		.cgroup_per_cpu = config->cgroup_per_cpu,
		.linger = config->linger,
		.cgroup_max = config->cgroup_max,
		.fd_reserve = machine->privilege.fd_limit >= 2 * FD_RESERVE ? FD_RESERVE :
									      machine->privilege.fd_limit / 2,
	};
	int r = make_plan(&plan, config, machine, counting, why);

	if (r < 0)
		return r;
	if (count_new(ret, plan, &machine->cpus, &machine->privilege, &options) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	return 0;
}

static void take_config(struct monitor *monitor, struct machine *machine, struct config *config)
{
	monitor->machine = machine;
	monitor->config = config;
	monitor->filter = (struct cgroup_filter){
		.include = config->include.items,
		.nr_include = config->include.nr,
		.exclude = config->exclude.items,
		.nr_exclude = config->exclude.nr,
	};
	monitor->about = (struct about){
		.version = PACKAGE_VERSION,
		.engine = count_engine_name(monitor->count),
		.privilege = &machine->privilege,
		.env = &machine->env,
		.mount = machine->mount.path ? &machine->mount : NULL,
		.no_cgroups = machine->mount.path ? NULL : machine->no_cgroups.text,
		.cpus = &machine->cpus,
	};
}

int monitor_new(struct monitor **ret, struct config *config, struct reason *why)
{
	_cleanup_(monitor_freep) struct monitor *monitor = calloc(1, sizeof(*monitor));
	_cleanup_(machine_freep) struct machine *machine = NULL;
	struct timespec ts;
	int r;

	if (!monitor)
		return reason_set(why, -ENOMEM, "out of memory");
	r = machine_new(&machine, why);
	if (r < 0)
		return r;
	r = make_count(&monitor->count, config, machine, NULL, why);
	if (r < 0)
		return r;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	monitor->self.start_time = (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
	monitor->started = count_now();
	take_config(monitor, steal_ptr(machine), config);
	*ret = steal_ptr(monitor);
	return 0;
}

/* --- cgroups */

static void set_status(struct monitor *monitor, struct cgroup *cgroup, enum cgroup_status status, const char *why)
{
	monitor->nr_status[cgroup->status]--;
	monitor->nr_status[status]++;
	cgroup->status = (int)status;
	free(cgroup->why);
	cgroup->why = why ? strdup(why) : NULL;
}

/* Before anything is tried: it waits, unless the config does not want it. */
static enum cgroup_status first_status(const struct monitor *monitor, const struct cgroup *cgroup)
{
	bool any = count_plan(monitor->count)->scope[SCOPE_CGROUP].nr_columns > 0;

	return cgroup->wanted && any ? CGROUP_WAITING : CGROUP_EXCLUDED;
}

static void on_added(void *userdata, struct cgroup *cgroup)
{
	struct monitor *monitor = userdata;

	cgroup->status = (int)first_status(monitor, cgroup);
	monitor->nr_status[cgroup->status]++;
}

static void stop_counting(struct monitor *monitor, struct cgroup *cgroup, bool linger)
{
	if (cgroup->status != CGROUP_COUNTED)
		return;
	count_remove_cgroup(monitor->count, cgroup, linger);
	monitor->retry = true;
}

static void on_removed(void *userdata, struct cgroup *cgroup)
{
	struct monitor *monitor = userdata;

	stop_counting(monitor, cgroup, true);
	if (cgroup->status == CGROUP_WAITING)
		monitor->missed++;
	monitor->nr_status[cgroup->status]--;
}

static void on_changed(void *userdata, struct cgroup *cgroup)
{
	struct monitor *monitor = userdata;

	if (!cgroup->wanted)
		stop_counting(monitor, cgroup, false);
	set_status(monitor, cgroup, first_status(monitor, cgroup), NULL);
}

static int start_tree(struct monitor *monitor, struct reason *why)
{
	const struct cgroup_observer observer = {
		.added = on_added,
		.removed = on_removed,
		.changed = on_changed,
		.userdata = monitor,
	};
	int r = cgroup_tree_new(&monitor->tree, monitor->machine->mount.path, &monitor->filter, &observer, why);

	if (r < 0)
		return r;
	monitor->rescanned = count_now();
	if (cgroup_tree_start(monitor->tree, why) < 0)
		return reason_prefix(why, 0, "not all cgroups are found yet, the tree will be read again");
	return 0;
}

int monitor_start(struct monitor *monitor, struct reason *why)
{
	if (count_add_cpus(monitor->count) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	why->text[0] = '\0';
	return monitor->machine->mount.path ? start_tree(monitor, why) : 0;
}

static void admit_one(struct monitor *monitor, struct cgroup *cgroup)
{
	struct reason why = {};
	int r = count_add_cgroup(monitor->count, monitor->tree, cgroup, &why);

	if (r == -ENOENT) {
		/* The tree is about to hear of it. */
		monitor->missed++;
		set_status(monitor, cgroup, CGROUP_FAILED, "it was removed before it could be opened");
	} else if (r < 0) {
		set_status(monitor, cgroup, CGROUP_FAILED, why.text);
	} else {
		set_status(monitor, cgroup, (enum cgroup_status)r, why.text[0] ? why.text : NULL);
	}
}

/* Whether a limit kept it out that may since have got room. */
static bool is_left_out(const struct cgroup *cgroup)
{
	return cgroup->status == CGROUP_OVER_MAX || cgroup->status == CGROUP_OVER_FDS;
}

bool monitor_is_waiting(const struct monitor *monitor)
{
	size_t left_out = monitor->nr_status[CGROUP_OVER_MAX] + monitor->nr_status[CGROUP_OVER_FDS];

	return monitor->nr_status[CGROUP_WAITING] > 0 || (monitor->retry && left_out > 0);
}

bool monitor_admit(struct monitor *monitor, uint64_t budget)
{
	uint64_t start = count_now();
	struct cgroup *cgroup;

	if (!monitor->tree || !monitor_is_waiting(monitor))
		return false;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(monitor->tree), in_all) {
		if (cgroup->status != CGROUP_WAITING && !(monitor->retry && is_left_out(cgroup)))
			continue;
		if (count_now() - start > budget)
			return true;
		admit_one(monitor, cgroup);
		/* Still no room: the others left out need not be tried. */
		if (is_left_out(cgroup))
			monitor->retry = false;
	}
	monitor->retry = false;
	return monitor_is_waiting(monitor);
}

bool monitor_follow_cgroups(struct monitor *monitor, struct reason *why)
{
	int r = cgroup_tree_dispatch(monitor->tree, why);

	if (r >= 0 && cgroup_tree_wants_rescan(monitor->tree) == CGROUP_RESCAN_NOW)
		r = cgroup_tree_rescan(monitor->tree, why);
	return r > 0;
}

/* --- reading */

/* What failed once can work later: memory, files and PMUs are had by others too. */
static void retry_cgroups(struct monitor *monitor)
{
	struct cgroup *cgroup;

	if (count_plan(monitor->count)->scope[SCOPE_CGROUP].nr_sets == 0)
		return;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(monitor->tree), in_all)
		if (cgroup->status == CGROUP_FAILED)
			set_status(monitor, cgroup, CGROUP_WAITING, NULL);
		else if (cgroup->status == CGROUP_COUNTED && cgroup->why)
			admit_one(monitor, cgroup); /* not with all of its sets */
}

/* Events that could not be counted because the PMU was busy, or files or memory short, are tried again; where
 * one can be counted by now, what a reload of the same config would do is done. */
static void retry_events(struct monitor *monitor)
{
	const struct plan *plan = count_plan(monitor->count);
	_cleanup_(reload_freep) struct reload *reload = NULL;
	_cleanup_(closep) int cgroup_fd = -1;
	struct reason why;

	if (!plan_may_recover(plan))
		return;
	cgroup_fd = open_hierarchy(monitor->machine, &why);
	if (!plan_recovers(plan, &monitor->machine->cpus, cgroup_fd))
		return;
	reload = calloc(1, sizeof(*reload));
	if (!reload || make_count(&reload->count, monitor->config, monitor->machine, plan, &why) < 0 ||
	    plan_nr_counted(count_plan(reload->count)) <= plan_nr_counted(plan))
		return;
	monitor_commit(monitor, steal_ptr(reload), &why);
}

static void look_again_at_times(struct monitor *monitor)
{
	uint64_t now = count_now();
	struct reason why;

	if (now - monitor->rescanned < RESCAN_NS)
		return;
	monitor->rescanned = now;
	retry_events(monitor);
	count_mend_cpus(monitor->count);
	if (!monitor->tree)
		return;
	monitor->retry = true;
	retry_cgroups(monitor);
	if (cgroup_tree_wants_rescan(monitor->tree) != CGROUP_RESCAN_NO)
		(void)cgroup_tree_rescan(monitor->tree, &why);
}

void monitor_tick(struct monitor *monitor)
{
	const uint64_t *busy = NULL;

	look_again_at_times(monitor);
	if (count_is_in_doubt(monitor->count))
		busy = cpu_busy_update(&monitor->busy, &monitor->machine->cpus, PROCFS);
	else
		cpu_busy_forget(&monitor->busy);
	count_tick(monitor->count, busy);
	monitor->latest = snapshot_unref(monitor->latest);
}

/* Second field of /proc/self/statm (proc(5)): resident pages. */
static uint64_t resident_bytes(void)
{
	_cleanup_(freep) char *text = NULL;
	uint64_t size, resident;

	if (read_text_file(AT_FDCWD, "/proc/self/statm", FILE_MAX_SYSFS, &text) < 0 ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t cpu_ns(void)
{
	struct rusage usage = {};

	(void)getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000U +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000U;
}

static struct self describe_self(const struct monitor *monitor)
{
	struct count_stats stats = count_stats(monitor->count);
	struct cgroup_tree_stats tree = {};
	struct self self = monitor->self;

	if (monitor->tree)
		tree = cgroup_tree_stats(monitor->tree);
	self.uptime = count_now() - monitor->started;
	self.interval = monitor->config->interval;
	self.reads = stats.reads;
	self.read_ns = stats.read_ns;
	self.read_errors = stats.read_errors;
	self.backwards = stats.backwards;
	self.fds = stats.fds;
	self.fd_limit = monitor->machine->privilege.fd_limit;
	self.cpus = stats.cpus;
	self.cgroups_counted = monitor->nr_status[CGROUP_COUNTED];
	self.cgroups_lingering = stats.lingering;
	self.cgroups_excluded = monitor->nr_status[CGROUP_EXCLUDED];
	self.cgroups_over_max = monitor->nr_status[CGROUP_OVER_MAX];
	self.cgroups_over_fds = monitor->nr_status[CGROUP_OVER_FDS];
	self.cgroups_failed = monitor->nr_status[CGROUP_FAILED];
	self.cgroups_waiting = monitor->nr_status[CGROUP_WAITING];
	self.cgroups_missed = monitor->missed + tree.missed;
	self.watches = tree.watches;
	self.watches_missing = tree.watches_missing;
	self.inotify_overflows = tree.overflows;
	self.rescans = tree.rescans;
	self.cpu_ns = cpu_ns();
	self.resident_bytes = resident_bytes();
	return self;
}

int monitor_snapshot(struct monitor *monitor, uint64_t max_age, struct snapshot **ret)
{
	struct self self;
	int r;

	if (count_now() - count_stats(monitor->count).last_read > max_age) {
		monitor->latest = snapshot_unref(monitor->latest);
		look_again_at_times(monitor);
		count_read(monitor->count);
	}
	if (!monitor->latest) {
		self = describe_self(monitor);
		r = snapshot_new(&monitor->latest, monitor->count, monitor->tree, &monitor->machine->topology,
				 monitor->config->cpu_aggregate, &self);
		if (r < 0)
			return r;
	}
	*ret = snapshot_ref(monitor->latest);
	return 0;
}

void monitor_describe(const struct monitor *monitor, struct reason *ret)
{
	size_t counted[_SCOPE_MAX] = {}, all[_SCOPE_MAX];

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *plan = &count_plan(monitor->count)->scope[scope];

		all[scope] = plan->nr_columns;
		for (size_t i = 0; i < plan->nr_columns; i++) {
			const char *why;
			enum event_state state = count_column_state(monitor->count, (enum scope)scope, i, &why);

			counted[scope] += state == EVENT_OK || state == EVENT_MULTIPLEXED;
		}
	}
	reason_set(ret, 0, "%zu of %zu events on %zu CPUs, %zu of %zu events in %zu of %zu cgroups", counted[SCOPE_CPU],
		   all[SCOPE_CPU], count_stats(monitor->count).cpus, counted[SCOPE_CGROUP], all[SCOPE_CGROUP],
		   monitor->nr_status[CGROUP_COUNTED], monitor->tree ? cgroup_tree_size(monitor->tree) : 0);
}

/* --- reload */

/* Hands every counted cgroup from the old count to the new one. One that is gone, or has no room any more, is
 * read a last time and lingers. */
static void move_cgroups(struct monitor *monitor, struct count *old)
{
	struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(monitor->tree), in_all) {
		if (cgroup->status != CGROUP_COUNTED) {
			set_status(monitor, cgroup, first_status(monitor, cgroup), NULL);
			continue;
		}
		if (first_status(monitor, cgroup) == CGROUP_WAITING)
			admit_one(monitor, cgroup);
		else
			set_status(monitor, cgroup, CGROUP_EXCLUDED, NULL);
		if (cgroup->status != CGROUP_COUNTED)
			count_remove_cgroup(old, cgroup, cgroup->status != CGROUP_EXCLUDED);
	}
	monitor->retry = true;
}

/* A cgroup that was removed and made again, unheard of so far, is two cgroups. The bound is for a tree that
 * changes faster than it can be followed. */
static void catch_up(struct monitor *monitor)
{
	struct reason why;

	for (int i = 0; i < 64 && monitor_follow_cgroups(monitor, &why); i++)
		;
}

struct reload *reload_free(struct reload *reload)
{
	if (!reload)
		return NULL;
	count_free(reload->count);
	machine_free(reload->machine);
	config_free(reload->config);
	free(reload);
	return NULL;
}

int monitor_prepare(const struct monitor *monitor, struct config *config, struct reload **ret, struct reason *why)
{
	_cleanup_(reload_freep) struct reload *reload = calloc(1, sizeof(*reload));
	int r;

	if (!reload)
		return reason_set(why, -ENOMEM, "out of memory");
	r = machine_new(&reload->machine, why);
	if (r >= 0)
		r = make_count(&reload->count, config, reload->machine, count_plan(monitor->count), why);
	if (r < 0)
		return r;
	reload->config = config;
	*ret = steal_ptr(reload);
	return 0;
}

static void exchange_config(struct monitor *monitor, struct reload *reload)
{
	struct machine *machine = monitor->machine;
	struct config *config = monitor->config;

	take_config(monitor, reload->machine, reload->config);
	reload->machine = machine;
	reload->config = config;
}

void monitor_commit(struct monitor *monitor, struct reload *reload, struct reason *why)
{
	struct count *count = monitor->count;
	int r;

	why->text[0] = '\0';
	if (monitor->tree)
		catch_up(monitor);
	/* The old ones are needed until the new ones have taken over; then they go with reload. */
	if (reload->config)
		exchange_config(monitor, reload);
	/* What is no longer wanted is the old count's to remove. */
	if (monitor->tree)
		cgroup_tree_set_filter(monitor->tree, &monitor->filter);
	monitor->count = steal_ptr(reload->count);

	count_succeed(monitor->count, count);
	r = count_add_cpus(monitor->count);
	if (monitor->tree)
		move_cgroups(monitor, count);
	else if (monitor->machine->mount.path)
		(void)start_tree(monitor, why);
	if (count_succeeded(monitor->count, count) < 0 || r < 0)
		reason_set(why, 0, "out of memory: some totals start anew");
	monitor->latest = snapshot_unref(monitor->latest);
	count_free(count);
	reload_free(reload);
}
