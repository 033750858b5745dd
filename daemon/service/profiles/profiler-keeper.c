/* SPDX-License-Identifier: MIT */

#include "service/profiles/profiler-keeper.h"

#include "base/util/channel.h"
#include "base/util/child.h"
#include "base/util/clock.h"
#include "base/util/file.h"
#include "base/util/rights.h"
#include "profiler/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FIRST_PAUSE_NS (100 * (uint64_t)NS_PER_MS)
/* For so long the daemon waits for a keeper that is to end. */
#define END_MS 1000

/* The keeper's socket to the daemon has the number that the profiler's will have. */
#define KEEPER_FD_DAEMON PROFILER_FD_DAEMON

/* The steps of a start, and why one that has failed does. */
enum start_step {
	STEP_TABLES,
	STEP_SOCKET,
	STEP_PIPE,
	STEP_PROCESS,
	STEP_PROGRAM,
	STEP_PIDFD,
	_STEP_MAX,
};

static const char *const step_failures[_STEP_MAX] = {
	[STEP_TABLES] = "there is no memory for its table of processes",
	[STEP_SOCKET] = "there is no socket for it",
	[STEP_PIPE] = "there is no pipe for its start",
	[STEP_PROCESS] = "there is no process for it",
	[STEP_PROGRAM] = "its program can't be executed",
	[STEP_PIDFD] = "its process can't be watched",
};

struct start_message {
	uint64_t number;
	uint64_t pause_ns;
	int32_t last_status;
	int32_t error;
	uint64_t step; /* that has failed: enum start_step */
};

/* A message has these descriptors, or none if the start failed. */
enum {
	SENT_SOCKET,
	SENT_PIDFD,
	NR_SENT,
};

union control {
	RIGHTS_ROOM(NR_SENT);
};

struct profiler_keeper {
	pid_t pid;
	int pidfd;
	int socket;
};

/* --- in the profiler, up to its exec */

_Noreturn static void become_profiler(pid_t keeper, int socket, int error_pipe, const char *const argv[])
{
	int error;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The keeper may have ended before that. */
	if (getppid() != keeper)
		_exit(EXIT_FAILURE);
	child_offer_to_oom_killer("500");
	if (dup2(socket, PROFILER_FD_DAEMON) >= 0) {
		child_close_files(PROFILER_FD_END, error_pipe);
		(void)execve("/proc/self/exe", (char *const *)argv, environ);
	}
	error = errno;
	(void)write_all(error_pipe, (const char *)&error, sizeof(error));
	_exit(EXIT_FAILURE);
}

/* --- in the keeper */

/* The pid of a child that has become the profiler, or negative errno. The pipe is closed by the exec. */
static pid_t fork_profiler(int socket, const char *const argv[], uint64_t *step)
{
	_cleanup_(closep) int from = -1, to = -1;
	pid_t keeper = getpid(), pid;
	int pair[2], error;

	*step = STEP_PIPE;
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	from = pair[0];
	to = pair[1];
	*step = STEP_PROCESS;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become_profiler(keeper, socket, to, argv);
	to = safe_close(to);
	if (read(from, &error, sizeof(error)) != sizeof(error))
		return pid;
	(void)waitpid(pid, NULL, 0);
	*step = STEP_PROGRAM;
	return -error;
}

