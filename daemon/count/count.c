/* SPDX-License-Identifier: MIT */

#include "count/count.h"

#include "count/engine.h"
#include "count/image.h"
#include "count/keep.h"
#include "count/lifeline.h"
#include "count/states.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

/* What readings show of sets is looked at so often, at readings within an interval that is longer. */
#define JUDGE_NS 1000000000U

struct count {
	struct plan *plan;
	struct ledger *ledger;
	struct engine *engine;
	const struct privilege *privilege;
	struct cpulist cpus;	   /* that are counted */
	struct cpulist known_cpus; /* with those that were, and are offline now: their rows are kept */
	struct cpu_topology topology; /* of an image, where it was restored */
	struct cpulist lost;	   /* while it succeeds another: CPUs on which that one counts no more */
	struct lifelines lifelines; /* of those of the cpus that need one */
	struct count_options options;
	struct states *states;
	struct row **rows; /* scratch: a row a CPU */
	size_t nr_cgroups, nr_cpus;
	uint64_t reads, read_ns, last_read;
	/* CLOCK_MONOTONIC ns: when what reading has shown of sets was looked at, and the last interval's end. */
	uint64_t judged, last_tick;
	struct engine_stats inherited; /* errors counted by the engines before this one */
	const struct count *from;      /* what this one succeeds, while it does */
};

const char *cgroup_status_name(enum cgroup_status status)
{
	static const char *const names[_CGROUP_STATUS_MAX] = {
		[CGROUP_WAITING] = "waiting",	[CGROUP_COUNTED] = "counted",	[CGROUP_EXCLUDED] = "excluded",
		[CGROUP_OVER_MAX] = "over_max", [CGROUP_OVER_FDS] = "over_fds", [CGROUP_FAILED] = "failed",
	};

	return names[status];
}

uint64_t count_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

struct count *count_free(struct count *count)
{
	if (!count)
		return NULL;
	if (count->plan) {
		plan_end_tries(count->plan, count->options.closer);
		plan_let_go(count->plan, count->options.closer);
	}
	if (count->engine)
		count->engine->ops->destroy(count->engine);
	ledger_free(count->ledger);
	states_free(count->states);
	plan_unref(count->plan);
	cpulist_release(&count->cpus);
	cpulist_release(&count->known_cpus);
	cpulist_release(&count->lost);
	cpu_topology_release(&count->topology);
	lifelines_release(&count->lifelines);
	free(count->rows);
	free(count);
	return NULL;
}

int count_new(struct count **ret, struct plan *plan, const struct cpulist *cpus, const struct privilege *privilege,
	      const struct count_options *options)
{
	_cleanup_(count_freep) struct count *count = calloc(1, sizeof(*count));

	if (!count)
		return -ENOMEM;
	count->plan = plan_ref(plan);
	count->privilege = privilege;
	count->options = *options;
	count->rows = calloc(cpus->nr + 1, sizeof(struct row *));
	if (!count->rows || lifelines_new(&count->lifelines, cpus->nr) < 0 || cpulist_copy(&count->cpus, cpus) < 0 ||
	    cpulist_copy(&count->known_cpus, cpus) < 0 ||
	    ledger_new(&count->ledger, plan, options->cgroup_max) < 0 || states_new(&count->states, plan) < 0 ||
	    engine_perf.create(&count->engine, plan, privilege) < 0)
		return -ENOMEM;

	count->engine->closer = options->closer;
	*ret = steal_ptr(count);
	return 0;
}

/* --- CPUs that come and go */

static bool is_excluded(const struct count *count, int cpu)
{
	return count->options.excluded && cpulist_has(count->options.excluded, cpu);
}

/* CPUs on which nothing but cgroups is counted can't be seen to go offline otherwise. What could not be opened is
 * tried again. */
static void open_lifelines(struct count *count)
{
	for (size_t i = 0; i < count->cpus.nr && count->plan->scope[SCOPE_CGROUP].nr_sets > 0; i++) {
		int cpu = count->cpus.cpu[i];

		if (lifelines_find(&count->lifelines, cpu) ||
		    count->engine->ops->life(count->engine, cpu) == LIFE_UNKNOWN)
			lifelines_open(&count->lifelines, cpu, count_now());
	}
}

