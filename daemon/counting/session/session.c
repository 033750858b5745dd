/* SPDX-License-Identifier: MIT */

#include "counting/session/session.h"

#include "base/util/clock.h"
#include "counting/engine/perf/perf.h"
#include "counting/plan/build.h"
#include "counting/session/cpu-canary.h"
#include "counting/session/engines.h"
#include "counting/session/gaps.h"
#include "counting/session/keep.h"
#include "counting/session/session-image.h"
#include "counting/session/settle.h"
#include "counting/session/states.h"
#include "counting/totals/reload.h"
#include "counting/totals/tick.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* In an interval that is longer than this, sets are judged so often, at readings within it. */
#define JUDGE_NS 1000000000U

struct count {
	struct plan *plan;
	struct totals *totals;
	struct engines engines;
	const struct privilege *privilege;
	struct cpulist cpus;	      /* that are counted */
	struct cpulist known_cpus;    /* with those that were, and are offline now: their rows are kept */
	struct cpu_topology topology; /* of an image, where it was restored */
	struct cpulist lost;	      /* in a takeover: CPUs on which the predecessor counts no more */
	const struct cpulist *online; /* count_note_online(), or NULL */
	struct cpu_canaries canaries; /* of those of the cpus that need one */
	struct count_options options;
	struct states *states;
	struct totals_row **rows; /* scratch: a row a CPU */
	size_t nr_cgroups, nr_cpus;
	uint64_t reads, read_ns, last_read;
	/* CLOCK_MONOTONIC ns: when sets were judged, when the last interval ended, count_sampled(). */
	uint64_t judged, last_tick, sampled;
	struct engine_stats inherited; /* errors counted by the engines before this one */
	const struct count *from;      /* in a takeover: the predecessor */
};

struct count *count_free(struct count *count)
{
	if (!count)
		return NULL;
	if (count->plan) {
		plan_end_tries(count->plan, count->options.closer);
		plan_let_go(count->plan, count->options.closer);
	}
	engines_release(&count->engines);
	totals_free(count->totals);
	states_free(count->states);
	plan_unref(count->plan);
	cpulist_release(&count->cpus);
	cpulist_release(&count->known_cpus);
	cpulist_release(&count->lost);
	cpu_topology_release(&count->topology);
	cpu_canaries_release(&count->canaries);
	free(count->rows);
	free(count);
	return NULL;
}

int count_new(struct count **ret, struct plan *plan, const struct cpulist *cpus, const struct privilege *privilege,
	      const struct count_options *options)
{
	_cleanup_(count_freep) struct count *count = calloc(1, sizeof(*count));
	const struct engine_env surroundings = {
		.privilege = privilege,
		.closer = options->closer,
		.max_cgroups = options->cgroup_max,
		.switch_budget = (unsigned)options->switch_budget,
		.sysroot = options->sysroot,
	};

	if (!count)
		return -ENOMEM;
	count->plan = plan_ref(plan);
	count->privilege = privilege;
	count->options = *options;
	count->rows = calloc(cpus->nr + 1, sizeof(struct totals_row *));
	if (!count->rows || cpu_canaries_new(&count->canaries, cpus->nr) < 0 || cpulist_copy(&count->cpus, cpus) < 0 ||
	    cpulist_copy(&count->known_cpus, cpus) < 0 || totals_new(&count->totals, plan, options->cgroup_max) < 0 ||
	    states_new(&count->states, plan) < 0 || engines_new(&count->engines, plan, &surroundings) < 0)
		return -ENOMEM;

	*ret = steal_ptr(count);
	return 0;
}

/* --- CPUs that come and go */

static bool is_excluded(const struct count *count, int cpu)
{
	return count->options.excluded && cpulist_has(count->options.excluded, cpu);
}

/* Whether a CPU goes offline is of interest where cgroups are counted: CPUs' own events tell it themselves. */
static void open_canaries(struct count *count)
{
	if (count->plan->scope[SCOPE_CGROUP].nr_sets > 0)
		cpu_canaries_cover(&count->canaries, &count->cpus, &count->engines, clock_monotonic_ns());
}

