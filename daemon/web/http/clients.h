/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The open connections, and a timeout for the phase that each is in: sending a request, counted from the beginning of
 * the connection or from the request's first byte; waiting for a response that takes long; receiving a response; being
 * idle between two. Single bytes now and then do not prolong a phase.
 *
 * All connections in a phase have the same timeout, so that the first in the list of a phase is the first to expire:
 * one timer of the loop is enough for all. An expired connection is shut down, which libmicrohttpd notices; one that
 * waits for a response is told instead.
 *
 * When there are too many connections, one of the address with the most of them is evicted, and between addresses with
 * equally many, one that is idle or slow. So neither many connections from few addresses nor slow ones from many keep
 * others out.
 */

#include "base/util/blob.h"
#include "counting/snapshot/self-stats.h"
#include "web/http/password-limit.h"
#include "web/http/peer.h"

#include <stddef.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

/* In µs. A connection that has been in the phase of a request or of a response for longer is slow. */
#define CLIENT_SLOW_US 1000000U

enum phase {
	PHASE_REQUEST,
	PHASE_WORK, /* it waits for an answer of the profiler, for the body of its response, or for its turn of these */
	PHASE_ANSWER,
	PHASE_IDLE,
	_PHASE_MAX,
	PHASE_DROPPED = _PHASE_MAX, /* shut down; libmicrohttpd has not closed it yet */
};

struct client_trust;
struct peer_count;
struct rendering;

/* What a suspended request waits for. */
enum client_wait {
	WAITS_NOT,
	WAITS_FOR_VERDICT, /* on a password, with the client's number */
	WAITS_FOR_TURN,	   /* the next one of the loop */
	WAITS_TO_ASK,	   /* the profiler, until the questions before its own are answered */
	WAITS_FOR_ANSWER,  /* of the profiler */
	WAITS_TO_RENDER,   /* until it is its turn (render-queue.h) */
	WAITS_FOR_BODY,	   /* which is being written */
};

struct client {
	TAILQ_ENTRY(client) in_phase;
	enum phase phase;
	uint64_t since; /* CLOCK_MONOTONIC µs: when the phase began */
	int fd;		/* borrowed from libmicrohttpd */
	struct peer peer;
	struct peer_count *peer_count; /* of that peer's connections */
	struct clients *clients;
	sd_event_source *io; /* idle: the first byte of a request; in a request or in work: the end of the connection */
	void *owner;	     /* struct server */
	void *connection;    /* struct MHD_Connection */
	bool is_local;	     /* on loopback or a Unix socket */
	/* The response that it has not received as a whole yet: the bytes of a body of its own, or a shared body, which
	 * counts once in the stats. */
	size_t unsent;
	struct blob *shared;
	/* Its request: what it waits for, if it is suspended; the number of its password, and the verdict, when there
	 * is one; has the client gone away in the phase of work, or did that last too long? */
	enum client_wait waits;
	bool has_verdict, gone, late;
	uint64_t number;
	int verdict; /* enum auth_verdict */
	/* A reference to the rendering that it waits for in the queue, or that was made for it; or NULL. */
	struct rendering *rendering;
	/* With mutual TLS: what its certificate has to fit, and the verdict, when the client has shown one. */
	const struct client_trust *trust;
	bool is_admitted, is_refused;
};

TAILQ_HEAD(client_list, client);

struct clients {
	struct client_list phases[_PHASE_MAX];
	struct client_list dropped;
	uint64_t timeouts[_PHASE_MAX]; /* µs */
	size_t nr;
	uint64_t turns;		  /* taken by clients */
	struct peer_count *peers; /* uthash */
	sd_event_source *timer;
	uint64_t armed; /* CLOCK_MONOTONIC µs of the timer; UINT64_MAX: it is off */
	struct web_stats *stats;
	struct rate_limit refusals; /* of client certificates, that are logged */
	/* Called when a connection has been removed, if it is set. libmicrohttpd closes the fd a little later. */
	void (*on_removed)(void *userdata);
	/* Called when a client has hung up, or was dropped, in the phase of work, if it is set. */
	void (*on_gone)(void *userdata, struct client *client);
	/* Called when the phase of work lasts too long, if it is set: has the client enter another phase. */
	void (*on_late)(void *userdata, struct client *client);
	void *userdata;
};

/* Negative errno. */
int clients_init(struct clients *clients, sd_event *loop, struct web_stats *stats);
/* All clients must have been removed. */
void clients_release(struct clients *clients);
/* Sets the timeout of a phase, in µs from when a client entered it; also of clients that are in it. */
void clients_set_timeout(struct clients *clients, enum phase phase, uint64_t us);

/* Adds a new connection, in PHASE_REQUEST. NULL: out of memory. */
struct client *clients_add(struct clients *clients, int fd);
void clients_remove(struct clients *clients, struct client *client);

void clients_enter(struct clients *clients, struct client *client, enum phase phase);
/* Shuts the connection down; unsent bytes are thrown away. */
void clients_drop(struct clients *clients, struct client *client);

size_t clients_of(const struct clients *clients, const struct peer *peer);

/* Its address has had a turn. */
void clients_take_turn(struct clients *clients, const struct client *client);
/* Of the clients in work that wait for that: one of the address whose last turn is the longest ago, which came first.
 * NULL: there is none. */
struct client *clients_pick_turn(const struct clients *clients, enum client_wait waits);

/* The following pick the connection to evict, or NULL. A client whose request is suspended is not taken for slow: the
 * delay is not its own. */

/* For another connection of a peer that has all it may have: its client that has been idle the longest, or else one
 * that is slow to send a request, or else to receive a response. */
struct client *clients_pick_of(const struct clients *clients, const struct peer *peer);
/* For a newcomer when all slots are taken: any client of a peer with the most connections, if these are more than the
 * newcomer's peer would have then, and one that waits for the daemon only if all of them do; or else an idle or slow
 * client of the newcomer's peer, or of peers with more connections than that has. */
struct client *clients_pick_for(const struct clients *clients, const struct peer *newcomer);
/* When files are short: an idle or slow client of any peer. */
struct client *clients_pick_any(const struct clients *clients);
/* When too much is unsent: the client that has been receiving a response the longest, if that is slow. */
struct client *clients_pick_slowest(const struct clients *clients);

/* Accounts for the client's response: so many bytes of its own, or a shared body, to which a reference is taken; 0 and
 * NULL: none. */
void clients_set_unsent(struct clients *clients, struct client *client, size_t bytes, struct blob *shared);

/* Iterates over all clients, dropped ones included: NULL begins, and NULL is returned behind the last. */
struct client *clients_next(const struct clients *clients, const struct client *client);
