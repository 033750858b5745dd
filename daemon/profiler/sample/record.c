/* SPDX-License-Identifier: MIT */

#include "profiler/sample/record.h"

#include "base/util/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* Members of newer kernels' headers, whose values are fixed. */
#define SAMPLE_WEIGHT_STRUCT (UINT64_C(1) << 24)
#define SAMPLE_CODE_PAGE_SIZE (UINT64_C(1) << 23)
#define SAMPLE_DATA_PAGE_SIZE (UINT64_C(1) << 22)
#define READ_LOST (UINT64_C(1) << 4)
#define MISC_MMAP_BUILD_ID (1 << 14)
#define BRANCH_HW_INDEX (UINT64_C(1) << 17)
#define BRANCH_COUNTERS (UINT64_C(1) << 19)
#define RECORD_TYPE_AUX_OUTPUT_HW_ID 21

#define WORD sizeof(uint64_t)

/* The part of a record that is not read yet. */
struct cursor {
	const unsigned char *at;
	size_t left;
	bool bad;
};

/* The next n bytes, or NULL. */
static const unsigned char *take_bytes(struct cursor *cursor, uint64_t n)
{
	const unsigned char *at = cursor->at;

	if (cursor->bad || n > cursor->left) {
		cursor->bad = true;
		return NULL;
	}
	cursor->at += n;
	cursor->left -= n;
	return at;
}

static void take_value(struct cursor *cursor, void *ret, size_t size)
{
	const unsigned char *at = take_bytes(cursor, size);

	if (at)
		memcpy(ret, at, size);
	else
		memset(ret, 0, size);
}

static uint64_t take_u64(struct cursor *cursor)
{
	uint64_t value;

	take_value(cursor, &value, sizeof(value));
	return value;
}

static uint32_t take_u32(struct cursor *cursor)
{
	uint32_t value;

	take_value(cursor, &value, sizeof(value));
	return value;
}

static uint16_t take_u16(struct cursor *cursor)
{
	uint16_t value;

	take_value(cursor, &value, sizeof(value));
	return value;
}

/* nr elements of size bytes. */
static struct record_array take_array(struct cursor *cursor, uint64_t nr, size_t size)
{
	struct record_array array = { .nr = nr };

	if (nr > cursor->left / size)
		cursor->bad = true;
	array.at = take_bytes(cursor, cursor->bad ? 0 : nr * size);
	if (cursor->bad)
		array = (struct record_array){};
	return array;
}

/* A text, with its NUL in what is left. */
static const char *take_text(struct cursor *cursor)
{
	const unsigned char *end = cursor->left ? memchr(cursor->at, '\0', cursor->left) : NULL;

	if (!end)
		cursor->bad = true;
	return cursor->bad ? "" : (const char *)take_bytes(cursor, (uint64_t)(end - cursor->at) + 1);
}

uint64_t record_u64(const struct record_array *array, uint64_t index)
{
	uint64_t value;

	assert(index < array->nr);
	memcpy(&value, array->at + index * WORD, WORD);
	return value;
}

/* --- struct sample_id, at the end */

static size_t sample_id_size(const struct record_format *format)
{
	const uint64_t parts = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;

	return format->sample_id_all ? (size_t)__builtin_popcountll(format->sample_type & parts) * WORD : 0;
}

static void parse_sample_id(struct record_id *ret, const struct record_format *format, struct cursor *cursor)
{
	const uint64_t type = format->sample_type;
	size_t size = sample_id_size(format);
	struct cursor end;

	if (!size)
		return;
	if (cursor->left < size) {
		cursor->bad = true;
		return;
	}
	cursor->left -= size;
	end = (struct cursor){ .at = cursor->at + cursor->left, .left = size };
	if (type & PERF_SAMPLE_TID) {
		ret->pid = take_u32(&end);
		ret->tid = take_u32(&end);
	}
	if (type & PERF_SAMPLE_TIME)
		ret->time = take_u64(&end);
	if (type & PERF_SAMPLE_ID)
		ret->id = take_u64(&end);
	if (type & PERF_SAMPLE_STREAM_ID)
		ret->stream_id = take_u64(&end);
	if (type & PERF_SAMPLE_CPU)
		ret->cpu = (uint32_t)take_u64(&end);
	if (type & PERF_SAMPLE_IDENTIFIER)
		ret->identifier = take_u64(&end);
}

/* --- samples */

