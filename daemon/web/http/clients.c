/* SPDX-License-Identifier: MIT */

#include "web/http/clients.h"

#include "base/util/clock.h"
#include "base/util/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

/* How late an expired connection may be dropped, in µs. */
#define TIMER_ACCURACY_US 100000U

struct peer_count {
	struct peer peer;
	size_t nr;
	uint64_t turn; /* the number of the last one that it has taken; 0: none */
	UT_hash_handle hh;
};

static struct client_list *client_list_of(struct clients *clients, const struct client *client)
{
	return client->phase == PHASE_DROPPED ? &clients->dropped : &clients->phases[client->phase];
}

/* --- the timer */

static void timer_arm(struct clients *clients, uint64_t when)
{
	if (sd_event_source_set_time(clients->timer, when) >= 0 &&
	    sd_event_source_set_enabled(clients->timer, SD_EVENT_ONESHOT) >= 0)
		clients->armed = when;
}

static uint64_t deadline_of(const struct clients *clients, const struct client *client)
{
	return client->since + clients->timeouts[client->phase];
}

/* The head of a list is the first of its phase to expire. */
static uint64_t next_deadline(const struct clients *clients)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < _PHASE_MAX; i++) {
		const struct client *first = TAILQ_FIRST(&clients->phases[i]);

		if (first && deadline_of(clients, first) < next)
			next = deadline_of(clients, first);
	}
	return next;
}

static uint64_t *dropped_counter(struct clients *clients, enum phase phase)
{
	struct web_stats *stats = clients->stats;

	return phase == PHASE_REQUEST ? &stats->dropped_request :
	       phase == PHASE_IDLE    ? &stats->dropped_idle :
					&stats->dropped_answer;
}

static void expire(struct clients *clients, struct client *client)
{
	if (client->phase == PHASE_WORK && clients->on_late)
		clients->on_late(clients->userdata, client);
	else
		clients_drop(clients, client);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct clients *clients = userdata;
	uint64_t now = clock_monotonic_ns() / NS_PER_US, next;

	(void)source;
	(void)usec;
	for (size_t i = 0; i < _PHASE_MAX; i++) {
		struct client *first;

		while ((first = TAILQ_FIRST(&clients->phases[i])) && deadline_of(clients, first) <= now)
			expire(clients, first);
	}
	clients->armed = UINT64_MAX;
	next = next_deadline(clients);
	if (next != UINT64_MAX)
		timer_arm(clients, next);
	return 0;
}

int clients_init(struct clients *clients, sd_event *loop, struct web_stats *stats)
{
	int r;

	*clients = (struct clients){ .armed = UINT64_MAX, .stats = stats };
	TAILQ_INIT(&clients->dropped);
	for (size_t i = 0; i < _PHASE_MAX; i++)
		TAILQ_INIT(&clients->phases[i]);
	r = sd_event_add_time(loop, &clients->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US, on_timeout, clients);
	return r < 0 ? r : sd_event_source_set_enabled(clients->timer, SD_EVENT_OFF);
}

void clients_release(struct clients *clients)
{
	assert(clients->nr == 0);
	clients->timer = sd_event_source_disable_unref(clients->timer);
}

void clients_set_timeout(struct clients *clients, enum phase phase, uint64_t us)
{
	uint64_t next;

	clients->timeouts[phase] = us;
	next = next_deadline(clients);
	if (next < clients->armed)
		timer_arm(clients, next);
}

/* --- addresses */

static struct peer_count *find_peer(const struct clients *clients, const struct peer *peer)
{
	struct peer_count *found;

	HASH_FIND(hh, clients->peers, peer, sizeof(*peer), found);
	return found;
}

/* Counts one more. NULL: no memory. */
static struct peer_count *add_peer(struct clients *clients, const struct peer *peer)
{
	struct peer_count *count = find_peer(clients, peer);

	if (!count) {
		count = calloc(1, sizeof(*count));
		if (!count)
			return NULL;
		count->peer = *peer;
		HASH_ADD(hh, clients->peers, peer, sizeof(count->peer), count);
		if (!count->hh.tbl) {
			free(count);
			return NULL;
		}
	}
	count->nr++;
	return count;
}

static void remove_peer(struct clients *clients, const struct peer *peer)
{
	struct peer_count *count = find_peer(clients, peer);

	assert(count);
	if (--count->nr > 0)
		return;
	HASH_DEL(clients->peers, count);
	free(count);
}

/* --- one client */

