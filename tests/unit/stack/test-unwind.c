/* SPDX-License-Identifier: MIT */

/* Callers by rules and by frame pointers, on copies made by hand, of both architectures. */

#include "profiler/stack/unwind.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SP UINT64_C(0x7ffd00000000)
#define CODE UINT64_C(0x400000)

/* Functions of 0x100 bytes, one behind the other from CODE on. */
#define AT(function) (CODE + 0x100 * (uint64_t)(function) + 0x10)
#define NR_FUNCTIONS 16

struct world {
	const struct frame_rule *rules[NR_FUNCTIONS]; /* NULL: code without */
	uint64_t words[80];
	struct unwind_copy copy;
	struct unwind_registers registers;
	struct unwind_frame frames[UNWIND_FRAMES_MAX];
	size_t nr;
};

static enum unwind_code find(void *userdata, uint64_t address, const struct frame_rule **ret)
{
	const struct world *world = userdata;

	if (address < CODE || address >= CODE + 0x100 * NR_FUNCTIONS)
		return UNWIND_NO_CODE;
	*ret = world->rules[(address - CODE) / 0x100];
	return *ret ? UNWIND_RULE : UNWIND_NO_RULE;
}

static struct frame_rule rule_of(enum frame_kind kind, uint8_t reg, int32_t offset)
{
	struct frame_rule rule = { .kind = kind & 0xff, .reg = reg, .offset = offset };

	for (size_t i = 0; i < FRAME_REGISTERS; i++)
		rule.saved[i] = FRAME_SAME;
	return rule;
}

/* CFA = rsp + size, the return address below it. */
static struct frame_rule plain_rule(int32_t size)
{
	struct frame_rule rule = rule_of(FRAME_CFA, 7, size);

	rule.saved[16] = -1;
	return rule;
}

static void set(struct world *world, unsigned reg, uint64_t value)
{
	world->registers.values[reg] = value;
	world->registers.known |= UINT64_C(1) << reg;
}

static void begin(struct world *world, enum unwind_machine machine, uint64_t address)
{
	*world = (struct world){ .registers = { .machine = machine, .address = address } };
	world->copy = (struct unwind_copy){ SP, (const unsigned char *)world->words, sizeof(world->words) };
	set(world, machine == UNWIND_X86_64 ? 7 : 31, SP);
}

static const struct frame_rule outermost = { .kind = FRAME_OUTERMOST };

static void check(struct world *world, enum stack_end end, const uint64_t *expected, size_t nr)
{
	assert_int_equal(unwind(&world->registers, &world->copy, find, world, world->frames, &world->nr), end);
	assert_int_equal(world->nr, nr);
	for (size_t i = 0; i < nr; i++)
		assert_int_equal(world->frames[i].address, expected[i]);
}

#define CHECK(world, end, ...)                                                                                         \
	do {                                                                                                           \
		const uint64_t expected_[] = { __VA_ARGS__ };                                                          \
		check(world, end, expected_, sizeof(expected_) / sizeof(*expected_));                                  \
	} while (0)

static void test_plain(void **state)
{
	const struct frame_rule leaf = plain_rule(8), middle = plain_rule(32);
	struct world world;

	(void)state;
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[1] = &leaf;
	world.rules[2] = &middle;
	world.rules[3] = &outermost;
	world.words[0] = AT(2);
	world.words[4] = AT(3);
	CHECK(&world, STACK_WHOLE, AT(1), AT(2), AT(3));
	assert_false(world.frames[0].is_return);
	assert_true(world.frames[1].is_return && world.frames[2].is_return);
	/* A return address at the end of a function that never returns: the call is in the function before. */
	world.words[0] = CODE + 0x300;
	CHECK(&world, STACK_WHOLE, AT(1), CODE + 0x300, AT(3));
	/* No caller at all. */
	world.words[0] = 0;
	CHECK(&world, STACK_WHOLE, AT(1));
	/* The caller is no code. */
	world.words[0] = 12345;
	CHECK(&world, STACK_LOST, AT(1));
}

