/* SPDX-License-Identifier: MIT */

#include "web/http/web.h"

#include "base/util/log.h"
#include "web/api/response.h"
#include "web/http/listen.h"
#include "web/http/server.h"

#include <errno.h>
#include <string.h>

/* Connections accepted from a socket in one turn of the loop. */
#define ACCEPT_MAX 64
/* When there was no file or no memory for a connection, accepting stops for so long, in µs. */
#define RETRY_US 1000000U

/* The kernel's buffers for a connection; it allocates up to twice as much (socket(7), SO_SNDBUF). They are bounded
 * because bytes in them count as received by the client, and the kernel's own choice can be megabytes. */
#define SEND_BYTES (256 * 1024)
#define RECEIVE_BYTES (64 * 1024)

struct web_listener {
	struct web *web;
	struct listening listening;
	char *url;
	sd_event_source *io;
};

struct web {
	struct server_shared shared;
	struct web_options *options;
	struct server *server, *old; /* old: retired, its clients receive their responses; NULL: none */
	sd_event_source *retry;	     /* ends a pause */
	bool paused;		     /* accepting; connections wait in the kernel */
	size_t nr;
	struct web_listener listeners[];
};

/* --- connections */

static void listeners_set_paused(struct web *web, bool paused)
{
	if (web->paused == paused)
		return;
	web->paused = paused;
	for (size_t i = 0; i < web->nr; i++)
		(void)sd_event_source_set_enabled(web->listeners[i].io, paused ? SD_EVENT_OFF : SD_EVENT_ON);
}

static void on_client_removed(void *userdata)
{
	listeners_set_paused(userdata, false);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	listeners_set_paused(userdata, false);
	return 0;
}

static void pause_accepting(struct web *web)
{
	web->shared.clients.stats->refused_failed++;
	if (sd_event_source_set_time_relative(web->retry, RETRY_US) >= 0 &&
	    sd_event_source_set_enabled(web->retry, SD_EVENT_ONESHOT) >= 0)
		listeners_set_paused(web, true);
}

/* Evicts a client, if there is one (not NULL), and has libmicrohttpd close the connection. */
static bool evict_client(struct web *web, struct client *client)
{
	struct server *server = client ? client->owner : NULL;

	if (!client)
		return false;
	clients_drop(&web->shared.clients, client);
	if (client->waits)
		server_give_up(client);
	else
		client->gone = true;
	server_run(server);
	return true;
}

static void run_servers(struct web *web)
{
	if (web->old)
		server_run(web->old);
	if (web->server)
		server_run(web->server);
}

/* Is there room for another connection of that peer? Evicts one for it, if necessary and possible. */
static bool admit_peer(struct web *web, const struct peer *peer)
{
	const struct clients *clients = &web->shared.clients;

	/* Connections that were dropped count until libmicrohttpd has closed them. */
	if (clients->nr >= web->options->max_connections && !TAILQ_EMPTY(&clients->dropped))
		run_servers(web);
	if (clients_of(clients, peer) >= web->options->max_connections_per_address &&
	    !evict_client(web, clients_pick_of(clients, peer))) {
		clients->stats->refused_address++;
		return false;
	}
	if (clients->nr >= web->options->max_connections && !evict_client(web, clients_pick_for(clients, peer))) {
		clients->stats->refused_full++;
		return false;
	}
	return true;
}

static void bound_buffers(int fd)
{
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ SEND_BYTES }, sizeof(int));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ RECEIVE_BYTES }, sizeof(int));
}

static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Called when there was no file or no memory for a connection: evicts another one, or else pauses accepting until a
 * connection has ended, for RETRY_US at most. Evicts one only: when its file did not help, another one would not. */
static bool make_file_free(struct web *web, bool *evicted)
{
	if (!*evicted && evict_client(web, clients_pick_any(&web->shared.clients))) {
		*evicted = true;
		return true;
	}
	pause_accepting(web);
	return false;
}