/* Once. The files have the lowest free numbers, those of PROFILER_FD_TABLE, and stay open over an exec. */
static int make_tables(void)
{
	int r = 0;

	if (fcntl(PROFILER_FD_TABLE, F_GETFD) >= 0)
		return 0;
	for (int i = 0; i < PROFILER_NR_TABLES && r == 0; i++) {
		int fd = memfd_create("perfmond-processes", MFD_ALLOW_SEALING);

		if (fd < 0 || ftruncate(fd, PROFILER_TABLE_SIZE) < 0 ||
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
			r = -errno;
	}
	if (r < 0)
		child_close_files(PROFILER_FD_TABLE, -1);
	return r;
}

/* Starts the profiler. Its pid, with the two descriptors that the daemon gets, or negative errno with the step. */
static pid_t start_profiler(int ret_fds[static NR_SENT], const char *const argv[], uint64_t *step)
{
	_cleanup_(closep) int socket = -1, other = -1;
	int pair[2], pidfd, r;
	pid_t pid;

	*step = STEP_TABLES;
	r = make_tables();
	if (r < 0)
		return r;
	*step = STEP_SOCKET;
	r = channel_pair(pair);
	if (r < 0)
		return r;
	socket = pair[0];
	other = pair[1];
	pid = fork_profiler(other, argv, step);
	if (pid < 0)
		return pid;
	*step = STEP_PIDFD;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		int error = errno;

		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return -error;
	}
	ret_fds[SENT_SOCKET] = steal_fd(&socket);
	ret_fds[SENT_PIDFD] = pidfd;
	return pid;
}

/* Waits until the daemon takes it. An error is the daemon's end, which the keeper finds out when it waits next. */
static void send_message(struct start_message message, const int fds[static NR_SENT])
{
	union control control = {};
	struct iovec data = { .iov_base = &message, .iov_len = sizeof(message) };
	struct msghdr packet = { .msg_iov = &data, .msg_iovlen = 1 };

	if (message.error == 0)
		rights_put(&packet, control.room, fds, NR_SENT);
	(void)sendmsg(KEEPER_FD_DAEMON, &packet, MSG_NOSIGNAL);
}

/* Waits for the profiler (pidfd -1: for nothing), or so long (-1: for ever). Does not return when the daemon has
 * ended, which never sends anything. */
