/* SPDX-License-Identifier: MIT */

#include "base/util/helper.h"

#include "base/util/child.h"
#include "base/util/clock.h"
#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CHILD_PATIENCE_NS (10 * (uint64_t)NS_PER_S)
#define CHILD_CPU_S 5
/* So long a child may take to end when it was killed. */
#define END_PATIENCE_NS (2 * (uint64_t)NS_PER_S)

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv)
#define NATIVE_ARCH AUDIT_ARCH_RISCV64
#elif defined(__s390x__)
#define NATIVE_ARCH AUDIT_ARCH_S390X
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_ARCH AUDIT_ARCH_PPC64LE
#else
#define NATIVE_ARCH 0 /* no child runs */
#endif

/* --- in the child */

/* Sets limits, and closes all files but one. */
static void limit_child(pid_t parent, int file)
{
	const struct rlimit cpu = { CHILD_CPU_S, CHILD_CPU_S }, none = {};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The parent may have ended before that. */
	if (getppid() != parent)
		helper_exit();
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)setrlimit(RLIMIT_CPU, &cpu);
	(void)setrlimit(RLIMIT_CORE, &none);
	child_close_files(0, file);
}

/* --- in the daemon */

int helper_init(struct helper *helper)
{
	*helper = HELPER_EMPTY;
	helper->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return helper->epoll_fd < 0 ? -errno : 0;
}

static void forget_child(struct helper *helper)
{
	helper->pid = 0;
	helper->pidfd = safe_close(helper->pidfd);
}

static void reap_stuck(struct helper *helper)
{
	size_t nr = 0;

	for (size_t i = 0; i < helper->nr_stuck; i++) {
		struct rusage usage = {};

		if (wait4(helper->stuck[i].pid, NULL, WNOHANG, &usage) == 0) {
			helper->stuck[nr++] = helper->stuck[i];
			continue;
		}
		safe_close(helper->stuck[i].pidfd);
		helper->cpu_ns += rusage_ns(&usage);
	}
	helper->nr_stuck = nr;
}

/* It leaves the poll: its end is news for nobody. False: too many hang. */
static bool give_up(struct helper *helper)
{
	reap_stuck(helper);
	if (helper->nr_stuck == HELPER_STUCK_MAX)
		return false;
	if (helper->pidfd >= 0)
		(void)epoll_ctl(helper->epoll_fd, EPOLL_CTL_DEL, helper->pidfd, NULL);
	helper->stuck[helper->nr_stuck++] = (struct helper_child){ helper->pid, helper->pidfd };
	helper->pid = 0;
	helper->pidfd = -1;
	return helper->gave_up = true;
}

void helper_release(struct helper *helper)
{
	reap_stuck(helper);
	while (helper->nr_stuck)
		safe_close(helper->stuck[--helper->nr_stuck].pidfd);
	if (helper->pid) {
		child_kill(helper->pid, helper->pidfd);
		forget_child(helper);
	}
	helper->epoll_fd = safe_close(helper->epoll_fd);
}

bool helper_is_busy(const struct helper *helper)
{
	return helper->pid != 0;
}

int helper_start(struct helper *helper, int file, void (*run)(void *userdata), void *userdata)
{
	struct epoll_event events = { .events = EPOLLIN };
	pid_t parent = getpid(), pid;

	if (helper->pid)
		return -EBUSY;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		limit_child(parent, file);
		run(userdata);
		helper_exit();
	}
	helper->gave_up = false;
	helper->pid = pid;
	helper->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (helper->pidfd >= 0)
		(void)epoll_ctl(helper->epoll_fd, EPOLL_CTL_ADD, helper->pidfd, &events);
	helper->deadline = clock_monotonic_ns() + CHILD_PATIENCE_NS;
	return 0;
}

int helper_fd(const struct helper *helper)
{
	return helper->epoll_fd;
}

bool helper_has_ended(struct helper *helper)
{
	struct rusage usage = {};

	if (!helper->pid)
		return false;
	if (wait4(helper->pid, NULL, WNOHANG, &usage) == 0) {
		uint64_t now = clock_monotonic_ns();

		if (now > helper->deadline)
			(void)kill(helper->pid, SIGKILL);
		return now > helper->deadline + END_PATIENCE_NS && give_up(helper);
	}
	forget_child(helper);
	helper->cpu_ns += rusage_ns(&usage);
	return true;
}

uint64_t helper_cpu_ns(const struct helper *helper)
{
	return helper->cpu_ns;
}

bool helper_gave_up(const struct helper *helper)
{
	return helper->gave_up;
}

size_t helper_nr_stuck(struct helper *helper)
{
	reap_stuck(helper);
	return helper->nr_stuck;
}

/* --- in the child, from run() on */

void helper_exit(void)
{
	for (;;)
		(void)syscall(SYS_exit_group, 0);
}

