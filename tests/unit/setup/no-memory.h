/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Allocations of the C library that fail where a test says so: those of the code under test, and not the library's own
 * or a sanitizer's.
 */

#include <stdbool.h>

/* Is this one to fail? Asked at each; NULL: none does. */
extern bool (*memory_fails)(void);
