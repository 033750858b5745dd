/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Samples by time, in a hard bound of memory.
 *
 * A sample is 16 bytes: when, in which context (event, cgroup, command and thread), on which stack, and its weight.
 * Samples stand in segments, oldest first. Stacks, frames, modules and texts exist once for all samples, in tables
 * (table.h): a stack is a node of a tree whose root is the outermost caller, a frame is a place and the name of its
 * function, once that is known. A place is an offset in a file. It may be an address only in the kernel, and in code
 * that a process has made at run time (ARCHIVE_JIT).
 *
 * When the memory is used up the oldest segment is dropped, and with it whatever only its samples had used. Thus
 * the reach, the time that the samples go back to, follows from the memory and the load.
 */

#include "base/elf/module.h"
#include "base/util/clock.h"
#include "profiler/archive/stack-end.h"
#include "profiler/naming/naming.h"

/* Frames of a stack, 127 of the kernel and 256 of the process; a deeper one loses its outermost callers. */
#define ARCHIVE_DEPTH_MAX 383

#define ARCHIVE_KERNEL "[kernel]"
#define ARCHIVE_UNKNOWN "[unknown]"
#define ARCHIVE_ANONYMOUS "[anon]"
/* Code that programs make at run time, and name themselves (profiler/naming/jit-functions.h). The offset of a place is
 * a hash of its name, or an address of its process if the name was not known when the place was sampled. */
#define ARCHIVE_JIT "[jit]"

/* The cgroup and the command of a sample that says no more of itself: nobody is to see it. No cgroup has that label,
 * since labels begin with '/'. */
#define ARCHIVE_HIDDEN "(hidden)"

/* Entries of the tables, and the numbers of the entries that they refer to. The key comes after `last`. */
struct archive_module {
	uint32_t last;
	uint32_t path; /* text */
	struct module_key key;
};

struct archive_frame {
	uint32_t last;
	uint32_t module;
	uint64_t offset;      /* in the file; in the kernel, the address; the naming of the unknown; 0: one place */
	uint32_t name;	      /* text, or 0 */
	uint32_t naming : 8;  /* enum naming */
	uint32_t behind : 24; /* bytes from the start of its function to the offset, if only that is known */
};

struct archive_node {
	uint32_t last;
	uint32_t parent; /* the caller's node, or 0 */
	uint32_t frame;
};

struct archive_context {
	uint32_t last;
	uint32_t event, cgroup, command, thread; /* texts */
	uint32_t end;				 /* enum stack_end */
};

struct stored_sample {
	uint32_t ms;		/* since the segment's base */
	uint32_t context, node; /* node 0: no stack */
	uint32_t weight;	/* packed: archive_weight() */
};

struct archive;

/* limit: bytes, at least ARCHIVE_LIMIT_MIN. -ENOMEM. */
#define ARCHIVE_LIMIT_MIN ((size_t)256 * 1024)
int archive_new(struct archive **ret, size_t limit);
struct archive *archive_free(struct archive *archive);
DEFINE_CLEANUP(struct archive *, archive_free)

/* Another limit: what is too much is dropped. */
void archive_set_limit(struct archive *archive, size_t limit);

struct archive_place {
	const struct module_key *key; /* NULL: none */
	const char *path;
	uint64_t offset;
	enum naming naming; /* NAMING_UNTRIED, NAMING_NAMED with a name, or why it can't have one */
	const char *name;
};

struct archive_sample {
	uint64_t time; /* CLOCK_MONOTONIC ns */
	const char *event, *cgroup, *command;
	const char *thread; /* NULL: the command */
	uint64_t weight;
	enum stack_end end;
	const struct archive_place *places; /* the innermost first */
	size_t nr;
};

/* Adds a sample, and drops the oldest ones if there is no room. -ENOMEM, -ENOSPC: it is not added, and counted as
 * dropped. */
int archive_add(struct archive *archive, const struct archive_sample *sample);

/* The next sample begins a segment, for which there is room beyond the limit: in a child, which shares the samples of
 * the others and ends soon. */
void archive_close_segment(struct archive *archive);

/* Times of samples are whole milliseconds, and so are the bounds of stretches, to the nearest: the end of an answer is
 * the beginning of the next one, also when it has been turned into the time of day and back. */
static inline uint64_t archive_moment(uint64_t time)
{
	return clock_whole_ms(time);
}

/* The weight of a sample: exact below 2^31, and to 1 in 2^21 up to 2^41, at which it ends. */
uint64_t archive_weight(const struct stored_sample *sample);

/* The time of the oldest sample, or 0. */
uint64_t archive_oldest(const struct archive *archive);
size_t archive_bytes(const struct archive *archive);

struct archive_stats {
	size_t limit;	  /* bytes */
	size_t nr;	  /* samples in it */
	uint64_t samples; /* ever added */
	uint64_t dropped; /* never added: no memory */
	uint64_t sweeps;  /* times that numbers of entries were given up */
};

struct archive_stats archive_stats(const struct archive *archive);

/* Takes a sample and its time; less than 0 ends the walk. */
typedef int (*archive_take_t)(void *userdata, const struct stored_sample *sample, uint64_t time);

/* Calls take() for each sample in [from, to), CLOCK_MONOTONIC ns. Returns the result of take(), if that is less than 0,
 * or 0. */
int archive_walk(const struct archive *archive, uint64_t from, uint64_t to, archive_take_t take, void *userdata);

/* Entries by their numbers, until the archive changes. */
const struct archive_module *archive_module(const struct archive *archive, uint32_t number);
const struct archive_frame *archive_frame(const struct archive *archive, uint32_t number);
const struct archive_node *archive_node(const struct archive *archive, uint32_t number);
const struct archive_context *archive_context(const struct archive *archive, uint32_t number);
/* The numbers of contexts are below it. */
uint32_t archive_contexts_end(const struct archive *archive);

const char *archive_text(const struct archive *archive, uint32_t text);
/* The symbol of a function's name. NULL: the name itself, or functions of that name have different symbols. */
const char *archive_symbol(const struct archive *archive, uint32_t text);

/* --- names */

/* A frame that has not been looked up. */
struct archive_nameless {
	uint32_t frame, module;
	uint64_t offset;
	bool is_new; /* for the first time */
};

/* Were frames added since all were gone through? */
bool archive_has_untried(const struct archive *archive);

/* Goes through the frames that have not been looked up, from number *at on (0: from the first one on), marks them as
 * asked, and moves *at behind them. Returns as many as there are, at most max; fewer: these are the last ones. The
 * numbers are valid until a sample is added. */
size_t archive_next_nameless(struct archive *archive, uint32_t *at, struct archive_nameless *ret, size_t max);

/* A frame gets its name: NULL, or a text that is valid UTF-8; symbol: of that name, or NULL; behind: bytes from the
 * start of its function to the offset, or 0. */
void archive_name(struct archive *archive, uint32_t frame, enum naming naming, const char *name, const char *symbol,
		  uint64_t behind);

/* Has any frame this file as its module? */
bool archive_has_module(const struct archive *archive, const struct module_key *key, const char *path);
