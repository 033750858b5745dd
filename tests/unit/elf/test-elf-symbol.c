/* SPDX-License-Identifier: MIT */

/* Functions in made ELF files, in broken ones, in this program, and in the C library. */

#include "base/elf/elf-symbol.h"
#include "base/util/file.h"
#include "setup/made-elf.h"
#include "setup/tree.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DEFAULT 2
#define HIDDEN 0x8003

#define S(name_, at_, size_, ...)                                                                                      \
	{                                                                                                              \
		.name = name_, .at = at_, .size = size_, __VA_ARGS__                                                   \
	}

static int find(const char *path, const char *name, struct elf_symbol *ret, struct reason *why)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return elf_symbol_find(ret, fd, name, why);
}

static void check_found(const char *path, const char *name, uint64_t at, uint64_t size)
{
	struct elf_symbol symbol = {};
	struct reason why = {};

	if (find(path, name, &symbol, &why) < 0)
		fail_msg("%s: %s", name, why.text);
	assert_int_equal(symbol.offset, at - MADE_ADDRESS + MADE_OFFSET);
	assert_int_equal(symbol.size, size);
}

static void check_error(const char *path, const char *name, int error, const char *part)
{
	struct elf_symbol symbol = { .offset = 42 };
	struct reason why = {};
	int r = find(path, name, &symbol, &why);

	if (r != error || !strstr(why.text, part))
		fail_msg("%s: %d, '%s', not %d, '%s'", name, r, why.text, error, part);
	assert_int_equal(symbol.offset, 42);
}

static const struct made_symbol symtab[] = {
	S("main", 0x10100, 0x20),
	S("twice", 0x10200, 0x20),
	S("twice", 0x10300, 0x20),
	S("alias", 0x10400, 0),
	S("alias", 0x10400, 0x30),
	S("label", 0x10500, 0, .type = STT_NOTYPE),
	S("data_label", 0x40500, 0, .type = STT_NOTYPE),
	S("object", 0x40600, 8, .type = STT_OBJECT),
	S("object_in_code", 0x10600, 8, .type = STT_OBJECT),
	S("data_function", 0x40600, 8),
	S("imported", 0x10600, 8, .undefined = true),
	S("nowhere", 0x90000, 8),
	S("od\nd", 0x10600, 0x10),
	S("first", 0x10000, 1),
	S("last", 0x11fff, 1),
	S("behind", 0x12000, 1),
	S("huge", UINT64_MAX, UINT64_MAX),
	S("chosen", 0x10700, 0x40, .type = STT_GNU_IFUNC),
	S("versioned@OLD_1", 0x10800, 0x10),
	S("versioned@@NEW_2", 0x10900, 0x10),
	S("versioned@OLD_0", 0x10a00, 0x10),
	S("old@OLD_1", 0x10b00, 0x10),
	S("olds@OLD_1", 0x10b00, 0x10),
	S("olds@OLD_2", 0x10c00, 0x10),
	S("_ZN3foo3barEv", 0x10d00, 0x10),
	S("exported", 0x11600, 0x20), /* a static one beside that of .dynsym */
	S("both", 0x11700, 0x20),
	S("", 0x10e00, 0x10),
	{},
};

static const struct made_symbol dynsym[] = {
	S("main", 0x10100, 0x20),
	S("exported", 0x10f00, 0x20, .version = DEFAULT),
	S("both", 0x11000, 0x20, .version = HIDDEN),
	S("both", 0x11100, 0x20, .version = DEFAULT),
	S("both", 0x11200, 0x20, .version = HIDDEN),
	S("hidden", 0x11300, 0x20, .version = HIDDEN),
	S("indirect", 0x11400, 0x20, .type = STT_GNU_IFUNC, .version = DEFAULT),
	S("indirect", 0x11500, 0x20, .version = HIDDEN),
	S("direct", 0x11600, 0x20, .type = STT_GNU_IFUNC, .version = HIDDEN),
	S("direct", 0x11700, 0x20, .version = DEFAULT),
	{},
};

