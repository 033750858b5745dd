/* SPDX-License-Identifier: MIT */

#include "service/persist/fd-store.h"

#include "base/util/text.h"
#include "service/persist/fd-parcel.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define PARCEL_PREFIX "perfmond-events-"

/* The parcels made in one update. */
#define PARCELS_PER_UPDATE 16

struct parcel {
	uint64_t number; /* of its name in the fd store; 0: not stored yet */
	size_t nr;	 /* perf events that are still open */
	bool outdated;	 /* the stored one holds other events */
	int *fds;	 /* while it is made */
};

/* A perf event, and the parcel it is stored in. */
struct stored_event {
	struct stored_id id;
	int fd; /* the daemon's; -1: adopted, and not known yet */
	struct parcel *parcel;
};

/* Sorted by id. */
struct event_table {
	struct stored_event *events;
	size_t nr, room;
	bool failed; /* some are missing, for want of memory */
};

struct fd_store {
	struct event_table table;
	struct parcel **parcels;
	size_t nr_parcels;
	uint64_t last_number;
};

/* --- files by their names */

/* FDPOLL=0: otherwise systemd would drop perf events, and sockets whose other end is closed, at once. */
int fd_store_put(int fd, const char *name)
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

void fd_store_remove(const char *name)
{
	(void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

bool fd_store_parse_name(const char *name, const char *prefix, uint64_t *ret)
{
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 && parse_u64(name + n, ret) == 0;
}

/* --- the table of events */

/* False where there is no memory. */
static bool table_add(struct event_table *table, struct stored_id id, int fd, struct parcel *parcel)
{
	if (table->nr == table->room) {
		size_t room = table->room ? 2 * table->room : 64;
		struct stored_event *more = reallocarray(table->events, room, sizeof(*more));

		if (!more)
			return false;
		table->events = more;
		table->room = room;
	}
	table->events[table->nr++] = (struct stored_event){ id, fd, parcel };
	return true;
}

static int compare_events(const void *a, const void *b)
{
	const struct stored_event *x = a, *y = b;

	return stored_id_compare(x->id, y->id);
}

static void table_sort(struct event_table *table)
{
	if (table->nr)
		qsort(table->events, table->nr, sizeof(*table->events), compare_events);
}

static void add_open_event(void *userdata, int fd, struct stored_id id)
{
	struct event_table *table = userdata;

	table->failed |= !table_add(table, id, fd, NULL);
}

/* --- parcels */

static void parcel_free(struct parcel *parcel)
{
	free(parcel->fds);
	free(parcel);
}

static struct parcel *add_parcel(struct fd_store *store, uint64_t number)
{
	struct parcel **parcels = reallocarray(store->parcels, store->nr_parcels + 1, sizeof(struct parcel *));
	struct parcel *parcel;

	if (!parcels)
		return NULL;
	store->parcels = parcels;
	parcel = calloc(1, sizeof(*parcel));
	if (!parcel)
		return NULL;
	parcel->number = number;
	store->parcels[store->nr_parcels++] = parcel;
	return parcel;
}

static void remove_stored_parcel(uint64_t number)
{
	char name[sizeof(PARCEL_PREFIX) + 20];

	if (number == 0)
		return;
	(void)snprintf(name, sizeof(name), PARCEL_PREFIX "%" PRIu64, number);
	fd_store_remove(name);
}

/* A parcel with room: one that is outdated anyway, then any other, then a new one. NULL when there is no memory. */
static struct parcel *find_room(struct fd_store *store, size_t *cursor)
{
	for (; *cursor < 2 * store->nr_parcels; (*cursor)++) {
		struct parcel *parcel = store->parcels[*cursor % store->nr_parcels];

		if (parcel->nr < FD_PARCEL_MAX && (parcel->outdated || *cursor >= store->nr_parcels))
			return parcel;
	}
	*cursor = 2 * store->nr_parcels + 1;
	return add_parcel(store, 0);
}

/* Stores the parcel as it is now, then removes the one it was before: at no moment is an event in neither. A full fd
 * store closes the new one without a word, and has room for it after the removal; one that has it ignores it. */
static int store_parcel(struct fd_store *store, struct parcel *parcel)
{
	char name[sizeof(PARCEL_PREFIX) + 20];
	_cleanup_(closep) int socket = -1;
	int r;

	(void)snprintf(name, sizeof(name), PARCEL_PREFIX "%" PRIu64, ++store->last_number);
	r = socket = fd_parcel_new(parcel->fds, parcel->nr);
	if (r >= 0)
		r = fd_store_put(socket, name);
	if (r < 0)
		return r;
	if (parcel->number != 0) {
		remove_stored_parcel(parcel->number);
		r = fd_store_put(socket, name);
	}
	parcel->number = store->last_number;
	parcel->outdated = r < 0;
	return r;
}

/* Stores some of those that are outdated. */
static int store_parcels(struct fd_store *store)
{
	size_t nr = 0;
	int r = 0;

	for (size_t i = 0; i < store->nr_parcels; i++) {
		struct parcel *parcel = store->parcels[i];
		int error = parcel->fds && nr < PARCELS_PER_UPDATE ? store_parcel(store, parcel) : 0;

		nr += !!parcel->fds;
		free(parcel->fds);
		parcel->fds = NULL;
		r = error < 0 ? error : r;
	}
	return r;
}

static void remove_empty_parcels(struct fd_store *store)
{
	size_t nr = 0;

	for (size_t i = 0; i < store->nr_parcels; i++)
		if (store->parcels[i]->nr == 0) {
			remove_stored_parcel(store->parcels[i]->number);
			parcel_free(store->parcels[i]);
		} else {
			store->parcels[nr++] = store->parcels[i];
		}
	store->nr_parcels = nr;
}

/* --- an update */

/* Events that are stored already stay in their parcels; a parcel that has lost one is outdated. */
static void match_events(const struct event_table *stored, struct event_table *now)
{
	size_t at = 0;

	for (size_t i = 0; i < stored->nr; i++) {
		struct parcel *parcel = stored->events[i].parcel;

		while (at < now->nr && stored_id_compare(now->events[at].id, stored->events[i].id) < 0)
			at++;
		if (at < now->nr && stored_id_compare(now->events[at].id, stored->events[i].id) == 0) {
			now->events[at].parcel = parcel;
		} else {
			assert(parcel->nr > 0);
			parcel->nr--;
			parcel->outdated = true;
		}
	}
}

static int assign_new_events(struct fd_store *store, struct event_table *now)
{
	size_t cursor = 0;

	for (size_t i = 0; i < now->nr; i++) {
		struct stored_event *event = &now->events[i];

		if (event->parcel)
			continue;
		event->parcel = find_room(store, &cursor);
		if (!event->parcel)
			return -ENOMEM;
		event->parcel->nr++;
		event->parcel->outdated = true;
	}
	return 0;
}

/* Fills the fds of the outdated parcels. */
static int collect_fds(struct fd_store *store)
{
	for (size_t i = 0; i < store->table.nr; i++) {
		struct parcel *parcel = store->table.events[i].parcel;

		if (!parcel->outdated)
			continue;
		if (!parcel->fds) {
			parcel->fds = calloc(FD_PARCEL_MAX, sizeof(*parcel->fds));
			parcel->nr = 0;
		}
		if (!parcel->fds)
			return -ENOMEM;
		parcel->fds[parcel->nr++] = store->table.events[i].fd;
	}
	return 0;
}

/* After an update that ran out of memory: what is stored stays, and the next update makes all parcels again. */
static void forget_events(struct fd_store *store)
{
	for (size_t i = 0; i < store->nr_parcels; i++) {
		struct parcel *parcel = store->parcels[i];

		free(parcel->fds);
		parcel->fds = NULL;
		parcel->nr = 0;
		parcel->outdated = true;
	}
	store->table.nr = 0;
}

int fd_store_update(struct fd_store *store, const struct session *session)
{
	struct event_table now = {};
	int r;

	session_each_stored(session, add_open_event, &now);
	if (now.failed) {
		free(now.events);
		return -ENOMEM;
	}
	table_sort(&now);
	match_events(&store->table, &now);
	r = assign_new_events(store, &now);
	free(store->table.events);
	store->table = now;
	if (r == 0)
		r = collect_fds(store);
	if (r < 0) {
		forget_events(store);
		return r;
	}
	r = store_parcels(store);
	remove_empty_parcels(store);
	return r;
}

bool fd_store_is_current(const struct fd_store *store)
{
	for (size_t i = 0; i < store->nr_parcels; i++)
		if (store->parcels[i]->outdated)
			return false;
	return true;
}

size_t fd_store_nr_events(const struct fd_store *store)
{
	size_t nr = 0;

	for (size_t i = 0; i < store->table.nr; i++)
		nr += store->table.events[i].id.kind == STORED_PERF_EVENT;
	return nr;
}

/* --- parcels of an earlier instance */

/* FDSTOREREMOVE drops every file stored under a name: parcels that share one are outdated. */
static bool has_own_name(struct fd_store *store, const struct parcel *parcel)
{
	bool own = true;

	for (size_t i = 0; i < store->nr_parcels; i++)
		if (store->parcels[i] != parcel && store->parcels[i]->number == parcel->number) {
			store->parcels[i]->outdated = true;
			own = false;
		}
	return own;
}

static void adopt_parcel(struct fd_store *store, uint64_t number, int socket, struct stored_pool *pool)
{
	struct parcel *parcel = add_parcel(store, number);
	int fds[FD_PARCEL_MAX], nr;
	bool whole = false;

	nr = fd_parcel_peek(socket, fds, &whole);

	for (int i = 0; i < nr; i++) {
		struct stored_id id;

		if (stored_pool_add(pool, fds[i], &id) < 0)
			safe_close(fds[i]);
		else if (parcel)
			parcel->nr += table_add(&store->table, id, -1, parcel);
	}
	if (number > store->last_number)
		store->last_number = number;
	/* Without memory for it nobody would know of the parcel, so it is not left in the fd store. */
	if (!parcel)
		remove_stored_parcel(number);
	else
		parcel->outdated = !has_own_name(store, parcel) || !whole || parcel->nr < (size_t)nr;
}

void fd_store_adopt(struct fd_store *store, struct listen_fds *passed, struct stored_pool *pool)
{
	for (size_t i = 0; i < passed->nr; i++) {
		struct listen_fd *file = &passed->fds[i];
		uint64_t number;

		if (file->fd < 0 || listen_fd_is_listening(file) ||
		    !fd_store_parse_name(file->name, PARCEL_PREFIX, &number) || number == 0)
			continue;
		adopt_parcel(store, number, file->fd, pool);
		file->fd = safe_close(file->fd);
	}
	table_sort(&store->table);
}

int fd_store_new(struct fd_store **ret)
{
	struct fd_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	*ret = store;
	return 0;
}

struct fd_store *fd_store_free(struct fd_store *store)
{
	if (!store)
		return NULL;
	for (size_t i = 0; i < store->nr_parcels; i++)
		parcel_free(store->parcels[i]);
	free(store->parcels);
	free(store->table.events);
	free(store);
	return NULL;
}
