/* SPDX-License-Identifier: MIT */

#include "profiler/main.h"

#include "base/host/privilege.h"
#include "base/host/process-usage.h"
#include "base/util/channel.h"
#include "base/util/clock.h"
#include "base/util/gzip.h"
#include "base/util/log.h"
#include "base/util/memory.h"
#include "base/util/work-child.h"
#include "profiler/answer/answer.h"
#include "profiler/capture/capture-folder.h"
#include "profiler/capture/capture-list.h"
#include "profiler/capture/capture-saver.h"
#include "profiler/capturer.h"
#include "profiler/profiler.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <systemd/sd-event.h>

/* In µs: the rings are read so often, and … */
#define TURN_US (200 * 1000U)
/* … every fifth time the daemon is told how things are. */
#define TURNS_OF_STATE 5

/* At the stop: samples are written for so long at most, … */
#define SAVE_NS (2 * (uint64_t)NS_PER_S)
/* … and the daemon may take so long to read them. */
#define SEND_MS 1000

#define ANSWER_LIMIT_US (30 * 1000 * 1000U)

struct process {
	sd_event *loop;
	struct channel *channel;
	struct profiler *profiler; /* NULL: there are no settings yet */
	char *procfs;
	uint64_t settings;     /* number of the message that is in force */
	struct reason problem; /* as it was logged */
	bool was_on;
	struct capturer *capturer;
	struct capture_saver *saver;
	uint64_t orders;		  /* number of the last one */
	uint64_t saving_ns, answering_ns; /* CPU time of children */
	struct work_child *child;	  /* that works out an answer */
	struct profile_question question; /* that is answered next, and … */
	uint64_t asked;			  /* … its number; 0: there is none */
	uint64_t answering; /* the number of the one that the child is at; 0: none, or nobody wants it any more */
	sd_event_source *channel_source, *samples_source, *timer;
	unsigned turns;
	bool is_stopping;
	struct blob *archive; /* samples of before, for the first settings; NULL: none */
};

static void release_process(struct process *process)
{
	sd_event_source_disable_unref(process->channel_source);
	sd_event_source_disable_unref(process->samples_source);
	sd_event_source_disable_unref(process->timer);
	work_child_free(process->child);
	capture_saver_free(process->saver);
	capturer_free(process->capturer);
	profiler_free(process->profiler);
	profile_question_release(&process->question);
	channel_free(process->channel);
	free(process->procfs);
	blob_unref(process->archive);
	sd_event_unref(process->loop);
}

/* --- what the daemon is told */

/* A daemon that does not read for so long that there is no room will be told the next time. */
static int send_message(struct process *process, enum profiler_message kind, uint64_t number, const struct buf *content)
{
	int r = content->failed ? -ENOMEM :
				  channel_send(process->channel, kind, number, content->data, content->len, -1);

	(void)sd_event_source_set_io_events(process->channel_source, channel_events(process->channel));
	return r;
}

static void fill_stats(const struct process *process, struct profiler_stats *ret)
{
	struct process_usage usage;

	profiler_stats(process->profiler, ret);
	usage = process_usage_read(USAGE_UNKNOWN);
	ret->cpu_ns += usage.cpu_ns;
	ret->answer_ns = process->answering_ns + process->saving_ns;
	ret->memory = usage.resident_bytes;
}

static void send_state(struct process *process)
{
	_cleanup_(buf_release) struct buf content = {};
	size_t nr = profiler_settings(process->profiler)->nr_events;
	_cleanup_(freep) char **problems = calloc(nr + 1, sizeof(*problems));
	struct profiler_state state = {
		.settings = process->settings,
		.is_on = profiler_is_on(process->profiler),
		.drained = profiler_drained(process->profiler),
		.problem = (char *)(uintptr_t)profiler_problem(process->profiler),
		.problems = problems,
		.nr_problems = nr,
		.orders = process->orders,
	};

	fill_stats(process, &state.stats);
	if (!problems || captures_describe(capturer_captures(process->capturer), &state) < 0)
		return;
	for (size_t i = 0; i < nr; i++)
		problems[i] = (char *)(uintptr_t)profiler_event_problem(process->profiler, i);
	write_state(&content, &state);
	(void)send_message(process, PROFILER_STATE, 0, &content);
	free(state.captures);
}

