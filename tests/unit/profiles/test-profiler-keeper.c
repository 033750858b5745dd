/* SPDX-License-Identifier: MIT */

/*
 * The keeper, with this program as the profiler: it does as it is told by messages, or exits at once. Pauses are
 * compared as the keeper tells them; the clock gives lower bounds alone.
 */

#include "base/util/clock.h"
#include "profiler/protocol.h"
#include "service/profiles/profiler-keeper.h"
#include "setup/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PATIENCE_MS 60000
#define TEXT_MAX 4096

static const char *const serving[] = { "perfmond", "--as-profiler", "serve", NULL };
static const char *const exiting[] = { "perfmond", "--as-profiler", "exit", NULL };

/* --- system calls that fail */

/* The number of the call that fails, counted from now on in this process and in its keepers: 1 is the next; 0: none. */
struct refused {
	int memfd, fork, pidfd;
};
static struct refused *refused;

static void refuse_nothing(void)
{
	refused = mmap(NULL, sizeof(*refused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(refused, MAP_FAILED);
}

static void refuse_end(void)
{
	(void)munmap(refused, sizeof(*refused));
	refused = NULL;
}

static bool is_refused(int *at, int error)
{
	if (*at == 0 || --*at > 0)
		return false;
	errno = error;
	return true;
}

int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);
pid_t __wrap_fork(void);
pid_t __real_fork(void);
long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);

int __wrap_memfd_create(const char *name, unsigned flags)
{
	return refused && is_refused(&refused->memfd, ENOMEM) ? -1 : __real_memfd_create(name, flags);
}

pid_t __wrap_fork(void)
{
	return refused && is_refused(&refused->fork, EAGAIN) ? -1 : __real_fork();
}

long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_pidfd_open && refused && is_refused(&refused->pidfd, EMFILE))
		return -1;
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* --- the profiler */

static void reply(const char *text)
{
	if (send(PROFILER_FD_DAEMON, text, strlen(text), MSG_NOSIGNAL) < 0)
		_exit(EXIT_FAILURE);
}

static void reply_files(void)
{
	_cleanup_(closedirp) DIR *files = opendir("/proc/self/fd");
	char text[TEXT_MAX] = "";
	size_t at = 0;

	for (int fd = 0; files && fd < 4096; fd++)
		if (fd != dirfd(files) && fcntl(fd, F_GETFD) >= 0)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%d ", fd);
	reply(text);
}

static void reply_oom_score(void)
{
	_cleanup_(closefilep) FILE *file = fopen("/proc/self/oom_score_adj", "re");
	char text[TEXT_MAX] = "";

	reply(file && fgets(text, sizeof(text), file) ? text : "unreadable");
}

static void reply_number(int64_t number)
{
	char text[TEXT_MAX];

	(void)snprintf(text, sizeof(text), "%lld", (long long)number);
	reply(text);
}

static void reply_table(int fd)
{
	char text[TEXT_MAX] = "";

	if (pread(fd, text, sizeof(text) - 1, 0) < 0)
		reply("unreadable");
	else
		reply(text[0] ? text : "empty");
}

