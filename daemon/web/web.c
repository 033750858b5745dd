/* SPDX-License-Identifier: MIT */

#include "web/web.h"

#include "util/log.h"
#include "web/listen.h"
#include "web/server.h"

#include <errno.h>
#include <string.h>

/* So many connections are taken from a socket at a time, … */
#define ACCEPT_MAX 64
/* … and so long after there was no file or no memory for one, it is tried again. */
#define RETRY_US 1000000U

/* What the kernel holds for a connection, of which it takes up to twice as much: what lies there counts as taken, and
 * left to itself the kernel takes megabytes. */
#define SEND_BYTES (256 * 1024)
#define RECEIVE_BYTES (64 * 1024)

struct listener {
	struct web *web;
	struct listening listening;
	char *url;
	sd_event_source *io;
};

struct web {
	struct server_shared shared;
	struct web_options *options;
	struct server *server, *old; /* old: its clients get their answers, and no more come */
	sd_event_source *retry;
	bool paused;
	size_t nr;
	struct listener listeners[];
};

/* --- connections */

/* Listens, or lets connections wait in the kernel for a while. */
static void set_paused(struct web *web, bool paused)
{
	if (web->paused == paused)
		return;
	web->paused = paused;
	for (size_t i = 0; i < web->nr; i++)
		(void)sd_event_source_set_enabled(web->listeners[i].io, paused ? SD_EVENT_OFF : SD_EVENT_ON);
}

static void on_left(void *userdata)
{
	set_paused(userdata, false);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	set_paused(userdata, false);
	return 0;
}

static void pause_for_a_while(struct web *web)
{
	web->shared.clients.stats->refused_failed++;
	if (sd_event_source_set_time_relative(web->retry, RETRY_US) >= 0 &&
	    sd_event_source_set_enabled(web->retry, SD_EVENT_ONESHOT) >= 0)
		set_paused(web, true);
}

/* Drops a client, if there is one, and sees it gone. */
static bool drop(struct web *web, struct client *client)
{
	struct server *server = client ? client->owner : NULL;

	if (!client)
		return false;
	clients_drop(&web->shared.clients, client);
	server_run(server);
	return true;
}