static void wait_or_end(int pidfd, int timeout_ms)
{
	struct pollfd files[] = { { .fd = KEEPER_FD_DAEMON, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };

	(void)poll(files, ARRAY_SIZE(files), timeout_ms);
	if (files[0].revents)
		_exit(EXIT_SUCCESS);
}

/* Starts the profiler and waits for its end; returns for how long it lived. */
static uint64_t run_profiler(struct start_message *message, const char *const argv[])
{
	uint64_t start = clock_monotonic_ns();
	int fds[NR_SENT] = { -1, -1 };
	pid_t pid = start_profiler(fds, argv, &message->step);

	message->number++;
	message->error = pid < 0 ? -pid : 0;
	send_message(*message, fds);
	(void)safe_close(fds[SENT_SOCKET]);
	if (pid < 0)
		return 0;
	while (waitpid(pid, &message->last_status, WNOHANG) == 0)
		wait_or_end(fds[SENT_PIDFD], -1);
	(void)safe_close(fds[SENT_PIDFD]);
	return clock_monotonic_ns() - start;
}

static uint64_t next_pause(uint64_t pause, uint64_t lived, uint64_t longest)
{
	if (pause == 0 || lived >= longest)
		return FIRST_PAUSE_NS;
	return pause * 2 < longest ? pause * 2 : longest;
}

/* A parent that ignores SIGCHLD passes that on, and then no status could be waited for. */
static void set_signals(void)
{
	sigset_t none;

	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void run_keeper(int socket, const char *const argv[], uint64_t longest_pause_ns)
{
	struct start_message message = { .last_status = -1 };

	(void)prctl(PR_SET_NAME, "perfmond-keeper");
	set_signals();
	/* The profiler's children are waited for here when it ends before them. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (dup2(socket, KEEPER_FD_DAEMON) < 0)
		_exit(EXIT_FAILURE);
	child_close_files(KEEPER_FD_DAEMON + 1, -1);
	for (;;) {
		uint64_t lived = run_profiler(&message, argv);

		message.pause_ns = next_pause(message.pause_ns, lived, longest_pause_ns);
		wait_or_end(-1, (int)(message.pause_ns / NS_PER_MS));
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

/* --- in the daemon */

int profiler_keeper_start(struct profiler_keeper **ret, const char *const argv[], uint64_t longest_pause_ns,
			  struct reason *why)
{
	_cleanup_(profiler_keeper_freep) struct profiler_keeper *keeper = calloc(1, sizeof(*keeper));
	_cleanup_(closep) int other = -1;
	int pair[2], r;

	if (!keeper)
		return reason_set(why, -ENOMEM, "there is no memory for the profiler's keeper");
	keeper->socket = keeper->pidfd = -1;
	r = channel_pair(pair);
	if (r < 0)
		return reason_set(why, r, "the profiler's keeper gets no socket: %s", strerror(-r));
	keeper->socket = pair[0];
	other = pair[1];
	/* The keeper waits until the daemon takes a message. */
	if (fcntl(other, F_SETFL, 0) < 0)
		return reason_set(why, -errno, "the profiler's keeper gets no socket: %s", strerror(errno));
	keeper->pid = fork();
	if (keeper->pid == 0)
		run_keeper(other, argv, longest_pause_ns);
	if (keeper->pid > 0)
		keeper->pidfd = (int)syscall(SYS_pidfd_open, keeper->pid, 0);
	if (keeper->pidfd < 0)
		return reason_set(why, -errno, "the profiler's keeper can't be forked: %s", strerror(errno));
	*ret = steal_ptr(keeper);
	return 0;
}

struct profiler_keeper *profiler_keeper_free(struct profiler_keeper *keeper)
{
	struct pollfd end;

	if (!keeper)
		return NULL;
	(void)safe_close(keeper->socket);
	if (keeper->pid > 0) {
		end = (struct pollfd){ .fd = keeper->pidfd, .events = POLLIN };
		(void)poll(&end, 1, END_MS);
		child_kill(keeper->pid, keeper->pidfd);
	}
	(void)safe_close(keeper->pidfd);
	free(keeper);
	return NULL;
}

int profiler_keeper_fd(const struct profiler_keeper *keeper)
{
	return keeper->socket;
}

int profiler_keeper_receive(struct profiler_keeper *keeper, struct profiler_start *ret, struct reason *why)
{
	_cleanup_(closep) int socket = -1, pidfd = -1;
	struct start_message message;
	union control control;
	struct iovec data = { .iov_base = &message, .iov_len = sizeof(message) };
	struct msghdr packet = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fds[NR_SENT] = { -1, -1 };
	ssize_t n = recvmsg(keeper->socket, &packet, MSG_CMSG_CLOEXEC);
	size_t nr;

	if (n < 0)
		return errno == EAGAIN ? -EAGAIN :
					 reason_set(why, -errno, "the profiler's keeper: %s", strerror(errno));
	nr = rights_take(&packet, fds);
	socket = fds[SENT_SOCKET];
	pidfd = fds[SENT_PIDFD];
	if (n == 0)
		return reason_set(why, -EPIPE,
				  "the process that starts the profiler has ended: restart perfmond for new profiles");
	if (n != sizeof(message) || packet.msg_flags & MSG_TRUNC || message.error < 0 || message.error > ERRNO_MAX ||
	    message.step >= _STEP_MAX)
		return reason_set(why, -EBADMSG, "the profiler's keeper sent a message that is none of its own");
	if (packet.msg_flags & MSG_CTRUNC && nr < NR_SENT)
		return reason_set(why, -EMFILE, "the limit of open files (LimitNOFILE=) leaves none for the profiler");
	if (packet.msg_flags & MSG_CTRUNC || nr != (message.error ? 0 : NR_SENT))
		return reason_set(why, -EBADMSG, "the profiler's keeper sent descriptors that are none of its own");
	*ret = (struct profiler_start){
		.number = message.number,
		.pause_ns = message.pause_ns,
		.last_status = message.last_status,
		.error = message.error,
		.failure = message.error ? step_failures[message.step] : NULL,
		.socket = steal_fd(&socket),
		.pidfd = steal_fd(&pidfd),
	};
	return 0;
}
