/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/fd-watch.h"

#include <assert.h>
#include <errno.h>

struct watch {
	int fd;
	sd_event_source *source;
	void (*changed)(void *userdata);
	void *userdata;
};

struct watch *watch_free(struct watch *watch)
{
	if (!watch)
		return NULL;
	sd_event_source_disable_unref(watch->source);
	safe_close(watch->fd);
	free(watch);
	return NULL;
}

static int on_change(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct watch *watch = userdata;

	(void)source;
	(void)fd;
	(void)revents;
	watch->changed(watch->userdata);
	return 0;
}

int watch_new(struct watch **ret, sd_event *loop, int fd, uint32_t events, int64_t priority,
	      void (*changed)(void *userdata), void *userdata)
{
	_cleanup_(watch_freep) struct watch *watch = calloc(1, sizeof(*watch));
	int r;

	assert(fd >= 0);
	if (!watch)
		return -ENOMEM;
	*watch = (struct watch){ .fd = -1, .changed = changed, .userdata = userdata };
	r = sd_event_add_io(loop, &watch->source, fd, events, on_change, watch);
	if (r >= 0)
		r = sd_event_source_set_priority(watch->source, priority);
	if (r < 0)
		return r;
	watch->fd = fd;
	*ret = steal_ptr(watch);
	return 0;
}

int watch_enable(struct watch *watch, bool on)
{
	return sd_event_source_set_enabled(watch->source, on ? SD_EVENT_ON : SD_EVENT_OFF);
}
