/* SPDX-License-Identifier: MIT */

#include "web/server.h"

#include "util/clock.h"
#include "util/log.h"
#include "web/host.h"
#include "web/page.h"
#include "web/route.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <time.h>

/* The body of a GET is discarded. A client that sends more than this is disconnected. */
#define DISCARD_MAX (1024U * 1024)

/* The Retry-After of 429 and 503, in seconds. */
#define RETRY_AFTER_S "5"

/* In µs. A turn of the loop that has lasted for longer begins no more responses, so that counting goes on in
 * between. */
#define TURN_US 20000U

/* The number of a client that waits for the next turn of the loop, in place of a password's. */
#define NEXT_TURN UINT64_MAX

struct server {
	struct server_shared *shared;
	struct web_options *options;
	struct MHD_Daemon *daemon;
	sd_event_source *io, *timer;
	size_t nr;	  /* of its clients */
	bool has_waiting; /* a client waits for the next turn */
	bool retired;	  /* each connection ends with its next response */
	bool stopping;	  /* connections end because the server does */
};

/* A request, from its first line to the last byte of its response. */
struct request {
	char *target; /* raw */
	bool has_headers;
	size_t discarded; /* bytes of its body */
};

/* --- the loop */

/* libmicrohttpd can want to be called again without an event on its epoll fd, since it has more to do.
 * MHD_get_timeout() gives relative milliseconds. */
static int daemon_timer_arm(struct server *server)
{
	MHD_UNSIGNED_LONG_LONG ms;
	int r;

	if (server->has_waiting)
		ms = 0;
	else if (MHD_get_timeout(server->daemon, &ms) != MHD_YES)
		return sd_event_source_set_enabled(server->timer, SD_EVENT_OFF);
	r = sd_event_source_set_time_relative(server->timer, (uint64_t)ms * 1000);
	return r < 0 ? r : sd_event_source_set_enabled(server->timer, SD_EVENT_ONESHOT);
}

/* At the first call in a turn of the loop, resumes the clients that waited for it. */
static void begin_turn(struct server *server)
{
	struct server_shared *shared = server->shared;
	struct clients *clients = &shared->clients;
	uint64_t turn = 0;

	(void)sd_event_get_iteration(shared->loop, &turn);
	if (turn == shared->turn)
		return;
	shared->turn = turn;
	shared->turn_end = clock_monotonic_ns() / NS_PER_US + TURN_US;
	if (!server->has_waiting)
		return;
	server->has_waiting = false;
	for (struct client *client = clients_next(clients, NULL); client; client = clients_next(clients, client))
		if (client->owner == server && client->waits && client->number == NEXT_TURN) {
			client->waits = false;
			MHD_resume_connection(client->connection);
		}
}

void server_run(struct server *server)
{
	begin_turn(server);
	if (MHD_run(server->daemon) != MHD_YES)
		log_debug("HTTP: MHD_run() failed");
	if (daemon_timer_arm(server) < 0)
		log_debug("HTTP: cannot set the timer");
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	server_run(userdata);
	return 0;
}

static int on_daemon_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	server_run(userdata);
	return 0;
}

/* --- connections */

static struct client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void start_client(struct server *server, struct MHD_Connection *connection, void **context)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct client *client = info ? clients_add(&server->shared->clients, info->connect_fd) : NULL;

	*context = client;
	/* Without a client, requests on the connection are refused: on_target() returns NULL. */
	if (!client)
		return;
	client->owner = server;
	client->connection = connection;
	server->nr++;
}

static bool has_hung_up(const struct client *client)
{
	char byte;
	ssize_t n = recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* libmicrohttpd itself responds to bytes that are no request, and closes the connection, without calling
 * on_request(). A connection that it closes in the phase of a request, and the client has not, is such a one. */
static void end_client(struct server *server, struct client *client)
{
	struct clients *clients = &server->shared->clients;

	if (client->phase == PHASE_REQUEST && !server->stopping && !has_hung_up(client))
		clients->stats->dropped_malformed++;
	clients_remove(clients, client);
	server->nr--;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct server *server = cls;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		start_client(server, connection, context);
	} else if (*context) {
		end_client(server, *context);
		*context = NULL;
	}
}