/* A frame of a size that is known at run time: by rbp, and rbx from where it was saved. */
static void test_saved_registers(void **state)
{
	struct frame_rule inner = plain_rule(24), outer = rule_of(FRAME_CFA, 6, 16), third = rule_of(FRAME_CFA, 3, 8);
	struct world world;

	(void)state;
	inner.saved[3] = -2; /* rbx */
	inner.saved[6] = -3; /* rbp */
	outer.saved[16] = -1;
	outer.saved[6] = -2;
	third.saved[16] = -1;
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[1] = &inner;
	world.rules[2] = &outer;
	world.rules[3] = &third;
	world.rules[4] = &outermost;
	world.words[0] = SP + 10 * 8; /* rbp */
	world.words[1] = SP + 20 * 8; /* rbx */
	world.words[2] = AT(2);
	world.words[10] = 0;
	world.words[11] = AT(3);
	world.words[20] = AT(4);
	CHECK(&world, STACK_WHOLE, AT(1), AT(2), AT(3), AT(4));
	/* A register that is needed and not known. */
	inner.saved[6] = FRAME_UNDEFINED;
	CHECK(&world, STACK_LOST, AT(1), AT(2));
	/* … and one that is in another. */
	inner.saved[6] = FRAME_REGISTER_0 + 12;
	CHECK(&world, STACK_LOST, AT(1), AT(2));
	set(&world, 12, SP + 10 * 8);
	CHECK(&world, STACK_WHOLE, AT(1), AT(2), AT(3), AT(4));
	/* The CFA in memory, as of a realigned stack. */
	outer.kind = FRAME_CFA_LOADED;
	outer.offset = -8;
	world.words[9] = SP + 12 * 8;
	CHECK(&world, STACK_WHOLE, AT(1), AT(2), AT(3), AT(4));
}

static void test_signal(void **state)
{
	const struct frame_rule handler = plain_rule(8), interrupted = plain_rule(16);
	struct frame_rule trampoline = rule_of(FRAME_CFA_LOADED, 7, 160);
	struct world world;

	(void)state;
	trampoline.flags = FRAME_SIGNAL;
	trampoline.base = 7;
	trampoline.from_base = 1 << 16 | 1 << 7;
	trampoline.saved[16] = 21; /* from rsp */
	trampoline.saved[7] = 20;
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[1] = &handler;
	world.rules[2] = &trampoline;
	world.rules[3] = &interrupted;
	world.rules[4] = &outermost;
	world.words[0] = AT(2);
	world.words[1 + 20] = SP + 40 * 8;
	world.words[1 + 21] = CODE + 0x300; /* the first instruction: nothing is before it */
	world.words[41] = AT(4);
	CHECK(&world, STACK_WHOLE, AT(1), AT(2), CODE + 0x300, AT(4));
	assert_false(world.frames[2].is_return);
	/* The handler had a stack of its own: the other one is not in the copy. */
	world.words[1 + 20] = SP - 40 * 8;
	CHECK(&world, STACK_CUT, AT(1), AT(2), CODE + 0x300);
	world.words[1 + 20] = SP + 400 * 8;
	CHECK(&world, STACK_CUT, AT(1), AT(2), CODE + 0x300);
}

/* All registers from the kernel's frame; on arm64 also x30, besides the address, so that a function that calls none has
 * its caller. */
static void test_sigreturn(void **state)
{
	const struct frame_rule plain = plain_rule(8), leaf = rule_of(FRAME_CFA, 31, 0);
	const struct frame_rule trampoline = { .kind = FRAME_SIGRETURN };
	struct world world;

	(void)state;
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[1] = world.rules[3] = &plain;
	world.rules[2] = &trampoline;
	world.rules[4] = &outermost;
	world.words[0] = AT(2);
	world.words[1 + 20] = SP + 40 * 8;
	world.words[1 + 21] = CODE + 0x300;
	world.words[40] = AT(4);
	CHECK(&world, STACK_WHOLE, AT(1), AT(2), CODE + 0x300, AT(4));
	assert_false(world.frames[2].is_return);
	world.words[1 + 20] = SP + 40 * 8 + 4;
	CHECK(&world, STACK_LOST, AT(1), AT(2));
	world.copy.size = 20 * 8;
	CHECK(&world, STACK_CUT, AT(1), AT(2));

	begin(&world, UNWIND_ARM64, AT(2));
	world.rules[2] = &trampoline;
	world.rules[3] = &leaf;
	world.rules[4] = &outermost;
	world.words[39 + 30] = AT(4) | UINT64_C(0x2a) << 48; /* signed */
	world.words[70] = SP + 75 * 8;
	world.words[71] = AT(3);
	CHECK(&world, STACK_WHOLE, AT(2), AT(3), AT(4));
}

