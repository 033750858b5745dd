/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Takes the registers and the copy of the stack, with which unwinding begins, out of a sample. The kernel's order of
 * registers (asm/perf_regs.h) is known here. There are no side effects, and the architecture is a parameter.
 *
 * A register with the value -1 is unknown: in an NMI, and at every sample before Linux 5.11, the kernel has not saved
 * all of a program's registers while it is in a system call.
 */

#include "profiler/sample/record.h"
#include "profiler/stack/unwind.h"

/* The machine of this program. */
#if defined(__aarch64__)
#define UNWIND_OWN UNWIND_ARM64
#else
#define UNWIND_OWN UNWIND_X86_64
#endif

/* The copy is borrowed from the sample, and may have no bytes. False: the sample is of a program of 32 bits or of a
 * kernel thread, or it lacks registers of sample-attr.h, the stack pointer or the address. */
bool unwind_sample(const struct record_sample *sample, enum unwind_machine machine, struct unwind_registers *ret,
		   struct unwind_copy *ret_copy);
