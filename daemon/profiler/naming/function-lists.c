/* SPDX-License-Identifier: MIT */

#include "profiler/naming/function-lists.h"

#include "base/util/clock.h"
#include "base/util/hash.h"
#include "profiler/naming/cpu-budget.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>

/* A file that could not be read is tried again after this time, and after twice as long each time. */
#define AGAIN_NS (10 * (uint64_t)NS_PER_S)
#define AGAIN_DOUBLINGS 8

/* If no process was known to have the file mapped, the first try again comes after this time: after a start, processes
 * become known only when they are sampled. */
#define USER_NS (3 * (uint64_t)NS_PER_S)

/* CPU time of the children: ten seconds at first, which list the functions of hundreds of files, and then 1 % of the
 * time. */
#define BURST_NS (10 * (int64_t)NS_PER_S)
#define SHARE 100

/* A file, by its key and path. */
struct file {
	struct module *module;	    /* a reference */
	struct function_list *list; /* NULL: there is none yet */
	uint64_t *listed;	    /* sorted: the places for which the list was made */
	size_t nr_listed;
	uint64_t *wanted; /* the places of the next question */
	size_t nr_wanted;
	bool is_asked;	/* it waits for a child, or a child lists it */
	bool is_large;	/* there is no room for all of its functions */
	bool has_user;	/* the last question named a process that has it mapped */
	uint64_t tried; /* CLOCK_MONOTONIC ns: the last try in vain */
	unsigned tries;
	UT_hash_handle hh;
	TAILQ_ENTRY(file) in_list;
};
TAILQ_HEAD(file_list, file);

struct function_lists {
	struct list_maker *maker;
	struct file *files;
	struct file_list known;	 /* without a question; the file that was used last is the last */
	struct file_list asked;	 /* with a question, the oldest one first */
	struct file *being_made; /* the file of `asked` that a child lists, or NULL */
	struct cpu_budget budget;
	uint64_t taken_ns; /* CPU time that was taken from the budget */
	uint64_t again_at; /* CLOCK_MONOTONIC ns: when places that wait for USER_NS may be asked for; 0: none wait */
	size_t limit;
	struct function_lists_stats stats;
};

int function_lists_new(struct function_lists **ret, const struct list_roots *roots, size_t limit)
{
	_cleanup_(function_lists_freep) struct function_lists *lists = calloc(1, sizeof(*lists));
	int r;

	if (!lists)
		return -ENOMEM;
	lists->limit = limit;
	lists->budget = (struct cpu_budget){ .burst_ns = BURST_NS, .share = SHARE };
	TAILQ_INIT(&lists->known);
	TAILQ_INIT(&lists->asked);
	r = list_maker_new(&lists->maker, roots);
	if (r < 0)
		return r;
	*ret = steal_ptr(lists);
	return 0;
}

static void drop_list(struct function_lists *lists, struct file *file)
{
	if (file->list)
		lists->stats.bytes -= function_list_bytes(file->list);
	file->list = function_list_free(file->list);
	free(file->listed);
	file->listed = NULL;
	file->nr_listed = 0;
}

static void file_free(struct function_lists *lists, struct file *file)
{
	drop_list(lists, file);
	HASH_DEL(lists->files, file);
	if (file->is_asked)
		TAILQ_REMOVE(&lists->asked, file, in_list);
	else
		TAILQ_REMOVE(&lists->known, file, in_list);
	module_unref(file->module);
	free(file->wanted);
	free(file);
}

struct function_lists *function_lists_free(struct function_lists *lists)
{
	if (!lists)
		return NULL;
	while (lists->files)
		file_free(lists, lists->files);
	list_maker_free(lists->maker);
	free(lists);
	return NULL;
}

int function_lists_fd(const struct function_lists *lists)
{
	return list_maker_fd(lists->maker);
}

struct function_lists_stats function_lists_stats(const struct function_lists *lists)
{
	struct function_lists_stats stats = lists->stats;

