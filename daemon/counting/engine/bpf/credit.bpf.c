/* SPDX-License-Identifier: MIT */

/*
 * Credits what the CPUs' events have counted to the cgroup that ran: at each switch of the scheduler between two
 * cgroups, when a running task moves to another cgroup, and when the daemon asks for it, which it does before it reads.
 * layout.h tells the memory in which that happens.
 *
 * The cgroup that is credited is the one that was remembered when its task came to the CPU: it may have been moved to
 * another meanwhile. If it is another task that leaves, the switch to it was hidden from tracing, as on some virtual
 * machines those from the tasks of the machine's keeper, process 1, are. Then its own cgroup is credited, and the
 * process that was seen to come last, which has hidden the switch, is noted down: from then on there is a credit
 * whenever a task of it comes, so that a hidden switch takes along only what the hidden task itself has counted.
 *
 * Programs of one CPU do not run at the same time, but for interrupts: the daemon's request can meet a CPU in the
 * middle of another program, and then has to be made again.
 */

#include "counting/engine/bpf/credit-maps.h"
#include "counting/engine/bpf/kernel-types.h"

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* From a cgroup that is nested too deeply, programs go up by so many levels. The kernel checks each round of a loop. */
#define CLIMB_MAX 64

#define INIT_PROCESS 1

#define NO_SLOT ((__u32)-1)
#define NO_CELL (-1)

/* --- slots
 *
 * The functions that find slots and give them away are global: the kernel checks each of them once, and not for each
 * way that leads there, which took it longer than all the rest. They take addresses as numbers, since it asks for that.
 */

static __always_inline struct credit_cpu *this_cpu(__u32 *number)
{
	*number = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cpus, number);
}

static __always_inline struct credit_slot *slot_at(__u32 slot)
{
	__u32 chunk = slot / CREDIT_CHUNK, place = slot % CREDIT_CHUNK;
	void *map = bpf_map_lookup_elem(&slots, &chunk);

	return map ? bpf_map_lookup_elem(map, &place) : NULL;
}

static __always_inline __u64 *cell_at(__u32 number, __u32 cell)
{
	__u32 chunk = number * CREDIT_CHUNKS(max_slots) + cell / CREDIT_CHUNK, place = cell % CREDIT_CHUNK;
	void *map = bpf_map_lookup_elem(&cells, &chunk);

	return map ? bpf_map_lookup_elem(map, &place) : NULL;
}

/* The cgroup of a task, its id, the task and its process. The task is known by its address: a thread that executes a
 * program takes over the id of its process. */
struct owner {
	struct cgroup *cgroup;
	__u64 id;
	__u64 task;
	__u32 thread; /* the task's id */
	__u32 process;
};

static __always_inline struct cgroup *parent_of(struct cgroup *cgroup)
{
	/* A cgroup begins with its own state (cgroup.self). */
	return (struct cgroup *)BPF_CORE_READ(cgroup, self.parent);
}

/* The slot for the cgroup's counts, or NO_SLOT. */
__noinline __u32 find_slot(__u64 id)
{
	__u32 *own = bpf_map_lookup_elem(&ids, &id), slot;
	struct credit_alias *alias;
	struct credit_slot *owner;

	if (own)
		return *own;
	alias = bpf_map_lookup_elem(&aliases, &id);
	if (!alias)
		return NO_SLOT;
	slot = alias->slot;
	owner = slot_at(slot);
	return owner && (__u32)owner->generation == alias->generation ? slot : NO_SLOT;
}

static __always_inline bool has_slot(__u64 id)
{
	return find_slot(id) != NO_SLOT;
}

static __always_inline bool is_deep(struct cgroup *cgroup)
{
	return BPF_CORE_READ(cgroup, level) > CREDIT_DEPTH_MAX;
}