/* The values of read(2), whose number follows from the format. */
static struct record_array take_read(struct cursor *cursor, uint64_t read_format)
{
	uint64_t times = (read_format & PERF_FORMAT_TOTAL_TIME_ENABLED ? 1 : 0) +
			 (read_format & PERF_FORMAT_TOTAL_TIME_RUNNING ? 1 : 0);
	uint64_t each = 1 + (read_format & PERF_FORMAT_ID ? 1 : 0) + (read_format & READ_LOST ? 1 : 0);
	struct cursor ahead = *cursor;
	uint64_t nr;

	if (!(read_format & PERF_FORMAT_GROUP))
		return take_array(cursor, times + each, WORD);
	nr = take_u64(&ahead);
	if (ahead.bad || nr > ahead.left / WORD) {
		cursor->bad = true;
		return (struct record_array){};
	}
	return take_array(cursor, 1 + times + nr * each, WORD);
}

static void parse_sample_head(struct record *ret, const struct record_format *format, struct cursor *cursor)
{
	const uint64_t type = format->sample_type;

	if (type & PERF_SAMPLE_IDENTIFIER)
		ret->id.identifier = take_u64(cursor);
	if (type & PERF_SAMPLE_IP)
		ret->sample.ip = take_u64(cursor);
	if (type & PERF_SAMPLE_TID) {
		ret->id.pid = take_u32(cursor);
		ret->id.tid = take_u32(cursor);
	}
	if (type & PERF_SAMPLE_TIME)
		ret->id.time = take_u64(cursor);
	if (type & PERF_SAMPLE_ADDR)
		ret->sample.addr = take_u64(cursor);
	if (type & PERF_SAMPLE_ID)
		ret->id.id = take_u64(cursor);
	if (type & PERF_SAMPLE_STREAM_ID)
		ret->id.stream_id = take_u64(cursor);
	if (type & PERF_SAMPLE_CPU)
		ret->id.cpu = (uint32_t)take_u64(cursor);
	if (type & PERF_SAMPLE_PERIOD)
		ret->sample.period = take_u64(cursor);
}

static void take_branches(struct record_sample *ret, const struct record_format *format, struct cursor *cursor)
{
	uint64_t nr = take_u64(cursor);

	if (format->branch_sample_type & BRANCH_HW_INDEX)
		(void)take_u64(cursor);
	ret->branches = take_array(cursor, nr, 3 * WORD);
	if (format->branch_sample_type & BRANCH_COUNTERS)
		(void)take_array(cursor, cursor->bad ? 0 : nr, WORD);
}

/* With an ABI of 0 no registers follow. */
static struct record_array take_registers(struct cursor *cursor, uint64_t mask, uint64_t *ret_abi)
{
	*ret_abi = take_u64(cursor);
	return take_array(cursor, *ret_abi ? (uint64_t)__builtin_popcountll(mask) : 0, WORD);
}

static void take_stack(struct record_sample *ret, struct cursor *cursor)
{
	uint64_t size = take_u64(cursor), used;

	ret->stack_user = take_array(cursor, size, 1);
	if (size == 0)
		return;
	used = take_u64(cursor);
	if (used < ret->stack_user.nr)
		ret->stack_user.nr = used;
}

/* Those whose number stands in the sample itself. */
static void parse_sample_arrays(struct record_sample *ret, const struct record_format *format, struct cursor *cursor)
{
	const uint64_t type = format->sample_type;

	if (type & PERF_SAMPLE_READ)
		ret->read = take_read(cursor, format->read_format);
	if (type & PERF_SAMPLE_CALLCHAIN)
		ret->callchain = take_array(cursor, take_u64(cursor), WORD);
	if (type & PERF_SAMPLE_RAW)
		ret->raw = take_array(cursor, take_u32(cursor), 1);
	if (type & PERF_SAMPLE_BRANCH_STACK)
		take_branches(ret, format, cursor);
	if (type & PERF_SAMPLE_REGS_USER)
		ret->regs_user = take_registers(cursor, format->regs_user, &ret->regs_user_abi);
	if (type & PERF_SAMPLE_STACK_USER)
		take_stack(ret, cursor);
}

