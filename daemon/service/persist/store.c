/* SPDX-License-Identifier: MIT */

#include "service/persist/store.h"

#include "base/host/boot-id.h"
#include "base/host/privilege.h"
#include "base/host/procfs.h"
#include "base/util/clock.h"
#include "base/util/file.h"
#include "counting/session/session-image.h"
#include "service/persist/fd-store.h"
#include "service/persist/kept-samples.h"
#include "service/persist/state-folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MEMORY_PREFIX "perfmond-memory-"
/* There while a daemon counts, with the id of the machine's boot. */
#define RUNNING_FILE "running"

/* How long another daemon, which is stopping, may take to release the state directory. */
#define CLAIM_PATIENCE_NS 5000000000U

struct store {
	char *state_folder, *state_file, *running_file, *samples_file; /* NULL: no state directory */
	int claim;						       /* the fd that locks it; -1: none */
	char *boot_id;
	struct privilege privilege; /* for restored sessions to refer to */

	/* In the fd store; all of this is unused where systemd keeps nothing for this process. */
	bool has_fd_store;
	int memory[2]; /* memory files; -1: not made yet */
	bool is_stored[2];
	uint64_t written[2]; /* rewrite.times of the image in it; 0: of another instance, or not whole */
	unsigned next;	     /* the one to be written next */
	int samples;	     /* of the daemon before, until they are taken; -1: none */
	struct fd_store *events;
	bool is_current;  /* image and perf events are up to date, as of … */
	uint64_t changes; /* … this many opened and closed (struct session_stats) */

	struct rewrite image; /* the last one made */
	struct store_stats stats;
};

int store_new(struct store **ret, const char *state_directory, bool has_fd_store)
{
	_cleanup_(store_freep) struct store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->memory[0] = store->memory[1] = store->claim = store->samples = -1;
	store->has_fd_store = has_fd_store;
	store->boot_id = boot_id_read();
	if (!store->boot_id || fd_store_new(&store->events) < 0)
		return -ENOMEM;
	store->state_folder = state_directory ? strdup(state_directory) : NULL;
	if (state_directory && asprintf(&store->state_file, "%s/" STORE_STATE_FILE, state_directory) < 0)
		store->state_file = NULL;
	if (state_directory && asprintf(&store->running_file, "%s/" RUNNING_FILE, state_directory) < 0)
		store->running_file = NULL;
	if (state_directory && asprintf(&store->samples_file, "%s/" KEPT_SAMPLES_FILE, state_directory) < 0)
		store->samples_file = NULL;
	if (state_directory &&
	    (!store->state_folder || !store->state_file || !store->running_file || !store->samples_file))
		return -ENOMEM;
	*ret = steal_ptr(store);
	return 0;
}

int store_claim(struct store *store, struct reason *why)
{
	int r;

	if (!store->state_folder || store->claim >= 0)
		return 0;
	r = state_folder_claim(store->state_folder, STORE_STATE_FILE, CLAIM_PATIENCE_NS, why);
	if (r < 0)
		return r;
	state_folder_tidy(r, KEPT_SAMPLES_FILE);
	store->claim = r;
	return 0;
}

struct store *store_free(struct store *store)
{
	if (!store)
		return NULL;
	for (int i = 0; i < 2; i++)
		safe_close(store->memory[i]);
	safe_close(store->samples);
	fd_store_free(store->events);
	rewrite_release(&store->image);
	safe_close(store->claim);
	free(store->boot_id);
	free(store->state_folder);
	free(store->state_file);
	free(store->running_file);
	free(store->samples_file);
	free(store);
	return NULL;
}

struct store_stats store_stats(const struct store *store)
{
	return store->stats;
}

/* --- images */

static int make_image(struct store *store, const struct session *session)
{
	if (!session_save(session, store->boot_id, &store->image))
		return -ENOMEM;
	store->stats.image_bytes = store->image.buf.len;
	store->stats.saves++;
	return 0;
}