int count_find_lost(const struct count *count, struct cpulist *ret)
{
	return cpus_find_lost(&count->canaries, &count->engines, &count->cpus, ret);
}

static size_t nr_fds(const struct count *count)
{
	return engines_stats(&count->engines).fds + cpu_canaries_nr_open(&count->canaries);
}

/* --- one count after another */

void count_keep_events(const struct count *count, struct group_list groups[static _SCOPE_MAX])
{
	keep_events(&count->engines, groups);
}

/* Rows that have lingered long enough go before anybody can see them or take them up again, however far apart ticks
 * are. */
static void expire_rows(struct count *count, uint64_t now)
{
	totals_expire(count->totals, now, count->options.linger);
}

static void read_all(struct count *count)
{
	uint64_t now = clock_monotonic_ns();

	expire_rows(count, now);
	engines_read(&count->engines, now);
	cpu_canaries_check(&count->canaries, clock_monotonic_ns());
	count->last_read = now;
	count->read_ns += clock_monotonic_ns() - now;
	count->reads++;
}

int count_takeover_begin(struct count *count, struct count *from)
{
	int r;

	assert(from != count && !count->from);
	/* Readings show which CPUs have been offline. */
	read_all(from);
	/* Where nothing is open any more, as after a stop, there is nothing that going offline could have ended. */
	r = nr_fds(from) ? count_find_lost(from, &count->lost) : 0;
	/* A new canary could not tell whether the CPU has been offline since the events that are handed over were
	 * opened. */
	if (count->plan->scope[SCOPE_CGROUP].nr_sets > 0)
		cpu_canaries_move(&count->canaries, &from->canaries, &count->cpus);
	for (size_t i = 0; i < from->known_cpus.nr && r == 0; i++)
		if (!is_excluded(count, from->known_cpus.cpu[i]))
			r = cpulist_add(&count->known_cpus, from->known_cpus.cpu[i]);
	engines_takeover_begin(&count->engines, &from->engines, &count->lost);
	count->from = from;
	return r;
}

void count_hold_cgroups(struct count *count, struct count *from)
{
	const struct totals_row *row;
	uint64_t now;

	/* The root cgroup is fed by the CPUs' readings alone. */
	read_all(from);
	now = clock_monotonic_ns();
	count->totals->holds = true;
	TAILQ_FOREACH(row, &from->totals->rows[SCOPE_CGROUP], in_totals)
		if (!row->gone_at && engines_have(&from->engines, SCOPE_CGROUP, row->identity->id))
			engines_remove(&from->engines, SCOPE_CGROUP, row->identity->id, now);
}

const struct cpulist *count_lost(const struct count *count)
{
	return &count->lost;
}

void count_defer(struct count *count)
{
	engines_defer(&count->engines, true);
}

int count_takeover_end(struct count *count, struct count *from)
{
	uint64_t now = clock_monotonic_ns();
	struct count_stats old;
	int r;

	engines_defer(&count->engines, false);
	engines_takeover_end(&count->engines);
	engines_finish(&from->engines, now);
	old = count_stats(from);
	totals_expire(from->totals, now, count->options.linger);
	count->from = NULL;
	count->reads = old.reads;
	count->read_ns = old.read_ns;
	count->last_read = old.last_read;
	count->inherited.read_errors = old.read_errors;
	/* Canaries that have not moved are closed with it. */
	count->inherited.changes = old.changes + cpu_canaries_nr_open(&from->canaries);
	count->inherited.backwards = old.backwards;
	memcpy(count->inherited.lies, old.lies, sizeof(old.lies));
	states_carry(count->states, from->states);
	r = totals_carry(count->totals, from->totals, count->options.cgroup_per_cpu, &count->cpus, now);
	count->totals->holds = false;
	gaps_note_opened(count->totals, &count->cpus, &from->cpus, &count->lost);
	settle_rows(count->totals, &count->engines, &count->cpus, count->options.excluded);
	/* New events have not been read yet, and cells whose events are closed still look measured. */
	read_all(count);
	count->judged = count->last_tick = count->last_read;
	return r;
}

