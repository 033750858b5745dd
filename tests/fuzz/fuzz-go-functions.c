/* SPDX-License-Identifier: MIT */

/* Tables of Go's runtime: whatever is in one, its functions end behind their beginning, their names are in the file,
 * and steps are in their function and in order. */

#include "fuzz.h"

#include "profiler/naming/go-functions.h"

#include <string.h>

/* Hostile tables may share the steps of one function. */
#define FUNCTIONS_MAX 1000

static void check_steps(const struct go_table *table, const struct go_function *function)
{
	struct go_steps steps = go_steps_begin(table, function);
	uint64_t start, end, at = function->start;
	int64_t size;

	while (go_steps_next(&steps, &start, &end, &size)) {
		CHECK(start == at && start < end && end <= function->end);
		at = end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct go_function function;
	struct elf_image image;
	struct go_table table;
	uint64_t number = 0;

	if (!elf_image_open(&image, (struct elf_bytes){ data, size }) || !go_table_find(&image, &table))
		return 0;
	CHECK(go_table_is_there(&image));
	for (unsigned i = 0; i < FUNCTIONS_MAX && go_table_next(&table, &number, &function); i++) {
		CHECK(function.start < function.end);
		if (function.name)
			CHECK(function.name[0] && strlen(function.name) < GO_NAME_MAX);
		check_steps(&table, &function);
	}
	return 0;
}