	stats.files = HASH_COUNT(lists->files);
	stats.cpu_ns = list_maker_cpu_ns(lists->maker);
	return stats;
}

/* --- asking */

static size_t key_size(const char *path)
{
	return sizeof(struct module_key) + strlen(path);
}

_Static_assert(offsetof(struct module, path) == offsetof(struct module, key) + sizeof(struct module_key),
	       "key and path are one key of the files");

static struct file *find_file(const struct function_lists *lists, const struct module *module)
{
	struct file *file;

	HASH_FIND(hh, lists->files, &module->key, key_size(module->path), file);
	return file;
}

/* NULL: no memory. Takes the reference. */
static struct file *add_file(struct function_lists *lists, struct module *module)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file) {
		module_unref(module);
		return NULL;
	}
	file->module = module;
	HASH_ADD_KEYPTR(hh, lists->files, &module->key, key_size(module->path), file);
	if (!file->hh.tbl) {
		module_unref(module);
		free(file);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&lists->known, file, in_list);
	return file;
}

static struct file *find_or_add(struct function_lists *lists, const struct module_key *key, const char *path)
{
	_cleanup_(module_unrefp) struct module *module = module_new(key, path);
	struct file *file = module ? find_file(lists, module) : NULL;

	if (file || !module)
		return file;
	if (HASH_COUNT(lists->files) >= FUNCTION_LISTS_MAX) {
		if (TAILQ_EMPTY(&lists->known))
			return NULL;
		file_free(lists, TAILQ_FIRST(&lists->known));
	}
	return add_file(lists, steal_ptr(module));
}

static void ask_for(struct function_lists *lists, struct file *file, uint64_t place)
{
	if (!file->wanted)
		file->wanted = reallocarray(NULL, LIST_PLACES, sizeof(*file->wanted));
	if (file->wanted && file->nr_wanted < LIST_PLACES)
		file->wanted[file->nr_wanted++] = place;
	if (file->is_asked)
		return;
	file->is_asked = true;
	TAILQ_REMOVE(&lists->known, file, in_list);
	TAILQ_INSERT_TAIL(&lists->asked, file, in_list);
}

