/* SPDX-License-Identifier: MIT */

/* Sizes of rings and of copies of stacks: what a ring has to hold, and what all of them may take. */

#include "profiler/sample/ring-size.h"
#include "profiler/sample/sample-attr.h"

#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIB 1024

static struct sampled_variant clock_variant = {
	.attr.attr = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK },
};
static struct sampled_variant faults_variant = {
	.attr.attr = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS },
};

static struct sampled_event clock_at(uint64_t rate, uint64_t stack_bytes)
{
	return (struct sampled_event){ .variants = &clock_variant, .nr = 1, .rate = rate, .stack_bytes = stack_bytes };
}

static size_t bytes_of(const struct ring_size *size)
{
	return size->pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_without_copies(_unused_ void **state)
{
	const struct sampled_event event = clock_at(19, 0);
	struct ring_size size = ring_size_of(&event, 0), side_band = ring_size_of(NULL, 0);

	assert_int_equal(size.pages, 16);
	assert_int_equal(size.copy, 0);
	assert_int_equal(size.watermark, bytes_of(&size) / 2);
	/* 127 frames, 8 marks, and the rest. */
	assert_in_range(size.record_max, 8 * (127 + 8 + 9), 1500);
	assert_int_equal(side_band.pages, 32);
	assert_int_equal(side_band.watermark, bytes_of(&side_band) / 2);
}

/* Twelve records, or 400 ms, in a power of two of pages. */
static void test_room(_unused_ void **state)
{
	static const struct {
		uint64_t rate;
		size_t copy, records, most;
	} rates[] = {
		{ 1, 32 * KIB, 12, 512 * KIB },	  { 19, 32 * KIB, 12, 512 * KIB }, { 99, 32 * KIB, 40, 2048 * KIB },
		{ 999, 32 * KIB, 400, 16 << 20 }, { 19, 16 * KIB, 12, 256 * KIB }, { 19, 8, 12, 64 * KIB },
		{ 19, 62 * KIB, 12, 1024 * KIB },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		const struct sampled_event event = clock_at(rates[i].rate, rates[i].copy);
		struct ring_size size = ring_size_of(&event, rates[i].copy);

		assert_true(size.record_max > rates[i].copy + 1024 && size.record_max <= 65528);
		assert_true(size.record_max % 8 == 0 || rates[i].copy % 8);
		assert_true(bytes_of(&size) >= rates[i].records * size.record_max);
		assert_int_equal(size.pages & (size.pages - 1), 0);
		if (sysconf(_SC_PAGESIZE) == 4096)
			assert_int_equal(bytes_of(&size), rates[i].most);
		assert_int_equal(size.watermark, bytes_of(&size) / 2);
	}
}

/* A clock with a period has a rate; of other events the rate is not known. */
static void test_periods(_unused_ void **state)
{
	struct sampled_event clock = clock_at(0, 32 * KIB), faults = { .variants = &faults_variant, .nr = 1 };
	struct ring_size size;

	clock.period = 10000000;
	size = ring_size_of(&clock, 32 * KIB);
	assert_true(bytes_of(&size) >= 40 * size.record_max);
	faults.period = 1;
	size = ring_size_of(&faults, 32 * KIB);
	assert_true(bytes_of(&size) >= 12 * size.record_max);
	assert_true(bytes_of(&size) < 40 * size.record_max);
	faults.period = 0;
	faults.rate = 99;
	size = ring_size_of(&faults, 32 * KIB);
	assert_true(bytes_of(&size) >= 40 * size.record_max);
}

static void test_halvings(_unused_ void **state)
{
	assert_int_equal(ring_copy(32 * KIB, 0), 32 * KIB);
	assert_int_equal(ring_copy(32 * KIB, 3), 4 * KIB);
	assert_int_equal(ring_copy(32 * KIB, 4), 0);
	assert_int_equal(ring_copy(32 * KIB, 1000), 0);
	/* What is asked for may be less than what is left of others, and copies are whole words. */
	assert_int_equal(ring_copy(8, 0), 8);
	assert_int_equal(ring_copy(8, 1), 0);
	assert_int_equal(ring_copy(8 * KIB + 8, 1), 4 * KIB);
	assert_int_equal(ring_copy(0, 0), 0);
}

static void test_in_all(_unused_ void **state)
{
	char problem[] = "absent";
	struct sampled_event events[] = { clock_at(19, 32 * KIB), clock_at(99, 16 * KIB), clock_at(19, 0) };

	assert_int_equal(ring_copy_max(events, 3, 0), 32 * KIB);
	assert_int_equal(ring_copy_max(events, 3, 3), 4 * KIB);
	assert_int_equal(ring_copy_max(events, 3, 4), 0);
	assert_int_equal(ring_halvings(events, 3, 2), 0);
	if (sysconf(_SC_PAGESIZE) != 4096)
		return;
	/* Two rings of 512 KiB, and 128 KiB: 1152 KiB a CPU. */
	assert_int_equal(ring_halvings(events, 1, 56), 0);
	assert_int_equal(ring_halvings(events, 1, 57), 1);
	/* Two of 128 KiB after two halvings, and the same: 384 KiB. */
	assert_int_equal(ring_halvings(events, 1, 170), 2);
	assert_true(ring_halvings(events, 1, 171) > 2);
	assert_int_equal(ring_halvings(events, 1, 1000), 4);
	/* Without copies there is nothing to halve. */
	assert_int_equal(ring_halvings(&events[2], 1, 10000), 0);
	/* 16 MiB, twice, a CPU: they are too many for four. */
	events[1] = clock_at(999, 32 * KIB);
	assert_int_equal(ring_halvings(&events[1], 1, 1), 0);
	assert_int_equal(ring_halvings(&events[1], 1, 4), 2);
	events[1].problem = problem;
	assert_int_equal(ring_halvings(&events[1], 1, 4), 0);
	assert_int_equal(ring_copy_max(&events[1], 1, 0), 0);
}

static void test_attributes(_unused_ void **state)
{
	const uint64_t copied = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	const struct sampled_event event = clock_at(19, 32 * KIB);
	struct sample_request request = { .copy = 16 * KIB, .watermark = 65536 };
	struct record_format format;
	union event_attr attr;

	sample_attr_event(&attr, &event, &clock_variant, &request);
	assert_int_equal(attr.attr.sample_type & copied, copied);
	assert_int_equal(attr.attr.sample_stack_user, 16 * KIB);
	assert_int_equal(attr.attr.sample_regs_user, SAMPLED_REGISTERS);
	assert_int_equal(attr.attr.wakeup_watermark, 65536);
	assert_true(attr.attr.sample_type & PERF_SAMPLE_CALLCHAIN);
	format = sample_attr_format(&attr);
	assert_int_equal(format.regs_user, SAMPLED_REGISTERS);
	assert_int_equal(format.sample_type, attr.attr.sample_type);
	request.copy = 0;
	sample_attr_event(&attr, &event, &clock_variant, &request);
	assert_int_equal(attr.attr.sample_type & copied, 0);
	assert_int_equal(attr.attr.sample_stack_user, 0);
	assert_int_equal(attr.attr.sample_regs_user, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_copies), cmocka_unit_test(test_room),   cmocka_unit_test(test_periods),
		cmocka_unit_test(test_halvings),       cmocka_unit_test(test_in_all), cmocka_unit_test(test_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
