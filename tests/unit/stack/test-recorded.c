/* SPDX-License-Identifier: MIT */

/* Stacks of an arm64 program, recorded in a guest (tests/guest/record_stacks.py), are unwound on any machine to the
 * same frames as there, where libdw has confirmed them. */

#include "base/util/cleanup.h"
#include "setup/recorded-stacks.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int setup(void **state)
{
	static struct recorded_stacks recorded;
	int r = recorded_stacks_read(&recorded, RECORDED);

	if (r < 0)
		fail_msg("%s: %s", RECORDED, strerror(-r));
	*state = &recorded;
	return 0;
}

static int teardown(void **state)
{
	recorded_stacks_release(*state);
	return 0;
}

static void test_frames(void **state)
{
	struct recorded_stacks *recorded = *state;
	size_t frames = 0, confirmed = 0, ends[_STACK_END_MAX] = {};

	for (size_t i = 0; i < recorded->nr; i++) {
		const struct recorded_stack *stack = &recorded->stacks[i];
		struct unwind_frame found[UNWIND_FRAMES_MAX];
		size_t nr;

		assert_int_equal(stack->registers.machine, UNWIND_ARM64);
		assert_int_equal(unwind(&stack->registers, &stack->copy, recorded_stacks_find, recorded, found, &nr),
				 stack->end);
		assert_int_equal(nr, stack->nr);
		for (size_t j = 0; j < nr; j++) {
			assert_int_equal(found[j].address, stack->frames[j]);
			assert_int_equal(found[j].is_return, stack->is_return[j]);
		}
		ends[stack->end]++;
		frames += nr;
		confirmed += stack->confirmed;
	}
	assert_true(recorded->nr >= 20);
	assert_true(frames > 200 && confirmed >= frames / 2);
	assert_true(ends[STACK_WHOLE] >= 10 && ends[STACK_CUT] >= 3);
}

/* Where pointers are signed (PAC), return addresses on the stack have a signature above their 48 bits. */
static void test_signed(void **state)
{
	struct recorded_stacks *recorded = *state;
	size_t nr_signed = 0;

	for (size_t i = 0; i < recorded->nr; i++) {
		const struct recorded_stack *stack = &recorded->stacks[i];
		struct unwind_frame found[UNWIND_FRAMES_MAX];
		_cleanup_(freep) unsigned char *bytes = malloc(stack->copy.size);
		struct unwind_copy copy = { stack->copy.start, bytes, stack->copy.size };
		size_t nr;

		assert_non_null(bytes);
		memcpy(bytes, stack->copy.bytes, copy.size);
		for (size_t at = 0; at + sizeof(uint64_t) <= copy.size; at += sizeof(uint64_t))
			for (size_t j = 1; j < stack->nr; j++)
				if (stack->is_return[j] &&
				    memcmp(bytes + at, &stack->frames[j], sizeof(uint64_t)) == 0) {
					bytes[at + 6] = 0x2a;
					nr_signed++;
					break;
				}
		(void)unwind(&stack->registers, &copy, recorded_stacks_find, recorded, found, &nr);
		assert_int_equal(nr, stack->nr);
		for (size_t j = 0; j < nr; j++)
			assert_int_equal(found[j].address, stack->frames[j]);
	}
	assert_true(nr_signed > 100);
}

/* A copy that ends earlier has the same frames, as far as it goes. */
static void test_shorter(void **state)
{
	struct recorded_stacks *recorded = *state;
	size_t cut = 0;

	for (size_t i = 0; i < recorded->nr; i++) {
		const struct recorded_stack *stack = &recorded->stacks[i];
		struct unwind_frame found[UNWIND_FRAMES_MAX];
		struct unwind_copy copy = stack->copy;
		enum stack_end end;
		size_t nr;

		copy.size /= 16;
		end = unwind(&stack->registers, &copy, recorded_stacks_find, recorded, found, &nr);
		assert_true(nr <= stack->nr);
		for (size_t j = 0; j < nr; j++)
			assert_int_equal(found[j].address, stack->frames[j]);
		assert_true(nr == stack->nr || end == STACK_CUT);
		cut += end == STACK_CUT && nr < stack->nr;
	}
	assert_true(cut > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_signed),
		cmocka_unit_test(test_shorter),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
