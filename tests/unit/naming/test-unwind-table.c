/* SPDX-License-Identifier: MIT */

/* Bounds of functions, by the table for unwinding: of this program and of real ones, as binutils has them, and of
 * broken ones. Names of functions of real files, as nm has them. */

#include "base/util/cleanup.h"
#include "profiler/naming/unwind-table.h"
#include "setup/own-file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char *const real_files[] = {
	"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/usr/bin/python3",
	"/usr/bin/bash",
};

__attribute__((noinline, used)) static int function_of_unwind_table(int n)
{
	volatile int sum = 0;

	for (int i = 0; i < n; i++)
		sum += i;
	return sum;
}

static bool open_file(const char *path, struct elf_image *ret)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data;

	if (fd < 0)
		return false;
	assert_int_equal(fstat(fd, &st), 0);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(data != MAP_FAILED);
	return elf_image_open(ret, (struct elf_bytes){ data, (size_t)st.st_size });
}

static void close_file(struct elf_image *image)
{
	munmap((void *)(uintptr_t)image->bytes.data, image->bytes.size);
}

static FILE *read_command(const char *with, const char *path)
{
	char command[PATH_MAX + 128];
	FILE *output;

	assert_true(snprintf(command, sizeof(command), "%s '%s' 2>/dev/null", with, path) < (int)sizeof(command));
	output = popen(command, "r");
	assert_non_null(output);
	return output;
}

/* Goes through the functions of both sections. */
struct walk {
	const struct elf_image *image;
	struct unwind_section section;
	int is_debug; /* the next section; 2: there are no more */
	bool is_open;
	uint64_t at;
};

static bool next_function(struct walk *walk, uint64_t *start, uint64_t *end)
{
	for (;;) {
		if (walk->is_open && unwind_section_next(&walk->section, &walk->at, start, end))
			return true;
		if (walk->is_debug == 2)
			return false;
		walk->is_open = unwind_section_find(walk->image, walk->is_debug++, &walk->section);
		walk->at = 0;
	}
}

static void test_own(void **state)
{
	uint64_t address, start = 0, end, at = own_file_offset(function_of_unwind_table);
	struct elf_image image;
	struct walk walk = { .image = &image };
	struct own_file own;

	(void)state;
	assert_int_equal(function_of_unwind_table(3), 3);
	own_file_open(&own);
	assert_true(elf_image_open(&image, (struct elf_bytes){ own.bytes, own.size }));
	assert_true(elf_image_address(&image, at, &address));
	while (start != address)
		assert_true(next_function(&walk, &start, &end));
	assert_true(end > start + 10);
	own_file_close(&own);
}

/* Each function that `readelf` finds in the table is found, in the same order. */
static unsigned check_frames(const char *path)
{
	FILE *output = read_command("readelf --wide --debug-dump=frames", path);
	struct elf_image image;
	struct walk walk = { .image = &image };
	uint64_t start, end;
	unsigned nr = 0;
	char line[512];

	assert_true(open_file(path, &image));
	while (fgets(line, sizeof(line), output)) {
		const char *pc = strstr(line, " FDE ") ? strstr(line, "pc=") : NULL;
		uint64_t from, to;

		if (!pc || sscanf(pc, "pc=%" SCNx64 "..%" SCNx64, &from, &to) != 2 || to <= from)
			continue;
		if (!next_function(&walk, &start, &end) || start != from || end != to)
			fail_msg("%s: %s", path, line);
		nr++;
	}
	(void)pclose(output);
	assert_true(!nr || !next_function(&walk, &start, &end));
	close_file(&image);
	return nr;
}

static void test_frames(void **state)
{
	unsigned nr = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(real_files); i++) {
		struct elf_image image;
		char path[PATH_MAX] = "";

		/* A child would have another one. */
		if (!realpath(real_files[i], path) || !open_file(path, &image))
			continue;
		close_file(&image);
		nr += check_frames(path);
	}
	assert_true(nr > 1000);
}

/* --- names */

struct symbol {
	uint64_t address, size;
	char name[128];
};

#define SYMBOLS_MAX 20000

/* The functions that nm lists, by address. */
static size_t read_symbols(const char *path, struct symbol *symbols)
{
	FILE *output = read_command("nm --dynamic --defined-only --print-size --without-symbol-versions", path);
	char line[1024];
	size_t nr = 0;

	while (nr < SYMBOLS_MAX && fgets(line, sizeof(line), output)) {
		struct symbol *symbol = &symbols[nr];
		char type;

		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %c %127s", &symbol->address, &symbol->size, &type,
			   symbol->name) == 4 &&
		    strchr("tTwWi", type) && symbol->size)
			nr++;
	}
	(void)pclose(output);
	return nr;
}