/* Overwrites the older of the two memory files: the other stays whole if the daemon is killed meanwhile. */
static int write_memory(struct store *store)
{
	unsigned which = store->next;
	char name[sizeof(MEMORY_PREFIX) + 10];
	int r;

	(void)snprintf(name, sizeof(name), MEMORY_PREFIX "%u", which);
	if (store->memory[which] < 0)
		store->memory[which] = memfd_create(name, MFD_CLOEXEC);
	if (store->memory[which] < 0)
		return -errno;
	r = rewrite_copy(&store->image, store->memory[which], store->written[which]);
	store->written[which] = r == 0 ? store->image.times : 0;
	if (r == 0 && !store->is_stored[which])
		r = fd_store_put(store->memory[which], name);
	if (r < 0)
		return r;
	store->is_stored[which] = true;
	store->next = !which;
	return 0;
}

int store_save(struct store *store, const struct session *session)
{
	uint64_t start = clock_monotonic_ns();
	int r;

	if (!store->has_fd_store)
		return 0;
	r = make_image(store, session);
	if (r == 0)
		r = write_memory(store);
	/* After a failure the store is behind until store_update() has succeeded: it is tried again soon. */
	store->is_current = store->is_current && r == 0;
	store->stats.save_ns += clock_monotonic_ns() - start;
	return r;
}

/* It only serves the log of the next start: without it, that says less. */
static void mark_running(const struct store *store)
{
	_cleanup_(closep) int fd =
		open(store->running_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd >= 0)
		(void)write_all(fd, store->boot_id, strlen(store->boot_id));
}

int store_begin(struct store *store, const struct session *session)
{
	if (!store->state_file)
		return 0;
	(void)store_save(store, session);
	mark_running(store);
	return unlink(store->state_file) < 0 && errno != ENOENT ? -errno : 0;
}

bool store_is_behind(const struct store *store, const struct session *session)
{
	return store->has_fd_store && (!store->is_current || store->changes != session_stats(session).changes);
}

int store_update(struct store *store, const struct session *session)
{
	uint64_t start;
	int r;

	if (!store->has_fd_store)
		return 0;
	/* The image comes first: an event that is stored without being in an image could not be used, and one that is
	 * in the image without being stored would be reported as lost. */
	r = store_save(store, session);
	if (r < 0)
		return r;
	start = clock_monotonic_ns();
	r = fd_store_update(store->events, session);
	store->is_current = r == 0 && fd_store_is_current(store->events);
	store->changes = session_stats(session).changes;
	/* After a failure that leaves no table, the last number stands. */
	if (r == 0 || fd_store_nr_events(store->events) > 0)
		store->stats.kept = fd_store_nr_events(store->events);
	store->stats.save_ns += clock_monotonic_ns() - start;
	return r;
}

/* --- the stop */

static int write_state_file(const struct store *store)
{
	if (store->image.before == 0)
		return -ENOMEM;
	return replace_file(store->state_file, 0600, true, store->image.buf.data, store->image.buf.len);
}

/* To the end, however long systemd takes to read. */
static int keep_all(struct store *store, const struct session *session)
{
	int r;

	do
		r = store_update(store, session);
	while (r == 0 && !store->is_current);
	return r;
}

int store_leave(struct store *store, const struct session *session, struct reason *why)
{
	/* One image goes to both places; the next start prefers the fd store's, which has its perf events. */
	int kept = store->has_fd_store ? keep_all(store, session) : make_image(store, session);
	int saved = store->state_file ? write_state_file(store) : 0;

	if (store->running_file && saved == 0)
		(void)unlink(store->running_file);
	if (saved < 0)
		return reason_set(why, saved, "totals could not be saved in %s: %s", store->state_file,
				  strerror(-saved));
	if (kept < 0)
		reason_set(why, kept, "not all counters could be given to systemd's fd store: %s", strerror(-kept));
	return kept;
}

void store_release(struct store *store)
{
	store->claim = safe_close(store->claim);
}

