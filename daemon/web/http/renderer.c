/* SPDX-License-Identifier: MIT */

#include "web/http/renderer.h"

#include "base/util/thread.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>

struct renderer {
	renderer_done_t done;
	void *userdata;
	sd_event_source *io;
	int fd;			/* an eventfd, written to when a body is written */
	sd_event_source *steps; /* on while the next rendering is prepared */
	struct rendering *next; /* borrowed: which is prepared; or NULL */
	pthread_mutex_t mutex;
	pthread_cond_t wake; /* there is a rendering, or the thread has to end */
	bool has_thread, ends;
	pthread_t thread;
	struct rendering *rendering; /* borrowed; NULL: the thread has nothing to do */
};

/* The mutex is free while a body is written. */
static void *renderer_main(void *argument)
{
	struct renderer *renderer = argument;
	const uint64_t one = 1;

	(void)pthread_mutex_lock(&renderer->mutex);
	while (!renderer->ends) {
		struct rendering *rendering = renderer->rendering;

		if (!rendering) {
			(void)pthread_cond_wait(&renderer->wake, &renderer->mutex);
			continue;
		}
		(void)pthread_mutex_unlock(&renderer->mutex);
		rendering_run(rendering);
		(void)pthread_mutex_lock(&renderer->mutex);
		renderer->rendering = NULL;
		(void)!write(renderer->fd, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&renderer->mutex);
	return NULL;
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct renderer *renderer = userdata;
	uint64_t count;
	bool is_done;

	(void)source;
	(void)revents;
	(void)!read(fd, &count, sizeof(count));
	(void)pthread_mutex_lock(&renderer->mutex);
	is_done = !renderer->rendering;
	(void)pthread_mutex_unlock(&renderer->mutex);
	if (is_done)
		renderer->done(renderer->userdata);
	return 0;
}

/* Where no thread can be started, the loop writes the body. */
static void hand_over(struct renderer *renderer)
{
	const uint64_t one = 1;

	if (!renderer->has_thread) {
		rendering_run(steal_ptr(renderer->next));
		(void)!write(renderer->fd, &one, sizeof(one));
		return;
	}
	(void)pthread_mutex_lock(&renderer->mutex);
	assert(!renderer->rendering);
	renderer->rendering = steal_ptr(renderer->next);
	(void)pthread_cond_signal(&renderer->wake);
	(void)pthread_mutex_unlock(&renderer->mutex);
}

static int on_step(sd_event_source *source, void *userdata)
{
	struct renderer *renderer = userdata;
	int r = rendering_prepare(renderer->next), off;

	if (r > 0)
		return 0;
	off = sd_event_source_set_enabled(source, SD_EVENT_OFF);
	if (r == 0) {
		hand_over(renderer);
	} else {
		renderer->next = NULL;
		renderer->done(renderer->userdata);
	}
	return off;
}

int renderer_new(struct renderer **ret, sd_event *loop, renderer_done_t done, void *userdata)
{
	struct renderer *renderer = calloc(1, sizeof(*renderer));
	int r;

	if (!renderer)
		return -ENOMEM;
	renderer->done = done;
	renderer->userdata = userdata;
	(void)pthread_mutex_init(&renderer->mutex, NULL);
	(void)pthread_cond_init(&renderer->wake, NULL);
	renderer->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = renderer->fd < 0 ? -errno : sd_event_add_io(loop, &renderer->io, renderer->fd, EPOLLIN, on_done, renderer);
	if (r >= 0)
		r = sd_event_add_defer(loop, &renderer->steps, on_step, renderer);
	if (r >= 0)
		r = sd_event_source_set_enabled(renderer->steps, SD_EVENT_OFF);
	if (r < 0) {
		renderer_free(renderer);
		return r;
	}
	*ret = renderer;
	return 0;
}

struct renderer *renderer_free(struct renderer *renderer)
{
	if (!renderer)
		return NULL;
	(void)pthread_mutex_lock(&renderer->mutex);
	renderer->ends = true;
	(void)pthread_cond_signal(&renderer->wake);
	(void)pthread_mutex_unlock(&renderer->mutex);
	if (renderer->has_thread)
		(void)pthread_join(renderer->thread, NULL);
	sd_event_source_disable_unref(renderer->io);
	sd_event_source_disable_unref(renderer->steps);
	safe_close(renderer->fd);
	(void)pthread_cond_destroy(&renderer->wake);
	(void)pthread_mutex_destroy(&renderer->mutex);
	free(renderer);
	return NULL;
}

int renderer_start(struct renderer *renderer, struct rendering *rendering)
{
	if (!renderer->has_thread)
		renderer->has_thread = thread_start(&renderer->thread, renderer_main, renderer) == 0;
	renderer->next = rendering;
	if (rendering->past)
		return sd_event_source_set_enabled(renderer->steps, SD_EVENT_ON);
	hand_over(renderer);
	return 0;
}
