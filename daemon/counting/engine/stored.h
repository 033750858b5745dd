/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files that outlive the daemon, because somebody else holds on to them: open perf events go on counting while no
 * daemon runs, and so do BPF programs. The kernel knows each by an id, which no other file of its kind has until the
 * machine is restarted. An image (counting/session/session-image.h) has those ids, and the pool gives the files back by
 * them.
 */

#include "base/util/cleanup.h"
#include "base/util/hash.h"

#include <stdint.h>

/* The kinds of files. The numbers are in images. */
enum stored_kind {
	STORED_PERF_EVENT, /* its id: PERF_EVENT_IOC_ID (perf_event_open(2), Linux 3.12) */
	STORED_BPF_MAP,	   /* their ids: in /proc/self/fdinfo (proc(5), Linux 4.13; of links 5.8) */
	STORED_BPF_PROGRAM,
	STORED_BPF_LINK,
	_STORED_KIND_MAX,
};

struct stored_id {
	enum stored_kind kind;
	uint64_t id;
};

/* Less than, equal to or greater than 0, as for qsort(3). */
int stored_id_compare(struct stored_id a, struct stored_id b);

/* Gets each file that may be kept. The file stays its owner's. */
typedef void (*stored_visitor)(void *userdata, int fd, struct stored_id id);

/* Asks the kernel what the file is: negative errno where it is of no kind. */
int stored_identify(int fd, struct stored_id *ret);

/* Files that an earlier instance of the daemon has opened, by their ids. */
struct stored_pool {
	struct stored_file *by_id;
	size_t nr, max;	  /* files in it; that may be */
	size_t nr_missed; /* files that were asked for, and were not there */
};

/* The files that were missed are not counted any more: another image is tried. */
void stored_pool_forget_missed(struct stored_pool *pool);

/* Takes the file over on success. -ENOMEM; -EEXIST: the pool has one of that id; -EMFILE: the pool is full; or the
 * error of stored_identify(). */
int stored_pool_add(struct stored_pool *pool, int fd, struct stored_id *ret_id);
/* The file, which is then the caller's; -1 where there is none. */
int stored_pool_take(struct stored_pool *pool, enum stored_kind kind, uint64_t id);
/* Closes the files that nobody took. */
void stored_pool_release(struct stored_pool *pool);
