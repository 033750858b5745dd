/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The bytes of an ELF file: its segments, sections, build id and the name of its file of debug symbols.
 *
 * The file is foreign bytes, and may be hostile: every offset in it is checked, nothing is allocated, no system call is
 * made. Only files of this machine's class and byte order are read.
 */

#include "base/elf/module.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

typedef ElfW(Ehdr) elf_header;
typedef ElfW(Phdr) elf_segment;
typedef ElfW(Shdr) elf_section;

/* Borrowed. */
struct elf_bytes {
	const unsigned char *data;
	size_t size;
};

struct elf_image {
	struct elf_bytes bytes;
	elf_header header;
};

/* False: it is no program, library or file of debug symbols for this machine. */
bool elf_image_open(struct elf_image *ret, struct elf_bytes bytes);

/* The code that the kernel maps into each process (MODULE_VDSO): this process's own, which is that of all of its kind.
 * Of no size: there is none. */
struct elf_bytes elf_vdso(void);

/* Copies n bytes at an offset, which may be anywhere. False: they are not in the file. */
bool elf_image_read(const struct elf_image *image, uint64_t offset, void *ret, size_t n);

/* The segment or section of a number; false: there are no more. */
bool elf_image_segment(const struct elf_image *image, unsigned i, elf_segment *ret);
bool elf_image_section(const struct elf_image *image, unsigned i, elf_section *ret);

/* The section of a name, or its bytes; false: there is none with bytes in the file. */
bool elf_image_find_section(const struct elf_image *image, const char *name, elf_section *ret);
bool elf_image_find(const struct elf_image *image, const char *name, struct elf_bytes *ret);

/* From an offset in the file to the address that symbols have, in code; and from an address, also of data, to an
 * offset. False: it is in no segment. */
bool elf_image_address(const struct elf_image *image, uint64_t offset, uint64_t *ret);
bool elf_image_offset(const struct elf_image *image, uint64_t address, uint64_t *ret);

/* The build id's size, at most MODULE_BUILD_ID_MAX; 0: it has none. */
size_t elf_image_build_id(const struct elf_image *image, unsigned char ret[static MODULE_BUILD_ID_MAX]);

/* The file of debug symbols that it names (.gnu_debuglink): a name without a folder, in the image's bytes, and the
 * CRC-32 of that file. False: it names none. */
bool elf_image_debug_link(const struct elf_image *image, const char **ret, uint32_t *ret_crc);
