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

#include "engine/bpf/layout.h"
#include "engine/kept.h"
#include "util/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bpf_file {
	BPF_FILE_CONFIG, /* maps */
	BPF_FILE_CPUS,
	BPF_FILE_EVENTS,
	BPF_FILE_IDS,
	BPF_FILE_ALIASES,
	BPF_FILE_VACANT,
	BPF_FILE_SLOTS,
	BPF_FILE_CELLS,
	BPF_FILE_FLUSH,	    /* a program */
	BPF_FILE_ON_SWITCH, /* links */
	BPF_FILE_ON_ATTACH,
	_BPF_FILE_MAX,
};

struct bpf_sizes {
	uint32_t cpus; /* possible ones: their numbers are below it */
	uint32_t slots;
	uint32_t events, sets; /* numbers of them */
};

/* What is known of a slot beside what is in the kernel's memory. */
struct bpf_slot {
	uint64_t seen_at; /* CLOCK_MONOTONIC ns at which it was seen to be taken by a cgroup; 0: it is free */
	bool retired;	  /* it becomes free at the next reading of all */
	/* Counts of a cgroup that is not a target, or was not when they were read: the cgroup of that id, an ancestor,
	 * and those above it have them already. By the words of a cell; NULL: none. */
	uint64_t *unclaimed;
	size_t nr_bins; /* cells in unclaimed: one, or one a CPU that is counted */
	uint64_t claimed_by;
	size_t nr_aliases; /* cgroups whose counts go here since they have no slot of their own; at least so many */
};

struct bpf_kernel {
	unsigned refs;
	struct bpf_sizes sizes;
	bool v1; /* perf_event is in a v1 hierarchy */
	int fds[_BPF_FILE_MAX];
	uint64_t ids[_BPF_FILE_MAX]; /* the kernel's, of each file */

	/* Mapped: */
	struct credit_config *config;
	struct credit_cpu *cpus;
	struct credit_slot *slots;
	const volatile uint64_t *cells;

	struct bpf_slot *known; /* one a slot */
	uint64_t *read;		/* what has been read of each cell: words, with the times twice (bpf_read_words()) */
};

/* The words that are kept of each cell: those of the last reading that counted, and the times of the last one. */
static inline size_t bpf_read_words(const struct bpf_sizes *sizes)
{
	return CREDIT_CELL_WORDS(sizes->sets, sizes->events) + 2 * sizes->sets;
}

/* Can the programs be loaded here? Tries it once, for a moment; -errno with the reason. */
int bpf_kernel_try(struct reason *why);

/* Loads the programs and attaches them. */
int bpf_kernel_load(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, struct reason *why);
/* One that an earlier instance of the daemon has loaded, of whose files only the ids are known: takes them out of the
 * pool. -ENOENT: not all are there, or they are of another layout; -ENOMEM. */
int bpf_kernel_restore(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1,
		       const uint64_t ids[static _BPF_FILE_MAX], struct kept_pool *kept);
struct bpf_kernel *bpf_kernel_ref(struct bpf_kernel *kernel);
struct bpf_kernel *bpf_kernel_unref(struct bpf_kernel *kernel);

void bpf_kernel_each_kept(const struct bpf_kernel *kernel, kept_visitor each, void *userdata);

/* The number of possible CPUs. */
uint32_t bpf_nr_cpus(void);

/* The number is from now on that of the open perf event of that id, on that CPU. Its count begins at the next flush. */
int bpf_kernel_wire(struct bpf_kernel *kernel, uint32_t cpu, uint32_t number, int fd, uint64_t id);
void bpf_kernel_unwire(struct bpf_kernel *kernel, uint32_t cpu, uint32_t number);

/* Credits what has been counted up to now, on a CPU, or on all with perf events. After that no program uses a slot
 * that was not found by a cgroup's id any more when this was called. False: some CPU could not be asked. */
bool bpf_kernel_flush(struct bpf_kernel *kernel, uint32_t cpu);
bool bpf_kernel_flush_all(struct bpf_kernel *kernel);

/* The slot of the cgroup, or CREDIT_ROOT_SLOT: it has none. */
uint32_t bpf_kernel_find_slot(const struct bpf_kernel *kernel, uint64_t id);
/* The cgroup has no slot any more; it gets a new one when it runs. */
void bpf_kernel_forget(struct bpf_kernel *kernel, uint64_t id);
/* Gives a slot to a cgroup that has not run yet, and those ancestors. CREDIT_ROOT_SLOT: none is free. */
uint32_t bpf_kernel_take_slot(struct bpf_kernel *kernel, uint64_t id, const credit_word *ancestors, size_t nr);
/* Nobody asks for the cgroup: its counts go to the slot of an ancestor. False: there is no room for that. */
bool bpf_kernel_alias(struct bpf_kernel *kernel, uint64_t id, uint32_t slot);
/* The cgroup's counts do not go to an ancestor's slot any more, but to one of its own. */
void bpf_kernel_unalias(struct bpf_kernel *kernel, uint64_t id);
/* The slot can be given to another cgroup. No program uses it any more. */
void bpf_kernel_free_slot(struct bpf_kernel *kernel, uint32_t slot);
/* No cgroup's counts go to the slot but its own. */
void bpf_kernel_drop_aliases(struct bpf_kernel *kernel, uint32_t slot);
