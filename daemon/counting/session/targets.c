/* SPDX-License-Identifier: MIT */

/* CPUs and cgroups of a session, as the world finds them, and the files that there are for them. */

#include "counting/session/session.h"

#include "base/util/clock.h"
#include "counting/session/session-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* --- room */

/* The open files of the process, and those that are left to other use. In a takeover, files that are still being
 * closed do not count: sets that continue would have to give way to them for good. */
static uint64_t nr_taken_fds(const struct session *session)
{
	size_t others = session->from ? session_nr_fds(session->from) : async_close_pending(session->options.closer);

	return session_nr_fds(session) + plan_nr_retained(session->plan) + others + session->options.fd_reserve;
}

/* A target that needs no more files continues, however low the limit has become. */
static bool has_room(const struct session *session, size_t fds)
{
	return fds == 0 || nr_taken_fds(session) + fds <= session->privilege->fd_limit;
}

bool session_has_room_for_cpus(const struct session *session)
{
	size_t fds = 0;

	for (size_t i = 0; i < session->cpus.nr; i++)
		fds += engines_fds_needed(&session->engines, SCOPE_CPU, (uint64_t)session->cpus.cpu[i]);
	return nr_taken_fds(session) + fds <= session->privilege->fd_limit;
}

size_t session_fds_of_cpus(const struct session *session)
{
	return engines_room(&session->engines).fds_of_cpus;
}

size_t session_fds_per_cgroup(const struct session *session)
{
	return engines_room(&session->engines).fds_per_cgroup;
}

size_t session_room(const struct session *session)
{
	uint64_t limit = session->privilege->fd_limit, taken = nr_taken_fds(session), max = session->options.cgroup_max;
	const struct engine_room room = engines_room(&session->engines);
	size_t cgroups = max > session->nr_cgroups ? (size_t)(max - session->nr_cgroups) : 0;
	uint64_t by_fds = limit > taken ? limit - taken : 0;

	if (room.fds_per_cgroup)
		cgroups = by_fds / room.fds_per_cgroup < cgroups ? (size_t)(by_fds / room.fds_per_cgroup) : cgroups;
	return room.cgroups < cgroups ? room.cgroups : cgroups;
}

/* Closes the events that were opened to try them where counting needs their files. */
static void make_room(struct session *session, size_t fds)
{
	size_t others = session->from ? async_close_pending(session->options.closer) : 0;
	size_t tried = session->plan->tried.nr, needed = nr_taken_fds(session) + others + tried + fds;

	if (fds > 0 && tried > 0 && needed > session->privilege->fd_limit)
		plan_end_tries(session->plan, NULL);
}

void session_end_tries(struct session *session)
{
	plan_end_tries(session->plan, session->options.closer);
}

/* --- CPUs */

/* The closer pauses while many events are opened: each would have to wait for it (async-close.h). */
static void pause_closer(struct session *session, enum scope scope)
{
	if (plan_is_slow_to_close(&session->plan->scope[scope]))
		async_close_pause(session->options.closer);
}

static void resume_closer(struct session *session, enum scope scope)
{
	if (plan_is_slow_to_close(&session->plan->scope[scope]))
		async_close_resume(session->options.closer);
}

static void say_no_room(const struct session *session, size_t fds, struct reason *why)
{
	reason_set(why, 0,
		   "it needs %zu more file descriptors; %zu are open for counting, of a limit of %" PRIu64
		   " that keeps %" PRIu64 " for other use (raise LimitNOFILE=, or count fewer events or cgroups)",
		   fds, session_nr_fds(session), session->privilege->fd_limit, session->options.fd_reserve);
}

/* A CPU that can't be opened for want of fds loses its sets, and their states say so. */
static void cpu_left_out(struct session *session, int cpu, const struct reason *why)
{
	const struct scope_plan *plan = &session->plan->scope[SCOPE_CPU];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct reason *lasting = &session->engines.health[SCOPE_CPU][i].lasting;

		if (cpulist_has(&plan->sets[i].cpus, cpu) && !lasting->text[0])
			reason_set(lasting, 0, "CPU %d is not counted: %s", cpu, why->text);
	}
}

/* Opens the CPU's sets, or those that are not open yet. */
static int add_cpu(struct session *session, int cpu)
{
	const struct cpulist only = { .cpu = &cpu, .nr = 1 };
	const struct engine_target target = {
		.scope = SCOPE_CPU,
		.id = (uint64_t)cpu,
		.label = "",
		.cgroup_fd = -1,
		.idles = true,
	};
	size_t fds = engines_fds_needed(&session->engines, SCOPE_CPU, (uint64_t)cpu);
	bool had = engines_have(&session->engines, SCOPE_CPU, (uint64_t)cpu);
	struct reason why = {};
	struct totals_row *row = NULL;
	int r;

	make_room(session, fds);
	if (!has_room(session, fds)) {
		say_no_room(session, fds, &why);
		cpu_left_out(session, cpu, &why);
		return 0;
	}
	r = totals_take(session->totals, SCOPE_CPU, cpu, NULL, &row);
	if (r < 0)
		reason_set(&why, r, "out of memory");
	else
		r = engines_add(&session->engines, &target, &only, &row, clock_monotonic_ns(), &why);
	if (r < 0) {
		if (row && totals_row_is_empty(session->totals, row))
			totals_drop(session->totals, row);
		cpu_left_out(session, cpu, &why);
		return r == -ENOMEM ? r : 0;
	}
	session->nr_cpus += !had;
	return 0;
}

