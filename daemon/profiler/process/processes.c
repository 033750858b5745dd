/* SPDX-License-Identifier: MIT */

#include "profiler/process/processes.h"

#include "base/host/maps-reader.h"
#include "base/host/process-identity.h"
#include "base/host/process-list.h"
#include "base/util/clock.h"
#include "base/util/file.h"
#include "base/util/hash.h"
#include "profiler/process/process-table.h"
#include "profiler/process/thread-names.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* How long a process is kept after its end. */
#define ENDED_NS (10 * (uint64_t)NS_PER_S)

/* As of <linux/perf_event.h>. */
#define MISC_COMM_EXEC PERF_RECORD_MISC_COMM_EXEC

struct tracked {
	struct process process;
	uint64_t ended;	 /* CLOCK_MONOTONIC ns; 0: it runs */
	uint64_t losses; /* those before it was known; more since: it may be another */
	bool awaited;	 /* its mappings are being read … */
	uint64_t asked;	 /* … with so many losses before */
	bool identified;
	uint64_t identity; /* as of process_identity(), if it was asked for */
	UT_hash_handle hh;
};

/* By key and path, which lie side by side in a module. */
struct known_module {
	struct module *module;
	UT_hash_handle hh;
};

struct processes {
	char *procroot, *list;
	struct maps_reader *reader;
	struct thread_names *threads;
	struct stat list_seen;	/* what of it was taken */
	struct tracked *by_pid; /* in the order in which they were met */
	struct known_module *modules;
	size_t mappings;
	uint64_t losses;	 /* of records, ever */
	uint64_t lives;		 /* of programs, ever */
	uint64_t changes, saved; /* of what is in a table, ever; those that are in it */
	struct processes_stats stats;
};

int processes_new(struct processes **ret, const char *procroot, const char *list, uint64_t patience)
{
	_cleanup_(processes_freep) struct processes *processes = calloc(1, sizeof(*processes));

	if (!processes || maps_reader_new(&processes->reader, procroot, patience) < 0 ||
	    thread_names_new(&processes->threads, procroot) < 0)
		return -ENOMEM;
	processes->procroot = strdup(procroot);
	processes->list = list ? strdup(list) : NULL;
	if (!processes->procroot || (list && !processes->list))
		return -ENOMEM;
	*ret = steal_ptr(processes);
	return 0;
}

static void forget_process(struct processes *processes, struct tracked *tracked)
{
	processes->changes++;
	HASH_DEL(processes->by_pid, tracked);
	mappings_unref(tracked->process.mappings);
	free(tracked);
}

static void forget_module(struct processes *processes, struct known_module *known)
{
	HASH_DEL(processes->modules, known);
	module_unref(known->module);
	free(known);
}

struct processes *processes_free(struct processes *processes)
{
	struct known_module *known, *next_known;
	struct tracked *tracked, *next;

	if (!processes)
		return NULL;
	HASH_ITER(hh, processes->by_pid, tracked, next)
		forget_process(processes, tracked);
	HASH_ITER(hh, processes->modules, known, next_known)
		forget_module(processes, known);
	maps_reader_free(processes->reader);
	thread_names_free(processes->threads);
	free(processes->procroot);
	free(processes->list);
	free(processes);
	return NULL;
}

/* --- modules */

/* The module with that key and path, which all processes share; a reference for the caller. NULL: no memory. */
static struct module *find_module(struct processes *processes, const struct module_key *key, const char *path)
{
	_cleanup_(module_unrefp) struct module *module = module_new(key, path);
	struct known_module *known;
	size_t size = sizeof(*key) + strlen(path);

	if (!module)
		return NULL;
	HASH_FIND(hh, processes->modules, &module->key, size, known);
	if (known)
		return module_ref(known->module);
	known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	known->module = module_ref(module);
	HASH_ADD_KEYPTR(hh, processes->modules, &known->module->key, size, known);
	if (!known->hh.tbl) {
		module_unref(known->module);
		free(known);
		return NULL;
	}
	return steal_ptr(module);
}

