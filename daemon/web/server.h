/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One libmicrohttpd, and the requests on its connections.
 *
 * It runs in external epoll mode, without threads: its epoll fd is an I/O source of the loop, its timeout a timer. It
 * does not listen; it is given connections. A request is looked at in the order of what it costs: the size of its
 * headers, its Host, its password, which may suspend it for a while, and then its route. What would make a turn of the
 * loop too long waits for the next one, so that counting goes on in between.
 */

#include "web/auth.h"
#include "web/clients.h"
#include "web/web.h"

#include <sys/socket.h>

/* What the servers of a web have in common. */
struct server_shared {
	sd_event *loop;
	struct web_source source;
	struct clients clients;
	struct auth *auth;
	uint64_t turn, turn_end; /* the loop's iteration, and when (CLOCK_MONOTONIC µs) nothing more is begun in it */
};

struct server;

/* Negative errno with the sentence in why. The options get a reference. */
int server_new(struct server **ret, struct server_shared *shared, struct web_options *options, struct reason *why);
/* Drops its connections. */
struct server *server_free(struct server *server);
DEFINE_CLEANUP(struct server *, server_free)

/* Takes the fd over. */
void server_add(struct server *server, int fd, const struct sockaddr *address, socklen_t size);
/* From now on each connection ends with its next answer. */
void server_retire(struct server *server);
size_t server_nr_clients(const struct server *server);

/* The verdict on a client's password is there; AUTH_WAIT: it has to be asked for again. */
void server_resume(struct client *client, enum auth_verdict verdict);
/* Does what there is to do at once. */
void server_run(struct server *server);
