/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What all fuzzers have: libFuzzer hands them bytes, and what must hold of any is checked. A check that does not hold
 * ends the program, so that libFuzzer keeps the bytes.
 */

#include <stddef.h>
#include <stdint.h>

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			__builtin_trap();                                                                              \
	} while (0)

/* data: size bytes, borrowed. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Some make files first. Returns 0. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
