/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The connections, and how long each may take for what it is at: to send a request, from the connection's beginning or
 * the request's first byte on; to take an answer; to be idle between two. Bytes that trickle don't prolong it.
 *
 * All in a phase have the same patience, so that the first of its list is the first to run out: one timer of the loop
 * does for all. A connection whose time has come is shut down, by which libmicrohttpd learns of it.
 *
 * Where there are too many, whose address has the most gives one up, and of equal ones who is idle or slow: so neither
 * many connections from few addresses nor slow ones from many keep anybody out.
 */

#include "snapshot/self.h"
#include "util/blob.h"
#include "web/peer.h"

#include <stddef.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

/* In µs: who has been at a request or an answer for longer gives its place to others. */
#define CLIENT_SLOW_US 1000000U

enum phase {
	PHASE_REQUEST,
	PHASE_ANSWER,
	PHASE_IDLE,
	_PHASE_MAX,
	PHASE_DROPPED = _PHASE_MAX, /* shut down, and not gone yet */
};

struct client {
	TAILQ_ENTRY(client) in_phase;
	enum phase phase;
	uint64_t since; /* CLOCK_MONOTONIC µs: when it came to that */
	int fd;		/* libmicrohttpd's */
	struct peer peer;
	const struct peer_count *of; /* that peer's */
	struct clients *clients;
	sd_event_source *io; /* idle: its next request begins; at a request: it has ended */
	void *owner; /* the server it is one of */
	void *connection;
	bool is_local;
	/* Its answer, which it has not taken yet as a whole: so many bytes of its own, or what others take too, which
	 * is in the stats once. */
	size_t unsent;
	struct blob *shared;
	/* Of its request, while a password is checked, and then; or while it waits for its turn. */
	bool waits, has_verdict;
	uint64_t number;
	int verdict;
};

TAILQ_HEAD(client_list, client);

struct peer_count;

struct clients {
	struct client_list phases[_PHASE_MAX];
	struct client_list dropped;
	uint64_t patience[_PHASE_MAX]; /* µs: clients_set_patience() */
	size_t nr;
	struct peer_count *peers; /* uthash: how many each address has */
	sd_event_source *timer;
	uint64_t armed; /* when the timer goes off; UINT64_MAX: it does not */
	struct self_web *stats;
	/* Told when a connection is gone, if it is set. Its file is closed a little later. */
	void (*on_left)(void *userdata);
	void *userdata;
};

/* Negative errno. */
int clients_init(struct clients *clients, sd_event *loop, struct self_web *stats);
/* All of them have to be gone. */
void clients_release(struct clients *clients);
/* So many µs from when a client came to that phase. */
void clients_set_patience(struct clients *clients, enum phase phase, uint64_t us);

/* Takes a new connection up, in PHASE_REQUEST; NULL: no memory. */
struct client *clients_add(struct clients *clients, int fd);
void clients_remove(struct clients *clients, struct client *client);

void clients_enter(struct clients *clients, struct client *client, enum phase phase);
/* Shuts it down; what it has not taken yet is thrown away. */
void clients_drop(struct clients *clients, struct client *client);

size_t clients_of(const struct clients *clients, const struct peer *peer);
/* Whom to drop for another one of that peer's: of those it has, who has been idle the longest, or else slow, at a
 * request or at an answer. NULL: nobody. Whose password is checked is not slow by itself. */
struct client *clients_spare_of(const struct clients *clients, const struct peer *peer);
/* Whom to drop for a newcomer where all places are taken: of the peer that has the most, if that is more than the
 * newcomer's would have then, whoever it is; or else, of the newcomer's own and of those that have as many, who is idle
 * or slow. NULL: nobody. */
struct client *clients_spare_for(const struct clients *clients, const struct peer *newcomer);
/* Whom to drop where files are short: who is idle, or slow, whoever it is. NULL: nobody. */
struct client *clients_spare(const struct clients *clients);
/* Who has been taking an answer the longest, if that is slow; NULL: nobody. */
struct client *clients_slowest(const struct clients *clients);
/* Its answer is under way: so many bytes of its own, or a part in what is shared; or none any more (0 and NULL). */
void clients_set_unsent(struct clients *clients, struct client *client, size_t bytes, struct blob *shared);

/* All of them, one after the other, those that were dropped too: NULL is before the first and behind the last. */
struct client *clients_next(const struct clients *clients, const struct client *client);
