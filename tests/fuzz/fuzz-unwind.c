/* SPDX-License-Identifier: MIT */

/* Stacks, registers and rules: whatever they are, unwinding comes to an end, within its bounds. */

#include "fuzz.h"

#include "profiler/stack/unwind.h"

#include <string.h>

#define RULES_MAX 8

struct input {
	struct frame_rule rules[RULES_MAX];
	struct unwind_registers registers;
};

/* By the address: one of the rules, or none. */
static enum unwind_code find(void *userdata, uint64_t address, const struct frame_rule **ret)
{
	const struct input *input = userdata;

	if (address % 16 > RULES_MAX)
		return UNWIND_NO_CODE;
	if (address % 16 == RULES_MAX)
		return UNWIND_NO_RULE;
	*ret = &input->rules[address % 16];
	return UNWIND_RULE;
}

/* As frame_table_read() lets them pass. */
static void make_sound(struct frame_rule *rule)
{
	rule->kind = FRAME_OUTERMOST + rule->kind % (_FRAME_KIND_MAX - FRAME_OUTERMOST);
	rule->reg %= FRAME_REGISTERS;
	rule->base %= FRAME_REGISTERS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind_frame frames[UNWIND_FRAMES_MAX];
	struct unwind_copy copy = {};
	struct input input = {};
	enum stack_end end;
	size_t nr;

	if (size < sizeof(input))
		return 0;
	memcpy(&input, data, sizeof(input));
	for (size_t i = 0; i < RULES_MAX; i++)
		make_sound(&input.rules[i]);
	input.registers.machine = input.registers.machine % 2 ? UNWIND_ARM64 : UNWIND_X86_64;
	input.registers.known &= UINT32_MAX;
	copy.start = input.registers.values[input.registers.machine == UNWIND_ARM64 ? 31 : 7];
	copy.bytes = data + sizeof(input);
	copy.size = size - sizeof(input);
	end = unwind(&input.registers, &copy, find, &input, frames, &nr);
	CHECK(end > STACK_FRAME_POINTERS && end < _STACK_END_MAX);
	CHECK(nr > 0 && nr <= UNWIND_FRAMES_MAX);
	CHECK(frames[0].address == input.registers.address && !frames[0].is_return);
	return 0;
}
