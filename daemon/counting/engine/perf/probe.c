/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/probe.h"

#include "base/util/buf.h"
#include "counting/engine/perf/clock-test.h"
#include "counting/engine/perf/open.h"
#include "counting/plan/build.h"

#include <errno.h>
#include <string.h>

/* --- what an event can do without */

enum concession {
	CONCEDE_PRECISE,
	CONCEDE_GUEST,
	CONCEDE_HV,
	CONCEDE_IDLE,
	CONCEDE_EXCLUSIVE,
	CONCEDE_PINNED,
	_CONCEDE_MAX,
};

static unsigned attr_get(const struct perf_event_attr *attr, enum concession what)
{
	switch (what) {
	case CONCEDE_PRECISE:
		return attr->precise_ip;
	case CONCEDE_GUEST:
		return attr->exclude_guest;
	case CONCEDE_HV:
		return attr->exclude_hv;
	case CONCEDE_IDLE:
		return attr->exclude_idle;
	case CONCEDE_EXCLUSIVE:
		return attr->exclusive;
	default:
		return attr->pinned;
	}
}

static void attr_set(struct perf_event_attr *attr, enum concession what, unsigned value)
{
	switch (what) {
	case CONCEDE_PRECISE:
		attr->precise_ip = value & 3;
		return;
	case CONCEDE_GUEST:
		attr->exclude_guest = value & 1;
		return;
	case CONCEDE_HV:
		attr->exclude_hv = value & 1;
		return;
	case CONCEDE_IDLE:
		attr->exclude_idle = value & 1;
		return;
	case CONCEDE_EXCLUSIVE:
		attr->exclusive = value & 1;
		return;
	default:
		attr->pinned = value & 1;
	}
}

static bool may_concede(const struct column *column, const struct perf_event_attr *attr, enum concession what)
{
	return attr_get(attr, what) && !(what == CONCEDE_GUEST && column->event->host_only);
}

/* The errors with which kernels refuse an attribute that a PMU can't follow. */
static bool may_be_an_attribute(int error)
{
	return error == -EINVAL || error == -EOPNOTSUPP || error == -EPERM;
}

/* --- tries */

/* Closes an event that was opened to try it, or keeps it where closing is slow. */
static void end_try(const struct engine_probe *probe, const struct event *event, int fd)
{
	bool keep = fd >= 0 && probe->tried && event_is_slow_to_close(event);

	if (!keep || tried_add(probe->tried, fd) < 0)
		safe_close(fd);
}

static int try_open_once(const struct engine_probe *probe, const struct event *event,
			 const struct perf_event_attr *attr, int cpu, int cgroup_fd, int group_fd)
{
	int refused = -1, fd = perf_open_unfiltered(event, attr, cpu, cgroup_fd, group_fd, &refused);

	end_try(probe, event, refused);
	return fd;
}

/* Opens an event to try it. Where files are short, events that were kept from earlier tries are closed. */
static int try_open(const struct engine_probe *probe, const struct event *event, const struct perf_event_attr *attr,
		    int cpu, int cgroup_fd, int group_fd)
{
	int fd = try_open_once(probe, event, attr, cpu, cgroup_fd, group_fd);

	if ((fd != -EMFILE && fd != -ENFILE) || !probe->tried || probe->tried->nr == 0)
		return fd;
	tried_release(probe->tried);
	return try_open_once(probe, event, attr, cpu, cgroup_fd, group_fd);
}

static int open_with(const struct column *column, const struct perf_event_attr *attr, const struct engine_probe *probe,
		     int cpu)
{
	return try_open(probe, column->event, attr, cpu, probe->cgroup_fd, -1);
}

/* Gives up one thing after the other until the event opens, or fails for another reason. Returns the fd, or the last
 * error (`error` where nothing could be given up). attr is left as it was tried last, and *last is the last thing
 * given up. */
static int column_concede(const struct column *column, struct perf_event_attr *attr, const struct engine_probe *probe,
			  int cpu, enum concession *last, int error)
{
	int fd = error;

	for (enum concession what = 0; may_be_an_attribute(fd) && what < _CONCEDE_MAX; what++)
		while (may_be_an_attribute(fd) && may_concede(column, attr, what)) {
			attr_set(attr, what, attr_get(attr, what) - 1);
			*last = what;
			fd = open_with(column, attr, probe, cpu);
		}
	return fd;
}