static bool has_been_offline(const struct count *count, int cpu)
{
	const struct lifeline *lifeline = lifelines_find(&count->lifelines, cpu);

	return count->engine->ops->life(count->engine, cpu) == LIFE_BEEN_OFFLINE || (lifeline && lifeline->broken);
}

int count_find_lost(const struct count *count, struct cpulist *ret)
{
	for (size_t i = 0; i < count->cpus.nr; i++) {
		int r = has_been_offline(count, count->cpus.cpu[i]) ? cpulist_add(ret, count->cpus.cpu[i]) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static size_t nr_fds(const struct count *count)
{
	return count->engine->stats.fds + lifelines_nr_open(&count->lifelines);
}

/* --- one count after another */

void count_keep_events(const struct count *count, struct group_list groups[static _SCOPE_MAX])
{
	keep_events(count->engine, groups);
}

/* Rows that have lingered long enough go before anybody can see them or take them up again, however far apart ticks
 * are. */
static void expire_rows(struct count *count, uint64_t now)
{
	ledger_expire(count->ledger, now, count->options.linger);
}

static void read_all(struct count *count)
{
	uint64_t now = count_now();

	expire_rows(count, now);
	count->engine->ops->read(count->engine, now);
	lifelines_check(&count->lifelines, count_now());
	count->last_read = now;
	count->read_ns += count_now() - now;
	count->reads++;
}

int count_succeed(struct count *count, struct count *from)
{
	int r;

	/* What has happened to CPUs by now. */
	read_all(from);
	/* Where nothing is open any more, as after a stop, there is nothing that going offline could have ended. */
	r = nr_fds(from) ? count_find_lost(from, &count->lost) : 0;
	/* A lifeline that goes on tells what another, opened anew, can't: that the CPU has been offline since what is
	 * handed over was opened. */
	if (count->plan->scope[SCOPE_CGROUP].nr_sets > 0)
		lifelines_move(&count->lifelines, &from->lifelines, &count->cpus);
	for (size_t i = 0; i < from->known_cpus.nr && r == 0; i++)
		if (!is_excluded(count, from->known_cpus.cpu[i]))
			r = cpulist_add(&count->known_cpus, from->known_cpus.cpu[i]);
	/* One that was restored has none. */
	from->engine->closer = count->engine->closer;
	count->engine->ops->succeed(count->engine, from->engine, &count->lost);
	count->from = from;
	return r;
}

void count_hold_cgroups(struct count *count, struct count *from)
{
	const struct row *row;
	uint64_t now;

	/* The root cgroup is fed by the CPUs' readings alone. */
	read_all(from);
	now = count_now();
	count->ledger->holds = true;
	TAILQ_FOREACH(row, &from->ledger->rows[SCOPE_CGROUP], in_ledger)
		if (!row->gone_at && from->engine->ops->has(from->engine, SCOPE_CGROUP, row->identity->id))
			from->engine->ops->remove(from->engine, SCOPE_CGROUP, row->identity->id, now);
}

const struct cpulist *count_lost(const struct count *count)
{
	return &count->lost;
}

/* Rows of CPUs that the engine does not count: one that is excluded is not shown, but what it has counted stays in the
 * sum of all CPUs, which would fall otherwise; one that could not be opened is not measured, and of one that is offline
 * nothing more can come. */
static void settle_cpu_row(struct count *count, struct row *row)
{
	row->excluded = is_excluded(count, row->cpu);
	if (row->excluded || (cpulist_has(&count->cpus, row->cpu) &&
			      !count->engine->ops->has(count->engine, SCOPE_CPU, (uint64_t)row->cpu)))
		ledger_unmeasure(count->ledger, row);
}

static void settle_cpus(struct count *count)
{
	struct row *row, *next;

	TAILQ_FOREACH(row, &count->ledger->rows[SCOPE_CPU], in_ledger)
		settle_cpu_row(count, row);
	/* A cgroup's rows are summed up by nobody. */
	for (row = TAILQ_FIRST(&count->ledger->rows[SCOPE_CGROUP]); row; row = next) {
		next = TAILQ_NEXT(row, in_ledger);
		if (row->cpu != ROW_ALL_CPUS && is_excluded(count, row->cpu))
			ledger_drop(count->ledger, row);
	}
}

void count_defer(struct count *count)
{
	count->engine->defers = true;
}

int count_succeeded(struct count *count, struct count *from)
{
	uint64_t now = count_now();
	int r;

	count->engine->defers = false;
	count->engine->ops->succeed(count->engine, NULL, NULL);
	from->engine->ops->finish(from->engine, now);
	ledger_expire(from->ledger, now, count->options.linger);
	count->from = NULL;
	count->reads = from->reads;
	count->read_ns = from->read_ns;
	count->last_read = from->last_read;
	count->inherited.read_errors = from->inherited.read_errors + from->engine->stats.read_errors;
	/* Lifelines that have not moved are closed with it. */
	count->inherited.changes = from->inherited.changes + from->engine->stats.changes + from->lifelines.changes +
				   lifelines_nr_open(&from->lifelines);
	count->inherited.backwards = from->inherited.backwards + from->engine->stats.backwards;
	states_carry(count->states, from->states);
	r = ledger_carry(count->ledger, from->ledger, count->options.cgroup_per_cpu, &count->cpus, now);
	count->ledger->holds = false;
	settle_cpus(count);
	/* What is newly open has not been read yet, and what is no longer open still looks measured. */
	read_all(count);
	count->judged = count->last_tick = count->last_read;
	return r;
}

/* --- targets */

/* Of the process, with those that are left to other use. For what goes on in a successor, files that are still being
 * closed have gone already: it would have to give way to them for good. */
static uint64_t nr_taken_fds(const struct count *count)
{
	size_t others = count->from ? nr_fds(count->from) : closer_pending(count->options.closer);

	return nr_fds(count) + plan_nr_held(count->plan) + others + count->options.fd_reserve;
}

/* What needs no more goes on, however low the limit has become. */
static bool has_room(const struct count *count, size_t fds)
{
	return fds == 0 || nr_taken_fds(count) + fds <= count->privilege->fd_limit;
}

bool count_has_room_for_cpus(const struct count *count)
{
	size_t fds = 0;

	for (size_t i = 0; i < count->cpus.nr; i++)
		fds += count->engine->ops->fds_needed(count->engine, SCOPE_CPU, (uint64_t)count->cpus.cpu[i]);
	return nr_taken_fds(count) + fds <= count->privilege->fd_limit;
}

size_t count_room(const struct count *count)
{
	uint64_t limit = count->privilege->fd_limit, taken = nr_taken_fds(count);
	size_t each = plan_fds_per_cgroup(count->plan), by_max, by_fds;

	by_max = count->options.cgroup_max > count->nr_cgroups ? count->options.cgroup_max - count->nr_cgroups : 0;
	by_fds = each == 0 ? by_max : limit > taken ? (limit - taken) / each : 0;
	return by_max < by_fds ? by_max : by_fds;
}

/* What was kept of trying events gives way to what is counted. */
static void make_room(struct count *count, size_t fds)
{
	size_t others = count->from ? closer_pending(count->options.closer) : 0, tried = count->plan->tried.nr;

	if (fds > 0 && tried > 0 && nr_taken_fds(count) + others + tried + fds > count->privilege->fd_limit)
		plan_end_tries(count->plan, NULL);
}

void count_end_tries(struct count *count)
{
	plan_end_tries(count->plan, count->options.closer);
}

/* The closer waits where it would keep every event that is opened waiting (closer.h). */
static void pause_closer(struct count *count, enum scope scope)
{
	if (plan_is_slow_to_close(&count->plan->scope[scope]))
		closer_pause(count->options.closer);
}

static void resume_closer(struct count *count, enum scope scope)
{
	if (plan_is_slow_to_close(&count->plan->scope[scope]))
		closer_resume(count->options.closer);
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
		struct reason *lasting = &count->engine->findings[SCOPE_CPU][i].lasting;

		if (cpulist_has(&plan->sets[i].cpus, cpu) && !lasting->text[0])
			reason_set(lasting, 0, "CPU %d is not counted: %s", cpu, why->text);
	}
}

/* Opens what is to be counted on the CPU, or what of it is not open yet. */
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
	size_t fds = count->engine->ops->fds_needed(count->engine, SCOPE_CPU, (uint64_t)cpu);
	bool had = count->engine->ops->has(count->engine, SCOPE_CPU, (uint64_t)cpu);
	struct reason why = {};
	struct row *row = NULL;
	int r;

	make_room(count, fds);
	if (!has_room(count, fds)) {
		say_no_room(count, fds, &why);
		cpu_left_out(count, cpu, &why);
		return 0;
	}
	r = ledger_take(count->ledger, SCOPE_CPU, cpu, NULL, &row);
	if (r < 0)
		reason_set(&why, r, "out of memory");
	else
		r = count->engine->ops->add(count->engine, &target, &only, &row, count_now(), &why);
	if (r < 0) {
		if (row && ledger_row_is_empty(count->ledger, row))
			ledger_drop(count->ledger, row);
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
	open_lifelines(count);
	return r;
}

void count_mend_cpus(struct count *count)
{
	const struct scope_plan *plan = &count->plan->scope[SCOPE_CPU];
	bool broken = false;

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct finding *finding = &count->engine->findings[SCOPE_CPU][i];

		broken |= finding->lasting.text[0] != '\0';
		finding->lasting.text[0] = '\0';
	}
	/* Whatever still fails is told anew, also a want of memory. */
	if (broken)
		(void)count_add_cpus(count);
	else
		open_lifelines(count);
}

