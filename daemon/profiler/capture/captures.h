/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Captures: what was sampled of a cgroup before and after its counter was unusual (trigger.h), kept as an archive of
 * its own (extract.h), with the reason. All together are in a hard bound of memory: the oldest go first, and those that
 * are still to be saved on disk last.
 *
 * A capture runs until its stretch is over, and is finished when its functions have their names.
 */

#include "base/util/buf.h"
#include "base/util/clock-steps.h"
#include "base/util/reason.h"
#include "profiler/answer/query.h"
#include "profiler/archive/archive-gaps.h"
#include "profiler/archive/extract.h"
#include "profiler/protocol.h"

#include <sys/queue.h>

/* Captures that are not finished, and how much of the memory each of them may take; finished ones mostly take
 * less. */
#define CAPTURES_RUNNING_MAX 4
#define CAPTURE_SHARE 8

enum capture_state {
	CAPTURE_RUNNING,
	CAPTURE_NAMING, /* its stretch is over, and it waits for the names of its functions */
	CAPTURE_FINISHED,
};

/* On disk, if that is wanted. */
enum capture_disk {
	CAPTURE_NOT_SAVED, /* nor is it to be */
	CAPTURE_TO_BE_SAVED,
	CAPTURE_SAVED,
	CAPTURE_SAVE_FAILED,
};

/* Why there is a capture, and of what. */
struct capture_cause {
	const char *rule;    /* the name of the rule's section */
	const char *when;    /* the rule */
	const char *cgroup;  /* label; NULL: all CPUs together */
	const char *counter; /* the event of the rule */
	const char *unit;    /* of its rate, per second */
	const char *reason;  /* a sentence */
	double value, threshold;
	uint64_t time;			/* when it began, CLOCK_MONOTONIC ns */
	uint64_t from, to;		/* CLOCK_MONOTONIC ns */
	struct clock_steps clock;	/* up to its end: tells the wall times that were shown then */
	struct profile_measure measure; /* of its samples; the event's name is that for users */
	const char *key;		/* … and this is its name in the archive that they come from */
	bool save;			/* it is to be saved on disk */
};

/* Where samples come from. Borrowed. */
struct capture_source {
	const struct archive *archive;
	const struct archive_gaps *gaps;
	uint64_t drained; /* CLOCK_MONOTONIC ns: the archive has all samples until then */
	bool is_on;	  /* samples are taken */
};

struct capture {
	char *id;		    /* the order's */
	struct capture_cause cause; /* with texts of its own */
	enum capture_state state;
	enum capture_disk disk;
	struct reason disk_problem;
	uint64_t keep; /* so many of its rule */

	struct archive *archive; /* of its own */
	struct extract extract;

	int raised_number; /* while more is sampled for it, under the name `id`, the number of that event; else -1 */
	struct reason raise_problem;

	uint64_t wait_until; /* for names, CLOCK_MONOTONIC ns */
	TAILQ_ENTRY(capture) in_all;
};

TAILQ_HEAD(capture_list, capture);

struct captures {
	size_t limit;		 /* bytes */
	struct capture_list all; /* oldest first */
	size_t nr, nr_unfinished;
	uint64_t dropped;
};

void captures_init(struct captures *captures, size_t limit);
/* Empties it. */
void captures_release(struct captures *captures);
/* Another limit: what is too much is dropped. */
void captures_set_limit(struct captures *captures, size_t limit);

/* Adds one that runs. Its texts are copied; the oldest finished ones make room. -EEXIST: there is one with that id;
 * -EBUSY: too many are not finished, or there is no room beside them; -ENOMEM. */
int captures_add(struct captures *captures, const char *id, const struct capture_cause *cause, struct capture **ret);

/* How many more could be added now, as far as their number goes. */
size_t captures_room(const struct captures *captures);

/* Copies samples of the stretch for a while; when the stretch is over, takes over names, and finishes the capture when
 * all are there or have taken too long. True: the stretch is over. */
bool capture_turn(struct captures *captures, struct capture *capture, const struct capture_source *source);
/* Nothing comes any more: copies the samples that there are, and finishes the capture. */
void capture_end(struct captures *captures, struct capture *capture, const struct capture_source *source);

/* From now on, more is sampled for the capture, under its id as the name, by the event of that number; or (-1) it is
 * not, for the reason in why. */
void capture_set_raised(struct capture *capture, int number, const struct reason *why);
/* No more is sampled for it: returns the number, or -1 if nothing was. */
int capture_take_raised(struct capture *capture);

/* It will not grow any more. */
void captures_finish(struct captures *captures, struct capture *capture);

/* Leaves so many of that rule (NULL: of each; UINT64_MAX: all), now and at each captures_trim(): the oldest
 * finished ones are dropped, unless they are still to be saved. */
void captures_keep(struct captures *captures, const char *rule, uint64_t keep);
/* Those that could not be dropped before. */
void captures_trim(struct captures *captures);

/* The oldest that is to be saved on disk; NULL: there is none. */
const struct capture *captures_to_save(const struct captures *captures);
/* It was saved; or not, with the sentence in problem. */
void captures_saved(struct captures *captures, const char *id, const char *problem);

/* The next one that is newer; after NULL: the oldest; NULL: there is none. */
struct capture *captures_next(const struct captures *captures, const struct capture *capture);

/* By the id, or NULL. */
struct capture *captures_find(const struct captures *captures, const char *id);

/* The wall time that was shown at a time of CLOCK_MONOTONIC. */
uint64_t capture_shown(const struct capture_cause *cause, uint64_t time);

/* Samples in it, and those that it had no room for. */
size_t capture_samples(const struct capture *capture);
size_t capture_samples_dropped(const struct capture *capture);

/* Bytes of one, and of all: a capture that is not finished counts as the most that it may take. */
size_t capture_bytes(const struct capture *capture);
size_t captures_bytes(const struct captures *captures);

/* Fills in the parts of the state that are about captures. The array of ids is to be freed, the ids are borrowed.
 * -ENOMEM. */
int captures_describe(const struct captures *captures, struct profiler_state *state);

/* Answers a question about it as profile_new() does, within its stretch. query->event and query->since are the
 * capture's; ret_measure->gaps are those of its whole stretch. */
int capture_ask(const struct capture *capture, const struct profile_query *query, struct profile **ret,
		struct profile_measure *ret_measure);

/* Answers a question that came from outside, as answer_question() does, by the capture's own clock. */
int capture_answer(struct buf *out, const struct capture *capture, const struct profile_question *question,
		   struct reason *why);
