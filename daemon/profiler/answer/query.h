/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Questions to the archive, and the answer: a tree of what was sampled in a stretch of time, from the outermost caller
 * to the innermost function, with the cgroup and the command above it where that is asked for. Or the stretch is cut
 * into slots of equal length, and the answer is how much was sampled in each.
 *
 * Places of one function are one node, also if its beginning is all that is known of it. Another place without a name
 * is a node of its own, by module and offset. The answer borrows its texts from the archive, and is valid until that
 * changes.
 */

#include "profiler/answer/weights.h"
#include "profiler/archive/table.h"
#include "profiler/protocol.h"

/* A larger tree is cut: what is left out counts for the node above. */
#define PROFILE_NODES_MAX 50000

/* What the weights of an event are. */
struct profile_measure {
	const char *event;
	const char *const *events; /* all that are sampled, and NULL; or NULL: just this one */
	const char *unit;	   /* "seconds", … or "count" */
	double scale;		   /* of a weight to the unit */
	uint64_t period;	   /* the weight of each sample that is taken now; 0: they differ */
	uint64_t since;		   /* CLOCK_MONOTONIC ns: nothing was sampled before */
	uint64_t gaps;		   /* ns of the stretch in which nothing was sampled */
	const char *problem; /* why there are fewer samples now than the config asks for; NULL or "": there is none */
};

struct profile_query {
	uint64_t from, to;	      /* CLOCK_MONOTONIC ns: [from, to), rounded to archive_moment() */
	uint64_t since;		      /* nothing was sampled before; 0: not known */
	const char *event;	      /* the archive's name of it */
	const char *cgroup, *command; /* globs, or NULL */
	bool below;		      /* with the cgroups below those that match */
	unsigned by;		      /* enum profile_by */
	size_t nr_slots;	      /* 0: the answer is a tree */

	/* Weights in the tree are to fit these, and the stretch becomes the whole slots of them in it; NULL: they stay
	 * as sampled. */
	const struct profile_counts *counts;
};

enum profile_kind {
	PROFILE_ROOT,
	PROFILE_CGROUP,
	PROFILE_COMMAND,
	PROFILE_THREAD,
	PROFILE_FUNCTION, /* with its name */
	PROFILE_PLACE,	  /* without: module and offset */
};

/* The root is number 1; parents come before their children. */
struct profile_node {
	uint32_t last; /* the table's */
	uint32_t parent;
	uint32_t kind;
	uint32_t text;	      /* of the archive: cgroup, command, thread or function */
	uint32_t module;      /* of the archive, or 0 */
	uint32_t naming;      /* of a place: enum naming */
	uint64_t offset;      /* of a place that can be told apart, in its module's file; else 0 */
	uint64_t self, total; /* weights */
	uint32_t self_samples, samples;
};

/* A cgroup whose weights stay as sampled. */
struct profile_uncounted {
	uint32_t cgroup; /* text of the archive */
	const char *why;
};

struct profile_slot {
	uint64_t weight;
	uint32_t samples;
};

struct profile {
	const struct archive *archive;
	const char *not_counted;	     /* why no weight was made to fit counts, though that was asked for; NULL */
	bool counted;			     /* weights fit, … */
	struct profile_uncounted *uncounted; /* … but for these */
	size_t nr_uncounted;
	struct table nodes;	    /* struct profile_node */
	struct profile_slot *slots; /* nr_slots of them, in place of nodes, if that was asked for */
	size_t nr_slots;
	/* CLOCK_MONOTONIC ns. With nodes, the stretch is the part that was sampled and is in memory. With slots it is
	 * as it was asked for. */
	uint64_t from, to;
	uint64_t oldest; /* the time of the oldest sample in memory, or 0 */
	uint64_t reach;	 /* of what was before, nothing is known: it was not sampled, or is in memory no more */
	uint64_t weight;
	uint32_t samples;
	uint64_t period; /* the weight of each sample as it was taken; 0: they differ, or there are none */
	bool weights_differ;
	uint64_t unnamed;	       /* weight of innermost functions without a name */
	uint64_t ends[_STACK_END_MAX]; /* weight of samples by how their stacks end */
	bool cut;
};

/* -ENOMEM; -E2BIG: the globs take too long. */
int profile_new(struct profile **ret, const struct archive *archive, const struct profile_query *query);
struct profile *profile_free(struct profile *profile);
DEFINE_CLEANUP(struct profile *, profile_free)

/* The stretch of the answer, CLOCK_MONOTONIC ns. */
void profile_stretch(const struct profile *profile, uint64_t *ret_from, uint64_t *ret_to);
uint32_t profile_nr(const struct profile *profile); /* of nodes; their numbers are 1 to this */
const struct profile_node *profile_node(const struct profile *profile, uint32_t number);

/* What a node is about, wherever it is in the tree: an entry of a table in which each function, place, … is once. */
struct profile_thing {
	uint32_t last;
	uint32_t kind, text, module, naming, none; /* none: 0, so that the key has no padding */
	uint64_t offset;
};

#define PROFILE_THINGS TABLE_OF(struct profile_thing, kind, offset)

struct profile_thing profile_thing_of(const struct profile_node *node);

/* --- the largest */

/* A function, command or cgroup, wherever it is in the tree. */
struct profile_row {
	const struct profile_node *node; /* one of its nodes */
	uint64_t self, total;		 /* total: with all that it calls; once where it calls itself */
	uint32_t self_samples, samples;
};

/* The rows by falling self, then total weight, to be freed; the profile has to be of a tree with cgroup and command
 * where these are asked for. -ENOMEM. */
int profile_top(struct profile_row **ret, size_t *ret_nr, const struct profile *profile, enum profile_top_by by);

/* Half the width of the 95 % interval of a share of n samples. */
double profile_error(double share, uint64_t n);
