/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All that counting and the profiler, which is a process of its own, know of each other: the messages between them.
 *
 *   to the profiler    settings    what is sampled; at the start, and when config or CPUs have changed
 *                      cgroups     the daemon's tree, and then its changes: there is no second tree
 *                      question    of which one at a time is worked at; answered by `answer` or `refusal`
 *                      cancel      nobody wants that answer any more
 *                      keep        a capture: samples that are to be kept, and why
 *                      ping        answered by `pong`
 *                      stop        what is still to be saved is saved, and the profiler ends
 *                      archive     samples of the profiler of a daemon before, once, before the first settings
 *   to the daemon      state       after settings, once a second, and when captures come or go
 *                      answer      the document as it is
 *                      refusal     why there is none
 *                      archive     its samples, as bytes (archive/archive-image.h), last of all before it ends
 *
 * A channel (base/util/channel.h) carries them. Each side takes the other's for foreign bytes: read_…() returns -EPROTO
 * where a message is not whole and sound, and -ENOMEM; what was read is released then. write_…() appends to a buffer,
 * whose `failed` tells whether there was memory.
 */

#include "base/host/event-attr.h"
#include "base/util/buf.h"
#include "base/util/clock-steps.h"
#include "base/util/cpulist.h"
#include "base/util/reason.h"

/* The descriptors with which the profiler starts, beside standard input, output and error. */
#define PROFILER_FD_DAEMON 3 /* a SOCK_SEQPACKET to the daemon, non-blocking: the profiler ends when it does */
#define PROFILER_FD_TABLE 4  /* two files in memory for the table of processes, which outlive a profiler */
#define PROFILER_NR_TABLES 2
#define PROFILER_FD_END (PROFILER_FD_TABLE + PROFILER_NR_TABLES)
/* The size of each table's file, which is fixed. At first it is all zeros, and takes no memory. */
#define PROFILER_TABLE_SIZE (1 << 20)

enum profiler_message {
	PROFILER_SETTINGS,
	PROFILER_CGROUPS,
	PROFILER_QUESTION,
	PROFILER_CANCEL,
	PROFILER_KEEP,
	PROFILER_PING,
	PROFILER_STOP,
	PROFILER_STATE,
	PROFILER_ANSWER,
	PROFILER_REFUSAL,
	PROFILER_PONG,
	PROFILER_ARCHIVE,
	_PROFILER_MESSAGE_MAX,
};

/* "PfM", and the version: a message of another one is refused (channel.h). */
#define PROFILER_PROTOCOL 0x50664d02

/* Bytes of a message's content. */
#define PROFILER_CONTENT_MAX ((size_t)64 << 20)

/* --- settings */

/* The name of what is always sampled. */
#define PROFILE_CPU_CLOCK "cpu-clock"

/* An event as some CPUs have it. */
struct sampled_variant {
	char *text;	       /* as users know it */
	union event_attr attr; /* type, config*, bp_type, exclude_*, precise_ip and size alone */
	char *probe;	       /* the string that config1 has to point to, or NULL */
	char *filter;	       /* of PERF_EVENT_IOC_SET_FILTER, or NULL */
	struct cpulist cpus;   /* nr == 0: all */
	bool is_slow_to_close;
};

/* At most so many bytes of a stack: a record has 65,528 at most, and its other fields get 2,040 of them. */
#define SAMPLED_STACK_MAX (65528 - 2040)

/* An event that is sampled. */
struct sampled_event {
	char *name;			  /* "cpu-clock", or that of a [profile "NAME"] */
	char *key;			  /* in the archive: another event of the same name has another */
	struct sampled_variant *variants; /* each CPU has the first of them that fits it */
	size_t nr;
	uint64_t period;      /* in the event's own counts, or 0: … */
	uint64_t rate;	      /* … Hz, for which the kernel finds the periods */
	uint64_t stack_bytes; /* of the user's stack that each sample copies, with its registers; 0: none */
	char *unit;	      /* of its weights, times … */
	double scale;	      /* … this: "seconds", … or "count" */
	char *problem;	      /* why it can't be sampled on this machine; NULL: it can */
};

/* Is it cpu-clock or task-clock, whose counts are ns? */
bool sampled_event_is_clock(const struct sampled_event *event);

/* So many captures of a rule. */
struct capture_keep {
	char *rule;
	uint64_t nr;
};

struct profiler_settings {
	struct sampled_event *events; /* cpu-clock first; none: profiles are off */
	size_t nr_events;
	struct cpulist cpus;
	char **include, **exclude; /* globs on labels of cgroups whose samples may be seen */
	size_t nr_include, nr_exclude;
	uint64_t memory;	 /* bytes: of samples, stacks and names */
	uint64_t capture_memory; /* bytes */
	uint64_t tables;	 /* bytes of all tables for unwinding */
	bool jit;		 /* names of code that programs make at run time */
	struct capture_keep *keeps;
	size_t nr_keeps;
	char *procfs;
	bool part; /* the tree of cgroups is a part of the hierarchy: paths that the kernel tells do not begin there */
	uint64_t sampled; /* by a profiler before: until this time, CLOCK_MONOTONIC ns; 0: there was none */
};

