/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What outlives the daemon, so that totals go on after it: in systemd's fd store (sd_notify(3), FDSTORE=1), which holds
 * on to files while no instance runs, also over a crash; and in the state directory, for what is stopped in peace.
 *
 * In the fd store there are
 *
 *   perfmond-memory-0, -1   two memory files that are written by turns, each with an image of all that is counted
 *                           (count/image.h). One that was being written when the daemon was killed is damaged, which
 *                           its checksum tells; the other is good.
 *   perfmond-events-N       chunks: Unix sockets, in whose queue there is one message with up to CHUNK_MAX perf events.
 *                           To hold thousands of files, the fd store would have to compare each new one with all
 *                           others; so it is given one for many. The message is looked at (MSG_PEEK) and never taken.
 *
 * The image is written whenever counters have been read and before anybody is shown them: no total that was seen is
 * ever lost. Perf events go on counting by themselves, and with the value at which they stood in the image, all that
 * happened since is known. Chunks are brought up to date a little later, in one go for all that was opened and closed
 * meanwhile.
 *
 * The state directory is one daemon's at a time (state-folder.h). An image in it is written at the stop and removed at
 * the next start: one that was left over would take counters back.
 */

#include "count/count.h"
#include "inherit.h"

struct store;

/* state_directory is NULL where there is none; has_fd_store: systemd listens. -ENOMEM. */
int store_new(struct store **ret, const char *state_directory, bool has_fd_store);
/* Leaves what is kept as it is. */
struct store *store_free(struct store *store);
DEFINE_CLEANUP(struct store *, store_free)

/* Makes the state directory, if there is one, this daemon's until it leaves; waits some seconds for another that is
 * ending. -EBUSY: it stays another's, and nothing else may be done with the store; other errors: it can't be had. */
int store_claim(struct store *store, struct reason *why);

/*
 * fd_reserve: of the limit of open files, those that have to be left to others; half of them is, where there are few.
 * Takes what is the store's out of the list, and makes of it a count to go on from, as it was when it was last saved;
 * NULL where there is nothing, or nothing that can be used. news says what was found, or is empty; bad: it says that
 * something was lost.
 */
struct count *store_restore(struct store *store, struct inherited *inherited, uint64_t fd_reserve, struct reason *news,
			    bool *bad);

/* From now on what is counted goes its own way: the image in the state directory, of which there is another one in the
 * fd store by now, must not be used again. Negative errno where it can't be removed. */
int store_begin(struct store *store, const struct count *count);

/* Writes the image, where there is an fd store. Negative errno where it can't be written. */
int store_save(struct store *store, const struct count *count);

/* Has anything been opened or closed since store_keep()? */
bool store_is_behind(const struct store *store, const struct count *count);
/* Saves, and brings chunks in the fd store up to date: some of them, and then it is still behind. Negative errno: what
 * is kept is not all. */
int store_keep(struct store *store, const struct count *count);

/* At the stop: the last image, for the fd store and the state directory. Negative errno with the sentence in why. */
int store_leave(struct store *store, const struct count *count, struct reason *why);

struct store_stats {
	uint64_t saves, save_ns; /* images written; time that took, chunks included */
	size_t image_bytes, kept; /* of the last image; perf events in the fd store */
};
struct store_stats store_stats(const struct store *store);
