/* SPDX-License-Identifier: MIT */

#include "web/http/render-queue.h"

void render_queue_wake(struct render_queue *queue)
{
	if (queue->current || queue->next)
		return;
	queue->next = clients_pick_turn(queue->clients, WAITS_TO_RENDER);
	if (queue->next)
		queue->resume(queue->next);
}

static void end_current(struct render_queue *queue)
{
	struct rendering *done = queue->current;
	struct clients *clients = queue->clients;

	queue->current = NULL;
	done->is_done = true;
	if (done->body && done->key)
		response_cache_add(queue->cache, done->snapshot, done->key, done->coding, done->body);
	for (struct client *client = clients_next(clients, NULL); client; client = clients_next(clients, client))
		if (client->rendering == done)
			queue->resume(client);
	rendering_unref(done);
	render_queue_wake(queue);
}

static void on_rendered(void *userdata)
{
	end_current(userdata);
}

int render_queue_init(struct render_queue *queue, sd_event *loop, struct clients *clients, struct response_cache *cache,
		      void (*resume)(struct client *client))
{
	*queue = (struct render_queue){ .clients = clients, .cache = cache, .resume = resume };
	return renderer_new(&queue->renderer, loop, on_rendered, queue);
}

void render_queue_release(struct render_queue *queue)
{
	queue->renderer = renderer_free(queue->renderer);
	queue->current = rendering_unref(queue->current);
}

/* Clients that wait to ask for the same come at once, and share it. */
static void resume_equals(struct render_queue *queue)
{
	struct client *client;

	TAILQ_FOREACH(client, &queue->clients->phases[PHASE_WORK], in_phase)
		if (client->waits == WAITS_TO_RENDER && rendering_equals(client->rendering, queue->current))
			queue->resume(client);
}

static bool is_current(const struct render_queue *queue, const struct rendering *rendering)
{
	return queue->current && queue->current->snapshot == rendering->snapshot &&
	       rendering_equals(queue->current, rendering);
}

enum client_wait render_queue_enter(struct render_queue *queue, struct client *client, struct rendering *rendering)
{
	int r;

	render_queue_leave(queue, client);
	client->rendering = rendering;
	if (is_current(queue, rendering)) {
		client->rendering = rendering_ref(queue->current);
		rendering_unref(rendering);
		return WAITS_FOR_BODY;
	}
	if (queue->current || queue->next) {
		rendering->snapshot = snapshot_unref(rendering->snapshot);
		return WAITS_TO_RENDER;
	}
	clients_take_turn(queue->clients, client);
	r = renderer_start(queue->renderer, rendering);
	if (r < 0) {
		rendering->error = r;
		rendering->is_done = true;
		return WAITS_NOT;
	}
	/* From now on the thread may write to it. */
	queue->current = rendering_ref(rendering);
	resume_equals(queue);
	return WAITS_FOR_BODY;
}

void render_queue_leave(struct render_queue *queue, struct client *client)
{
	if (queue->next == client)
		queue->next = NULL;
	client->rendering = rendering_unref(client->rendering);
}
