/* SPDX-License-Identifier: MIT */

#include "web/web.h"

#include "util/log.h"
#include "web/listen.h"
#include "web/page.h"
#include "web/route.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

/* On all addresses together; the manager leaves more fds than that. */
#define CONNECTIONS_MAX 128
/* Of one connection: what does not fit is answered with 431 (headers) or 414 (the request line). */
#define CONNECTION_MEMORY (32 * 1024)
/* A client that neither sends nor takes anything for so long is dropped. */
#define IDLE_SECONDS 30U

/* Answers that clients have not taken yet, on all connections together. A hundred thousand series are 14
 * MB; clients that ask and do not read must not fill the memory. */
#define UNSENT_MAX (64U * 1024 * 1024)

/* A body is thrown away; whoever sends more than that to GET is up to something. */
#define DISCARD_MAX (1024U * 1024)

struct listener {
	struct web *web;
	struct listening listening;
	char *url;
	struct MHD_Daemon *daemon;
	sd_event_source *io, *timer;
	unsigned connections; /* when it was run last */
};

struct web {
	sd_event *loop;
	struct web_source source;
	size_t unsent;
	unsigned connections; /* that each listener may have */
	size_t nr;
	struct listener listeners[];
};

/* Of one request, from its first line to the last byte of its answer. */
struct request {
	char *target;
	bool has_headers;
	size_t discarded;
	size_t unsent; /* its part of the web's */
	struct blob *shared; /* what it is sent, of which all that are sent the same have one part */
};

/* --- the loop */

/* Comes back when libmicrohttpd wants to be called again though nothing happened: connections time out,
 * or it has more to do at once. Its timeout is relative, in ms. */
static int arm_timer(struct listener *listener)
{
	MHD_UNSIGNED_LONG_LONG ms;
	int r;

	if (MHD_get_timeout(listener->daemon, &ms) != MHD_YES)
		return sd_event_source_set_enabled(listener->timer, SD_EVENT_OFF);
	r = sd_event_source_set_time_relative(listener->timer, (uint64_t)ms * 1000);
	return r < 0 ? r : sd_event_source_set_enabled(listener->timer, SD_EVENT_ONESHOT);
}

static unsigned nr_connections(struct listener *listener)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info ? info->num_connections : 0;
}

static int run(struct listener *listener)
{
	unsigned before = listener->connections;

	if (MHD_run(listener->daemon) != MHD_YES)
		log_debug("HTTP on %s: MHD_run() failed", listener->url);
	listener->connections = nr_connections(listener);

	/* At the limit of connections (or of fds), libmicrohttpd takes the listening socket out of its epoll. It
	 * puts it back when it is run the next time, for which nothing may be left that would wake us. */
	if (listener->connections < before) {
		(void)MHD_run(listener->daemon);
		listener->connections = nr_connections(listener);
	}
	return arm_timer(listener);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	return run(userdata);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	return run(userdata);
}

/* --- requests */

/* Called with the raw target before anything is made of it; the return value becomes *context below. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
	_cleanup_(freep) struct request *request = calloc(1, sizeof(*request));

	(void)cls;
	(void)connection;
	if (!request)
		return NULL;
	request->target = strdup(target);
	return request->target ? steal_ptr(request) : NULL;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode code)
{
	struct listener *listener = cls;
	struct request *request = *context;

	(void)connection;
	(void)code;
	*context = NULL;
	if (!request)
		return;
	if (request->shared && --request->shared->users == 0)
		listener->web->unsent -= request->shared->len;
	blob_unref(request->shared);
	listener->web->unsent -= request->unsent;
	free(request->target);
	free(request);
}

static void on_sent(void *cls)
{
	blob_unref(cls);
}

static bool add_headers(struct MHD_Response *response, const struct answer *answer)
{
	const struct {
		const char *name, *value;
	} headers[] = {
		{ MHD_HTTP_HEADER_CONTENT_TYPE, answer->type },
		{ MHD_HTTP_HEADER_CONTENT_ENCODING, answer->encoding },
		{ MHD_HTTP_HEADER_VARY, answer->vary },
		{ MHD_HTTP_HEADER_CACHE_CONTROL, "no-store" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Content-Security-Policy", page_security_policy },
		{ MHD_HTTP_HEADER_ALLOW, answer->status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET, HEAD" : NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		if (headers[i].value && MHD_add_response_header(response, headers[i].name, headers[i].value) != MHD_YES)
			return false;
	return true;
}

/* A body of its own is handed over; of a shared one, the request and the response hold a reference each. */
static struct MHD_Response *make_response(struct web *web, struct request *request, struct answer *answer)
{
	struct MHD_Response *response;

	if (answer->shared)
		response = MHD_create_response_from_buffer_with_free_callback_cls(
			answer->shared->len, answer->shared->data, on_sent, answer->shared);
	else
		response = MHD_create_response_from_buffer(answer->body.len, answer->body.data, MHD_RESPMEM_MUST_FREE);
	if (!response)
		return NULL;
	if (!answer->shared) {
		request->unsent = answer->body.len;
		web->unsent += request->unsent;
		answer->body = (struct buf){};
		return response;
	}
	request->shared = blob_ref(answer->shared);
	if (request->shared->users++ == 0)
		web->unsent += request->shared->len;
	answer->shared = NULL; /* on_sent() drops its reference */
	return response;
}

/* No copy is made of the body. NO drops the connection. */
static enum MHD_Result send_answer(struct listener *listener, struct MHD_Connection *connection,
				   struct request *request, struct answer *answer)
{
	struct MHD_Response *response;
	enum MHD_Result r = MHD_NO;

