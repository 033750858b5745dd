/* SPDX-License-Identifier: MIT */

#include "monitor.h"

#include "access.h"
#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Events of a scope. Each is tried at start, and each has series on every target. */
#define MAX_EVENTS 1000

/* How often the tree is read again while not all of it can be watched, and what was left out is tried. */
#define RESCAN_NS 10000000000U

/* How long a reload hears of cgroups first; the bound is for a tree that changes faster than it can be followed. */
#define CATCH_UP_NS 50000000U

struct monitor *monitor_free(struct monitor *monitor)
{
	if (!monitor)
		return NULL;
	snapshot_unref(monitor->latest);
	roster_release(&monitor->roster);
	cpu_watch_close(&monitor->cpu_watch);
	count_free(monitor->restored);
	count_free(monitor->count);
	closer_free(monitor->closer);
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
		     const struct count *counting, struct reason *why)
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
	if (counting)
		count_keep_events(counting, groups);
	r = plan_new(ret, groups, &machine->cpus, cgroup_fd, no_cgroups.text, &machine->privilege,
		     counting ? count_plan(counting) : NULL, why);
	return r == -EEXIST ? -EINVAL : r;
}

static int make_count(struct count **ret, const struct config *config, const struct machine *machine,
		      const struct count *counting, struct closer *closer, struct reason *why)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	const struct count_options options = {
		.cgroup_per_cpu = config->cgroup_per_cpu,
		.linger = config->linger,
		.cgroup_max = config->cgroup_max,
		.excluded = &machine->excluded,
		.topology = &machine->topology,
		.closer = closer,
		.fd_reserve = access_fd_reserve(config, machine->privilege.fd_limit),
	};
	int r;

	closer_pause(closer);
	r = make_plan(&plan, config, machine, counting, why);
	closer_resume(closer);
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
	monitor->hierarchy = machine->perf_hierarchy;
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
		.no_cgroups = machine->no_cgroups.text,
		.part_of_tree = machine->part_of_tree.text,
		.cpus_problem = machine->cpus_problem.text,
		.cpus = &machine->cpus,
	};
}

