/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One libmicrohttpd daemon, and the requests on its connections.
 *
 * It runs in external epoll mode, without threads: its epoll fd is an I/O source of the loop, its timeout a timer. It
 * does not listen, but is given connections. A request is checked in the order of cost: the size of its headers, its
 * Host, its password, which may suspend it for a while, and then its route. A request that would make a turn of the
 * loop too long waits for the next turn, so that counting goes on in between. One that needs an answer of the profiler
 * is suspended until that is there. Questions are put one at a time, in the order in which they came: the requests that
 * wait for theirs are suspended, too, up to a limit. One whose response is written in a thread is suspended meanwhile
 * (render-queue.h).
 */

#include "base/util/blob.h"
#include "web/api/source.h"
#include "web/expose/response-cache.h"
#include "web/http/auth.h"
#include "web/http/render-queue.h"
#include "web/http/web-config.h"

#include <sys/socket.h>

/* An answer of the profiler, from when it comes until the asker takes it (web_answered_t). */
struct server_answer {
	bool is_there;
	int error;
	struct blob *document; /* a reference; NULL: an error */
	struct reason why;
};

/* The state that all servers of a web share. */
struct server_shared {
	sd_event *loop;
	struct web_source source;
	struct response_cache *cache;
	sd_event_source *cache_check; /* a timer, on while something is cached: drops stale responses */
	struct clients clients;
	struct render_queue renders;
	struct auth *auth;
	struct client *asker; /* whose question the profiler works at, or whose answer is not taken yet; or NULL */
	struct server_answer answer;
	size_t nr_waiting; /* clients that wait until they may ask */
	uint64_t turn;	   /* the loop's iteration */
	uint64_t turn_end; /* CLOCK_MONOTONIC µs at which this turn begins no more responses */
};

/* In µs: how often stale responses are looked for. */
#define CACHE_CHECK_US 1000000U

struct server;

/* Takes a reference to the options. shared must outlive the server. Negative errno with the sentence in why. */
int server_new(struct server **ret, struct server_shared *shared, struct web_options *options, struct reason *why);
/* Closes its connections. */
struct server *server_free(struct server *server);
DEFINE_CLEANUP(struct server *, server_free)

/* Takes the fd over in every case: MHD_add_connection() closes it when it fails. */
void server_add(struct server *server, int fd, const struct sockaddr *address, socklen_t size);
/* From now on each connection ends with its next response. */
void server_retire(struct server *server);
size_t server_nr_clients(const struct server *server);

/* on_request() of libmicrohttpd is called again, in the server's next run, which is due at once. */
void server_resume_request(struct client *client);
/* Resumes a request with the verdict on its password. AUTH_WAIT: it begins anew, and the password is checked again. */
void server_resume(struct client *client, enum auth_verdict verdict);
/* The client, whose request is suspended in the phase of work, is not there any more. */
void server_give_up(struct client *client);
/* The phase of work has lasted too long: the client is told. */
void server_give_late(struct client *client);
/* Does all work that is due. */
void server_run(struct server *server);
