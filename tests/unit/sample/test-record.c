/* SPDX-License-Identifier: MIT */

/* Records of all types, as bytes: whole ones, cut ones, and any bytes. */

#include "base/util/buf.h"
#include "profiler/sample/record.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ALL_IDS                                                                                                        \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |               \
	 PERF_SAMPLE_IDENTIFIER)

static const struct record_format ids = { .sample_type = ALL_IDS, .sample_id_all = true };

static void add_u64(struct buf *b, uint64_t value)
{
	buf_add(b, (const char *)&value, sizeof(value));
}

static void add_u32(struct buf *b, uint32_t value)
{
	buf_add(b, (const char *)&value, sizeof(value));
}

static void add_u16(struct buf *b, uint16_t value)
{
	buf_add(b, (const char *)&value, sizeof(value));
}

/* With its NUL, padded to 8 bytes. */
static void add_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
	while (b->len % 8)
		buf_char(b, '\0');
}

static void begin(struct buf *b, uint32_t type, uint16_t misc)
{
	b->len = 0;
	add_u32(b, type);
	add_u16(b, misc);
	add_u16(b, 0);
}

static void set_size(struct buf *b)
{
	uint16_t size = (uint16_t)b->len;

	memcpy(b->data + 6, &size, sizeof(size));
}

static void add_ids(struct buf *b)
{
	add_u32(b, 101);
	add_u32(b, 102);
	add_u64(b, 103);
	add_u64(b, 104);
	add_u64(b, 105);
	add_u64(b, 106);
	add_u64(b, 107);
}

static void check_ids(const struct record_id *id)
{
	assert_int_equal(id->pid, 101);
	assert_int_equal(id->tid, 102);
	assert_int_equal(id->time, 103);
	assert_int_equal(id->id, 104);
	assert_int_equal(id->stream_id, 105);
	assert_int_equal(id->cpu, 106);
	assert_int_equal(id->identifier, 107);
}

/* A copy of just so many bytes, so that the sanitizer finds what is read behind them. */
static int parse_exactly(struct record *ret, const struct record_format *format, const char *bytes, size_t size)
{
	static char *copy;
	int r;

	free(copy); /* the last record's texts point into it */
	copy = malloc(size ?: 1);
	assert_non_null(copy);
	memcpy(copy, bytes, size);
	r = record_parse(ret, format, copy, size);
	if (size == 0) {
		free(copy);
		copy = NULL;
	}
	return r;
}

/* With its ids behind it, parsed; and every shorter one, which may be wrong, but only in its own bytes. */
static struct record finish(struct buf *b)
{
	struct record record = {}, cut;

	add_ids(b);
	set_size(b);
	for (size_t n = 0; n < b->len; n++) {
		uint16_t size = (uint16_t)n;

		if (n >= 8)
			memcpy(b->data + 6, &size, sizeof(size));
		(void)parse_exactly(&cut, &ids, b->data, n);
	}
	set_size(b);
	assert_int_equal(parse_exactly(&record, &ids, b->data, b->len), 0);
	check_ids(&record.id);
	return record;
}

static void release_copy(void)
{
	struct record record;

	(void)parse_exactly(&record, &ids, "", 0);
}