/* --- samples */

static void log_problem(struct process *process)
{
	const char *problem = profiler_problem(process->profiler);
	bool is_on = profiler_is_on(process->profiler);

	if (is_on && !process->was_on && process->problem.text[0])
		log_notice("profiles are taken again%s%s", problem[0] ? ": " : "", problem);
	else if (strcmp(problem, process->problem.text))
		log_notice("%s", problem[0] ? problem : "profiles have no problem any more");
	reason_set(&process->problem, 0, "%s", problem);
	process->was_on = is_on;
}

static void take_samples(struct process *process)
{
	profiler_turn(process->profiler);
	if (capturer_turn(process->capturer))
		send_state(process);
	capture_saver_turn(process->saver);
}

static int on_samples(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	take_samples(userdata);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct process *process = userdata;

	(void)usec;
	take_samples(process);
	if (++process->turns % TURNS_OF_STATE == 0) {
		if (!profiler_follow_rate(process->profiler)) {
			capturer_pause(process->capturer);
			profiler_reopen(process->profiler);
		}
		log_problem(process);
		send_state(process);
	}
	(void)sd_event_source_set_time_relative(source, TURN_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* --- answers */

struct asked {
	const struct process *process;
	const struct profile_question *question;
};

static int ask_profiler(const void *userdata, const struct profile_query *query, struct profile **ret,
			struct profile_measure *ret_measure, struct reason *why)
{
	const struct asked *asked = userdata;
	struct profile_query whole = *query;

	if (asked->question->counted)
		whole.counts = &asked->question->counts;
	return profiler_ask(asked->process->profiler, asked->question->event, &whole, ret, ret_measure, why);
}

static int list_captures(const struct process *process, const struct told_captures *told, struct buf *out)
{
	_cleanup_(freep) struct capture_saved *files = NULL;
	size_t nr_files = 0;
	int r = capture_folder_list(capture_saver_folder(process->saver), &files, &nr_files);

	if (r == 0)
		capture_list_json(out, capturer_captures(process->capturer), files, nr_files, told);
	return r;
}

static int write_document(const struct process *process, const struct profile_question *question, struct buf *out,
			  struct reason *why)
{
	const struct asked asked = { .process = process, .question = question };
	const struct answer_samples samples = { .ask = ask_profiler, .userdata = &asked, .clock = &question->clock };
	const struct capture *capture;

	if (question->form == PROFILE_FORM_CAPTURES)
		return list_captures(process, &question->told, out);
	if (!question->capture)
		return answer_question(out, question, &samples, why);
	capture = captures_find(capturer_captures(process->capturer), question->capture);
	return capture ? capture_answer(out, capture, question, why) :
			 capture_folder_answer(out, capture_saver_folder(process->saver), question, why);
}

/* The head is the refusal, if its error is not 0; else the body is the document. */
static void answer_in_child(struct buf *out, void *head, const void *what)
{
	const struct process *process = what;
	_cleanup_(buf_release) struct buf document = {};
	struct profiler_refusal *refusal = head;
	bool gzip = process->question.gzip;
	int r;

	profiler_add_waiting(process->profiler);
	r = write_document(process, &process->question, gzip ? &document : out, &refusal->why);

	if (r == 0 && gzip)
		r = document.failed ? -ENOMEM : gzip_add(out, document.data, document.len);
	if (r == 0 && out->failed)
		r = -ENOMEM;
	refusal->error = r == -ENOMEM ? reason_set(&refusal->why, r, "out of memory") : r;
}

static void refuse(struct process *process, uint64_t number, const struct profiler_refusal *refusal)
{
	_cleanup_(buf_release) struct buf content = {};

	write_refusal(&content, refusal);
	(void)send_message(process, PROFILER_REFUSAL, number, &content);
}

/* With the next question, if the child has none. */
static void begin_answer(struct process *process)
{
	uint64_t number = process->asked;
	struct profiler_refusal refusal;
	struct reason why;
	int r;

	if (!number || work_child_is_busy(process->child))
		return;
	take_samples(process);
	r = work_child_start(process->child, answer_in_child, process, &why);
	process->answering = r == 0 ? number : 0;
	process->asked = 0;
	profile_question_release(&process->question);
	if (r == 0)
		return;
	refusal.error = reason_set(&refusal.why, -EBUSY, "the answer can't be worked out: %s", why.text);
	refuse(process, number, &refusal);
}

static int send_document(struct process *process, uint64_t number, int document)
{
	int r = channel_send_file(process->channel, PROFILER_ANSWER, number, document, -1);

	(void)sd_event_source_set_io_events(process->channel_source, channel_events(process->channel));
	return r;
}

static void on_answer(void *userdata)
{
	struct process *process = userdata;
	struct profiler_refusal refusal = {};
	struct reason why;
	uint64_t number = process->answering;
	_cleanup_(closep) int document = -1;
	size_t len;
	int r = work_child_take(process->child, &refusal, &document, &len, &why);

	process->answering_ns += work_child_cpu_ns(process->child);
	process->answering = 0;
	if (r == -ECHILD)
		log_warning("the process for an answer %s", why.text);
	if (r == -ECHILD)
		refusal.error =
			reason_set(&refusal.why, -EBUSY, "the process for the answer crashed: perfmond's log has more");
	else if (r < 0)
		refusal.error = reason_set(&refusal.why, -EBUSY, "the answer %s: ask for a shorter stretch", why.text);
	if (number && !refusal.error) {
		r = send_document(process, number, document);
		if (r == -EMSGSIZE)
			refusal.error =
				reason_set(&refusal.why, -EBUSY, "the answer is too large: ask for a shorter stretch");
		else if (r < 0)
			refusal.error = reason_set(&refusal.why, -EBUSY, "the answer can't be sent: %s", strerror(-r));
	}
	if (number && refusal.error)
		refuse(process, number, &refusal);
	begin_answer(process);
}

/* --- messages from the daemon */

static int bad_message(struct reason *why, int r, const char *kind)
{
	return reason_set(why, r, "a message of the daemon (%s) can't be read: %s", kind, strerror(-r));
}

/* With the first settings, there are a place for samples and a procfs. */
static int make_profiler(struct process *process, const char *procfs, struct reason *why)
{
	static const int tables[PROFILER_NR_TABLES] = { PROFILER_FD_TABLE, PROFILER_FD_TABLE + 1 };
	int r = 0;

	process->procfs = strdup(procfs);
	if (!process->procfs || profiler_new(&process->profiler, process->procfs, why) < 0 ||
	    capturer_new(&process->capturer, process->profiler) < 0 ||
	    capture_saver_new(&process->saver, capturer_captures(process->capturer), process->loop,
			      &process->saving_ns) < 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	profiler_keep_processes(process->profiler, tables);
	r = sd_event_add_io(process->loop, &process->samples_source, profiler_fd(process->profiler), EPOLLIN,
			    on_samples, process);
	if (r >= 0)
		r = sd_event_add_time_relative(process->loop, &process->timer, CLOCK_MONOTONIC, TURN_US, 0, on_timer,
					       process);
	return r;
}

/* Those of before, if there are any. */
static void take_up(struct process *process, const struct profiler_settings *settings)
{
	_cleanup_(blob_unrefp) struct blob *archive = steal_ptr(process->archive);
	struct reason why = {};

	if (!archive || !settings->nr_events)
		return;
	if (profiler_take_up(process->profiler, settings, archive->data, archive->len, &why) < 0)
		log_notice("samples of before are dropped: %s", why.text);
	else
		log_info("samples of before go on");
}

static int take_settings(struct process *process, const struct message *message, struct reason *why)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings = {};
	int r = read_settings(&settings, message->content, message->len);

	if (r < 0)
		return bad_message(why, r, "settings");
	if (!process->profiler)
		r = make_profiler(process, settings.procfs, why);
	else
		take_samples(process);
	if (r < 0)
		return r;
	capturer_pause(process->capturer);
	take_up(process, &settings);
	r = profiler_use(process->profiler, &settings);
	if (r < 0)
		return r;
	capturer_use(process->capturer, profiler_settings(process->profiler));
	process->settings = message->number;
	log_problem(process);
	send_state(process);
	return 0;
}

static int take_archive(struct process *process, const struct message *message, struct reason *why)
{
	if (process->profiler || process->archive)
		return bad_message(why, -EPROTO, "archive");
	process->archive = blob_ref(message->blob);
	return 0;
}

static int take_cgroups(struct process *process, const struct message *message, struct reason *why)
{
	_cleanup_(told_cgroups_release) struct told_cgroups cgroups = {};
	int r = process->profiler ? read_cgroups(&cgroups, message->content, message->len) : -EPROTO;

	if (r < 0)
		return bad_message(why, r, "cgroups");
	/* Samples of before are of the cgroups of before. */
	if (cgroups.is_all) {
		take_samples(process);
		profiler_end_cgroups(process->profiler, cgroups.is_new_tree);
	}
	for (size_t i = 0; i < cgroups.nr; i++)
		profiler_note_cgroup(process->profiler, cgroups.items[i].id, cgroups.items[i].path);
	return 0;
}

static int take_question(struct process *process, const struct message *message, struct reason *why)
{
	struct profile_question question;
	int r = process->profiler && message->number ? read_question(&question, message->content, message->len) :
						       -EPROTO;

	if (r < 0)
		return bad_message(why, r, "question");
	profile_question_release(&process->question);
	process->question = question;
	process->asked = message->number;
	begin_answer(process);
	return 0;
}

static void cancel_question(struct process *process, uint64_t number)
{
	if (process->asked == number)
		process->asked = 0;
	if (process->answering != number)
		return;
	process->answering = 0;
	work_child_give_up(process->child);
}

static int take_order(struct process *process, const struct message *message, struct reason *why)
{
	struct capture_order order;
	int r = process->profiler ? read_order(&order, message->content, message->len) : -EPROTO;

	if (r < 0)
		return bad_message(why, r, "capture");
	order.cgroup_fd = message->fd;
	process->orders = message->number;
	r = capturer_keep(process->capturer, &order);
	if (r < 0)
		log_warning("capture %s can't be made: %s", order.id,
			    r == -EBUSY ? "those that run leave no room: raise [profiles] capture_memory" :
					  strerror(-r));
	capture_order_release(&order);
	/* Those from before are there. */
	take_samples(process);
	send_state(process);
	return 0;
}

/* As the last message. */
static void send_archive(struct process *process)
{
	_cleanup_(buf_release) struct buf content = {};
	struct reason why = {};
	struct pollfd fd = { .fd = channel_fd(process->channel), .events = POLLOUT };
	int r = profiler_save(process->profiler, PROFILER_CONTENT_MAX, clock_monotonic_ns() + SAVE_NS, &content, &why);

	if (r == -ENODATA)
		return;
	if (r == 0)
		r = send_message(process, PROFILER_ARCHIVE, 0, &content);
	/* Messages that wait are dropped with the channel. */
	while (r >= 0 && (channel_events(process->channel) & EPOLLOUT))
		r = poll(&fd, 1, SEND_MS) > 0 ? channel_flush(process->channel) : -ETIMEDOUT;
	if (r < 0 && !why.text[0])
		reason_set(&why, 0, "they can't be sent: %s", strerror(-r));
	if (r < 0)
		log_notice("samples are not kept for the next start: %s", why.text);
}

static void stop(struct process *process)
{
	if (process->profiler) {
		take_samples(process);
		profiler_end_waiting(process->profiler);
		send_state(process); /* until when there are samples */
		capturer_finish(process->capturer);
		capture_saver_leave(process->saver);
		send_archive(process);
	}
	process->is_stopping = true;
	(void)sd_event_exit(process->loop, EXIT_SUCCESS);
}

static int take_message(struct process *process, const struct message *message, struct reason *why)
{
	static const struct buf empty = {};

	switch ((enum profiler_message)message->kind) {
	case PROFILER_SETTINGS:
		return take_settings(process, message, why);
	case PROFILER_CGROUPS:
		return take_cgroups(process, message, why);
	case PROFILER_QUESTION:
		return take_question(process, message, why);
	case PROFILER_CANCEL:
		cancel_question(process, message->number);
		return 0;
	case PROFILER_KEEP:
		return take_order(process, message, why);
	case PROFILER_PING:
		(void)send_message(process, PROFILER_PONG, message->number, &empty);
		return 0;
	case PROFILER_STOP:
		stop(process);
		return 0;
	case PROFILER_ARCHIVE:
		return take_archive(process, message, why);
	default:
		return bad_message(why, -EPROTO, "of no kind that it has");
	}
}

/* A daemon whose messages make no sense gets another profiler, which begins anew. */
static int give_up(struct process *process, int r, const struct reason *why)
{
	log_error("profiler: %s", why->text[0] ? why->text : strerror(-r));
	return sd_event_exit(process->loop, EXIT_FAILURE);
}

static int on_channel(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct process *process = userdata;
	struct reason why = {};
	int r = channel_flush(process->channel);

	(void)fd;
	(void)revents;
	while (r >= 0 && !process->is_stopping) {
		_cleanup_(message_release) struct message message = MESSAGE_EMPTY;
		int taken;

		r = channel_receive(process->channel, &message, &why);
		if (r <= 0)
			break;
		taken = take_message(process, &message, &why);
		if (taken < 0)
			return give_up(process, taken, &why);
	}
	if (r == -EPIPE)
		return sd_event_exit(process->loop, EXIT_SUCCESS);
	/* One of them is lost, for which there was no room. */
	if (r < 0 && r != -ENOMEM && r != -EMFILE && r != -ENFILE && r != -ENOBUFS)
		return give_up(process, r, &why);
	return sd_event_source_set_io_events(source, channel_events(process->channel));
}

/* --- all of it */

static int start(struct process *process, int socket)
{
	static const struct channel_rules rules = { PROFILER_PROTOCOL, _PROFILER_MESSAGE_MAX, PROFILER_CONTENT_MAX };
	int r = channel_new(&process->channel, socket, &rules);

	if (r < 0)
		return r;
	r = sd_event_new(&process->loop);
	if (r >= 0)
		r = sd_event_add_io(process->loop, &process->channel_source, socket, EPOLLIN, on_channel, process);
	return r < 0 ? r :
		       work_child_new(&process->child, process->loop, sizeof(struct profiler_refusal), ANSWER_LIMIT_US,
				      on_answer, process);
}

int profiler_main(int socket)
{
	_cleanup_(release_process) struct process process = {};
	struct privilege privilege;
	int r;

	(void)prctl(PR_SET_NAME, "perfmond-sample");
	/* An exec with file capabilities has cleared what the keeper has set (prctl(2)). */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Its memory has what stands on the stacks of others. With 0 there is no file, but a program that
	 * kernel.core_pattern names would get all of it; with 1 neither is (Linux, do_coredump() in fs/coredump.c). */
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 1, 1 });
	/* A ring needs a file on each CPU. */
	privilege_read(&privilege, "/proc");
	(void)privilege_raise_fd_limit(&privilege);
	r = start(&process, socket);
	if (r >= 0) {
		memory_forget_code();
		r = sd_event_loop(process.loop);
	}
	if (r < 0)
		log_error("profiler: the event loop failed: %s", strerror(-r));
	return r < 0 ? EXIT_FAILURE : r;
}
