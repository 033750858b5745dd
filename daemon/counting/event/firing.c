/* SPDX-License-Identifier: MIT */

#include "counting/event/firing.h"

#include "base/host/privilege.h"
#include "base/util/cleanup.h"
#include "base/util/clock.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* An event has missed all of them before it is said to miss any: some virtual machines lose one debug exception in
 * ten. */
#define TRIES 10

#define LOOPS 20000
#define SLEEP_NS (100 * NS_PER_US)

/* A thing that this thread does. */
struct trick {
	const char *name; /* "… was not counted" */
	/* False: it could not be done. */
	bool (*provoke)(const struct event *event);
};

/* --- what is done */

static volatile uint64_t word;
static volatile uint64_t sink;

static __attribute__((noinline)) void be_called(void)
{
	sink++;
}

static bool do_access(_unused_ const struct event *event)
{
	word = 1;
	sink = word;
	return true;
}

static bool do_call(_unused_ const struct event *event)
{
	be_called();
	return true;
}

static bool do_loop(_unused_ const struct event *event)
{
	for (size_t i = 0; i < LOOPS; i++)
		sink++;
	return true;
}

static bool do_fault(_unused_ const struct event *event)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	volatile char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	page[0] = 1;
	return munmap((void *)page, size) == 0;
}

static bool do_sleep(_unused_ const struct event *event)
{
	const struct timespec pause = { .tv_nsec = SLEEP_NS };

	return nanosleep(&pause, NULL) == 0;
}

/* --- system calls */

/* Calls that the daemon makes anyway, so that no filter of system calls ends it. With -1 for each argument they do
 * nothing. */
static const struct {
	const char *name;
	long number;
} calls[] = {
	{ "close", SYS_close },	  { "epoll_ctl", SYS_epoll_ctl }, { "fcntl", SYS_fcntl }, { "getpid", SYS_getpid },
	{ "ioctl", SYS_ioctl },	  { "lseek", SYS_lseek },	  { "mmap", SYS_mmap },	  { "munmap", SYS_munmap },
	{ "openat", SYS_openat }, { "read", SYS_read },		  { "write", SYS_write }, { "recvfrom", SYS_recvfrom },
	{ "sendto", SYS_sendto },
};

/* The call of "syscalls:sys_enter_NAME" and of sys_exit_NAME; -1: it is none, or one that is not made here. */
static long call_of(const struct event *event)
{
	char name[32];

	if (sscanf(event->text, "syscalls:sys_enter_%31[a-z0-9_]", name) != 1 &&
	    sscanf(event->text, "syscalls:sys_exit_%31[a-z0-9_]", name) != 1)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].number;
	return -1;
}

/* A filter of system calls refuses one before the kernel's tracepoint. */
static bool do_call_system(const struct event *event)
{
	return syscall(call_of(event), -1, -1, -1, -1, -1, -1) >= 0 || (errno != EPERM && errno != ENOSYS);
}

/* --- uprobes */

struct place {
	uintptr_t address;
	uint64_t offset; /* in the program's file; 0: not found */
};

/* Is the address in this object's code? The first object is the program. */
static int find_place(struct dl_phdr_info *info, _unused_ size_t size, void *userdata)
{
	struct place *place = userdata;

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && place->address >= begin && place->address < begin + segment->p_memsz)
			place->offset = place->address - begin + segment->p_offset;
	}
	return 1;
}

/* --- the test */

static const struct trick *choose_trick(const struct event *event)
{
	static const struct trick access = { "a write and a read under a breakpoint", do_access },
				  execution = { "a call under a breakpoint", do_call }, loop = { "a loop", do_loop },
				  fault = { "a page fault", do_fault }, sleep = { "a context switch", do_sleep },
				  probed = { "a call of a function with a probe", do_call },
				  system_call = { "a system call", do_call_system };
	const struct perf_event_attr *attr = &event->attr;

	if (attr->type == PERF_TYPE_BREAKPOINT)
		return attr->bp_type == HW_BREAKPOINT_X ? &execution : &access;
	if (event->steady ||
	    (attr->type == PERF_TYPE_HARDWARE && (attr->config & UINT32_MAX) == PERF_COUNT_HW_BRANCH_INSTRUCTIONS))
		return &loop;
	if (attr->type == PERF_TYPE_SOFTWARE)
		return attr->config == PERF_COUNT_SW_PAGE_FAULTS || attr->config == PERF_COUNT_SW_PAGE_FAULTS_MIN ?
			       &fault :
		       attr->config == PERF_COUNT_SW_CONTEXT_SWITCHES ? &sleep :
									NULL;
	if (attr->type == PERF_TYPE_TRACEPOINT)
		return call_of(event) >= 0 ? &system_call : NULL;
	return event->probe && event->probe_ino ? &probed : NULL;
}

/* The event of this thread, at its own place, whatever the configured one leaves out. Negative errno. */
static int open_own(const struct event *event, const struct trick *trick)
{
	static const char self[] = "/proc/self/exe";
	struct place place = { .address = (uintptr_t)be_called };
	union event_attr own;

	event_attr(&own, event);
	own.attr.exclude_user = own.attr.exclude_kernel = own.attr.exclude_hv = own.attr.exclude_idle = 0;
	own.attr.exclude_host = own.attr.exclude_guest = 0;
	own.attr.pinned = own.attr.exclusive = 0;
	own.attr.precise_ip = 0;
	own.attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	if (own.attr.type == PERF_TYPE_BREAKPOINT)
		own.attr.bp_addr = trick->provoke == do_call ? place.address : (uintptr_t)&word;
	if (event->probe) {
		(void)dl_iterate_phdr(find_place, &place);
		if (!place.offset)
			return -ENOENT;
		/* No uretprobe: in Linux 6.11 to 6.13 its return is a system call, and a filter that does not know it
		 * would end the daemon. */
		own.attr.config = 0;
		own.attr.config1 = (uintptr_t)self;
		own.attr.config2 = place.offset;
	}
	return privilege_open_event(&own.attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The kernel kills a program with a debug exception that belongs to no breakpoint, as some virtual machines deliver it:
 * here it is let pass. */
static void on_trap(_unused_ int number)
{
}

/* Did it run, and miss what was provoked? */
static bool misses(int fd, const struct event *event, const struct trick *trick)
{
	struct {
		uint64_t count, enabled, running;
	} before, after;

	return read(fd, &before, sizeof(before)) == sizeof(before) && trick->provoke(event) &&
	       read(fd, &after, sizeof(after)) == sizeof(after) && after.running > before.running &&
	       after.count == before.count;
}

bool event_fires(const struct event *event, int *ret_fd, struct reason *why)
{
	const struct sigaction let_pass = { .sa_handler = on_trap };
	const struct trick *trick = choose_trick(event);
	_cleanup_(closep) int fd = trick && !event->absent ? open_own(event, trick) : -1;
	struct sigaction before;
	size_t missed = 0;

	*ret_fd = -1;
	if (fd < 0)
		return true;
	(void)sigaction(SIGTRAP, &let_pass, &before);
	while (missed < TRIES && misses(fd, event, trick))
		missed++;
	(void)sigaction(SIGTRAP, &before, NULL);
	if (event_is_slow_to_close(event))
		*ret_fd = steal_fd(&fd);
	if (missed < TRIES)
		return true;
	reason_set(why, -EOPNOTSUPP, "the kernel opens it and never counts it: %s of perfmond's own was not counted%s",
		   trick->name,
		   event->attr.type == PERF_TYPE_BREAKPOINT ?
			   ", as in virtual machines whose host does not pass debug exceptions on" :
			   "");
	return false;
}
