/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The daemon's side of profiles (service/profiles) with a keeper and a profiler that the test plays, at the other end
 * of the channel. The profiler's process only waits for its end. The tree of cgroups is one of plain directories (/, /a
 * and /a/b), and a rule is due when the test has it so. The functions in place of the world's and the keeper's are in
 * the .c file (tests/lib/link-options).
 */

#include "base/util/channel.h"
#include "counting/alarm/capture-rules.h"
#include "counting/world/world.h"
#include "service/profiles/profiles.h"
#include "setup/scratch.h"

#define RULE "[capture \"busy\"]\nwhen = page-faults > 1\nkeep = 3\nrate = 99\n[cpu]\ngroups = software\n"
#define ALL "/|/a|/a/b|"

struct profiled_world {
	struct scratch scratch;
	sd_event *loop;
	struct world *world;
	struct profiles *profiles;

	/* The profiler of this start, whose process only waits for its end. */
	struct channel *far;
	pid_t pid;
};

/* The keeper's news; they are told by tell_news(). */
struct keeper_news {
	int fd; /* readable then */
	bool is_there;
	int result;
	struct profiler_start start;
	uint64_t starts;
};
extern struct keeper_news keeper_news;

/* The target that is due at the next tick, and what became of it. */
struct due_rule {
	bool is_due;
	struct due_target target;
	enum due_answer answer;
	struct reason problem; /* why none can be */
};
extern struct due_rule due_rule;

extern bool cgroup_changes_lost;

/* --- the world */

/* Of a test's fixture: with RULE, and with profiles off. */
int profiled_setup(void **state);
int profiled_setup_off(void **state);
int profiled_teardown(void **state);

void reload_world(const struct profiled_world *f, const char *more);
void follow_tree(void);
const struct cgroup *cgroup_of(const char *path);

/* All that is to be done now. */
void run_loop(const struct profiled_world *f);

/* --- the profiler */

/* result: of profiler_keeper_receive(). */
void tell_news(const struct profiled_world *f, int result);
/* The one before is gone, or there was none. */
void start_profiler(struct profiled_world *f);
/* Waits for the end of its process, by which signal; it was killed, or is now. */
int reap_profiler(struct profiled_world *f, bool is_killed);

/* The next message that the profiler gets, to be released. */
struct message next_message(const struct profiled_world *f, enum profiler_message kind);
/* It gets nothing but pings. */
void expect_silence(const struct profiled_world *f);
/* Its events have this rate; 0: there are none. */
void expect_settings(const struct profiled_world *f, uint64_t number, uint64_t rate, uint64_t sampled);
/* The paths that have come, sorted, each with a '|', and how many have gone. */
void expect_cgroups(const struct profiled_world *f, bool is_all, const char *added, size_t nr_removed);
/* All that a profiler is told at first. */
void expect_everything(const struct profiled_world *f, uint64_t number, uint64_t sampled);

void say(const struct profiled_world *f, enum profiler_message kind, uint64_t number, const struct buf *content);
struct profiler_state a_state(uint64_t settings, const char *problem);
void say_state(const struct profiled_world *f, const struct profiler_state *state);
void say_refusal(const struct profiled_world *f, uint64_t number, int error, const char *why);
void say_answer(const struct profiled_world *f, uint64_t number, const char *document);