/* Is the name that of a symbol with these bounds? It may have several. */
static bool is_listed(const struct symbol *symbols, size_t nr, const struct function *place, uint64_t shift)
{
	for (size_t i = 0; i < nr; i++)
		if (symbols[i].address == place->start + shift && strcmp(symbols[i].name, place->name) == 0)
			return true;
	return false;
}

static size_t check_names(const char *path, const struct elf_image *image, const struct symbol *symbols, size_t nr)
{
	const struct function_sources sources = { .file = image->bytes };
	const struct function_places all = {};
	const struct module_key key = {};
	struct function_list_writer writer = { .max = 64 << 20 };
	struct function_list *list;
	size_t checked = 0;
	bool has_all;

	(void)function_names_list(&writer, &sources, &key, &all, &has_all);
	list = list_written(&writer, NAMING_STRIPPED);
	assert_non_null(list);
	/* Every so many of them, each by its last byte. */
	for (size_t i = 0; i < nr; i += 1 + nr / 200) {
		uint64_t address = symbols[i].address + symbols[i].size - 1, offset;
		struct function place;

		if (!elf_image_offset(image, address, &offset))
			continue;
		if (list_find(list, offset, &place) != NAMING_NAMED)
			fail_msg("%s: %s has no name", path, symbols[i].name);
		if (!is_listed(symbols, nr, &place, address - offset))
			fail_msg("%s: %s is %s", path, symbols[i].name, place.name);
		/* An inner one begins later. */
		assert_true(place.start + (address - offset) >= symbols[i].address);
		checked++;
	}
	function_list_free(list);
	return checked;
}

static void test_names(void **state)
{
	struct symbol *symbols = calloc(SYMBOLS_MAX, sizeof(*symbols));
	size_t checked = 0;

	(void)state;
	assert_non_null(symbols);
	/* Not this program, whose .symtab has names that nm does not list here. */
	for (size_t i = 1; i < ARRAY_SIZE(real_files); i++) {
		struct elf_image image;

		if (!open_file(real_files[i], &image))
			continue;
		checked += check_names(real_files[i], &image, symbols, read_symbols(real_files[i], symbols));
		close_file(&image);
	}
	assert_true(checked > 100);
	free(symbols);
}

/* --- broken tables */

static void check_any(const unsigned char *bytes, size_t size)
{
	struct elf_image image;
	struct walk walk = { .image = &image };
	uint64_t start, end;

	if (!elf_image_open(&image, (struct elf_bytes){ bytes, size }))
		return;
	while (next_function(&walk, &start, &end))
		assert_true(start < end);
}

/* The header, the table, and the entries, with any byte changed, and cut anywhere. */
static void test_broken(void **state)
{
	uint64_t address, at = own_file_offset(function_of_unwind_table);
	unsigned char *copy;
	struct elf_bytes part;
	struct elf_image image;
	struct own_file own;
	unsigned seed = 7;

	(void)state;
	own_file_open(&own);
	assert_true(elf_image_open(&image, (struct elf_bytes){ own.bytes, own.size }));
	assert_true(elf_image_address(&image, at, &address));
	copy = malloc(own.size);
	assert_non_null(copy);
	memcpy(copy, own.bytes, own.size);
	for (int which = 0; which < 2; which++) {
		size_t begin;

		assert_true(elf_image_find(&image, which ? ".eh_frame" : ".eh_frame_hdr", &part));
		begin = (size_t)(part.data - own.bytes);
		for (int round = 0; round < 3000; round++) {
			size_t where = begin + (round < 64 ? (size_t)round : (size_t)rand_r(&seed) % part.size);

			copy[where] = (unsigned char)rand_r(&seed);
			check_any(copy, own.size);
			/* Damage that stays, for a while. */
			if (round % 8 == 0)
				memcpy(copy + begin, part.data, part.size);
		}
		memcpy(copy + begin, part.data, part.size);
	}
	free(copy);
	for (size_t size = 0; size < own.size; size += 1 + own.size / 400) {
		copy = malloc(size + 1);
		assert_non_null(copy);
		memcpy(copy, own.bytes, size);
		check_any(copy, size);
		free(copy);
	}
	own_file_close(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_broken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