static void check_symtab(const char *path)
{
	check_found(path, "main", 0x10100, 0x20);
	check_found(path, "alias", 0x10400, 0x30);
	check_found(path, "label", 0x10500, 0);
	check_found(path, "first", 0x10000, 1);
	check_found(path, "last", 0x11fff, 1);
	check_found(path, "versioned", 0x10900, 0x10);
	check_found(path, "old", 0x10b00, 0x10);
	check_found(path, "_ZN3foo3barEv", 0x10d00, 0x10);
	check_error(path, "twice", -ENOTUNIQ, "several functions 'twice' (at 0x1200, 0x1300)");
	check_error(path, "olds", -ENOTUNIQ, "several functions 'olds'");
	check_error(path, "chosen", -EOPNOTSUPP, "'chosen' is an indirect function");
	check_error(path, "data_label", -ENOENT, "no function 'data_label'");
	check_error(path, "object", -ENOENT, "no function 'object'");
	check_error(path, "object_in_code", -ENOENT, "no function 'object_in_code'");
	check_error(path, "data_function", -ENOENT, "no function 'data_function'");
	check_error(path, "imported", -ENOENT, "no function 'imported'");
	check_error(path, "nowhere", -ENOENT, "no function 'nowhere'");
	check_error(path, "behind", -ENOENT, "no function 'behind'");
	check_error(path, "huge", -ENOENT, "no function 'huge'");
	check_error(path, "version", -ENOENT, "no function 'version'");
	check_error(path, "mian", -ENOENT, "no function 'mian'; did you mean 'main'?");
	check_error(path, "od_d", -ENOENT, "no function 'od_d' in its symbol tables");
	check_error(path, "", -ENOENT, "no function ''");
}

static void check_dynsym(const char *path)
{
	check_found(path, "main", 0x10100, 0x20);
	check_found(path, "exported", 0x10f00, 0x20);
	check_found(path, "both", 0x11100, 0x20);
	check_found(path, "hidden", 0x11300, 0x20);
	check_found(path, "direct", 0x11700, 0x20);
	check_error(path, "indirect", -EOPNOTSUPP, "'indirect' is an indirect function");
}

static void test_made(_unused_ void **state)
{
	static const struct {
		int class, encoding;
		GElf_Half type;
	} table[] = {
		{ ELFCLASS64, ELFDATA2LSB, ET_DYN },
		{ ELFCLASS64, ELFDATA2MSB, ET_EXEC },
		{ ELFCLASS32, ELFDATA2LSB, ET_EXEC },
		{ ELFCLASS32, ELFDATA2MSB, ET_DYN },
	};
	char *dir = tree_new(NULL), *path = tree_path(dir, "made");

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct made_elf made = {
			.class = table[i].class,
			.encoding = table[i].encoding,
			.type = table[i].type,
			.symtab = symtab,
			.dynsym = dynsym,
			.versions = true,
		};

		made_elf_write(path, &made);
		check_symtab(path);
		check_dynsym(path);

		/* What is stripped of .symtab still has what it exports. */
		made.symtab = NULL;
		made_elf_write(path, &made);
		check_dynsym(path);
		check_error(path, "twice", -ENOENT, "no function 'twice'");

		/* Without versions, all are alike. */
		made.versions = false;
		made_elf_write(path, &made);
		check_found(path, "exported", 0x10f00, 0x20);
		check_error(path, "both", -ENOTUNIQ, "several functions 'both'");

		made.dynsym = NULL;
		made_elf_write(path, &made);
		check_error(path, "main", -ENOENT, "it has no symbols");
	}
	free(path);
	tree_free(dir);
}

static void test_no_elf(_unused_ void **state)
{
	static const struct made_elf object = { .type = ET_REL, .symtab = symtab };
	char *dir = tree_new(NULL), *path = tree_path(dir, "file");

	made_elf_write(path, &object);
	check_error(path, "main", -ENOEXEC, "not an ELF program or shared library");
	tree_text(dir, "file", "");
	check_error(path, "main", -ENOEXEC, "not an ELF program");
	tree_text(dir, "file",
		  "\x7f"
		  "ELF");
	check_error(path, "main", -ENOEXEC, "not an ELF program");
	tree_text(dir, "file", "#!/bin/sh\n");
	check_error(path, "main", -ENOEXEC, "not an ELF program");
	tree_text(dir, "file", "!<arch>\n");
	check_error(path, "main", -ENOEXEC, "not an ELF program");
	check_error(dir, "main", -ENOEXEC, "not an ELF program");
	free(path);
	tree_free(dir);
}