/* The slot of the nearest ancestor that has one. */
__noinline __u32 ancestor_slot(__u64 address)
{
	struct cgroup *cgroup = (struct cgroup *)address;

	/* The last one that can have none. */
	for (int i = 0; i < CLIMB_MAX; i++) {
		struct cgroup *parent = parent_of(cgroup);

		if (!is_deep(parent))
			break;
		cgroup = parent;
	}
	for (int i = 0; i <= CREDIT_DEPTH_MAX; i++) {
		__u32 slot;

		cgroup = parent_of(cgroup);
		if (!cgroup)
			break;
		slot = find_slot(BPF_CORE_READ(cgroup, kn, id));
		if (slot != NO_SLOT)
			return slot;
	}
	return CREDIT_ROOT_SLOT;
}

/* Gives the slot to the cgroup. */
__noinline int take_slot(__u32 slot, __u64 address, __u64 id)
{
	struct cgroup *cgroup = (struct cgroup *)address;
	struct credit_slot *owner = slot_at(slot);
	int nr = 0;

	if (!owner)
		return -1;
	for (; nr < CREDIT_DEPTH_MAX; nr++) {
		cgroup = parent_of(cgroup);
		if (!cgroup)
			break;
		owner->ancestors[nr] = BPF_CORE_READ(cgroup, kn, id);
	}
	owner->nr_ancestors = nr;
	if (bpf_map_update_elem(&ids, &id, &slot, BPF_NOEXIST))
		return -1;
	owner->id = id;
	return 0;
}

/* A cgroup that runs for the first time, or is not known any more. */
__noinline __u32 new_slot(__u64 cgroup, __u64 id)
{
	__u32 slot = CREDIT_ROOT_SLOT, number;
	struct credit_cpu *cpu = this_cpu(&number);

	if (!cpu)
		return CREDIT_ROOT_SLOT;
	if (is_deep((struct cgroup *)cgroup))
		return ancestor_slot(cgroup);
	if (bpf_map_pop_elem(&vacant, &slot)) {
		cpu->unplaced++;
		return ancestor_slot(cgroup);
	}
	if (take_slot(slot, cgroup, id) == 0)
		return slot;
	/* Another CPU was faster. */
	bpf_map_push_elem(&vacant, &slot, 0);
	slot = find_slot(id);
	return slot != NO_SLOT ? slot : ancestor_slot(cgroup);
}

/* The slot's cell on this CPU, which it gets now if it has none. NO_CELL: there are none left beyond so many. */
__noinline int find_cell(__u32 number, __u32 slot, __u32 spare)
{
	struct credit_cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	struct credit_slot *owner = slot_at(slot);
	__u64 place = number, *cell;

	if (!cpu || !owner)
		return NO_CELL;
	if (slot == CREDIT_ROOT_SLOT)
		return CREDIT_ROOT_CELL;
	/* One register is compared and used, and not before: by that the kernel knows that it is in bounds. */
	barrier_var(place);
	if (place >= nr_cpus)
		return NO_CELL;
	if (owner->cells[place])
		return owner->cells[place];
	if (cpu->nr_cells + spare >= cpu->max_cells)
		return NO_CELL;
	cell = cell_at(number, cpu->nr_cells);
	if (!cell)
		return NO_CELL;
	cell[CREDIT_CELL_SLOT] = slot;
	owner->cells[place] = cpu->nr_cells++;
	return owner->cells[place];
}

/* The slot has no cell on this CPU: the slot of the nearest ancestor that has one, or gets one of the last ones. */
__noinline __u32 ancestor_with_cell(__u32 number, __u32 slot)
{
	struct credit_slot *owner = slot_at(slot), *above;

	if (!owner)
		return CREDIT_ROOT_SLOT;
	owner->lacks = 1;
	for (__u32 i = 0; i < CREDIT_DEPTH_MAX && i < owner->nr_ancestors; i++) {
		slot = find_slot(owner->ancestors[i]);
		if (slot == NO_SLOT)
			continue;
		if (find_cell(number, slot, 0) != NO_CELL)
			return slot;
		above = slot_at(slot);
		if (above)
			above->lacks = 1;
	}
	return CREDIT_ROOT_SLOT;
}

