/* SPDX-License-Identifier: MIT */

#include "store.h"

#include "chunk.h"
#include "count/image.h"
#include "machine.h"
#include "state-folder.h"
#include "util/file.h"
#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#define MEMORY "perfmond-memory-"
#define EVENTS "perfmond-events-"
#define STATE_FILE "totals"

/* Chunks are made anew so many at a time. */
#define RENEW_MAX 16

/* A daemon that is just ending has so long to let go of the state directory. */
#define CLAIM_NS 5000000000U

/* Above this an image is none. */
#define IMAGE_MAX ((off_t)1024 * 1024 * 1024)

struct chunk {
	uint64_t number; /* of its name in the fd store; 0: not there yet */
	size_t nr;	 /* perf events that are still open */
	bool dirty;	 /* in the fd store it is another */
	int *fds;	 /* while it is made */
};

/* A perf event, and where it is kept. */
struct slot {
	uint64_t id;
	int fd; /* the daemon's; -1 where that is not known yet */
	struct chunk *chunk;
};

/* Sorted by id. */
struct slots {
	struct slot *slots;
	size_t nr, room;
	bool failed; /* there are fewer, for want of memory */
};

struct store {
	char *state_folder, *state_file; /* NULL: no state directory */
	int claim; /* of it; -1: none */
	char *boot_id;
	bool has_fd_store;
	struct privilege privilege; /* for restored counts to refer to */

	int memory[2]; /* -1: not made yet */
	bool is_stored[2];
	unsigned next; /* the one to be written next */
	struct buf image;

	struct slots slots;
	struct chunk **chunks;
	size_t nr_chunks;
	uint64_t last_number;
	bool is_kept;	  /* store_keep() has been there, when as much … */
	uint64_t changes; /* … had been opened and closed */
	struct store_stats stats;
};

int store_new(struct store **ret, const char *state_directory, bool has_fd_store)
{
	_cleanup_(store_freep) struct store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->memory[0] = store->memory[1] = store->claim = -1;
	store->has_fd_store = has_fd_store;
	store->boot_id = image_boot_id(OWN_PROCFS);
	if (!store->boot_id)
		return -ENOMEM;
	store->state_folder = state_directory ? strdup(state_directory) : NULL;
	if (state_directory && asprintf(&store->state_file, "%s/" STATE_FILE, state_directory) < 0)
		store->state_file = NULL;
	if (state_directory && (!store->state_folder || !store->state_file))
		return -ENOMEM;
	*ret = steal_ptr(store);
	return 0;
}

int store_claim(struct store *store, struct reason *why)
{
	int r = 0;

	if (store->state_folder && store->claim < 0)
		r = store->claim = state_folder_claim(store->state_folder, STATE_FILE, CLAIM_NS, why);
	return r < 0 ? r : 0;
}

static void chunk_free(struct chunk *chunk)
{
	free(chunk->fds);
	free(chunk);
}

struct store *store_free(struct store *store)
{
	if (!store)
		return NULL;
	for (int i = 0; i < 2; i++)
		safe_close(store->memory[i]);
	for (size_t i = 0; i < store->nr_chunks; i++)
		chunk_free(store->chunks[i]);
	free(store->chunks);
	free(store->slots.slots);
	buf_release(&store->image);
	safe_close(store->claim);
	free(store->boot_id);
	free(store->state_folder);
	free(store->state_file);
	free(store);
	return NULL;
}

struct store_stats store_stats(const struct store *store)
{
	return store->stats;
}

/* --- the fd store */