void server_add(struct server *server, int fd, const struct sockaddr *address, socklen_t size)
{
	if (MHD_add_connection(server->daemon, fd, address, size) != MHD_YES)
		server->shared->clients.stats->refused_failed++;
	server_run(server);
}

void server_resume(struct client *client, enum auth_verdict verdict)
{
	client->waits = false;
	client->has_verdict = verdict != AUTH_WAIT;
	client->verdict = verdict;
	MHD_resume_connection(client->connection);
}

/* --- requests */

/* Called with the raw target before it is parsed; the return value becomes *context below. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
	_cleanup_(freep) struct request *request = calloc(1, sizeof(*request));
	struct client *client = client_of(connection);
	struct server *server = cls;

	if (client && client->phase == PHASE_IDLE)
		clients_enter(&server->shared->clients, client, PHASE_REQUEST);
	if (!request || !client)
		return NULL;
	client->waits = client->has_verdict = false;
	request->target = strdup(target);
	return request->target ? steal_ptr(request) : NULL;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode code)
{
	struct server *server = cls;
	struct request *request = *context;
	struct client *client = client_of(connection);

	(void)code;
	*context = NULL;
	if (client) {
		clients_set_unsent(&server->shared->clients, client, 0, NULL);
		if (client->phase == PHASE_ANSWER)
			clients_enter(&server->shared->clients, client, PHASE_IDLE);
	}
	if (!request)
		return;
	free(request->target);
	free(request);
}

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Does the request come from a page of the configured origin? */
static bool is_from_origin(const struct server *server, struct MHD_Connection *connection)
{
	const char *origin = header_of(connection, MHD_HTTP_HEADER_ORIGIN);

	return origin && server->options->cors_origin && strcmp(origin, server->options->cors_origin) == 0;
}

struct header {
	const char *name;
	const char *value; /* NULL: the header is left out */
};

static bool add_table(struct MHD_Response *mhd_response, const struct header *headers, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (headers[i].value &&
		    MHD_add_response_header(mhd_response, headers[i].name, headers[i].value) != MHD_YES)
			return false;
	return true;
}

static bool add_headers(struct MHD_Response *mhd_response, const struct response *response)
{
	const struct header headers[] = {
		{ MHD_HTTP_HEADER_CONTENT_TYPE, response->type },
		{ MHD_HTTP_HEADER_CONTENT_ENCODING, response->encoding },
		{ MHD_HTTP_HEADER_VARY, response->vary },
		{ MHD_HTTP_HEADER_CACHE_CONTROL, "no-store" },
		{ MHD_HTTP_HEADER_ALLOW, response->status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET, HEAD" : NULL },
	};

	return add_table(mhd_response, headers, ARRAY_SIZE(headers));
}

/* Restrictions for browsers, and the permissions of the configured origin (CORS). */
static bool add_security_headers(const struct server *server, struct MHD_Connection *connection,
				 struct MHD_Response *mhd_response)
{
	bool allowed = is_from_origin(server, connection);
	const struct header headers[] = {
		{ "X-Content-Type-Options", "nosniff" },
		{ "X-Frame-Options", "DENY" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Content-Security-Policy", page_security_policy },
		{ MHD_HTTP_HEADER_VARY, server->options->cors_origin ? MHD_HTTP_HEADER_ORIGIN : NULL },
		{ MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, allowed ? server->options->cors_origin : NULL },
		{ MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, allowed ? "GET, HEAD" : NULL },
		{ MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, allowed ? MHD_HTTP_HEADER_AUTHORIZATION : NULL },
	};

	return add_table(mhd_response, headers, ARRAY_SIZE(headers));
}

static bool add_status_headers(const struct server *server, struct MHD_Response *mhd_response, unsigned status)
{
	bool later = status == MHD_HTTP_TOO_MANY_REQUESTS || status == MHD_HTTP_SERVICE_UNAVAILABLE;
	const struct header headers[] = {
		{ MHD_HTTP_HEADER_WWW_AUTHENTICATE,
		  status == MHD_HTTP_UNAUTHORIZED ? "Basic realm=\"perfmond\", charset=\"UTF-8\"" : NULL },
		{ MHD_HTTP_HEADER_RETRY_AFTER, later ? RETRY_AFTER_S : NULL },
		{ MHD_HTTP_HEADER_CONNECTION, server->retired ? "close" : NULL },
	};

	return add_table(mhd_response, headers, ARRAY_SIZE(headers));
}

static void count_response(struct web_stats *stats, unsigned status)
{
	static const struct {
		unsigned status;
		enum self_http index;
	} known[] = {
		{ MHD_HTTP_OK, SELF_HTTP_200 },
		{ MHD_HTTP_BAD_REQUEST, SELF_HTTP_400 },
		{ MHD_HTTP_UNAUTHORIZED, SELF_HTTP_401 },
		{ MHD_HTTP_NOT_FOUND, SELF_HTTP_404 },
		{ MHD_HTTP_METHOD_NOT_ALLOWED, SELF_HTTP_405 },
		{ MHD_HTTP_MISDIRECTED_REQUEST, SELF_HTTP_421 },
		{ MHD_HTTP_TOO_MANY_REQUESTS, SELF_HTTP_429 },
		{ MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, SELF_HTTP_431 },
		{ MHD_HTTP_SERVICE_UNAVAILABLE, SELF_HTTP_503 },
	};
	enum self_http index = SELF_HTTP_OTHER;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].status == status)
			index = known[i].index;
	stats->requests[index]++;
}