/* --- processes */

static struct tracked *find_tracked(const struct processes *processes, uint32_t pid)
{
	struct tracked *tracked;

	HASH_FIND(hh, processes->by_pid, &pid, sizeof(pid), tracked);
	return tracked;
}

static void make_room(struct processes *processes)
{
	while (processes->by_pid &&
	       (HASH_COUNT(processes->by_pid) >= PROCESSES_MAX || processes->mappings >= PROCESSES_MAPPINGS_MAX))
		forget_process(processes, processes->by_pid);
}

/* A process without a command; one with the same pid was another. */
static struct tracked *add_process(struct processes *processes, uint32_t pid, struct mappings *mappings)
{
	struct tracked *tracked = find_tracked(processes, pid);

	if (mappings)
		mappings_ref(mappings);
	if (tracked)
		forget_process(processes, tracked);
	make_room(processes);
	processes->changes++;
	tracked = calloc(1, sizeof(*tracked));
	if (!tracked) {
		mappings_unref(mappings);
		return NULL;
	}
	tracked->losses = processes->losses;
	tracked->process.pid = pid;
	tracked->process.program = (struct process_program){ .pid = pid, .life = ++processes->lives };
	tracked->process.mappings = mappings ?: mappings_new(&processes->mappings);
	if (tracked->process.mappings)
		HASH_ADD(hh, processes->by_pid, process.pid, sizeof(tracked->process.pid), tracked);
	if (!tracked->process.mappings || !tracked->hh.tbl) {
		mappings_unref(tracked->process.mappings);
		free(tracked);
		return NULL;
	}
	return tracked;
}

static int put_mapping(struct processes *processes, struct process *process, uint64_t start, uint64_t size,
		       uint64_t offset, const struct module_key *key, const char *path)
{
	_cleanup_(module_unrefp) struct module *module = find_module(processes, key, path);

	processes->changes++;
	return module ? mappings_put(&process->mappings, start, size, offset, module) : -ENOMEM;
}

struct look_up {
	struct processes *processes;
	struct process *process;
};

static int take_from_proc(void *userdata, const struct proc_mapping *mapping)
{
	struct look_up *look_up = userdata;

	return put_mapping(look_up->processes, look_up->process, mapping->start, mapping->size, mapping->offset,
			   &mapping->key, mapping->path);
}

/* As /proc has it now; the mappings are the caller's. Negative errno: it is gone, or there is no memory. */
static int read_process(struct processes *processes, uint32_t pid, struct process *ret)
{
	struct process process = { .pid = pid };
	struct look_up look_up = { .processes = processes, .process = &process };
	int r = proc_comm_read(processes->procroot, pid, process.comm);

	if (r < 0)
		return r;
	process.mappings = mappings_new(&processes->mappings);
	if (!process.mappings)
		return -ENOMEM;
	process.mappings_error = maps_reader_read(processes->reader, pid, take_from_proc, &look_up);
	*ret = process;
	return 0;
}

static void note_asked(const struct processes *processes, struct tracked *tracked, int mappings_error)
{
	tracked->awaited = mappings_error == -EAGAIN;
	tracked->asked = processes->losses;
}

/* One that ran before. */
static struct tracked *look_up_process(struct processes *processes, uint32_t pid)
{
	struct tracked *tracked;
	struct process found;

	processes->stats.looked_up++;
	if (read_process(processes, pid, &found) < 0) {
		processes->stats.not_found++;
		return NULL;
	}
	tracked = add_process(processes, pid, found.mappings);
	mappings_unref(found.mappings);
	if (!tracked)
		return NULL;
	memcpy(tracked->process.comm, found.comm, sizeof(found.comm));
	tracked->process.mappings_error = found.mappings_error;
	note_asked(processes, tracked, found.mappings_error);
	return tracked;
}