/* Row number i of the cgroup; false after the last. */
static bool nth_cgroup_row(const struct count *count, size_t i, const struct cgroup *cgroup, struct row **ret)
{
	size_t nr = count->options.cgroup_per_cpu ? count->known_cpus.nr : 1;
	int cpu;

	if (i >= nr)
		return false;
	cpu = count->options.cgroup_per_cpu ? count->known_cpus.cpu[i] : ROW_ALL_CPUS;
	*ret = ledger_find(count->ledger, cpu, cgroup->identity);
	return true;
}

/* Ends the cgroup's rows. With linger, what has been measured stays for a while. */
static void end_cgroup_rows(struct count *count, const struct cgroup *cgroup, bool linger, uint64_t now)
{
	struct row *row;

	for (size_t i = 0; nth_cgroup_row(count, i, cgroup, &row); i++) {
		if (!row || row->identity->id != cgroup->identity->id)
			continue;
		if (linger && count->options.linger > 0 && !ledger_row_is_empty(count->ledger, row))
			ledger_retire(count->ledger, row, row->identity, now);
		else
			ledger_drop(count->ledger, row);
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
		r = ledger_take(count->ledger, SCOPE_CGROUP, cpu, cgroup->identity, &count->rows[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

bool count_is_counted(const struct count *count, const struct cgroup_identity *identity)
{
	return count->engine->ops->has(count->engine, SCOPE_CGROUP, identity->id);
}

/* Is something of the cgroup open, here or in what is succeeded? */
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
		.cgroup_fd = fd,
		.idles = root,
	};

	/* Its owner can close it (chmod) at any time; what is open of it counts on all the same. */
	if (!root && (fd == -ENOENT || (fd < 0 && !is_open_already(count, cgroup))))
		return reason_set(why, fd, "its directory can't be opened: %s", strerror(-fd));
	if (take_cgroup_rows(count, cgroup) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	return count->engine->ops->add(count->engine, &target, &count->cpus, count->rows, count_now(), why);
}

/* The kernel says ENOENT for a cgroup that is gone, and for one that perf does not know of. */
static bool cgroup_is_gone(const struct cgroup_tree *tree, const struct cgroup *cgroup)
{
	int fd = cgroup_open(tree, cgroup);

	safe_close(fd);
	return fd == -ENOENT;
}

/* What opening a new cgroup has come to. */
static int cgroup_failed(struct count *count, const struct cgroup_tree *tree, const struct cgroup *cgroup, int error,
			 struct reason *why)
{
	/* Rows of an earlier cgroup of that label may have been taken up again: they linger on. */
	end_cgroup_rows(count, cgroup, true, count_now());
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
	const struct row *row;

	if (!count_is_counted(count, cgroup->identity))
		return false;
	row = ledger_find(count->ledger, cpu, cgroup->identity);
	return row && row->identity->id == cgroup->identity->id;
}

int count_add_cgroup(struct count *count, const struct cgroup_tree *tree, const struct cgroup *cgroup,
		     struct reason *why)
{
	const struct engine_ops *ops = count->engine->ops;
	size_t fds = ops->fds_needed(count->engine, SCOPE_CGROUP, cgroup->identity->id);
	bool had = count_has_cgroup(count, cgroup);
	int r;

	expire_rows(count, count_now());
	if (count->plan->scope[SCOPE_CGROUP].nr_sets == 0)
		return reason_set(why, CGROUP_FAILED, "no configured event can be counted per cgroup here");
	if (!had && count_is_counted(count, cgroup->identity))
		return reason_set(why, CGROUP_FAILED, "it is the same cgroup as another path shows, and counted there");
	if (!had && count->nr_cgroups >= count->options.cgroup_max)
		return reason_set(why, CGROUP_OVER_MAX, "%" PRIu64 " cgroups are counted already: raise [cgroup] max",
				  count->options.cgroup_max);
	make_room(count, fds);
	if (!has_room(count, fds)) {
		say_no_room(count, fds, why);
		return had ? CGROUP_COUNTED : CGROUP_OVER_FDS;
	}

	pause_closer(count, SCOPE_CGROUP);
	r = open_cgroup(count, tree, cgroup, why);
	resume_closer(count, SCOPE_CGROUP);
	if (r < 0 && !had)
		return cgroup_failed(count, tree, cgroup, r, why);
	count->nr_cgroups += !had;
	/* All is open of it: what was tried is open elsewhere, and quick to close. */
	if (!why->text[0])
		count_end_tries(count);
	return CGROUP_COUNTED;
}

uint64_t count_cgroup_time(const struct count *count, const struct cgroup *cgroup)
{
	const struct scope_plan *plan = &count->plan->scope[SCOPE_CGROUP];
	uint64_t time = 0;
	struct row *row;

	for (size_t i = 0; nth_cgroup_row(count, i, cgroup, &row); i++)
		for (size_t k = 0; row && k < plan->nr_sets; k++)
			time += row->times[k].enabled;
	return time;
}

void count_remove_cgroup(struct count *count, const struct cgroup *cgroup, bool linger)
{
	uint64_t now = count_now();

	if (!count_has_cgroup(count, cgroup))
		return;
	/* They are not pushed out by this one. */
	expire_rows(count, now);
	count->engine->ops->remove(count->engine, SCOPE_CGROUP, cgroup->identity->id, now);
	count->nr_cgroups--;
	end_cgroup_rows(count, cgroup, linger, now);
}

/* --- reading */

/* Unless they were judged just before: of a moment no share can be told. */
static void judge(struct count *count, uint64_t after)
{
	if (count->last_read - count->judged < after)
		return;
	count->judged = count->last_read;
	states_judge(count->states, count->engine);
}

void count_read(struct count *count)
{
	read_all(count);
	judge(count, JUDGE_NS);
}

bool count_is_in_doubt(const struct count *count)
{
	return count->states->in_doubt;
}

void count_tick(struct count *count, const uint64_t *busy)
{
	bool between = count->judged != count->last_tick;

	read_all(count);
	judge(count, between ? JUDGE_NS / 2 : 0);
	count->last_tick = count->last_read;
	ledger_tick(count->ledger, count->last_read);
	states_update(count->states, count->ledger, &count->cpus, busy);
}

/* --- images */

bool count_save(const struct count *count, const char *boot_id, struct buf *out)
{
	image_begin(out, boot_id, count_now());
	pack_u64(out, count->options.cgroup_per_cpu);
	image_put_cpus(out, &count->cpus);
	image_put_cpus(out, &count->known_cpus);
	image_put_topology(out, count_topology(count));
	image_put_plan(out, count->plan);
	image_put_ledger(out, count->ledger);
	image_put_states(out, count->states);
	count->engine->ops->save(count->engine, out);
	lifelines_save(&count->lifelines, out);
	return image_end(out);
}

/* A CPU of which nothing that was kept can tell that it has been online ever since counts as one that was not. */
static int restore_lifelines(struct count *count, struct unpack *in, struct fd_pool *fds)
{
	int r = lifelines_restore(&count->lifelines, in, &count->cpus, fds);

	for (size_t i = 0; i < count->cpus.nr && r == 0; i++) {
		int cpu = count->cpus.cpu[i];

		if (count->engine->ops->life(count->engine, cpu) == LIFE_UNKNOWN &&
		    !lifelines_find(&count->lifelines, cpu))
			lifelines_add_broken(&count->lifelines, cpu);
	}
	return r;
}

static int restore_parts(struct count *count, struct unpack *in, struct fd_pool *fds)
{
	_cleanup_(freep) struct row **rows = NULL;
	size_t nr_rows;
	int r = image_get_ledger(in, count->ledger, &rows, &nr_rows);

	if (r == 0)
		r = image_get_states(in, count->states);
	if (r == 0)
		r = count->engine->ops->restore(count->engine, in, rows, nr_rows, fds);
	if (r == 0)
		r = restore_lifelines(count, in, fds);
	return r;
}

static int restore(struct count **ret, struct unpack *in, const struct privilege *privilege, struct fd_pool *fds)
{
	const struct count_options options = {
		.cgroup_per_cpu = unpack_at_most(in, 1),
		.cgroup_max = SIZE_MAX,
		.linger = UINT64_MAX, /* its successor knows how long */
	};
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	_cleanup_(cpulist_release) struct cpulist known = {};
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
	if (r == 0)
		r = count_new(&count, plan, &cpus, privilege, &options);
	if (r < 0)
		return r;
	cpulist_release(&count->known_cpus);
	count->known_cpus = known;
	known = (struct cpulist){};
	count->topology = topology;
	topology = (struct cpu_topology){};
	r = restore_parts(count, in, fds);
	if (r == 0)
		*ret = steal_ptr(count);
	return r;
}

int count_restore(struct count **ret, const void *bytes, size_t size, const char *boot_id,
		  const struct privilege *privilege, struct fd_pool *fds, struct reason *why)
{
	struct image_info info;
	struct unpack in;
	int r = image_open(&in, bytes, size, boot_id, &info, why);

	if (r < 0)
		return r;
	fds->nr_missed = 0; /* of another image, which came to nothing */
	r = restore(ret, &in, privilege, fds);
	if (r == -ENOMEM)
		return reason_set(why, r, "out of memory");
	if (r < 0)
		return reason_set(why, r, "they make no sense");
	/* What has happened to its CPUs shows in its readings. */
	read_all(*ret);
	(*ret)->reads = (*ret)->read_ns = 0;
	return 0;
}

void count_each_fd(const struct count *count, void (*each)(void *userdata, int fd, uint64_t id), void *userdata)
{
	count->engine->ops->each_fd(count->engine, each, userdata);
	lifelines_each_fd(&count->lifelines, each, userdata);
}

struct plan *count_plan(const struct count *count)
{
	return count->plan;
}

const struct cpu_topology *count_topology(const struct count *count)
{
	return count->options.topology ? count->options.topology : &count->topology;
}

const struct ledger *count_ledger(const struct count *count)
{
	return count->ledger;
}

enum event_state count_column_state(const struct count *count, enum scope scope, size_t column, const char **why)
{
	return states_get(count->states, scope, column, why);
}

struct count_stats count_stats(const struct count *count)
{
	return (struct count_stats){
		.reads = count->reads,
		.read_ns = count->read_ns,
		.read_errors = count->inherited.read_errors + count->engine->stats.read_errors,
		.backwards = count->inherited.backwards + count->engine->stats.backwards,
		.changes = count->inherited.changes + count->engine->stats.changes + count->lifelines.changes,
		.last_read = count->last_read,
		.fds = nr_fds(count),
		.cpus = count->nr_cpus,
		.lifelines = count->lifelines.nr,
		.cpus_offline = count->known_cpus.nr - count->cpus.nr,
		.lingering = count->ledger->nr_gone,
		.pushed_out = count->ledger->pushed_out,
	};
}

const char *count_engine_name(const struct count *count)
{
	return count->engine->ops->name;
}
