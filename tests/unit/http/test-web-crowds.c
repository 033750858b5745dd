/* SPDX-License-Identifier: MIT */

/* Which connection is evicted when all slots are taken: without a server, for peers of any address. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "web/http/clients.h"

#include "base/util/clock.h"

#include <string.h>
#include <sys/socket.h>

struct peer __wrap_peer_of(int fd);
uint64_t __wrap_clock_monotonic_ns(void);

#define CLIENTS 8

struct world {
	sd_event *loop;
	struct clients clients;
	struct web_stats stats;
	int fds[2 * CLIENTS]; /* of pairs: clients are at the even ones */
	struct client *client[CLIENTS];
	struct peer peers[CLIENTS];
	size_t nr;
};

/* Of the one test that runs, for the function that clients.c calls. */
static const struct world *running;

static struct peer made_peer(uint8_t n)
{
	return (struct peer){ .family = AF_INET, .bytes = { 192, 0, 2, n } };
}

struct peer __wrap_peer_of(int fd)
{
	size_t i = 0;

	while (running->fds[2 * i] != fd)
		i++;
	return running->peers[i];
}

/* It stands still: a pause of this process makes nobody slow. */
uint64_t __wrap_clock_monotonic_ns(void)
{
	return 1000 * (uint64_t)NS_PER_S;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_int_equal(sd_event_new(&w->loop), 0);
	assert_int_equal(clients_init(&w->clients, w->loop, &w->stats), 0);
	for (int phase = 0; phase < _PHASE_MAX; phase++)
		clients_set_timeout(&w->clients, (enum phase)phase, 10 * CLIENT_SLOW_US);
	for (size_t i = 0; i < CLIENTS; i++)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, &w->fds[2 * i]), 0);
	running = w;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < w->nr; i++)
		clients_remove(&w->clients, w->client[i]);
	assert_int_equal(w->stats.connections, 0);
	clients_release(&w->clients);
	assert_null(sd_event_unref(w->loop));
	for (size_t i = 0; i < ARRAY_SIZE(w->fds); i++)
		safe_close(w->fds[i]);
	free(w);
	return 0;
}

/* A client of that peer, that has been in that phase for so many tenths of what is slow. In a phase, the oldest one has
 * to come first. */
static struct client *add(struct world *w, uint8_t peer, enum phase phase, unsigned tenths)
{
	struct client *client;

	w->peers[w->nr] = made_peer(peer);
	client = clients_add(&w->clients, w->fds[2 * w->nr]);
	assert_non_null(client);
	clients_enter(&w->clients, client, phase);
	client->since -= tenths * (CLIENT_SLOW_US / 10);
	w->client[w->nr++] = client;
	return client;
}

static struct client *spare_of(struct world *w, uint8_t peer)
{
	const struct peer of = made_peer(peer);

	return clients_pick_of(&w->clients, &of);
}

static struct client *spare_for(struct world *w, uint8_t peer)
{
	const struct peer newcomer = made_peer(peer);

	return clients_pick_for(&w->clients, &newcomer);
}

/* One by one, until there is none. */
static void test_of_one_address(void **state)
{
	struct world *w = *state;
	struct client *reads = add(w, 1, PHASE_ANSWER, 50), *sends = add(w, 1, PHASE_REQUEST, 30);
	struct client *also = add(w, 1, PHASE_REQUEST, 11), *idle;

	(void)add(w, 1, PHASE_REQUEST, 5);
	(void)add(w, 1, PHASE_ANSWER, 5);
	(void)add(w, 2, PHASE_IDLE, 90);
	idle = add(w, 1, PHASE_IDLE, 0);
	assert_ptr_equal(spare_of(w, 1), idle);
	clients_drop(&w->clients, idle);
	assert_ptr_equal(spare_of(w, 1), sends);
	clients_drop(&w->clients, sends);
	assert_ptr_equal(spare_of(w, 1), also);
	clients_drop(&w->clients, also);
	assert_ptr_equal(spare_of(w, 1), reads);
	clients_drop(&w->clients, reads);
	assert_null(spare_of(w, 1));
	assert_null(spare_of(w, 3));
	assert_int_equal(w->stats.dropped_idle, 1);
	assert_int_equal(w->stats.dropped_request, 2);
	assert_int_equal(w->stats.dropped_answer, 1);
}