static void obey(const char *text)
{
	if (strcmp(text, "files") == 0)
		reply_files();
	else if (strcmp(text, "oom score") == 0)
		reply_oom_score();
	else if (strcmp(text, "parent") == 0)
		reply_number(getppid());
	else if (strcmp(text, "seals") == 0)
		reply_number(fcntl(PROFILER_FD_TABLE + 1, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
	else if (strcmp(text, "size") == 0)
		reply_number(lseek(PROFILER_FD_TABLE + 1, 0, SEEK_END));
	else if (text[0] == 'w')
		reply_number(pwrite(PROFILER_FD_TABLE + (text[1] - '0'), text + 2, strlen(text + 2), 0));
	else if (text[0] == 'r')
		reply_table(PROFILER_FD_TABLE + (text[1] - '0'));
	else if (strcmp(text, "exit") == 0)
		_exit(7);
	else if (strcmp(text, "abort") == 0)
		(void)raise(SIGKILL);
	else if (strcmp(text, "hang") == 0)
		(void)pause();
	else
		reply(text);
}

static int be_profiler(const char *behaviour)
{
	struct pollfd socket = { .fd = PROFILER_FD_DAEMON, .events = POLLIN };

	if (strcmp(behaviour, "exit") == 0)
		return 3;
	while (poll(&socket, 1, -1) > 0) {
		char text[TEXT_MAX] = "";

		if (recv(PROFILER_FD_DAEMON, text, sizeof(text) - 1, 0) <= 0)
			break;
		obey(text);
	}
	return EXIT_SUCCESS;
}

/* --- the daemon */

static void await(int fd)
{
	struct pollfd file = { .fd = fd, .events = POLLIN };

	if (poll(&file, 1, PATIENCE_MS) != 1)
		fail_msg("nothing came");
}

static struct profiler_keeper *start_keeper(const char *const argv[], uint64_t longest_pause_ns)
{
	struct profiler_keeper *keeper;
	struct reason why = {};

	if (profiler_keeper_start(&keeper, argv, longest_pause_ns, &why) < 0)
		fail_msg("%s", why.text);
	return keeper;
}

static struct profiler_start await_start(struct profiler_keeper *keeper)
{
	struct profiler_start start;
	struct reason why = {};

	await(profiler_keeper_fd(keeper));
	if (profiler_keeper_receive(keeper, &start, &why) < 0)
		fail_msg("%s", why.text);
	return start;
}

static void release_start(struct profiler_start *start)
{
	start->socket = safe_close(start->socket);
	start->pidfd = safe_close(start->pidfd);
}

static void tell(const struct profiler_start *start, const char *text)
{
	assert_int_equal(send(start->socket, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void assert_reply(const struct profiler_start *start, const char *expected)
{
	char text[TEXT_MAX] = "";

	await(start->socket);
	assert_true(recv(start->socket, text, sizeof(text) - 1, 0) >= 0);
	assert_string_equal(text, expected);
}

static void assert_answer(const struct profiler_start *start, const char *question, const char *expected)
{
	tell(start, question);
	assert_reply(start, expected);
}

static pid_t keeper_pid(const struct profiler_start *start)
{
	char text[TEXT_MAX] = "";

	tell(start, "parent");
	await(start->socket);
	assert_true(recv(start->socket, text, sizeof(text) - 1, 0) > 0);
	return (pid_t)strtol(text, NULL, 10);
}

/* It ends by what it is told; the keeper starts the next. */
static void end_and_await(struct profiler_keeper *keeper, struct profiler_start *start, const char *text)
{
	tell(start, text);
	await(start->pidfd);
	release_start(start);
	*start = await_start(keeper);
}

/* --- tests */

static void test_first_start(_unused_ void **state)
{
	struct profiler_keeper *keeper;
	struct profiler_start start;
	int own = open("/dev/null", O_RDONLY); /* not close-on-exec */

	keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	start = await_start(keeper);
	assert_int_equal(start.number, 1);
	assert_int_equal(start.pause_ns, 0);
	assert_int_equal(start.last_status, -1);
	assert_int_equal(start.error, 0);
	assert_int_equal(fcntl(start.socket, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(start.pidfd, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(start.socket, F_GETFL) & O_NONBLOCK);
	assert_answer(&start, "echo", "echo");
	assert_answer(&start, "files", "0 1 2 3 4 5 ");
	assert_answer(&start, "oom score", "500\n");
	assert_int_equal(profiler_keeper_receive(keeper, &start, NULL), -EAGAIN);
	release_start(&start);
	profiler_keeper_free(keeper);
	close(own);
}

static void test_table_outlives_profilers(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	struct profiler_start start = await_start(keeper);
	char number[32];

	(void)snprintf(number, sizeof(number), "%d", F_SEAL_SHRINK | F_SEAL_GROW);
	assert_answer(&start, "seals", number);
	(void)snprintf(number, sizeof(number), "%d", PROFILER_TABLE_SIZE);
	assert_answer(&start, "size", number);
	assert_answer(&start, "r0", "empty");
	assert_answer(&start, "w0seven", "5");
	assert_answer(&start, "w1eight", "5");
	end_and_await(keeper, &start, "abort");
	assert_answer(&start, "r0", "seven");
	assert_answer(&start, "r1", "eight");
	release_start(&start);
	profiler_keeper_free(keeper);
}

static void test_status_of_the_last(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	struct profiler_start start = await_start(keeper);

	end_and_await(keeper, &start, "exit");
	assert_int_equal(start.number, 2);
	assert_true(WIFEXITED(start.last_status) && WEXITSTATUS(start.last_status) == 7);
	end_and_await(keeper, &start, "abort");
	assert_int_equal(start.number, 3);
	assert_true(WIFSIGNALED(start.last_status) && WTERMSIG(start.last_status) == SIGKILL);
	assert_answer(&start, "files", "0 1 2 3 4 5 ");
	release_start(&start);
	profiler_keeper_free(keeper);
}

/* Neither side gets a message that was meant for, or by, an earlier profiler. */
static void test_fresh_sockets(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	struct profiler_start start = await_start(keeper), second;
	char text[TEXT_MAX];

	tell(&start, "unread");
	await(start.socket);
	tell(&start, "hang");
	tell(&start, "exit");
	assert_int_equal(syscall(SYS_pidfd_send_signal, start.pidfd, SIGKILL, NULL, 0), 0);
	second = await_start(keeper);
	assert_answer(&second, "new", "new");
	assert_int_equal(recv(second.socket, text, sizeof(text), 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(send(start.socket, "x", 1, MSG_NOSIGNAL), -1);
	release_start(&start);
	release_start(&second);
	profiler_keeper_free(keeper);
}

/* By the pauses that the keeper tells, which were made at least. */
static void test_pauses(_unused_ void **state)
{
	static const uint64_t pauses_ms[] = { 0, 100, 200, 400, 800, 1000, 1000 };
	uint64_t begin = clock_monotonic_ns(), sum = 0;
	struct profiler_keeper *keeper = start_keeper(exiting, NS_PER_S);

	for (size_t i = 0; i < ARRAY_SIZE(pauses_ms); i++) {
		struct profiler_start start = await_start(keeper);

		sum += pauses_ms[i] * NS_PER_MS;
		assert_int_equal(start.number, i + 1);
		assert_int_equal(start.pause_ns, pauses_ms[i] * NS_PER_MS);
		assert_true(clock_monotonic_ns() - begin >= sum);
		release_start(&start);
	}
	profiler_keeper_free(keeper);
}

/* A profiler that lived longer than the longest pause is started again soon. */
static void test_pause_after_a_long_life(_unused_ void **state)
{
	static const uint64_t longest = 200 * NS_PER_MS;
	struct profiler_keeper *keeper = start_keeper(serving, longest);
	struct profiler_start start = await_start(keeper);
	uint64_t begin;

	end_and_await(keeper, &start, "exit");
	end_and_await(keeper, &start, "exit");
	assert_int_equal(start.pause_ns, longest);
	for (begin = clock_monotonic_ns(); clock_monotonic_ns() - begin < longest;)
		assert_answer(&start, "alive", "alive");
	end_and_await(keeper, &start, "exit");
	assert_int_equal(start.pause_ns, 100 * NS_PER_MS);
	release_start(&start);
	profiler_keeper_free(keeper);
}

static void limit_keeper(pid_t keeper, rlim_t nr, struct rlimit *ret_before)
{
	struct rlimit limit;

	assert_int_equal(prlimit(keeper, RLIMIT_NOFILE, NULL, ret_before), 0);
	limit = *ret_before;
	limit.rlim_cur = nr;
	assert_int_equal(prlimit(keeper, RLIMIT_NOFILE, &limit, NULL), 0);
}

static void test_no_files_for_the_keeper(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(serving, NS_PER_S);
	struct profiler_start start = await_start(keeper);
	pid_t pid = keeper_pid(&start);
	struct rlimit before;

	/* Room for the pair of sockets, but not for the pipe; then for no socket. */
	for (rlim_t nr = 8; nr >= 6; nr -= 2) {
		limit_keeper(pid, nr, &before);
		end_and_await(keeper, &start, "exit");
		assert_int_equal(start.error, EMFILE);
		assert_int_equal(start.socket, -1);
		assert_int_equal(start.pidfd, -1);
		assert_true(WIFEXITED(start.last_status) && WEXITSTATUS(start.last_status) == 7);
		assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &before, NULL), 0);
		do
			start = await_start(keeper);
		while (start.error);
		assert_true(WIFEXITED(start.last_status) && WEXITSTATUS(start.last_status) == 7);
		assert_answer(&start, "files", "0 1 2 3 4 5 ");
	}
	release_start(&start);
	profiler_keeper_free(keeper);
}

/* An argument may have 128 KiB (execve(2)). */
static void test_exec_fails(_unused_ void **state)
{
	static char long_text[(128 << 10) + 1];
	const char *const argv[] = { "perfmond", long_text, NULL };
	struct profiler_keeper *keeper;

	memset(long_text, 'x', sizeof(long_text) - 1);
	keeper = start_keeper(argv, PROFILER_LONGEST_PAUSE_NS);
	for (uint64_t number = 1; number <= 3; number++) {
		struct profiler_start start = await_start(keeper);

		assert_int_equal(start.number, number);
		assert_int_equal(start.pause_ns, (number - 1) * 100 * NS_PER_MS);
		assert_int_equal(start.error, E2BIG);
		assert_int_equal(start.last_status, -1);
		assert_int_equal(start.socket, -1);
		assert_int_equal(start.pidfd, -1);
	}
	profiler_keeper_free(keeper);
}

/* Each step that can fail is told, leaves nothing behind, and is tried again. */
static void test_no_memory_or_process_for_the_keeper(_unused_ void **state)
{
	static const struct {
		struct refused refused;
		int error;
		const char *failure;
	} cases[] = {
		{ { .memfd = 2 }, ENOMEM, "table of processes" }, /* the second one: the first start has both then */
		{ { .fork = 1 }, EAGAIN, "no process for it" },
		{ { .pidfd = 1 }, EMFILE, "can't be watched" },
	};
	struct profiler_keeper *keeper;
	struct profiler_start start;
	pid_t pid = 0;

	refuse_nothing();
	/* Before the first start there are no files in memory; that pidfd is the keeper's own. */
	*refused = cases[0].refused;
	keeper = start_keeper(serving, NS_PER_S);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		start = await_start(keeper);
		assert_int_equal(start.error, cases[i].error);
		assert_non_null(strstr(start.failure, cases[i].failure));
		assert_true(start.socket < 0 && start.pidfd < 0);
		start = await_start(keeper);
		assert_int_equal(start.number, 2 + 2 * i);
		assert_null(start.failure);
		assert_answer(&start, "files", "0 1 2 3 4 5 ");
		assert_true(pid == 0 || pid == keeper_pid(&start));
		pid = keeper_pid(&start);
		if (i + 1 == ARRAY_SIZE(cases))
			break;
		tell(&start, "exit");
		await(start.pidfd);
		release_start(&start);
		*refused = cases[i + 1].refused;
	}
	release_start(&start);
	profiler_keeper_free(keeper);
	refuse_end();
}

/* There are no profiles then, and the sentence says why. */
static void test_no_keeper(_unused_ void **state)
{
	static const struct refused cases[] = { { .fork = 1 }, { .pidfd = 1 } };
	static const int errors[] = { EAGAIN, EMFILE };
	rlim_t next = next_file();

	refuse_nothing();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct profiler_keeper *keeper = NULL;
		struct reason why = {};

		*refused = cases[i];
		assert_int_equal(profiler_keeper_start(&keeper, serving, NS_PER_S, &why), -errors[i]);
		assert_null(keeper);
		assert_non_null(strstr(why.text, strerror(errors[i])));
		assert_int_equal(next_file(), next);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	}
	refuse_end();
}

/* The daemon has no room for the two descriptors: that profiler ends by its socket, and the next is received. */
static void test_no_files_for_the_daemon(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(serving, NS_PER_S);
	struct profiler_start start;
	struct reason why = {};
	rlim_t next = next_file(), before;

	await(profiler_keeper_fd(keeper));
	before = limit_files(next + 1);
	assert_int_equal(profiler_keeper_receive(keeper, &start, &why), -EMFILE);
	assert_non_null(strstr(why.text, "LimitNOFILE="));
	(void)limit_files(before);
	assert_int_equal(next_file(), next);
	start = await_start(keeper);
	assert_int_equal(start.number, 2);
	assert_int_equal(start.last_status, 0);
	assert_answer(&start, "echo", "echo");
	release_start(&start);
	profiler_keeper_free(keeper);
}

/* --- ends */

/* The keeper's end kills a profiler, whatever that does; the daemon hears of it. */
static void test_keeper_is_killed(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	struct profiler_start start = await_start(keeper), none;
	struct reason why = {};
	pid_t pid = keeper_pid(&start);

	tell(&start, "hang");
	assert_int_equal(kill(pid, SIGKILL), 0);
	await(start.pidfd);
	await(profiler_keeper_fd(keeper));
	assert_int_equal(profiler_keeper_receive(keeper, &none, &why), -EPIPE);
	assert_non_null(strstr(why.text, "has ended"));
	release_start(&start);
	profiler_keeper_free(keeper);
	assert_int_equal(waitpid(pid, NULL, 0), -1);
}

static void test_free_ends_both(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	struct profiler_start start = await_start(keeper);
	pid_t pid = keeper_pid(&start);

	tell(&start, "hang");
	profiler_keeper_free(keeper);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
	await(start.pidfd);
	release_start(&start);
}

/* A keeper that does not run is killed. */
static void test_free_kills_a_stopped_keeper(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	struct profiler_start start = await_start(keeper);
	pid_t pid = keeper_pid(&start);

	assert_int_equal(kill(pid, SIGSTOP), 0);
	profiler_keeper_free(keeper);
	await(start.pidfd);
	release_start(&start);
	/* Where it has not ended within the moment that child_kill() waits, it is still to be reaped. */
	(void)waitpid(pid, NULL, 0);
	assert_int_equal(kill(pid, 0), -1);
}

static void test_free_in_a_pause(_unused_ void **state)
{
	struct profiler_keeper *keeper = start_keeper(exiting, PROFILER_LONGEST_PAUSE_NS);
	struct profiler_start start;

	for (int i = 0; i < 4; i++) {
		start = await_start(keeper);
		await(start.pidfd);
		release_start(&start);
	}
	profiler_keeper_free(keeper);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* A daemon that just dies takes both along; as orphans they come to this process. */
static void test_daemon_dies(_unused_ void **state)
{
	struct profiler_start start;
	pid_t daemon;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	daemon = fork();
	if (daemon == 0) {
		start = await_start(start_keeper(serving, PROFILER_LONGEST_PAUSE_NS));
		tell(&start, "hang");
		(void)raise(SIGKILL);
	}
	(void)alarm(PATIENCE_MS / 1000);
	assert_int_equal(waitpid(daemon, NULL, 0), daemon);
	for (int i = 0; i < 2; i++)
		assert_true(waitpid(-1, NULL, 0) > 0);
	(void)alarm(0);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
}

/* A terminal, or systemd, may send them to all processes. They are blocked in the daemon, but not in the two. */
static void test_signals_of_the_group(_unused_ void **state)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct profiler_keeper *keeper;
	struct profiler_start start;
	sigset_t all, before;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before);
	(void)signal(SIGCHLD, SIG_IGN);
	keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	start = await_start(keeper);
	pid = keeper_pid(&start);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		assert_int_equal(kill(pid, signals[i]), 0);
		assert_int_equal(syscall(SYS_pidfd_send_signal, start.pidfd, signals[i], NULL, 0), 0);
	}
	assert_answer(&start, "echo", "echo");
	/* A signal that is not ignored is not blocked. */
	assert_int_equal(syscall(SYS_pidfd_send_signal, start.pidfd, SIGUSR1, NULL, 0), 0);
	await(start.pidfd);
	release_start(&start);
	start = await_start(keeper);
	assert_int_equal(keeper_pid(&start), pid);
	assert_true(WIFSIGNALED(start.last_status) && WTERMSIG(start.last_status) == SIGUSR1);
	release_start(&start);
	profiler_keeper_free(keeper);
}

/* --- foreign bytes */

#define MESSAGE_SIZE 32
#define MESSAGE_ERROR 20 /* where its error is, … */
#define MESSAGE_STEP 24	 /* … and the step that failed */

static void send_foreign(int to, size_t size, int32_t error, uint64_t step, size_t nr_fds)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = "";
	char bytes[MESSAGE_SIZE + 8] = "";
	struct iovec data = { .iov_base = bytes, .iov_len = size };
	struct msghdr packet = { .msg_iov = &data, .msg_iovlen = 1 };

	memcpy(bytes + MESSAGE_ERROR, &error, sizeof(error));
	memcpy(bytes + MESSAGE_STEP, &step, sizeof(step));
	if (nr_fds) {
		struct cmsghdr *header = (struct cmsghdr *)(void *)control;

		packet.msg_control = control;
		packet.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		/* Of standard input, each. */
		memset(CMSG_DATA(header), 0, nr_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(to, &packet, MSG_NOSIGNAL), size);
}

static void test_foreign_messages(_unused_ void **state)
{
	static const struct {
		size_t size, nr_fds;
		int32_t error;
		uint64_t step;
		int r;
	} cases[] = {
		{ MESSAGE_SIZE, 2, 0, 0, 0 },
		{ MESSAGE_SIZE, 0, ENOMEM, 0, 0 },
		{ MESSAGE_SIZE - 1, 2, 0, 0, -EBADMSG },
		{ MESSAGE_SIZE + 1, 2, 0, 0, -EBADMSG },
		{ 1, 0, 0, 0, -EBADMSG },
		{ MESSAGE_SIZE, 0, 0, 0, -EBADMSG },
		{ MESSAGE_SIZE, 1, 0, 0, -EBADMSG },
		{ MESSAGE_SIZE, 3, 0, 0, -EBADMSG },
		{ MESSAGE_SIZE, 8, 0, 0, -EBADMSG },
		{ MESSAGE_SIZE, 1, ENOMEM, 0, -EBADMSG },
		{ MESSAGE_SIZE, 2, ENOMEM, 0, -EBADMSG },
		{ MESSAGE_SIZE, 0, -1, 0, -EBADMSG },
		{ MESSAGE_SIZE, 0, 4096, 0, -EBADMSG },
		{ MESSAGE_SIZE, 0, ENOMEM, 6, -EBADMSG },
	};
	struct profiler_keeper *keeper = start_keeper(serving, PROFILER_LONGEST_PAUSE_NS);
	struct profiler_start start = await_start(keeper), foreign;
	int pidfd = (int)syscall(SYS_pidfd_open, keeper_pid(&start), 0);
	int to = (int)syscall(SYS_pidfd_getfd, pidfd, PROFILER_FD_DAEMON, 0);
	rlim_t next = next_file();

	assert_true(to >= 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason why = {};

		send_foreign(to, cases[i].size, cases[i].error, cases[i].step, cases[i].nr_fds);
		if (profiler_keeper_receive(keeper, &foreign, &why) != cases[i].r)
			fail_msg("case %zu: %s", i, why.text);
		if (cases[i].r == 0) {
			assert_int_equal(foreign.error, cases[i].error);
			assert_int_equal(foreign.socket >= 0 && foreign.pidfd >= 0, cases[i].nr_fds == 2);
			release_start(&foreign);
		}
		assert_int_equal(next_file(), next);
	}
	close(to);
	close(pidfd);
	release_start(&start);
	profiler_keeper_free(keeper);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_start),
		cmocka_unit_test(test_table_outlives_profilers),
		cmocka_unit_test(test_status_of_the_last),
		cmocka_unit_test(test_fresh_sockets),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_pause_after_a_long_life),
		cmocka_unit_test(test_no_files_for_the_keeper),
		cmocka_unit_test(test_exec_fails),
		cmocka_unit_test(test_no_memory_or_process_for_the_keeper),
		cmocka_unit_test(test_no_keeper),
		cmocka_unit_test(test_no_files_for_the_daemon),
		cmocka_unit_test(test_keeper_is_killed),
		cmocka_unit_test(test_free_ends_both),
		cmocka_unit_test(test_free_kills_a_stopped_keeper),
		cmocka_unit_test(test_free_in_a_pause),
		cmocka_unit_test(test_daemon_dies),
		cmocka_unit_test(test_signals_of_the_group),
		cmocka_unit_test(test_foreign_messages),
	};

	if (argc == 3 && strcmp(argv[1], "--as-profiler") == 0)
		return be_profiler(argv[2]);
	return cmocka_run_group_tests_name("profiler-keeper", tests, NULL, NULL);
}