int store_put_samples(struct store *store, const struct blob *image, struct reason *why)
{
	return kept_samples_put(image, store->has_fd_store, store->samples_file, why);
}

/* --- restoring */

/* Bytes that may be an image. */
struct candidate {
	const char *origin; /* for the log */
	void *bytes;
	size_t size;
	struct image_info info;
	int memory; /* the number of the memory file; -1: the state file, after whose writing nothing was counted */
};

static void candidate_release(struct candidate *candidate)
{
	if (candidate->bytes)
		(void)munmap(candidate->bytes, candidate->size);
	candidate->bytes = NULL;
}

static bool candidate_map(struct candidate *ret, int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > STORE_IMAGE_MAX)
		return false;
	ret->size = (size_t)st.st_size;
	ret->bytes = mmap(NULL, ret->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (ret->bytes == MAP_FAILED)
		ret->bytes = NULL;
	return ret->bytes;
}

/* A memory file is used again. A file that nobody knows is removed. */
static void adopt_file(struct store *store, struct listen_fd *file)
{
	_cleanup_(closep) int fd = steal_fd(&file->fd);
	uint64_t number;
	bool is_memory = fd_store_parse_name(file->name, MEMORY_PREFIX, &number) && number < 2;

	if (is_memory && store->memory[number] < 0) {
		store->memory[number] = steal_fd(&fd);
		store->is_stored[number] = true;
		return;
	}
	if (strcmp(file->name, KEPT_SAMPLES_NAME) == 0 && store->samples < 0) {
		store->samples = steal_fd(&fd);
		return;
	}
	fd_store_remove(file->name);
	/* A second file of that name: the first was removed with it, and is stored again at the next save. */
	if (is_memory)
		store->is_stored[number] = false;
}

static void adopt_passed(struct store *store, struct listen_fds *passed, struct stored_pool *pool)
{
	fd_store_adopt(store->events, passed, pool);
	for (size_t i = 0; i < passed->nr; i++)
		if (passed->fds[i].fd >= 0 && !listen_fd_is_listening(&passed->fds[i]))
			adopt_file(store, &passed->fds[i]);
}

/* The newest first. Those that are no usable image are dropped, with a sentence in why. *lost is set unless an image
 * was merely of an earlier boot, after which no totals can go on. */
static size_t sort_candidates(struct candidate *candidates, size_t nr, const char *boot_id, struct reason *why,
			      bool *lost)
{
	size_t good = 0;

	for (size_t i = 0; i < nr; i++) {
		struct candidate candidate = candidates[i];
		struct unpack in;
		size_t at = good;
		int r = image_open(&in, candidate.bytes, candidate.size, boot_id, &candidate.info, why);

		if (r < 0) {
			*lost |= r != -ESTALE;
			candidate_release(&candidate);
			continue;
		}
		for (; at > 0 && candidates[at - 1].info.saved_at < candidate.info.saved_at; at--)
			candidates[at] = candidates[at - 1];
		candidates[at] = candidate;
		good++;
	}
	return good;
}