/* --- targets */

/* The open files of the process, and those that are left to other use. In a takeover, files that are still being
 * closed do not count: sets that continue would have to give way to them for good. */
static uint64_t nr_taken_fds(const struct count *count)
{
	size_t others = count->from ? nr_fds(count->from) : async_close_pending(count->options.closer);

	return nr_fds(count) + plan_nr_held(count->plan) + others + count->options.fd_reserve;
}

/* A target that needs no more files continues, however low the limit has become. */
static bool has_room(const struct count *count, size_t fds)
{
	return fds == 0 || nr_taken_fds(count) + fds <= count->privilege->fd_limit;
}

bool count_has_room_for_cpus(const struct count *count)
{
	size_t fds = 0;

	for (size_t i = 0; i < count->cpus.nr; i++)
		fds += engines_fds_needed(&count->engines, SCOPE_CPU, (uint64_t)count->cpus.cpu[i]);
	return nr_taken_fds(count) + fds <= count->privilege->fd_limit;
}

size_t count_fds_of_cpus(const struct count *count)
{
	return engines_room(&count->engines).fds_of_cpus;
}

size_t count_fds_per_cgroup(const struct count *count)
{
	return engines_room(&count->engines).fds_per_cgroup;
}

size_t count_room(const struct count *count)
{
	uint64_t limit = count->privilege->fd_limit, taken = nr_taken_fds(count), max = count->options.cgroup_max;
	const struct engine_room room = engines_room(&count->engines);
	size_t cgroups = max > count->nr_cgroups ? (size_t)(max - count->nr_cgroups) : 0;
	uint64_t by_fds = limit > taken ? limit - taken : 0;

	if (room.fds_per_cgroup)
		cgroups = by_fds / room.fds_per_cgroup < cgroups ? (size_t)(by_fds / room.fds_per_cgroup) : cgroups;
	return room.cgroups < cgroups ? room.cgroups : cgroups;
}

/* Closes the events that were opened to try them where counting needs their files. */
static void make_room(struct count *count, size_t fds)
{
	size_t others = count->from ? async_close_pending(count->options.closer) : 0, tried = count->plan->tried.nr;

	if (fds > 0 && tried > 0 && nr_taken_fds(count) + others + tried + fds > count->privilege->fd_limit)
		plan_end_tries(count->plan, NULL);
}

void count_end_tries(struct count *count)
{
	plan_end_tries(count->plan, count->options.closer);
}

/* The closer pauses while many events are opened: each would have to wait for it (async-close.h). */
static void pause_closer(struct count *count, enum scope scope)
{
	if (plan_is_slow_to_close(&count->plan->scope[scope]))
		async_close_pause(count->options.closer);
}

static void resume_closer(struct count *count, enum scope scope)
{
	if (plan_is_slow_to_close(&count->plan->scope[scope]))
		async_close_resume(count->options.closer);
}

static void say_no_room(const struct count *count, size_t fds, struct reason *why)
{
	reason_set(why, 0,
		   "it needs %zu more file descriptors; %zu are open for counting, of a limit of %" PRIu64
		   " that keeps %" PRIu64 " for other use (raise LimitNOFILE=, or count fewer events or cgroups)",
		   fds, nr_fds(count), count->privilege->fd_limit, count->options.fd_reserve);
}

/* A CPU that can't be opened for want of fds loses its sets, and their states say so. */
static void cpu_left_out(struct count *count, int cpu, const struct reason *why)
{
	const struct scope_plan *plan = &count->plan->scope[SCOPE_CPU];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct reason *lasting = &count->engines.health[SCOPE_CPU][i].lasting;

		if (cpulist_has(&plan->sets[i].cpus, cpu) && !lasting->text[0])
			reason_set(lasting, 0, "CPU %d is not counted: %s", cpu, why->text);
	}
}