static void on_sent(void *cls)
{
	blob_unref(cls);
}

/* Takes the body over, without a copy: a body of its own, or the reference to a shared one. NULL: out of memory, and
 * the response keeps it. */
static struct MHD_Response *make_response(struct response *response)
{
	struct MHD_Response *mhd_response;

	if (response->shared)
		mhd_response = MHD_create_response_from_buffer_with_free_callback_cls(
			response->shared->len, response->shared->data, on_sent, response->shared);
	else
		mhd_response =
			MHD_create_response_from_buffer(response->body.len, response->body.data, MHD_RESPMEM_MUST_FREE);
	if (!mhd_response)
		return NULL;
	response->shared = NULL; /* on_sent() releases the reference */
	response->body = (struct buf){};
	return mhd_response;
}

/* MHD_NO closes the connection. */
static enum MHD_Result send_response(struct server *server, struct MHD_Connection *connection, struct client *client,
				     struct response *response)
{
	struct web_stats *stats = server->shared->clients.stats;
	struct MHD_Response *mhd_response;
	enum MHD_Result r = MHD_NO;

	if (!response->body.data && !response->shared)
		return MHD_NO;
	clients_set_unsent(&server->shared->clients, client, response->body.len, response->shared);
	mhd_response = make_response(response);
	if (!mhd_response)
		return MHD_NO;
	count_response(stats, response->status);
	if (add_headers(mhd_response, response) && add_security_headers(server, connection, mhd_response) &&
	    add_status_headers(server, mhd_response, response->status))
		r = MHD_queue_response(connection, response->status, mhd_response);
	MHD_destroy_response(mhd_response);
	return r;
}

/* --- checks before the route */

static bool has_large_headers(const struct server *server, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

	return info && info->header_size > server->options->max_header_bytes;
}

/* DNS rebinding (host.h): a request over loopback, or on a Unix socket behind a proxy on loopback, whose Host is
 * another name comes from a page of another site. With TLS that cannot be: there is no certificate for such a name
 * here. A request without Host comes from an old client, and not from a browser. */
static bool is_misdirected(const struct server *server, const struct client *client, struct MHD_Connection *connection)
{
	bool may_be = client->is_local && !server->options->tls;
	const char *host = may_be ? header_of(connection, MHD_HTTP_HEADER_HOST) : NULL;

	return host && !host_is_loopback(host);
}

static enum auth_verdict request_check_password(struct server *server, struct client *client,
						struct MHD_Connection *connection)
{
	if (client->has_verdict)
		return (enum auth_verdict)client->verdict;
	return auth_check(server->shared->auth, header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION), &client->peer,
			  &client->number);
}

