/* SPDX-License-Identifier: MIT */

#include "profiler/sample/turned-ring.h"

#include "base/host/privilege.h"
#include "base/util/clock.h"
#include "base/util/job-thread.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* A sample that was on its way into the old ring at the turn is there by then, also if the kernel's virtual CPU has
 * been paused meanwhile. */
#define ARRIVED_NS (100 * (uint64_t)NS_PER_MS)

/* Mapping a ring is what costs: half a millisecond for 2 MiB. With this and ARRIVED_NS, a copy is gone after 0.8 s
 * where rings are looked at five times a second. */
#define APART_NS (400 * (uint64_t)NS_PER_MS)

/* The event that is polled for a ring. */
static int polled_fd(const struct turned_ring *ring, unsigned number)
{
	return ring->has_two ? ring->holders[number] : ring->fd;
}

static int map_one(struct turned_ring *ring, unsigned number)
{
	int fd = polled_fd(ring, number), r = ring_map(&ring->rings[number], fd, ring->pages);
	struct epoll_event events = { .events = EPOLLIN, .data.fd = fd };

	if (r == 0 && epoll_ctl(ring->epoll_fd, EPOLL_CTL_ADD, fd, &events) < 0) {
		r = -errno;
		ring_unmap(&ring->rings[number]);
	}
	return r;
}

/* The poll first, since an event without its ring hangs up for ever. */
static void unmap_one(struct turned_ring *ring, unsigned number)
{
	if (!ring->rings[number].page)
		return;
	(void)epoll_ctl(ring->epoll_fd, EPOLL_CTL_DEL, polled_fd(ring, number), NULL);
	ring->broken += ring->rings[number].broken;
	ring_unmap(&ring->rings[number]);
}

static int open_holder(int cpu, uint32_t watermark)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = watermark,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return privilege_open_event(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int open_two(struct turned_ring *ring, int cpu, uint32_t watermark)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ring->holders); i++) {
		int r;

		ring->holders[i] = open_holder(cpu, watermark);
		r = ring->holders[i] < 0 ? ring->holders[i] : map_one(ring, i);
		if (r < 0)
			return r;
	}
	return ioctl(ring->fd, PERF_EVENT_IOC_SET_OUTPUT, ring->holders[0]) < 0 ? -errno : 0;
}

int turned_ring_open(struct turned_ring *ret, int epoll_fd, int fd, int cpu, const struct ring_size *size, size_t pages)
{
	struct turned_ring ring = {
		.epoll_fd = epoll_fd,
		.fd = fd,
		.has_two = size->copy,
		.holders = { -1, -1 },
		.pages = pages,
	};
	int r = ring.has_two ? open_two(&ring, cpu, size->watermark) : map_one(&ring, 0);

	if (r < 0)
		turned_ring_close(&ring);
	else
		*ret = ring;
	return r;
}

void turned_ring_close(struct turned_ring *ring)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ring->holders); i++) {
		unmap_one(ring, i);
		if (ring->has_two)
			ring->holders[i] = safe_close(ring->holders[i]);
	}
}

void turned_ring_look(struct turned_ring *ring)
{
	for (size_t i = 0; i < ARRAY_SIZE(ring->rings); i++)
		if (ring->rings[i].page)
			ring_look(&ring->rings[i]);
}

const void *turned_ring_peek(struct turned_ring *ring, size_t *ret_size)
{
	const void *record;

	ring->from = &ring->rings[ring->first];
	record = ring_peek(ring->from, ret_size);
	if (record)
		return record;
	ring->from = &ring->rings[!ring->first];
	return ring_peek(ring->from, ret_size);
}

void turned_ring_leave(struct turned_ring *ring)
{
	ring_leave(ring->from);
}

void turned_ring_take(struct turned_ring *ring, size_t size)
{
	ring_take(ring->from, size);
}

uint64_t turned_ring_broken(const struct turned_ring *ring)
{
	return ring->broken + ring->rings[0].broken + ring->rings[1].broken;
}

