/* SPDX-License-Identifier: MIT */

#include "web/clients.h"

#include "util/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

/* Prometheus comes every minute at the least; longer ones connect again. */
#define IDLE_US 120000000U

/* In µs: how late a connection may be ended. */
#define ACCURACY 100000U

struct peer_count {
	struct peer peer;
	size_t nr;
	UT_hash_handle hh;
};

static uint64_t now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000U + (uint64_t)ts.tv_nsec / 1000U;
}

static struct client_list *list_of(struct clients *clients, const struct client *client)
{
	return client->phase == PHASE_DROPPED ? &clients->dropped : &clients->phases[client->phase];
}

/* --- the timer */

static void arm(struct clients *clients, uint64_t when)
{
	if (sd_event_source_set_time(clients->timer, when) >= 0 &&
	    sd_event_source_set_enabled(clients->timer, SD_EVENT_ONESHOT) >= 0)
		clients->armed = when;
}

/* The head of a list is the first of its phase whose time comes. */
static uint64_t next_deadline(const struct clients *clients)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < _PHASE_MAX; i++) {
		const struct client *first = TAILQ_FIRST(&clients->phases[i]);

		if (first && first->deadline < next)
			next = first->deadline;
	}
	return next;
}

static uint64_t *dropped_of(struct clients *clients, enum phase phase)
{
	struct self_web *stats = clients->stats;

	return phase == PHASE_REQUEST ? &stats->dropped_request :
	       phase == PHASE_ANSWER  ? &stats->dropped_answer :
					&stats->dropped_idle;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct clients *clients = userdata;
	uint64_t now = now_us(), next;

	(void)source;
	(void)usec;
	for (size_t i = 0; i < _PHASE_MAX; i++) {
		struct client *first;

		while ((first = TAILQ_FIRST(&clients->phases[i])) && first->deadline <= now)
			clients_drop(clients, first);
	}
	clients->armed = UINT64_MAX;
	next = next_deadline(clients);
	if (next != UINT64_MAX)
		arm(clients, next);
	return 0;
}

int clients_init(struct clients *clients, sd_event *loop, struct self_web *stats)
{
	int r;

	*clients = (struct clients){ .armed = UINT64_MAX, .stats = stats, .patience[PHASE_IDLE] = IDLE_US };
	TAILQ_INIT(&clients->dropped);
	for (size_t i = 0; i < _PHASE_MAX; i++)
		TAILQ_INIT(&clients->phases[i]);
	r = sd_event_add_time(loop, &clients->timer, CLOCK_MONOTONIC, 0, ACCURACY, on_timer, clients);
	return r < 0 ? r : sd_event_source_set_enabled(clients->timer, SD_EVENT_OFF);
}

void clients_release(struct clients *clients)
{
	clients->timer = sd_event_source_disable_unref(clients->timer);
}

/* --- addresses */

static struct peer_count *find_peer(const struct clients *clients, const struct peer *peer)
{
	struct peer_count *found;

	HASH_FIND(hh, clients->peers, peer, sizeof(*peer), found);
	return found;
}

static int add_peer(struct clients *clients, const struct peer *peer)
{
	struct peer_count *count = find_peer(clients, peer);

	if (!count) {
		count = calloc(1, sizeof(*count));
		if (!count)
			return -ENOMEM;
		count->peer = *peer;
		HASH_ADD(hh, clients->peers, peer, sizeof(count->peer), count);
		if (!count->hh.tbl) {
			free(count);
			return -ENOMEM;
		}
	}
	count->nr++;
	return 0;
}

static void remove_peer(struct clients *clients, const struct peer *peer)
{
	struct peer_count *count = find_peer(clients, peer);

	if (--count->nr > 0)
		return;
	HASH_DEL(clients->peers, count);
	free(count);
}

/* --- one client */

static void insert(struct clients *clients, struct client *client, enum phase phase)
{
	client->phase = phase;
	client->deadline = now_us() + clients->patience[phase];
	TAILQ_INSERT_TAIL(&clients->phases[phase], client, in_phase);
	/* Where it is armed for something earlier, it is looked at then. */
	if (client->deadline < clients->armed)
		arm(clients, client->deadline);
}

struct client *clients_add(struct clients *clients, int fd)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->fd = fd;
	client->peer = peer_of(fd);
	client->by_loopback = peer_came_by_loopback(fd);
	if (add_peer(clients, &client->peer) < 0) {
		free(client);
		return NULL;
	}
	insert(clients, client, PHASE_REQUEST);
	clients->nr++;
	clients->stats->connections++;
	return client;
}

void clients_remove(struct clients *clients, struct client *client)
{
	TAILQ_REMOVE(list_of(clients, client), client, in_phase);
	clients_set_unsent(clients, client, 0, NULL);
	remove_peer(clients, &client->peer);
	clients->nr--;
	clients->stats->connections--;
	free(client);
}

void clients_enter(struct clients *clients, struct client *client, enum phase phase)
{
	if (client->phase == PHASE_DROPPED)
		return;
	TAILQ_REMOVE(&clients->phases[client->phase], client, in_phase);
	insert(clients, client, phase);
}

void clients_drop(struct clients *clients, struct client *client)
{
	const struct linger reset = { .l_onoff = 1 };

	(*dropped_of(clients, client->phase))++;
	clients_set_unsent(clients, client, 0, NULL);
	TAILQ_REMOVE(&clients->phases[client->phase], client, in_phase);
	client->phase = PHASE_DROPPED;
	TAILQ_INSERT_TAIL(&clients->dropped, client, in_phase);
	/* What the kernel has of an answer goes too when it is closed. */
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

static struct client *first_of(const struct clients *clients, enum phase phase, const struct peer *peer)
{
	struct client *client;

	TAILQ_FOREACH(client, &clients->phases[phase], in_phase)
		if (peer_is_same(&client->peer, peer))
			return client;
	return NULL;
}

struct client *clients_idlest(const struct clients *clients, const struct peer *peer)
{
	return first_of(clients, PHASE_IDLE, peer);
}

struct client *clients_greedy(const struct clients *clients, const struct peer *newcomer)
{
	const struct peer_count *most = clients->peers;
	struct client *client;

	for (const struct peer_count *count = most; count; count = count->hh.next)
		if (count->nr > most->nr)
			most = count;
	if (!most || most->nr <= clients_of(clients, newcomer) + 1)
		return NULL;
	client = first_of(clients, PHASE_IDLE, &most->peer);
	if (!client)
		client = first_of(clients, PHASE_REQUEST, &most->peer);
	return client ?: first_of(clients, PHASE_ANSWER, &most->peer);
}

struct client *clients_slowest(const struct clients *clients, uint64_t us)
{
	struct client *client = TAILQ_FIRST(&clients->phases[PHASE_ANSWER]);

	return client && now_us() + clients->patience[PHASE_ANSWER] >= client->deadline + us ? client : NULL;
}

void clients_set_unsent(struct clients *clients, struct client *client, size_t bytes, struct blob *shared)
{
	struct self_web *stats = clients->stats;

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
