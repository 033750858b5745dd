/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An engine gets counts from the kernel and adds them to the totals (account.h). It knows files (or maps, or ring
 * buffers) and nothing of series, limits or states. What it finds out about a set on the way it notes in the set's
 * health, from which struct states makes the events' states.
 *
 * A plan's sets are divided among engines: each set belongs to one (struct set), and an engine leaves the others alone.
 * For the planner an engine tries events and sets, before there is an object of it.
 *
 * A takeover leads from the engines of one plan to those of the next, target by target: on a reload, a change of CPUs,
 * a restart (then the first engines are made from an image). Between two engines of one kind what is open goes over and
 * counts on. A set that changes its engine is read by the old one for the last time when the new one starts.
 *
 * engine/perf is the kernel's own way: one file per event, CPU and cgroup. engine/bpf credits the CPUs' events to
 * cgroups.
 */

#include "base/cgroup/identity.h"
#include "base/util/async-close.h"
#include "base/util/pack.h"
#include "counting/engine/stored.h"
#include "counting/totals/rows.h"

#include <errno.h>

/* The results of readings of a set, over all its targets. */
struct set_health {
	uint64_t enabled, running; /* ns, since the health was last judged */
	uint64_t busy;		   /* the part of running that is of targets which do not idle */
	bool ever_ran;
	uint64_t waited;       /* ns: the longest time that one of its groups has been enabled, while none ever ran */
	bool timeless;	       /* counts rose while the running time stood still, since the health was last judged */
	bool lagged;	       /* readings waited for the kernel's enabled time, since then */
	bool doubted;	       /* since then, levels of a tree of cgroups contradicted each other: they are not shown */
	bool unsure;	       /* …, or too little of one was observed to compare them */
	bool spared;	       /* since then, it was not read at some switches, to keep to the budget for them */
	uint64_t failures;     /* targets or readings that failed since then */
	struct reason why;     /* the last failure's sentence */
	struct reason lasting; /* of a set that is not open on some CPU: stays until the next plan */
	size_t lacking;	       /* counted cgroups in which it is not open, or only in part, … */
	size_t cgroups;	       /* … of so many */
	struct reason lack;    /* why it could not be opened in the last of them; empty: it was not tried yet */
};

/* Readings that can't be true, and were refused (perfmond_pmu_lies_total). */
enum lie {
	LIE_TIME,   /* it ran for longer than it was enabled, or its times went down */
	LIE_CYCLES, /* more cycles than the CPU's highest clock makes */
	LIE_CHILD,  /* a cgroup and those below it contradicted each other */
	LIE_STILL,  /* a counter stood still beside equal ones, when the PMU was tested: the plan has it */
	_LIE_MAX,
};

struct engine_stats {
	size_t fds;
	uint64_t changes; /* events opened or closed, in all */
	uint64_t read_errors, backwards;
	uint64_t lies[_LIE_MAX];
};

/* The surroundings of an engine. All borrowed, but for the plan, to which it takes a reference. */
struct engine_env {
	struct plan *plan;
	const struct privilege *privilege;
	struct set_health *health[_SCOPE_MAX]; /* one a set; the engine writes those of its own sets */
	struct engine *const *engines;	       /* all of the plan, *nr_engines, also those made after this one */
	const size_t *nr_engines;
	uint64_t max_cgroups; /* as many are counted at once, at most */
	/* The part of a CPU's time that an engine may take at switches for events that are not exact anyway, in ppm; 0:
	 * no limit. */
	unsigned switch_budget;
	const char *sysroot;	    /* of the CPUs' highest clocks, or NULL */
	struct async_close *closer; /* of slow files, or NULL */
};

/* What an engine has taken at a CPU's switches between cgroups, and what went wrong there, since it began, which can be
 * some restarts ago. It does not fall while the process lives. */
struct switch_cost {
	int cpu;
	uint64_t switches, ns; /* at which counts were credited, and the time that took */
	uint64_t hidden;       /* switches that tracing does not show, as far as it was found out */
	uint64_t passed;       /* switches without credit: they came in the middle of another one */
	uint64_t unplaced;     /* cgroups that came to run while there was no place for their counts */
	uint64_t errors;       /* events by which all cgroups and the CPU have differed, since the process began */
};

struct engine {
	const struct engine_ops *ops;
	struct engine_env env;
	bool defers; /* engine_defer() */
	struct engine_stats stats;
};

