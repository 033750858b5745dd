/* SPDX-License-Identifier: MIT */

#include "web/http/renderer.h"

#include "base/util/job-thread.h"

#include <assert.h>
#include <errno.h>

struct renderer {
	renderer_done_t done;
	void *userdata;
	sd_event_source *steps;	     /* on while a rendering is prepared */
	struct rendering *rendering; /* borrowed; NULL: there is nothing to do */
	struct job_thread *thread;
};

/* In the thread. */
static void write_body(void *userdata)
{
	const struct renderer *renderer = userdata;

	rendering_run(renderer->rendering);
}

static void on_done(void *userdata)
{
	struct renderer *renderer = userdata;

	renderer->rendering = NULL;
	renderer->done(renderer->userdata);
}

/* Where no thread can be started, the loop writes the body. */
static void hand_over(struct renderer *renderer)
{
	if (!job_thread_start(renderer->thread))
		job_thread_run_here(renderer->thread);
}

static int on_step(sd_event_source *source, void *userdata)
{
	struct renderer *renderer = userdata;
	int r = rendering_prepare(renderer->rendering), off;

	if (r > 0)
		return 0;
	off = sd_event_source_set_enabled(source, SD_EVENT_OFF);
	if (r == 0)
		hand_over(renderer);
	else
		on_done(renderer);
	return off;
}

int renderer_new(struct renderer **ret, sd_event *loop, renderer_done_t done, void *userdata)
{
	_cleanup_(renderer_freep) struct renderer *renderer = calloc(1, sizeof(*renderer));
	int r;

	if (!renderer)
		return -ENOMEM;
	renderer->done = done;
	renderer->userdata = userdata;
	r = job_thread_new(&renderer->thread, loop, SD_EVENT_PRIORITY_NORMAL, write_body, on_done, renderer);
	if (r >= 0)
		r = sd_event_add_defer(loop, &renderer->steps, on_step, renderer);
	if (r >= 0)
		r = sd_event_source_set_enabled(renderer->steps, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = steal_ptr(renderer);
	return 0;
}

struct renderer *renderer_free(struct renderer *renderer)
{
	if (!renderer)
		return NULL;
	job_thread_free(renderer->thread);
	sd_event_source_disable_unref(renderer->steps);
	free(renderer);
	return NULL;
}

int renderer_start(struct renderer *renderer, struct rendering *rendering)
{
	int r = 0;

	assert(!renderer->rendering);
	renderer->rendering = rendering;
	if (rendering->past)
		r = sd_event_source_set_enabled(renderer->steps, SD_EVENT_ON);
	else
		hand_over(renderer);
	if (r < 0)
		renderer->rendering = NULL;
	return r;
}
