/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A daemon that keeps its counts for the next one (service/persist/store.h), on the played kernel of count-world.h.
 * systemd's fd store is played too, with the parcels in it: each is a file with the fds' numbers. The limit of open
 * files is the test's, and a claim of the state directory does not wait.
 */

#include "service/persist/fd-parcel.h"
#include "service/persist/store.h"
#include "setup/count-world.h"

/* As many as it takes for their events to fill a parcel and begin another: with two events, on three CPUs. */
#define NR_CGROUPS 50
#define NR_EVENTS (NR_CGROUPS * 3 * 2)

#define FAKE_ENTRIES 64

struct entry {
	char name[64];
	int fd; /* -1: none */
};

struct fake_systemd {
	struct entry entries[FAKE_ENTRIES]; /* of the fd store */
	size_t most_entries;		    /* more are ignored, without a word */
	int put_error;			    /* 0, or the error of sending a file */
	unsigned nr_puts;		    /* files sent, also in vain */
	uint64_t fd_limit;		    /* RLIMIT_NOFILE of the next instance */
	const char *watched;		    /* a file, or NULL, and was it there when another was put? */
	bool was_there;
};

extern struct fake_systemd fake_systemd;

/* Of a test's fixture. */
int store_setup(void **state);
int store_teardown(void **state);

/* The fd store. */
bool is_parcel(const struct entry *entry);
size_t look_into_parcel(int parcel, int fds[static FD_PARCEL_MAX]);
void drop_entry(struct entry *entry);
void drop_all(void);
/* The list that the next instance is passed. */
void pass_entries(struct listen_fds *ret);
/* Entries whose names begin so. */
size_t nr_entries(const char *name);
/* The fd of the memory file of that number. */
int memory_file(unsigned which);

/* The first instance: counts NR_CGROUPS cgroups and keeps all. It has not claimed the folder (or NULL). */
struct store *first_start(struct count_world *w, const char *folder);
void add_cgroups(struct count_world *w);
void keep_all(struct store *store, const struct session *session);
/* In the parcels is what is open, once each. */
void check_kept(const struct session *session);

/* The end without a word. */
void end_store(struct count_world *w, struct store *store);
/* The ordered one, after which systemd keeps nothing. */
void leave_store(struct count_world *w, struct store *store);

/* How the next instance begins. */
struct start {
	struct store *store;
	bool restored, lost;
	struct reason news;
};

/* Claims the folder (or NULL) and restores w->count, which is a new one where there is nothing to restore. */
void next_start(struct count_world *w, const char *folder, uint64_t reserve, struct start *ret);
/* part of the news; NULL: there are none. */
void expect_start(const struct start *start, bool restored, bool lost, const char *part);
