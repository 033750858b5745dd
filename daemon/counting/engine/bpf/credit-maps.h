/* SPDX-License-Identifier: MIT */
#pragma once

/* The maps of the BPF program (credit.bpf.c): what is in them is told in layout.h. */

#include "counting/engine/bpf/kernel-types.h"
#include "counting/engine/bpf/layout.h"

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* Set before the programs are loaded. */
const volatile __u32 nr_cpus = 1; /* possible ones */
const volatile __u32 max_slots = 1;
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

/* From a task to the cgroup it was moved to last, of late; a process that is moved as a whole is its first task. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} homes SEC(".maps");

/* Processes from whose tasks a switch was hidden. The least used are forgotten. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 128);
	__type(key, __u32);
	__type(value, __u8);
} hidden SEC(".maps");

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
	__type(value, struct credit_alias);
} aliases SEC(".maps");

/* Slots that are free. The last one that became free is the first to be taken, so that no more of the memory of slots
 * and cells is touched than cgroups run at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__uint(value_size, sizeof(__u32));
} vacant SEC(".maps");

/* Chunks of slots: mapped arrays of struct credit_slot, each as long as nr_cpus asks for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} slots SEC(".maps");

/* Chunks of cells: mapped arrays, whose values are as long as max_sets and max_events ask for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} cells SEC(".maps");

/* By CPU × CREDIT_MARK_WORDS + word. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} marks SEC(".maps");

/* The CPUs of the part in the kernel that this one takes over from, and that part's program `flush`. Needed once; where
 * there is no such part, the first has nothing to say, and the second is empty. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* nr_cpus */
	__type(key, __u32);
	__type(value, struct credit_cpu);
} former_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} former_flush SEC(".maps");
