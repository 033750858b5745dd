/* SPDX-License-Identifier: MIT */

#include "profiler/naming/kernel-functions.h"

#include "base/util/file.h"
#include "base/util/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define MODULES_SIZE_MAX ((size_t)1 << 20)

static void empty(struct kernel_functions *functions)
{
	for (size_t i = 0; i < functions->nr; i++)
		free(functions->items[i].name);
	functions->nr = 0;
}

void kernel_functions_forget(struct kernel_functions *functions)
{
	empty(functions);
	free(functions->items);
	kernel_list_free(functions->list);
	*functions = (struct kernel_functions){};
}

/* --- the list */

/* A line is "NAME SIZE USERS USED_BY STATE ADDRESS": name, size and address, since users come and go. */
static uLong sum_module(uLong sum, const char *line)
{
	for (unsigned field = 0; field < 6; field++) {
		size_t length = strcspn(line, " \n");

		if (field < 2 || field == 5)
			sum = crc32(sum, (const Bytef *)line, (uInt)length);
		line += length + (line[length] == ' ' ? 1 : 0);
	}
	return sum;
}

/* 0: there is no list, as in a kernel that can load none. */
static uLong sum_modules(const char *procfs)
{
	_cleanup_(freep) char *text = NULL;
	char path[PATH_MAX];
	uLong sum = 0;

	(void)snprintf(path, sizeof(path), "%s/modules", procfs);
	if (read_text_file(AT_FDCWD, path, MODULES_SIZE_MAX, &text) < 0)
		return 0;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += line[0] == '\n' ? 1 : 0;
		sum = sum_module(sum, line);
	}
	return sum;
}

void kernel_functions_read(struct kernel_functions *functions, const char *procfs, const char *saved)
{
	char path[PATH_MAX];
	const char *const paths[] = { path, saved };

	(void)snprintf(path, sizeof(path), "%s/kallsyms", procfs);
	kernel_functions_forget(functions);
	functions->modules = sum_modules(procfs);
	functions->hidden = kernel_list_read(&functions->list, paths, saved ? 2 : 1);
}

void kernel_functions_follow(struct kernel_functions *functions, const char *procfs, const char *saved)
{
	if (functions->is_stale || functions->modules != sum_modules(procfs))
		kernel_functions_read(functions, procfs, saved);
}

/* --- those that were asked for, and others */

/* The first function that ends behind the address. */
static size_t find_place(const struct kernel_functions *functions, uint64_t address)
{
	size_t low = 0, high = functions->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (functions->items[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void kernel_functions_remove(struct kernel_functions *functions, uint64_t start, uint64_t end)
{
	size_t first = find_place(functions, start), last = first;

	while (last < functions->nr && functions->items[last].start < end)
		free(functions->items[last++].name);
	if (first == last)
		return;
	memmove(&functions->items[first], &functions->items[last], (functions->nr - last) * sizeof(*functions->items));
	functions->nr -= last - first;
}

static bool make_room(struct kernel_functions *functions)
{
	size_t cap = functions->cap ? functions->cap * 2 : 64;
	struct kernel_function *items;

	if (functions->nr < functions->cap)
		return true;
	items = reallocarray(functions->items, cap, sizeof(*items));
	if (!items)
		return false;
	functions->items = items;
	functions->cap = cap;
	return true;
}

void kernel_functions_put(struct kernel_functions *functions, uint64_t start, uint64_t end, const char *name)
{
	char *copy = start < end ? strdup(name) : NULL;
	size_t at;

	if (!copy)
		return;
	/* With them goes code that was loaded since the list was read. */
	if (functions->nr >= KERNEL_FUNCTIONS_MAX) {
		empty(functions);
		functions->is_stale = true;
	}
	kernel_functions_remove(functions, start, end);
	if (!make_room(functions)) {
		free(copy);
		return;
	}
	at = find_place(functions, start);
	memmove(&functions->items[at + 1], &functions->items[at], (functions->nr - at) * sizeof(*functions->items));
	functions->items[at] = (struct kernel_function){ .start = start, .end = end, .name = copy };
	functions->nr++;
}

static const struct kernel_function *find_known(const struct kernel_functions *functions, uint64_t address)
{
	size_t at = find_place(functions, address);

	return at < functions->nr && functions->items[at].start <= address ? &functions->items[at] : NULL;
}

const struct kernel_function *kernel_functions_find(struct kernel_functions *functions, uint64_t address)
{
	const struct kernel_function *known = find_known(functions, address);
	struct kernel_symbol symbol;

	if (known || !functions->list || !kernel_list_find(functions->list, address, &symbol) ||
	    !text_is_plain(symbol.name))
		return known;
	kernel_functions_put(functions, symbol.start, symbol.end, symbol.name);
	return find_known(functions, address);
}
