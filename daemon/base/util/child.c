/* SPDX-License-Identifier: MIT */

#include "base/util/child.h"

#include "base/util/cleanup.h"
#include "base/util/file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* For so long the end of a killed child is waited for: it may still have files of the daemon's open, such as the socket
 * that the next daemon wants to listen on. */
#define END_MS 100

/* fs.nr_open, the most files of a process, unless that was raised. */
#define FILES_MAX (1U << 20)
/* Files of which one system call tells whether they are open. */
#define FILES_AT_ONCE 256

/* close_range(2) came with Linux 5.9. */
static bool close_range_of(int first, unsigned last)
{
	return (unsigned)first > last || syscall(SYS_close_range, first, last, 0) >= 0;
}

/* Of those from first to before end. Most are not open: to close each of them would take ten times as long. */
static void close_open_ones(int first, int end, int but)
{
	struct pollfd files[FILES_AT_ONCE];
	nfds_t nr = 0;
	bool unknown;

	for (int fd = first; fd < end; fd++)
		files[nr++] = (struct pollfd){ .fd = fd };
	unknown = poll(files, nr, 0) < 0;
	for (nfds_t i = 0; i < nr; i++)
		if (files[i].fd != but && (unknown || !(files[i].revents & POLLNVAL)))
			(void)close(files[i].fd);
}

void child_close_files(int first, int but)
{
	struct rlimit limit = {};
	int nr;

	if (but < first ? close_range_of(first, ~0U) :
			  close_range_of(first, (unsigned)but - 1) && close_range_of(but + 1, ~0U))
		return;
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	nr = (int)(limit.rlim_cur < FILES_MAX ? limit.rlim_cur : FILES_MAX);
	for (; first < nr; first += FILES_AT_ONCE)
		close_open_ones(first, nr - first < FILES_AT_ONCE ? nr : first + FILES_AT_ONCE, but);
}

void child_offer_to_oom_killer(const char *score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	(void)write_all(fd, score, strlen(score));
	(void)safe_close(fd);
}

void child_kill(pid_t pid, int pidfd)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	(void)kill(pid, SIGKILL);
	(void)poll(&end, 1, END_MS);
	(void)waitpid(pid, NULL, WNOHANG);
}