/* Is there room for one more of that peer's? */
static bool has_room(struct web *web, const struct peer *peer)
{
	const struct clients *clients = &web->shared.clients;

	if (clients_of(clients, peer) >= web->options->max_connections_per_address &&
	    !drop(web, clients_spare_of(clients, peer))) {
		clients->stats->refused_address++;
		return false;
	}
	if (clients->nr >= web->options->max_connections && !drop(web, clients_spare_for(clients, peer))) {
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

/* There was no file for a connection: another one goes for it, or those that come wait, until one has ended or for a
 * while. Where that one's file was of no use, no other goes. */
static bool make_room(struct web *web, bool *made)
{
	if (!*made && drop(web, clients_spare(&web->shared.clients))) {
		*made = true;
		return true;
	}
	pause_for_a_while(web);
	return false;
}

/* False: there is none left, or none can be taken. made: room was made for it. */
static bool accept_one(struct listener *listener, bool *made)
{
	struct web *web = listener->web;
	struct address address = { .size = sizeof(address.room) };
	struct peer peer;
	int fd;

	if (web->old && server_nr_clients(web->old) == 0)
		web->old = server_free(web->old);
	fd = accept4(listener->listening.fd, &address.any, &address.size, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == ECONNABORTED || (is_shortage(errno) && make_room(web, made));
	*made = false;
	bound_buffers(fd);
	peer = peer_of(fd);
	if (has_room(web, &peer))
		server_add(web->server, fd, &address.any, address.size);
	else
		safe_close(fd);
	return true;
}

static int on_connections(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	bool made = false;

	(void)source;
	(void)fd;
	(void)revents;
	for (int i = 0; i < ACCEPT_MAX && accept_one(userdata, &made); i++)
		;
	return 0;
}

/* --- passwords */

static void run_servers(struct web *web)
{
	if (web->old)
		server_run(web->old);
	if (web->server)
		server_run(web->server);
}

static void on_password(void *userdata, uint64_t number, enum auth_verdict verdict)
{
	struct web *web = userdata;
	struct clients *clients = &web->shared.clients;

	for (struct client *client = clients_next(clients, NULL); client; client = clients_next(clients, client))
		if (client->waits && client->number == number)
			server_resume(client, verdict);
	run_servers(web);
}

/* Those who wait ask again. */
static void set_users(struct web *web, const struct users *users)
{
	struct clients *clients = &web->shared.clients;

	auth_set_users(web->shared.auth, users);
	for (struct client *client = clients_next(clients, NULL); client; client = clients_next(clients, client))
		if (client->waits)
			server_resume(client, AUTH_WAIT);
}

/* --- options */

/* Where there is no memory for a new name, the old one stays. */
static void name_listeners(struct web *web)
{
	for (size_t i = 0; i < web->nr; i++) {
		struct listener *listener = &web->listeners[i];
		char *url = address_url(&listener->listening.address, web->options->tls);

		if (!url)
			continue;
		free(listener->url);
		listener->url = url;
	}
}

static void adopt(struct web *web, struct server *server, struct web_options *options)
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
	clients_set_patience(clients, PHASE_REQUEST, options->request_timeout / 1000);
	clients_set_patience(clients, PHASE_ANSWER, options->answer_timeout / 1000);
	clients_set_patience(clients, PHASE_IDLE, options->idle_timeout / 1000);
	set_users(web, options->users);
	web_options_unref(web->options);
	web->options = web_options_ref(options);
	name_listeners(web);
	set_paused(web, false);
	run_servers(web);
}

int web_set_options(struct web *web, struct web_options *options, struct reason *why)
{
	struct server *server;
	int r = server_new(&server, &web->shared, options, why);

	if (r >= 0)
		adopt(web, server, options);
	return r;
}

/* --- listening */

/* On what is open already; listener_stop() closes it also where this fails. */
static int listener_start(struct listener *listener, struct reason *why)
{
	int r;

	listener->url = address_url(&listener->listening.address, listener->web->options->tls);
	if (!listener->url)
		return reason_set(why, -ENOMEM, "out of memory");
	r = sd_event_add_io(listener->web->shared.loop, &listener->io, listener->listening.fd, EPOLLIN, on_connections,
			    listener);
	return r < 0 ? reason_set(why, r, "cannot serve HTTP on %s: %s", listener->url, strerror(-r)) : 0;
}

static void listener_stop(struct listener *listener)
{
	sd_event_source_disable_unref(listener->io);
	listening_remove_file(&listener->listening);
	safe_close(listener->listening.fd);
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
	auth_free(web->shared.auth);
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

	web->shared.clients.on_left = on_left;
	web->shared.clients.userdata = web;
	if (r >= 0)
		r = auth_new(&web->shared.auth, loop, on_password, web);
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &web->retry, CLOCK_MONOTONIC, 0, 0, on_retry, web);
	if (r >= 0)
		r = sd_event_source_set_enabled(web->retry, SD_EVENT_OFF);
	if (r < 0)
		return reason_set(why, r, "cannot serve HTTP: %s", strerror(-r));
	return web_set_options(web, options, why);
}

/* Takes the socket over. */
static int web_add(struct web *web, const struct listening *listening, struct reason *why)
{
	struct listener *listener = &web->listeners[web->nr];
	int r;

	*listener = (struct listener){ .web = web, .listening = *listening };
	r = listener_start(listener, why);
	if (r < 0)
		listener_stop(listener);
	else
		web->nr++;
	return r;
}

/* Opens number i of what `from` lists. */
typedef int (*listening_opener)(struct listening *ret, const void *from, size_t i, struct reason *why);

static int open_address(struct listening *ret, const void *from, size_t i, struct reason *why)
{
	const char *text = ((char *const *)from)[i];
	struct address address;
	int r = address_parse(&address, text, why);

	return r < 0 ? r : listening_open(ret, &address, text, why);
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
		.loop = sd_event_ref(loop), .source = *source,
	};
	r = web_init(web, options, why);
	for (size_t i = 0; i < nr && r >= 0; i++) {
		struct listening listening;

		r = opener(&listening, from, i, why);
		if (r >= 0)
			r = web_add(web, &listening, why);
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
