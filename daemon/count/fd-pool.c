/* SPDX-License-Identifier: MIT */

#include "count/fd-pool.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

struct pooled_fd {
	uint64_t id;
	int fd;
	UT_hash_handle hh;
};

static struct pooled_fd *find(const struct fd_pool *pool, uint64_t id)
{
	struct pooled_fd *found;

	HASH_FIND(hh, pool->by_id, &id, sizeof(id), found);
	return found;
}

int fd_pool_add(struct fd_pool *pool, int taken, uint64_t *ret_id)
{
	_cleanup_(closep) int fd = taken;
	_cleanup_(freep) struct pooled_fd *pooled = calloc(1, sizeof(*pooled));

	if (!pooled)
		return -ENOMEM;
	if (pool->nr >= pool->max)
		return -EMFILE;
	if (ioctl(fd, PERF_EVENT_IOC_ID, &pooled->id) < 0)
		return -errno;
	if (find(pool, pooled->id))
		return -EEXIST;
	HASH_ADD(hh, pool->by_id, id, sizeof(pooled->id), pooled);
	if (!pooled->hh.tbl)
		return -ENOMEM;
	pooled->fd = steal_fd(&fd);
	pool->nr++;
	*ret_id = pooled->id;
	pooled = NULL;
	return 0;
}

static int take(struct fd_pool *pool, struct pooled_fd *pooled)
{
	int fd = pooled->fd;

	HASH_DELETE(hh, pool->by_id, pooled);
	pool->nr--;
	free(pooled);
	return fd;
}

int fd_pool_take(struct fd_pool *pool, uint64_t id)
{
	struct pooled_fd *found = find(pool, id);

	if (found)
		return take(pool, found);
	pool->nr_missed++;
	return -1;
}

void fd_pool_release(struct fd_pool *pool)
{
	while (pool->by_id)
		safe_close(take(pool, pool->by_id));
}
