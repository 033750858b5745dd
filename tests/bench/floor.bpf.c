/* SPDX-License-Identifier: MIT */

/* The least that counting at switches can cost: reads the CPU's events at each switch, and does nothing with them. */

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MAX_EVENTS 16

struct task_struct;

/* Set before the program is loaded. */
const volatile __u32 nr_events = 0;

/* By CPU × nr_events + event. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 first = bpf_get_smp_processor_id() * nr_events;

	for (__u32 i = 0; i < MAX_EVENTS && i < nr_events; i++) {
		struct bpf_perf_event_value now;

		(void)bpf_perf_event_read_value(&events, first + i, &now, sizeof(now));
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