/* A CPU, or a cgroup on all CPUs. */
struct engine_target {
	enum scope scope;
	uint64_t id;	   /* the CPU's number, or the cgroup's id */
	const char *label; /* for sentences; "" for a CPU */
	unsigned depth;	   /* of a cgroup; 0: the root */
	struct cgroup_ancestors ancestors;
	/* Of a cgroup: its directory, or the negative errno of opening it; then its open events continue, and
	 * nothing more can be opened. -1 for a CPU, and for the root cgroup: both have all tasks. */
	int cgroup_fd;
	bool idles; /* its time has idle time in it: a CPU, or the root cgroup, which has the idle tasks */
	/* Called when all is open and before it starts, or NULL: in a takeover, engines of other kinds read for the
	 * last time what this one is going to count. now: CLOCK_MONOTONIC ns. */
	void (*before_start)(void *userdata, const struct engine *engine, uint64_t now);
	void *userdata;
};

/* The state of a CPU, by its readings. */
enum life {
	LIFE_UNKNOWN, /* the engine counts only cgroups' events there, which can't tell that the CPU is online */
	LIFE_ONLINE,
	LIFE_BEEN_OFFLINE, /* since it was added: what counts on it has to be opened anew */
};

/* The files that the engine needs, and its room for cgroups of which nothing is open yet. */
struct engine_room {
	size_t fds_of_cpus;    /* files that all CPUs take */
	size_t fds_per_cgroup; /* files that a cgroup takes */
	size_t cgroups;	       /* more cgroups that fit the engine's own bounds; SIZE_MAX: it has none */
};

/*
 * A takeover from an engine of the same kind. Sets that are equal go over open and lose nothing, but on the CPUs in
 * `lost`. Other sets are read for the last time when what takes their place is opened. All borrowed.
 */
struct engine_takeover {
	struct engine *from;
	const struct cpulist *lost;	/* CPUs that have been offline since `from` opened what is on them */
	const bool *leaves[_SCOPE_MAX]; /* one a set of from's plan: an engine of another kind is going to count it */
};

/* How the planner tries events. All borrowed. */
struct engine_probe {
	const struct engine_ops *engine; /* that is asked */
	enum scope scope;
	const struct cpulist *cpus; /* online, and to be counted */
	int cgroup_fd;		    /* the hierarchy's root; -1 for CPUs */
	const char *no_cgroups;	    /* the reason where there is no hierarchy */
	const struct privilege *privilege;
	const struct scope_plan *counting;    /* the plan in force: its open events are not tried again; NULL: none */
	const struct pmu_counters_list *pmus; /* as tested; NULL: nothing is known of them */
	struct tried *tried;		      /* gets events that are slow to close; NULL: they are closed at once */
};

struct engine_ops {
	const char *name;
	/* It opens no events of its own: each of its sets, which are of the cgroups' scope, stands on a set of the CPUs
	 * (set_find_twin()), which another engine counts and event_of() returns. */
	bool credits;

	/* --- for the planner */

	/* Does the engine count events of the column's kind at all? Others are never asked of it. NULL: all kinds. */
	bool (*suits)(const struct column *column);
	/* Settles the state of a column that is in no set yet, its reason, and the attr to open it with. Columns
	 * before it are in their sets. An engine takes all hardware events of a group on one PMU, or none of them: a
	 * group that is torn between two engines does not run at the same time. -ENOMEM. */
	int (*try_column)(struct scope_plan *plan, size_t column, const struct engine_probe *probe);
	/* How many of the set's members, from its first on, can be counted together: all; fewer, where the set may be
	 * split; or none: then all of its columns say why. -ENOMEM. */
	int (*try_set)(struct scope_plan *plan, size_t set, const struct engine_probe *probe, size_t *ret);
	/* Opens a pinned set as it will be on its first CPU, and starts it: sets that share the PMU with it are then
	 * tried beside it. -ENOMEM. */
	int (*open_set)(const struct scope_plan *plan, size_t set, const struct engine_probe *probe,
			struct tried *tried);
	/* Can the column, which could not be opened, be opened by now? */
	bool (*recovers)(const struct column *column, const struct engine_probe *probe);

	/* --- the object */

	/* -ENOMEM. */
	int (*create)(struct engine **ret, const struct engine_env *env);
	void (*destroy)(struct engine *engine);

