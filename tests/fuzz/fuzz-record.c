/* SPDX-License-Identifier: MIT */

/* Records of a ring buffer: the first bytes choose the format, the others are one record. */

#include "fuzz.h"

#include "base/util/cleanup.h"
#include "profiler/sample/record.h"

#include <string.h>

#define CHOICE 32

static uint64_t sum;

static void read_array(const struct record_array *array, const uint8_t *data, size_t size, size_t element)
{
	if (!array->nr)
		return;
	CHECK(array->at >= data && array->nr <= size / element);
	CHECK(array->nr * element <= (size_t)(data + size - array->at));
	for (uint64_t i = 0; element == sizeof(uint64_t) && i < array->nr; i++)
		sum += record_u64(array, i);
}

static void read_sample(const struct record_sample *sample, const uint8_t *data, size_t size)
{
	read_array(&sample->callchain, data, size, 8);
	read_array(&sample->read, data, size, 8);
	read_array(&sample->raw, data, size, 1);
	read_array(&sample->branches, data, size, 24);
	read_array(&sample->regs_user, data, size, 8);
	read_array(&sample->regs_intr, data, size, 8);
	read_array(&sample->stack_user, data, size, 1);
	read_array(&sample->aux, data, size, 1);
}

static void read_texts(const struct record *record)
{
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		CHECK(record->mapping.build_id_size <= RECORD_BUILD_ID_MAX);
		sum += strlen(record->mapping.file);
		break;
	case PERF_RECORD_COMM:
		sum += strlen(record->comm.name);
		break;
	case PERF_RECORD_KSYMBOL:
		sum += strlen(record->ksymbol.name);
		break;
	case PERF_RECORD_CGROUP:
		sum += strlen(record->cgroup.path);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record_format format = {};
	struct record record;
	uint64_t choice[4];

	if (size < CHOICE + sizeof(struct perf_event_header) || size - CHOICE > UINT16_MAX)
		return 0;
	memcpy(choice, data, sizeof(choice));
	format.sample_type = choice[0];
	format.read_format = choice[1] & 0x1f;
	format.branch_sample_type = choice[1] >> 8;
	format.regs_user = choice[2];
	format.regs_intr = choice[3];
	format.sample_id_all = choice[1] & 0x80;
	data += CHOICE;
	size -= CHOICE;
	if (record_parse(&record, &format, data, size) < 0)
		return 0;
	if (record.type == PERF_RECORD_SAMPLE)
		read_sample(&record.sample, data, size);
	else
		read_texts(&record);
	return 0;
}
