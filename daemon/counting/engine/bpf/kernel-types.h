/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the BPF programs need of the kernel's types. Members are where CO-RE finds them in the running kernel when the
 * programs are loaded: no other member has to be here, and their order is free.
 */

#define KERNEL __attribute__((preserve_access_index))

struct kernfs_node {
	unsigned long long id;
} KERNEL;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} KERNEL;

struct cgroup {
	struct cgroup_subsys_state self;
	int level; /* the number of its ancestors */
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
	struct task_struct *real_parent;
	int pid;
	int tgid;
} KERNEL;
