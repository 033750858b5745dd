/* SPDX-License-Identifier: MIT */

/* Tables of frames, as a sealed child leaves them: what is read of any bytes is sound. */

#include "fuzz.h"

#include "profiler/stack/frame-table.h"

#include <errno.h>
#include <sys/mman.h>

#define MAX ((size_t)1 << 20)

static void check_rule(const struct frame_rule *rule)
{
	CHECK(rule->kind > FRAME_UNKNOWN && rule->kind < _FRAME_KIND_MAX);
	CHECK(rule->reg < FRAME_REGISTERS && rule->base < FRAME_REGISTERS);
}

static void check_table(const struct frame_table *table)
{
	CHECK(table->bytes <= MAX && table->nr_rows > 0 && table->nr_rules > 0);
	for (uint32_t i = 0; i < table->nr_rows; i++) {
		const struct frame_rule *rule = frame_table_find(table, table->offsets[i]);

		CHECK(i == 0 || table->offsets[i - 1] < table->offsets[i]);
		CHECK(table->numbers[i] < table->nr_rules);
		CHECK(!rule || rule == &table->rules[table->numbers[i]]);
		if (rule)
			check_rule(rule);
	}
	CHECK(table->offsets[0] == 0 || !frame_table_find(table, table->offsets[0] - 1));
	(void)frame_table_find(table, UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(frame_table_freep) struct frame_table *table = NULL;
	_cleanup_(closep) int fd = memfd_create("table", MFD_CLOEXEC);
	int r;

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	r = frame_table_read(&table, fd, MAX);
	CHECK(r == 0 || r == -EBADMSG || r == -EFBIG);
	CHECK((r == 0) == (table != NULL));
	if (table)
		check_table(table);
	return 0;
}
