/* SPDX-License-Identifier: MIT */

/*
 * Credits what the CPUs' events have counted to the cgroup that ran: at each switch of the scheduler between two
 * cgroups, when a running task moves to another cgroup, and when the daemon asks for it, which it does before it reads.
 * layout.h tells the memory in which that happens.
 *
 * The cgroup that is credited is the one that was remembered when its task came to the CPU. If the task that leaves is
 * of another, it has been moved meanwhile, or the switch to it was hidden from tracing, as on some virtual machines
 * those from the tasks of the machine's keeper are. If it was not moved, its own cgroup is credited.
 *
 * Programs of one CPU do not run at the same time, but for interrupts: the daemon's request can meet a CPU in the
 * middle of another program, and then has to be made again.
 */

#include "engine/bpf/layout.h"

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* What is needed of the kernel's types; CO-RE finds the members' places when the programs are loaded. */
#define KERNEL __attribute__((preserve_access_index))

struct kernfs_node {
	__u64 id;
} KERNEL;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} KERNEL;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} KERNEL;

enum cgroup_subsys_id {
	perf_event_cgrp_id = 0,
};

struct css_set {
	struct cgroup *dfl_cgrp;
	struct cgroup_subsys_state *subsys[1];
} KERNEL;

struct task_struct {
	struct css_set *cgroups;
	int tgid;
	int on_cpu;
} KERNEL;

/* Set before the programs are loaded. */
const volatile __u32 nr_cpus = 1; /* possible ones */
const volatile __u32 max_events = CREDIT_EVENTS_MAX;
const volatile __u32 max_sets = CREDIT_SETS_MAX;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct credit_config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* nr_cpus */
	__type(key, __u32);
	__type(value, struct credit_cpu);
} cpus SEC(".maps");

/* From the process of a task that was moved to another cgroup while it ran, of late, to when that was: CLOCK_MONOTONIC
 * ns. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} moves SEC(".maps");

/* By CPU × max_events + event. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

/* From a cgroup's id to its slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} ids SEC(".maps");

/* The same for cgroups that nobody asks for: the slot of an ancestor. The least used are forgotten. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} aliases SEC(".maps");

/* Slots that are free. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__uint(value_size, sizeof(__u32));
} vacant SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct credit_slot);
} slots SEC(".maps");

/* By slot × nr_cpus + CPU. Its value is as long as max_sets and max_events ask for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64));
} cells SEC(".maps");

/* --- slots */

/* The cgroup of a task, its id, and the task's process. */
struct owner {
	struct cgroup *cgroup;
	__u64 id;
	__u32 process;
};

static __always_inline struct cgroup *parent_of(struct cgroup *cgroup)
{
	/* A cgroup begins with its own state (cgroup.self). */
	return (struct cgroup *)BPF_CORE_READ(cgroup, self.parent);
}

static __always_inline __u32 *find_slot(__u64 id)
{
	__u32 *slot = bpf_map_lookup_elem(&ids, &id);

	return slot ? slot : bpf_map_lookup_elem(&aliases, &id);
}

/* The slot of the nearest ancestor that has one. */
static __noinline __u32 ancestor_slot(struct cgroup *cgroup)
{
	for (int i = 0; i < CREDIT_DEPTH_MAX; i++) {
		__u32 *slot;

		cgroup = parent_of(cgroup);
		if (!cgroup)
			break;
		slot = find_slot(BPF_CORE_READ(cgroup, kn, id));
		if (slot)
			return *slot;
	}
	return CREDIT_ROOT_SLOT;
}

/* Gives the slot to the cgroup. */
static __noinline int take_slot(__u32 slot, struct cgroup *cgroup, __u64 id)
{
	struct credit_slot *owner = bpf_map_lookup_elem(&slots, &slot);
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
	owner->id = id;
	return bpf_map_update_elem(&ids, &id, &slot, BPF_NOEXIST);
}

/* A cgroup that runs for the first time, or is not known any more. */
static __noinline __u32 new_slot(struct cgroup *cgroup, __u64 id, struct credit_cpu *cpu)
{
	__u32 slot = CREDIT_ROOT_SLOT, *other;

	if (!cpu)
		return CREDIT_ROOT_SLOT;
	if (bpf_map_pop_elem(&vacant, &slot)) {
		cpu->unplaced++;
		return ancestor_slot(cgroup);
	}
	if (take_slot(slot, cgroup, id) == 0)
		return slot;
	/* Another CPU was faster. */
	bpf_map_push_elem(&vacant, &slot, 0);
	other = find_slot(id);
	return other ? *other : ancestor_slot(cgroup);
}