static __always_inline void remember(struct credit_cpu *cpu, __u32 number, const struct owner *owner)
{
	struct cgroup *cgroup = owner->cgroup;
	__u32 slot = find_slot(owner->id);
	__u64 address = 0;
	int cell;

	if (slot == NO_SLOT) {
		bpf_probe_read_kernel(&address, sizeof(address), &cgroup);
		slot = new_slot(address, owner->id);
	}
	cell = find_cell(number, slot, CREDIT_CELLS_OF_ANCESTORS);
	if (cell == NO_CELL) {
		slot = ancestor_with_cell(number, slot);
		cell = find_cell(number, slot, 0);
		/* After the slots' marks: who sees it sees them. */
		__sync_fetch_and_add(&cpu->unplaced, 1);
	}
	cpu->slot = slot;
	cpu->cell = cell == NO_CELL ? CREDIT_ROOT_CELL : cell;
	cpu->cgroup = owner->id;
}

/* --- crediting */

/* Why and when a program credits. */
enum occasion {
	AT_SWITCH = 1,
	FLUSHES = 2, /* the daemon asks for it */
	RESUMES = 4, /* a pause ends */
};

static __always_inline void credit_times(__u64 *cell, struct credit_cpu *cpu, __u32 set,
					 const struct bpf_perf_event_value *now, bool known)
{
	if (set >= CREDIT_SETS_MAX || set >= max_sets)
		return;
	if (known && now->enabled > cpu->enabled[set])
		cell[CREDIT_CELL_ENABLED(set)] += now->enabled - cpu->enabled[set];
	if (known && now->running > cpu->running[set])
		cell[CREDIT_CELL_RUNNING(set)] += now->running - cpu->running[set];
	cpu->enabled[set] = now->enabled;
	cpu->running[set] = now->running;
}

/* The same of limited events. Their times are by the clock, without the time that the programs take, which is longer
 * when these events are read: so a cgroup counts as much in a time that is credited as in a pause. */
static __always_inline void credit_limited_times(__u64 *cell, struct credit_cpu *cpu, __u32 set,
						 const struct bpf_perf_event_value *now, __u64 elapsed)
{
	__u64 enabled, running;

	if (set >= CREDIT_SETS_MAX || set >= max_sets)
		return;
	enabled = now->enabled - cpu->enabled[set];
	running = now->running - cpu->running[set];
	cell[CREDIT_CELL_ENABLED(set)] += elapsed;
	cell[CREDIT_CELL_RUNNING(set)] += running >= enabled || running > elapsed ? elapsed : running;
	cell[CREDIT_CELL_READINGS(set)]++;
	cpu->enabled[set] = now->enabled;
	cpu->running[set] = now->running;
}

static __always_inline void credit_pause(__u64 *cell, __u32 set, __u64 elapsed)
{
	if (set < CREDIT_SETS_MAX && set < max_sets)
		cell[CREDIT_CELL_ENABLED(set)] += elapsed;
}

/* Adds what the CPU's event of that number has counted since it was last read to its cell of the remembered cgroup.
 * What the kernel counts of a switch after this program has run belongs to the one that leaves. Global, so that the
 * kernel checks it once and not for each event. */