int monitor_new(struct monitor **ret, struct config *config, struct count *restored, struct reason *why)
{
	_cleanup_(monitor_freep) struct monitor *monitor = calloc(1, sizeof(*monitor));
	_cleanup_(machine_freep) struct machine *machine = NULL;
	struct timespec ts;
	int r;

	if (!monitor)
		return reason_set(why, -ENOMEM, "out of memory");
	/* What changes from here on is noticed. */
	cpu_watch_open(&monitor->cpu_watch, config->sysfs.text);
	if (closer_new(&monitor->closer) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	r = machine_new(&machine, config, restored ? count_topology(restored) : NULL, why);
	if (r < 0)
		return r;
	r = make_count(&monitor->count, config, machine, restored, monitor->closer, why);
	if (r < 0)
		return r;

	roster_init(&monitor->roster, monitor->count);
	monitor->restored = restored;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	monitor->self.start_time = (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
	monitor->started = count_now();
	take_config(monitor, steal_ptr(machine), config);
	*ret = steal_ptr(monitor);
	return 0;
}

/* --- cgroups */

static int start_tree(struct monitor *monitor, struct reason *why)
{
	const struct cgroup_observer observer = roster_observer(&monitor->roster);
	int r = cgroup_tree_new(&monitor->tree, monitor->machine->mount.path, &monitor->filter, &observer, why);

	if (r < 0)
		return r;
	if (cgroup_mount_is_part(&monitor->machine->mount))
		cgroup_tree_set_part(monitor->tree);
	monitor->nr_trees++;
	monitor->roster.tree = monitor->tree;
	monitor->rescanned = count_now();
	if (cgroup_tree_start(monitor->tree, why) < 0)
		return reason_prefix(why, 0, "not all cgroups are found yet, the tree will be read again");
	return 0;
}

/* Of the CPUs on which nothing counted any more, those that are there have been offline. */
static void tell_lost(const struct monitor *monitor, const struct cpulist *lost, struct reason *why)
{
	_cleanup_(cpulist_release) struct cpulist back = {};
	_cleanup_(freep) char *now = NULL, *were = NULL;

	for (size_t i = 0; i < lost->nr; i++)
		if (cpulist_has(&monitor->machine->cpus, lost->cpu[i]))
			(void)cpulist_add(&back, lost->cpu[i]);
	if (back.nr == 0)
		return;
	were = cpulist_format(&back);
	now = cpulist_format(&monitor->machine->cpus);
	reason_set(why, 0,
		   "CPU %s has been offline, or an event does not start there: counted anew, totals go on; "
		   "CPUs counted now: %s",
		   were ? were : "?", now ? now : "?");
}

/* The monitor's count takes over from another, which goes. Where totals could not be carried, or CPUs have been
 * offline, why says so. */
static void take_over(struct monitor *monitor, struct count *from, struct reason *why)
{
	int r = count_succeed(monitor->count, from);

	if (!why->text[0])
		tell_lost(monitor, count_lost(monitor->count), why);
	if (roster_move(&monitor->roster, monitor->count, from) < 0)
		r = -ENOMEM;
	if (count_succeeded(monitor->count, from) < 0)
		r = -ENOMEM;
	count_free(from);
	if (r < 0)
		reason_set(why, 0, "out of memory: some totals start anew");
}

int monitor_start(struct monitor *monitor, struct reason *why)
{
	int r = 0;

	why->text[0] = '\0';
	if (!monitor->restored && count_add_cpus(monitor->count) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	if (monitor->machine->mount.path)
		r = start_tree(monitor, why);
	if (!monitor->machine->mount.path && monitor->restored)
		count_hold_cgroups(monitor->count, monitor->restored);
	if (r == 0 && monitor->restored)
		take_over(monitor, steal_ptr(monitor->restored), why);
	return r;
}

bool monitor_is_suspended(const struct monitor *monitor)
{
	return monitor->mount_gone != 0;
}

bool monitor_admit(struct monitor *monitor, uint64_t budget)
{
	bool more = !monitor_is_suspended(monitor) && roster_admit(&monitor->roster, budget);

	if (!more)
		count_end_tries(monitor->count);
	return more;
}

bool monitor_is_waiting(const struct monitor *monitor)
{
	return roster_is_waiting(&monitor->roster) || roster_wants_ranking(&monitor->roster);
}

bool monitor_is_behind(const struct monitor *monitor)
{
	return monitor->tree && !monitor_is_suspended(monitor) && cgroup_tree_has_more(monitor->tree);
}

bool monitor_follow_cgroups(struct monitor *monitor, uint64_t budget, struct reason *why)
{
	return monitor->tree && !monitor_is_suspended(monitor) && cgroup_tree_follow(monitor->tree, budget, why) > 0;
}

/* --- reading */

/* The machine as it is by now, and a count of what config wants on it. */
static int look_at_machine(const struct monitor *monitor, const struct config *config, struct reload **ret,
			   struct reason *why)
{
	_cleanup_(reload_freep) struct reload *reload = calloc(1, sizeof(*reload));
	int r;

	if (!reload)
		return reason_set(why, -ENOMEM, "out of memory");
	r = machine_new(&reload->machine, config, &monitor->machine->topology, why);
	if (r >= 0)
		r = make_count(&reload->count, config, reload->machine, monitor->count, monitor->closer, why);
	if (r >= 0)
		*ret = steal_ptr(reload);
	return r;
}

int monitor_renew(struct monitor *monitor, struct reason *why)
{
	struct reload *reload;
	int r = look_at_machine(monitor, monitor->config, &reload, why);

	if (r >= 0)
		monitor_commit(monitor, reload, why);
	return r;
}

/* What was denied is tried again. What is open goes on, whatever the level. */
static void follow_privileges(struct monitor *monitor, struct reason *news)
{
	uint64_t now = count_now();

	if (!privilege_has_changed(&monitor->machine->privilege, monitor->config->procfs.text) ||
	    now < monitor->privileges_due)
		return;
	if (monitor_renew(monitor, news) < 0) {
		monitor->privileges_due = now + RESCAN_NS;
		reason_prefix(news, 0, "kernel.perf_event_paranoid has changed, and the config can't be applied anew");
		return;
	}
	if (!news->text[0])
		reason_set(news, 0, "kernel.perf_event_paranoid is now %d: retried the events that were denied",
			   monitor->machine->privilege.paranoid);
}

/* A CPU that went and came between two looks at the list shows by what is counted on it. That can't be told from an
 * event that does not start, and is done again at times only. */
static void follow_cpus(struct monitor *monitor, struct reason *news)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};
	_cleanup_(freep) char *text = NULL;
	uint64_t now = count_now();

	monitor->cpus_changed |= cpu_watch_has_changed(&monitor->cpu_watch);
	(void)count_find_lost(monitor->count, &lost);
	if (!monitor->cpus_changed && (lost.nr == 0 || now < monitor->cpus_renewed + RESCAN_NS))
		return;
	monitor->cpus_renewed = now;
	monitor->cpus_changed = false;
	if (monitor_renew(monitor, news) < 0) {
		monitor->cpus_changed = true;
		reason_prefix(news, 0, "CPUs have come or gone, and can't be looked at yet");
		return;
	}
	if (news->text[0])
		return;
	text = cpulist_format(&monitor->machine->cpus);
	reason_set(news, 0, "CPUs have come or gone: counted now: %s", text ? text : "?");
}

void monitor_follow_machine(struct monitor *monitor, struct reason *news)
{
	news->text[0] = '\0';
	/* Opening anything anew would close the cgroups, whose mount may be back in a moment. */
	if (monitor_is_suspended(monitor))
		return;
	follow_cpus(monitor, news);
	if (!news->text[0])
		follow_privileges(monitor, news);
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
	if (!reload || make_count(&reload->count, monitor->config, monitor->machine, monitor->count, monitor->closer,
				  &why) < 0 ||
	    plan_nr_counted(count_plan(reload->count)) <= plan_nr_counted(plan))
		return;
	monitor_commit(monitor, steal_ptr(reload), &why);
}

static void look_again_at_times(struct monitor *monitor)
{
	uint64_t now = count_now();

	if (now - monitor->rescanned < RESCAN_NS || monitor_is_suspended(monitor))
		return;
	monitor->rescanned = now;
	retry_events(monitor);
	count_mend_cpus(monitor->count);
	if (!monitor->tree)
		return;
	roster_retry(&monitor->roster);
	if (cgroup_tree_is_incomplete(monitor->tree))
		cgroup_tree_rescan(monitor->tree);
}

void monitor_tick(struct monitor *monitor)
{
	const uint64_t *busy = NULL;

	look_again_at_times(monitor);
	if (count_is_in_doubt(monitor->count))
		busy = cpu_busy_update(&monitor->busy, &monitor->machine->cpus,
				       monitor->config->procfs.text);
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

	if (read_text_file(AT_FDCWD, OWN_PROCFS "/self/statm", FILE_MAX_SYSFS, &text) < 0 ||
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

size_t monitor_needed_fds(const struct monitor *monitor)
{
	return roster_needed_fds(&monitor->roster) + access_fd_reserve(monitor->config, UINT64_MAX);
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
	self.needed_fds = monitor_needed_fds(monitor);
	self.cpus = stats.cpus;
	self.cpus_offline = stats.cpus_offline;
	self.cgroups_counted = monitor->roster.nr_status[CGROUP_COUNTED];
	self.cgroups_lingering = stats.lingering;
	self.cgroups_pushed_out = stats.pushed_out;
	self.cgroups_excluded = monitor->roster.nr_status[CGROUP_EXCLUDED];
	self.cgroups_over_max = monitor->roster.nr_status[CGROUP_OVER_MAX];
	self.cgroups_over_fds = monitor->roster.nr_status[CGROUP_OVER_FDS];
	self.cgroups_failed = monitor->roster.nr_status[CGROUP_FAILED];
	self.cgroups_waiting = monitor->roster.nr_status[CGROUP_WAITING];
	self.cgroups_unlisted = tree.unlisted;
	self.cgroups_missed = monitor->roster.missed + tree.missed;
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
	const struct snapshot_options options = {
		.aggregate = monitor->config->cpu_aggregate,
		.created = monitor->config->created,
		.peaks = monitor->config->peaks,
	};
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
				 &options, &self);
		if (r < 0)
			return r;
	}
	*ret = snapshot_ref(monitor->latest);
	return 0;
}

/* How many of a scope's events are counted. *lack is why one is not: the first that is denied goes before others. */
static size_t nr_counting(const struct monitor *monitor, enum scope scope, const char **lack, bool *denied)
{
	size_t counting = 0;

	for (size_t i = 0; i < count_plan(monitor->count)->scope[scope].nr_columns; i++) {
		const char *why;
		enum event_state state = count_column_state(monitor->count, scope, i, &why);

		if (state == EVENT_OK || state == EVENT_MULTIPLEXED) {
			counting++;
			continue;
		}
		if (!*lack || (state == EVENT_DENIED && !*denied))
			*lack = why;
		*denied |= state == EVENT_DENIED;
	}
	return counting;
}

/* Why there are cgroups to be counted, and none is; NULL where that is not so. */
static const char *find_why_left_out(const struct monitor *monitor)
{
	const struct cgroup *cgroup;

	if (!monitor->tree || monitor->roster.nr_status[CGROUP_COUNTED] || monitor->roster.nr_status[CGROUP_WAITING])
		return NULL;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(monitor->tree), in_all)
		if (cgroup->why)
			return cgroup->why;
	return NULL;
}

