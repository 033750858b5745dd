/* SPDX-License-Identifier: MIT */

#include "base/util/work-child.h"

#include "base/util/child.h"
#include "base/util/clock.h"
#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* In memory that both processes share. */
struct result {
	bool complete;
	size_t len; /* of the body */
	max_align_t head[];
};

enum work_state {
	WORK_NONE,
	WORK_AT_WORK,
	WORK_GIVEN_UP, /* the child was killed, and has not ended yet */
	WORK_READY,    /* the child has ended */
};

struct work_child {
	work_child_done_t done;
	void *userdata;
	sd_event *loop;
	uint64_t limit_us;
	enum work_state state;
	struct result *result;
	size_t head_size;
	int body; /* a memfd; -1: none */
	pid_t pid;
	int pidfd;
	int status; /* when it has ended: wait(2)'s */
	bool is_late;
	uint64_t cpu_ns;	     /* of the last one that has ended */
	sd_event_source *io, *timer; /* of the child's end, and of its time */
};

/* --- in the child */

_Noreturn static void work_in_child(const struct work_child *child, pid_t parent, work_child_work_t work,
				    const void *what)
{
	struct result *result = child->result;
	struct buf out = {};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The parent may have ended before that. */
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	/* So a client that goes away does not wait for a copy of its connection to be closed. Standard input and output
	 * stay: a sanitizer reports there. */
	child_close_files(STDERR_FILENO + 1, child->body);
	child_offer_to_oom_killer("1000");
	work(&out, result->head, what);
	result->len = out.len;
	/* Out of memory, there is no body. */
	result->complete = !out.failed && write_all(child->body, out.data, out.len) == 0;
	_exit(0);
}

/* --- on the loop */

static void forget_child(struct work_child *child)
{
	child->io = sd_event_source_disable_unref(child->io);
	child->pidfd = safe_close(child->pidfd);
	(void)sd_event_source_set_enabled(child->timer, SD_EVENT_OFF);
	child->pid = 0;
}

static void drop_result(struct work_child *child)
{
	child->body = safe_close(child->body);
	child->state = WORK_NONE;
}

static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct work_child *child = userdata;
	struct rusage usage = {};

	(void)source;
	(void)fd;
	(void)revents;
	if (wait4(child->pid, &child->status, WNOHANG, &usage) == 0)
		return 0;
	child->cpu_ns = rusage_ns(&usage);
	forget_child(child);
	if (child->state == WORK_GIVEN_UP)
		drop_result(child);
	else
		child->state = WORK_READY;
	child->done(child->userdata);
	return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct work_child *child = userdata;

	(void)source;
	(void)usec;
	child->is_late = true;
	(void)kill(child->pid, SIGKILL);
	return 0;
}

static size_t result_size(const struct work_child *child)
{
	return sizeof(*child->result) + child->head_size;
}

int work_child_new(struct work_child **ret, sd_event *loop, size_t head_size, uint64_t limit_us, work_child_done_t done,
		   void *userdata)
{
	_cleanup_(work_child_freep) struct work_child *child = calloc(1, sizeof(*child));
	void *memory;
	int r;

	if (!child)
		return -ENOMEM;
	child->done = done;
	child->userdata = userdata;
	child->loop = sd_event_ref(loop);
	child->limit_us = limit_us;
	child->head_size = head_size;
	child->body = child->pidfd = -1;
	memory = mmap(NULL, result_size(child), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	child->result = memory;
	r = sd_event_add_time_relative(loop, &child->timer, CLOCK_MONOTONIC, 0, 0, on_timeout, child);
	if (r >= 0)
		r = sd_event_source_set_enabled(child->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = steal_ptr(child);
	return 0;
}

static void kill_child(struct work_child *child)
{
	if (!child->pid)
		return;
	child_kill(child->pid, child->pidfd);
	forget_child(child);
}

struct work_child *work_child_free(struct work_child *child)
{
	if (!child)
		return NULL;
	kill_child(child);
	drop_result(child);
	sd_event_source_disable_unref(child->timer);
	if (child->result)
		(void)munmap(child->result, result_size(child));
	sd_event_unref(child->loop);
	free(child);
	return NULL;
}

bool work_child_is_busy(const struct work_child *child)
{
	return child->state != WORK_NONE;
}

/* Has the loop hear of its end. */
static int watch_child(struct work_child *child)
{
	int r;

	child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
	if (child->pidfd < 0)
		return -errno;
	r = sd_event_add_io(child->loop, &child->io, child->pidfd, EPOLLIN, on_end, child);
	if (r >= 0)
		r = sd_event_source_set_time_relative(child->timer, child->limit_us);
	return r < 0 ? r : sd_event_source_set_enabled(child->timer, SD_EVENT_ONESHOT);
}

int work_child_start(struct work_child *child, work_child_work_t work, const void *what, struct reason *why)
{
	const pid_t parent = getpid();
	int r;

	if (child->state != WORK_NONE)
		return reason_set(why, -EBUSY, "another child is at work");
	child->body = memfd_create("perfmond-work", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (child->body < 0)
		return reason_set(why, -errno, "there is no memory for a file: %s", strerror(errno));
	memset(child->result, 0, result_size(child));
	child->is_late = false;
	child->status = 0;
	child->pid = fork();
	if (child->pid == 0)
		work_in_child(child, parent, work, what);
	if (child->pid < 0) {
		r = reason_set(why, -errno, "no process can be started: %s", strerror(errno));
		child->pid = 0;
	} else {
		r = watch_child(child);
		if (r < 0)
			reason_set(why, r, "a process can't be waited for: %s", strerror(-r));
	}
	if (r < 0) {
		kill_child(child);
		drop_result(child);
		return r;
	}
	child->state = WORK_AT_WORK;
	return 0;
}

/* Why there is no result. Nobody but the kernel kills the child, where memory is short. */
static int problem_of(const struct work_child *child, struct reason *why)
{
	int status = child->status;

	if (child->is_late)
		return reason_set(why, -ETIME, "took too long");
	if (status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		return reason_set(why, -ENOMEM, "took too much memory");
	if (WIFSIGNALED(status))
		return reason_set(why, -ECHILD, "crashed: signal %d (%s)", WTERMSIG(status),
				  strsignal(WTERMSIG(status)));
	return reason_set(why, -ECHILD, "crashed: exit status %d", WEXITSTATUS(status));
}

int work_child_take(struct work_child *child, void *ret_head, int *ret_body, size_t *ret_len, struct reason *why)
{
	const struct result *result = child->result;
	int r = 0;

	if (child->state != WORK_READY)
		return reason_set(why, -EAGAIN, "has not ended");
	if (!result->complete) {
		r = problem_of(child, why);
	} else {
		memcpy(ret_head, result->head, child->head_size);
		if (ret_body) {
			*ret_body = steal_fd(&child->body);
			*ret_len = result->len;
		}
	}
	drop_result(child);
	return r;
}

void work_child_give_up(struct work_child *child)
{
	if (child->state == WORK_READY) {
		drop_result(child);
	} else if (child->state == WORK_AT_WORK) {
		(void)kill(child->pid, SIGKILL);
		child->state = WORK_GIVEN_UP;
	}
}

uint64_t work_child_cpu_ns(const struct work_child *child)
{
	return child->cpu_ns;
}
