/* SPDX-License-Identifier: MIT */
#pragma once

/* The played daemon (count-world.h) stops, and another goes on from what it has left. */

#include "setup/count-world.h"

#define BOOT "12345678-9abc"

/* An image, and the perf events that go with it, which stay open until they are taken. */
struct saved {
	struct buf image;
	int fds[256];
	struct stored_id ids[256];
	size_t nr;
};

/* False: no memory. */
bool save_image(const struct session *session, struct buf *ret);

/* For session_each_stored(): holds the event for the struct saved in userdata. */
void keep_fd(void *userdata, int fd, struct stored_id id);

/* The daemon stops: nothing but the image and the events is left. */
void stop(struct count_world *w, struct saved *ret);

#define NONE_MISSING SIZE_MAX

/* All but number `missing`, which is closed. */
void fill_pool(struct stored_pool *pool, const struct saved *saved, size_t missing);
struct session *restore(const struct count_world *w, struct saved *saved, size_t missing);

/* The next instance, with its own plan, of the groups that were added again: all CPUs, and the cgroup /a. */
void go_on(struct count_world *w, struct session *from);