/* Names in the column's reason the attributes that were given up. */
static int tell_concessions(struct column *column)
{
	static const char *const names[_CONCEDE_MAX] = {
		[CONCEDE_PRECISE] = "precise_ip", [CONCEDE_GUEST] = "exclude_guest", [CONCEDE_HV] = "exclude_hv",
		[CONCEDE_IDLE] = "exclude_idle",  [CONCEDE_EXCLUSIVE] = "exclusive", [CONCEDE_PINNED] = "pinned",
	};
	_cleanup_(buf_release) struct buf text = {};
	_cleanup_(freep) char *why = NULL;

	for (enum concession what = 0; what < _CONCEDE_MAX; what++) {
		unsigned from = attr_get(&column->event->attr, what), to = attr_get(&column->attr, what);

		if (from == to)
			continue;
		buf_printf(&text, "%s%s",
			   text.len ? ", " : "counted without what the kernel refuses here: ", names[what]);
		if (what == CONCEDE_PRECISE)
			buf_printf(&text, " %u (%u is used)", from, to);
	}
	if (!text.len)
		return 0;
	why = buf_steal(&text);
	return why ? column_set_state(column, EVENT_OK, why) : -ENOMEM;
}

/* Asks again for the things that were given up before the last one, which may not have been the reason. Returns the
 * fd of the event as it is then. */
static int column_take_back(const struct column *column, struct perf_event_attr *attr, const struct engine_probe *probe,
			    int cpu, enum concession last, int fd)
{
	for (enum concession what = 0; what < last; what++) {
		struct perf_event_attr more = *attr;
		int again;

		if (attr_get(attr, what) == attr_get(&column->attr, what))
			continue;
		attr_set(&more, what, attr_get(&column->attr, what));
		again = open_with(column, &more, probe, cpu);
		if (again < 0)
			continue;
		end_try(probe, column->event, fd);
		fd = again;
		*attr = more;
	}
	return fd;
}

/* Opens the column without a PMU's type in it (perf_attr_make_plain()). */
static int open_plainly(struct column *column, const struct engine_probe *probe, int cpu)
{
	struct perf_event_attr attr = column->attr;
	int fd;

	if (!perf_attr_make_plain(&attr, column->event))
		return -ENOENT;
	fd = open_with(column, &attr, probe, cpu);
	if (fd >= 0)
		column->attr = attr;
	return fd;
}

/* Opens the column, if need be with less than it asks for, which is then in column->attr. The fd, or the error
 * of the first try. */
static int open_column(struct column *column, const struct engine_probe *probe, int cpu)
{
	struct perf_event_attr attr = column->attr;
	enum concession last = 0;
	int first = open_with(column, &attr, probe, cpu), fd;

	if (first == -ENOENT)
		return open_plainly(column, probe, cpu);
	if (first >= 0 || !may_be_an_attribute(first))
		return first;
	fd = column_concede(column, &attr, probe, cpu, &last, first);
	if (fd < 0)
		return may_be_an_attribute(fd) ? first : fd;
	fd = column_take_back(column, &attr, probe, cpu, last, fd);
	column->attr = attr;
	return fd;
}

/* Would the event open if it left nothing out? Then it is its modifiers that this PMU can't follow. */
static bool modifiers_are_refused(const struct column *column, const struct engine_probe *probe, int cpu)
{
	struct perf_event_attr attr = column->attr;
	int fd;

	if (!attr.exclude_user && !attr.exclude_kernel && !attr.exclude_host && !attr.exclude_guest)
		return false;
	attr.exclude_user = attr.exclude_kernel = attr.exclude_hv = attr.exclude_idle = 0;
	attr.exclude_host = attr.exclude_guest = 0;
	attr.precise_ip = 0;
	fd = open_with(column, &attr, probe, cpu);
	end_try(probe, column->event, fd);
	return fd >= 0;
}

/* --- one event */

/* An event that is being counted is not tried again: on a PMU with one user it would only meet itself. */
static const struct column *find_counting(const struct column *column, const struct engine_probe *probe)
{
	const struct scope_plan *counting = probe->counting;
	size_t at = counting ? column_find_equal(column, counting) : NO_COLUMN;

	if (!counting || !column_is_open(counting, at) ||
	    counting->sets[counting->columns[at].set].engine != probe->engine)
		return NULL;
	return &counting->columns[at];
}

