/* SPDX-License-Identifier: MIT */

#include "web/http/server.h"

#include "base/util/clock.h"
#include "base/util/log.h"
#include "web/api/route.h"
#include "web/http/client-cert.h"
#include "web/http/head-check.h"
#include "web/http/host.h"
#include "web/http/send.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <time.h>

/* In µs. A turn of the loop that has lasted for longer begins no more responses, so that counting goes on in
 * between. */
#define TURN_US 20000U

/* Clients that can wait until they may ask the profiler. */
#define ASK_QUEUE 32

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

void server_resume_request(struct client *client)
{
	const struct server *server = client->owner;

	if (client->waits == WAITS_TO_ASK)
		server->shared->nr_waiting--;
	client->waits = WAITS_NOT;
	MHD_resume_connection(client->connection);
	if (sd_event_source_set_time_relative(server->timer, 0) >= 0)
		(void)sd_event_source_set_enabled(server->timer, SD_EVENT_ONESHOT);
}

/* Of the clients that ask the profiler, the one that came first; NULL: there is none. */
static struct client *first_in_work(const struct server_shared *shared)
{
	struct client *client;

	TAILQ_FOREACH(client, &shared->clients.phases[PHASE_WORK], in_phase)
		if (!client->rendering)
			return client;
	return NULL;
}

/* If the profiler is free, it is the turn of the first client that waits to ask. */
static void wake_next(const struct server_shared *shared)
{
	struct client *first = first_in_work(shared);

	if (first && first->waits == WAITS_TO_ASK && !shared->asker)
		server_resume_request(first);
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
		if (client->owner == server && client->waits == WAITS_FOR_TURN)
			server_resume_request(client);
}