bool turned_ring_was_full(const struct turned_ring *ring, size_t record_max)
{
	bool full = false;

	for (size_t i = 0; i < ARRAY_SIZE(ring->rings); i++) {
		const struct ring *one = &ring->rings[i];
		uint64_t least = one->size / 4 < record_max ? one->size / 4 : record_max;

		full |= one->page && one->size - (one->head - one->tail) < least;
	}
	return full;
}

size_t turned_ring_bytes(const struct turned_ring *ring)
{
	return ring->pages * (size_t)sysconf(_SC_PAGESIZE) * (ring->has_two ? 2 : 1);
}

/* --- turning */

struct ring_turns {
	struct job_thread *thread;
	size_t nr;
	struct asked {
		struct turned_ring *ring; /* not the thread's */
		int fd, holder;
		int error; /* negative errno; 0: the event was turned */
		uint64_t at;
	} asked[];
};

static void turn_all(void *userdata)
{
	struct ring_turns *turns = userdata;

	for (size_t i = 0; i < turns->nr; i++) {
		struct asked *asked = &turns->asked[i];

		asked->error = ioctl(asked->fd, PERF_EVENT_IOC_SET_OUTPUT, asked->holder) < 0 ? -errno : 0;
		asked->at = clock_monotonic_ns();
	}
}

int ring_turns_new(struct ring_turns **ret, size_t nr)
{
	_cleanup_(ring_turns_freep) struct ring_turns *turns = calloc(1, sizeof(*turns) + nr * sizeof(struct asked));
	int r = turns ? job_thread_new(&turns->thread, NULL, 0, turn_all, NULL, turns) : -ENOMEM;

	if (r < 0)
		return r;
	*ret = steal_ptr(turns);
	return 0;
}

struct ring_turns *ring_turns_free(struct ring_turns *turns)
{
	if (!turns)
		return NULL;
	job_thread_free(turns->thread);
	free(turns);
	return NULL;
}

/* One that was not turned is tried again. */
static void note_turns(struct ring_turns *turns)
{
	for (size_t i = 0; i < turns->nr; i++) {
		const struct asked *asked = &turns->asked[i];

		asked->ring->turn = asked->error ? TURN_READY : TURN_DONE;
		asked->ring->error = asked->error;
		asked->ring->turned_at = asked->at; /* or tried */
	}
	turns->nr = 0;
}

bool ring_turns_begin(struct ring_turns *turns)
{
	if (job_thread_is_busy(turns->thread))
		return false;
	note_turns(turns);
	return true;
}

static void ask(struct ring_turns *turns, struct turned_ring *ring)
{
	ring->turn = TURN_ASKED;
	turns->asked[turns->nr++] = (struct asked){
		.ring = ring,
		.fd = ring->fd,
		.holder = ring->holders[!ring->first],
		.error = -EAGAIN, /* without a thread */
	};
}

void ring_turns_step(struct ring_turns *turns, struct turned_ring *ring, uint64_t looked, bool adds)
{
	const struct ring *first = &ring->rings[ring->first];

	if (!ring->has_two)
		return;
	if (ring->turn == TURN_DONE && looked > ring->turned_at + ARRIVED_NS && first->tail == first->head) {
		unmap_one(ring, ring->first);
		ring->first = !ring->first;
		ring->turn = TURN_UNMAPPED;
		/* To map it at once would wait for a grace period. */
		return;
	}
	if (ring->turn == TURN_UNMAPPED) {
		ring->error = map_one(ring, !ring->first);
		ring->turn = ring->error ? TURN_UNMAPPED : TURN_READY;
	}
	if (ring->turn == TURN_READY && adds && first->tail && looked > ring->turned_at + APART_NS)
		ask(turns, ring);
}

void ring_turns_end(struct ring_turns *turns)
{
	if (job_thread_is_busy(turns->thread) || !turns->nr)
		return;
	/* Without a thread no ring was turned. */
	if (!job_thread_start(turns->thread))
		note_turns(turns);
}
