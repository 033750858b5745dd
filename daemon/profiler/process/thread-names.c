/* SPDX-License-Identifier: MIT */

#include "profiler/process/thread-names.h"

#include "base/host/proc-maps.h"
#include "base/util/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct thread_name {
	uint32_t tid;
	char name[PROC_COMM_SIZE]; /* "": not known */
	UT_hash_handle hh;
};

struct thread_names {
	char *procroot;
	struct thread_name *by_tid; /* in the order in which they were met */
};

int thread_names_new(struct thread_names **ret, const char *procroot)
{
	_cleanup_(thread_names_freep) struct thread_names *names = calloc(1, sizeof(*names));

	if (!names || !(names->procroot = strdup(procroot)))
		return -ENOMEM;
	*ret = steal_ptr(names);
	return 0;
}

static void forget(struct thread_names *names, struct thread_name *thread)
{
	HASH_DEL(names->by_tid, thread);
	free(thread);
}

void thread_names_forget(struct thread_names *names)
{
	while (names->by_tid)
		forget(names, names->by_tid);
}

struct thread_names *thread_names_free(struct thread_names *names)
{
	if (!names)
		return NULL;
	thread_names_forget(names);
	free(names->procroot);
	free(names);
	return NULL;
}

static struct thread_name *find(const struct thread_names *names, uint32_t tid)
{
	struct thread_name *thread;

	HASH_FIND(hh, names->by_tid, &tid, sizeof(tid), thread);
	return thread;
}

/* Without a name yet; NULL: no memory. */
static struct thread_name *add(struct thread_names *names, uint32_t tid)
{
	struct thread_name *thread;

	if (HASH_COUNT(names->by_tid) >= THREAD_NAMES_MAX)
		forget(names, names->by_tid);
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->tid = tid;
	HASH_ADD(hh, names->by_tid, tid, sizeof(thread->tid), thread);
	if (!thread->hh.tbl) {
		free(thread);
		return NULL;
	}
	return thread;
}

static void put(struct thread_names *names, uint32_t tid, const char *name)
{
	struct thread_name *thread = find(names, tid) ?: add(names, tid);

	if (thread)
		(void)snprintf(thread->name, sizeof(thread->name), "%s", name);
}

/* It is another thread than one before of that number. */
static void take_fork(struct thread_names *names, const struct record_task *task)
{
	const struct thread_name *maker = find(names, task->ptid);
	struct thread_name *before = find(names, task->tid);
	char name[PROC_COMM_SIZE] = "";

	if (maker && task->pid == task->ppid)
		memcpy(name, maker->name, sizeof(name));
	if (before)
		forget(names, before);
	/* That of a maker without a name here is in /proc too, if a sample meets it. */
	if (name[0])
		put(names, task->tid, name);
}

void thread_names_take(struct thread_names *names, const struct record *record)
{
	struct thread_name *ended;

	switch (record->type) {
	case PERF_RECORD_FORK:
		take_fork(names, &record->task);
		break;
	case PERF_RECORD_COMM:
		if (record->comm.pid != record->comm.tid)
			put(names, record->comm.tid, record->comm.name);
		break;
	case PERF_RECORD_EXIT:
		ended = find(names, record->task.tid);
		if (ended)
			forget(names, ended);
		break;
	default:
		break;
	}
}

const char *thread_names_find(struct thread_names *names, uint32_t pid, uint32_t tid)
{
	struct thread_name *thread;

	if (pid == tid)
		return NULL;
	thread = find(names, tid);
	if (!thread) {
		thread = add(names, tid);
		/* A thread is there in /proc beside processes, although the list of that folder does not have it. */
		if (thread && proc_comm_read(names->procroot, tid, thread->name) < 0)
			thread->name[0] = '\0';
	}
	return thread && thread->name[0] ? thread->name : NULL;
}
