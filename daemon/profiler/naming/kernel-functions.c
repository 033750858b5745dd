/* SPDX-License-Identifier: MIT */

#include "profiler/naming/kernel-functions.h"

#include "base/util/clock.h"
#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <zlib.h>

#define MODULES_SIZE_MAX ((size_t)1 << 20)

/* Bytes of the largest list: ten times as many as 122,000 functions take. */
#define LIST_BYTES_MAX ((size_t)12 << 20)

/* Reading that failed is tried again after this time, and after twice as long each time. */
#define AGAIN_NS (10 * (uint64_t)NS_PER_S)
#define AGAIN_DOUBLINGS 8

static void empty(struct kernel_functions *functions)
{
	for (size_t i = 0; i < functions->nr; i++)
		free(functions->items[i].name);
	functions->nr = 0;
}

int kernel_functions_init(struct kernel_functions *functions, int epoll_fd)
{
	const struct list_roots nothing = { "", "" };
	struct epoll_event events = { .events = EPOLLIN };
	int r;

	*functions = (struct kernel_functions){ .block = calloc(1, sizeof(*functions->block)) };
	if (!functions->block)
		return -ENOMEM;
	r = list_maker_new(&functions->maker, &nothing);
	if (r < 0)
		return r;
	events.data.fd = list_maker_fd(functions->maker);
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, events.data.fd, &events) < 0 ? -errno : 0;
}

void kernel_functions_release(struct kernel_functions *functions)
{
	kernel_functions_forget(functions);
	list_maker_free(functions->maker);
	free(functions->block);
	*functions = (struct kernel_functions){};
}

static void drop_list(struct kernel_functions *functions)
{
	functions->list = function_list_free(functions->list);
	if (functions->block)
		functions->block->list = NULL;
}

void kernel_functions_forget(struct kernel_functions *functions)
{
	empty(functions);
	free(functions->items);
	functions->items = NULL;
	functions->cap = 0;
	drop_list(functions);
	functions->unnamed = NAMING_UNTRIED;
	functions->is_stale = false;
	functions->again_at = functions->failures = 0;
}

/* --- the list */

/* A line is "NAME SIZE USERS USED_BY STATE ADDRESS". Only name, size and address are in the sum: users come and go. */
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

/* 0: there is no list of modules, as in a kernel that can load none. */
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

/* If no child can be started now, kernel_functions_follow() tries again. */
void kernel_functions_read(struct kernel_functions *functions, const char *procfs, const char *saved)
{
	char path[PATH_MAX];
	const char *const paths[] = { path, saved };

	(void)snprintf(path, sizeof(path), "%s/kallsyms", procfs);
	functions->modules = sum_modules(procfs);
	functions->is_stale = list_maker_start_kernel(functions->maker, paths, saved ? 2 : 1, LIST_BYTES_MAX) < 0;
	for (size_t i = 0; i < functions->nr; i++)
		functions->items[i].is_reported = false;
}

void kernel_functions_follow(struct kernel_functions *functions, const char *procfs, const char *saved)
{
	if ((functions->is_stale && clock_monotonic_ns() >= functions->again_at) ||
	    functions->modules != sum_modules(procfs))
		kernel_functions_read(functions, procfs, saved);
}

/* Forgets the functions that were found in the list before. */
static void drop_old(struct kernel_functions *functions)
{
	size_t nr = 0;

	for (size_t i = 0; i < functions->nr; i++) {
		if (functions->items[i].is_reported)
			functions->items[nr++] = functions->items[i];
		else
			free(functions->items[i].name);
	}
	functions->nr = nr;
}

bool kernel_functions_turn(struct kernel_functions *functions)
{
	_cleanup_(function_list_freep) struct function_list *list = NULL;
	enum naming naming;

	if (!list_maker_finish(functions->maker))
		return false;
	list = list_maker_take(functions->maker);
	naming = list ? function_list_naming(list) : NAMING_FAILED;
	/* The child took too long, as on a busy machine: the list before stays, and another child tries again later. */
	if (naming == NAMING_FAILED) {
		functions->is_stale = true;
		functions->again_at = clock_monotonic_ns() + (AGAIN_NS << functions->failures);
		functions->failures += functions->failures < AGAIN_DOUBLINGS;
		if (functions->list)
			return false;
	} else {
		functions->failures = 0;
	}
	drop_list(functions);
	drop_old(functions);
	functions->unnamed = naming;
	if (naming != NAMING_NO_SYMBOL)
		return true;
	functions->list = steal_ptr(list);
	/* The child for an answer adds samples that wait for tables, and needs their functions. */
	function_list_share(functions->list);
	return true;
}

/* --- functions that were found, or reported */

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

static void put(struct kernel_functions *functions, uint64_t start, uint64_t end, const char *name, bool is_reported)
{
	char *copy = start < end ? strdup(name) : NULL;
	size_t at;

	if (!copy)
		return;
	/* This also forgets code that was reported since: the list is read again. */
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
	functions->items[at] = (struct kernel_function){ start, end, copy, is_reported };
	functions->nr++;
}

void kernel_functions_put(struct kernel_functions *functions, uint64_t start, uint64_t end, const char *name)
{
	put(functions, start, end, name, true);
}

static const struct kernel_function *find_known(const struct kernel_functions *functions, uint64_t address)
{
	size_t at = find_place(functions, address);

	return at < functions->nr && functions->items[at].start <= address ? &functions->items[at] : NULL;
}

enum naming kernel_functions_find(struct kernel_functions *functions, uint64_t address,
				  const struct kernel_function **ret)
{
	struct function found;

	*ret = find_known(functions, address);
	if (!*ret && functions->list && function_list_find(functions->list, address, functions->block, &found) &&
	    found.name) {
		put(functions, found.start, found.end, found.name, false);
		*ret = find_known(functions, address);
	}
	return *ret ? NAMING_NAMED : functions->unnamed;
}

struct kernel_functions_stats kernel_functions_stats(const struct kernel_functions *functions)
{
	return (struct kernel_functions_stats){
		.cpu_ns = list_maker_cpu_ns(functions->maker),
		.bytes = functions->list ? function_list_bytes(functions->list) : 0,
	};
}