/* A return address that is the beginning of a function, and no code is before it. */
static void test_beginning(void **state)
{
	struct frame_rule plain = plain_rule(8);
	struct world world;

	(void)state;
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[1] = world.rules[3] = &plain;
	world.rules[4] = &outermost;
	world.words[0] = CODE + 0x300;
	world.words[1] = AT(4);
	/* In C, code without rules has called what does not return. */
	CHECK(&world, STACK_NO_TABLE, AT(1), CODE + 0x300);
	assert_true(world.frames[1].is_return);
	plain.flags = FRAME_POINTERS;
	CHECK(&world, STACK_WHOLE, AT(1), CODE + 0x300, AT(4));
	assert_false(world.frames[1].is_return);
}

/* Code that keeps frame pointers, where it changes the stack: the pointer tells where the other one is. */
static void test_other_stack(void **state)
{
	struct frame_rule plain = plain_rule(8);
	struct world world;
	size_t steps = 9;

	(void)state;
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[1] = &plain;
	world.words[0] = 77;
	world.words[4] = 0xc000001000;
	set(&world, 6, 0xc000001000);
	CHECK(&world, STACK_LOST, AT(1));
	assert_int_equal(world.frames[0].pointer, 0);
	plain.flags = FRAME_POINTERS;
	CHECK(&world, STACK_CUT, AT(1));
	assert_int_equal(world.frames[0].pointer, 0xc000001000);
	assert_true(unwind_pointers(&world.registers, &world.copy, 0xc000001000, &steps));
	assert_int_equal(steps, 0);
	set(&world, 6, SP + 4 * 8);
	assert_true(unwind_pointers(&world.registers, &world.copy, 0xc000001000, &steps));
	assert_int_equal(steps, 1);
	assert_false(unwind_pointers(&world.registers, &world.copy, 0xc000002000, &steps));
	assert_false(unwind_pointers(&world.registers, &world.copy, 0, &steps));
	/* One that points to itself. */
	world.words[4] = SP + 4 * 8;
	assert_false(unwind_pointers(&world.registers, &world.copy, 0xc000001000, &steps));
	/* In code without rules it may be anything, but above the copy, where the stack goes on. */
	world.rules[1] = NULL;
	set(&world, 6, 0xc000001000);
	CHECK(&world, STACK_NO_TABLE, AT(1));
	assert_int_equal(world.frames[0].pointer, 0);
	set(&world, 6, SP + (1 << 20));
	CHECK(&world, STACK_CUT, AT(1));
	assert_int_equal(world.frames[0].pointer, SP + (1 << 20));
}

static void test_plt(void **state)
{
	const struct frame_rule entry = rule_of(FRAME_PLT, 7, 11);
	struct frame_rule plt = entry;
	struct world world;

	(void)state;
	plt.saved[16] = -1;
	begin(&world, UNWIND_X86_64, CODE + 0x10a);
	world.rules[1] = &plt;
	world.rules[2] = world.rules[3] = &outermost;
	world.words[0] = AT(2);
	world.words[1] = AT(3);
	CHECK(&world, STACK_WHOLE, CODE + 0x10a, AT(2));
	world.registers.address = CODE + 0x10b; /* a number has been pushed */
	CHECK(&world, STACK_WHOLE, CODE + 0x10b, AT(3));
}

static void test_frame_pointers(void **state)
{
	const struct frame_rule behind = plain_rule(16);
	struct world world;

	(void)state;
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[3] = &behind;
	world.rules[4] = &outermost;
	set(&world, 6, SP + 4 * 8);
	world.words[4] = SP + 8 * 8;
	world.words[5] = AT(2);
	world.words[8] = 1;
	world.words[9] = AT(3);
	world.words[11] = AT(4);
	CHECK(&world, STACK_WHOLE, AT(1), AT(2), AT(3), AT(4));
	/* It leads to no code, up, nowhere. */
	world.words[9] = 77;
	CHECK(&world, STACK_NO_TABLE, AT(1), AT(2));
	world.words[9] = AT(3);
	world.words[4] = SP + 2 * 8;
	CHECK(&world, STACK_NO_TABLE, AT(1), AT(2));
	world.words[4] = SP + 8 * 8 + 1;
	CHECK(&world, STACK_NO_TABLE, AT(1), AT(2));
	world.words[4] = SP + sizeof(world.words);
	CHECK(&world, STACK_CUT, AT(1), AT(2));
	world.registers.known &= ~(UINT64_C(1) << 6);
	CHECK(&world, STACK_NO_TABLE, AT(1));
}