void profiler_settings_release(struct profiler_settings *settings);
void write_settings(struct buf *out, const struct profiler_settings *settings);
int read_settings(struct profiler_settings *ret, const void *bytes, size_t len);

/* --- cgroups */

struct told_cgroup {
	uint64_t id;
	char *path; /* below the mount, as bytes; NULL: it is gone */
};

struct told_cgroups {
	bool is_all;		   /* none but these are there, … */
	bool is_new_tree;	   /* … and those before were others */
	struct told_cgroup *items; /* in the order of the changes */
	size_t nr;
};

void told_cgroups_release(struct told_cgroups *cgroups);
void write_cgroups(struct buf *out, const struct told_cgroups *cgroups);
int read_cgroups(struct told_cgroups *ret, const void *bytes, size_t len);

/* --- questions */

/* Levels of the tree above the functions. */
enum profile_by {
	PROFILE_BY_CGROUP = 1 << 0,
	PROFILE_BY_COMMAND = 1 << 1,
	PROFILE_BY_THREAD = 1 << 2,
	PROFILE_BY_ALL = PROFILE_BY_CGROUP | PROFILE_BY_COMMAND | PROFILE_BY_THREAD,
};

enum profile_top_by {
	PROFILE_TOP_FUNCTION,
	PROFILE_TOP_THREAD,
	PROFILE_TOP_COMMAND,
	PROFILE_TOP_CGROUP,
	_PROFILE_TOP_MAX,
};

/* The form of the answer: each is a document of its own. */
enum profile_form {
	PROFILE_FORM_TREE, /* JSON, as are … */
	PROFILE_FORM_TOP,
	PROFILE_FORM_HEAT, /* … these */
	PROFILE_FORM_FOLDED,
	PROFILE_FORM_PPROF,
	PROFILE_FORM_SPEEDSCOPE,
	PROFILE_FORM_CAPTURES, /* the captures in memory and on disk (capture-list.h), with what `told` has of them */
	_PROFILE_FORM_MAX,
};

/* So many columns and rows a heat map may have, times each other. */
#define PROFILE_HEAT_MAX 100000

#define PROFILE_SLOTS_MAX 320

/* The number that the counter of a cgroup has counted in each slot, with all below it; NAN: not known. */
struct profile_count {
	const char *cgroup; /* the label */
	float *counted;	    /* nr_slots of them, in the unit of the samples' weights */
};

/* Counts that weights of samples are made to fit. */
struct profile_counts {
	const char *problem; /* why there are none, or NULL */
	bool root_is_idle;   /* the root's counter goes on while CPUs are idle */
	uint64_t begin;	     /* of the first slot, CLOCK_MONOTONIC ns */
	uint64_t ends[PROFILE_SLOTS_MAX];
	size_t nr_slots;
	struct profile_count *cgroups; /* sorted by the label, each once */
	size_t nr;
};

/* A rule that makes captures, as it stands. */
struct told_rule {
	const char *name, *when;
	const char *problem; /* why it is not evaluated; "": it is */
	uint64_t captures, passed_over;
};

/* A rate of a capture's counter. */
struct told_rate {
	uint64_t end; /* of the time that it is of: CLOCK_REALTIME ns, as it was shown then */
	double rate;  /* per second; not finite: not known */
};

struct told_values {
	const char *capture; /* its id */
	struct told_rate *rates;
	size_t nr;
};

/* That counting alone knows of captures. */
struct told_captures {
	struct told_rule *rules;
	size_t nr_rules;
	struct told_values *values;
	size_t nr_values;
};

/* A question about samples. Texts are borrowed by whoever asks; read_question() makes its own. */
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
	bool counted;		      /* weights of cgroups are to fit what their counters have counted, … */
	struct profile_counts counts; /* … which is this */
	struct told_captures told;    /* of PROFILE_FORM_CAPTURES */

	enum profile_form form;
	bool gzip;	      /* the document is to be compressed */
	unsigned by;	      /* enum profile_by: of a tree */
	double min;	      /* nodes of a tree with a smaller share of the whole are left out */
	size_t limit;	      /* rows of the top; 0: all */
	size_t columns, rows; /* of the heat map */
	enum profile_top_by top_by;
};

/* Of one that was read. */
void profile_question_release(struct profile_question *question);
void write_question(struct buf *out, const struct profile_question *question);
/* The same in parts, for one who reads counts meanwhile: the question without its counts, then counts.nr and all but
 * the cgroups, then so many cgroups. */
