/* SPDX-License-Identifier: MIT */

/* Code that is known by its bytes, in files made here for both architectures. */

#include "base/util/file.h"
#include "profiler/stack/frame-table.h"
#include "profiler/stack/known-code.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CODE 0x200
#define STUBS 0x400
#define NAMES 0x600

/* One segment of code, and a section of stubs in it. */
static struct {
	elf_header header;
	elf_segment segment;
	elf_section sections[3];
	unsigned char rest[0x800];
} file;

static void begin(unsigned machine, size_t stubs)
{
	unsigned char *bytes = (unsigned char *)&file;

	memset(&file, 0, sizeof(file));
	memcpy(file.header.e_ident, ELFMAG, SELFMAG);
	file.header.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	file.header.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	file.header.e_ident[EI_VERSION] = EV_CURRENT;
	file.header.e_type = ET_DYN;
	file.header.e_machine = (uint16_t)machine;
	file.header.e_phoff = offsetof(typeof(file), segment);
	file.header.e_phnum = 1;
	file.header.e_phentsize = sizeof(file.segment);
	file.header.e_shoff = offsetof(typeof(file), sections);
	file.header.e_shnum = ARRAY_SIZE(file.sections);
	file.header.e_shentsize = sizeof(file.sections[0]);
	file.header.e_shstrndx = 2;
	file.segment = (elf_segment){ .p_type = PT_LOAD, .p_flags = PF_X, .p_offset = CODE, .p_filesz = 0x400 };
	file.sections[1] = (elf_section){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_EXECINSTR };
	file.sections[1].sh_offset = STUBS;
	file.sections[1].sh_size = stubs;
	file.sections[2] = (elf_section){ .sh_type = SHT_STRTAB, .sh_offset = NAMES, .sh_size = 6 };
	memcpy(bytes + NAMES, "\0.plt", 6);
}

static void put(size_t at, const void *bytes, size_t size)
{
	memcpy((unsigned char *)&file + at, bytes, size);
}

/* NULL: there are no rules. */
static struct frame_table *make(const struct frame_rule *own, uint64_t start, uint64_t end)
{
	const struct elf_image image = { { (const unsigned char *)&file, sizeof(file) }, file.header };
	_cleanup_(frame_builder_freep) struct frame_builder *builder = NULL;
	_cleanup_(closep) int fd = memfd_create("test", MFD_CLOEXEC);
	struct frame_table *table = NULL;

	assert_int_equal(frame_builder_new(&builder), 0);
	if (own)
		assert_int_equal(frame_builder_add(builder, start, end, own), 0);
	assert_int_equal(known_code_add(builder, &image), 0);
	if (frame_builder_write(builder, fd) == 0)
		assert_int_equal(frame_table_read(&table, fd, 1 << 20), 0);
	return table;
}

static int kind_at(const struct frame_table *table, uint64_t offset)
{
	const struct frame_rule *rule = frame_table_find(table, offset);

	return rule ? rule->kind : FRAME_UNKNOWN;
}

