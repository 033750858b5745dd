/* SPDX-License-Identifier: MIT */

/* Rings: made ones, in which records go round the end at every place and are broken in every way; and the kernel's. */

#include "base/util/cleanup.h"
#include "profiler/sample/record.h"
#include "profiler/sample/ring.h"
#include "setup/needs.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A ring of one page, which the test writes to as the kernel does. */
struct made_ring {
	int fd;
	struct ring ring;
	unsigned char *data;
	size_t size;
};

static void make_ring(struct made_ring *made)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	made->fd = memfd_create("ring", MFD_CLOEXEC);
	assert_true(made->fd >= 0);
	assert_int_equal(ftruncate(made->fd, (off_t)(2 * page)), 0);
	assert_int_equal(ring_map(&made->ring, made->fd, 1), 0);
	made->size = page;
	made->data = (unsigned char *)made->ring.page + page;
}

static void release_ring(struct made_ring *made)
{
	ring_unmap(&made->ring);
	assert_null(made->ring.page);
	ring_unmap(&made->ring);
	close(made->fd);
}

/* Sets head and tail as if so many bytes had gone through it. */
static void set_position(struct made_ring *made, uint64_t at)
{
	made->ring.tail = at;
	made->ring.page->data_head = at;
	made->ring.page->data_tail = at;
}

static void put_bytes(struct made_ring *made, const void *bytes, size_t n)
{
	uint64_t head = made->ring.page->data_head;

	for (size_t i = 0; i < n; i++)
		made->data[(head + i) % made->size] = ((const unsigned char *)bytes)[i];
	__atomic_store_n(&made->ring.page->data_head, head + n, __ATOMIC_RELEASE);
}

/* A record whose bytes follow from its number. */
static void put_record(struct made_ring *made, unsigned char number, uint16_t size)
{
	unsigned char bytes[RING_RECORD_MAX] = {};
	const struct perf_event_header header = { .type = number, .size = size };

	memset(bytes, number, size);
	memcpy(bytes, &header, sizeof(header));
	put_bytes(made, bytes, size);
}

static void take_record(struct made_ring *made, unsigned char number, uint16_t size)
{
	size_t found = 0;
	const unsigned char *record = ring_peek(&made->ring, &found);

	assert_non_null(record);
	assert_int_equal(found, size);
	assert_int_equal(record[0], number);
	for (size_t i = sizeof(struct perf_event_header); i < size; i++)
		assert_int_equal(record[i], number);
	ring_take(&made->ring, found);
	assert_int_equal(made->ring.page->data_tail, made->ring.tail);
}

static void test_every_place(void **state)
{
	struct made_ring made;
	size_t size;

	(void)state;
	make_ring(&made);
	for (uint64_t at = 0; at < made.size; at += 8) {
		set_position(&made, (UINT64_C(1) << 40) + at);
		put_record(&made, 1, 48);
		put_record(&made, 2, 8);
		put_record(&made, 3, 1024);
		ring_look(&made.ring);
		/* Written after the look: for the next time. */
		put_record(&made, 4, 16);
		take_record(&made, 1, 48);
		take_record(&made, 2, 8);
		take_record(&made, 3, 1024);
		assert_null(ring_peek(&made.ring, &size));
		ring_look(&made.ring);
		take_record(&made, 4, 16);
		assert_null(ring_peek(&made.ring, &size));
	}
	assert_int_equal(made.ring.broken, 0);
	release_ring(&made);
}

static void test_full(void **state)
{
	struct made_ring made;
	size_t size;

	(void)state;
	make_ring(&made);
	set_position(&made, 24);
	put_record(&made, 1, (uint16_t)made.size);
	ring_look(&made.ring);
	take_record(&made, 1, (uint16_t)made.size);
	assert_null(ring_peek(&made.ring, &size));
	release_ring(&made);
}

/* The copy of a record that goes round the end is zeroed when the record is taken, left for later, or dropped. */
static void test_copy_is_erased(void **state)
{
	struct made_ring made;
	const void *record;
	size_t size;

	(void)state;
	make_ring(&made);
	for (int turn = 0; turn < 3; turn++) {
		set_position(&made, made.size - 16);
		put_record(&made, 7, 64);
		ring_look(&made.ring);
		record = ring_peek(&made.ring, &size);
		assert_ptr_equal(record, made.ring.copy);
		assert_int_equal(made.ring.copy[63], 7);
		if (turn == 0)
			ring_take(&made.ring, size);
		else
			ring_leave(&made.ring);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(made.ring.copy[i], 0);
		/* It is still in the ring. */
		if (turn)
			take_record(&made, 7, 64);
	}
	release_ring(&made);
}