static size_t find_candidates(const struct store *store, struct candidate candidates[static 3], struct reason *why)
{
	size_t nr = 0;

	for (unsigned i = 0; i < 2; i++)
		if (candidate_map(&candidates[nr], store->memory[i])) {
			candidates[nr].origin = "systemd's fd store";
			candidates[nr++].memory = (int)i;
		}
	if (store->state_file) {
		_cleanup_(closep) int fd = open(store->state_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

		if (fd < 0 && errno != ENOENT)
			reason_set(why, 0, "%s: %s", store->state_file, strerror(errno));
		if (candidate_map(&candidates[nr], fd)) {
			candidates[nr].origin = store->state_file;
			candidates[nr++].memory = -1;
		}
	}
	return nr;
}

static void describe_restored(const struct candidate *candidate, const struct session *session,
			      const struct stored_pool *pool, struct reason *news)
{
	uint64_t now = clock_monotonic_ns(), age = now > candidate->info.saved_at ? now - candidate->info.saved_at : 0;
	size_t open = session_stats(session).fds;

	if (pool->nr_missed == 0 && (open || candidate->memory >= 0))
		reason_set(news, 0, "totals go on from %s, with all of %zu perf events, that have counted meanwhile",
			   candidate->origin, open);
	else if (open || candidate->memory >= 0)
		reason_set(news, 0,
			   "totals go on from %s, saved %.1f s ago; of %zu perf events %zu were not kept, and their "
			   "counts since then are missing",
			   candidate->origin, (double)age / 1e9, open + pool->nr_missed, pool->nr_missed);
	else
		reason_set(news, 0, "totals go on from %s, saved %.1f s ago; counts since then are missing",
			   candidate->origin, (double)age / 1e9);
}

/* Why the state directory has no totals although a daemon has used it; an empty sentence where none has. True: counts
 * of this boot are lost. */
static bool explain_none_saved(const struct store *store, struct reason *news)
{
	_cleanup_(freep) char *boot = NULL;

	if (!store->running_file || read_text_file(AT_FDCWD, store->running_file, FILE_MAX_SYSFS, &boot) < 0)
		return false;
	if (strcmp(boot, store->boot_id) != 0) {
		reason_set(news, 0, "totals begin at zero: the machine was restarted");
		return false;
	}
	reason_set(
		news, 0,
		"totals begin at zero: the perfmond before this one was killed, or crashed, before it could save them "
		"in %s",
		store->state_folder);
	return true;
}

/* Half of the limit at most, or all but the reserve: the rest of the daemon needs files too, also where the limit is
 * lower than it was for the instance that stored the events. */
static size_t pool_limit(const struct privilege *privilege, uint64_t fd_reserve)
{
	uint64_t half = privilege->fd_limit / 2;

	return privilege->fd_limit - half > fd_reserve ? privilege->fd_limit - fd_reserve : half;
}

struct session *store_restore(struct store *store, struct listen_fds *passed, uint64_t fd_reserve, struct reason *news,
			      bool *ret_lost)
{
	struct candidate candidates[3] = {};
	_cleanup_(stored_pool_release) struct stored_pool pool = {};
	struct session *session = NULL;
	struct reason why = {};
	size_t nr, used = 0;
	bool lost;

	privilege_read(&store->privilege, OWN_PROCFS);
	(void)privilege_raise_fd_limit(&store->privilege);
	pool = (struct stored_pool){ .max = pool_limit(&store->privilege, fd_reserve) };
	news->text[0] = '\0';
	adopt_passed(store, passed, &pool);
	nr = find_candidates(store, candidates, &why);
	lost = why.text[0];
	nr = sort_candidates(candidates, nr, store->boot_id, &why, &lost);
	for (size_t i = 0; i < nr && !session; i++)
		if (session_restore(&session, candidates[i].bytes, candidates[i].size, store->boot_id,
				    &store->privilege, &pool, &why) == 0)
			describe_restored(&candidates[used = i], session, &pool, news);
		else
			lost = true;
	/* The image that totals go on from is overwritten last. A newer one that makes no sense is of no use. */
	store->next = nr && candidates[used].memory == 0;
	for (size_t i = 0; i < nr; i++)
		candidate_release(&candidates[i]);
	if (!session && why.text[0])
		reason_set(news, 0, "totals restart at zero, the saved ones can't be used: %s", why.text);
	else if (!session && pool.nr)
		reason_set(news, 0, "totals restart at zero: found %zu perf events but no usable image", pool.nr);
	else if (!session)
		lost |= explain_none_saved(store, news);
	*ret_lost = pool.nr_missed || (!session && (lost || pool.nr));
	return session;
}

int store_take_samples(struct store *store, struct blob **ret, struct reason *why)
{
	int r = kept_samples_take(ret, store->samples, store->samples_file, why);

	store->samples = safe_close(store->samples);
	return r;
}
