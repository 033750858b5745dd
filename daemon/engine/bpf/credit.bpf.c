/* SPDX-License-Identifier: MIT */

/* Counts the context switches of each CPU. The types of the kernel are our own; libbpf relocates their members. */

#include "engine/bpf/layout.h"

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct credit_cell);
} cells SEC(".maps");

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct credit_cell *cell;
	__u32 zero = 0;

	if (prev->pid == next->pid)
		return 0;
	cell = bpf_map_lookup_elem(&cells, &zero);
	if (cell)
		cell->switches++;
	return 0;
}

/* The licence of the program as the kernel sees it: helpers that are for GPL only would refuse MIT alone. */
char licence[] SEC("license") = "Dual MIT/GPL";
