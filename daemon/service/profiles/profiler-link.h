/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The connection to the profiler that runs now. The keeper (profiler-keeper.h) starts one after another, and each has a
 * fresh connection. One that says nonsense, does not answer for half a minute, or is too large for its user, is killed.
 */

#include "base/util/channel.h"
#include "profiler/protocol.h"
#include "service/profiles/profiler-keeper.h"

#include <systemd/sd-event.h>

struct profiler_link;

struct profiler_link_user {
	/* There is a profiler that knows nothing yet. */
	void (*begun)(void *userdata);
	/* It is gone. */
	void (*ended)(void *userdata);
	/* -EPROTO: the message makes no sense; -ENOMEM. Any other error ends the profiler, with the reason in why. */
	int (*take)(void *userdata, struct message *message, struct reason *why);
	/* A message is lost, for which there was no memory or no file. */
	void (*missed)(void *userdata, const char *why);
	void *userdata;
};

/* The keeper is borrowed; NULL: there is none, and no profiler. Negative errno. */
int profiler_link_new(struct profiler_link **ret, sd_event *loop, struct profiler_keeper *keeper,
		      const struct profiler_link_user *user);
struct profiler_link *profiler_link_free(struct profiler_link *link);
DEFINE_CLEANUP(struct profiler_link *, profiler_link_free)

/* Is there a profiler? */
bool profiler_link_is_up(const struct profiler_link *link);
/* How often one was started again. */
uint64_t profiler_link_restarts(const struct profiler_link *link);
/* Why there is none, or, as long as it has said nothing, that it is being started, or why the one before was killed. */
const char *profiler_link_problem(const struct profiler_link *link);

/* number: of a question. fd: goes along, borrowed; or -1. -EAGAIN: there is no profiler; -ENOBUFS: it does not read;
 * -ENOMEM. */
int profiler_link_send(struct profiler_link *link, enum profiler_message kind, uint64_t number,
		       const struct buf *content, int fd);

/* At the stop: waits until the profiler has ended, for so long at most, and takes what it has said until then. */
void profiler_link_wait(struct profiler_link *link, uint64_t ns);
