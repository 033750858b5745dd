/* SPDX-License-Identifier: MIT */

#include "profiler/stack/unwind-sample.h"

#include "profiler/sample/sample-attr.h"

/* PERF_SAMPLE_REGS_ABI_64 */
#define ABI_64 2

/* In place of a register's number: the address of the instruction. */
#define ADDRESS FRAME_REGISTERS
#define NUMBERS_MAX (FRAME_REGISTERS + 1)

/* DWARF's numbers of the registers, in the order of the sample. */
static const struct {
	uint64_t mask;
	uint8_t sp;
	uint8_t numbers[NUMBERS_MAX];
} orders[] = {
	/* AX, BX, CX, DX, SI, DI, BP, SP, IP, R8 to R15 */
	[UNWIND_X86_64] = { SAMPLED_REGISTERS_X86_64,
			    7,
			    { 0, 3, 2, 1, 4, 5, 6, 7, ADDRESS, 8, 9, 10, 11, 12, 13, 14, 15 } },
	/* X0 to X29, LR, SP, PC */
	[UNWIND_ARM64] = { SAMPLED_REGISTERS_ARM64, 31, { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
							  11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
							  22, 23, 24, 25, 26, 27, 28, 29, 30, 31, ADDRESS } },
};

bool unwind_sample(const struct record_sample *sample, enum unwind_machine machine, struct unwind_registers *ret,
		   struct unwind_copy *ret_copy)
{
	struct unwind_registers registers = { .machine = machine, .address = UINT64_MAX };
	uint8_t sp = orders[machine].sp;

	if (sample->regs_user_abi != ABI_64 ||
	    sample->regs_user.nr != (uint64_t)__builtin_popcountll(orders[machine].mask))
		return false;
	for (uint64_t i = 0; i < sample->regs_user.nr; i++) {
		uint64_t value = record_u64(&sample->regs_user, i);
		uint8_t number = orders[machine].numbers[i];

		if (number == ADDRESS) {
			registers.address = value;
		} else if (value != UINT64_MAX) {
			registers.values[number] = value;
			registers.known |= UINT64_C(1) << number;
		}
	}
	if (registers.address == UINT64_MAX || !(registers.known >> sp & 1))
		return false;
	*ret = registers;
	*ret_copy = (struct unwind_copy){
		.start = registers.values[sp],
		.bytes = sample->stack_user.at,
		.size = (size_t)sample->stack_user.nr,
	};
	return true;
}