static void phase_insert(struct clients *clients, struct client *client, enum phase phase)
{
	client->phase = phase;
	client->since = clock_monotonic_ns() / NS_PER_US;
	TAILQ_INSERT_TAIL(&clients->phases[phase], client, in_phase);
	/* A timer that is armed for an earlier time is armed again when it expires. */
	if (deadline_of(clients, client) < clients->armed)
		timer_arm(clients, deadline_of(clients, client));
}

/* Has the client of a request that is worked on hung up? One that only closes its own direction is taken for gone, too,
 * as other servers do: nothing tells the two apart before something is sent. */
static bool is_gone(const struct client *client, uint32_t revents)
{
	return client->waits && client->phase != PHASE_REQUEST && revents & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
}

/*
 * An idle client sends the first byte of a request: libmicrohttpd reports one only when the whole request line is
 * there, and the timeout counts from the first byte. Or the client has closed the connection in the middle of a
 * request: libmicrohttpd uses epoll edge-triggered, misses an end that arrives together with the bytes before it, and
 * would wait for the rest of the request.
 */
static int on_socket(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct client *client = userdata;
	int r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (is_gone(client, revents) && client->clients->on_gone)
		client->clients->on_gone(client->clients->userdata, client);
	else if (n == 0 && !client->waits)
		(void)shutdown(fd, SHUT_RDWR);
	else if (n > 0 && client->phase == PHASE_IDLE)
		clients_enter(client->clients, client, PHASE_REQUEST);
	return r;
}

/* An idle client is watched before libmicrohttpd reads (a lower priority value runs first), so that the byte is
 * still in the socket; a client in a request after that, so that the end is the last thing there. */
static void client_watch(const struct client *client)
{
	bool idle = client->phase == PHASE_IDLE, on = client->phase != PHASE_ANSWER;
	int priority = SD_EVENT_PRIORITY_NORMAL + (idle ? -1 : 1);

	(void)sd_event_source_set_enabled(client->io, SD_EVENT_OFF);
	if (on && sd_event_source_set_io_events(client->io, idle ? EPOLLIN : EPOLLRDHUP) >= 0 &&
	    sd_event_source_set_priority(client->io, priority) >= 0)
		(void)sd_event_source_set_enabled(client->io, SD_EVENT_ON);
}

static int client_add_source(struct clients *clients, struct client *client)
{
	sd_event *loop = sd_event_source_get_event(clients->timer);
	int r = sd_event_add_io(loop, &client->io, client->fd, EPOLLRDHUP, on_socket, client);

	return r < 0 ? r : sd_event_source_set_enabled(client->io, SD_EVENT_OFF);
}

static void client_free(struct client *client)
{
	sd_event_source_disable_unref(client->io);
	free(client);
}

struct client *clients_add(struct clients *clients, int fd)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->fd = fd;
	client->peer = peer_of(fd);
	client->is_local = peer_is_local(fd);
	client->clients = clients;
	client->peer_count = client_add_source(clients, client) < 0 ? NULL : add_peer(clients, &client->peer);
	if (!client->peer_count) {
		client_free(client);
		return NULL;
	}
	phase_insert(clients, client, PHASE_REQUEST);
	client_watch(client);
	clients->nr++;
	clients->stats->connections++;
	return client;
}

void clients_remove(struct clients *clients, struct client *client)
{
	TAILQ_REMOVE(client_list_of(clients, client), client, in_phase);
	clients_set_unsent(clients, client, 0, NULL);
	remove_peer(clients, &client->peer);
	clients->nr--;
	clients->stats->connections--;
	client_free(client);
	if (clients->on_removed)
		clients->on_removed(clients->userdata);
}

void clients_enter(struct clients *clients, struct client *client, enum phase phase)
{
	if (client->phase == PHASE_DROPPED)
		return;
	TAILQ_REMOVE(&clients->phases[client->phase], client, in_phase);
	phase_insert(clients, client, phase);
	/* If it cannot be watched, its request begins with the whole line instead of the first byte. */
	client_watch(client);
}

void clients_drop(struct clients *clients, struct client *client)
{
	const struct linger reset = { .l_onoff = 1 };

	assert(client->phase != PHASE_DROPPED);
	(*dropped_counter(clients, client->phase))++;
	clients_set_unsent(clients, client, 0, NULL);
	TAILQ_REMOVE(&clients->phases[client->phase], client, in_phase);
	client->phase = PHASE_DROPPED;
	TAILQ_INSERT_TAIL(&clients->dropped, client, in_phase);
	/* Bytes of a response that are in the kernel are thrown away on close, too. */
	(void)setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	(void)shutdown(client->fd, SHUT_RDWR);
}

