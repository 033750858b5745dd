/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/loader.h"

#include "base/util/thread.h"
#include "service/lifecycle/fd-watch.h"
#include "service/lifecycle/schedule.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct loader {
	loader_done_t done;
	void *userdata;
	struct watch *watch;
	int fd; /* the watch's: an eventfd, written to when a load was run */
	pthread_t thread;
	struct bpf_load *load; /* the thread's; NULL: there is no thread */
};

static void *loader_main(void *argument)
{
	const struct loader *loader = argument;
	const uint64_t one = 1;

	bpf_load_run(loader->load);
	(void)!write(loader->fd, &one, sizeof(one));
	return NULL;
}

static void on_done(void *userdata)
{
	struct loader *loader = userdata;
	uint64_t count;

	(void)!read(loader->fd, &count, sizeof(count));
	(void)pthread_join(loader->thread, NULL);
	loader->done(loader->userdata, steal_ptr(loader->load));
}

int loader_new(struct loader **ret, sd_event *loop, loader_done_t done, void *userdata)
{
	_cleanup_(loader_freep) struct loader *loader = calloc(1, sizeof(*loader));
	_cleanup_(closep) int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r;

	if (!loader)
		return -ENOMEM;
	if (fd < 0)
		return -errno;
	loader->done = done;
	loader->userdata = userdata;
	r = watch_new(&loader->watch, loop, fd, EPOLLIN, PRIORITY_SIGNAL, on_done, loader);
	if (r < 0)
		return r;
	loader->fd = steal_fd(&fd);
	*ret = steal_ptr(loader);
	return 0;
}

struct loader *loader_free(struct loader *loader)
{
	if (!loader)
		return NULL;
	if (loader->load)
		(void)pthread_join(loader->thread, NULL);
	bpf_load_free(loader->load);
	watch_free(loader->watch);
	free(loader);
	return NULL;
}

bool loader_start(struct loader *loader, struct bpf_load *load)
{
	assert(!loader->load);
	loader->load = load;
	if (thread_start(&loader->thread, loader_main, loader) == 0)
		return true;
	loader->load = bpf_load_free(load);
	return false;
}

bool loader_is_busy(const struct loader *loader)
{
	return loader->load;
}