/* Opens the CPU's sets, or those that are not open yet. */
static int add_cpu(struct count *count, int cpu)
{
	const struct cpulist only = { .cpu = &cpu, .nr = 1 };
	const struct engine_target target = {
		.scope = SCOPE_CPU,
		.id = (uint64_t)cpu,
		.label = "",
		.cgroup_fd = -1,
		.idles = true,
	};
	size_t fds = engines_fds_needed(&count->engines, SCOPE_CPU, (uint64_t)cpu);
	bool had = engines_have(&count->engines, SCOPE_CPU, (uint64_t)cpu);
	struct reason why = {};
	struct totals_row *row = NULL;
	int r;

	make_room(count, fds);
	if (!has_room(count, fds)) {
		say_no_room(count, fds, &why);
		cpu_left_out(count, cpu, &why);
		return 0;
	}
	r = totals_take(count->totals, SCOPE_CPU, cpu, NULL, &row);
	if (r < 0)
		reason_set(&why, r, "out of memory");
	else
		r = engines_add(&count->engines, &target, &only, &row, clock_monotonic_ns(), &why);
	if (r < 0) {
		if (row && totals_row_is_empty(count->totals, row))
			totals_drop(count->totals, row);
		cpu_left_out(count, cpu, &why);
		return r == -ENOMEM ? r : 0;
	}
	count->nr_cpus += !had;
	return 0;
}

int count_add_cpus(struct count *count)
{
	int r = 0;

	pause_closer(count, SCOPE_CPU);
	/* One that has failed keeps none of the others from going on. */
	for (size_t i = 0; i < count->cpus.nr && count->plan->scope[SCOPE_CPU].nr_sets > 0; i++)
		if (add_cpu(count, count->cpus.cpu[i]) < 0)
			r = -ENOMEM;
	resume_closer(count, SCOPE_CPU);
	open_canaries(count);
	return r;
}

void count_mend_cpus(struct count *count)
{
	const struct scope_plan *plan = &count->plan->scope[SCOPE_CPU];
	bool broken = false;

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct set_health *health = &count->engines.health[SCOPE_CPU][i];

		broken |= health->lasting.text[0] != '\0';
		health->lasting.text[0] = '\0';
	}
	/* Sets that still fail say so anew, also for want of memory. */
	if (broken)
		(void)count_add_cpus(count);
	else
		open_canaries(count);
}

/* Row number i of the cgroup; false after the last. */
static bool nth_cgroup_row(const struct count *count, size_t i, const struct cgroup *cgroup, struct totals_row **ret)
{
	size_t nr = count->options.cgroup_per_cpu ? count->known_cpus.nr : 1;
	int cpu;

	if (i >= nr)
		return false;
	cpu = count->options.cgroup_per_cpu ? count->known_cpus.cpu[i] : ROW_ALL_CPUS;
	*ret = totals_find(count->totals, cpu, cgroup->identity);
	return true;
}

/* Ends the cgroup's rows. linger: rows that hold anything linger. */
static void end_cgroup_rows(struct count *count, const struct cgroup *cgroup, bool linger, uint64_t now)
{
	struct totals_row *row;

	for (size_t i = 0; nth_cgroup_row(count, i, cgroup, &row); i++) {
		if (!row || row->identity->id != cgroup->identity->id)
			continue;
		if (linger && count->options.linger > 0 && !totals_row_is_empty(count->totals, row))
			totals_retire(count->totals, row, row->identity, now);
		else
			totals_drop(count->totals, row);
	}
}

