/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Keeps totals over the end of the daemon, in two places: systemd's fd store (fd-store.h), which also survives a crash,
 * and the state directory, for an ordered stop.
 *
 * In the fd store there are
 *
 *   perfmond-memory-0, -1   two memory files, written in turn, each with an image of all that is counted
 *                           (counting/session/session-image.h). One that was being written when the daemon was killed
 *                           is damaged, which its checksum shows; the other is whole.
 *   perfmond-events-N       the perf events, in parcels.
 *   perfmond-samples        the profiler's samples, from a stop to the next start (kept-samples.h).
 *
 * The image is written after counters were read and before anybody is shown them: no total that was seen is ever lost.
 * Perf events go on counting by themselves. Each has in the image the value at which it stood, so the difference is
 * what it counted since. Parcels are brought up to date a little later, in one go for all that was opened and closed
 * meanwhile.
 *
 * The state directory belongs to one daemon at a time (state-folder.h). The image in it is written at the stop and
 * removed at the next start: a stale one would take counters back. In the meantime the file `running` is there: by it a
 * start can tell that the daemon before it has not saved anything.
 */

#include "base/util/blob.h"
#include "counting/session/session.h"
#include "service/persist/listen-fds.h"

struct store;

/* The image in the state directory. */
#define STORE_STATE_FILE "totals"

/* A larger file is not read as an image. */
#define STORE_IMAGE_MAX ((off_t)1024 * 1024 * 1024)

/* state_directory is NULL where there is none; has_fd_store: systemd listens. -ENOMEM. */
int store_new(struct store **ret, const char *state_directory, bool has_fd_store);
/* Leaves in place whatever is stored. */
struct store *store_free(struct store *store);
DEFINE_CLEANUP(struct store *, store_free)

/* Claims the state directory, if there is one, until store_release(); waits some seconds for another daemon that is
 * stopping. -EBUSY: it stays another's, and the store may not be used; other errors: it can't be locked, and is used
 * all the same. why is set with each. */
int store_claim(struct store *store, struct reason *why);

/*
 * Takes the store's files out of the list and makes a session to go on from, as it was when it was last saved. NULL:
 * there is nothing, or nothing that can be used. fd_reserve: files that stay free for others, out of the limit of open
 * files, but no more than half of it. news is a sentence for the log, or empty; *ret_lost: some counts are lost.
 */
struct session *store_restore(struct store *store, struct listen_fds *passed, uint64_t fd_reserve, struct reason *news,
			      bool *ret_lost);

/* Call it when counting has begun: the image in the state directory is now outdated and is removed, after another one
 * was written to the fd store. Negative errno where it can't be removed. */
int store_begin(struct store *store, const struct session *session);

/* Writes the image, where there is an fd store. Negative errno where it can't be written. */
int store_save(struct store *store, const struct session *session);

/* Is the store out of date: was something opened or closed since store_update(), or did that not finish? */
bool store_is_behind(const struct store *store, const struct session *session);
/* Saves, and brings the parcels up to date: as many as one call makes (fd_store_update()), after which the store may
 * still be behind. Negative errno: some of it could not be kept. */
int store_update(struct store *store, const struct session *session);

/* At the stop: keeps all and writes the state directory. Negative errno with the sentence in why. */
int store_leave(struct store *store, const struct session *session, struct reason *why);
/* After it: the profiler's samples, in one of the two places. Negative errno with the sentence in why. */
int store_put_samples(struct store *store, const struct blob *image, struct reason *why);
/* The state directory is free for another daemon, which can start while this one is still closing its files. */
void store_release(struct store *store);

/* The samples that the daemon before has kept, which are kept no more; NULL: there are none. Negative errno with the
 * sentence in why. */
int store_take_samples(struct store *store, struct blob **ret, struct reason *why);

struct store_stats {
	uint64_t saves, save_ns; /* images written; time spent on that and on parcels */
	size_t image_bytes;	 /* of the last image */
	size_t kept;		 /* perf events in the fd store */
};
struct store_stats store_stats(const struct store *store);
