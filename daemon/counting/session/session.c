/* SPDX-License-Identifier: MIT */

#include "counting/session/session.h"

#include "base/util/clock.h"
#include "counting/engine/perf/perf.h"
#include "counting/plan/build.h"
#include "counting/session/gaps.h"
#include "counting/session/measured.h"
#include "counting/session/retain.h"
#include "counting/session/session-image.h"
#include "counting/session/session-internal.h"
#include "counting/totals/reload.h"
#include "counting/totals/tick.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* In an interval that is longer than this, sets are judged so often, at readings within it. */
#define JUDGE_NS 1000000000U

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

int session_find_lost(const struct session *session, struct cpulist *ret)
{
	return cpus_find_lost(&session->canaries, &session->engines, &session->cpus, ret);
}

size_t session_nr_fds(const struct session *session)
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
	r = session_nr_fds(from) ? session_find_lost(from, &session->lost) : 0;
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
	totals_suspend(session->totals);
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
	gaps_note_opened(session->totals, &session->cpus, &from->cpus, &session->lost);
	decide_rows(session->totals, &session->engines, &session->cpus, session->options.excluded);
	/* New events have not been read yet, and cells whose events are closed still look measured. */
	read_all(session);
	session->judged = session->last_tick = session->last_read;
	return r;
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
	stored_pool_forget_missed(stored);
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
		.fds = session_nr_fds(session),
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