static void test_never_trusted(void **state)
{
	const struct frame_rule leaf = plain_rule(8), still = rule_of(FRAME_CFA, 7, 0), odd = plain_rule(12);
	struct frame_rule wide = plain_rule(100000);
	struct world world;

	(void)state;
	/* A caller that calls itself, for ever. */
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[1] = &leaf;
	for (size_t i = 0; i < ARRAY_SIZE(world.words); i++)
		world.words[i] = AT(1);
	assert_int_equal(unwind(&world.registers, &world.copy, find, &world, world.frames, &world.nr), STACK_CUT);
	assert_int_equal(world.nr, 81);
	/* A stack that does not move up, or not by words. */
	world.rules[1] = &still;
	CHECK(&world, STACK_LOST, AT(1));
	world.rules[1] = &odd;
	CHECK(&world, STACK_LOST, AT(1));
	/* Beyond the copy, below it, and round the end of all addresses. */
	world.rules[1] = &wide;
	CHECK(&world, STACK_CUT, AT(1));
	wide.offset = INT32_MIN;
	CHECK(&world, STACK_LOST, AT(1));
	world.registers.values[7] = UINT64_MAX - 7;
	wide.offset = 16;
	CHECK(&world, STACK_LOST, AT(1));
	/* No copy. */
	begin(&world, UNWIND_X86_64, AT(1));
	world.rules[1] = &leaf;
	world.copy.size = 0;
	CHECK(&world, STACK_CUT, AT(1));
	/* No code. */
	world.registers.address = 5;
	CHECK(&world, STACK_LOST, 5);
}

static void test_arm64(void **state)
{
	const struct frame_rule leaf = rule_of(FRAME_CFA, 31, 0);
	struct frame_rule inner = rule_of(FRAME_CFA, 31, 32), outer = rule_of(FRAME_CFA, 29, 16);
	struct world world;

	(void)state;
	inner.saved[29] = -4;
	inner.saved[30] = -3;
	outer.saved[29] = -2;
	outer.saved[30] = -1;
	begin(&world, UNWIND_ARM64, AT(1));
	world.rules[1] = &leaf;
	world.rules[2] = &inner;
	world.rules[3] = &outer;
	world.rules[4] = &outermost;
	set(&world, 30, AT(2));
	world.words[0] = SP + 10 * 8;
	world.words[1] = AT(3) | UINT64_C(0x2a) << 48; /* signed */
	world.words[10] = 0;
	world.words[11] = AT(4);
	CHECK(&world, STACK_WHOLE, AT(1), AT(2), AT(3), AT(4));
	/* A function that has called another has something on the stack. */
	world.rules[2] = &leaf;
	CHECK(&world, STACK_LOST, AT(1), AT(2));
	/* By the frame pointer. */
	begin(&world, UNWIND_ARM64, AT(1));
	world.rules[2] = &outermost;
	set(&world, 29, SP + 8);
	world.words[1] = 0;
	world.words[2] = AT(2) | UINT64_C(0x15) << 48;
	CHECK(&world, STACK_WHOLE, AT(1), AT(2));
}

/* The function of makecontext(3) returns to the beginning of another one, which by its rule would return to itself. */
static void test_context_of_arm64(void **state)
{
	const struct frame_rule leaf = rule_of(FRAME_CFA, 31, 0);
	struct frame_rule inner = rule_of(FRAME_CFA, 31, 32);
	struct world world;

	(void)state;
	inner.saved[30] = -3;
	begin(&world, UNWIND_ARM64, AT(1));
	world.rules[1] = &inner;
	world.rules[4] = &leaf;
	world.words[1] = CODE + 0x400;
	CHECK(&world, STACK_WHOLE, AT(1), CODE + 0x400);
	/* Within a function, that is no end. */
	world.words[1] = AT(4);
	CHECK(&world, STACK_LOST, AT(1), AT(4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),	       cmocka_unit_test(test_saved_registers),
		cmocka_unit_test(test_signal),	       cmocka_unit_test(test_plt),
		cmocka_unit_test(test_frame_pointers), cmocka_unit_test(test_never_trusted),
		cmocka_unit_test(test_arm64),	       cmocka_unit_test(test_context_of_arm64),
		cmocka_unit_test(test_sigreturn),      cmocka_unit_test(test_beginning),
		cmocka_unit_test(test_other_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