static const unsigned char call_x86_64[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
static const unsigned char call_arm64[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 };

static void test_trampolines(void **state)
{
	static const unsigned char short_call[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const unsigned char context[] = { 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff };
	struct frame_rule own = { .kind = FRAME_CFA, .reg = 7, .offset = 8 };
	struct frame_table *table;

	(void)state;
	begin(EM_X86_64, 0);
	put(CODE + 0x21, call_x86_64, sizeof(call_x86_64));
	put(CODE + 0x40, short_call, sizeof(short_call));
	put(CODE + 0x60, context, sizeof(context));
	table = make(NULL, 0, 0);
	assert_non_null(table);
	assert_int_equal(kind_at(table, CODE + 0x1f), FRAME_UNKNOWN);
	for (size_t i = 0; i < 1 + sizeof(call_x86_64); i++)
		assert_int_equal(kind_at(table, CODE + 0x20 + i), FRAME_SIGRETURN);
	assert_int_equal(kind_at(table, CODE + 0x21 + sizeof(call_x86_64)), FRAME_UNKNOWN);
	assert_int_equal(kind_at(table, CODE + 0x40), FRAME_SIGRETURN);
	assert_int_equal(kind_at(table, CODE + 0x5f), FRAME_OUTERMOST);
	frame_table_free(table);
	/* A function that begins with it is no other; one that has it in the middle is. */
	table = make(&own, CODE + 0x21, CODE + 0x30);
	assert_int_equal(kind_at(table, CODE + 0x21), FRAME_SIGRETURN);
	assert_int_equal(kind_at(table, CODE + 0x2f), FRAME_CFA);
	frame_table_free(table);
	table = make(&own, CODE + 0x10, CODE + 0x30);
	assert_int_equal(kind_at(table, CODE + 0x21), FRAME_CFA);
	frame_table_free(table);
	/* No code of this machine. */
	file.header.e_machine = EM_AARCH64;
	assert_null(make(NULL, 0, 0));
}

static void test_entry(void **state)
{
	static const unsigned char first[] = { 0x48, 0x89, 0xe7, 0xe8 }, last[] = { 0x41, 0xff, 0xe4 };
	const struct frame_rule own = { .kind = FRAME_CFA, .reg = 7, .offset = 8 };
	struct frame_table *table;

	(void)state;
	begin(EM_X86_64, 0);
	file.segment.p_vaddr = 0x10000;
	file.header.e_entry = 0x10020;
	put(CODE + 0x20, first, sizeof(first));
	put(CODE + 0x50, last, sizeof(last));
	table = make(NULL, 0, 0);
	assert_non_null(table);
	assert_int_equal(kind_at(table, CODE + 0x1f), FRAME_UNKNOWN);
	assert_int_equal(kind_at(table, CODE + 0x20), FRAME_OUTERMOST);
	assert_int_equal(kind_at(table, CODE + 0x52), FRAME_OUTERMOST);
	assert_int_equal(kind_at(table, CODE + 0x53), FRAME_UNKNOWN);
	frame_table_free(table);
	/* The file's own rule is preferred. */
	table = make(&own, CODE + 0x20, CODE + 0x80);
	assert_int_equal(kind_at(table, CODE + 0x20), FRAME_CFA);
	assert_int_equal(kind_at(table, CODE + 0x52), FRAME_CFA);
	frame_table_free(table);
	/* No jump is near, other code, no code. */
	put(CODE + 0x50, first, sizeof(first));
	put(CODE + 0x9e, last, sizeof(last));
	assert_null(make(NULL, 0, 0));
	put(CODE + 0x50, last, sizeof(last));
	put(CODE + 0x20, last, sizeof(last));
	assert_null(make(NULL, 0, 0));
	for (uint64_t entry = 0x103fd; entry < 0x10410; entry++) {
		file.header.e_entry = (ElfW(Addr))entry;
		assert_null(make(NULL, 0, 0));
	}
}

/* The vdso's own rule begins an instruction before. */
static void test_arm64(void **state)
{
	struct frame_rule own = { .kind = FRAME_CFA, .reg = 29 };
	struct frame_table *table;

	(void)state;
	begin(EM_AARCH64, 0);
	put(CODE + 0x20, call_arm64, sizeof(call_arm64));
	put(CODE + 0x42, call_arm64, sizeof(call_arm64));
	table = make(&own, CODE + 0x1c, CODE + 0x30);
	assert_int_equal(kind_at(table, CODE + 0x1f), FRAME_SIGRETURN);
	assert_int_equal(kind_at(table, CODE + 0x27), FRAME_SIGRETURN);
	assert_int_equal(kind_at(table, CODE + 0x28), FRAME_CFA);
	assert_int_equal(kind_at(table, CODE + 0x42), FRAME_UNKNOWN);
	frame_table_free(table);
}

static void test_stubs(void **state)
{
	static const unsigned char first[] = { 0xff, 0x35 };
	static const unsigned char lazy[] = { 0xff, 0x25, 1, 2, 3, 4, 0x68, 1, 0, 0, 0, 0xe9 };
	static const unsigned char branch[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x68, 1, 0, 0, 0, 0xe9 };
	struct frame_table *table;

	(void)state;
	begin(EM_X86_64, 16 * 3 + 8);
	put(STUBS, first, sizeof(first));
	put(STUBS + 16, lazy, sizeof(lazy));
	put(STUBS + 32, branch, sizeof(branch));
	put(STUBS + 48, lazy, 6);
	table = make(NULL, 0, 0);
	assert_non_null(table);
	assert_int_equal(kind_at(table, STUBS), FRAME_UNKNOWN);
	assert_int_equal(frame_table_find(table, STUBS + 16)->offset, 11);
	assert_int_equal(kind_at(table, STUBS + 16), FRAME_PLT);
	assert_int_equal(frame_table_find(table, STUBS + 32)->offset, 9);
	assert_int_equal(kind_at(table, STUBS + 48), FRAME_CFA);
	assert_int_equal(frame_table_find(table, STUBS + 48)->offset, 8);
	assert_int_equal(frame_table_find(table, STUBS + 48)->saved[16], -1);
	assert_int_equal(kind_at(table, STUBS + 56), FRAME_UNKNOWN);
	frame_table_free(table);
	file.header.e_machine = EM_AARCH64;
	table = make(NULL, 0, 0);
	assert_int_equal(frame_table_find(table, STUBS + 16)->reg, 31);
	assert_int_equal(frame_table_find(table, STUBS + 16)->saved[30], FRAME_SAME);
	frame_table_free(table);
	/* Sections and segments beyond the file. */
	file.sections[1].sh_size = UINT64_MAX;
	file.segment.p_filesz = UINT64_MAX;
	assert_null(make(NULL, 0, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trampolines),
		cmocka_unit_test(test_entry),
		cmocka_unit_test(test_arm64),
		cmocka_unit_test(test_stubs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