/* A suspended client waits for the daemon: it is not slow, and is not evicted before it is resumed. */
static void test_passwords_are_no_fault(void **state)
{
	struct world *w = *state;
	struct client *waits = add(w, 1, PHASE_REQUEST, 50), *sends;

	waits->waits = true;
	assert_null(spare_of(w, 1));
	assert_null(spare_for(w, 2));
	sends = add(w, 1, PHASE_REQUEST, 20);
	assert_ptr_equal(spare_of(w, 1), sends);
	assert_ptr_equal(spare_for(w, 2), sends);
	waits->waits = false;
	assert_ptr_equal(spare_of(w, 1), waits);
}

/* All are taken, by as many addresses. */
static void test_of_many_addresses(void **state)
{
	struct world *w = *state;
	struct client *reads = add(w, 1, PHASE_ANSWER, 40), *sends = add(w, 2, PHASE_REQUEST, 20), *idle;

	(void)add(w, 3, PHASE_REQUEST, 5);
	(void)add(w, 4, PHASE_ANSWER, 5);
	idle = add(w, 5, PHASE_IDLE, 0);
	assert_ptr_equal(spare_for(w, 9), idle);
	/* Who has one already takes nobody's only one. */
	assert_null(spare_for(w, 3));
	clients_drop(&w->clients, idle);
	assert_ptr_equal(spare_for(w, 9), sends);
	clients_drop(&w->clients, sends);
	assert_ptr_equal(spare_for(w, 9), reads);
	clients_drop(&w->clients, reads);
	assert_null(spare_for(w, 9));
}

/* A peer with more connections than the newcomer's would have loses one, slow or not. */
static void test_of_a_greedy_address(void **state)
{
	struct world *w = *state;
	struct client *slow = add(w, 1, PHASE_REQUEST, 50), *first = add(w, 2, PHASE_REQUEST, 5), *second;

	second = add(w, 2, PHASE_REQUEST, 2);
	(void)add(w, 2, PHASE_REQUEST, 1);
	assert_ptr_equal(spare_for(w, 9), first);
	assert_ptr_equal(spare_for(w, 1), first);
	assert_null(spare_for(w, 2));
	/* Of equal ones, slow ones only. */
	clients_drop(&w->clients, first);
	clients_remove(&w->clients, first);
	w->client[1] = w->client[--w->nr];
	assert_ptr_equal(spare_for(w, 9), second);
	assert_ptr_equal(spare_for(w, 1), slow);
	slow->since += 45 * (CLIENT_SLOW_US / 10);
	assert_null(spare_for(w, 1));
	slow->since -= 45 * (CLIENT_SLOW_US / 10);
	/* Those who have fewer keep theirs, though they are slow. */
	assert_null(spare_for(w, 2));
}

/* Others get in, though all clients of those with the most connections wait for the daemon. */
static void test_who_waits_makes_room(void **state)
{
	struct world *w = *state;
	struct client *works, *waits, *reads;

	(void)add(w, 1, PHASE_WORK, 5);
	works = add(w, 2, PHASE_WORK, 3);
	waits = add(w, 1, PHASE_REQUEST, 20);
	(void)add(w, 3, PHASE_REQUEST, 1);
	reads = add(w, 2, PHASE_ANSWER, 0);
	for (size_t i = 0; i < w->nr; i++)
		w->client[i]->waits = w->client[i] == reads ? WAITS_NOT : WAITS_FOR_TURN;
	/* Who waits for nothing comes first, of whichever of them it is. */
	assert_ptr_equal(spare_for(w, 9), reads);
	reads->waits = WAITS_FOR_TURN;
	assert_ptr_equal(spare_for(w, 9), waits);
	clients_drop(&w->clients, waits);
	assert_ptr_equal(spare_for(w, 9), works);
	/* With another one, these would have as many. */
	assert_null(spare_for(w, 3));
}

int main(void)
{
#define world_test(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		world_test(test_of_one_address),       world_test(test_passwords_are_no_fault),
		world_test(test_of_many_addresses),    world_test(test_of_a_greedy_address),
		world_test(test_who_waits_makes_room),
	};

	return cmocka_run_group_tests_name("web-crowds", tests, NULL, NULL);
}