bool process_is_locked(const struct process *process)
{
	return process->mappings_error == -EAGAIN || process->mappings_error == -EBUSY;
}

/* What is known stays where /proc has no better: of a program that is the same, whose mappings this user may not read,
 * and of one whose other threads live on after its end. */
static bool is_worse(const struct tracked *tracked, const struct process *found)
{
	return (found->mappings_error < 0 && strcmp(found->comm, tracked->process.comm) == 0) ||
	       (tracked->ended && !mappings_nr(found->mappings));
}

/* Records were lost since it was known, or its mappings could not be read yet. They are asked for once, and doubted
 * until they are there. */
static void look_again(struct processes *processes, struct tracked *tracked)
{
	struct process *process = &tracked->process, found;
	int r = read_process(processes, process->pid, &found);

	if (r == 0 && process_is_locked(&found)) {
		note_asked(processes, tracked, found.mappings_error);
		mappings_unref(found.mappings);
		return;
	}
	tracked->losses = processes->losses;
	if (r < 0)
		return;
	if (is_worse(tracked, &found)) {
		if (process_is_locked(process))
			process->mappings_error = found.mappings_error;
		mappings_unref(found.mappings);
		return;
	}
	processes->changes++;
	found.program = process->program;
	if (tracked->ended || strcmp(found.comm, process->comm) != 0)
		found.program = (struct process_program){ .pid = process->pid, .life = ++processes->lives };
	mappings_unref(process->mappings);
	*process = found;
	tracked->ended = 0;
}

/* Mappings that were read after all. Those of processes that are another by now are dropped. */
static void take_late(struct processes *processes)
{
	uint32_t pid;

	while ((pid = maps_reader_late(processes->reader)) > 0) {
		struct tracked *tracked = find_tracked(processes, pid);

		if (tracked && tracked->awaited) {
			tracked->awaited = false;
			look_again(processes, tracked);
			tracked->losses = tracked->asked;
		}
		maps_reader_forget(processes->reader, pid);
	}
}

static struct tracked *find_or_look_up(struct processes *processes, uint32_t pid)
{
	struct tracked *tracked = find_tracked(processes, pid);

	return tracked ? tracked : look_up_process(processes, pid);
}

const struct process *processes_find(struct processes *processes, uint32_t pid)
{
	struct tracked *tracked;

	take_late(processes);
	tracked = find_or_look_up(processes, pid);
	if (!tracked)
		return NULL;
	if (!tracked->awaited && (tracked->losses != processes->losses || process_is_locked(&tracked->process)))
		look_again(processes, tracked);
	return &tracked->process;
}

const struct process *processes_known(const struct processes *processes, uint32_t pid)
{
	const struct tracked *tracked = find_tracked(processes, pid);

	return tracked ? &tracked->process : NULL;
}

const char *processes_thread_name(struct processes *processes, uint32_t pid, uint32_t tid)
{
	return thread_names_find(processes->threads, pid, tid);
}

struct file_user processes_user_of(const struct processes *processes, const struct module_key *key, const char *path)
{
	const struct tracked *tracked, *next;

	HASH_ITER(hh, processes->by_pid, tracked, next) {
		const struct mapping *mapping = tracked->ended ? NULL :
								 mappings_of(tracked->process.mappings, key, path);

		if (mapping)
			return (struct file_user){ tracked->process.pid, mapping->start,
						   mapping->start + mapping->size };
	}
	return (struct file_user){};
}

/* --- the list */

static int take_listed(void *userdata, uint32_t pid, const char *comm)
{
	struct look_up *look_up = userdata;
	struct tracked *tracked = find_tracked(look_up->processes, pid) ? NULL :
									  add_process(look_up->processes, pid, NULL);

	look_up->process = tracked ? &tracked->process : NULL;
	if (tracked)
		(void)snprintf(tracked->process.comm, sizeof(tracked->process.comm), "%s", comm);
	return 0;
}