static void parse_sample_tail(struct record_sample *ret, const struct record_format *format, struct cursor *cursor)
{
	const uint64_t type = format->sample_type;

	if (type & (PERF_SAMPLE_WEIGHT | SAMPLE_WEIGHT_STRUCT))
		ret->weight = take_u64(cursor);
	if (type & PERF_SAMPLE_DATA_SRC)
		ret->data_src = take_u64(cursor);
	if (type & PERF_SAMPLE_TRANSACTION)
		ret->transaction = take_u64(cursor);
	if (type & PERF_SAMPLE_REGS_INTR)
		ret->regs_intr = take_registers(cursor, format->regs_intr, &ret->regs_intr_abi);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		ret->phys_addr = take_u64(cursor);
	if (type & PERF_SAMPLE_CGROUP)
		ret->cgroup = take_u64(cursor);
	if (type & SAMPLE_DATA_PAGE_SIZE)
		ret->data_page_size = take_u64(cursor);
	if (type & SAMPLE_CODE_PAGE_SIZE)
		ret->code_page_size = take_u64(cursor);
	if (type & PERF_SAMPLE_AUX)
		ret->aux = take_array(cursor, take_u64(cursor), 1);
}

static void parse_sample(struct record *ret, const struct record_format *format, struct cursor *cursor)
{
	parse_sample_head(ret, format, cursor);
	parse_sample_arrays(&ret->sample, format, cursor);
	parse_sample_tail(&ret->sample, format, cursor);
}

/* --- the other types */

static void parse_mapping(struct record *ret, struct cursor *cursor)
{
	struct record_mapping *mapping = &ret->mapping;

	mapping->pid = take_u32(cursor);
	mapping->tid = take_u32(cursor);
	mapping->start = take_u64(cursor);
	mapping->size = take_u64(cursor);
	mapping->offset = take_u64(cursor);
	if (ret->type == PERF_RECORD_MMAP2 && ret->misc & MISC_MMAP_BUILD_ID) {
		const unsigned char *head = take_bytes(cursor, 4);

		mapping->build_id = take_bytes(cursor, RECORD_BUILD_ID_MAX);
		mapping->build_id_size = head ? head[0] : 0;
		if (mapping->build_id_size > RECORD_BUILD_ID_MAX)
			cursor->bad = true;
	} else if (ret->type == PERF_RECORD_MMAP2) {
		mapping->has_inode = true;
		mapping->major = take_u32(cursor);
		mapping->minor = take_u32(cursor);
		mapping->inode = take_u64(cursor);
		mapping->generation = take_u64(cursor);
	}
	if (ret->type == PERF_RECORD_MMAP2) {
		mapping->prot = take_u32(cursor);
		mapping->flags = take_u32(cursor);
	}
	mapping->file = take_text(cursor);
}

static void parse_comm(struct record *ret, struct cursor *cursor)
{
	ret->comm.pid = take_u32(cursor);
	ret->comm.tid = take_u32(cursor);
	ret->comm.name = take_text(cursor);
}

static void parse_task(struct record *ret, struct cursor *cursor)
{
	ret->task.pid = take_u32(cursor);
	ret->task.ppid = take_u32(cursor);
	ret->task.tid = take_u32(cursor);
	ret->task.ptid = take_u32(cursor);
	ret->task.time = take_u64(cursor);
}

static void parse_lost(struct record *ret, struct cursor *cursor)
{
	if (ret->type == PERF_RECORD_LOST)
		ret->lost.id = take_u64(cursor);
	ret->lost.lost = take_u64(cursor);
}

static void parse_throttle(struct record *ret, struct cursor *cursor)
{
	ret->throttle.time = take_u64(cursor);
	ret->throttle.id = take_u64(cursor);
	ret->throttle.stream_id = take_u64(cursor);
}

static void parse_read(struct record *ret, struct cursor *cursor)
{
	ret->read.pid = take_u32(cursor);
	ret->read.tid = take_u32(cursor);
	ret->read.values = take_array(cursor, cursor->left / WORD, WORD);
}

static void parse_aux(struct record *ret, struct cursor *cursor)
{
	ret->aux.offset = take_u64(cursor);
	ret->aux.size = take_u64(cursor);
	ret->aux.flags = take_u64(cursor);
}

static void parse_itrace(struct record *ret, struct cursor *cursor)
{
	ret->itrace.pid = take_u32(cursor);
	ret->itrace.tid = take_u32(cursor);
}

static void parse_other(struct record *ret, struct cursor *cursor)
{
	ret->other.pid = take_u32(cursor);
	ret->other.tid = take_u32(cursor);
}

static void parse_namespaces(struct record *ret, struct cursor *cursor)
{
	uint64_t nr;

	ret->namespaces.pid = take_u32(cursor);
	ret->namespaces.tid = take_u32(cursor);
	nr = take_u64(cursor);
	if (nr > RECORD_NAMESPACES_MAX)
		cursor->bad = true;
	ret->namespaces.ids = take_array(cursor, nr, 2 * WORD);
}