/* FDPOLL=0: systemd would drop perf events, and sockets whose other end is closed, at once. */
static int put(int fd, const char *name)
{
	_cleanup_(freep) char *state = NULL;
	int r;

	if (asprintf(&state, "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name) < 0) {
		state = NULL;
		return -ENOMEM;
	}
	r = sd_pid_notify_with_fds(0, 0, state, &fd, 1);
	return r < 0 ? r : r == 0 ? -ENOTCONN : 0;
}

static void drop(const char *name)
{
	(void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

static void drop_chunk(uint64_t number)
{
	char name[sizeof(EVENTS) + 20];

	if (number == 0)
		return;
	(void)snprintf(name, sizeof(name), EVENTS "%" PRIu64, number);
	drop(name);
}

/* --- perf events and their chunks */

/* False where there is no memory. */
static bool slots_add(struct slots *slots, uint64_t id, int fd, struct chunk *chunk)
{
	if (slots->nr == slots->room) {
		size_t room = slots->room ? 2 * slots->room : 64;
		struct slot *more = reallocarray(slots->slots, room, sizeof(*more));

		if (!more)
			return false;
		slots->slots = more;
		slots->room = room;
	}
	slots->slots[slots->nr++] = (struct slot){ id, fd, chunk };
	return true;
}

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void slots_sort(struct slots *slots)
{
	if (slots->nr)
		qsort(slots->slots, slots->nr, sizeof(*slots->slots), compare_slots);
}

static void gather(void *userdata, int fd, uint64_t id)
{
	struct slots *slots = userdata;

	slots->failed |= !slots_add(slots, id, fd, NULL);
}

static struct chunk *add_chunk(struct store *store, uint64_t number)
{
	struct chunk **chunks = reallocarray(store->chunks, store->nr_chunks + 1, sizeof(struct chunk *));
	struct chunk *chunk;

	if (!chunks)
		return NULL;
	store->chunks = chunks;
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return NULL;
	chunk->number = number;
	store->chunks[store->nr_chunks++] = chunk;
	return chunk;
}

/* Those that are kept already stay in their chunks; a chunk that has lost one is to be made anew. */
static void match(const struct slots *kept, struct slots *now)
{
	size_t at = 0;

	for (size_t i = 0; i < kept->nr; i++) {
		struct chunk *chunk = kept->slots[i].chunk;

		while (at < now->nr && now->slots[at].id < kept->slots[i].id)
			at++;
		if (at < now->nr && now->slots[at].id == kept->slots[i].id) {
			now->slots[at].chunk = chunk;
		} else {
			chunk->nr--;
			chunk->dirty = true;
		}
	}
}

/* A chunk with room: one that has to be made anew anyway, any, or a new one. NULL when there is no memory. */
static struct chunk *find_room(struct store *store, size_t *cursor)
{
	for (; *cursor < 2 * store->nr_chunks; (*cursor)++) {
		struct chunk *chunk = store->chunks[*cursor % store->nr_chunks];

		if (chunk->nr < CHUNK_MAX && (chunk->dirty || *cursor >= store->nr_chunks))
			return chunk;
	}
	*cursor = 2 * store->nr_chunks + 1;
	return add_chunk(store, 0);
}

static int assign(struct store *store, struct slots *now)
{
	size_t cursor = 0;

	for (size_t i = 0; i < now->nr; i++) {
		struct slot *slot = &now->slots[i];

		if (slot->chunk)
			continue;
		slot->chunk = find_room(store, &cursor);
		if (!slot->chunk)
			return -ENOMEM;
		slot->chunk->nr++;
		slot->chunk->dirty = true;
	}
	return 0;
}

/* Puts a chunk in place of what it was before. */
static int renew_chunk(struct store *store, struct chunk *chunk)
{
	char name[sizeof(EVENTS) + 20];
	_cleanup_(closep) int socket = -1;
	int r;

	(void)snprintf(name, sizeof(name), EVENTS "%" PRIu64, ++store->last_number);
	r = socket = chunk_new(chunk->fds, chunk->nr);
	if (r >= 0)
		r = put(socket, name);
	if (r < 0)
		return r;
	drop_chunk(chunk->number);
	chunk->number = store->last_number;
	chunk->dirty = false;
	return 0;
}

static void forget_empty_chunks(struct store *store)
{
	size_t nr = 0;

	for (size_t i = 0; i < store->nr_chunks; i++)
		if (store->chunks[i]->nr == 0) {
			drop_chunk(store->chunks[i]->number);
			chunk_free(store->chunks[i]);
		} else {
			store->chunks[nr++] = store->chunks[i];
		}
	store->nr_chunks = nr;
}

/* The files of those chunks that are to be made anew. */
static int collect_fds(struct store *store)
{
	for (size_t i = 0; i < store->slots.nr; i++) {
		struct chunk *chunk = store->slots.slots[i].chunk;

		if (!chunk->dirty)
			continue;
		if (!chunk->fds) {
			chunk->fds = calloc(CHUNK_MAX, sizeof(*chunk->fds));
			chunk->nr = 0;
		}
		if (!chunk->fds)
			return -ENOMEM;
		chunk->fds[chunk->nr++] = store->slots.slots[i].fd;
	}
	return 0;
}

/* Where it broke off for want of memory: what is in the fd store stays, and all is made anew the next time. */
static void forget_slots(struct store *store)
{
	for (size_t i = 0; i < store->nr_chunks; i++) {
		struct chunk *chunk = store->chunks[i];

		free(chunk->fds);
		chunk->fds = NULL;
		chunk->nr = 0;
		chunk->dirty = true;
	}
	store->slots.nr = 0;
}

/* Some of those that are dirty, so that nobody waits for long where systemd is slow to read. */
static int renew_chunks(struct store *store)
{
	size_t nr = 0;
	int r = 0;

	for (size_t i = 0; i < store->nr_chunks; i++) {
		struct chunk *chunk = store->chunks[i];
		int error = chunk->fds && nr < RENEW_MAX ? renew_chunk(store, chunk) : 0;

		nr += !!chunk->fds;
		free(chunk->fds);
		chunk->fds = NULL;
		r = error < 0 ? error : r;
	}
	return r;
}

/* Is all of it in the fd store as it is here? */
static bool is_renewed(const struct store *store)
{
	for (size_t i = 0; i < store->nr_chunks; i++)
		if (store->chunks[i]->dirty)
			return false;
	return true;
}

bool store_is_behind(const struct store *store, const struct count *count)
{
	return store->has_fd_store && (!store->is_kept || store->changes != count_stats(count).changes);
}

static int keep_events(struct store *store, const struct count *count)
{
	struct slots now = {};
	int r;

	count_each_fd(count, gather, &now);
	if (now.failed) {
		free(now.slots);
		return -ENOMEM;
	}
	slots_sort(&now);
	match(&store->slots, &now);
	r = assign(store, &now);
	free(store->slots.slots);
	store->slots = now;
	if (r == 0)
		r = collect_fds(store);
	if (r < 0) {
		forget_slots(store);
		return r;
	}
	r = renew_chunks(store);
	forget_empty_chunks(store);
	store->stats.kept = store->slots.nr;
	return r;
}

/* --- images */

static int make_image(struct store *store, const struct count *count)
{
	store->image.len = 0;
	store->image.failed = false;
	if (!count_save(count, store->boot_id, &store->image))
		return -ENOMEM;
	store->stats.image_bytes = store->image.len;
	store->stats.saves++;
	return 0;
}

/* Writes the image over the older of the two. */
static int write_memory(struct store *store)
{
	unsigned which = store->next;
	char name[sizeof(MEMORY) + 10];
	int r;

	(void)snprintf(name, sizeof(name), MEMORY "%u", which);
	if (store->memory[which] < 0)
		store->memory[which] = memfd_create(name, MFD_CLOEXEC);
	if (store->memory[which] < 0)
		return -errno;
	r = write_all(store->memory[which], store->image.data, store->image.len);
	if (r == 0 && !store->is_stored[which])
		r = put(store->memory[which], name);
	if (r < 0)
		return r;
	store->is_stored[which] = true;
	store->next = !which;
	return 0;
}

int store_save(struct store *store, const struct count *count)
{
	uint64_t start = count_now();
	int r;

	if (!store->has_fd_store)
		return 0;
	r = make_image(store, count);
	if (r == 0)
		r = write_memory(store);
	/* It is tried again, and told when it succeeds. */
	store->is_kept = store->is_kept && r == 0;
	store->stats.save_ns += count_now() - start;
	return r;
}

int store_begin(struct store *store, const struct count *count)
{
	if (!store->state_file)
		return 0;
	(void)store_save(store, count);
	return unlink(store->state_file) < 0 && errno != ENOENT ? -errno : 0;
}

int store_keep(struct store *store, const struct count *count)
{
	uint64_t start;
	int r;

	if (!store->has_fd_store)
		return 0;
	/* What is opened is in the image before it is kept, and what is closed is not in it when it is no more. */
	r = store_save(store, count);
	if (r < 0)
		return r;
	start = count_now();
	r = keep_events(store, count);
	store->is_kept = r == 0 && is_renewed(store);
	store->changes = count_stats(count).changes;
	store->stats.save_ns += count_now() - start;
	return r;
}

static int write_state_file(const struct store *store)
{
	if (store->image.failed)
		return -ENOMEM;
	return replace_file(store->state_file, 0600, true, store->image.data, store->image.len);
}

/* To the end, however long systemd takes. */
static int keep_all(struct store *store, const struct count *count)
{
	int r;

	do
		r = store_keep(store, count);
	while (r == 0 && !store->is_kept);
	return r;
}

int store_leave(struct store *store, const struct count *count, struct reason *why)
{
	/* One image for both, of which the one with its perf events is taken first. */
	int kept = store->has_fd_store ? keep_all(store, count) : make_image(store, count);
	int saved = store->state_file ? write_state_file(store) : 0;

	/* The next one can go on, while this one closes what it has. */
	store->claim = safe_close(store->claim);
	if (saved < 0)
		return reason_set(why, saved, "totals could not be saved in %s: %s", store->state_file,
				  strerror(-saved));
	if (kept < 0)
		reason_set(why, kept, "not all counters could be given to systemd's fd store: %s", strerror(-kept));
	return kept;
}

/* --- restoring */

/* Bytes that may be an image. */
struct candidate {
	const char *what; /* where they are from */
	void *bytes;
	size_t size;
	struct image_info info;
	int memory; /* the number of the memory file, whose perf events went on counting; -1: it is another file */
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

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > IMAGE_MAX)
		return false;
	ret->size = (size_t)st.st_size;
	ret->bytes = mmap(NULL, ret->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (ret->bytes == MAP_FAILED)
		ret->bytes = NULL;
	return ret->bytes;
}

/* What goes by its name goes with all of that name. */
static bool is_alone(struct store *store, const struct chunk *chunk)
{
	bool alone = true;

	for (size_t i = 0; i < store->nr_chunks; i++)
		if (store->chunks[i] != chunk && store->chunks[i]->number == chunk->number) {
			store->chunks[i]->dirty = true;
			alone = false;
		}
	return alone;
}

/* Looks into a chunk from the fd store. What is in it stays kept as it is. */
static void adopt_chunk(struct store *store, uint64_t number, int socket, struct fd_pool *pool)
{
	struct chunk *chunk = add_chunk(store, number);
	int fds[CHUNK_MAX], nr;
	bool whole;

	nr = chunk_look(socket, fds, &whole);

	for (int i = 0; i < nr; i++) {
		uint64_t id;

		if (fd_pool_add(pool, fds[i], &id) >= 0 && chunk)
			chunk->nr += slots_add(&store->slots, id, -1, chunk);
	}
	if (number > store->last_number)
		store->last_number = number;
	/* One that is not all its own is better made anew; one that nobody would know of is not left there. */
	if (!chunk)
		drop_chunk(number);
	else
		chunk->dirty = !is_alone(store, chunk) || !whole || chunk->nr < (size_t)nr;
}

/* "PREFIXn": n. */
static bool numbered(const char *name, const char *prefix, uint64_t *ret)
{
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 && parse_u64(name + n, ret) == 0;
}

static void take(struct store *store, struct inherited_fd *file, struct fd_pool *pool)
{
	_cleanup_(closep) int fd = steal_fd(&file->fd);
	uint64_t number;

	if (numbered(file->name, MEMORY, &number) && number < 2 && store->memory[number] < 0) {
		store->memory[number] = steal_fd(&fd);
		store->is_stored[number] = true;
	} else if (numbered(file->name, EVENTS, &number) && number > 0) {
		adopt_chunk(store, number, fd, pool);
	} else {
		drop(file->name);
		/* A second one of that name: the first went with it, and is put there again. */
		if (numbered(file->name, MEMORY, &number) && number < 2)
			store->is_stored[number] = false;
	}
}

static void take_inherited(struct store *store, struct inherited *inherited, struct fd_pool *pool)
{
	for (size_t i = 0; i < inherited->nr; i++)
		if (inherited->fds[i].fd >= 0 && !inherited_is_listening(&inherited->fds[i]))
			take(store, &inherited->fds[i], pool);
	slots_sort(&store->slots);
}

/* Later ones first; those that are no images are gone, and say why. What is from before the machine was started is
 * nothing to worry about; of all else, lost is set. */
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
			candidates[nr].what = "systemd's fd store";
			candidates[nr++].memory = (int)i;
		}
	if (store->state_file) {
		_cleanup_(closep) int fd = open(store->state_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

		if (fd < 0 && errno != ENOENT)
			reason_set(why, 0, "%s: %s", store->state_file, strerror(errno));
		if (candidate_map(&candidates[nr], fd)) {
			candidates[nr].what = store->state_file;
			candidates[nr++].memory = -1;
		}
	}
	return nr;
}

static void tell(const struct candidate *candidate, const struct count *count, const struct fd_pool *pool,
		 struct reason *news)
{
	uint64_t now = count_now(), age = now > candidate->info.saved_at ? now - candidate->info.saved_at : 0;
	size_t open = count_stats(count).fds;

	if (pool->nr_missed == 0 && (open || candidate->memory >= 0))
		reason_set(news, 0, "totals go on from %s, with all of %zu perf events, that have counted meanwhile",
			   candidate->what, open);
	else if (open || candidate->memory >= 0)
		reason_set(news, 0,
			   "totals go on from %s, saved %.1f s ago; of %zu perf events %zu were not kept, and what "
			   "they would have counted since is missing",
			   candidate->what, (double)age / 1e9, open + pool->nr_missed, pool->nr_missed);
	else
		reason_set(news, 0,
			   "totals go on from %s, saved %.1f s ago; what happened since then has not been counted",
			   candidate->what, (double)age / 1e9);
}

struct count *store_restore(struct store *store, struct inherited *inherited, uint64_t fd_reserve, struct reason *news,
			    bool *bad)
{
	struct candidate candidates[3] = {};
	_cleanup_(fd_pool_release) struct fd_pool pool = {};
	struct count *count = NULL;
	struct reason why = {};
	bool lost;
	size_t nr;

	privilege_read(&store->privilege, OWN_PROCFS);
	(void)privilege_raise_fd_limit(&store->privilege);
	/* The rest of the daemon needs files too, also where there may be fewer than there were. */
	pool.max = store->privilege.fd_limit / 2;
	if (store->privilege.fd_limit - pool.max > fd_reserve)
		pool.max = store->privilege.fd_limit - fd_reserve;
	news->text[0] = '\0';
	take_inherited(store, inherited, &pool);
	nr = find_candidates(store, candidates, &why);
	lost = why.text[0];
	nr = sort_candidates(candidates, nr, store->boot_id, &why, &lost);
	for (size_t i = 0; i < nr && !count; i++)
		if (count_restore(&count, candidates[i].bytes, candidates[i].size, store->boot_id, &store->privilege,
				  &pool, &why) == 0)
			tell(&candidates[i], count, &pool, news);
		else
			lost = true;
	/* The best is overwritten last. */
	store->next = nr && candidates[0].memory == 0;
	for (size_t i = 0; i < nr; i++)
		candidate_release(&candidates[i]);
	if (!count && why.text[0])
		reason_set(news, 0, "totals start anew, those that were kept can't be used: %s", why.text);
	else if (!count && pool.nr)
		reason_set(news, 0, "totals start anew: %zu perf events were kept, and not what they stand for",
			   pool.nr);
	*bad = pool.nr_missed || (!count && (lost || pool.nr));
	return count;
}