bool monitor_describe(const struct monitor *monitor, struct reason *ret)
{
	const struct plan *plan = count_plan(monitor->count);
	const char *lack = NULL;
	bool denied = false;
	size_t on_cpus = nr_counting(monitor, SCOPE_CPU, &lack, &denied);
	size_t in_cgroups = nr_counting(monitor, SCOPE_CGROUP, &lack, &denied);

	if (on_cpus == 0 && in_cgroups > 0)
		lack = find_why_left_out(monitor);
	if (on_cpus == 0 && (in_cgroups == 0 || lack)) {
		reason_set(ret, 0, "nothing: %s", lack ? lack : "the config names no event");
		return false;
	}
	reason_set(ret, 0, "%zu of %zu events on %zu CPUs, %zu of %zu events in %zu of %zu cgroups", on_cpus,
		   plan->scope[SCOPE_CPU].nr_columns, count_stats(monitor->count).cpus, in_cgroups,
		   plan->scope[SCOPE_CGROUP].nr_columns, monitor->roster.nr_status[CGROUP_COUNTED],
		   monitor->tree ? cgroup_tree_size(monitor->tree) : 0);
	return true;
}

/* --- one count after another */

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
	int r = look_at_machine(monitor, config, ret, why);

	if (r >= 0)
		(*ret)->config = config;
	return r;
}

