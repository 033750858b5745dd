/* SPDX-License-Identifier: MIT */

#include "count-restart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void keep_fd(void *userdata, int fd, uint64_t id)
{
	struct saved *saved = userdata;

	assert_true(saved->nr < ARRAY_SIZE(saved->fds));
	fake_hold(fd);
	saved->fds[saved->nr] = fd;
	saved->ids[saved->nr++] = id;
}

void stop(struct world *w, struct saved *ret)
{
	*ret = (struct saved){};
	assert_true(count_save(w->count, BOOT, &ret->image));
	count_each_fd(w->count, keep_fd, ret);
	w->count = count_free(w->count);
	assert_int_equal(fake_perf.nr_open, ret->nr);
}

void fill_pool(struct fd_pool *pool, const struct saved *saved, size_t missing)
{
	uint64_t id;

	for (size_t i = 0; i < saved->nr; i++) {
		if (i == missing) {
			safe_close(saved->fds[i]);
			continue;
		}
		assert_int_equal(fd_pool_add(pool, saved->fds[i], &id), 0);
		assert_int_equal(id, saved->ids[i]);
	}
}

struct count *restore(const struct world *w, struct saved *saved, size_t missing)
{
	struct fd_pool pool = { .max = SIZE_MAX };
	struct reason why = {};
	struct count *count = NULL;
	int r;

	fill_pool(&pool, saved, missing);
	r = count_restore(&count, saved->image.data, saved->image.len, BOOT, &w->privilege, &pool, &why);
	if (r < 0)
		fail_msg("%d: %s", r, why.text);
	assert_int_equal(pool.nr_missed, missing != NONE_MISSING);
	fd_pool_release(&pool);
	assert_int_equal(count_stats(count).fds, fake_perf.nr_open);
	buf_release(&saved->image);
	return count;
}

void go_on(struct world *w, struct count *from)
{
	plan_unref(w->plan);
	w->plan = NULL;
	make_plan(w);
	assert_int_equal(count_new(&w->count, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	assert_int_equal(count_succeed(w->count, from), 0);
	assert_int_equal(count_add_cpus(w->count), 0);
	(void)add_cgroup(w, "/a");
	assert_int_equal(count_succeeded(w->count, from), 0);
	count_free(from);
	assert_int_equal(count_stats(w->count).fds, fake_perf.nr_open);
}