__noinline int credit_event(__u32 number, __u64 i, __u32 flags, __u64 elapsed)
{
	bool at_switch = flags & AT_SWITCH, flushes = flags & FLUSHES, resumes = flags & RESUMES;
	__u32 zero = 0;
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);
	struct credit_cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	const struct credit_event *event;
	struct bpf_perf_event_value now;
	bool known, pauses;
	__u64 value, *cell;

	/* The kernel knows by this that it is in bounds; a comparison is lost in what the compiler makes of it. */
	i &= CREDIT_EVENTS_MAX - 1;
	if (!settings || !cpu || i >= max_events)
		return 0;
	cell = cell_at(number, cpu->cell);
	event = &settings->events[i];
	known = cpu->states[i] == CREDIT_COUNTS;
	pauses = event->limited && cpu->pauses;
	if (!cell || !event->used || (!known && (!flushes || cpu->states[i] == CREDIT_ENDED)))
		return 0;
	if (known && pauses && event->leads)
		credit_pause(cell, event->set, elapsed);
	if (pauses && !flushes && !resumes)
		return 0;
	/* It is pinned, and has no counter here: it counts anew when it has. */
	if (bpf_perf_event_read_value(&events, number * max_events + i, &now, sizeof(now))) {
		cpu->states[i] = event->used == CREDIT_ENDING ? CREDIT_ENDED : CREDIT_NEW;
		return 0;
	}
	value = now.counter + (at_switch && event->at_switch);
	if (event->leads && event->limited && known && !pauses)
		credit_limited_times(cell, cpu, event->set, &now, elapsed);
	else if (event->leads)
		credit_times(cell, cpu, event->set, &now, known && !pauses);
	if (!known || value > cpu->values[i]) {
		if (known && !pauses)
			cell[CREDIT_CELL_EVENTS(max_sets) + i] += value - cpu->values[i];
		if (known)
			cpu->counted[i] += value - cpu->values[i];
		cpu->values[i] = value;
	}
	if (flushes)
		cpu->states[i] = event->used == CREDIT_ENDING ? CREDIT_ENDED : CREDIT_COUNTS;
	return 0;
}

/* The cell is to be read: call this when all is in it. No other program marks cells of this CPU, and a mark that a
 * reader removes meanwhile may come back. */
static __always_inline void mark(__u32 number, __u32 cell)
{
	__u32 key = number * CREDIT_MARK_WORDS(max_slots) + cell / 64;
	__u64 *word = bpf_map_lookup_elem(&marks, &key), bit = 1ULL << cell % 64;

	if (word && !(*(volatile __u64 *)word & bit))
		*(volatile __u64 *)word |= bit;
}

/* The remembered cgroup gets what has been counted up to now. Global, as above. */
__noinline int credit(__u32 number, __u32 flags, __u64 elapsed)
{
	__u32 zero = 0;
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);
	struct credit_cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	bool passes;
	__u64 *cell;

	if (!settings || !cpu)
		return 0;
	cell = cell_at(number, cpu->cell);
	if (!cell)
		return 0;
	passes = cpu->pauses && !(flags & (FLUSHES | RESUMES));
	cell[CREDIT_CELL_CREDITS]++;
	for (__u32 i = 0; i < CREDIT_EVENTS_MAX; i++) {
		if (i >= max_events || i >= settings->nr_events)
			break;
		/* The cost of a switch in a pause is in the counts that are scaled: it is kept low. */
		if (passes && settings->events[i].limited) {
			if (settings->events[i].leads && cpu->states[i] == CREDIT_COUNTS)
				credit_pause(cell, settings->events[i].set, elapsed);
			continue;
		}
		credit_event(number, i, flags, elapsed);
	}
	return 0;
}

/* Credits limited events once more at once. compares: with what they were a reading before, at which nothing else was
 * read, which is what a reading makes each of them count. Global, as above. */
__noinline int repeat(__u32 number, __u32 compares)
{
	__u32 zero = 0;
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);
	struct credit_cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (!settings || !cpu)
		return 0;
	for (__u32 i = 0; i < CREDIT_EVENTS_MAX; i++) {
		__u64 before = cpu->values[i];

		if (i >= max_events || i >= settings->nr_events)
			break;
		if (!settings->events[i].limited || cpu->states[i] != CREDIT_COUNTS)
			continue;
		credit_event(number, i, 0, 0);
		if (!compares)
			continue;
		cpu->repeated[i] += cpu->values[i] - before;
		cpu->again[i]++;
	}
	return 0;
}

