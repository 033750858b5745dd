/* SPDX-License-Identifier: MIT */

#include "profiler/naming/kernel-functions.h"

#include <string.h>

void kernel_functions_forget(struct kernel_functions *functions)
{
	for (size_t i = 0; i < functions->nr; i++)
		free(functions->items[i].name);
	free(functions->items);
	*functions = (struct kernel_functions){};
}

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

const struct kernel_function *kernel_functions_find(const struct kernel_functions *functions, uint64_t address)
{
	size_t at = find_place(functions, address);

	return at < functions->nr && functions->items[at].start <= address ? &functions->items[at] : NULL;
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
	if (functions->nr >= KERNEL_FUNCTIONS_MAX)
		kernel_functions_forget(functions);
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
