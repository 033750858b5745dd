/* SPDX-License-Identifier: MIT */

/* Files that systemd passes: each case is a child whose descriptors from 3 on and whose environment are set as for a
 * service, and which comes out with 0 where all was as it should be. */

#include "service/persist/listen-fds.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FIRST 3

/* In a child, cmocka's assertions would go on with the parent's other tests. */
#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                          \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

static void set_environment(const char *fds, const char *names, pid_t pid)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%d", pid);
	CHECK(setenv("LISTEN_PID", number, 1) == 0 && setenv("LISTEN_FDS", fds, 1) == 0);
	CHECK(names ? setenv("LISTEN_FDNAMES", names, 1) == 0 : unsetenv("LISTEN_FDNAMES") == 0);
}

static void check_environment_is_empty(void)
{
	CHECK(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
}

/* Moves fd, which is closed on exec elsewhere, to where systemd would have put it. */
static void put(int fd, int where)
{
	CHECK(fd >= 0);
	CHECK(fd == where ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, where) == where);
	if (fd != where)
		close(fd);
}

static int listening(int family)
{
	const struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_un local = { .sun_family = AF_UNIX }; /* autobind: an abstract name */
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	if (family == AF_INET)
		CHECK(bind(fd, (const struct sockaddr *)&v4, sizeof(v4)) == 0);
	else
		CHECK(bind(fd, (const struct sockaddr *)&local, sizeof(sa_family_t)) == 0);
	CHECK(listen(fd, 1) == 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* --- what the children do */

static void sockets_and_the_store(void)
{
	struct listen_fds list = { .nr = 42 };
	struct reason why = {};
	int pair[2], sockets[6];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	put(fcntl(pair[0], F_DUPFD, 100), FIRST + 1);
	put(fcntl(listening(AF_INET), F_DUPFD, 100), FIRST);
	put(memfd_create("store", 0), FIRST + 2);
	put(fcntl(listening(AF_UNIX), F_DUPFD, 100), FIRST + 3);
	put(socket(AF_INET, SOCK_STREAM, 0), FIRST + 4);
	put(socket(AF_UNIX, SOCK_DGRAM, 0), FIRST + 5);
	set_environment("6", "http:pair:file:http:mute:box", getpid());

	CHECK(listen_fds_read(&list, &why) == 0);
	check_environment_is_empty();
	CHECK(list.nr == 6);
	for (size_t i = 0; i < 6; i++) {
		static const char *const names[] = { "http", "pair", "file", "http", "mute", "box" };

		CHECK(list.fds[i].fd == FIRST + (int)i && strcmp(list.fds[i].name, names[i]) == 0);
		CHECK(fcntl(list.fds[i].fd, F_GETFD) == FD_CLOEXEC);
		CHECK(listen_fd_is_listening(&list.fds[i]) == (i == 0 || i == 3));
	}
	CHECK(listen_fds_listening(&list, sockets) == 2 && sockets[0] == FIRST && sockets[1] == FIRST + 3);

	/* A file that is taken is no longer the list's. */
	list.fds[0].fd = list.fds[2].fd = -1;
	CHECK(!listen_fd_is_listening(&list.fds[0]) && listen_fds_listening(&list, sockets) == 1);
	listen_fds_release(&list);
	CHECK(list.nr == 0 && !list.fds);
	for (int i = 0; i < 6; i++)
		CHECK(is_open(FIRST + i) == (i == 0 || i == 2));
}

static void without_names(void)
{
	struct listen_fds list;

	put(listening(AF_INET), FIRST);
	set_environment("1", NULL, getpid());
	CHECK(listen_fds_read(&list, NULL) == 0);
	CHECK(list.nr == 1 && strcmp(list.fds[0].name, "unknown") == 0);
	listen_fds_release(&list);
	CHECK(!is_open(FIRST));
}

static void nothing(void)
{
	struct listen_fds list = { .nr = 42 };

	CHECK(listen_fds_read(&list, NULL) == 0);
	CHECK(list.nr == 0 && !list.fds);
	listen_fds_release(&list);
}

static void for_another_process(void)
{
	struct listen_fds list = { .nr = 42 };

	put(listening(AF_INET), FIRST);
	set_environment("1", "http", getppid());
	CHECK(listen_fds_read(&list, NULL) == 0);
	CHECK(list.nr == 0 && is_open(FIRST));
	check_environment_is_empty();
}

static void wrong(void)
{
	static const struct {
		const char *fds, *names;
	} cases[] = { { "1", "a:b" }, { "many", "a" }, { "-1", "a" } };
	struct listen_fds list = { .nr = 42 };

	put(listening(AF_INET), FIRST);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason why = {};

		set_environment(cases[i].fds, cases[i].names, getpid());
		CHECK(listen_fds_read(&list, &why) == -EINVAL && strstr(why.text, "LISTEN_FDS"));
		CHECK(list.nr == 42);
		check_environment_is_empty();
	}
}

static void check_child(void (*child)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		child();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CHILD_TEST(child)                                                                                              \
	static void test_##child(_unused_ void **state)                                                                \
	{                                                                                                              \
		check_child(child);                                                                                    \
	}
CHILD_TEST(sockets_and_the_store)
CHILD_TEST(without_names)
CHILD_TEST(nothing)
CHILD_TEST(for_another_process)
CHILD_TEST(wrong)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sockets_and_the_store),
		cmocka_unit_test(test_without_names),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_for_another_process),
		cmocka_unit_test(test_wrong),
	};

	return cmocka_run_group_tests_name("listen-fds", tests, NULL, NULL);
}