void write_asked(struct buf *out, const struct profile_question *question);
void write_counts(struct buf *out, const struct profile_counts *counts);
void write_count(struct buf *out, const struct profile_count *count, size_t nr_slots);
int read_question(struct profile_question *ret, const void *bytes, size_t len);

/* The stretch in CLOCK_MONOTONIC ns, by these clocks. -EINVAL: CLOCK_STEPS_REVERSED. */
int profile_question_stretch(const struct profile_question *question, const struct clock_steps *clock,
			     uint64_t *ret_from, uint64_t *ret_to);

/* --- refusals */

struct profiler_refusal {
	int error; /* negative errno */
	struct reason why;
};

void write_refusal(struct buf *out, const struct profiler_refusal *refusal);
int read_refusal(struct profiler_refusal *ret, const void *bytes, size_t len);

/* --- captures */

/* A capture: samples that are to be kept, and why. Texts are borrowed by whoever orders; read_order() makes its own. */
struct capture_order {
	const char *id;		 /* for users and files; no other capture has it */
	const char *rule, *when; /* the name of the rule's section, and the rule */
	const char *cgroup;	 /* label; NULL: all CPUs together */
	/* With a rate: a descriptor of its directory, which travels beside the message and is borrowed. -1: none, for
	 * the reason in cgroup_problem if there is a cgroup. */
	int cgroup_fd;
	const char *cgroup_problem;
	const char *counter; /* the event of the rule */
	const char *unit;    /* of its rate, per second */
	const char *reason;  /* a sentence */
	double value, threshold;
	uint64_t time;		  /* CLOCK_MONOTONIC ns */
	uint64_t before, after;	  /* ns: the stretch is so much longer on both sides */
	struct clock_steps clock; /* noted at that time */
	const char *event;	  /* that is sampled: "cpu-clock", or the name of a [profile "NAME"] */
	uint64_t rate;		  /* Hz at which it is sampled meanwhile; 0: as ever */
	uint64_t keep;		  /* so many captures of the rule, with this one */
	bool save;		  /* on disk, too */
};

void capture_order_release(struct capture_order *order);
void write_order(struct buf *out, const struct capture_order *order);
int read_order(struct capture_order *ret, const void *bytes, size_t len);

/* --- state */

struct profiler_stats {
	uint64_t samples;    /* taken */
	uint64_t lost;	     /* samples that the kernel had no room for */
	uint64_t unfollowed; /* records about processes and cgroups that it had no room for */
	uint64_t unsampled;  /* periods that events have counted, and of which the kernel has made no sample */
	uint64_t throttled;  /* times that the kernel paused sampling on a CPU */
	uint64_t dropped;    /* samples that there was no memory for */
	uint64_t bytes;	     /* memory of the samples, with stacks and names */
	uint64_t ring_bytes; /* locked memory of the rings, which is not in the resident memory's bound */
	uint64_t gap_ns;     /* in which nothing was sampled, since events were opened anew or no profiler ran */
	uint64_t reach;	     /* ns: the age of the oldest sample */
	uint64_t cpu_ns;     /* CPU time of the process, and of children that list functions or make frame tables */
	uint64_t answer_ns;  /* CPU time of children that work out answers, and that save captures */
	uint64_t memory;     /* bytes: the process's resident memory */
	uint64_t processes;  /* whose mappings are known */
	uint64_t captures, capture_bytes, captures_dropped; /* in memory; that went for others, or for the config */
	/* Stacks by how they end (enum stack_end). */
	uint64_t stacks_frame_pointers, stacks_whole, stacks_cut, stacks_no_table, stacks_lost;
	uint64_t table_bytes;	/* memory of tables for unwinding */
	uint64_t waiting_bytes; /* memory of copies of stacks that wait for them */
	uint64_t list_bytes;	/* memory of lists of functions: of files, the kernel, and code made at run time */
};

struct profiler_state {
	uint64_t settings; /* the number of the message that is in force */
	bool is_on;	   /* something is sampled */
	uint64_t drained;  /* CLOCK_MONOTONIC ns: until then all samples are in memory */
	char *problem;	   /* why nothing is, or what is wrong with some of it; "": nothing */
	char **problems;   /* of each event of the settings; "": it is sampled */
	size_t nr_problems;
	char **captures; /* ids of those in memory */
	size_t nr_captures;
	uint64_t orders; /* the number of the last one that was taken */
	uint64_t room;	 /* so many more captures can be made then */
	struct profiler_stats stats;
};

void profiler_state_release(struct profiler_state *state);
void write_state(struct buf *out, const struct profiler_state *state);
int read_state(struct profiler_state *ret, const void *bytes, size_t len);