static int take_cgroup_rows(struct count *count, const struct cgroup *cgroup)
{
	for (size_t i = 0; i < count->cpus.nr; i++) {
		int cpu = count->options.cgroup_per_cpu ? count->cpus.cpu[i] : ROW_ALL_CPUS;
		int r;

		if (i > 0 && !count->options.cgroup_per_cpu) {
			count->rows[i] = count->rows[0];
			continue;
		}
		r = totals_take(count->totals, SCOPE_CGROUP, cpu, cgroup->identity, &count->rows[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

bool count_is_counted(const struct count *count, const struct cgroup_identity *identity)
{
	return engines_have(&count->engines, SCOPE_CGROUP, identity->id);
}

/* Is anything of the cgroup open, here or in the predecessor? */
static bool is_open_already(const struct count *count, const struct cgroup *cgroup)
{
	return count_is_counted(count, cgroup->identity) ||
	       (count->from && count_is_counted(count->from, cgroup->identity));
}

static int open_cgroup(struct count *count, const struct cgroup_tree *tree, const struct cgroup *cgroup,
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
	if (!root && (fd == -ENOENT || (fd < 0 && !is_open_already(count, cgroup))))
		return reason_set(why, fd, "its directory can't be opened: %s", strerror(-fd));
	if (take_cgroup_rows(count, cgroup) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	return engines_add(&count->engines, &target, &count->cpus, count->rows, clock_monotonic_ns(), why);
}

/* The kernel says ENOENT for a cgroup that is gone, and for one that perf does not know of. */
static bool cgroup_is_gone(const struct cgroup_tree *tree, const struct cgroup *cgroup)
{
	int fd = cgroup_open(tree, cgroup);

	safe_close(fd);
	return fd == -ENOENT;
}

/* The status of a new cgroup that could not be opened. */
static int cgroup_failed(struct count *count, const struct cgroup_tree *tree, const struct cgroup *cgroup, int error,
			 struct reason *why)
{
	/* Rows of an earlier cgroup of that label may have been taken up again: they linger on. */
	end_cgroup_rows(count, cgroup, true, clock_monotonic_ns());
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

bool count_has_cgroup(const struct count *count, const struct cgroup *cgroup)
{
	int cpu = count->options.cgroup_per_cpu && count->cpus.nr > 0 ? count->cpus.cpu[0] : ROW_ALL_CPUS;
	const struct totals_row *row;

	if (!count_is_counted(count, cgroup->identity))
		return false;
	row = totals_find(count->totals, cpu, cgroup->identity);
	return row && row->identity->id == cgroup->identity->id;
}

int count_add_cgroup(struct count *count, const struct cgroup_tree *tree, const struct cgroup *cgroup,
		     struct reason *why)
{
	size_t fds = engines_fds_needed(&count->engines, SCOPE_CGROUP, cgroup->identity->id);
	bool had = count_has_cgroup(count, cgroup);
	int r;

	expire_rows(count, clock_monotonic_ns());
	if (count->plan->scope[SCOPE_CGROUP].nr_sets == 0)
		return reason_set(why, CGROUP_FAILED, "no configured event can be counted per cgroup here");
	if (!had && count_is_counted(count, cgroup->identity))
		return reason_set(why, CGROUP_FAILED, "it is the same cgroup as another path shows, and counted there");
	if (!had && count->nr_cgroups >= count->options.cgroup_max)
		return reason_set(why, CGROUP_OVER_MAX, "%" PRIu64 " cgroups are counted already: raise [cgroup] max",
				  count->options.cgroup_max);
	if (!had && engines_room(&count->engines).cgroups == 0)
		return reason_set(why, CGROUP_OVER_MAX, "the engine (%s) has no room for more cgroups",
				  count->engines.name);
	make_room(count, fds);
	if (!has_room(count, fds)) {
		say_no_room(count, fds, why);
		if (had)
			engines_note_lack(&count->engines, why);
		return had ? CGROUP_COUNTED : CGROUP_OVER_FDS;
	}

	pause_closer(count, SCOPE_CGROUP);
	r = open_cgroup(count, tree, cgroup, why);
	resume_closer(count, SCOPE_CGROUP);
	if (r < 0 && !had)
		return cgroup_failed(count, tree, cgroup, r, why);
	count->nr_cgroups += !had;
	/* Everything is open for this cgroup, so the tried tracepoints are quick to close: they are open elsewhere. */
	if (!why->text[0])
		count_end_tries(count);
	return CGROUP_COUNTED;
}

uint64_t count_cgroup_time(const struct count *count, const struct cgroup *cgroup)
{
	const struct scope_plan *plan = &count->plan->scope[SCOPE_CGROUP];
	uint64_t time = 0;
	struct totals_row *row;

	for (size_t i = 0; nth_cgroup_row(count, i, cgroup, &row); i++)
		for (size_t k = 0; row && k < plan->nr_sets; k++)
			time += row->times[k].enabled;
	return time;
}

void count_remove_cgroup(struct count *count, const struct cgroup *cgroup, bool linger)
{
	uint64_t now = clock_monotonic_ns();

	if (!count_has_cgroup(count, cgroup))
		return;
	/* They are not pushed out by this one. */
	expire_rows(count, now);
	engines_remove(&count->engines, SCOPE_CGROUP, cgroup->identity->id, now);
	count->nr_cgroups--;
	end_cgroup_rows(count, cgroup, linger, now);
}

/* --- reading */

/* Judges the sets, unless that was done just before: a moment tells no share of time. */
static void judge_sets(struct count *count, uint64_t after)
{
	if (count->last_read - count->judged < after)
		return;
	count->judged = count->last_read;
	engines_count_lacking(&count->engines, count->nr_cgroups);
	states_judge(count->states, count->engines.health);
}

void count_read(struct count *count)
{
	read_all(count);
	judge_sets(count, JUDGE_NS);
}

bool count_is_in_doubt(const struct count *count)
{
	return count->states->in_doubt;
}

void count_note_online(struct count *count, const struct cpulist *online)
{
	count->online = online;
}

void count_tick(struct count *count, const uint64_t *busy)
{
	const struct gaps_cpus cpus = { &count->cpus, count->options.excluded, steal_ptr(count->online) };
	bool between = count->judged != count->last_tick;

	read_all(count);
	judge_sets(count, between ? JUDGE_NS / 2 : 0);
	count->last_tick = count->last_read;
	gaps_note(count->totals, &count->engines, &count->canaries, &cpus);
	totals_tick(count->totals, count->last_read);
	states_update(count->states, count->totals, &count->cpus, busy);
}

/* --- images */

bool count_save(const struct count *count, const char *boot_id, struct buf *out)
{
	bool names_engines = count->engines.nr > 1 || count->engines.engines[0]->ops != &engine_perf;

	image_begin(out, boot_id, clock_monotonic_ns(), names_engines);
	pack_u64(out, count->options.cgroup_per_cpu);
	image_put_cpus(out, &count->cpus);
	image_put_cpus(out, &count->known_cpus);
	image_put_topology(out, count_topology(count));
	image_put_plan(out, count->plan);
	if (names_engines)
		image_put_engines(out, &count->engines);
	image_put_totals(out, count->totals);
	image_put_states(out, count->states);
	if (names_engines)
		image_put_parts(out, &count->engines);
	else
		engine_perf.save(count->engines.engines[0], out);
	cpu_canaries_save(&count->canaries, out);
	return image_end(out, count->sampled);
}

/* saved: the engines that the image names, or NULL. */
static int restore_parts(struct count *count, struct unpack *in, const struct image_engines *saved,
			 struct kept_pool *kept)
{
	_cleanup_(freep) struct totals_row **rows = NULL;
	size_t nr_rows;
	int r = image_get_totals(in, count->totals, &rows, &nr_rows);

	if (r == 0)
		r = image_get_states(in, count->states);
	if (r == 0)
		r = saved ? image_get_parts(in, saved, &count->engines, rows, nr_rows, kept) :
			    engine_perf.restore(count->engines.engines[0], in, rows, nr_rows, kept);
	if (r == 0)
		r = cpu_canaries_restore(&count->canaries, in, &count->cpus, &count->engines, kept);
	if (r == 0 && in->left)
		count->sampled = unpack_u64(in);
	return r;
}

static int restore_count(struct count **ret, struct unpack *in, const struct image_info *info,
			 const struct privilege *privilege, struct kept_pool *kept)
{
	struct image_engines engines = {};
	const struct count_options options = {
		.cgroup_per_cpu = unpack_at_most(in, 1),
		.cgroup_max = SIZE_MAX,
		.linger = UINT64_MAX, /* its successor knows how long */
	};
	_cleanup_(cpulist_release) struct cpulist cpus = {}, known = {};
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {};
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	_cleanup_(count_freep) struct count *count = NULL;
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
		r = count_new(&count, plan, &cpus, privilege, &options);
	if (r < 0)
		return r;
	cpulist_release(&count->known_cpus);
	count->known_cpus = steal_struct(known);
	count->topology = steal_struct(topology);
	r = restore_parts(count, in, info->names_engines ? &engines : NULL, kept);
	if (r == 0)
		*ret = steal_ptr(count);
	return r;
}

int count_restore(struct count **ret, const void *bytes, size_t size, const char *boot_id,
		  const struct privilege *privilege, struct kept_pool *kept, struct reason *why)
{
	struct image_info info;
	struct unpack in;
	int r = image_open(&in, bytes, size, boot_id, &info, why);

	if (r < 0)
		return r;
	kept->nr_missed = 0; /* of another image, which came to nothing */
	r = restore_count(ret, &in, &info, privilege, kept);
	if (r < 0)
		return reason_set(why, r, r == -ENOMEM ? "out of memory" : "they make no sense");
	/* Readings show which CPUs have been offline meanwhile. */
	read_all(*ret);
	(*ret)->reads = (*ret)->read_ns = 0;
	return 0;
}

uint64_t count_sampled(const struct count *count)
{
	return count->sampled;
}

void count_set_sampled(struct count *count, uint64_t time)
{
	count->sampled = time;
}

void count_each_kept(const struct count *count, kept_visitor each, void *userdata)
{
	engines_each_kept(&count->engines, each, userdata);
	cpu_canaries_each_kept(&count->canaries, each, userdata);
}

const struct cpulist *count_cpus(const struct count *count)
{
	return &count->cpus;
}

struct plan *count_plan(const struct count *count)
{
	return count->plan;
}

const struct cpu_topology *count_topology(const struct count *count)
{
	return count->options.topology ? count->options.topology : &count->topology;
}

const struct totals *count_totals(const struct count *count)
{
	return count->totals;
}

enum event_state count_column_state(const struct count *count, enum scope scope, size_t column, const char **why)
{
	return states_get(count->states, scope, column, why);
}

bool count_column_is_partial(const struct count *count, enum scope scope, size_t column)
{
	return states_is_partial(count->states, scope, column);
}

struct count_stats count_stats(const struct count *count)
{
	const struct engine_stats stats = engines_stats(&count->engines);
	struct count_stats ret;

	ret = (struct count_stats){
		.reads = count->reads,
		.read_ns = count->read_ns,
		.read_errors = count->inherited.read_errors + stats.read_errors,
		.backwards = count->inherited.backwards + stats.backwards,
		.changes = count->inherited.changes + stats.changes + count->canaries.changes,
		.last_read = count->last_read,
		.fds = nr_fds(count),
		.cpus = count->nr_cpus,
		.canaries = count->canaries.nr,
		.cpus_offline = count->known_cpus.nr - count->cpus.nr,
		.lingering = count->totals->nr_gone,
		.pushed_out = count->totals->pushed_out,
	};
	for (int lie = 0; lie < _LIE_MAX; lie++)
		ret.lies[lie] = count->inherited.lies[lie] + stats.lies[lie];
	ret.lies[LIE_STILL] += count->plan->pmus.still;
	return ret;
}

bool count_switch_cost(const struct count *count, int cpu, struct switch_cost *ret)
{
	return engines_switch_cost(&count->engines, cpu, ret);
}

const char *count_engine_name(const struct count *count)
{
	return count->engines.name;
}
