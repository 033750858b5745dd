/* SPDX-License-Identifier: MIT */

#include "counting/session/session.h"

#include "base/util/clock.h"
#include "counting/engine/perf/perf.h"
#include "counting/plan/build.h"
#include "counting/session/cpu-canary.h"
#include "counting/session/engines.h"
#include "counting/session/gaps.h"
#include "counting/session/measured.h"
#include "counting/session/retain.h"
#include "counting/session/session-image.h"
#include "counting/session/states.h"
#include "counting/totals/reload.h"
#include "counting/totals/tick.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* In an interval that is longer than this, sets are judged so often, at readings within it. */
#define JUDGE_NS 1000000000U

struct session {
	struct plan *plan;
	struct totals *totals;
	struct engines engines;
	const struct privilege *privilege;
	struct cpulist cpus;	      /* that are counted */
	struct cpulist known_cpus;    /* with those that were, and are offline now: their rows are kept */
	struct cpu_topology topology; /* of an image, where it was restored */
	struct cpulist lost;	      /* in a takeover: CPUs on which the predecessor counts no more */
	const struct cpulist *online; /* session_note_online(), or NULL */
	struct cpu_canaries canaries; /* of those of the cpus that need one */
	struct session_options options;
	struct states *states;
	struct totals_row **rows; /* scratch: a row a CPU */
	size_t nr_cgroups, nr_cpus;
	uint64_t reads, read_ns, last_read;
	/* CLOCK_MONOTONIC ns: when sets were judged, when the last interval ended, session_sampled(). */
	uint64_t judged, last_tick, sampled;
	struct engine_stats inherited; /* errors counted by the engines before this one */
	const struct session *from;    /* in a takeover: the predecessor */
};

struct session *session_free(struct session *session)
{
	if (!session)
		return NULL;
	if (session->plan) {
		plan_end_tries(session->plan, session->options.closer);
		plan_let_go(session->plan, session->options.closer);
	}
	engines_release(&session->engines);
	totals_free(session->totals);
	states_free(session->states);
	plan_unref(session->plan);
	cpulist_release(&session->cpus);
	cpulist_release(&session->known_cpus);
	cpulist_release(&session->lost);
	cpu_topology_release(&session->topology);
	cpu_canaries_release(&session->canaries);
	free(session->rows);
	free(session);
	return NULL;
}

int session_new(struct session **ret, struct plan *plan, const struct cpulist *cpus, const struct privilege *privilege,
		const struct session_options *options)
{
	_cleanup_(session_freep) struct session *session = calloc(1, sizeof(*session));
	const struct engine_env surroundings = {
		.privilege = privilege,
		.closer = options->closer,
		.max_cgroups = options->cgroup_max,
		.switch_budget = (unsigned)options->switch_budget,
		.sysroot = options->sysroot,
	};

	if (!session)
		return -ENOMEM;
	session->plan = plan_ref(plan);
	session->privilege = privilege;
	session->options = *options;
	session->rows = calloc(cpus->nr + 1, sizeof(struct totals_row *));
	if (!session->rows || cpu_canaries_new(&session->canaries, cpus->nr) < 0 ||
	    cpulist_copy(&session->cpus, cpus) < 0 || cpulist_copy(&session->known_cpus, cpus) < 0 ||
	    totals_new(&session->totals, plan, options->cgroup_max) < 0 || states_new(&session->states, plan) < 0 ||
	    engines_new(&session->engines, plan, &surroundings) < 0)
		return -ENOMEM;

	*ret = steal_ptr(session);
	return 0;
}

/* --- CPUs that come and go */

static bool is_excluded(const struct session *session, int cpu)
{
	return session->options.excluded && cpulist_has(session->options.excluded, cpu);
}

/* Whether a CPU goes offline is of interest where cgroups are counted: CPUs' own events tell it themselves. */
static void open_canaries(struct session *session)
{
	if (session->plan->scope[SCOPE_CGROUP].nr_sets > 0)
		cpu_canaries_cover(&session->canaries, &session->cpus, &session->engines, clock_monotonic_ns());
}

