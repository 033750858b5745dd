/* SPDX-License-Identifier: MIT */

#include "profiler/stack/tables.h"

#include "base/util/clock.h"
#include "base/util/hash.h"
#include "profiler/naming/cpu-budget.h"
#include "profiler/stack/table-maker.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>

/* A file without a table is tried again after this time, and after twice as long each time, up to an hour. */
#define ABSENT_NS (60 * (uint64_t)NS_PER_S)
#define ABSENT_DOUBLINGS 6

/* CPU time of the makers: five seconds at first, which make the tables of a hundred files, and then 5 ms a second. */
#define MAKING_BURST_NS (5 * (int64_t)NS_PER_S)
#define MAKING_SHARE 200

/* A table that was used within IN_USE_NS is in use. If there was no room for such a table, this is told for
 * SHORT_NS. */
#define IN_USE_NS (10 * (uint64_t)NS_PER_S)
#define SHORT_NS (60 * (uint64_t)NS_PER_S)

/* A file, by its key. The vdso has no key: it has the empty one here. */
struct file {
	struct module *module; /* a reference */
	enum frame_tables_state state;
	struct frame_table *table; /* if it is ready */
	uint64_t used_at;	   /* CLOCK_MONOTONIC ns: the last use of the table */
	uint64_t tried_at;	   /* CLOCK_MONOTONIC ns: the last try in vain */
	unsigned tries;		   /* in vain */
	bool is_stuck;		   /* the last child hangs, or has hung */
	UT_hash_handle hh;
	TAILQ_ENTRY(file) in_list;
};
TAILQ_HEAD(file_list, file);

struct frame_tables {
	struct table_maker *maker;
	struct file *files;	 /* by key */
	struct file_list known;	 /* without a question; the file that was used last is the last */
	struct file_list asked;	 /* with a question, the oldest one first */
	struct file *being_made; /* the file of `asked` that a child reads, or NULL */
	struct file *stuck;	 /* a file that has come to hang, which was not told yet; or NULL */
	struct cpu_budget budget;
	uint64_t taken_ns; /* CPU time that was taken from the budget */
	size_t limit;
	uint64_t short_at; /* CLOCK_MONOTONIC ns: when a table in use last had no room; 0: never */
	struct frame_tables_stats stats;
};

int frame_tables_new(struct frame_tables **ret, const char *procfs)
{
	_cleanup_(frame_tables_freep) struct frame_tables *tables = calloc(1, sizeof(*tables));
	int r;

	if (!tables)
		return -ENOMEM;
	tables->budget = (struct cpu_budget){ .burst_ns = MAKING_BURST_NS, .share = MAKING_SHARE };
	TAILQ_INIT(&tables->known);
	TAILQ_INIT(&tables->asked);
	r = table_maker_new(&tables->maker, procfs);
	if (r < 0)
		return r;
	*ret = steal_ptr(tables);
	return 0;
}

static void file_free(struct frame_tables *tables, struct file *file)
{
	TAILQ_REMOVE(file->state == FRAME_TABLES_ASKED ? &tables->asked : &tables->known, file, in_list);
	HASH_DEL(tables->files, file);
	if (tables->stuck == file)
		tables->stuck = NULL;
	if (file->table) {
		tables->stats.bytes -= file->table->bytes;
		tables->stats.files--;
	}
	frame_table_free(file->table);
	module_unref(file->module);
	free(file);
}

struct frame_tables *frame_tables_free(struct frame_tables *tables)
{
	struct file *file, *next;

	if (!tables)
		return NULL;
	HASH_ITER(hh, tables->files, file, next)
		file_free(tables, file);
	table_maker_free(tables->maker);
	free(tables);
	return NULL;
}

/* Drops the tables that were not used for the longest time. */
static void drop_least_used(struct frame_tables *tables)
{
	uint64_t now = clock_monotonic_ns();
	struct file *file, *next;

	for (file = TAILQ_FIRST(&tables->known); file && tables->stats.bytes > tables->limit; file = next) {
		next = TAILQ_NEXT(file, in_list);
		if (!file->table)
			continue;
		tables->stats.dropped++;
		if (now < file->used_at + IN_USE_NS)
			tables->short_at = now;
		file_free(tables, file);
	}
}

void frame_tables_set_limit(struct frame_tables *tables, size_t limit)
{
	tables->limit = limit;
	drop_least_used(tables);
}

size_t frame_tables_limit(const struct frame_tables *tables)
{
	return tables->limit;
}

/* NULL: no memory. */
static struct file *add_file(struct frame_tables *tables, const struct module *module)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->module = module_new(&module->key, module->path);
	if (file->module)
		HASH_ADD_KEYPTR(hh, tables->files, &file->module->key, sizeof(file->module->key), file);
	if (!file->module || !file->hh.tbl) {
		module_unref(file->module);
		free(file);
		return NULL;
	}
	file->state = FRAME_TABLES_ASKED;
	TAILQ_INSERT_TAIL(&tables->asked, file, in_list);
	return file;
}