/* Cut anywhere, and with any byte changed: some answer, and the right one or none where it says so. */
static void test_broken(_unused_ void **state)
{
	static const struct made_elf made = { .symtab = symtab, .dynsym = dynsym, .versions = true };
	char *dir = tree_new(NULL), *path = tree_path(dir, "made");
	struct elf_symbol symbol;
	int fd, r;

	made_elf_write(path, &made);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	for (off_t at = 0; at < MADE_OFFSET; at++) {
		unsigned char byte, other;

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		other = (unsigned char)(byte ^ (at % 3 ? 0xff : 0x80));
		assert_int_equal(pwrite(fd, &other, 1, at), 1);
		r = elf_symbol_find(&symbol, fd, "both", NULL);
		assert_true(r == 0 || r == -ENOEXEC || r == -ENOENT || r == -ENOTUNIQ || r == -EOPNOTSUPP ||
			    r == -EFBIG);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	check_found(path, "both", 0x11100, 0x20);
	for (off_t size = MADE_OFFSET; size > 0; size -= 7) {
		assert_int_equal(ftruncate(fd, size), 0);
		r = elf_symbol_find(&symbol, fd, "both", NULL);
		assert_true(r == 0 || r == -ENOEXEC || r == -ENOENT || r == -ENOTUNIQ);
	}
	close(fd);
	free(path);
	tree_free(dir);
}

/* --- real files */

__attribute__((noinline)) static int sought_after(int n)
{
	/* Not to be made one with another function, nor into nothing. */
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

/* A breakpoint, of a uprobe that somebody has at the function meanwhile, is so long: in memory, and not in the file. */
#define BREAKPOINT 4

/* The bytes at the offset in the file are those of the function in memory. */
static void check_code(const char *path, const char *name, const void *function)
{
	unsigned char bytes[16] = {};
	struct elf_symbol symbol = {};
	struct reason why = {};
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	if (elf_symbol_find(&symbol, fd, name, &why) < 0)
		fail_msg("%s: %s", name, why.text);
	assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)symbol.offset), sizeof(bytes));
	assert_memory_equal(bytes + BREAKPOINT, (const char *)function + BREAKPOINT, sizeof(bytes) - BREAKPOINT);
}

/* Offsets that somebody writes as numbers. */
static void test_offsets(_unused_ void **state)
{
	static const struct made_elf made = { .symtab = symtab };
	char *dir = tree_new(NULL), *path = tree_path(dir, "made");
	struct reason why = {};
	int fd;

	made_elf_write(path, &made);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_check_code(fd, MADE_OFFSET, NULL), 0);
	assert_int_equal(elf_check_code(fd, MADE_OFFSET + MADE_SIZE - 1, NULL), 0);
	assert_int_equal(elf_check_code(fd, MADE_OFFSET + MADE_SIZE, NULL), -EINVAL);
	assert_int_equal(elf_check_code(fd, MADE_OFFSET - 1, &why), -EINVAL);
	assert_string_equal(why.text, "offset 0xfff is not in its code");
	assert_int_equal(elf_check_code(fd, UINT64_MAX, NULL), -EINVAL);
	close(fd);
	tree_text(dir, "script", "#!/bin/sh\n");
	free(path);
	path = tree_path(dir, "script");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_check_code(fd, 0, NULL), -ENOEXEC);
	close(fd);
	free(path);
	tree_free(dir);
}

static void test_this_program(_unused_ void **state)
{
	assert_int_equal(sought_after(1), 2);
	check_code("/proc/self/exe", "sought_after", (const void *)(uintptr_t)sought_after);
	check_code("/proc/self/exe", "elf_symbol_find", (const void *)(uintptr_t)elf_symbol_find);
	check_error("/proc/self/exe", "sougth_after", -ENOENT, "did you mean 'sought_after'?");
}

static void test_libc(_unused_ void **state)
{
	static const char *const names[] = { "getppid", "fopen", "qsort", "pthread_create" };
	struct link_map *map = NULL;
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (!libc)
		skip();
	assert_int_equal(dlinfo(libc, RTLD_DI_LINKMAP, &map), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		check_code(map->l_name, names[i], dlsym(libc, names[i]));
	check_error(map->l_name, "getpppid", -ENOENT, "did you mean 'getppid'?");
	check_error(map->l_name, "environ", -ENOENT, "no function 'environ'");
	dlclose(libc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made),	cmocka_unit_test(test_no_elf),	     cmocka_unit_test(test_broken),
		cmocka_unit_test(test_offsets), cmocka_unit_test(test_this_program), cmocka_unit_test(test_libc),
	};

	return cmocka_run_group_tests_name("elf-symbol", tests, NULL, NULL);
}