/* Whether a CPU goes offline is of interest where cgroups are counted: CPUs' own events tell it themselves. */
static void open_canaries(struct session *session)
{
	if (session->plan->scope[SCOPE_CGROUP].nr_sets > 0)
		cpu_canaries_cover(&session->canaries, &session->cpus, &session->engines, clock_monotonic_ns());
}

int session_add_cpus(struct session *session)
{
	int r = 0;

	pause_closer(session, SCOPE_CPU);
	/* One that has failed keeps none of the others from going on. */
	for (size_t i = 0; i < session->cpus.nr && session->plan->scope[SCOPE_CPU].nr_sets > 0; i++)
		if (add_cpu(session, session->cpus.cpu[i]) < 0)
			r = -ENOMEM;
	resume_closer(session, SCOPE_CPU);
	open_canaries(session);
	return r;
}

void session_mend_cpus(struct session *session)
{
	const struct scope_plan *plan = &session->plan->scope[SCOPE_CPU];
	bool broken = false;

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct set_health *health = &session->engines.health[SCOPE_CPU][i];

		broken |= health->lasting.text[0] != '\0';
		health->lasting.text[0] = '\0';
	}
	/* Sets that still fail say so anew, also for want of memory. */
	if (broken)
		(void)session_add_cpus(session);
	else
		open_canaries(session);
}

/* --- cgroups */

/* Row number i of the cgroup; false after the last. */
static bool nth_row(const struct session *session, size_t i, const struct cgroup *cgroup, struct totals_row **ret)
{
	bool per_cpu = session->options.cgroup_per_cpu;
	int cpu;

	if (i >= (per_cpu ? session->known_cpus.nr : 1))
		return false;
	cpu = per_cpu ? session->known_cpus.cpu[i] : ROW_ALL_CPUS;
	*ret = totals_find(session->totals, cpu, cgroup->identity);
	return true;
}

/* Ends the cgroup's rows. linger: rows that hold anything linger. */
static void end_cgroup_rows(struct session *session, const struct cgroup *cgroup, bool linger, uint64_t now)
{
	struct totals_row *row;

	for (size_t i = 0; nth_row(session, i, cgroup, &row); i++) {
		if (!row || row->identity->id != cgroup->identity->id)
			continue;
		if (linger && session->options.linger > 0 && !totals_row_is_empty(session->totals, row))
			totals_retire(session->totals, row, row->identity, now);
		else
			totals_drop(session->totals, row);
	}
}

