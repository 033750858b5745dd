/* SPDX-License-Identifier: MIT */

#include "setup/count-restart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

bool save_image(const struct session *session, struct buf *ret)
{
	_cleanup_(rewrite_release) struct rewrite image = {};
	bool saved = session_save(session, BOOT, &image);

	*ret = steal_struct(image.buf);
	return saved;
}

void keep_fd(void *userdata, int fd, struct stored_id id)
{
	struct saved *saved = userdata;

	assert_true(saved->nr < ARRAY_SIZE(saved->fds));
	fake_hold(fd);
	saved->fds[saved->nr] = fd;
	saved->ids[saved->nr++] = id;
}

void stop(struct count_world *w, struct saved *ret)
{
	*ret = (struct saved){};
	assert_true(save_image(w->session, &ret->image));
	session_each_stored(w->session, keep_fd, ret);
	w->session = session_free(w->session);
	assert_int_equal(fake_perf.nr_open, ret->nr);
}

void fill_pool(struct stored_pool *pool, const struct saved *saved, size_t missing)
{
	struct stored_id id;

	for (size_t i = 0; i < saved->nr; i++) {
		if (i == missing) {
			safe_close(saved->fds[i]);
			continue;
		}
		assert_int_equal(stored_pool_add(pool, saved->fds[i], &id), 0);
		assert_int_equal(stored_id_compare(id, saved->ids[i]), 0);
	}
}

struct session *restore(const struct count_world *w, struct saved *saved, size_t missing)
{
	struct stored_pool pool = { .max = SIZE_MAX };
	struct reason why = {};
	struct session *session = NULL;
	int r;

	fill_pool(&pool, saved, missing);
	r = session_restore(&session, saved->image.data, saved->image.len, BOOT, &w->privilege, &pool, &why);
	if (r < 0)
		fail_msg("%d: %s", r, why.text);
	assert_int_equal(pool.nr_missed, missing != NONE_MISSING);
	stored_pool_release(&pool);
	assert_int_equal(session_stats(session).fds, fake_perf.nr_open);
	buf_release(&saved->image);
	return session;
}

void go_on(struct count_world *w, struct session *from)
{
	make_plan(w);
	takeover_begin(w, from);
	assert_int_equal(session_add_cpus(w->session), 0);
	(void)add_cgroup(w, "/a");
	takeover_end(w, from);
	assert_int_equal(session_stats(w->session).fds, fake_perf.nr_open);
}
