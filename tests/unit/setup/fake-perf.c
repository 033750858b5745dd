/* SPDX-License-Identifier: MIT */

#include "setup/fake-perf.h"

#include "counting/event/event.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct fake_perf fake_perf;

long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __real_read(int fd, void *buffer, size_t size);
/* Does the event, which is open, hold a counter while that leader runs? */
static bool holds_counter(const struct fake_event *event, const struct fake_event *leader)
{
	const struct fake_event *other = &fake_perf.events[event->leader];
	bool runs = other == leader || (other->attr.pinned && other->started && !other->error);

	return event->open && event->cpu == leader->cpu && runs && event->attr.type != PERF_TYPE_SOFTWARE;
}

/* How many counters do the group and the pinned groups that run on that CPU need? */
static int nr_counters(const struct fake_event *leader)
{
	int used = 0;

	for (int i = 0; i < fake_perf.nr; i++)
		used += holds_counter(&fake_perf.events[i], leader);
	return used;
}

/* Is the PMU too small for the group beside the pinned groups that run on that CPU? */
static bool is_full(const struct fake_event *leader)
{
	return fake_perf.counters && nr_counters(leader) > fake_perf.counters;
}

/* Which events of a group that starts find none of the counters that count? */
static void let_die(const struct fake_event *leader)
{
	int used = 0;

	for (int i = 0; i < fake_perf.nr; i++)
		used += fake_perf.events[i].leader != leader->leader && holds_counter(&fake_perf.events[i], leader);
	for (int i = 0; i < fake_perf.nr; i++) {
		struct fake_event *event = &fake_perf.events[i];

		if (event->leader == leader->leader && holds_counter(event, leader))
			event->dead = ++used > fake_perf.usable;
	}
}

/* Starts a group, or tries it again. A pinned one goes into error state where there is no room for it, which for a
 * cgroup is found out only when it runs. */
static void start_group(struct fake_event *leader)
{
	leader->started = true;
	leader->error = leader->attr.pinned && !leader->cgroup && is_full(leader);
	if (fake_perf.usable && leader->attr.pinned)
		let_die(leader);
}

static void stop_own(struct fake_event *event)
{
	event->started = false;
	event->value += !fake_perf.loses_clock;
}

static int set_filter(struct fake_event *event, const char *filter)
{
	if (fake_perf.bad_filter && strcmp(filter, fake_perf.bad_filter) == 0) {
		errno = EINVAL;
		return -1;
	}
	(void)snprintf(event->filter, sizeof(event->filter), "%s", filter);
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_close(int fd);
int __real_close(int fd);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __real_clock_gettime(clockid_t id, struct timespec *ts);

void fake_perf_reset(void)
{
	memset(&fake_perf, 0, sizeof(fake_perf));
	fake_perf.clock = 1000ULL * 1000000000U;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, ts);
	fake_perf.clock += 1000;
	*ts = (struct timespec){ .tv_sec = (time_t)(fake_perf.clock / 1000000000U),
				 .tv_nsec = (long)(fake_perf.clock % 1000000000U) };
	return 0;
}

int refuse_all(const struct fake_event *event, int nr_members)
{
	(void)event;
	(void)nr_members;
	return fake_perf.error;
}

int refuse_hardware(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->attr.type == PERF_TYPE_HARDWARE ? fake_perf.error : 0;
}

int refuse_beyond_limit(const struct fake_event *event, int nr_members)
{
	(void)event;
	(void)nr_members;
	return fake_perf.nr_open >= fake_perf.limit ? EMFILE : 0;
}

static int fails(enum fake_call call)
{
	return fake_perf.fault ? fake_perf.fault(call) : 0;
}

static struct fake_event *event_of(int fd)
{
	if (fd < FAKE_FD || fd >= FAKE_FD + fake_perf.nr)
		return NULL;
	assert_true(fake_perf.events[fd - FAKE_FD].open);
	return &fake_perf.events[fd - FAKE_FD];
}

static int nr_members(int leader)
{
	int nr = 0;

	for (int i = 0; i < fake_perf.nr; i++)
		nr += fake_perf.events[i].open && fake_perf.events[i].leader == leader;
	return nr;
}

/* What copy_struct_from_user() does: what is beyond the size this kernel knows has to be 0. */
static bool is_known(struct perf_event_attr *attr)
{
	uint32_t known = fake_perf.known_size ? fake_perf.known_size : sizeof(union event_attr);

	for (uint32_t i = known; i < attr->size; i++)
		if (fake_perf.strict_size || ((unsigned char *)attr)[i]) {
			attr->size = known;
			return false;
		}
	return true;
}