static __always_inline void remember(struct credit_cpu *cpu, const struct owner *owner)
{
	__u32 *slot = find_slot(owner->id);

	cpu->slot = slot ? *slot : new_slot(owner->cgroup, owner->id, cpu);
	cpu->cgroup = owner->id;
}

/* --- crediting */

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

/* Adds what the CPU's events have counted since they were last read to the cell of the remembered cgroup. What the
 * kernel counts of a switch after this program has run belongs to the one that leaves. */
static __always_inline void credit(struct credit_cpu *cpu, __u32 number, bool at_switch, bool flushes)
{
	__u32 zero = 0, key = (__u32)cpu->slot * nr_cpus + number;
	__u64 *cell = bpf_map_lookup_elem(&cells, &key);
	struct credit_config *settings = bpf_map_lookup_elem(&config, &zero);

	if (!cell || !settings)
		return;
	cell[CREDIT_CELL_CREDITS]++;
	for (__u32 i = 0; i < CREDIT_EVENTS_MAX; i++) {
		struct bpf_perf_event_value now;
		__u64 value;
		bool known;

		if (i >= max_events || i >= settings->nr_events)
			break;
		key = number * max_events + i;
		known = cpu->states[i] == CREDIT_COUNTS;
		if (!settings->events[i].used || (!known && (!flushes || cpu->states[i] == CREDIT_ENDED)) ||
		    bpf_perf_event_read_value(&events, key, &now, sizeof(now)))
			continue;
		value = now.counter + (at_switch && settings->events[i].at_switch);
		if (settings->events[i].leads)
			credit_times(cell, cpu, settings->events[i].set, &now, known);
		if (!known || value > cpu->values[i]) {
			if (known)
				cell[CREDIT_CELL_EVENTS(max_sets) + i] += value - cpu->values[i];
			cpu->values[i] = value;
		}
		if (flushes)
			cpu->states[i] = settings->events[i].used == CREDIT_ENDING ? CREDIT_ENDED : CREDIT_COUNTS;
	}
}

static __always_inline struct credit_cpu *this_cpu(__u32 *number)
{
	*number = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cpus, number);
}

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

/* Has the task's process been moved to another cgroup since then? */
static __always_inline bool has_moved(const struct owner *owner, __u64 since)
{
	__u32 process = owner->process;
	__u64 *when = bpf_map_lookup_elem(&moves, &process);

	return when && *when >= since;
}

/* Credits who has run here up to now, `leaves` being the cgroup of its task, and remembers who comes. */
static __always_inline int credit_and_remember(const struct owner *leaves, const struct owner *comes, bool at_switch,
					       bool flushes)
{
	__u32 number;
	struct credit_cpu *cpu = this_cpu(&number);
	__u64 begin;

	if (!cpu || (!flushes && cpu->cgroup == comes->id && leaves->id == comes->id))
		return 0;
	if (cpu->busy) {
		cpu->passed++;
		return 1;
	}
	begin = bpf_ktime_get_ns();
	*(volatile credit_word *)&cpu->busy = 1;
	if (cpu->cgroup != leaves->id && !has_moved(leaves, cpu->since))
		remember(cpu, leaves);
	credit(cpu, number, at_switch, flushes);
	remember(cpu, comes);
	cpu->since = bpf_ktime_get_ns();
	if (!flushes) {
		cpu->switches++;
		cpu->ns += cpu->since - begin;
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
		leaves.process = prev->tgid;
		comes.cgroup = next->cgroups->dfl_cgrp;
		comes.id = comes.cgroup->kn->id;
		comes.process = next->tgid;
	}
	credit_and_remember(&leaves, &comes, true, false);
	return 0;
}

/* A task has been moved, perhaps the one that runs here, which has moved itself. One that runs on another CPU is seen
 * there at the next switch, or when the daemon reads: until then it counts for the cgroup that it has left. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_attach, struct cgroup *to, const char *path, struct task_struct *task)
{
	struct owner mover = owner_of((struct task_struct *)bpf_get_current_task());
	__u64 now = bpf_ktime_get_ns();
	__u32 process = task->tgid;

	/* One that does not run has nothing that is not credited. */
	if (task->on_cpu)
		bpf_map_update_elem(&moves, &process, &now, BPF_ANY);
	credit_and_remember(&mover, &mover, false, false);
	return 0;
}

/* What the daemon has run on each CPU before it reads (BPF_PROG_TEST_RUN). 1: it met another program there. */
SEC("raw_tp")
int flush(void *context)
{
	struct owner owner = owner_of((struct task_struct *)bpf_get_current_task());

	return credit_and_remember(&owner, &owner, false, true);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