static int take_cgroup_rows(struct session *session, const struct cgroup *cgroup)
{
	for (size_t i = 0; i < session->cpus.nr; i++) {
		int cpu = session->options.cgroup_per_cpu ? session->cpus.cpu[i] : ROW_ALL_CPUS;
		int r;

		if (i > 0 && !session->options.cgroup_per_cpu) {
			session->rows[i] = session->rows[0];
			continue;
		}
		r = totals_take(session->totals, SCOPE_CGROUP, cpu, cgroup->identity, &session->rows[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

bool session_is_counted(const struct session *session, const struct cgroup_identity *identity)
{
	return engines_have(&session->engines, SCOPE_CGROUP, identity->id);
}

/* Is anything of the cgroup open, here or in the predecessor? */
static bool is_open_already(const struct session *session, const struct cgroup *cgroup)
{
	return session_is_counted(session, cgroup->identity) ||
	       (session->from && session_is_counted(session->from, cgroup->identity));
}

static int open_cgroup(struct session *session, const struct cgroup_tree *tree, const struct cgroup *cgroup,
		       struct reason *why)
{
	bool root = cgroup->identity->id == CGROUP_ROOT_ID;
	_cleanup_(closep) int fd = root ? -1 : cgroup_open(tree, cgroup);
	const struct engine_target target = {
		.scope = SCOPE_CGROUP,
		.id = cgroup->identity->id,
		.label = cgroup->identity->label,
		.depth = cgroup->depth,
		.ancestors = cgroup_ancestors(cgroup),
		.cgroup_fd = fd,
		.idles = root,
	};

	/* The owner can close the directory (chmod) at any time; events that are open count on all the same. */
	if (!root && (fd == -ENOENT || (fd < 0 && !is_open_already(session, cgroup))))
		return reason_set(why, fd, "its directory can't be opened: %s", strerror(-fd));
	if (take_cgroup_rows(session, cgroup) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	return engines_add(&session->engines, &target, &session->cpus, session->rows, clock_monotonic_ns(), why);
}

/* The kernel says ENOENT for a cgroup that is gone, and for one that perf does not know of. */
static bool cgroup_is_gone(const struct cgroup_tree *tree, const struct cgroup *cgroup)
{
	int fd = cgroup_open(tree, cgroup);

	safe_close(fd);
	return fd == -ENOENT;
}

/* The status of a new cgroup that could not be opened. */
static int cgroup_failed(struct session *session, const struct cgroup_tree *tree, const struct cgroup *cgroup,
			 int error, struct reason *why)
{
	/* Rows of an earlier cgroup of that label may have been taken up again: they linger on. */
	end_cgroup_rows(session, cgroup, true, clock_monotonic_ns());
	switch (error) {
	case -ENOMEM:
		return reason_set(why, error, "out of memory");
	case -EMFILE:
	case -ENFILE:
		return CGROUP_OVER_FDS;
	case -ENOENT:
		/* Also while it is being removed: the kernel forgets the cgroup before the directory. */
		if (cgroup_is_gone(tree, cgroup))
			return reason_set(why, error, "it was removed before it could be opened");
		return reason_set(why, CGROUP_FAILED,
				  "the kernel has no perf accounting for it (ENOENT): on a cgroup2 mount without any "
				  "controller in use, enable one in the root's cgroup.subtree_control");
	default:
		return CGROUP_FAILED;
	}
}

bool session_has_cgroup(const struct session *session, const struct cgroup *cgroup)
{
	int cpu = session->options.cgroup_per_cpu && session->cpus.nr > 0 ? session->cpus.cpu[0] : ROW_ALL_CPUS;
	const struct totals_row *row;

	if (!session_is_counted(session, cgroup->identity))
		return false;
	row = totals_find(session->totals, cpu, cgroup->identity);
	return row && row->identity->id == cgroup->identity->id;
}

int session_add_cgroup(struct session *session, const struct cgroup_tree *tree, const struct cgroup *cgroup,
		       struct reason *why)
{
	size_t fds = engines_fds_needed(&session->engines, SCOPE_CGROUP, cgroup->identity->id);
	bool had = session_has_cgroup(session, cgroup);
	int r;

	totals_expire(session->totals, clock_monotonic_ns(), session->options.linger);
	if (session->plan->scope[SCOPE_CGROUP].nr_sets == 0)
		return reason_set(why, CGROUP_FAILED, "no configured event can be counted per cgroup here");
	if (!had && session_is_counted(session, cgroup->identity))
		return reason_set(why, CGROUP_FAILED, "it is the same cgroup as another path shows, and counted there");
	if (!had && session->nr_cgroups >= session->options.cgroup_max)
		return reason_set(why, CGROUP_OVER_MAX, "%" PRIu64 " cgroups are counted already: raise [cgroup] max",
				  session->options.cgroup_max);
	if (!had && engines_room(&session->engines).cgroups == 0)
		return reason_set(why, CGROUP_OVER_MAX, "the engine (%s) has no room for more cgroups",
				  session->engines.name);
	make_room(session, fds);
	if (!has_room(session, fds)) {
		say_no_room(session, fds, why);
		if (had)
			engines_note_lack(&session->engines, why);
		return had ? CGROUP_COUNTED : CGROUP_OVER_FDS;
	}

	pause_closer(session, SCOPE_CGROUP);
	r = open_cgroup(session, tree, cgroup, why);
	resume_closer(session, SCOPE_CGROUP);
	if (r < 0 && !had)
		return cgroup_failed(session, tree, cgroup, r, why);
	session->nr_cgroups += !had;
	/* Everything is open for this cgroup, so the tried tracepoints are quick to close: they are open elsewhere. */
	if (!why->text[0])
		session_end_tries(session);
	return CGROUP_COUNTED;
}

uint64_t session_cgroup_time(const struct session *session, const struct cgroup *cgroup)
{
	const struct scope_plan *plan = &session->plan->scope[SCOPE_CGROUP];
	uint64_t time = 0;
	struct totals_row *row;

	for (size_t i = 0; nth_row(session, i, cgroup, &row); i++)
		for (size_t k = 0; row && k < plan->nr_sets; k++)
			time += row->times[k].enabled;
	return time;
}

void session_remove_cgroup(struct session *session, const struct cgroup *cgroup, bool linger)
{
	uint64_t now = clock_monotonic_ns();

	if (!session_has_cgroup(session, cgroup))
		return;
	/* They are not pushed out by this one. */
	totals_expire(session->totals, now, session->options.linger);
	engines_remove(&session->engines, SCOPE_CGROUP, cgroup->identity->id, now);
	session->nr_cgroups--;
	end_cgroup_rows(session, cgroup, linger, now);
}
