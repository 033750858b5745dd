/* SPDX-License-Identifier: MIT */

#include "profiler/stack/go-rules.h"

#include "profiler/naming/go-functions.h"

#include <errno.h>
#include <string.h>

#define WORD 8

/* The first function of each of Go's threads. With cgo, C has called it, by code that has no rules: the stack ends here
 * all the same, as that of a goroutine does in runtime.goexit. */
#define THREAD_ENTRY "runtime.mstart"

/* Registers by DWARF's numbers. */
struct machine {
	unsigned elf; /* e_machine */
	uint8_t stack, back;
	uint8_t pushed; /* bytes that a call puts on the stack; 0: the function stores the return address itself */
};

static const struct machine machines[] = {
	{ EM_X86_64, 7, 16, WORD },
	{ EM_AARCH64, 31, 30, 0 },
};

/* size: bytes on the stack. FRAME_UNKNOWN: the size makes no sense. */
static struct frame_rule make_rule(const struct machine *machine, int64_t size)
{
	struct frame_rule rule = { .kind = FRAME_CFA, .reg = machine->stack, .flags = FRAME_POINTERS };

	if (size < 0 || size % WORD || size > INT32_MAX - WORD ||
	    (!machine->pushed && -(size / WORD) < FRAME_SAVED_MIN))
		return (struct frame_rule){ .kind = FRAME_UNKNOWN };
	rule.offset = (int32_t)size + machine->pushed;
	for (size_t i = 0; i < FRAME_REGISTERS; i++)
		rule.saved[i] = FRAME_SAME;
	if (machine->pushed)
		rule.saved[machine->back] = -1;
	else if (size)
		rule.saved[machine->back] = (int16_t) - (size / WORD);
	return rule;
}

static int add_rule(struct frame_builder *builder, const struct elf_image *image, uint64_t start, uint64_t end,
		    const struct frame_rule *rule)
{
	uint64_t first, last;

	/* Both ends have to be in one segment, so that the file has all of the code. */
	if (!elf_image_offset(image, start, &first) || !elf_image_offset(image, end - 1, &last) ||
	    last - first != end - 1 - start)
		return 0;
	return frame_builder_add(builder, first, last + 1, rule);
}

/* The number of its rules. */
static int add_function(struct frame_builder *builder, const struct elf_image *image, const struct machine *machine,
			const struct go_table *table, const struct go_function *function)
{
	static const struct frame_rule outermost = { .kind = FRAME_OUTERMOST };
	struct go_steps steps = go_steps_begin(table, function);
	uint64_t start, end;
	int64_t size;
	int r = 0, nr = 0;

	if (function->name && strcmp(function->name, THREAD_ENTRY) == 0)
		return add_rule(builder, image, function->start, function->end, &outermost);
	for (; r == 0 && go_steps_next(&steps, &start, &end, &size); nr++) {
		struct frame_rule rule = make_rule(machine, size);

		r = add_rule(builder, image, start, end, &rule);
	}
	return r < 0 ? r : nr;
}

int go_rules_add(struct frame_builder *builder, const struct elf_image *image)
{
	const struct machine *machine = NULL;
	struct go_function function;
	struct go_table table;
	uint64_t number = 0;
	bool has_some = false;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].elf == image->header.e_machine)
			machine = &machines[i];
	if (!machine || !go_table_find(image, &table))
		return -ENODATA;
	while (r >= 0 && go_table_next(&table, &number, &function)) {
		r = add_function(builder, image, machine, &table, &function);
		has_some |= r > 0;
	}
	if (r < 0)
		return r;
	return has_some ? 0 : -ENODATA;
}
