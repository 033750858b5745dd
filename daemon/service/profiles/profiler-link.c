/* SPDX-License-Identifier: MIT */

#include "service/profiles/profiler-link.h"

#include "base/util/clock.h"
#include "base/util/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often it is asked whether it is there, and how many times in vain. */
#define PING_US (5 * 1000 * 1000U)
#define PINGS_MAX 6

/* Messages that are taken at once: the rest of the loop has its turn. */
#define MESSAGES_AT_ONCE 32

struct profiler_link {
	sd_event *loop;
	struct profiler_keeper *keeper;
	struct profiler_link_user user;
	struct channel *channel; /* NULL: there is no profiler */
	int pidfd;
	unsigned pings; /* in vain so far */
	uint64_t starts;
	struct reason problem;
	bool is_replaced; /* the problem is why the profiler was killed */
	sd_event_source *starts_source, *messages, *ping;
};

static void kill_profiler(struct profiler_link *link)
{
	if (link->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, link->pidfd, SIGKILL, NULL, 0);
}

static const char started[] = "the profiler is being started";
static const char restarted[] = "the profiler has ended, and is being started again";

/* why: a sentence on why there is no profiler now. */
static void end_connection(struct profiler_link *link, const char *why)
{
	if (!link->channel)
		return;
	reason_set(&link->problem, 0, "%s", why);
	link->messages = sd_event_source_disable_unref(link->messages);
	link->channel = channel_free(link->channel);
	link->pidfd = safe_close(link->pidfd);
	link->user.ended(link->user.userdata);
}

/* Kills it: the keeper starts another one. */
static void replace_profiler(struct profiler_link *link, const char *why)
{
	struct reason told;

	reason_set(&told, 0, "the profiler is started again: %s", why);
	log_error("%s", told.text);
	kill_profiler(link);
	end_connection(link, told.text);
	link->is_replaced = true;
}

/* --- messages */

/* An error after which the messages go on: one of them is lost, for which there was no room. */
static bool is_passing(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -ENOBUFS;
}

/* 1: a message was taken; 0: there is none. */
static int receive_one(struct profiler_link *link, struct reason *why)
{
	_cleanup_(message_release) struct message message = MESSAGE_EMPTY;
	int r = channel_receive(link->channel, &message, why);

	if (r <= 0)
		return r;
	if (message.kind == PROFILER_PONG)
		link->pings = 0;
	else
		r = link->user.take(link->user.userdata, &message, why);
	if (r == -EPROTO)
		reason_set(why, r, "its message of kind %u makes no sense", message.kind);
	return r < 0 ? r : 1;
}

static int receive_some(struct profiler_link *link, struct reason *why)
{
	int r = channel_flush(link->channel);

	r = r < 0 ? r : 1;
	for (int i = 0; i < MESSAGES_AT_ONCE && r > 0; i++)
		r = receive_one(link, why);
	return r;
}

static int on_messages(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct profiler_link *link = userdata;
	struct reason why = {};
	int r = receive_some(link, &why);

	(void)fd;
	(void)revents;
	if (is_passing(r)) {
		link->user.missed(link->user.userdata, strerror(-r));
		/* Memory or files may be short for a while: the next ping begins again. */
		return sd_event_source_set_io_events(source, 0);
	}
	if (r >= 0)
		return sd_event_source_set_io_events(source, channel_events(link->channel));
	if (r == -EPIPE)
		end_connection(link, restarted);
	else
		replace_profiler(link, why.text[0] ? why.text : strerror(-r));
	return 0;
}