/* Mappings that are too many are left out. */
static int take_listed_mapping(void *userdata, const struct proc_mapping *mapping)
{
	const struct look_up *look_up = userdata;

	if (look_up->process)
		(void)take_from_proc(userdata, mapping);
	return 0;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void processes_follow_list(struct processes *processes)
{
	struct look_up look_up = { .processes = processes };
	const struct process_list_reader reader = { take_listed, take_listed_mapping, &look_up };
	_cleanup_(freep) char *text = NULL;
	struct stat st;

	if (!processes->list || stat(processes->list, &st) < 0 || is_same_file(&st, &processes->list_seen))
		return;
	processes->list_seen = st;
	if (read_text_file(AT_FDCWD, processes->list, PROCESS_LIST_MAX, &text) == 0)
		(void)process_list_read(text, &reader);
}

/* --- the table */

/* One that has ended is left out, and so is one whose pid another has by now. */
static int take_saved(void *userdata, const struct saved_process *process)
{
	struct look_up *look_up = userdata;
	struct tracked *tracked;
	uint64_t now;

	look_up->process = NULL;
	if (process_identity(process->pid, &now) < 0 || (process->identity && now && process->identity != now) ||
	    find_tracked(look_up->processes, process->pid))
		return 0;
	tracked = add_process(look_up->processes, process->pid, NULL);
	if (!tracked)
		return 0;
	look_up->process = &tracked->process;
	memcpy(tracked->process.comm, process->comm, sizeof(process->comm));
	tracked->process.mappings_error = process->mappings_error;
	tracked->identified = true;
	tracked->identity = now;
	return 0;
}

int processes_take_table(struct processes *processes, struct process_table *table)
{
	struct look_up look_up = { .processes = processes };
	const struct process_table_reader reader = { take_saved, take_listed_mapping, &look_up };
	struct process_table_list list;
	int r = process_table_load(table, &reader, &list);

	if (r < 0)
		return r;
	/* In an old list, pids may be those of others by now. */
	processes->list_seen = (struct stat){
		.st_ino = list.inode,
		.st_mtim = { .tv_sec = (time_t)list.seconds, .tv_nsec = (long)list.nanoseconds },
	};
	return (int)HASH_COUNT(processes->by_pid);
}

static int save_process(struct process_table_image *image, struct tracked *tracked)
{
	const struct process *process = &tracked->process;
	struct saved_process saved = {
		.pid = process->pid,
		.mappings = process->mappings,
		.mappings_error = process->mappings_error,
	};

	if (tracked->ended || (!tracked->identified && process_identity(process->pid, &tracked->identity) < 0))
		return 0;
	tracked->identified = true;
	saved.identity = tracked->identity;
	memcpy(saved.comm, process->comm, sizeof(saved.comm));
	return process_table_image_add(image, &saved);
}

int processes_save_table(struct processes *processes, struct process_table *table)
{
	_cleanup_(process_table_image_release) struct process_table_image image = {};
	struct tracked *tracked =
		processes->by_pid ? ELMT_FROM_HH(processes->by_pid->hh.tbl, processes->by_pid->hh.tbl->tail) : NULL;
	struct process_table_list list = {
		.inode = processes->list_seen.st_ino,
		.seconds = (uint64_t)processes->list_seen.st_mtim.tv_sec,
		.nanoseconds = (uint64_t)processes->list_seen.st_mtim.tv_nsec,
	};
	int r = 0;

	if (processes->changes == processes->saved)
		return 0;
	process_table_image_begin(&image, process_table_size(table));
	for (; tracked && r != -ENOMEM; tracked = tracked->hh.prev) {
		r = save_process(&image, tracked);
		if (r == -E2BIG)
			list = (struct process_table_list){};
	}
	if (r != -ENOMEM)
		r = process_table_save(table, &image, &list);
	if (r == 0)
		processes->saved = processes->changes;
	return r;
}

/* --- records */

/* Pids of tasks that are not in this process's namespace of pids, or are gone already. */
static bool is_nobody(uint32_t pid)
{
	return pid == 0 || pid == UINT32_MAX;
}

static void take_fork(struct processes *processes, const struct record_task *task)
{
	struct tracked *parent, *child, before;

	if (task->pid == task->ppid || is_nobody(task->pid)) /* a thread */
		return;
	parent = is_nobody(task->ppid) ? NULL : find_or_look_up(processes, task->ppid);
	if (!parent)
		return;
	/* Adding the child may push out the parent. */
	before = *parent;
	child = add_process(processes, task->pid, before.process.mappings);
	if (!child)
		return;
	child->losses = before.losses;
	memcpy(child->process.comm, before.process.comm, sizeof(before.process.comm));
	child->process.mappings_error = before.process.mappings_error;
}

/* The command is that of the first thread. An exec replaces all mappings; their records follow. */
static void take_comm(struct processes *processes, const struct record *record)
{
	bool exec = record->misc & MISC_COMM_EXEC;
	struct tracked *tracked;

	if (is_nobody(record->comm.pid) || record->comm.pid != record->comm.tid)
		return;
	tracked = exec ? add_process(processes, record->comm.pid, NULL) : find_tracked(processes, record->comm.pid);
	if (!tracked)
		return;
	processes->changes++;
	if (exec)
		tracked->process.program.executed_at = record->id.time;
	(void)snprintf(tracked->process.comm, sizeof(tracked->process.comm), "%s", record->comm.name);
}

static void take_mapping(struct processes *processes, const struct record_mapping *mapping)
{
	struct module_key key = { .build_id_size = mapping->build_id_size };
	struct tracked *tracked;

	/* One that is not known yet is looked up when it is sampled. */
	if (is_nobody(mapping->pid) || !(tracked = find_tracked(processes, mapping->pid)))
		return;
	if (mapping->build_id_size)
		memcpy(key.build_id, mapping->build_id, mapping->build_id_size);
	if (mapping->has_inode) {
		key.major = mapping->major;
		key.minor = mapping->minor;
		key.inode = mapping->inode;
	}
	(void)put_mapping(processes, &tracked->process, mapping->start, mapping->size, mapping->offset, &key,
			  mapping->file);
}

static void take_exit(struct processes *processes, const struct record_task *task)
{
	struct tracked *tracked = find_tracked(processes, task->pid);

	if (!tracked || task->pid != task->tid)
		return;
	processes->changes++;
	tracked->ended = task->time ?: 1;
}

void processes_note_lost(struct processes *processes)
{
	processes->losses++;
	thread_names_forget(processes->threads);
}

void processes_take(struct processes *processes, const struct record *record)
{
	thread_names_take(processes->threads, record);
	switch (record->type) {
	case PERF_RECORD_FORK:
		take_fork(processes, &record->task);
		break;
	case PERF_RECORD_COMM:
		take_comm(processes, record);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		take_mapping(processes, &record->mapping);
		break;
	case PERF_RECORD_EXIT:
		take_exit(processes, &record->task);
		break;
	case PERF_RECORD_LOST:
		processes_note_lost(processes);
		break;
	default:
		break;
	}
}

void processes_tidy(struct processes *processes, uint64_t now)
{
	struct known_module *known, *next_known;
	struct tracked *tracked, *next;

	HASH_ITER(hh, processes->by_pid, tracked, next)
		if (tracked->ended && now > tracked->ended && now - tracked->ended > ENDED_NS)
			forget_process(processes, tracked);
	HASH_ITER(hh, processes->modules, known, next_known)
		if (known->module->refs == 1)
			forget_module(processes, known);
}

struct processes_stats processes_stats(const struct processes *processes)
{
	struct processes_stats stats = processes->stats;

	stats.processes = HASH_COUNT(processes->by_pid);
	stats.mappings = processes->mappings;
	return stats;
}