	if (!answer->body.data && !answer->shared)
		return MHD_NO;
	response = make_response(listener->web, request, answer);
	if (!response)
		return MHD_NO;
	if (add_headers(response, answer))
		r = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return r;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result respond(struct listener *listener, struct MHD_Connection *connection, struct request *request,
			       const char *method)
{
	_cleanup_(answer_release) struct answer answer = {};
	const struct request_head head = {
		.method = method,
		.target = request->target,
		.accept = header(connection, MHD_HTTP_HEADER_ACCEPT),
		.accept_encoding = header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING),
		.crowded = listener->web->unsent > UNSENT_MAX,
	};

	route_answer(&answer, &listener->web->source, &head);
	return send_answer(listener, connection, request, &answer);
}

/* Called when the headers are there, for each piece of a body, and at the request's end. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
				  const char *version, const char *data, size_t *size, void **context)
{
	struct request *request = *context;

	(void)path;
	(void)version;
	(void)data;
	if (!request)
		return MHD_NO;
	if (!request->has_headers) {
		request->has_headers = true;
		/* What will be refused is refused before its body is sent. */
		if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
			return respond(cls, connection, request, method);
		return MHD_YES;
	}
	if (*size) {
		request->discarded += *size;
		*size = 0;
		return request->discarded > DISCARD_MAX ? MHD_NO : MHD_YES;
	}
	return respond(cls, connection, request, method);
}

/* What libmicrohttpd has to say is about clients, not about the daemon. */
_printf_(2, 0) static void on_log(void *cls, const char *format, va_list ap)
{
	struct listener *listener = cls;
	char text[512];
	int n = vsnprintf(text, sizeof(text), format, ap);

	if (n > 0)
		log_debug("HTTP on %s: %s", listener->url, text);
}

/* --- listening */

static int start_daemon(struct listener *listener, struct reason *why)
{
	listener->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, listener,
					    MHD_OPTION_EXTERNAL_LOGGER, on_log, listener,
					    MHD_OPTION_LISTEN_SOCKET, listener->listening.fd,
					    MHD_OPTION_URI_LOG_CALLBACK, on_target, listener,
					    MHD_OPTION_NOTIFY_COMPLETED, on_completed, listener,
					    MHD_OPTION_CONNECTION_LIMIT, listener->web->connections,
					    MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
					    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
					    MHD_OPTION_END);
	if (!listener->daemon)
		return reason_set(why, -ENOMEM, "cannot serve HTTP on %s: libmicrohttpd does not start", listener->url);
	return 0;
}

static int add_sources(struct listener *listener, sd_event *loop)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int r;

	if (!info)
		return -EOPNOTSUPP;
	r = sd_event_add_io(loop, &listener->io, info->epoll_fd, EPOLLIN, on_io, listener);
	/* An accuracy of 1 µs: where there is more to do at once, waiting a quarter of a second (the default)
	 * would be felt. */
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &listener->timer, CLOCK_MONOTONIC, 0, 1, on_timer, listener);
	return r;
}

/* On what is open already; listener_stop() closes it also where this fails. */
static int listener_start(struct listener *listener, struct reason *why)
{
	int r;

	listener->url = address_url(&listener->listening.address);
	if (!listener->url)
		return reason_set(why, -ENOMEM, "out of memory");
	r = start_daemon(listener, why);
	if (r < 0)
		return r;
	r = add_sources(listener, listener->web->loop);
	return r < 0 ? reason_set(why, r, "cannot serve HTTP on %s: %s", listener->url, strerror(-r)) : 0;
}

/* libmicrohttpd would shut the socket down, which ends it for all that have it, systemd and our successor included:
 * it is taken back before. */
static void listener_stop(struct listener *listener)
{
	sd_event_source_disable_unref(listener->io);
	sd_event_source_disable_unref(listener->timer);
	if (listener->daemon) {
		(void)MHD_quiesce_daemon(listener->daemon);
		MHD_stop_daemon(listener->daemon);
	}
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
	sd_event_unref(web->loop);
	free(web);
	return NULL;
}

/* With room for nr listeners, and none yet. */
static struct web *web_alloc(sd_event *loop, size_t nr, const struct web_source *source)
{
	struct web *web = calloc(1, sizeof(*web) + nr * sizeof(web->listeners[0]));

	if (!web)
		return NULL;
	web->loop = sd_event_ref(loop);
	web->source = *source;
	web->connections = (unsigned)(CONNECTIONS_MAX / (nr ?: 1)) ?: 1;
	return web;
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

int web_new(struct web **ret, sd_event *loop, char *const *listen, size_t nr, const struct web_source *source,
	    struct reason *why)
{
	_cleanup_(web_freep) struct web *web = web_alloc(loop, nr, source);

	if (!web)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < nr; i++) {
		struct listening listening;
		struct address address;
		int r = address_parse(&address, listen[i], why);

		if (r >= 0)
			r = listening_open(&listening, &address, listen[i], why);
		if (r >= 0)
			r = web_add(web, &listening, why);
		if (r < 0)
			return r;
	}
	*ret = steal_ptr(web);
	return 0;
}

int web_new_on(struct web **ret, sd_event *loop, const int *sockets, size_t nr, const struct web_source *source,
	       struct reason *why)
{
	_cleanup_(web_freep) struct web *web = web_alloc(loop, nr, source);

	if (!web)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < nr; i++) {
		struct listening listening;
		int r = listening_share(&listening, sockets[i], why);

		if (r >= 0)
			r = web_add(web, &listening, why);
		if (r < 0)
			return r;
	}
	*ret = steal_ptr(web);
	return 0;
}

const char *web_url(const struct web *web, size_t i)
{
	return i < web->nr ? web->listeners[i].url : NULL;
}