/* --- the budget */

/* Fills up the budget for the time that has passed. Does a pause end? */
static __always_inline bool fill_budget(struct credit_cpu *cpu, __u64 elapsed)
{
	__u32 zero = 0;
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);

	if (!settings || !settings->budget)
		return cpu->pauses;
	/* It is full long before. */
	if (elapsed > CREDIT_BUDGET_MAX * CREDIT_PPM)
		elapsed = CREDIT_BUDGET_MAX * CREDIT_PPM;
	cpu->budget += (long long)(elapsed * settings->budget / CREDIT_PPM);
	if (cpu->budget > (long long)CREDIT_BUDGET_MAX)
		cpu->budget = CREDIT_BUDGET_MAX;
	return cpu->pauses && cpu->budget >= (long long)cpu->resumes_at;
}

static __always_inline void take_from_budget(struct credit_cpu *cpu, __u64 ns)
{
	__u32 zero = 0;
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);

	if (!settings || !settings->budget || cpu->pauses)
		return;
	cpu->budget -= (long long)ns;
	if (cpu->budget > 0)
		return;
	if (cpu->budget < -(long long)CREDIT_BUDGET_MAX)
		cpu->budget = -(long long)CREDIT_BUDGET_MAX;
	cpu->pauses = 1;
	cpu->nr_pauses++;
	cpu->resumes_at = CREDIT_BUDGET_MAX / 2 + bpf_get_prandom_u32() % (CREDIT_BUDGET_MAX / 2);
}

/* --- who runs */

static __always_inline bool is_v1(void)
{
	__u32 zero = 0;
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);

	return settings && settings->v1;
}

/* The task's cgroup in the hierarchy that perf_event is in. */
static __always_inline struct cgroup *cgroup_of(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state **states, *state = NULL;

	if (!is_v1())
		return BPF_CORE_READ(set, dfl_cgrp);
	states = (struct cgroup_subsys_state **)((char *)set + bpf_core_field_offset(struct css_set, subsys));
	bpf_probe_read_kernel(&state, sizeof(state),
			      states + bpf_core_enum_value(enum cgroup_subsys_id, perf_event_cgrp_id));
	return BPF_CORE_READ(state, cgroup);
}

/* The switch to the one that leaves was hidden, and it was from the one that was the last to come. */
static __always_inline void note_hidden(struct credit_cpu *cpu)
{
	__u32 zero = 0, process = (__u32)cpu->process;
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);
	__u8 yes = 1;

	cpu->hidden++;
	if (settings && process && bpf_map_update_elem(&hidden, &process, &yes, BPF_ANY) == 0)
		settings->hides = 1;
}

/* Process 1 is not waited for to do it once: on other machines it runs seldom, and a credit more does no harm. */
static __always_inline bool may_hide(__u32 process)
{
	__u32 zero = 0;
	struct credit_config *settings;

	if (process == INIT_PROCESS)
		return true;
	settings = bpf_map_lookup_elem(&config, &zero);
	return settings && settings->hides && bpf_map_lookup_elem(&hidden, &process);
}

