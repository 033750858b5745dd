/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The clients whose responses are written by the renderer, or wait for it.
 *
 * Bodies are written one at a time. A client that asks for the body that is being written, of the same snapshot, shares
 * it. Others wait: when the renderer is free, it is the turn of the address whose last turn is the longest ago, so that
 * many requests from one address do not keep others waiting. The client is resumed, and its request begins anew, with a
 * fresh snapshot. A client is in the queue once at most, and only its key is kept, so that limits of connections are
 * limits of the queue, too. One that has left the queue leaves nothing in it. Only a body that is being written is
 * written to its end; the cache has it then.
 */

#include "web/expose/response-cache.h"
#include "web/http/clients.h"
#include "web/http/renderer.h"

struct render_queue {
	struct renderer *renderer;
	struct clients *clients;
	struct response_cache *cache;
	void (*resume)(struct client *client);
	struct rendering *current; /* a reference; NULL: the renderer is free */
	struct client *next;	   /* it was resumed for its turn, which it has not taken yet; or NULL */
};

/* Borrows clients and cache. Negative errno. */
int render_queue_init(struct render_queue *queue, sd_event *loop, struct clients *clients, struct response_cache *cache,
		      void (*resume)(struct client *client));
/* All clients must have left. Waits for the body that is being written. */
void render_queue_release(struct render_queue *queue);

/* The client wants to have that rendered. Takes over the reference in every case. The state to suspend the client in;
 * WAITS_NOT: client->rendering is done, since it has failed. */
enum client_wait render_queue_enter(struct render_queue *queue, struct client *client, struct rendering *rendering);
/* The client has its response, or wants none. It need not be in the queue. */
void render_queue_leave(struct render_queue *queue, struct client *client);
/* If the renderer is free, resumes the client whose turn it is. */
void render_queue_wake(struct render_queue *queue);
