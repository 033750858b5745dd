/* SPDX-License-Identifier: MIT */

/* Registers and copies of samples, as both architectures have them. */

#include "profiler/sample/sample-attr.h"
#include "profiler/stack/unwind-sample.h"

#include "base/util/cleanup.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define STACK_SIZE 4096
#define STACK_USED 24

/* A record as the kernel writes it: a call chain of one, then registers of which each is 100 + its place, the stack. */
struct made {
	uint64_t words[64 + STACK_SIZE / 8];
	size_t nr;
	struct record record;
};

static void put_word(struct made *made, uint64_t word)
{
	made->words[made->nr++] = word;
}

static void make_sample(struct made *made, uint64_t mask, uint64_t abi, uint64_t unknown)
{
	const struct record_format format = {
		.sample_type = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.regs_user = mask,
	};
	struct perf_event_header header = { .type = PERF_RECORD_SAMPLE };

	*made = (struct made){ .nr = 1 };
	put_word(made, 1);
	put_word(made, 0x1234);
	put_word(made, abi);
	for (uint64_t i = 0; abi && i < (uint64_t)__builtin_popcountll(mask); i++)
		put_word(made, unknown >> i & 1 ? UINT64_MAX : 100 + i);
	put_word(made, STACK_SIZE);
	for (uint64_t i = 0; i < STACK_SIZE / 8; i++)
		put_word(made, 7000 + i);
	put_word(made, STACK_USED);
	header.size = (uint16_t)(made->nr * sizeof(uint64_t));
	memcpy(made->words, &header, sizeof(header));
	assert_int_equal(record_parse(&made->record, &format, made->words, header.size), 0);
}

static void expect_copy(const struct unwind_copy *copy, uint64_t start)
{
	uint64_t word;

	assert_int_equal(copy->start, start);
	assert_int_equal(copy->size, STACK_USED);
	memcpy(&word, copy->bytes + 16, sizeof(word));
	assert_int_equal(word, 7002);
}

static void test_x86_64(_unused_ void **state)
{
	/* rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15: where perf has them. */
	static const uint64_t places[] = { 0, 3, 2, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16 };
	struct unwind_registers registers;
	struct unwind_copy copy;
	struct made made;

	make_sample(&made, SAMPLED_REGISTERS_X86_64, PERF_SAMPLE_REGS_ABI_64, 0);
	assert_true(unwind_sample(&made.record.sample, UNWIND_X86_64, &registers, &copy));
	assert_int_equal(registers.machine, UNWIND_X86_64);
	assert_int_equal(registers.address, 108);
	assert_int_equal(registers.known, 0xffff);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		assert_int_equal(registers.values[i], 100 + places[i]);
	expect_copy(&copy, 107);
}

static void test_arm64(_unused_ void **state)
{
	struct unwind_registers registers;
	struct unwind_copy copy;
	struct made made;

	make_sample(&made, SAMPLED_REGISTERS_ARM64, PERF_SAMPLE_REGS_ABI_64, 0);
	assert_true(unwind_sample(&made.record.sample, UNWIND_ARM64, &registers, &copy));
	assert_int_equal(registers.machine, UNWIND_ARM64);
	assert_int_equal(registers.address, 132);
	assert_int_equal(registers.known, UINT32_MAX);
	for (size_t i = 0; i < 32; i++)
		assert_int_equal(registers.values[i], 100 + i);
	expect_copy(&copy, 131);
}

/* In a system call, rbx (place 1), rbp (6) and r12 to r15 (13 to 16) are not there. */
static void test_unknown_registers(_unused_ void **state)
{
	struct unwind_registers registers;
	struct unwind_copy copy;
	struct made made;

	make_sample(&made, SAMPLED_REGISTERS_X86_64, PERF_SAMPLE_REGS_ABI_64, 0x1e042);
	assert_true(unwind_sample(&made.record.sample, UNWIND_X86_64, &registers, &copy));
	assert_int_equal(registers.known, 0x0fb7);
	assert_int_equal(registers.values[3], 0);
	/* Without a stack pointer or an address there is nothing to begin with. */
	make_sample(&made, SAMPLED_REGISTERS_X86_64, PERF_SAMPLE_REGS_ABI_64, 1 << 7);
	assert_false(unwind_sample(&made.record.sample, UNWIND_X86_64, &registers, &copy));
	make_sample(&made, SAMPLED_REGISTERS_X86_64, PERF_SAMPLE_REGS_ABI_64, 1 << 8);
	assert_false(unwind_sample(&made.record.sample, UNWIND_X86_64, &registers, &copy));
}

static void test_no_registers(_unused_ void **state)
{
	struct unwind_registers registers;
	struct unwind_copy copy;
	struct made made;

	make_sample(&made, SAMPLED_REGISTERS_X86_64, PERF_SAMPLE_REGS_ABI_NONE, 0);
	assert_false(unwind_sample(&made.record.sample, UNWIND_X86_64, &registers, &copy));
	make_sample(&made, SAMPLED_REGISTERS_X86_64, PERF_SAMPLE_REGS_ABI_32, 0);
	assert_false(unwind_sample(&made.record.sample, UNWIND_X86_64, &registers, &copy));
	/* Of another architecture. */
	make_sample(&made, SAMPLED_REGISTERS_X86_64, PERF_SAMPLE_REGS_ABI_64, 0);
	assert_false(unwind_sample(&made.record.sample, UNWIND_ARM64, &registers, &copy));
	assert_false(unwind_sample(&(struct record_sample){}, UNWIND_X86_64, &registers, &copy));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86_64),
		cmocka_unit_test(test_arm64),
		cmocka_unit_test(test_unknown_registers),
		cmocka_unit_test(test_no_registers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