/* Credits who has run here up to now, `leaves` being the cgroup of its task, and remembers who comes. */
static __always_inline int credit_and_remember(const struct owner *leaves, const struct owner *comes, bool at_switch,
					       bool flushes)
{
	__u32 number;
	struct credit_cpu *cpu = this_cpu(&number);
	__u64 begin, took, elapsed;
	bool resumes;

	/* CPUs that are not counted are left alone. */
	if (!cpu || (!cpu->counts && !flushes))
		return 0;
	if (!flushes && cpu->cgroup == comes->id && leaves->id == comes->id &&
	    !(at_switch && may_hide(comes->process))) {
		cpu->task = comes->task;
		cpu->process = comes->process;
		return 0;
	}
	if (cpu->busy) {
		/* The daemon asks again. */
		cpu->passed += !flushes;
		return 1;
	}
	begin = bpf_ktime_get_ns();
	*(volatile credit_word *)&cpu->busy = 1;
	/* The switch to it was hidden. If not, it may have been moved since. */
	if (cpu->task != leaves->task) {
		if (cpu->cgroup && cpu->cgroup != leaves->id)
			note_hidden(cpu);
		remember(cpu, number, leaves);
	}
	elapsed = cpu->since && begin > cpu->since ? begin - cpu->since : 0;
	resumes = fill_budget(cpu, elapsed);
	credit(number, (at_switch ? AT_SWITCH : 0) | (flushes ? FLUSHES : 0) | (resumes ? RESUMES : 0), elapsed);
	if (at_switch && cpu->repeats && !cpu->pauses) {
		cpu->repeats--;
		repeat(number, 0);
		repeat(number, 1);
	}
	mark(number, (__u32)cpu->cell);
	remember(cpu, number, comes);
	cpu->task = comes->task;
	cpu->process = comes->process;
	cpu->since = bpf_ktime_get_ns();
	if (resumes) {
		cpu->pauses = 0;
		cpu->repeats = CREDIT_REPEATS;
	}
	if (!flushes) {
		took = cpu->since - begin;
		cpu->switches++;
		cpu->ns += took;
		take_from_budget(cpu, took);
	}
	*(volatile credit_word *)&cpu->busy = 0;
	return 0;
}

static __always_inline struct owner owner_of(struct task_struct *task)
{
	struct cgroup *cgroup = cgroup_of(task);

	return (struct owner){
		.cgroup = cgroup,
		.id = BPF_CORE_READ(cgroup, kn, id),
		.task = (__u64)task,
		.thread = BPF_CORE_READ(task, pid),
		.process = BPF_CORE_READ(task, tgid),
	};
}

/* Before the scheduler switches, with interrupts off. Most switches are within a cgroup: nothing is read then. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct owner leaves, comes;

	if (is_v1()) {
		leaves = owner_of(prev);
		comes = owner_of(next);
	} else {
		leaves.cgroup = prev->cgroups->dfl_cgrp;
		leaves.id = leaves.cgroup->kn->id;
		leaves.task = (__u64)prev;
		leaves.thread = prev->pid;
		leaves.process = prev->tgid;
		comes.cgroup = next->cgroups->dfl_cgrp;
		comes.id = comes.cgroup->kn->id;
		comes.task = (__u64)next;
		comes.thread = next->pid;
		comes.process = next->tgid;
	}
	credit_and_remember(&leaves, &comes, true, false);
	return 0;
}

/* Where the task was moved, by itself or with its process. NULL: that is not known. */
static __always_inline __u64 *find_home(const struct owner *owner)
{
	__u64 *home = bpf_map_lookup_elem(&homes, &owner->thread);

	return home ? home : bpf_map_lookup_elem(&homes, &owner->process);
}

/* A task has been moved, perhaps the one that runs here, which has moved itself. One that runs on another CPU is seen
 * there, by on_call(). */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_attach, struct cgroup *to, const char *path, struct task_struct *task, bool whole_process)
{
	struct task_struct *current = (struct task_struct *)bpf_get_current_task();
	struct owner mover = owner_of(current), leaves = mover;
	/* In the hierarchy that counts, whatever hierarchy it has been moved in. */
	struct owner moved = owner_of(task);
	bool moves_itself = whole_process ? moved.process == mover.process : moved.task == mover.task;
	__u64 *home = find_home(&mover);

	/* Where it was, for the case that the switch to it was hidden; else the CPU knows that. One that has never been
	 * moved was where it was made. */
	if (moves_itself && home && has_slot(*home)) {
		leaves.id = *home;
	} else if (moves_itself && !home) {
		struct owner parent = owner_of(BPF_CORE_READ(current, real_parent));

		leaves.cgroup = parent.cgroup;
		leaves.id = parent.id;
	}
	bpf_map_update_elem(&homes, &moved.thread, &moved.id, BPF_ANY);
	credit_and_remember(&leaves, &mover, false, false);
	return 0;
}