int session_find_lost(const struct session *session, struct cpulist *ret)
{
	return cpus_find_lost(&session->canaries, &session->engines, &session->cpus, ret);
}

static size_t nr_fds(const struct session *session)
{
	return engines_stats(&session->engines).fds + cpu_canaries_nr_open(&session->canaries);
}

/* --- one session after another */

void session_retain_events(const struct session *session, struct group_list groups[static _SCOPE_MAX])
{
	retain_events(&session->engines, groups);
}

static void read_all(struct session *session)
{
	uint64_t now = clock_monotonic_ns();

	/* Rows that have lingered long enough go before anybody sees them, also where ticks are rare. */
	totals_expire(session->totals, now, session->options.linger);
	engines_read(&session->engines, now);
	cpu_canaries_check(&session->canaries, clock_monotonic_ns());
	session->last_read = now;
	session->read_ns += clock_monotonic_ns() - now;
	session->reads++;
}

int session_takeover_begin(struct session *session, struct session *from)
{
	int r;

	assert(from != session && !session->from);
	/* Readings show which CPUs have been offline. */
	read_all(from);
	/* Where nothing is open any more, as after a stop, there is nothing that going offline could have ended. */
	r = nr_fds(from) ? session_find_lost(from, &session->lost) : 0;
	/* A new canary could not tell whether the CPU has been offline since the events that are handed over were
	 * opened. */
	if (session->plan->scope[SCOPE_CGROUP].nr_sets > 0)
		cpu_canaries_move(&session->canaries, &from->canaries, &session->cpus);
	for (size_t i = 0; i < from->known_cpus.nr && r == 0; i++)
		if (!is_excluded(session, from->known_cpus.cpu[i]))
			r = cpulist_add(&session->known_cpus, from->known_cpus.cpu[i]);
	engines_takeover_begin(&session->engines, &from->engines, &session->lost);
	session->from = from;
	return r;
}

void session_suspend_cgroups(struct session *session, struct session *from)
{
	const struct totals_row *row;
	uint64_t now;

	/* The root cgroup is fed by the CPUs' readings alone. */
	read_all(from);
	now = clock_monotonic_ns();
	session->totals->suspends = true;
	TAILQ_FOREACH(row, &from->totals->rows[SCOPE_CGROUP], in_totals)
		if (!row->gone_at && engines_have(&from->engines, SCOPE_CGROUP, row->identity->id))
			engines_remove(&from->engines, SCOPE_CGROUP, row->identity->id, now);
}

const struct cpulist *session_lost(const struct session *session)
{
	return &session->lost;
}

void session_defer(struct session *session)
{
	engines_defer(&session->engines, true);
}

int session_takeover_end(struct session *session, struct session *from)
{
	uint64_t now = clock_monotonic_ns();
	struct session_stats old;
	int r;

	engines_defer(&session->engines, false);
	engines_takeover_end(&session->engines);
	engines_finish(&from->engines, now);
	old = session_stats(from);
	totals_expire(from->totals, now, session->options.linger);
	session->from = NULL;
	session->reads = old.reads;
	session->read_ns = old.read_ns;
	session->last_read = old.last_read;
	session->inherited.read_errors = old.read_errors;
	/* Canaries that have not moved are closed with it. */
	session->inherited.changes = old.changes + cpu_canaries_nr_open(&from->canaries);
	session->inherited.backwards = old.backwards;
	memcpy(session->inherited.lies, old.lies, sizeof(old.lies));
	states_carry(session->states, from->states);
	r = totals_carry(session->totals, from->totals, session->options.cgroup_per_cpu, &session->cpus, now);
	session->totals->suspends = false;
	gaps_note_opened(session->totals, &session->cpus, &from->cpus, &session->lost);
	decide_rows(session->totals, &session->engines, &session->cpus, session->options.excluded);
	/* New events have not been read yet, and cells whose events are closed still look measured. */
	read_all(session);
	session->judged = session->last_tick = session->last_read;
	return r;
}

/* --- targets */