int helper_open_regular(const char *path, struct stat *ret)
{
	int place = open(path, O_PATH | O_CLOEXEC), fd = -1;
	char again[32];

	if (place >= 0 && fstat(place, ret) == 0 && S_ISREG(ret->st_mode)) {
		(void)snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
		fd = open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		/* In a sandbox without /proc/self, by the path again. */
		if (fd < 0)
			fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	}
	safe_close(place);
	return fd;
}

/* Makes files[i] descriptor i. A file may have the number that another one is to get: all are copied out of the way. */
static bool renumber_files(const int *files, size_t nr)
{
	int copies[HELPER_FILES_MAX];

	for (size_t i = 0; i < nr; i++) {
		copies[i] = files[i] < 0 ? -1 : fcntl(files[i], F_DUPFD_CLOEXEC, HELPER_FILES_MAX);
		if (files[i] >= 0 && copies[i] < 0)
			return false;
	}
	for (size_t i = 0; i < nr; i++) {
		if (copies[i] < 0)
			(void)close((int)i);
		else if (dup2(copies[i], (int)i) < 0)
			return false;
	}
	return true;
}

void helper_execute(const char *option, const int *files, size_t nr)
{
	char text[64];
	char *const argv[] = { (char[]){ "perfmond" }, text, NULL };
	char *const environment[] = { NULL };

	(void)snprintf(text, sizeof(text), "%s", option);
	if (nr > HELPER_FILES_MAX || !renumber_files(files, nr))
		return;
	/* So that the exec leaves no capability to who is not root, also where capset(2) is refused. */
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)execve("/proc/self/exe", argv, environment);
}

static bool set_limit(__rlimit_resource_t resource, uint64_t limit)
{
	const struct rlimit both = { limit, limit };

	return setrlimit(resource, &both) == 0;
}

/* Bytes that RLIMIT_DATA counts now: with AddressSanitizer there are TiB. A stack is among them. */
static uint64_t count_data(void)
{
	_cleanup_(freep) char *text = NULL;
	unsigned long pages = 0;

	if (read_text_file(AT_FDCWD, "/proc/self/statm", FILE_MAX_SYSFS, &text) < 0 ||
	    sscanf(text, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
		return 0;
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Only root has any here (helper_execute()). Where a sandbox refuses capset(2) they stay; the seal makes them
 * useless. */
static void give_up_capabilities(void)
{
	cap_t none = cap_init();

	if (none)
		(void)cap_set_proc(none);
	cap_free(none);
}

/* RLIMIT_CPU is that of the helper that has started it. RLIMIT_AS would count mapped files, which may be large. */
bool helper_limit(size_t nr_files, uint64_t memory, uint64_t written)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_close_files((int)nr_files, -1);
	give_up_capabilities();
	return set_limit(RLIMIT_DATA, count_data() + memory) && set_limit(RLIMIT_FSIZE, written) &&
	       set_limit(RLIMIT_CORE, 0) && prctl(PR_SET_DUMPABLE, 0) == 0;
}

static void apply_filter(struct sock_filter *filter, size_t nr)
{
	const struct sock_fprog program = { .len = (unsigned short)nr, .filter = filter };

	if (NATIVE_ARCH == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		helper_exit();
}

void helper_seal(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};

	apply_filter(filter, ARRAY_SIZE(filter));
}

/* The low half of a system call's argument. */
#define LOW_HALF(i)                                                                                                    \
	(offsetof(struct seccomp_data, args[i]) + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : sizeof(uint32_t)))

/* Returns the verdict if the loaded word is the number. */
#define RETURN_FOR(number, verdict)                                                                                    \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, verdict)

/* Returns the verdict if an argument has the bit. */
#define RETURN_FOR_BIT(argument, bit, verdict)                                                                         \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_HALF(argument)), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bit, 0, 1),       \
		BPF_STMT(BPF_RET | BPF_K, verdict)

/* qsort(3) asks for the size of memory, and libdw for the path of a file that it was given as bytes. */
void helper_seal_with_memory(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		RETURN_FOR(SYS_read, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_write, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_pread64, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_pwrite64, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_brk, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_munmap, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_mremap, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_madvise, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_futex, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_sysinfo, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_rt_sigreturn, SECCOMP_RET_ALLOW),
		RETURN_FOR(SYS_exit_group, SECCOMP_RET_ALLOW),
#ifdef SYS_readlink
		RETURN_FOR(SYS_readlink, SECCOMP_RET_ERRNO | EACCES),
#endif
		RETURN_FOR(SYS_readlinkat, SECCOMP_RET_ERRNO | EACCES),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		RETURN_FOR_BIT(2, PROT_EXEC, SECCOMP_RET_KILL_PROCESS),
		RETURN_FOR_BIT(3, MAP_SHARED, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	apply_filter(filter, ARRAY_SIZE(filter));
}