static int compare_places(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool has_place(const struct file *file, uint64_t place)
{
	return file->list && (!function_list_is_part(file->list) ||
			      bsearch(&place, file->listed, file->nr_listed, sizeof(place), compare_places));
}

static bool is_unread(const struct function_list *list)
{
	switch (function_list_naming(list)) {
	case NAMING_NO_FILE:
	case NAMING_OTHER_FILE:
	case NAMING_FAILED:
		return true;
	default:
		return false;
	}
}

/* Places in the file wait for a process that has it mapped. */
static bool waits_for_user(const struct file *file)
{
	return file->list && is_unread(file->list) && !file->has_user && file->tries == 1;
}

static bool is_to_be_tried(const struct file *file)
{
	unsigned doublings = file->tries < AGAIN_DOUBLINGS ? file->tries : AGAIN_DOUBLINGS;

	if (waits_for_user(file))
		return clock_monotonic_ns() >= file->tried + USER_NS;
	return file->list && is_unread(file->list) && clock_monotonic_ns() > file->tried + (AGAIN_NS << doublings);
}

const struct function_list *function_lists_find(struct function_lists *lists, const struct module_key *key,
						const char *path, uint64_t place)
{
	struct file *file = find_or_add(lists, key, path);

	if (!file)
		return NULL;
	if (file->is_asked || !has_place(file, place) || is_to_be_tried(file)) {
		if (file->is_asked && has_place(file, place) && !is_unread(file->list))
			return file->list;
		ask_for(lists, file, place);
		return NULL;
	}
	TAILQ_REMOVE(&lists->known, file, in_list);
	TAILQ_INSERT_TAIL(&lists->known, file, in_list);
	if (!waits_for_user(file))
		return file->list;
	if (!lists->again_at || lists->again_at > file->tried + USER_NS)
		lists->again_at = file->tried + USER_NS;
	return NULL;
}

/* --- making */

/* The list that was just made is not dropped. */
static void drop_least_used(struct function_lists *lists)
{
	struct file *file = TAILQ_FIRST(&lists->known);

	while (lists->stats.bytes > lists->limit && file && TAILQ_NEXT(file, in_list)) {
		struct file *next = TAILQ_NEXT(file, in_list);

		file_free(lists, file);
		file = next;
	}
}

/* Listing all functions took too long, or crashed: the next child lists only the functions at the places. */
static bool try_part(struct file *file, const struct function_list *list)
{
	if (!list || function_list_naming(list) != NAMING_FAILED || file->is_large || !file->nr_listed)
		return false;
	file->is_large = true;
	free(file->wanted);
	file->wanted = file->listed;
	file->nr_wanted = file->nr_listed;
	file->listed = NULL;
	file->nr_listed = 0;
	return true;
}

static void finish_making(struct function_lists *lists, struct file *file, struct function_list *list)
{
	lists->stats.made++;
	if (try_part(file, list)) {
		function_list_free(list);
		return;
	}
	TAILQ_REMOVE(&lists->asked, file, in_list);
	TAILQ_INSERT_TAIL(&lists->known, file, in_list);
	file->is_asked = false;
	file->list = list;
	if (!list)
		return;
	lists->stats.bytes += function_list_bytes(list);
	file->is_large |= function_list_is_part(list);
	if (is_unread(list)) {
		file->tried = clock_monotonic_ns();
		file->tries++;
	}
	drop_least_used(lists);
}

static bool take_made(struct function_lists *lists)
{
	uint64_t cpu_ns;

	if (!lists->being_made || !list_maker_finish(lists->maker))
		return false;
	cpu_ns = list_maker_cpu_ns(lists->maker);
	cpu_budget_take(&lists->budget, cpu_ns - lists->taken_ns);
	lists->taken_ns = cpu_ns;
	finish_making(lists, lists->being_made, list_maker_take(lists->maker));
	lists->being_made = NULL;
	return true;
}

/* Places that come meanwhile are for the next question. */
static int start(struct function_lists *lists, struct file *file, const struct processes *processes)
{
	const struct module *module = file->module;
	const struct list_question question = {
		.path = module->path,
		.key = &module->key,
		.user = processes_user_of(processes, &module->key, module->path),
		.is_part = file->is_large,
		.places = file->wanted,
		.nr = file->nr_wanted,
		.max = lists->limit / 2,
	};
	int r = list_maker_start(lists->maker, &question);

	if (r < 0)
		return r;
	file->has_user = question.user.pid;
	drop_list(lists, file);
	file->listed = file->wanted;
	file->nr_listed = file->nr_wanted;
	file->wanted = NULL;
	file->nr_wanted = 0;
	return 0;
}

bool function_lists_turn(struct function_lists *lists, const struct processes *processes)
{
	bool changed = take_made(lists);
	struct file *next = TAILQ_FIRST(&lists->asked);

	if (lists->again_at && clock_monotonic_ns() >= lists->again_at) {
		lists->again_at = 0;
		changed = true;
	}
	/* If no child can be started now, the next turn tries again. */
	if (next && !lists->being_made && cpu_budget_has_some(&lists->budget, clock_monotonic_ns()) &&
	    start(lists, next, processes) == 0)
		lists->being_made = next;
	return changed;
}

void function_lists_tidy(struct function_lists *lists,
			 bool (*is_used)(const void *userdata, const struct module_key *key, const char *path),
			 const void *userdata)
{
	struct file *file, *next;

	HASH_ITER(hh, lists->files, file, next)
		if (file != lists->being_made && !is_used(userdata, &file->module->key, file->module->path))
			file_free(lists, file);
}