static int explain_column(struct column *column, const struct engine_probe *probe, int cpu, int error)
{
	enum event_state state;
	struct reason why;

	column->may_recover = perf_open_may_recover(error);
	if (may_be_an_attribute(error) && modifiers_are_refused(column, probe, cpu)) {
		reason_set(&why, 0,
			   "PMU '%s' can't leave out what the modifiers ask it to (%s): count the event without them",
			   column->event->pmu, strerrorname_np(-error));
		return column_set_state(column, EVENT_UNSUPPORTED, why.text);
	}
	state = perf_open_explain(error, column->event, probe->scope, cpu, probe->privilege, &why);
	return column_set_state(column, state, why.text);
}

/* All cgroups can go, and with them all open events of that number: the kernel could then give the number to
 * another. So one stays open. */
static int retain_column(struct column *column, const struct engine_probe *probe, int cpu)
{
	_cleanup_(freep) char *why = NULL;
	int fd = open_with(column, &column->attr, probe, cpu);

	column->retained_fd = fd < 0 ? -1 : fd;
	if (asprintf(&why, "counted on as it was found before, for now: %s", column->event->why_absent) < 0) {
		why = NULL;
		return -ENOMEM;
	}
	return column_set_state(column, EVENT_OK, why);
}

/* The hardware event that leads the set which the column is going to be in; NULL: none yet. */
static const struct column *find_leader(const struct scope_plan *plan, const struct column *column,
					const struct engine_probe *probe)
{
	for (size_t i = 0; i < plan->nr_sets; i++) {
		const struct column *leader = &plan->columns[plan->sets[i].columns[0]];

		if (plan->sets[i].engine == probe->engine && leader->group == column->group && !column->group->alone &&
		    !leader->event->software && strcmp(leader->event->pmu, column->event->pmu) == 0)
			return leader;
	}
	return NULL;
}

static bool opens_as_member(const struct scope_plan *plan, const struct column *column,
			    const struct engine_probe *probe, int cpu)
{
	const struct column *leader = find_leader(plan, column, probe);
	struct perf_event_attr attr = column->attr;
	int leader_fd, fd = -1;

	if (!leader)
		return false;
	attr.pinned = attr.exclusive = 0; /* a leader's */
	leader_fd = open_with(leader, &leader->attr, probe, cpu);
	if (leader_fd >= 0)
		fd = try_open(probe, column->event, &attr, cpu, probe->cgroup_fd, leader_fd);
	end_try(probe, column->event, fd);
	end_try(probe, leader->event, leader_fd);
	return fd >= 0;
}

/* Opened in a cgroup: an event that is cpu-clock, or needs one beside it, as what can be multiplexed does
 * (run-clock.h). One that is credited to cgroups is the CPU's, and never leaves it. */
static int check_clock(struct column *column, const struct engine_probe *probe)
{
	const struct perf_event_attr *attr = &column->event->attr;
	bool is_clock = attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_CPU_CLOCK;
	struct reason why;

	if (probe->cgroup_fd < 0 || (column->event->software && !is_clock) || !clock_test_loses())
		return 0;
	reason_set(&why, 0,
		   "this kernel loses what cpu-clock has counted when a cgroup leaves a CPU (as Linux 6.16 and 6.17 "
		   "do)%s: %s[cgroup] engine = bpf",
		   is_clock ? "" : ", and without it the time that the event is counted is not known",
		   is_clock ? "count task-clock, or use " : "use ");
	return column_set_state(column, EVENT_UNSUPPORTED, why.text);
}

int probe_column(struct scope_plan *plan, size_t at, const struct engine_probe *probe)
{
	struct column *column = &plan->columns[at];
	const struct event *event = column->event;
	const struct column *counting = find_counting(column, probe);
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	int fd;

	if (cpulist_of_event(&cpus, event, probe->cpus) < 0)
		return -ENOMEM;
	if (counting) {
		column->attr = counting->attr;
		return event->retained ? retain_column(column, probe, cpus.cpu[0]) : tell_concessions(column);
	}
	fd = open_column(column, probe, cpus.cpu[0]);
	if (fd == -EINVAL && opens_as_member(plan, column, probe, cpus.cpu[0]))
		return check_clock(column, probe);
	end_try(probe, event, fd);
	if (fd < 0)
		return explain_column(column, probe, cpus.cpu[0], fd);
	if (tell_concessions(column) < 0)
		return -ENOMEM;
	return check_clock(column, probe);
}

/* --- sets */

/* Each member has been tried by itself, or is counted, so its tracepoint is open elsewhere and quick to close. Files
 * of probes are always slow. */
