/* SPDX-License-Identifier: MIT */

#include "counting/engine/stored.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>

struct stored_file {
	struct stored_id id; /* the hash's key: zeroed where it has padding */
	int fd;
	UT_hash_handle hh;
};

int stored_id_compare(struct stored_id a, struct stored_id b)
{
	if (a.kind != b.kind)
		return a.kind < b.kind ? -1 : 1;
	return a.id < b.id ? -1 : a.id > b.id;
}

static int identify_perf_event(int fd, uint64_t *ret)
{
	return ioctl(fd, PERF_EVENT_IOC_ID, ret) < 0 ? -errno : 0;
}

/* A BPF object's id stands in the description of its file (/proc/PID/fdinfo, proc(5)), which tells its kind, too. */
static int identify_bpf(int fd, const char *key, uint64_t *ret)
{
	char path[sizeof("/proc/self/fdinfo/") + 11];
	_cleanup_(closefilep) FILE *file = NULL;
	char line[128];

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0) {
			*ret = strtoull(line + strlen(key), NULL, 10);
			return 0;
		}
	return -EINVAL;
}

static int identify_bpf_map(int fd, uint64_t *ret)
{
	return identify_bpf(fd, "map_id:\t", ret);
}

/* A link's description names its program, too. */
static int identify_bpf_program(int fd, uint64_t *ret)
{
	uint64_t link;

	return identify_bpf(fd, "link_id:\t", &link) == 0 ? -EINVAL : identify_bpf(fd, "prog_id:\t", ret);
}

static int identify_bpf_link(int fd, uint64_t *ret)
{
	return identify_bpf(fd, "link_id:\t", ret);
}

static int (*const identify[_STORED_KIND_MAX])(int fd, uint64_t *ret) = {
	[STORED_PERF_EVENT] = identify_perf_event,
	[STORED_BPF_MAP] = identify_bpf_map,
	[STORED_BPF_PROGRAM] = identify_bpf_program,
	[STORED_BPF_LINK] = identify_bpf_link,
};

int stored_identify(int fd, struct stored_id *ret)
{
	int error = 0;

	for (int kind = 0; kind < _STORED_KIND_MAX; kind++) {
		uint64_t id;
		int r = identify[kind](fd, &id);

		if (r == 0) {
			ret->kind = (enum stored_kind)kind;
			ret->id = id;
			return 0;
		}
		/* The first one's, which is what most files are. */
		error = error ? error : r;
	}
	return error;
}

static struct stored_file *find_file(const struct stored_pool *pool, enum stored_kind kind, uint64_t id)
{
	struct stored_file *found;
	struct stored_id key;

	memset(&key, 0, sizeof(key));
	key.kind = kind;
	key.id = id;
	HASH_FIND(hh, pool->by_id, &key, sizeof(key), found);
	return found;
}

int stored_pool_add(struct stored_pool *pool, int fd, struct stored_id *ret_id)
{
	_cleanup_(freep) struct stored_file *file = calloc(1, sizeof(*file));
	int r;

	if (!file)
		return -ENOMEM;
	if (pool->nr >= pool->max)
		return -EMFILE;
	r = stored_identify(fd, &file->id);
	if (r < 0)
		return r;
	if (find_file(pool, file->id.kind, file->id.id))
		return -EEXIST;
	HASH_ADD(hh, pool->by_id, id, sizeof(file->id), file);
	if (!file->hh.tbl)
		return -ENOMEM;
	file->fd = fd;
	pool->nr++;
	*ret_id = file->id;
	file = NULL;
	return 0;
}

static int take_file(struct stored_pool *pool, struct stored_file *file)
{
	int fd = file->fd;

	HASH_DELETE(hh, pool->by_id, file);
	pool->nr--;
	free(file);
	return fd;
}

int stored_pool_take(struct stored_pool *pool, enum stored_kind kind, uint64_t id)
{
	struct stored_file *found = find_file(pool, kind, id);

	if (found)
		return take_file(pool, found);
	pool->nr_missed++;
	return -1;
}

void stored_pool_forget_missed(struct stored_pool *pool)
{
	pool->nr_missed = 0;
}

void stored_pool_release(struct stored_pool *pool)
{
	while (pool->by_id)
		safe_close(take_file(pool, pool->by_id));
}