/* Judged by pings, and not by the time: the daemon may have been stopped itself. */
static int on_ping(sd_event_source *source, uint64_t usec, void *userdata)
{
	static const struct buf empty = {};
	struct profiler_link *link = userdata;

	(void)usec;
	if (link->channel && link->pings == PINGS_MAX)
		replace_profiler(link, "it has not answered for half a minute");
	if (link->channel) {
		link->pings++;
		(void)profiler_link_send(link, PROFILER_PING, 0, &empty, -1);
	}
	(void)sd_event_source_set_time_relative(source, PING_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* --- the keeper's news */

static void explain_end(struct reason *ret, int status)
{
	if (WIFSIGNALED(status))
		reason_set(ret, 0, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		reason_set(ret, 0, "exit status %d", WEXITSTATUS(status));
}

static int begin_connection(struct profiler_link *link, const struct profiler_start *start)
{
	static const struct channel_rules rules = { PROFILER_PROTOCOL, _PROFILER_MESSAGE_MAX, PROFILER_CONTENT_MAX };
	int r;

	link->pidfd = start->pidfd;
	r = channel_new(&link->channel, start->socket, &rules);
	if (r < 0) {
		(void)safe_close(start->socket);
		link->pidfd = safe_close(link->pidfd);
		return r;
	}
	link->pings = 0;
	/* Why the one before was killed is told until this one has said how it is. */
	if (!link->is_replaced)
		reason_set(&link->problem, 0, "%s", started);
	link->is_replaced = false;
	r = sd_event_add_io(link->loop, &link->messages, channel_fd(link->channel), EPOLLIN, on_messages, link);
	if (r < 0) {
		kill_profiler(link);
		end_connection(link, restarted);
		return r;
	}
	link->user.begun(link->user.userdata);
	return 0;
}

static void take_start(struct profiler_link *link, const struct profiler_start *start)
{
	struct reason end;
	int r = -start->error;

	if (start->last_status >= 0) {
		explain_end(&end, start->last_status);
		log_warning("the profiler has ended (%s), and is started again", end.text);
	}
	end_connection(link, restarted);
	link->starts = start->number;
	if (r == 0)
		r = begin_connection(link, start);
	if (r < 0) {
		reason_set(&link->problem, 0, "the profiler can't be started: %s (%s); it is tried again",
			   start->failure ?: "there is no connection to it", strerror(-r));
		log_warning("%s", link->problem.text);
	}
}

static int on_start(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct profiler_link *link = userdata;
	struct profiler_start start;
	struct reason why = {};
	int r = profiler_keeper_receive(link->keeper, &start, &why);

	(void)fd;
	(void)revents;
	if (r == 0)
		take_start(link, &start);
	if (r == 0 || r == -EAGAIN)
		return 0;
	log_error("profiles: %s", why.text);
	if (r == -EMFILE)
		return 0;
	end_connection(link, why.text);
	reason_set(&link->problem, 0, "%s", why.text);
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

/* --- all of it */

int profiler_link_new(struct profiler_link **ret, sd_event *loop, struct profiler_keeper *keeper,
		      const struct profiler_link_user *user)
{
	_cleanup_(profiler_link_freep) struct profiler_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	link->loop = sd_event_ref(loop);
	link->keeper = keeper;
	link->user = *user;
	link->pidfd = -1;
	reason_set(
		&link->problem, 0, "%s",
		keeper ? started :
			 "no process can be started for the profiler: the log has more; restart perfmond for profiles");
	r = keeper ? sd_event_add_io(loop, &link->starts_source, profiler_keeper_fd(keeper), EPOLLIN, on_start, link) :
		     0;
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &link->ping, CLOCK_MONOTONIC, PING_US, PING_US / 4, on_ping, link);
	if (r < 0)
		return r;
	*ret = steal_ptr(link);
	return 0;
}

struct profiler_link *profiler_link_free(struct profiler_link *link)
{
	if (!link)
		return NULL;
	sd_event_source_disable_unref(link->starts_source);
	sd_event_source_disable_unref(link->messages);
	sd_event_source_disable_unref(link->ping);
	channel_free(link->channel);
	safe_close(link->pidfd);
	sd_event_unref(link->loop);
	free(link);
	return NULL;
}

bool profiler_link_is_up(const struct profiler_link *link)
{
	return link->channel;
}

uint64_t profiler_link_restarts(const struct profiler_link *link)
{
	return link->starts ? link->starts - 1 : 0;
}

const char *profiler_link_problem(const struct profiler_link *link)
{
	return link->problem.text;
}

int profiler_link_send(struct profiler_link *link, enum profiler_message kind, uint64_t number,
		       const struct buf *content, int fd)
{
	int r;

	if (!link->channel)
		return -EAGAIN;
	if (content->failed)
		return -ENOMEM;
	r = channel_send(link->channel, kind, number, content->data, content->len, fd);
	(void)sd_event_source_set_io_events(link->messages, channel_events(link->channel));
	if (r != -EPIPE && r != -ECONNRESET)
		return r;
	/* It has ended, which the loop is about to notice. */
	reason_set(&link->problem, 0, "%s", restarted);
	return -EAGAIN;
}

void profiler_link_wait(struct profiler_link *link, uint64_t ns)
{
	uint64_t now, end = clock_monotonic_ns() + ns;
	struct reason why;
	int r = 0;

	while (link->channel && (r >= 0 || is_passing(r)) && (now = clock_monotonic_ns()) < end) {
		struct pollfd file = {
			.fd = channel_fd(link->channel),
			.events = (short)(channel_events(link->channel) & EPOLLOUT ? POLLIN | POLLOUT : POLLIN),
		};

		(void)poll(&file, 1, (int)((end - now) / NS_PER_MS) + 1);
		r = receive_some(link, &why);
	}
}