/* Another CPU has this one call a function. It does when it has moved the task that runs here, for the sake of perf's
 * own events (perf_cgroup_attach(), kernel/events/core.c): what has been counted so far is of the cgroup it has left.
 * Kernels have one tracepoint or another for that. Without any, the move is seen at the next switch, or when the daemon
 * reads. */
static __always_inline int on_call(void)
{
	__u64 task = bpf_get_current_task();
	__u32 number;
	struct credit_cpu *cpu = this_cpu(&number);
	struct owner leaves, owner;
	__u64 *home;

	/* Calls are frequent, and moves are rare. */
	if (!cpu || cpu->cgroup == 0 || (cpu->task == task && !is_v1() && cpu->cgroup == bpf_get_current_cgroup_id()))
		return 0;
	owner = owner_of((struct task_struct *)bpf_get_current_task());
	leaves = owner;
	if (cpu->task != task) {
		/* The switch to it was hidden: it is known where it was if it had been moved there. */
		home = find_home(&owner);
		if (!home || *home == owner.id || !has_slot(*home))
			return 0;
		leaves.id = *home;
	} else if (cpu->cgroup == owner.id) {
		return 0;
	}
	return credit_and_remember(&leaves, &owner, false, false);
}

/* Newer kernels. */
SEC("tp_btf/csd_function_entry")
int on_csd(void *context)
{
	return on_call();
}

SEC("tp_btf/call_function_single_entry")
int on_x86_call(void *context)
{
	return on_call();
}

SEC("tp_btf/ipi_entry")
int on_arm_call(void *context)
{
	return on_call();
}

/* What the daemon has run on each CPU before it reads (BPF_PROG_TEST_RUN). 1: it met another program there. */
SEC("raw_tp")
int flush(void *context)
{
	struct owner owner = owner_of((struct task_struct *)bpf_get_current_task());

	return credit_and_remember(&owner, &owner, false, true);
}

/* Counting begins with this reading. */
static __always_inline void begin_event(struct credit_cpu *cpu, __u32 number, __u32 i)
{
	__u32 zero = 0;
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);
	const struct credit_event *event;
	struct bpf_perf_event_value now;

	i &= CREDIT_EVENTS_MAX - 1;
	if (!settings)
		return;
	event = &settings->events[i];
	if (event->used != CREDIT_USED ||
	    bpf_perf_event_read_value(&events, number * max_events + i, &now, sizeof(now)))
		return;
	cpu->values[i] = now.counter;
	if (event->leads && event->set < CREDIT_SETS_MAX) {
		cpu->enabled[event->set] = now.enabled;
		cpu->running[event->set] = now.running;
	}
	cpu->states[i] = CREDIT_COUNTS;
}

/* What the daemon has run on each CPU when this part takes over: it begins to count there, and the former part, which
 * has been told to, ends, with no event between the two. So nothing is lost or counted twice, and each of them knows
 * who runs. It calls no function of its own: arm64 has no tail calls beside these before Linux 6.0.
 * 1: it met another program there; CREDIT_ALONE: the former part could not be run. */
SEC("raw_tp")
int succeed(void *context)
{
	__u32 number;
	struct credit_cpu *cpu = this_cpu(&number);
	const struct credit_cpu *former = bpf_map_lookup_elem(&former_cpus, &number);

	if (!cpu || !former)
		return CREDIT_ALONE;
	if (cpu->busy || former->busy)
		return 1;
	for (__u32 i = 0; i < CREDIT_EVENTS_MAX && i < max_events; i++)
		begin_event(cpu, number, i);
	cpu->since = bpf_ktime_get_ns();
	bpf_tail_call(context, &former_flush, 0);
	return CREDIT_ALONE;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