static bool refuse_password(struct response *response, const char *target, enum auth_verdict verdict)
{
	static const struct {
		unsigned status;
		const char *sentence;
	} refusals[] = {
		[AUTH_WRONG] = { MHD_HTTP_UNAUTHORIZED, "a user name and its password are required" },
		[AUTH_TOO_MANY] = { MHD_HTTP_TOO_MANY_REQUESTS,
				    "too many wrong passwords from this address; try again later" },
		[AUTH_BUSY] = { MHD_HTTP_SERVICE_UNAVAILABLE,
				"too many passwords are waiting to be checked; try again later" },
	};

	if (verdict == AUTH_GOOD)
		return false;
	response_set_error(response, target, refusals[verdict].status, refusals[verdict].sentence);
	return true;
}

static bool refuse_request(struct server *server, struct client *client, struct MHD_Connection *connection,
			   struct response *response, const char *target)
{
	if (has_large_headers(server, connection))
		response_set_error(response, target, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
				   "the request headers are too large");
	else if (is_misdirected(server, client, connection))
		response_set_error(
			response, target, MHD_HTTP_MISDIRECTED_REQUEST,
			"the Host header does not name this machine: over loopback and on a Unix socket, use "
			"localhost, 127.0.0.1 or [::1]");
	else
		return false;
	return true;
}

/* The request of a browser for permission to send another one with a password (CORS preflight). */
static bool respond_to_preflight(const struct server *server, struct MHD_Connection *connection, const char *method,
				 struct response *response)
{
	if (strcmp(method, MHD_HTTP_METHOD_OPTIONS) != 0 || !is_from_origin(server, connection))
		return false;
	response->status = MHD_HTTP_OK;
	response->type = "text/plain; charset=utf-8";
	buf_str(&response->body, "GET and HEAD\n");
	return true;
}

/* Is too much unsent? First evicts clients that are slow to receive their response, so that they do not keep a scrape
 * waiting. */
static bool is_crowded(const struct server *server)
{
	struct clients *clients = &server->shared->clients;
	struct client *slowest;

	while (clients->stats->unsent > server->options->max_unsent_bytes && (slowest = clients_pick_slowest(clients)))
		clients_drop(clients, slowest);
	return clients->stats->unsent > server->options->max_unsent_bytes;
}

/* Until there is a verdict, or the next turn of the loop. on_request() is then called again. */
static enum MHD_Result suspend_request(struct MHD_Connection *connection, struct client *client)
{
	client->waits = true;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

static bool is_turn_over(struct server *server, struct client *client)
{
	if (clock_monotonic_ns() / NS_PER_US < server->shared->turn_end)
		return false;
	server->has_waiting = true;
	client->number = NEXT_TURN;
	return true;
}

/* Responses may have been cached: they are to be dropped some time after their snapshot. The timer goes on by
 * itself. */
static void cache_check_arm(struct server_shared *shared)
{
	int enabled = SD_EVENT_OFF;

	(void)sd_event_source_get_enabled(shared->cache_check, &enabled);
	if (enabled == SD_EVENT_OFF && sd_event_source_set_time_relative(shared->cache_check, CACHE_CHECK_US) >= 0)
		(void)sd_event_source_set_enabled(shared->cache_check, SD_EVENT_ONESHOT);
}

static enum MHD_Result respond_to_request(struct server *server, struct MHD_Connection *connection,
					  struct request *request, const char *method)
{
	_cleanup_(response_release) struct response response = {};
	struct server_shared *shared = server->shared;
	struct client *client = client_of(connection);
	enum auth_verdict verdict = AUTH_GOOD;
	struct request_head head = {
		.method = method,
		.target = request->target,
		.accept = header_of(connection, MHD_HTTP_HEADER_ACCEPT),
		.accept_encoding = header_of(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING),
	};

