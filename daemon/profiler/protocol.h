/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All that the rest of the daemon knows of the profiler: the questions that it is asked, the samples that it is told to
 * keep, and its statistics.
 */

#include "base/util/clock-steps.h"

/* The descriptors with which the profiler starts, beside standard input, output and error. */
#define PROFILER_FD_DAEMON 3 /* a SOCK_SEQPACKET to the daemon, non-blocking: the profiler ends when it does */
#define PROFILER_FD_TABLE 4  /* two files in memory for the table of processes, which outlive a profiler */
#define PROFILER_NR_TABLES 2
#define PROFILER_FD_END (PROFILER_FD_TABLE + PROFILER_NR_TABLES)
/* The size of each table's file, which is fixed. At first it is all zeros, and takes no memory. */
#define PROFILER_TABLE_SIZE (1 << 20)

/* Levels of the tree above the functions. */
enum profile_by {
	PROFILE_BY_CGROUP = 1 << 0,
	PROFILE_BY_COMMAND = 1 << 1,
};

enum profile_top_by {
	PROFILE_TOP_FUNCTION,
	PROFILE_TOP_COMMAND,
	PROFILE_TOP_CGROUP,
};

/* The form of the answer: each is a document of its own. */
enum profile_form {
	PROFILE_FORM_TREE, /* JSON, as are … */
	PROFILE_FORM_TOP,
	PROFILE_FORM_HEAT, /* … these */
	PROFILE_FORM_FOLDED,
	PROFILE_FORM_PPROF,
	PROFILE_FORM_SPEEDSCOPE,
	PROFILE_FORM_CAPTURES, /* JSON: the captures that there are. Of the question, nothing but gzip counts */
};

/* A question about samples. Texts are borrowed. */
struct profile_question {
	const char *event;   /* "cpu-clock", or the name of a [profile "NAME"] */
	const char *capture; /* the id of a capture, which is of one event; NULL: the samples in memory are meant */

	/* The stretch: [from, to), as far as clock knows; without `from` it begins so many ns before now. */
	struct moment from, to;
	uint64_t last;		  /* UINT64_MAX: at the first sample */
	uint64_t now;		  /* CLOCK_MONOTONIC ns */
	struct clock_steps clock; /* noted at that time */

	const char *cgroup, *command; /* globs, or NULL */
	bool below;		      /* with the cgroups below those that match */
	bool counted;		      /* weights of cgroups are to fit what their counters have counted */

	enum profile_form form;
	bool gzip;	      /* the document is to be compressed */
	unsigned by;	      /* enum profile_by: of a tree */
	double min;	      /* nodes of a tree with a smaller share of the whole are left out */
	size_t limit;	      /* rows of the top; 0: all */
	size_t columns, rows; /* of the heat map */
	enum profile_top_by top_by;
};

/* A capture: samples that are to be kept, and why. Texts are borrowed. */
struct capture_order {
	const char *id;		    /* for users and files; no other capture has it */
	const char *rule, *when;    /* the name of the rule's section, and the rule */
	const char *cgroup;	    /* label; NULL: all CPUs together */
	int cgroup_fd;		    /* its directory, borrowed; -1: all CPUs, no rate, or it can't be opened */
	const char *cgroup_problem; /* why it can't be opened; NULL: it is open, or not needed */
	const char *counter;	    /* the event of the rule */
	const char *unit;	    /* of its rate, per second */
	const char *reason;	    /* a sentence */
	double value, threshold;
	uint64_t time;		  /* CLOCK_MONOTONIC ns */
	uint64_t before, after;	  /* ns: the stretch is so much longer on both sides */
	struct clock_steps clock; /* noted at that time */
	const char *event;	  /* that is sampled: "cpu-clock", or the name of a [profile "NAME"] */
	uint64_t rate;		  /* Hz at which it is sampled meanwhile; 0: as ever */
	uint64_t keep;		  /* so many captures of the rule, with this one */
	bool save;		  /* on disk, too */
};

/* Counters start at 0 with the profiler. */
struct profiler_stats {
	uint64_t samples;    /* taken */
	uint64_t lost;	     /* samples that the kernel had no room for */
	uint64_t unfollowed; /* records about processes and cgroups that it had no room for */
	uint64_t unsampled;  /* periods that events have counted, and of which the kernel has made no sample */
	uint64_t throttled;  /* times that the kernel paused sampling on a CPU */
	uint64_t dropped;    /* samples that there was no memory for */
	uint64_t bytes;	     /* memory of the samples, with stacks and names */
	uint64_t ring_bytes; /* locked memory of the rings, which is not in the resident memory's bound */
	uint64_t gap_ns;     /* in which nothing was sampled, since events were opened anew or no daemon ran */
	uint64_t reach;	     /* ns: the age of the oldest sample */
	uint64_t cpu_ns;     /* CPU time of the profiler and of children that name functions */
	uint64_t processes;  /* whose mappings are known */
	uint64_t captures, capture_bytes, captures_dropped; /* in memory; that went for others, or for the config */
};
