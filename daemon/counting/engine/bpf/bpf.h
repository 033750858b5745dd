/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counting of cgroups by crediting: the CPUs' events, which engine/perf has open, are read when a CPU switches from one
 * cgroup to another, and what they have counted is the cgroup's that ran. So there are no more events with more cgroups
 * or deeper ones, and nothing is multiplexed for their sake. BPF programs do it in the kernel (credit.bpf.c).
 *
 * A cgroup's own tasks are credited to it alone. Its ancestors get the sum when the engine reads (slots.h): so a parent
 * is what it has counted by itself and what its children have, at every reading. The root cgroup is what the CPUs have,
 * which the perf engine sees to (counting/engine/perf/root.h). CPUs are read after their cgroups, so that these never
 * have more.
 *
 * Each set stands on a set of the CPUs with the same events (set_find_twin()). The planner sees that there is one.
 *
 * What it can't do: on a kernel without a tracepoint of calls between CPUs, tell apart what a task has done before and
 * after another process has moved it to another cgroup, while it runs: that is the former cgroup's until the CPU's next
 * switch, or reading. Nor, on any kernel, where the switch to that task was hidden from tracing (credit.bpf.c).
 */

#include "counting/engine/bpf/load.h"
#include "counting/engine/engine.h"

/* Is the engine in this build, and can its programs be loaded here, for that many cgroups? Negative errno with the
 * reason. The engine that is made next counts with what was loaded for this trial. sysroot: as in struct engine_env. */
int bpf_is_available(uint64_t max_cgroups, const char *sysroot, struct reason *why);
/* No engine was made that could. */
void bpf_end_trial(void);

/* The load by which bpf_is_available() would find out; NULL: it knows. */
struct bpf_load *bpf_load_to_try(uint64_t max_cgroups, const char *sysroot);
/* The load that `next`, which is of engine_bpf or NULL, needs to take over from `from`, which is the same; NULL: none,
 * or memory is short. v1: perf_event is in a v1 hierarchy. */
struct bpf_load *bpf_load_to_take_over(const struct engine *next, const struct engine *from, bool v1);

/* NULL: it is not in this build. */
extern const struct engine_ops *const engine_bpf;