static long fake_open(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags)
{
	struct fake_event *event = &fake_perf.events[fake_perf.nr];
	struct stat st;
	int error;

	fake_perf.nr_calls++;
	fake_perf.flags = flags;
	assert_true(fake_perf.nr < FAKE_MAX);
	assert_true(attr->size <= sizeof(union event_attr));
	if (!is_known(attr)) {
		errno = E2BIG;
		return -1;
	}
	assert_true(flags & PERF_FLAG_FD_CLOEXEC);
	*event = (struct fake_event){ .attr = *attr, .cpu = cpu, .leader = fake_perf.nr, .read_cut = -1 };
	if (flags & PERF_FLAG_PID_CGROUP) {
		assert_int_equal(fstat(pid, &st), 0);
		event->cgroup = st.st_ino;
	} else if (pid == 0) {
		/* Of the process itself: a look at what it may do, at its clock, or at what it provokes. */
		event->own = true;
		assert_int_equal(cpu, -1);
	} else {
		assert_int_equal(pid, -1);
	}
	if (group_fd >= 0)
		event->leader = (int)(event_of(group_fd) - fake_perf.events);

	error = fails(FAKE_OPEN);
	if (error) {
		errno = error;
		return -1;
	}
	error = fake_perf.refuse ? fake_perf.refuse(event, group_fd >= 0 ? nr_members(event->leader) : 0) : 0;
	if (error) {
		errno = error;
		return -1;
	}
	event->open = true;
	event->started = group_fd < 0 && !attr->disabled;
	event->id = 7000 + (uint64_t)fake_perf.nr;
	fake_perf.nr_open++;
	return FAKE_FD + fake_perf.nr++;
}

long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number != SYS_perf_event_open)
		return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return fake_open((struct perf_event_attr *)a[0], (int)a[1], (int)a[2], (int)a[3], (unsigned long)a[4]);
}

/* Of an event that was opened to be read by itself: with its times at most. */
static ssize_t read_lone(const struct fake_event *event, void *buffer, size_t size)
{
	const uint64_t out[] = { event->value, event->enabled, event->running };
	uint64_t times = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	size_t bytes = sizeof(*out) * (1 + (size_t)__builtin_popcountll(event->attr.read_format & times));

	assert_true(size >= bytes);
	memcpy(buffer, out, bytes);
	return (ssize_t)bytes;
}

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	struct fake_event *leader = event_of(fd);
	uint64_t out[3 + 2 * 64];
	size_t nr = 0, bytes;
	int at = fd - FAKE_FD, error;

	if (!leader)
		return __real_read(fd, buffer, size);
	assert_int_equal(leader->leader, at);
	error = fails(FAKE_READ);
	if (leader->error || error == FAKE_EMPTY)
		return 0;
	if (error > 0) {
		errno = error;
		return -1;
	}
	if (leader->own && leader->started) {
		leader->value += leader->attr.type >= 32 || !(fake_perf.dead_types >> leader->attr.type & 1);
		leader->enabled = ++leader->running;
	}
	if (fake_perf.by_reading)
		fake_happen(fake_perf.by_reading);
	if (!(leader->attr.read_format & PERF_FORMAT_GROUP))
		return read_lone(leader, buffer, size);
	if (leader->read_errno) {
		errno = leader->read_errno;
		return -1;
	}
	for (int i = 0; i < fake_perf.nr; i++) {
		const struct fake_event *event = &fake_perf.events[leader->reversed ? fake_perf.nr - 1 - i : i];

		if (!event->open || event->leader != at)
			continue;
		out[3 + 2 * nr] = event->value;
		out[4 + 2 * nr] = event->id;
		nr++;
	}
	out[0] = nr;
	out[1] = leader->enabled;
	out[2] = leader->running;
	bytes = (3 + 2 * nr) * sizeof(*out);
	if (error == FAKE_SHORT)
		bytes -= sizeof(*out);
	if (leader->read_cut >= 0 && bytes > (size_t)leader->read_cut)
		bytes = (size_t)leader->read_cut;
	else if (bytes > size) {
		errno = ENOSPC;
		return -1;
	}
	memcpy(buffer, out, bytes);
	return (ssize_t)bytes;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	struct fake_event *event = event_of(fd);
	va_list ap;
	void *argument;
	int error;

	va_start(ap, request);
	argument = va_arg(ap, void *);
	va_end(ap);
	if (!event)
		return __real_ioctl(fd, request, argument);
	error = fails(request == PERF_EVENT_IOC_ID     ? FAKE_ID :
		      request == PERF_EVENT_IOC_ENABLE ? FAKE_ENABLE :
							 FAKE_FILTER);
	if (error) {
		errno = error;
		return -1;
	}
	if (request == PERF_EVENT_IOC_ID)
		memcpy(argument, &event->id, sizeof(event->id));
	else if (request == PERF_EVENT_IOC_ENABLE)
		start_group(event);
	else if (request == PERF_EVENT_IOC_DISABLE && event->own)
		stop_own(event);
	else if (request == PERF_EVENT_IOC_SET_FILTER)
		return set_filter(event, argument);
	else
		fail_msg("unexpected ioctl %lx", request);
	return 0;
}

