/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The part of the engine that is in the kernel: programs, their memory (layout.h), and what the daemon has put there.
 *
 * There is one as a rule, and it goes from one engine to the next at a reload and at a restart: what it counts does not
 * depend on the plan. Which event has which number does; the engine says it (wire).
 *
 * The programs are attached as long as the links are open, here or in systemd's fd store.
 */

#include "base/util/reason.h"
#include "counting/engine/bpf/layout.h"
#include "counting/engine/engine.h"
#include "counting/engine/kept.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_target;

enum bpf_file {
	BPF_FILE_CONFIG, /* maps */
	BPF_FILE_CPUS,
	BPF_FILE_EVENTS,
	BPF_FILE_IDS,
	BPF_FILE_ALIASES,
	BPF_FILE_VACANT,
	BPF_FILE_SLOTS,
	BPF_FILE_CELLS,
	BPF_FILE_MARKS,
	BPF_FILE_HOMES,
	BPF_FILE_HIDDEN,
	BPF_FILE_FLUSH,	    /* a program */
	BPF_FILE_ON_SWITCH, /* links */
	BPF_FILE_ON_ATTACH,
	BPF_FILE_ON_CALL, /* not on all kernels */
	_BPF_FILE_MAX,
};

struct bpf_sizes {
	uint32_t cpus;	       /* possible ones: their numbers are below it */
	uint32_t slots;	       /* at most */
	uint32_t events, sets; /* numbers of them */
};

/* What is known of a slot beside what is in the kernel's memory. */
struct bpf_slot {
	uint64_t seen_at; /* CLOCK_MONOTONIC ns at which it was seen to be taken by a cgroup; 0: not yet */
	bool taken;	  /* a cgroup has it, as far as that was seen */
	bool ran;	  /* it has been read, since the daemon was started */
	bool retired;	  /* no program finds it any more: the next reading of all is its last one */
	/* It has been read for the last time, and becomes free when an image says so: a successor that starts from one
	 * which does not would free it once more, when it is another cgroup's. */
	bool spent;
	uint64_t spent_before; /* the number of the image that is going to say so */
	/* Counts of a cgroup that is not a target, or was not when they were read (unclaimed.h), by CPU: the cgroup of
	 * that id, an ancestor, and those above it have them already. NULL: none. */
	uint64_t *unclaimed;
	size_t nr_unclaimed; /* CPUs in it: those of lower numbers */
	uint64_t claimed_by;
	struct bpf_target *target; /* the cgroup's, or NULL, as long as the engine's targets are … */
	uint64_t targets;	   /* … those of this number */
};

/* A chunk of slots or of cells (chunks.h). */
struct bpf_chunk {
	int fd;
	uint64_t id;  /* the kernel's, of the map */
	void *memory; /* mapped; NULL: there is none */
	void *known;  /* for each slot a struct bpf_slot; for each cell the words that have been read */
};

struct bpf_kernel {
	unsigned refs;
	struct bpf_sizes sizes;
	bool v1; /* perf_event is in a v1 hierarchy */
	int fds[_BPF_FILE_MAX];
	uint64_t ids[_BPF_FILE_MAX]; /* the kernel's, of each file; 0: there is none */

	/* Mapped: */
	struct credit_config *config;
	struct credit_cpu *cpus;
	uint64_t *marks;
	struct bpf_chunk *slots, *cells; /* by number */

	uint64_t nr_targets; /* numbers that were given to engines' targets, at each change of them */
	uint64_t *errors;    /* by CPU, see conservation.h: events by which both sides have differed */
	uint64_t *paused;    /* by CPU: beginnings and ends of pauses, at the last reading */
	uint64_t unplaced;   /* of all CPUs, at the last reading */
	uint64_t nr_added;   /* chunks that were added */
	uint64_t nr_images;  /* that tell of it; 0: nobody makes any */
	/* Files that are open while it takes over from another one: a program, and the map of the program that it has
	 * run. -1: it does not. */
	int succeed, former_flush;
	uint64_t *cell; /* a copy of one (cell.h) */
	/* Bits laid out like `marks`: a cell is to be read once more, although its mark is clear. */
	uint64_t *looked_at;
};

static inline size_t bpf_slot_size(const struct bpf_sizes *sizes)
{
	return (sizeof(struct credit_slot) + sizes->cpus * sizeof(unsigned) + 7) / 8 * 8;
}

static inline size_t bpf_cell_words(const struct bpf_sizes *sizes)
{
	return CREDIT_CELL_WORDS(sizes->sets, sizes->events);
}

/* The words that are kept of each cell: those of the last reading that counted, and the times of the last one. */
static inline size_t bpf_read_words(const struct bpf_sizes *sizes)
{
	return bpf_cell_words(sizes) + 2 * sizes->sets;
}

/* Loads the programs and attaches them (attempt.h). former: the part that it is going to take over from
 * (bpf_kernel_succeed()), or NULL: what is known there of processes is known here too. -errno with the reason. */
int bpf_kernel_load(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, const struct bpf_kernel *former,
		    struct reason *why);
/* Counting begins, and ends in the former part, of which each event in use has to be CREDIT_ENDING: on each CPU with no
 * event between the two. The CPUs know already who runs there: an event has been wired, or they were flushed. False: a
 * CPU could not do that, and has counted some microseconds in both. */
bool bpf_kernel_succeed(struct bpf_kernel *kernel, struct bpf_kernel *former);
/* Writes the files' ids into an image. */
void bpf_kernel_save(const struct bpf_kernel *kernel, struct buf *out);
/* One that an earlier instance of the daemon has loaded: takes its files out of the pool. -ENOENT: not all are there, or
 * they are of another layout; then the rest of the image is not read. -EBADMSG; -ENOMEM. */
int bpf_kernel_restore(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, struct unpack *in,
		       struct kept_pool *kept);
struct bpf_kernel *bpf_kernel_ref(struct bpf_kernel *kernel);
struct bpf_kernel *bpf_kernel_unref(struct bpf_kernel *kernel);

void bpf_kernel_each_kept(const struct bpf_kernel *kernel, kept_visitor each, void *userdata);

/* What crediting has taken at the CPU's switches, also by parts of this process that have gone since. */
struct switch_cost bpf_kernel_cost(const struct bpf_kernel *kernel, uint32_t cpu);

/* In which hierarchy it is to look for cgroups. Before anything is counted. */
void bpf_kernel_set_hierarchy(struct bpf_kernel *kernel, bool v1);

/* The number is from now on that of the open perf event of that id, on that CPU. Its count begins at the next flush. */
int bpf_kernel_wire(struct bpf_kernel *kernel, uint32_t cpu, uint32_t number, int fd, uint64_t id);
void bpf_kernel_unwire(struct bpf_kernel *kernel, uint32_t cpu, uint32_t number);

/* Credits what has been counted up to now, on a CPU, or on all with perf events. After that no program uses a slot
 * that was not found by a cgroup's id any more when this was called. False: some CPU could not be asked. */
bool bpf_kernel_flush(struct bpf_kernel *kernel, uint32_t cpu);
bool bpf_kernel_flush_all(struct bpf_kernel *kernel);