static void end_members(const struct scope_plan *plan, const struct set *set, const struct engine_probe *probe,
			const int *fds, size_t nr)
{
	while (nr-- > 0) {
		const struct event *event = plan->columns[set->columns[nr]].event;

		if (event->probe)
			end_try(probe, event, fds[nr]);
		else
			safe_close(fds[nr]);
	}
}

/* Opens the set's first nr members on its first CPU; returns how many it took, with the error of the next. */
static size_t open_members(const struct scope_plan *plan, const struct set *set, const struct engine_probe *probe,
			   size_t nr, int cgroup_fd, bool pinned, int *fds, int *error)
{
	*error = 0;
	for (size_t i = 0; i < nr; i++) {
		struct perf_event_attr attr = set_attr(plan, set, i);

		if (pinned && i == 0)
			attr.pinned = 1;
		fds[i] = try_open(probe, plan->columns[set->columns[i]].event, &attr, set->cpus.cpu[0], cgroup_fd,
				  i ? fds[0] : -1);
		if (fds[i] < 0) {
			*error = fds[i];
			return i;
		}
	}
	return nr;
}

/* Does the PMU run them all at once, beside the pinned sets? True too where that can't be found out. The caller
 * closes the fds, which are open and count. */
static bool runs_at_once(const struct scope_plan *plan, const struct set *set, const struct engine_probe *probe,
			 size_t nr, int *fds, size_t *opened)
{
	int error;

	*opened = open_members(plan, set, probe, nr, -1, true, fds, &error);
	return *opened < nr || perf_enable_group(fds[0]) < 0 || !perf_is_in_error(fds[0]);
}

static bool fits_at_once(const struct scope_plan *plan, const struct set *set, const struct engine_probe *probe,
			 size_t nr, int *fds)
{
	size_t opened;
	bool runs = runs_at_once(plan, set, probe, nr, fds, &opened);

	end_members(plan, set, probe, fds, opened);
	return runs;
}

/* How many of the first nr members the PMU runs at once; nr where it does not even run the leader: then others have
 * the PMU, and splitting would not help. A group that runs does so with fewer members too, so that halving finds the
 * number. */
static size_t find_fit(const struct scope_plan *plan, const struct set *set, const struct engine_probe *probe,
		       size_t nr, int *fds)
{
	size_t fits = 0, too_many = nr;

	if (nr == 0 || fits_at_once(plan, set, probe, nr, fds))
		return nr;
	while (too_many - fits > 1) {
		size_t middle = fits + (too_many - fits) / 2;

		if (fits_at_once(plan, set, probe, middle, fds))
			fits = middle;
		else
			too_many = middle;
	}
	return fits > 0 ? fits : nr;
}

