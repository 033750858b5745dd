/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The memory of the process: what is not needed any more is given back, what is written to all the time is not copied
 * for children, and secrets stay where nobody else sees them.
 *
 * Left to itself, malloc(3) keeps up to 64 MiB of freed memory once it has served something large, such as an answer of
 * some MiB. And a program that has started has in memory all pages of code and tables that the start has run through,
 * with their neighbours.
 */

#include <stddef.h>

/* Before anything large is allocated: blocks of 128 KiB or more are mappings of their own, which go when they are
 * freed, and which grow without being copied. */
void memory_return_freed(void);

/* After the start, or whenever much was run through: forgets pages of programs and libraries that are as they are in
 * their files. Those that are needed are mapped again when they are. */
void memory_forget_code(void);

/* Memory with zeros that children of this process do not get (madvise(2), MADV_DONTFORK): they must not touch it. After
 * a fork, the first write to any other page costs microseconds. NULL: there is none, or the size is 0. A page takes
 * memory when it is first written to, and none is set aside for it before that (mmap(2), MAP_NORESERVE). mremap(2) and
 * munmap(2) do with it what they do with others. */
void *memory_map_own(size_t size);
void memory_unmap(void *memory, size_t size);
/* From now on children get it, too, as it is when they are forked. */
void memory_share(void *memory, size_t size);

/* The same for what nobody else may see: it is in no core dump either (MADV_DONTDUMP). NULL also where it would be in
 * one, or in a child. Who uses it erases it. */
void *memory_map_secret(size_t size);

/* Zeroes what functions that have returned have left on the stack, 32 KiB deep. Those functions must not have become a
 * part of the caller: they are noinline, or in another file. */
void memory_erase_stack(void);
