/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The check that all cgroups together have what their CPU has counted: no more, and no less.
 *
 * Switches go on while slots are read, so that there is no moment at which both sides stand still. What a CPU has
 * counted is therefore noted before the slots are read and after that. What all cgroups are given from one reading on
 * lies, at each later one, between the least and the most that the CPU can have counted meanwhile: so an error of one
 * event is found once the CPU is quiet. What the CPU has counted is read when no program is at work there, since one
 * that is half way has not told yet which cell is to be read. A slot that is just being taken is not read yet: so one
 * reading beyond the two may be right, and two in a row are an error.
 *
 * Where something of a set has to be estimated or could not be read, the comparison begins anew.
 */

#include "counting/engine/bpf/target.h"

/* A set on a CPU. Counts are sums over its events. */
struct bpf_conservation {
	bool begun;
	bool estimated;		   /* since the last reading of all slots */
	bool doubted;		   /* the last comparison has failed */
	bool known;		   /* `before` is, at this reading */
	uint64_t before;	   /* what the CPU had counted before the slots were read */
	uint64_t base_least, base; /* the same before and after the reading from which on it is compared */
	uint64_t given;		   /* to cgroups since then */
};

/* When the part in the kernel is there. -ENOMEM. */
int conservation_open(struct bpf_engine *engine);

/* A reading of all slots begins. */
void conservation_begin(struct bpf_engine *engine);
/* A cgroup has been given so much of the set's events on the CPU. */
void conservation_add(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts);
/* What a cgroup has counted was estimated, or could not be read: this reading says nothing. */
void conservation_estimated(struct bpf_engine *engine, uint32_t cpu, size_t set);
/* All slots are read: errors are added to those of the part in the kernel. */
void conservation_end(struct bpf_engine *engine);
/* Counts of the set were passed over: it begins anew. */
void conservation_reset(struct bpf_engine *engine, size_t set);