static int set_states(struct scope_plan *plan, const struct set *set, enum event_state state, const struct reason *why,
		      bool may_recover)
{
	for (size_t i = 0; i < set->nr; i++) {
		struct column *column = &plan->columns[set->columns[i]];

		column->may_recover = may_recover;
		if (column_set_state(column, state, why->text) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int set_explain_refused(struct scope_plan *plan, const struct set *set, size_t before, int error,
			       const struct engine_probe *probe)
{
	bool too_large = before > 0 && (error == -EINVAL || error == -ENOSPC);
	const struct column *refused = &plan->columns[set->columns[before]];
	enum event_state state = EVENT_NEVER_SCHEDULED;
	struct reason why;

	if (too_large) {
		reason_set(&why, 0,
			   "group '%s' does not fit the PMU: the kernel refuses '%s' beside the %zu before it (%s); "
			   "make the group smaller%s",
			   set->group->name, refused->event->text, before, strerrorname_np(-error),
			   set->group->split ? "" : ", or set split = yes");
	} else {
		state = perf_open_explain(error, refused->event, probe->scope, set->cpus.cpu[0], probe->privilege,
					  &why);
		reason_prefix(&why, 0, "'%s' in group '%s'", refused->event->text, set->group->name);
	}
	return set_states(plan, set, state, &why, perf_open_may_recover(error));
}

/* Where not all counters of its PMU count: how many of the set's members, from its first on, have one, beside those
 * that pinned sets hold. */
static size_t find_usable(const struct scope_plan *plan, const struct set *set, const struct engine_probe *probe,
			  const struct pmu_counters **ret_lying)
{
	size_t nr_hardware = 0;

	for (size_t i = 0; i < set->nr; i++) {
		const struct event *event = plan->columns[set->columns[i]].event;

		if (event->software)
			continue;
		*ret_lying = pmu_counters_find_lying(probe->pmus, event->pmu);
		if (*ret_lying && ++nr_hardware + (set->pinned ? 0 : (*ret_lying)->pinned) > (*ret_lying)->usable)
			return i;
	}
	return set->nr;
}

/* Opened, it would show a 0 for an event that does happen. */
static int explain_unusable(struct scope_plan *plan, const struct set *set, const struct pmu_counters *lying)
{
	struct reason why;

	reason_set(
		&why, 0,
		"group '%s' does not fit the PMU: of the %u counters of PMU '%s' only %u count at once, as a test has "
		"shown%s: make it smaller%s",
		set->group->name, lying->advertised, lying->pmu, lying->usable,
		lying->pinned && !set->pinned ? ", and pinned events hold some of those" : "",
		set->pinned || set->exclusive || set->group->split ? "" : ", or set split = yes");
	return set_states(plan, set, EVENT_NEVER_SCHEDULED, &why, false);
}

/* Kept open, it would only take its turns from other groups. */
static int explain_never_run(struct scope_plan *plan, const struct set *set, size_t fits)
{
	struct reason why;

	reason_set(&why, 0,
		   "group '%s' does not fit the PMU, which now runs the first %zu of its %zu events at once: make it "
		   "smaller, set split = yes, or reload when there is more room",
		   set->group->name, fits, set->nr);
	return set_states(plan, set, EVENT_NEVER_SCHEDULED, &why, false);
}

/* Is an equal set open already? */
static bool set_is_counting(const struct scope_plan *plan, const struct set *set, const struct engine_probe *probe)
{
	size_t at = probe->counting ? set_find_equal(plan, set, probe->counting) : NO_SET;

	return probe->counting && set_is_open(probe->counting, at) && probe->counting->sets[at].engine == probe->engine;
}

/* Opens the set's members as they will be. Returns how many can be opened together: all where the set is open. */
static size_t try_members(const struct scope_plan *plan, const struct set *set, const struct engine_probe *probe,
			  int *fds, int *error)
{
	size_t opened;

	*error = 0;
	if (set_is_counting(plan, set, probe))
		return set->nr;
	opened = open_members(plan, set, probe, set->nr, probe->cgroup_fd, false, fds, error);
	end_members(plan, set, probe, fds, opened);
	return opened;
}

int probe_set(struct scope_plan *plan, size_t at, const struct engine_probe *probe, size_t *ret)
{
	const struct set *set = &plan->sets[at];
	const struct pmu_counters *lying = NULL;
	/* Pinned and exclusive are all or nothing, in their own words. */
	bool whole = set->pinned || set->exclusive, may_split = set->group->split && !whole;
	_cleanup_(freep) int *fds = calloc(set->nr, sizeof(*fds));
	size_t opened, usable, fits;
	int error;

	if (!fds)
		return -ENOMEM;
	*ret = set->nr;
	usable = find_usable(plan, set, probe, &lying);
	/* Events of the software context join any group. */
	if (set->exact || (set->nr < 2 && usable == set->nr))
		return 0;

	*ret = 0;
	opened = try_members(plan, set, probe, fds, &error);
	if (error && (!may_split || opened == 0 || (error != -EINVAL && error != -ENOSPC)))
		return set_explain_refused(plan, set, opened, error, probe);
	if (usable < set->nr && (!may_split || usable == 0))
		return explain_unusable(plan, set, lying);
	/* Also of a group that is open already: it may never have run. */
	fits = opened < usable ? opened : usable;
	if (!whole)
		fits = find_fit(plan, set, probe, fits, fds);
	if (fits == set->nr || may_split) {
		*ret = fits;
		return 0;
	}
	return explain_never_run(plan, set, fits);
}

int probe_open_set(const struct scope_plan *plan, size_t at, const struct engine_probe *probe, struct tried *tried)
{
	const struct set *set = &plan->sets[at];
	int *fds = reallocarray(tried->fds, tried->nr + set->nr, sizeof(*fds));
	size_t opened;

	if (!fds)
		return -ENOMEM;
	tried->fds = fds;
	(void)runs_at_once(plan, set, probe, set->nr, fds + tried->nr, &opened);
	tried->nr += opened;
	return 0;
}

bool probe_recovers(const struct column *column, const struct engine_probe *probe)
{
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	_cleanup_(closep) int fd = -1;

	if (cpulist_of_event(&cpus, column->event, probe->cpus) < 0 || cpus.nr == 0)
		return false;
	fd = open_with(column, &column->attr, probe, cpus.cpu[0]);
	return fd >= 0;
}