/* --- all of them */

struct client *clients_next(const struct clients *clients, const struct client *client)
{
	struct client *next = client ? TAILQ_NEXT(client, in_phase) : NULL;
	size_t phase = client ? client->phase + 1U : 0;

	for (; !next && phase < _PHASE_MAX; phase++)
		next = TAILQ_FIRST(&clients->phases[phase]);
	return !next && phase == _PHASE_MAX ? TAILQ_FIRST(&clients->dropped) : next;
}

size_t clients_of(const struct clients *clients, const struct peer *peer)
{
	const struct peer_count *count = find_peer(clients, peer);

	return count ? count->nr : 0;
}

void clients_take_turn(struct clients *clients, const struct client *client)
{
	client->peer_count->turn = ++clients->turns;
}

struct client *clients_pick_turn(const struct clients *clients, enum client_wait waits)
{
	struct client *client, *first = NULL;

	TAILQ_FOREACH(client, &clients->phases[PHASE_WORK], in_phase)
		if (client->waits == waits && (!first || client->peer_count->turn < first->peer_count->turn))
			first = client;
	return first;
}

/* The first client of that peer (or NULL), or of any with more connections than more_than, that is idle or has been in
 * its phase for at least us. The lists are in the order of `since`, so that the first younger one ends the search. */
static struct client *pick_client(const struct clients *clients, const struct peer_count *of, size_t more_than,
				  uint64_t us)
{
	static const enum phase order[] = { PHASE_IDLE, PHASE_REQUEST, PHASE_ANSWER };
	uint64_t now = clock_monotonic_ns() / NS_PER_US;
	struct client *client;

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		TAILQ_FOREACH(client, &clients->phases[order[i]], in_phase) {
			if (client->phase != PHASE_IDLE && client->since + us > now)
				break;
			if (!client->waits && (client->peer_count == of || client->peer_count->nr > more_than))
				return client;
		}
	return NULL;
}

struct client *clients_pick_of(const struct clients *clients, const struct peer *peer)
{
	return pick_client(clients, find_peer(clients, peer), SIZE_MAX, CLIENT_SLOW_US);
}

/* The last that came of those that wait for the daemon, of any peer with more connections than more_than. One in work
 * that does not wait was resumed a moment ago. */
static struct client *pick_waiting(const struct clients *clients, size_t more_than)
{
	static const enum phase order[] = { PHASE_REQUEST, PHASE_WORK };
	struct client *client;

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		TAILQ_FOREACH_REVERSE(client, &clients->phases[order[i]], client_list, in_phase)
			if ((client->waits || client->phase == PHASE_WORK) && client->peer_count->nr > more_than)
				return client;
	return NULL;
}

struct client *clients_pick_for(const struct clients *clients, const struct peer *newcomer)
{
	const struct peer_count *own = find_peer(clients, newcomer);
	size_t nr = own ? own->nr : 0, most = 0;
	struct client *client = NULL;

	for (const struct peer_count *count = clients->peers; count; count = count->hh.next)
		if (count->nr > most)
			most = count->nr;
	if (most > nr + 1)
		client = pick_client(clients, NULL, most - 1, 0) ?: pick_waiting(clients, most - 1);
	return client ?: pick_client(clients, own, nr, CLIENT_SLOW_US);
}

struct client *clients_pick_any(const struct clients *clients)
{
	return pick_client(clients, NULL, 0, CLIENT_SLOW_US);
}

struct client *clients_pick_slowest(const struct clients *clients)
{
	struct client *client = TAILQ_FIRST(&clients->phases[PHASE_ANSWER]);

	return client && client->since + CLIENT_SLOW_US <= clock_monotonic_ns() / NS_PER_US ? client : NULL;
}

void clients_set_unsent(struct clients *clients, struct client *client, size_t bytes, struct blob *shared)
{
	struct web_stats *stats = clients->stats;

	stats->unsent += bytes;
	if (shared && blob_ref(shared)->users++ == 0)
		stats->unsent += shared->len;
	stats->unsent -= client->unsent;
	if (client->shared && --client->shared->users == 0)
		stats->unsent -= client->shared->len;
	blob_unref(client->shared);
	client->unsent = bytes;
	client->shared = shared;
}