	/* How many more files will be open after add()? */
	size_t (*fds_needed)(const struct engine *engine, enum scope scope, uint64_t id);
	struct engine_room (*room)(const struct engine *engine);

	/* Is anything of the set open, on any target? */
	bool (*is_open)(const struct engine *engine, enum scope scope, size_t set);
	/* In how many cgroups is all of the set open that can be? NULL: in all that there are. */
	size_t (*nr_whole)(const struct engine *engine, size_t set);
	/* The open event of a set of the CPUs' scope on a CPU, and the kernel's id of it; the file stays the engine's.
	 * -ENODEV: the CPU is offline, or has been since; -ENOENT: it is not open for another reason. */
	int (*event_of)(const struct engine *engine, int cpu, size_t set, size_t member, uint64_t *ret_id);
	/* Is the target counted? */
	bool (*has)(const struct engine *engine, enum scope scope, uint64_t id);

	/*
	 * Starts counting a target, or what of it could not be opened before. rows[i] gets the counts of cpus->cpu[i];
	 * they may all be the same row. Each set is opened on all of its CPUs or not at all, unless a part of it was
	 * taken over. Returns 0 where at least one set is open, with a sentence in why where another is not, or only in
	 * part, or not yet. -EMFILE, -ENFILE, -ENOMEM: no room, nothing is open. -ENOENT: the kernel knows no such
	 * cgroup. Other errors: no set could be opened, for the reason in why.
	 */
	int (*add)(struct engine *engine, const struct engine_target *target, const struct cpulist *cpus,
		   struct totals_row *const *rows, uint64_t now, struct reason *why);

	/* Reads a target for the last time and closes it; slow files through the closer. now: CLOCK_MONOTONIC ns. */
	void (*remove)(struct engine *engine, enum scope scope, uint64_t id, uint64_t now);
	/* The same for one set of a target. In a takeover the root cgroup comes after the CPUs: an engine that
	 * counts both with the same counters lets the root begin where its CPU began. */
	void (*remove_set)(struct engine *engine, enum scope scope, uint64_t id, size_t set, uint64_t now);
	/* The same for all targets. */
	void (*finish)(struct engine *engine, uint64_t now);

	/* Reads all targets. */
	void (*read)(struct engine *engine, uint64_t now);

	/* What it takes at the switches of a CPU. False: nothing yet. NULL: nothing ever. */
	bool (*switch_cost)(const struct engine *engine, int cpu, struct switch_cost *ret);

	/* The state of a CPU by the last readings. */
	enum life (*life)(const struct engine *engine, int cpu);

	/* Begins a takeover, or ends it (NULL). Until then add() takes the target over from the predecessor. Sets of
	 * it that leave are left open: remove_set() ends them. */
	void (*takeover)(struct engine *engine, const struct engine_takeover *takeover);

	/* --- over a restart */

	/* Calls each() with every open file that may stay open while no daemon runs. */
	void (*each_stored)(const struct engine *engine, stored_visitor each, void *userdata);

	/*
	 * Writes what is open and where it stands into an image (counting/session/session-image.h), which names rows by
	 * their `number`. restore() makes it again in an engine without targets, with the files of the pool: an event
	 * without a file there is not open any more. -EBADMSG: save() can't have written this; -ENOMEM.
	 */
	void (*save)(const struct engine *engine, struct rewrite *out);
	int (*restore)(struct engine *engine, struct unpack *in, struct totals_row *const *rows, size_t nr_rows,
		       struct stored_pool *stored);
};

/* Does add() fail with this for want of files or memory? */
static inline bool engine_is_short(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

/* Does the set belong to this engine? */
static inline bool engine_owns(const struct engine *engine, enum scope scope, size_t set)
{
	return engine->env.plan->scope[scope].sets[set].engine == engine->ops;
}

/* The name of the engine that counts the set, or NULL. */
const char *engine_name_of(const struct set *set);

/* Notes which of the plan's sets are credited, before its counters are worked out. */
void engine_note_credited(struct plan *plan);

/* The parts that an engine's object starts with: ops, env with a reference to the plan. */
void engine_init(struct engine *engine, const struct engine_ops *ops, const struct engine_env *env);
void engine_release(struct engine *engine);

/* Sets whether new events of a cgroup that continues wait until the cgroup is added once more. */
void engine_defer(struct engine *engine, bool defers);