static void test_tasks(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	struct record record;

	(void)state;
	begin(&b, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	add_u32(&b, 7);
	add_u32(&b, 8);
	add_text(&b, "a command");
	record = finish(&b);
	assert_int_equal(record.misc, PERF_RECORD_MISC_COMM_EXEC);
	assert_int_equal(record.comm.pid, 7);
	assert_int_equal(record.comm.tid, 8);
	assert_string_equal(record.comm.name, "a command");

	for (int i = 0; i < 2; i++) {
		begin(&b, i ? PERF_RECORD_FORK : PERF_RECORD_EXIT, 0);
		for (uint32_t n = 1; n <= 4; n++)
			add_u32(&b, n);
		add_u64(&b, 5);
		record = finish(&b);
		assert_int_equal(record.task.pid, 1);
		assert_int_equal(record.task.ppid, 2);
		assert_int_equal(record.task.tid, 3);
		assert_int_equal(record.task.ptid, 4);
		assert_int_equal(record.task.time, 5);
	}
	release_copy();
}

static void add_mapping(struct buf *b)
{
	add_u32(b, 1);
	add_u32(b, 2);
	add_u64(b, 0x1000);
	add_u64(b, 0x2000);
	add_u64(b, 0x3000);
}

static void check_mapping(const struct record_mapping *mapping)
{
	assert_int_equal(mapping->pid, 1);
	assert_int_equal(mapping->tid, 2);
	assert_int_equal(mapping->start, 0x1000);
	assert_int_equal(mapping->size, 0x2000);
	assert_int_equal(mapping->offset, 0x3000);
	assert_string_equal(mapping->file, "/usr/bin/true");
}

static void test_mappings(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	struct record record;

	(void)state;
	begin(&b, PERF_RECORD_MMAP, 0);
	add_mapping(&b);
	add_text(&b, "/usr/bin/true");
	record = finish(&b);
	check_mapping(&record.mapping);
	assert_false(record.mapping.has_inode);

	begin(&b, PERF_RECORD_MMAP2, 0);
	add_mapping(&b);
	add_u32(&b, 8);
	add_u32(&b, 1);
	add_u64(&b, 99);
	add_u64(&b, 3);
	add_u32(&b, 5);
	add_u32(&b, 2);
	add_text(&b, "/usr/bin/true");
	record = finish(&b);
	check_mapping(&record.mapping);
	assert_true(record.mapping.has_inode);
	assert_int_equal(record.mapping.major, 8);
	assert_int_equal(record.mapping.minor, 1);
	assert_int_equal(record.mapping.inode, 99);
	assert_int_equal(record.mapping.generation, 3);
	assert_int_equal(record.mapping.prot, 5);
	assert_int_equal(record.mapping.flags, 2);
	release_copy();
}

static void test_build_id(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	struct record record;

	(void)state;
	begin(&b, PERF_RECORD_MMAP2, 1 << 14);
	add_mapping(&b);
	add_u32(&b, 20);
	buf_add(&b, "abcdefghijklmnopqrst", 20);
	add_u32(&b, 5);
	add_u32(&b, 2);
	add_text(&b, "/usr/bin/true");
	record = finish(&b);
	check_mapping(&record.mapping);
	assert_false(record.mapping.has_inode);
	assert_int_equal(record.mapping.build_id_size, 20);
	assert_memory_equal(record.mapping.build_id, "abcdefghijklmnopqrst", 20);
	/* A size that no build id has. */
	b.data[8 + 32] = 21;
	assert_int_equal(record_parse(&record, &ids, b.data, b.len), -EBADMSG);
	release_copy();
}

static void test_losses(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	struct record record;

	(void)state;
	begin(&b, PERF_RECORD_LOST, 0);
	add_u64(&b, 11);
	add_u64(&b, 12);
	record = finish(&b);
	assert_int_equal(record.lost.id, 11);
	assert_int_equal(record.lost.lost, 12);

	begin(&b, PERF_RECORD_LOST_SAMPLES, 0);
	add_u64(&b, 13);
	record = finish(&b);
	assert_int_equal(record.lost.id, 0);
	assert_int_equal(record.lost.lost, 13);

	for (int i = 0; i < 2; i++) {
		begin(&b, i ? PERF_RECORD_THROTTLE : PERF_RECORD_UNTHROTTLE, 0);
		for (uint64_t n = 1; n <= 3; n++)
			add_u64(&b, n);
		record = finish(&b);
		assert_int_equal(record.throttle.time, 1);
		assert_int_equal(record.throttle.id, 2);
		assert_int_equal(record.throttle.stream_id, 3);
	}
	release_copy();
}

static void test_others(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	struct record record;

	(void)state;
	begin(&b, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT);
	record = finish(&b);
	assert_int_equal(record.type, PERF_RECORD_SWITCH);

	begin(&b, PERF_RECORD_SWITCH_CPU_WIDE, 0);
	add_u32(&b, 1);
	add_u32(&b, 2);
	record = finish(&b);
	assert_int_equal(record.other.pid, 1);
	assert_int_equal(record.other.tid, 2);

	begin(&b, PERF_RECORD_ITRACE_START, 0);
	add_u32(&b, 1);
	add_u32(&b, 2);
	record = finish(&b);
	assert_int_equal(record.itrace.tid, 2);

	begin(&b, PERF_RECORD_AUX, 0);
	for (uint64_t n = 1; n <= 3; n++)
		add_u64(&b, n);
	record = finish(&b);
	assert_int_equal(record.aux.offset, 1);
	assert_int_equal(record.aux.size, 2);
	assert_int_equal(record.aux.flags, 3);

	begin(&b, 21, 0);
	add_u64(&b, 77);
	record = finish(&b);
	assert_int_equal(record.aux_output.hw_id, 77);

	begin(&b, PERF_RECORD_READ, 0);
	add_u32(&b, 1);
	add_u32(&b, 2);
	add_u64(&b, 33);
	add_u64(&b, 44);
	record = finish(&b);
	assert_int_equal(record.read.values.nr, 2);
	assert_int_equal(record_u64(&record.read.values, 1), 44);

	begin(&b, 9999, 0); /* of a kernel to come */
	add_u64(&b, 1);
	record = finish(&b);
	assert_int_equal(record.type, 9999);
	release_copy();
}

/* As others than the first event that wants such a record get it: with any bytes behind the ids. */
static void check_left_overs(struct buf *b)
{
	struct record record = {};

	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 6; k++)
			add_u64(b, UINT64_C(0xfedcba9876543210));
		set_size(b);
		assert_int_equal(parse_exactly(&record, &ids, b->data, b->len), 0);
		check_ids(&record.id);
	}
}

