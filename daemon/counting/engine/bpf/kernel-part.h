/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The data of the engine's part in the kernel, as the daemon has it: files, mapped memory (layout.h), and what is known
 * of it here.
 */

#include "base/util/rewrite.h"
#include "counting/engine/bpf/layout.h"

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

/* The daemon's knowledge of a slot, beside the kernel's memory. */
struct bpf_slot {
	uint64_t seen_at; /* CLOCK_MONOTONIC ns at which it was seen to be taken by a cgroup; 0: not yet */
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
	uint64_t id;	  /* the kernel's, of the map */
	uint64_t use_at;  /* CLOCK_MONOTONIC ns; 0: at once */
	bool is_in_table; /* programs find it */
	void *memory;	  /* mapped; NULL: there is none */
	void *known;	  /* for each slot a struct bpf_slot; for each cell the words that have been read */
};

/* The targets in the image that was written last. */
struct bpf_saved {
	struct rewrite_place place;
	uint64_t targets;  /* the number of the engine's targets */
	uint64_t numbered; /* of the totals: struct totals_image */
	bool changed;	   /* since then, what is known of a target's sets */
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

	uint64_t nr_targets;	       /* numbers that were given to engines' targets, at each change of them */
	uint64_t *errors;	       /* by CPU, see conservation.h: events by which both sides have differed */
	uint64_t *paused;	       /* by CPU: beginnings and ends of pauses, at the last reading */
	uint64_t nr_added, nr_written; /* chunks that were added; of these, those that programs find */
	uint64_t nr_images;	       /* that tell of it; 0: nobody makes any */
	/* Files that are open until it takes over from another one: a program, and the map of the program that it has
	 * run. -1: it does not. */
	int succeed, former_flush;
	uint64_t former; /* the id of that program; 0: it takes over from none */
	uint64_t *cell;	 /* a copy of one (cell.h) */
	/* Bits laid out like `marks`: a cell is to be read once more, although its mark is clear. */
	uint64_t *looked_at;
	uint64_t *unsaved; /* … or was copied since the last image, and may be read further than that tells */
	struct rewrite_place *cells_saved; /* by CPU: in that image */
	struct bpf_saved targets_saved;
	/* Bits by slot (slot-bits.h): a cgroup has it, as far as that was seen; … */
	uint64_t *taken;
	uint64_t *unsettled;		    /* … and a reading has more to do for it than to read its cells */
	struct rewrite_place settled_saved; /* all others that are taken, in the last image */
	bool settled_changed;		    /* since then, which ones they are */
	uint64_t settled_for;		    /* the number of the targets by which slots were settled */
	uint64_t unplaced;		    /* by all CPUs, and of which it was looked for who lacks counts */
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