/* While a child hangs, its file is not tried again: it would take one child after the other. */
static bool is_to_be_tried(const struct frame_tables *tables, const struct file *file)
{
	unsigned doublings = file->tries < ABSENT_DOUBLINGS ? file->tries - 1 : ABSENT_DOUBLINGS;

	if (file->state != FRAME_TABLES_ABSENT || (file->is_stuck && table_maker_nr_stuck(tables->maker)))
		return false;
	return clock_monotonic_ns() > file->tried_at + (ABSENT_NS << doublings);
}

static void ask_again(struct frame_tables *tables, struct file *file)
{
	TAILQ_REMOVE(&tables->known, file, in_list);
	file->state = FRAME_TABLES_ASKED;
	TAILQ_INSERT_TAIL(&tables->asked, file, in_list);
}

enum frame_tables_state frame_tables_find(struct frame_tables *tables, const struct module *module,
					  const struct frame_table **ret)
{
	struct file *file;

	HASH_FIND(hh, tables->files, &module->key, sizeof(module->key), file);
	if (!file && HASH_COUNT(tables->files) >= FRAME_TABLES_MAX) {
		if (TAILQ_EMPTY(&tables->known))
			return FRAME_TABLES_ABSENT;
		file_free(tables, TAILQ_FIRST(&tables->known));
	}
	if (!file)
		return add_file(tables, module) ? FRAME_TABLES_ASKED : FRAME_TABLES_ABSENT;
	if (is_to_be_tried(tables, file))
		ask_again(tables, file);
	if (file->state == FRAME_TABLES_READY) {
		TAILQ_REMOVE(&tables->known, file, in_list);
		TAILQ_INSERT_TAIL(&tables->known, file, in_list);
		file->used_at = clock_monotonic_ns();
		*ret = file->table;
	}
	return file->state;
}

int frame_tables_fd(const struct frame_tables *tables)
{
	return table_maker_fd(tables->maker);
}

/* table: NULL: there is none, because of the problem. */
static void finish_making(struct frame_tables *tables, struct file *file, struct frame_table *table,
			  enum frame_problem problem)
{
	TAILQ_REMOVE(&tables->asked, file, in_list);
	TAILQ_INSERT_TAIL(&tables->known, file, in_list);
	file->table = table;
	file->is_stuck = problem == FRAME_STUCK;
	if (file->is_stuck)
		tables->stuck = file;
	if (problem == FRAME_TOO_LARGE)
		tables->short_at = clock_monotonic_ns();
	if (table) {
		file->used_at = clock_monotonic_ns(); /* it is asked for */
		file->state = FRAME_TABLES_READY;
		tables->stats.bytes += table->bytes;
		tables->stats.files++;
		tables->stats.made++;
	} else {
		file->state = FRAME_TABLES_ABSENT;
		file->tried_at = clock_monotonic_ns();
		file->tries++;
		tables->stats.absent++;
	}
	drop_least_used(tables);
}

static bool take_made(struct frame_tables *tables)
{
	struct frame_table *table = NULL;
	enum frame_problem problem;

	if (!tables->being_made || !table_maker_finish(tables->maker))
		return false;
	cpu_budget_take(&tables->budget, table_maker_cpu_ns(tables->maker) - tables->taken_ns);
	tables->taken_ns = table_maker_cpu_ns(tables->maker);
	problem = table_maker_take(tables->maker, &table, tables->limit);
	finish_making(tables, tables->being_made, table, problem);
	tables->being_made = NULL;
	return true;
}

bool frame_tables_turn(struct frame_tables *tables, const struct processes *processes)
{
	bool changed = take_made(tables), may_make = cpu_budget_has_some(&tables->budget, clock_monotonic_ns());
	struct file *next;

	while (may_make && !tables->being_made && (next = TAILQ_FIRST(&tables->asked))) {
		const struct module *module = next->module;
		struct file_user user = processes_user_of(processes, &module->key, module->path);

		if (table_maker_start(tables->maker, module->path, &module->key, &user) == 0)
			tables->being_made = next;
		else
			finish_making(tables, next, NULL, FRAME_FAILED);
		changed |= !tables->being_made;
	}
	return changed;
}

struct frame_tables_stats frame_tables_stats(const struct frame_tables *tables)
{
	struct frame_tables_stats stats = tables->stats;

	stats.cpu_ns = table_maker_cpu_ns(tables->maker);
	stats.stuck = table_maker_nr_stuck(tables->maker);
	stats.is_short = tables->short_at && clock_monotonic_ns() < tables->short_at + SHORT_NS;
	return stats;
}

const char *frame_tables_take_stuck(struct frame_tables *tables)
{
	const char *path = tables->stuck ? tables->stuck->module->path : NULL;

	tables->stuck = NULL;
	return path;
}