static bool is_last_of_tracepoint(const struct fake_event *event)
{
	bool others = false;

	for (int i = 0; i < fake_perf.nr; i++) {
		const struct fake_event *other = &fake_perf.events[i];

		others |= other->open && other != event && other->attr.type == PERF_TYPE_TRACEPOINT &&
			  other->attr.config == event->attr.config;
	}
	return event->attr.type == PERF_TYPE_TRACEPOINT && !others;
}

int __wrap_close(int fd)
{
	struct fake_event *event = event_of(fd);

	if (!event)
		return __real_close(fd);
	if (event->held) {
		event->held--;
		return 0;
	}
	fake_perf.nr_slow += is_last_of_tracepoint(event);
	event->open = false;
	fake_perf.nr_open--;
	return 0;
}

void fake_hold(int fd)
{
	event_of(fd)->held++;
}

struct fake_event *fake_look(uint32_t type, uint64_t config, int cpu, uint64_t cgroup)
{
	for (int i = 0; i < fake_perf.nr; i++) {
		struct fake_event *event = &fake_perf.events[i];

		if (event->open && event->attr.type == type && event->attr.config == config && event->cpu == cpu &&
		    event->cgroup == cgroup)
			return event;
	}
	return NULL;
}

struct fake_event *fake_find(uint32_t type, uint64_t config, int cpu, uint64_t cgroup)
{
	struct fake_event *event = fake_look(type, config, cpu, cgroup);

	if (event)
		return event;
	fail_msg("no event with type %u, config %llu is open on CPU %d for cgroup %llu", type,
		 (unsigned long long)config, cpu, (unsigned long long)cgroup);
	return NULL;
}

/* A cpu-clock that is a member of a hardware group counts the time that the group runs. */
static bool is_run_clock(const struct fake_event *event)
{
	return event->attr.type == PERF_TYPE_SOFTWARE && event->attr.config == PERF_COUNT_SW_CPU_CLOCK &&
	       fake_perf.events[event->leader].attr.type != PERF_TYPE_SOFTWARE;
}

void fake_run(uint64_t cgroup, int cpu, uint64_t enabled, uint64_t running, uint64_t by)
{
	fake_run_clocked(cgroup, cpu, enabled, running, running, by);
}

void fake_run_clocked(uint64_t cgroup, int cpu, uint64_t enabled, uint64_t running, uint64_t clock, uint64_t by)
{
	fake_perf.clock += 100000000U;
	for (int i = 0; i < fake_perf.nr; i++) {
		struct fake_event *event = &fake_perf.events[i], *leader = &fake_perf.events[event->leader];

		if (!event->open || event->cgroup != cgroup || event->cpu != cpu || !leader->started)
			continue;
		if (event == leader)
			event->error |= event->attr.pinned && event->cgroup && is_full(event);
		if (leader->error)
			continue;
		event->value += event->dead ? 0 : is_run_clock(event) ? clock : by;
		if (leader == event) {
			event->enabled += enabled;
			event->running += running;
		}
	}
}

void fake_take_apart(int cpu)
{
	for (int i = 0; i < fake_perf.nr; i++) {
		struct fake_event *event = &fake_perf.events[i];

		if (!event->open || event->cpu != cpu)
			continue;
		event->leader = i;
		event->started = false;
	}
}

void fake_happen(uint64_t by)
{
	for (int i = 0; i < fake_perf.nr; i++) {
		struct fake_event *event = &fake_perf.events[i], *leader = &fake_perf.events[event->leader];

		if (!event->open || !leader->started || leader->error)
			continue;
		event->value += event->dead ? 0 : is_run_clock(event) ? 1000 * by : by;
		if (event == leader) {
			event->enabled += 1000 * by;
			event->running += 1000 * by;
		}
	}
}