/* All that is there is dropped, and the ring goes on. */
static void check_broken(struct made_ring *made, uint16_t size, size_t written)
{
	const struct perf_event_header header = { .type = 1, .size = size };
	unsigned char bytes[4096] = {};
	uint64_t before = made->ring.broken;
	size_t found;

	set_position(made, 4000);
	memcpy(bytes, &header, sizeof(header));
	put_bytes(made, bytes, written);
	ring_look(&made->ring);
	assert_null(ring_peek(&made->ring, &found));
	assert_int_equal(made->ring.broken, before + 1);
	assert_int_equal(made->ring.page->data_tail, made->ring.page->data_head);
	set_position(made, 4000);
	put_record(made, 5, 64);
	ring_look(&made->ring);
	take_record(made, 5, 64);
}

static void test_broken(void **state)
{
	struct made_ring made;
	size_t size;

	(void)state;
	make_ring(&made);
	check_broken(&made, 0, 64);
	check_broken(&made, 4, 64);
	check_broken(&made, 7, 64);
	check_broken(&made, 12, 64);
	check_broken(&made, 72, 64);
	check_broken(&made, 65528, 64);
	/* Less than a header; a head beyond the ring, and one that went back. */
	set_position(&made, 0);
	made.ring.page->data_head = 4;
	ring_look(&made.ring);
	assert_null(ring_peek(&made.ring, &size));
	set_position(&made, 0);
	made.ring.page->data_head = made.size + 8;
	ring_look(&made.ring);
	assert_null(ring_peek(&made.ring, &size));
	set_position(&made, 800);
	made.ring.page->data_head = 80;
	ring_look(&made.ring);
	assert_null(ring_peek(&made.ring, &size));
	assert_int_equal(made.ring.broken, 9);
	release_ring(&made);
}

/* --- the kernel's: each page fault is a sample */

#define PAGES 300

static int open_faults(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_ADDR,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.disabled = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The number of samples with an address in the memory. */
static unsigned drain_faults(struct ring *ring, const unsigned char *memory, size_t size)
{
	static const struct record_format format = { .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_ADDR };
	struct record record;
	const void *bytes;
	unsigned found = 0;
	size_t n;

	ring_look(ring);
	while ((bytes = ring_peek(ring, &n))) {
		assert_int_equal(record_parse(&record, &format, bytes, n), 0);
		assert_int_equal(record.type, PERF_RECORD_SAMPLE);
		assert_int_equal(record.id.pid, getpid());
		found += record.sample.addr >= (uintptr_t)memory && record.sample.addr < (uintptr_t)memory + size;
		ring_take(ring, n);
	}
	return found;
}

static void test_kernel_ring(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = PAGES * page;
	unsigned char *memory;
	struct ring ring;
	unsigned found = 0;
	int fd;

	(void)state;
	needs("perf-self");
	fd = open_faults();
	if (fd < 0)
		fail_msg("perf_event_open: %s", strerror(errno));
	/* One page: records of 24 bytes go round its end again and again. */
	assert_int_equal(ring_map(&ring, fd, 1), 0);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	(void)madvise(memory, size, MADV_NOHUGEPAGE);
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	for (size_t i = 0; i < PAGES; i++) {
		memory[i * page] = 1;
		if (i % 50 == 49)
			found += drain_faults(&ring, memory, size);
	}
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_DISABLE, 0), 0);
	found += drain_faults(&ring, memory, size);
	assert_int_equal(found, PAGES);
	assert_int_equal(ring.broken, 0);
	ring_unmap(&ring);
	munmap(memory, size);
	close(fd);
}

static void test_map_error(void **state)
{
	struct ring ring;

	(void)state;
	assert_int_equal(ring_map(&ring, -1, 1), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_place),    cmocka_unit_test(test_full),
		cmocka_unit_test(test_copy_is_erased), cmocka_unit_test(test_broken),
		cmocka_unit_test(test_kernel_ring),    cmocka_unit_test(test_map_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