void server_run(struct server *server)
{
	begin_turn(server);
	if (MHD_run(server->daemon) != MHD_YES)
		log_debug("HTTP: MHD_run() failed");
	if (daemon_timer_arm(server) < 0)
		log_debug("HTTP: cannot set the timer");
	wake_next(server->shared);
	render_queue_wake(&server->shared->renders);
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

/* With mutual TLS the client's certificate is checked in the handshake. */
static void guard_client(const struct server *server, struct MHD_Connection *connection, struct client *client)
{
	const struct tls *tls = server->options->tls;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

	if (tls && tls->client_trust && info)
		client_guard(client, info->tls_session, tls->client_trust);
}

/* Has the client shown what TLS requires? */
static bool is_admitted(const struct server *server, const struct client *client)
{
	const struct tls *tls = server->options->tls;

	return !tls || !tls->client_trust || client->is_admitted;
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
	guard_client(server, connection, client);
}

static bool has_hung_up(const struct client *client)
{
	char byte;
	ssize_t n = recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void drop_answer(struct server_shared *shared)
{
	blob_unref(shared->answer.document);
	shared->answer = (struct server_answer){};
	shared->asker = NULL;
}

/* The client does not wait for its answer any more. */
static void give_up_answer(struct server_shared *shared, struct client *client)
{
	render_queue_leave(&shared->renders, client);
	if (shared->asker != client)
		return;
	if (!shared->answer.is_there)
		shared->source.cancel(shared->source.userdata);
	drop_answer(shared);
}

/* libmicrohttpd itself responds to bytes that are no request, and closes the connection, without calling
 * on_request(). A connection that it closes in the phase of a request, and the client has not, is such a one. */
static void end_client(struct server *server, struct client *client)
{
	struct clients *clients = &server->shared->clients;

	if (client->phase == PHASE_REQUEST && !client->is_refused && !server->stopping && !has_hung_up(client))
		clients->stats->dropped_malformed++;
	give_up_answer(server->shared, client);
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
	const struct server *server = client->owner;

	give_up_answer(server->shared, client);
	client->has_verdict = verdict != AUTH_WAIT;
	client->verdict = verdict;
	server_resume_request(client);
}

void server_give_up(struct client *client)
{
	client->gone = true;
	server_resume(client, AUTH_WAIT);
}

void server_give_late(struct client *client)
{
	struct server_shared *shared = ((const struct server *)client->owner)->shared;

	client->late = true;
	clients_enter(&shared->clients, client, PHASE_ANSWER);
	give_up_answer(shared, client);
	if (client->waits)
		server_resume_request(client);
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
	/* The next request of one that was dropped may have been received already: it is not begun. */
	if (!request || !client || client->phase == PHASE_DROPPED || !is_admitted(server, client))
		return NULL;
	client->waits = WAITS_NOT;
	client->has_verdict = client->gone = client->late = false;
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

/* MHD_NO closes the connection. */
static enum MHD_Result send_from(struct server *server, struct MHD_Connection *connection, struct client *client,
				 struct response *response)
{
	clients_set_unsent(&server->shared->clients, client, response->body.len, response->shared);
	return send_response(connection, response, server->options, server->retired, server->shared->clients.stats);
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
	const char *host = may_be ? request_header(connection, MHD_HTTP_HEADER_HOST) : NULL;

	return host && !host_is_loopback(host);
}

static enum auth_verdict request_check_password(struct server *server, struct client *client,
						struct MHD_Connection *connection)
{
	if (client->has_verdict)
		return (enum auth_verdict)client->verdict;
	return auth_check(server->shared->auth, request_header(connection, MHD_HTTP_HEADER_AUTHORIZATION),
			  &client->peer, &client->number);
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
	if (strcmp(method, MHD_HTTP_METHOD_OPTIONS) != 0 || !send_is_from_origin(server->options, connection))
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

/* on_request() is called again when there is what it waits for. */
static enum MHD_Result suspend_request(struct server *server, struct MHD_Connection *connection, struct client *client,
				       enum client_wait wait)
{
	client->waits = wait;
	if (wait == WAITS_TO_ASK)
		server->shared->nr_waiting++;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

static bool is_turn_over(struct server *server)
{
	if (clock_monotonic_ns() / NS_PER_US < server->shared->turn_end)
		return false;
	server->has_waiting = true;
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

/* --- responses that need an answer of the profiler */

static void set_unavailable(struct response *response, const char *target, const char *sentence)
{
	response_set_error(response, target, MHD_HTTP_SERVICE_UNAVAILABLE, sentence);
}

/* The asker takes the answer when it is resumed. */
static void on_answer(void *asker, int error, struct blob *document, const char *why)
{
	struct client *client = asker;
	const struct server *server = client->owner;
	struct server_answer *answer = &server->shared->answer;

	*answer = (struct server_answer){
		.is_there = true,
		.error = error,
		.document = error ? NULL : blob_ref(document),
	};
	reason_set(&answer->why, 0, "%s", why);
	server_resume_request(client);
}

/* A newcomer comes after all that are in work, also while the profiler is free for the next of them. WAITS_NOT: there
 * is a response, an error. */
static enum client_wait ask_profiler(struct server_shared *shared, struct client *client,
				     const struct request_head *head, const struct profile_question *question,
				     struct response *response)
{
	bool is_new = client->phase != PHASE_WORK;
	struct reason why = {};
	int r;

	if (shared->asker || (is_new && first_in_work(shared))) {
		if (!is_new || shared->nr_waiting < ASK_QUEUE)
			return WAITS_TO_ASK;
		set_unavailable(response, head->target, "too many questions wait for their answers; try again later");
		response->retry_after = RESPONSE_RETRY_SOON;
		return WAITS_NOT;
	}
	r = shared->source.ask(shared->source.userdata, question, on_answer, client, &why);
	if (r == 0) {
		shared->asker = client;
		return WAITS_FOR_ANSWER;
	}
	route_answer(response, &shared->source, head, &(struct route_answer){ .error = r, .why = why.text });
	return WAITS_NOT;
}

/* The response that is made of the answer. */
static void take_answer(struct server_shared *shared, const struct request_head *head, struct response *response)
{
	const struct route_answer answer = {
		.error = shared->answer.error,
		.document = shared->answer.document,
		.why = shared->answer.why.text,
	};

	route_answer(response, &shared->source, head, &answer);
	drop_answer(shared);
}

static bool is_rendered(const struct client *client)
{
	return client->rendering && client->rendering->is_done;
}

/* The response whose body was rendered. */
static void take_body(struct server_shared *shared, struct client *client, struct response *response)
{
	route_rendered(response, &shared->source, client->rendering);
	render_queue_leave(&shared->renders, client);
}

/* WAITS_NOT: there is a response, an error. */
static enum client_wait render(struct server_shared *shared, struct client *client, struct rendering *rendering,
			       struct response *response)
{
	enum client_wait wait = render_queue_enter(&shared->renders, client, rendering);

	if (wait == WAITS_NOT)
		take_body(shared, client, response);
	return wait;
}

/* False: the client has to wait, as it is told in *ret. */
static bool fill_response(struct server *server, struct client *client, const struct request_head *head,
			  struct response *response, enum client_wait *ret)
{
	_cleanup_(route_question_release) struct route_question asked = {};
	struct server_shared *shared = server->shared;
	struct rendering *rendering;
	enum route_next next;

	if (shared->asker == client) {
		take_answer(shared, head, response);
		return true;
	}
	if (is_rendered(client)) {
		take_body(shared, client, response);
		return true;
	}
	next = route_respond(response, &shared->source, shared->cache, head, &asked, &rendering);
	cache_check_arm(shared);
	*ret = WAITS_NOT;
	if (next == ROUTE_ASKS)
		*ret = ask_profiler(shared, client, head, &asked.question, response);
	else if (next == ROUTE_RENDERS)
		*ret = render(shared, client, rendering, response);
	else
		render_queue_leave(&shared->renders, client);
	if (*ret == WAITS_NOT)
		return true;
	/* It need not be checked again. */
	client->has_verdict = true;
	client->verdict = AUTH_GOOD;
	if (client->phase != PHASE_WORK)
		clients_enter(&shared->clients, client, PHASE_WORK);
	return false;
}

/* --- from the request to its response */

static enum MHD_Result respond_to_request(struct server *server, struct MHD_Connection *connection,
					  struct request *request, const char *method)
{
	_cleanup_(response_release) struct response response = {};
	struct server_shared *shared = server->shared;
	struct client *client = client_of(connection);
	struct request_head head = {
		.method = method,
		.target = request->target,
		.accept = request_header(connection, MHD_HTTP_HEADER_ACCEPT),
		.accept_encoding = request_header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING),
	};

	if (client->gone)
		return MHD_NO;
	if (client->late) {
		set_unavailable(&response, request->target,
				"the questions before this one took too long; try again later");
	} else if (!refuse_request(server, client, connection, &response, request->target) &&
		   !respond_to_preflight(server, connection, method, &response)) {
		enum auth_verdict verdict = request_check_password(server, client, connection);
		enum client_wait wait;

		if (verdict == AUTH_WAIT)
			return suspend_request(server, connection, client, WAITS_FOR_VERDICT);
		if (verdict == AUTH_GOOD && shared->asker != client && !is_rendered(client) && is_turn_over(server))
			return suspend_request(server, connection, client, WAITS_FOR_TURN);
		head.crowded = is_crowded(server);
		if (!refuse_password(&response, request->target, verdict) &&
		    !fill_response(server, client, &head, &response, &wait))
			return suspend_request(server, connection, client, wait);
	}
	clients_enter(&shared->clients, client, PHASE_ANSWER);
	return send_from(server, connection, client, &response);
}

/* A response before the end of the request: libmicrohttpd reads no more from the connection, and closes it. */
static enum MHD_Result refuse_head(struct server *server, struct MHD_Connection *connection,
				   const struct request *request, const char *sentence)
{
	_cleanup_(response_release) struct response response = {};
	struct client *client = client_of(connection);

	response_set_error(&response, request->target, MHD_HTTP_BAD_REQUEST, sentence);
	clients_enter(&server->shared->clients, client, PHASE_ANSWER);
	return send_from(server, connection, client, &response);
}

/* Called when the headers are complete, at the end of the request, and again after a request was suspended. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
				  const char *version, const char *data, size_t *size, void **context)
{
	bool reads = route_reads_only(method);
	struct request *request = *context;
	struct request_line line = { .method = method, .version = version };
	const char *problem;

	(void)path;
	(void)data;
	(void)size;
	if (!request)
		return MHD_NO;
	if (request->has_headers)
		return respond_to_request(cls, connection, request, method);
	request->has_headers = true;
	line.target = request->target;
	problem = head_check(connection, &line, !reads);
	if (problem)
		return refuse_head(cls, connection, request, problem);
	/* Other methods are refused at once, before their body is received. */
	return reads ? MHD_YES : respond_to_request(cls, connection, request, method);
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
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, tls ? tls->priorities : NULL },
		{ tls && tls->client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, tls ? tls->client_ca : NULL },
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
		connection_memory(options), HEAD_STRICT MHD_OPTION_END);
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
	server->stopping = true;
	resume_all(server);
	sd_event_source_disable_unref(server->io);
	sd_event_source_disable_unref(server->timer);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
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