static void parse_ksymbol(struct record *ret, struct cursor *cursor)
{
	ret->ksymbol.address = take_u64(cursor);
	ret->ksymbol.size = take_u32(cursor);
	ret->ksymbol.type = take_u16(cursor);
	ret->ksymbol.flags = take_u16(cursor);
	ret->ksymbol.name = take_text(cursor);
	/* Padded with zeroes; all before it are whole words. */
	(void)take_bytes(cursor, -(strlen(ret->ksymbol.name) + 1) % WORD);
}

static void parse_bpf(struct record *ret, struct cursor *cursor)
{
	ret->bpf.type = take_u16(cursor);
	ret->bpf.flags = take_u16(cursor);
	ret->bpf.id = take_u32(cursor);
	ret->bpf.tag = take_bytes(cursor, RECORD_BPF_TAG);
}

static void parse_cgroup(struct record *ret, struct cursor *cursor)
{
	ret->cgroup.id = take_u64(cursor);
	ret->cgroup.path = take_text(cursor);
}

static void parse_text_poke(struct record *ret, struct cursor *cursor)
{
	ret->text_poke.address = take_u64(cursor);
	ret->text_poke.old_size = take_u16(cursor);
	ret->text_poke.new_size = take_u16(cursor);
	ret->text_poke.bytes = take_bytes(cursor, (uint64_t)ret->text_poke.old_size + ret->text_poke.new_size);
}

static void parse_aux_output(struct record *ret, struct cursor *cursor)
{
	ret->aux_output.hw_id = take_u64(cursor);
}

/* Types without a parser have nothing but the sample_id (SWITCH), or are not known. */
static void (*const parsers[])(struct record *ret, struct cursor *cursor) = {
	[PERF_RECORD_MMAP] = parse_mapping,
	[PERF_RECORD_LOST] = parse_lost,
	[PERF_RECORD_COMM] = parse_comm,
	[PERF_RECORD_EXIT] = parse_task,
	[PERF_RECORD_THROTTLE] = parse_throttle,
	[PERF_RECORD_UNTHROTTLE] = parse_throttle,
	[PERF_RECORD_FORK] = parse_task,
	[PERF_RECORD_READ] = parse_read,
	[PERF_RECORD_MMAP2] = parse_mapping,
	[PERF_RECORD_AUX] = parse_aux,
	[PERF_RECORD_ITRACE_START] = parse_itrace,
	[PERF_RECORD_LOST_SAMPLES] = parse_lost,
	[PERF_RECORD_SWITCH_CPU_WIDE] = parse_other,
	[PERF_RECORD_NAMESPACES] = parse_namespaces,
	[PERF_RECORD_KSYMBOL] = parse_ksymbol,
	[PERF_RECORD_BPF_EVENT] = parse_bpf,
	[PERF_RECORD_CGROUP] = parse_cgroup,
	[PERF_RECORD_TEXT_POKE] = parse_text_poke,
	[RECORD_TYPE_AUX_OUTPUT_HW_ID] = parse_aux_output,
};

/* Its size may be too large. */
static bool has_left_overs(uint32_t type)
{
	return type == PERF_RECORD_KSYMBOL || type == PERF_RECORD_BPF_EVENT;
}

static void parse_other_type(struct record *ret, const struct record_format *format, struct cursor *cursor)
{
	struct cursor whole = *cursor;

	if (has_left_overs(ret->type)) {
		parsers[ret->type](ret, &whole);
		if (!whole.bad && whole.left > sample_id_size(format))
			cursor->left -= whole.left - sample_id_size(format);
	}
	parse_sample_id(&ret->id, format, cursor);
	if (ret->type < ARRAY_SIZE(parsers) && parsers[ret->type])
		parsers[ret->type](ret, cursor);
}

int record_parse(struct record *ret, const struct record_format *format, const void *data, size_t size)
{
	struct perf_event_header header;
	struct record record = {};
	struct cursor cursor;

	if (size < sizeof(header))
		return -EBADMSG;
	memcpy(&header, data, sizeof(header));
	if (header.size != size)
		return -EBADMSG;
	record.type = header.type;
	record.misc = header.misc;
	cursor = (struct cursor){
		.at = (const unsigned char *)data + sizeof(header),
		.left = size - sizeof(header),
	};
	if (header.type == PERF_RECORD_SAMPLE)
		parse_sample(&record, format, &cursor);
	else
		parse_other_type(&record, format, &cursor);
	if (cursor.bad)
		return -EBADMSG;
	*ret = record;
	return 0;
}