	if (!refuse_request(server, client, connection, &response, request->target) &&
	    !respond_to_preflight(server, connection, method, &response)) {
		verdict = request_check_password(server, client, connection);
		if (verdict == AUTH_WAIT || (verdict == AUTH_GOOD && is_turn_over(server, client)))
			return suspend_request(connection, client);
		head.crowded = is_crowded(server);
		if (!refuse_password(&response, request->target, verdict))
			route_respond(&response, &shared->source, shared->cache, &head);
		cache_check_arm(shared);
	}
	clients_enter(&shared->clients, client, PHASE_ANSWER);
	return send_response(server, connection, client, &response);
}

/* Called when the headers are complete, for each piece of a body, at the end of the request, and again after a request
 * was suspended. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
				  const char *version, const char *data, size_t *size, void **context)
{
	bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
	struct request *request = *context;

	(void)path;
	(void)version;
	(void)data;
	if (!request)
		return MHD_NO;
	/* Other methods are refused at once, before their body is received. */
	if (!request->has_headers && reads) {
		request->has_headers = true;
		return MHD_YES;
	}
	if (*size && reads) {
		request->discarded += *size;
		*size = 0;
		return request->discarded > DISCARD_MAX ? MHD_NO : MHD_YES;
	}
	return respond_to_request(cls, connection, request, method);
}

/* Messages of libmicrohttpd are about clients, not about the daemon: they are worth no more than the debug level. */
_printf_(2, 0) static void on_log(void *cls, const char *format, va_list ap)
{
	char text[512];
	int n = vsnprintf(text, sizeof(text), format, ap);

	(void)cls;
	if (n > 0)
		log_debug("HTTP: %s", text);
}

/* --- the object */

/* Memory of libmicrohttpd for a connection: the headers, its parsed form of them, and its own state. */
static size_t connection_memory(const struct web_options *options)
{
	return 2 * options->max_header_bytes + 4096;
}

static int start_daemon(struct server *server, struct reason *why)
{
	struct web_options *options = server->options;
	const struct tls *tls = options->tls;
	struct MHD_OptionItem secured[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, tls ? tls->certificate : NULL },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, tls ? tls->key : NULL },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (char *)(uintptr_t)TLS_PRIORITIES },
		{ MHD_OPTION_END, 0, NULL },
	};
	unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;

	if (!tls)
		secured[0].option = MHD_OPTION_END;
	server->daemon = MHD_start_daemon(
		tls ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER,
		on_log, server, MHD_OPTION_ARRAY, secured, MHD_OPTION_URI_LOG_CALLBACK, on_target, server,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
		MHD_OPTION_CONNECTION_LIMIT, options->max_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		connection_memory(options), MHD_OPTION_END);
	if (!server->daemon)
		return reason_set(why, -ENOMEM, "cannot serve HTTP%s: libmicrohttpd does not start", tls ? "S" : "");
	return 0;
}

static int server_add_sources(struct server *server)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	sd_event *loop = server->shared->loop;
	int r;

	if (!info)
		return -EOPNOTSUPP;
	r = sd_event_add_io(loop, &server->io, info->epoll_fd, EPOLLIN, on_io, server);
	/* An accuracy of 1 µs: the default, a quarter of a second, would delay work that is due at once. */
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &server->timer, CLOCK_MONOTONIC, 0, 1, on_daemon_timer, server);
	return r;
}

int server_new(struct server **ret, struct server_shared *shared, struct web_options *options, struct reason *why)
{
	_cleanup_(server_freep) struct server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return reason_set(why, -ENOMEM, "out of memory");
	server->shared = shared;
	server->options = web_options_ref(options);
	r = start_daemon(server, why);
	if (r < 0)
		return r;
	r = server_add_sources(server);
	if (r < 0)
		return reason_set(why, r, "cannot serve HTTP: %s", strerror(-r));
	*ret = steal_ptr(server);
	return 0;
}

/* MHD_stop_daemon() requires that no connection is suspended. */
static void resume_all(struct server *server)
{
	struct clients *clients = &server->shared->clients;

	for (struct client *client = clients_next(clients, NULL); client; client = clients_next(clients, client))
		if (client->owner == server && client->waits)
			server_resume(client, AUTH_BUSY);
}

struct server *server_free(struct server *server)
{
	if (!server)
		return NULL;
	sd_event_source_disable_unref(server->io);
	sd_event_source_disable_unref(server->timer);
	if (server->daemon) {
		server->stopping = true;
		resume_all(server);
		MHD_stop_daemon(server->daemon);
	}
	web_options_unref(server->options);
	free(server);
	return NULL;
}

void server_retire(struct server *server)
{
	server->retired = true;
}

size_t server_nr_clients(const struct server *server)
{
	return server->nr;
}
