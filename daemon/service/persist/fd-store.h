/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * systemd's fd store (sd_notify(3), FDSTORE=1): it holds files under names while no instance of the daemon runs, also
 * after a crash, and passes them to the next one (listen-fds.h).
 *
 * Perf events are stored in parcels (fd-parcel.h), named perfmond-events-N: systemd compares each new file with all
 * that it holds, so thousands of files are stored as a few sockets with up to FD_PARCEL_MAX files each. A parcel is
 * never changed. Where its events have changed, another parcel with a higher number takes its place.
 *
 * The list of events that are stored is kept here by their ids. An update compares it with the events that are open:
 * those that are stored stay in their parcels, closed ones leave theirs, new ones go to a parcel that has room.
 */

#include "counting/session/session.h"
#include "service/persist/listen-fds.h"

/* Stores the file under the name; systemd has a copy of it. Negative errno; -ENOTCONN: nobody listens. */
int fd_store_put(int fd, const char *name);

/* Removes every file that is stored under the name. Nobody answers. */
void fd_store_remove(const char *name);

/* Is the name PREFIXn? Then *ret is n. */
bool fd_store_parse_name(const char *name, const char *prefix, uint64_t *ret);

/* The perf events in the fd store. */
struct fd_store;

/* -ENOMEM. */
int fd_store_new(struct fd_store **ret);
/* The files stay stored. */
struct fd_store *fd_store_free(struct fd_store *store);
DEFINE_CLEANUP(struct fd_store *, fd_store_free)

/* Takes the parcels out of the list and opens their events into the pool. They stay stored as they are. Without memory
 * some events are in the pool and not in the list: the next update stores them again. */
void fd_store_adopt(struct fd_store *store, struct listen_fds *passed, struct stored_pool *pool);

/* Brings the parcels up to date with the perf events that session has open. A call makes a few parcels only, since
 * systemd may be slow to read: fd_store_is_current() tells whether all are done. Negative errno of the last parcel that
 * failed, which the next call tries again. */
int fd_store_update(struct fd_store *store, const struct session *session);
bool fd_store_is_current(const struct fd_store *store);

/* Perf events in the list. */
size_t fd_store_nr_events(const struct fd_store *store);