static void test_kernel(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	struct record record;

	(void)state;
	begin(&b, PERF_RECORD_KSYMBOL, 0);
	add_u64(&b, 0xffff1234);
	add_u32(&b, 100);
	add_u16(&b, PERF_RECORD_KSYMBOL_TYPE_BPF);
	add_u16(&b, PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
	add_text(&b, "bpf_prog_1");
	record = finish(&b);
	assert_int_equal(record.ksymbol.address, 0xffff1234);
	assert_int_equal(record.ksymbol.size, 100);
	assert_int_equal(record.ksymbol.type, PERF_RECORD_KSYMBOL_TYPE_BPF);
	assert_int_equal(record.ksymbol.flags, PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
	assert_string_equal(record.ksymbol.name, "bpf_prog_1");
	check_left_overs(&b);

	begin(&b, PERF_RECORD_BPF_EVENT, 0);
	add_u16(&b, PERF_BPF_EVENT_PROG_LOAD);
	add_u16(&b, 2);
	add_u32(&b, 3);
	buf_add(&b, "01234567", 8);
	record = finish(&b);
	assert_int_equal(record.bpf.type, PERF_BPF_EVENT_PROG_LOAD);
	assert_int_equal(record.bpf.id, 3);
	assert_memory_equal(record.bpf.tag, "01234567", 8);
	check_left_overs(&b);

	begin(&b, PERF_RECORD_CGROUP, 0);
	add_u64(&b, 4242);
	add_text(&b, "/system.slice/a.service");
	record = finish(&b);
	assert_int_equal(record.cgroup.id, 4242);
	assert_string_equal(record.cgroup.path, "/system.slice/a.service");

	begin(&b, PERF_RECORD_TEXT_POKE, 0);
	add_u64(&b, 0xffff5678);
	add_u16(&b, 2);
	add_u16(&b, 2);
	buf_add(&b, "oldn", 4);
	record = finish(&b);
	assert_int_equal(record.text_poke.address, 0xffff5678);
	assert_memory_equal(record.text_poke.bytes, "oldn", 4);

	begin(&b, PERF_RECORD_NAMESPACES, 0);
	add_u32(&b, 1);
	add_u32(&b, 2);
	add_u64(&b, 2);
	for (uint64_t n = 1; n <= 4; n++)
		add_u64(&b, n);
	record = finish(&b);
	assert_int_equal(record.namespaces.ids.nr, 2);
	assert_int_equal(record_u64(&record.namespaces.ids, 1), 2);
	release_copy();
}

/* --- samples */

#define SAMPLE_ALL ((UINT64_C(1) << 24) - 1) /* without PERF_SAMPLE_WEIGHT_STRUCT, the other form of a weight */

static const struct record_format all = {
	.sample_type = SAMPLE_ALL,
	.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED |
		       PERF_FORMAT_TOTAL_TIME_RUNNING,
	.branch_sample_type = UINT64_C(1) << 17,
	.regs_user = 0x7,
	.regs_intr = 0x3,
	.sample_id_all = true,
};

static void add_numbers(struct buf *b, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n <= to; n++)
		add_u64(b, n);
}

static void add_whole_sample(struct buf *b)
{
	begin(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	add_numbers(b, 1, 2); /* identifier, ip */
	add_u32(b, 3);
	add_u32(b, 4);
	add_numbers(b, 5, 10); /* time, addr, id, stream_id, cpu, period */
	add_u64(b, 1);	       /* read: one event, the times, value and id */
	add_numbers(b, 21, 24);
	add_u64(b, 3);
	add_numbers(b, 31, 33); /* callchain */
	add_u32(b, 4);
	buf_add(b, "raw!", 4);
	add_u64(b, 1); /* branches, with their hw_idx */
	add_numbers(b, 40, 43);
	add_u64(b, 2); /* user registers */
	add_numbers(b, 51, 53);
	add_u64(b, 8); /* stack */
	buf_add(b, "STACK---", 8);
	add_u64(b, 5);
	add_numbers(b, 61, 63); /* weight, data_src, transaction */
	add_u64(b, 0);		/* no registers */
	add_numbers(b, 71, 74); /* phys_addr, cgroup, page sizes */
	add_u64(b, 8);
	buf_add(b, "AUX DATA", 8);
	set_size(b);
}

static void check_whole_sample(const struct record *record)
{
	const struct record_sample *sample = &record->sample;

	assert_int_equal(record->id.identifier, 1);
	assert_int_equal(sample->ip, 2);
	assert_int_equal(record->id.pid, 3);
	assert_int_equal(record->id.tid, 4);
	assert_int_equal(record->id.time, 5);
	assert_int_equal(sample->addr, 6);
	assert_int_equal(record->id.id, 7);
	assert_int_equal(record->id.stream_id, 8);
	assert_int_equal(record->id.cpu, 9);
	assert_int_equal(sample->period, 10);
	assert_int_equal(sample->read.nr, 5);
	assert_int_equal(record_u64(&sample->read, 3), 23);
	assert_int_equal(sample->callchain.nr, 3);
	assert_int_equal(record_u64(&sample->callchain, 2), 33);
	assert_memory_equal(sample->raw.at, "raw!", 4);
	assert_int_equal(sample->branches.nr, 1);
	assert_int_equal(record_u64(&sample->regs_user, 2), 53);
	assert_int_equal(sample->stack_user.nr, 5);
	assert_memory_equal(sample->stack_user.at, "STACK", 5);
	assert_int_equal(sample->weight, 61);
	assert_int_equal(sample->data_src, 62);
	assert_int_equal(sample->transaction, 63);
	assert_int_equal(sample->regs_intr.nr, 0);
	assert_int_equal(sample->phys_addr, 71);
	assert_int_equal(sample->cgroup, 72);
	assert_int_equal(sample->data_page_size, 73);
	assert_int_equal(sample->code_page_size, 74);
	assert_memory_equal(sample->aux.at, "AUX DATA", 8);
}

static void test_sample(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	struct record record;

	(void)state;
	add_whole_sample(&b);
	assert_int_equal(parse_exactly(&record, &all, b.data, b.len), 0);
	check_whole_sample(&record);
	/* Every cut is found: each field is needed. */
	for (uint16_t n = 8; n < b.len; n++) {
		memcpy(b.data + 6, &n, sizeof(n));
		assert_int_equal(parse_exactly(&record, &all, b.data, n), -EBADMSG);
	}
	/* What a newer kernel adds at the end is not looked at. */
	add_u64(&b, 0);
	set_size(&b);
	assert_int_equal(parse_exactly(&record, &all, b.data, b.len), 0);
	check_whole_sample(&record);
	release_copy();
}

/* Numbers of elements that go round when they are multiplied. */
static void test_huge_numbers(void **state)
{
	static const uint64_t numbers[] = {
		4, 1000, UINT64_MAX, UINT64_MAX / 8, UINT64_MAX / 8 + 2, UINT64_C(1) << 61
	};
	const struct record_format format = { .sample_type = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_BRANCH_STACK };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		for (int branches = 0; branches < 2; branches++) {
			_cleanup_(buf_release) struct buf b = {};
			struct record record;

			begin(&b, PERF_RECORD_SAMPLE, 0);
			if (branches)
				add_u64(&b, 0);
			add_u64(&b, numbers[i]);
			add_numbers(&b, 1, 3);
			set_size(&b);
			assert_int_equal(parse_exactly(&record, &format, b.data, b.len), -EBADMSG);
		}
	}
	release_copy();
}

static void test_headers(void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	struct record record;

	(void)state;
	begin(&b, PERF_RECORD_SWITCH, 0);
	for (size_t n = 0; n < 8; n++)
		assert_int_equal(parse_exactly(&record, &ids, b.data, n), -EBADMSG);
	/* Another size than its own; and too small for its ids. */
	assert_int_equal(parse_exactly(&record, &ids, b.data, 8), -EBADMSG);
	set_size(&b);
	assert_int_equal(parse_exactly(&record, &ids, b.data, 8), -EBADMSG);
	/* A text without an end. */
	begin(&b, PERF_RECORD_COMM, 0);
	add_u64(&b, 1);
	buf_add(&b, "12345678", 8);
	add_ids(&b);
	set_size(&b);
	assert_int_equal(parse_exactly(&record, &ids, b.data, b.len), -EBADMSG);
	release_copy();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tasks),  cmocka_unit_test(test_mappings),	    cmocka_unit_test(test_build_id),
		cmocka_unit_test(test_losses), cmocka_unit_test(test_others),	    cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_sample), cmocka_unit_test(test_huge_numbers), cmocka_unit_test(test_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