/* What the reload does not have stays in force. The old ones are needed until their successors have taken over, and
 * go with the reload. */
static void exchange(struct monitor *monitor, struct reload *reload)
{
	struct machine *machine = monitor->machine;
	struct config *config = monitor->config;

	take_config(monitor, reload->machine ? reload->machine : machine, reload->config ? reload->config : config);
	reload->machine = reload->machine ? machine : NULL;
	reload->config = reload->config ? config : NULL;
}

/* Open events go on where the kernel has come to refuse any more of them. */
static void tell_shut_out(const struct monitor *monitor, struct reason *why)
{
	const struct privilege *privilege = &monitor->machine->privilege;

	if (why->text[0] || privilege_may_count_cpus(privilege) || plan_nr_counted(count_plan(monitor->count)) == 0)
		return;
	privilege_explain(privilege, why);
	reason_prefix(why, 0, "what is counted goes on, and nothing new can be counted");
}

/* The tree that is there goes on, where it is the same, wherever it is mounted now; or it is dropped. */
static void keep_tree(struct monitor *monitor, const struct machine *next)
{
	const struct cgroup_mount *before = &monitor->machine->mount;
	struct reason ignored;

	if (!monitor->tree)
		return;
	if (next && !cgroup_mount_same_tree(before, &next->mount)) {
		roster_forget_tree(&monitor->roster);
		monitor->tree = cgroup_tree_free(monitor->tree);
		monitor->mount_gone = 0;
		return;
	}
	if (next && (monitor->mount_gone || strcmp(before->path, next->mount.path) != 0)) {
		(void)cgroup_tree_move(monitor->tree, next->mount.path);
		monitor->mount_gone = 0;
	}
	/* A cgroup that was removed and made again, unheard of so far, is two cgroups. */
	(void)monitor_follow_cgroups(monitor, CATCH_UP_NS, &ignored);
}

/* Will the cgroups that are counted not be counted any more, through nobody's wish? */
static bool loses_cgroups(const struct cgroup_mount *before, const struct cgroup_mount *after)
{
	if (!after->path)
		return true;
	return before->path && (before->version != after->version ||
				(!cgroup_mount_is_part(before) && cgroup_mount_is_part(after)));
}

/* Other folders may be told to look at. */
static void watch_cpus(struct monitor *monitor, const struct config *before)
{
	if (strcmp(before->sysfs.text, monitor->config->sysfs.text) != 0) {
		cpu_watch_close(&monitor->cpu_watch);
		cpu_watch_open(&monitor->cpu_watch, monitor->config->sysfs.text);
	}
}

void monitor_commit(struct monitor *monitor, struct reload *reload, struct reason *why)
{
	struct count *from = monitor->count;
	const struct machine *next = reload->machine ? reload->machine : monitor->machine;

	why->text[0] = '\0';
	keep_tree(monitor, reload->machine);
	monitor->count = steal_ptr(reload->count);
	if (loses_cgroups(&monitor->machine->mount, &next->mount))
		count_hold_cgroups(monitor->count, from);
	exchange(monitor, reload);
	if (reload->config)
		watch_cpus(monitor, reload->config);
	/* The new machine may lack CPUs that are back before the list is compared again. */
	monitor->cpus_changed |= cpu_watch_has_changed(&monitor->cpu_watch);
	if (monitor->tree)
		cgroup_tree_set_filter(monitor->tree, &monitor->filter);
	else if (monitor->machine->mount.path)
		(void)start_tree(monitor, why);
	take_over(monitor, from, why);
	tell_shut_out(monitor, why);
	if (!roster_is_waiting(&monitor->roster))
		count_end_tries(monitor->count);
	monitor->latest = snapshot_unref(monitor->latest);
	reload_free(reload);
}
