/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From a sample with registers and a copy of the stack to the start of unwinding. It knows in which order the kernel
 * has the registers (asm/perf_regs.h); it is pure, and takes the architecture at run time.
 *
 * A register with the value -1 is unknown: in an NMI, and at every sample before Linux 5.11, the kernel has not saved
 * all of a program's registers while it is in a system call.
 */

#include "profiler/sample/record.h"
#include "profiler/stack/unwind.h"

/* That of this program. */
#if defined(__aarch64__)
#define UNWIND_OWN UNWIND_ARM64
#else
#define UNWIND_OWN UNWIND_X86_64
#endif

/* The copy is borrowed from the sample, and may have no bytes. False: a program of 32 bits, a kernel thread, or a
 * sample without the registers of sample-attr.h, with the stack pointer and the address. */
bool unwind_sample(const struct record_sample *sample, enum unwind_machine machine, struct unwind_registers *ret,
		   struct unwind_copy *ret_copy);