/* The open files of the process, and those that are left to other use. In a takeover, files that are still being
 * closed do not count: sets that continue would have to give way to them for good. */
static uint64_t nr_taken_fds(const struct session *session)
{
	size_t others = session->from ? nr_fds(session->from) : async_close_pending(session->options.closer);

	return nr_fds(session) + plan_nr_retained(session->plan) + others + session->options.fd_reserve;
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
		   fds, nr_fds(session), session->privilege->fd_limit, session->options.fd_reserve);
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

/* --- reading */

/* Judges the sets, unless that was done just before: a moment tells no share of time. */
static void judge_sets(struct session *session, uint64_t after)
{
	if (session->last_read - session->judged < after)
		return;
	session->judged = session->last_read;
	engines_count_lacking(&session->engines, session->nr_cgroups);
	states_judge(session->states, session->engines.health);
}

void session_read(struct session *session)
{
	read_all(session);
	judge_sets(session, JUDGE_NS);
}

bool session_is_in_doubt(const struct session *session)
{
	return session->states->in_doubt;
}

void session_note_online(struct session *session, const struct cpulist *online)
{
	session->online = online;
}

void session_tick(struct session *session, const uint64_t *busy)
{
	const struct gaps_cpus cpus = { &session->cpus, session->options.excluded, steal_ptr(session->online) };
	bool between = session->judged != session->last_tick;

	read_all(session);
	judge_sets(session, between ? JUDGE_NS / 2 : 0);
	session->last_tick = session->last_read;
	gaps_note(session->totals, &session->engines, &session->canaries, &cpus);
	totals_tick(session->totals, session->last_read);
	states_update(session->states, session->totals, &session->cpus, busy);
}

/* --- images */

bool session_save(const struct session *session, const char *boot_id, struct rewrite *rewrite)
{
	struct buf *out = &rewrite->buf;
	bool names_engines = session->engines.nr > 1 || session->engines.engines[0]->ops != &engine_perf;

	image_begin(rewrite, boot_id, clock_monotonic_ns(), names_engines);
	pack_u64(out, session->options.cgroup_per_cpu);
	image_put_cpus(out, &session->cpus);
	image_put_cpus(out, &session->known_cpus);
	image_put_topology(out, session_topology(session));
	image_put_plan(out, session->plan);
	if (names_engines)
		image_put_engines(out, &session->engines);
	image_put_totals(rewrite, session->totals);
	image_put_states(out, session->states);
	if (names_engines)
		image_put_parts(rewrite, &session->engines);
	else
		engine_perf.save(session->engines.engines[0], rewrite);
	cpu_canaries_save(&session->canaries, out);
	return image_end(rewrite, session->sampled);
}

/* saved: the engines that the image names, or NULL. */
static int restore_parts(struct session *session, struct unpack *in, const struct image_engines *saved,
			 struct stored_pool *stored)
{
	_cleanup_(freep) struct totals_row **rows = NULL;
	size_t nr_rows;
	int r = image_get_totals(in, session->totals, &rows, &nr_rows);

	if (r == 0)
		r = image_get_states(in, session->states);
	if (r == 0)
		r = saved ? image_get_parts(in, saved, &session->engines, rows, nr_rows, stored) :
			    engine_perf.restore(session->engines.engines[0], in, rows, nr_rows, stored);
	if (r == 0)
		r = cpu_canaries_restore(&session->canaries, in, &session->cpus, &session->engines, stored);
	if (r == 0 && in->left)
		session->sampled = unpack_u64(in);
	return r;
}