/* False: no connection is left, or none can be accepted. evicted: one was evicted for this connection. */
static bool accept_one(struct web_listener *listener, bool *evicted)
{
	struct web *web = listener->web;
	struct address address = { .size = sizeof(address.storage) };
	struct peer peer;
	int fd;

	if (web->old && server_nr_clients(web->old) == 0)
		web->old = server_free(web->old);
	fd = accept4(listener->listening.fd, &address.any, &address.size, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == ECONNABORTED || (is_shortage(errno) && make_file_free(web, evicted));
	*evicted = false;
	bound_buffers(fd);
	peer = peer_of(fd);
	if (admit_peer(web, &peer))
		server_add(web->server, fd, &address.any, address.size);
	else
		safe_close(fd);
	return true;
}

static int on_connections(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	bool evicted = false;

	(void)source;
	(void)fd;
	(void)revents;
	for (int i = 0; i < ACCEPT_MAX && accept_one(userdata, &evicted); i++)
		;
	return 0;
}

/* --- passwords */

static void on_verdict(void *userdata, uint64_t number, enum auth_verdict verdict)
{
	struct web *web = userdata;
	struct clients *clients = &web->shared.clients;

	for (struct client *client = clients_next(clients, NULL); client; client = clients_next(clients, client))
		if (client->waits == WAITS_FOR_VERDICT && client->number == number)
			server_resume(client, verdict);
	run_servers(web);
}

/* --- clients that wait for an answer */

static void on_client_gone(void *userdata, struct client *client)
{
	server_give_up(client);
	run_servers(userdata);
}

static void on_client_late(void *userdata, struct client *client)
{
	server_give_late(client);
	run_servers(userdata);
}

/* Suspended requests begin anew, in a later turn of the loop, when all else is reloaded, too: with their password
 * checked again, against the new users, and with their question put again. */
static void users_replace(struct web *web, const struct users *users)
{
	struct clients *clients = &web->shared.clients;

	auth_set_users(web->shared.auth, users);
	for (struct client *client = clients_next(clients, NULL); client; client = clients_next(clients, client))
		if (client->waits)
			server_resume(client, AUTH_WAIT);
}

/* --- options */

/* The URLs depend on TLS. Out of memory, the old URL stays: it is for messages only. */
static void name_listeners(struct web *web)
{
	for (size_t i = 0; i < web->nr; i++) {
		struct web_listener *listener = &web->listeners[i];
		char *url = address_url(&listener->listening.address, web->options->tls);

		if (!url)
			continue;
		free(listener->url);
		listener->url = url;
	}
}

static void server_replace(struct web *web, struct server *server, struct web_options *options)
{
	struct clients *clients = &web->shared.clients;

	web->old = server_free(web->old);
	if (web->server) {
		server_retire(web->server);
		if (server_nr_clients(web->server))
			web->old = web->server;
		else
			server_free(web->server);
	}
	web->server = server;
	clients_set_timeout(clients, PHASE_REQUEST, options->request_timeout / 1000);
	clients_set_timeout(clients, PHASE_WORK, options->work_timeout / 1000);
	clients_set_timeout(clients, PHASE_ANSWER, options->answer_timeout / 1000);
	clients_set_timeout(clients, PHASE_IDLE, options->idle_timeout / 1000);
	users_replace(web, options->users);
	web_options_unref(web->options);
	web->options = web_options_ref(options);
	name_listeners(web);
	listeners_set_paused(web, false);
}

int web_set_options(struct web *web, struct web_options *options, struct reason *why)
{
	struct server *server;
	int r = server_new(&server, &web->shared, options, why);

	if (r >= 0)
		server_replace(web, server, options);
	return r;
}

/* --- cached responses */

static int on_cache_check(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct web *web = userdata;
	int r;

	(void)usec;
	if (!response_cache_drop_stale(web->shared.cache))
		return 0;
	r = sd_event_source_set_time_relative(source, CACHE_CHECK_US);
	return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* --- listening */

static void listener_stop(struct web_listener *listener)
{
	sd_event_source_disable_unref(listener->io);
	listening_close(&listener->listening);
	free(listener->url);
}

struct web *web_free(struct web *web)
{
	if (!web)
		return NULL;
	for (size_t i = 0; i < web->nr; i++)
		listener_stop(&web->listeners[i]);
	web->nr = 0;
	server_free(web->old);
	server_free(web->server);
	clients_release(&web->shared.clients);
	render_queue_release(&web->shared.renders);
	auth_free(web->shared.auth);
	response_cache_free(web->shared.cache);
	sd_event_source_disable_unref(web->shared.cache_check);
	web_options_unref(web->options);
	sd_event_source_disable_unref(web->retry);
	sd_event_unref(web->shared.loop);
	free(web);
	return NULL;
}

static int web_init(struct web *web, struct web_options *options, struct reason *why)
{
	sd_event *loop = web->shared.loop;
	int r = clients_init(&web->shared.clients, loop, web->shared.source.stats);

	web->shared.clients.on_removed = on_client_removed;
	web->shared.clients.on_gone = on_client_gone;
	web->shared.clients.on_late = on_client_late;
	web->shared.clients.userdata = web;
	if (r >= 0)
		r = response_cache_new(&web->shared.cache);
	if (r >= 0)
		r = render_queue_init(&web->shared.renders, loop, &web->shared.clients, web->shared.cache,
				      server_resume_request);
	if (r >= 0)
		r = auth_new(&web->shared.auth, loop, on_verdict, web);
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &web->retry, CLOCK_MONOTONIC, 0, 0, on_retry, web);
	if (r >= 0)
		r = sd_event_source_set_enabled(web->retry, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &web->shared.cache_check, CLOCK_MONOTONIC, 0, CACHE_CHECK_US / 4,
					       on_cache_check, web);
	if (r >= 0)
		r = sd_event_source_set_enabled(web->shared.cache_check, SD_EVENT_OFF);
	if (r < 0)
		return reason_set(why, r, "cannot serve HTTP: %s", strerror(-r));
	return web_set_options(web, options, why);
}

/* Serves on the socket, which it takes over on success. */
static int web_add(struct web *web, const struct listening *listening, struct reason *why)
{
	struct web_listener *listener = &web->listeners[web->nr];
	_cleanup_(freep) char *url = address_url(&listening->address, web->options->tls);
	int r;

	if (!url)
		return reason_set(why, -ENOMEM, "out of memory");
	*listener = (struct web_listener){ .web = web, .listening = *listening };
	r = sd_event_add_io(web->shared.loop, &listener->io, listening->fd, EPOLLIN, on_connections, listener);
	if (r < 0)
		return reason_set(why, r, "cannot serve HTTP on %s: %s", url, strerror(-r));
	listener->url = steal_ptr(url);
	web->nr++;
	return 0;
}

/* Opens number i of the addresses or sockets that `from` lists. */
typedef int (*listening_opener)(struct listening *ret, const void *from, size_t i, struct reason *why);

static int open_address(struct listening *ret, const void *from, size_t i, struct reason *why)
{
	const char *text = ((char *const *)from)[i];
	struct address address;
	int r = address_parse(&address, text, why);

	return r < 0 ? reason_prefix(why, r, "cannot listen") : listening_open(ret, &address, text, why);
}

static int share_socket(struct listening *ret, const void *from, size_t i, struct reason *why)
{
	return listening_share(ret, ((const int *)from)[i], why);
}

static int web_open(struct web **ret, sd_event *loop, listening_opener opener, const void *from, size_t nr,
		    const struct web_source *source, struct web_options *options, struct reason *why)
{
	_cleanup_(web_freep) struct web *web = calloc(1, sizeof(*web) + nr * sizeof(web->listeners[0]));
	int r;

	if (!web)
		return reason_set(why, -ENOMEM, "out of memory");
	web->shared = (struct server_shared){
		.loop = sd_event_ref(loop),
		.source = *source,
	};
	r = web_init(web, options, why);
	for (size_t i = 0; i < nr && r >= 0; i++) {
		struct listening listening;

		r = opener(&listening, from, i, why);
		if (r < 0)
			break;
		r = web_add(web, &listening, why);
		if (r < 0)
			listening_close(&listening);
	}
	if (r < 0)
		return r;
	*ret = steal_ptr(web);
	return 0;
}

int web_new(struct web **ret, sd_event *loop, char *const *listen, size_t nr, const struct web_source *source,
	    struct web_options *options, struct reason *why)
{
	return web_open(ret, loop, open_address, listen, nr, source, options, why);
}

int web_new_on(struct web **ret, sd_event *loop, const int *sockets, size_t nr, const struct web_source *source,
	       struct web_options *options, struct reason *why)
{
	return web_open(ret, loop, share_socket, sockets, nr, source, options, why);
}

const char *web_url(const struct web *web, size_t i)
{
	return i < web->nr ? web->listeners[i].url : NULL;
}