static int restore_session(struct session **ret, struct unpack *in, const struct image_info *info,
			   const struct privilege *privilege, struct stored_pool *stored)
{
	struct image_engines engines = {};
	const struct session_options options = {
		.cgroup_per_cpu = unpack_at_most(in, 1),
		.cgroup_max = SIZE_MAX,
		.linger = UINT64_MAX, /* its successor knows how long */
	};
	_cleanup_(cpulist_release) struct cpulist cpus = {}, known = {};
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {};
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	_cleanup_(session_freep) struct session *session = NULL;
	int r = image_get_cpus(in, &cpus);

	if (r == 0)
		r = image_get_cpus(in, &known);
	if (r == 0)
		r = image_get_topology(in, &topology);
	if (r == 0)
		r = image_get_plan(in, &plan);
	if (r == 0 && info->names_engines)
		r = image_get_engines(in, plan, &engines);
	if (r == 0) {
		engine_note_credited(plan);
		r = plan_add_counters(plan);
	}
	if (r == 0)
		r = session_new(&session, plan, &cpus, privilege, &options);
	if (r < 0)
		return r;
	cpulist_release(&session->known_cpus);
	session->known_cpus = steal_struct(known);
	session->topology = steal_struct(topology);
	r = restore_parts(session, in, info->names_engines ? &engines : NULL, stored);
	if (r == 0)
		*ret = steal_ptr(session);
	return r;
}

int session_restore(struct session **ret, const void *bytes, size_t size, const char *boot_id,
		    const struct privilege *privilege, struct stored_pool *stored, struct reason *why)
{
	struct image_info info;
	struct unpack in;
	int r = image_open(&in, bytes, size, boot_id, &info, why);

	if (r < 0)
		return r;
	stored->nr_missed = 0; /* of another image, which came to nothing */
	r = restore_session(ret, &in, &info, privilege, stored);
	if (r < 0)
		return reason_set(why, r, r == -ENOMEM ? "out of memory" : "they make no sense");
	/* Readings show which CPUs have been offline meanwhile. */
	read_all(*ret);
	(*ret)->reads = (*ret)->read_ns = 0;
	return 0;
}

uint64_t session_sampled(const struct session *session)
{
	return session->sampled;
}

void session_set_sampled(struct session *session, uint64_t time)
{
	session->sampled = time;
}

void session_each_stored(const struct session *session, stored_visitor each, void *userdata)
{
	engines_each_stored(&session->engines, each, userdata);
	cpu_canaries_each_stored(&session->canaries, each, userdata);
}

const struct cpulist *session_cpus(const struct session *session)
{
	return &session->cpus;
}

struct plan *session_plan(const struct session *session)
{
	return session->plan;
}

const struct cpu_topology *session_topology(const struct session *session)
{
	return session->options.topology ? session->options.topology : &session->topology;
}

const struct totals *session_totals(const struct session *session)
{
	return session->totals;
}

enum event_state session_column_state(const struct session *session, enum scope scope, size_t column, const char **why)
{
	return states_get(session->states, scope, column, why);
}

bool session_column_is_partial(const struct session *session, enum scope scope, size_t column)
{
	return states_is_partial(session->states, scope, column);
}

struct session_stats session_stats(const struct session *session)
{
	const struct engine_stats stats = engines_stats(&session->engines);
	struct session_stats ret = {
		.reads = session->reads,
		.read_ns = session->read_ns,
		.read_errors = session->inherited.read_errors + stats.read_errors,
		.backwards = session->inherited.backwards + stats.backwards,
		.changes = session->inherited.changes + stats.changes + session->canaries.changes,
		.last_read = session->last_read,
		.fds = nr_fds(session),
		.cpus = session->nr_cpus,
		.canaries = session->canaries.nr,
		.cpus_offline = session->known_cpus.nr - session->cpus.nr,
		.lingering = session->totals->nr_gone,
		.pushed_out = session->totals->pushed_out,
	};
	for (int lie = 0; lie < _LIE_MAX; lie++)
		ret.lies[lie] = session->inherited.lies[lie] + stats.lies[lie];
	ret.lies[LIE_STILL] += session->plan->pmus.still;
	return ret;
}

bool session_switch_cost(const struct session *session, int cpu, struct switch_cost *ret)
{
	return engines_switch_cost(&session->engines, cpu, ret);
}

const struct engine *session_find_engine(const struct session *session, const struct engine_ops *ops)
{
	return engines_find(&session->engines, ops);
}

const char *session_engine_name(const struct session *session)
{
	return session->engines.name;
}
