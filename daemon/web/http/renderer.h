/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes the bodies of responses in a thread of its own, one at a time: a hundred thousand series take tens of
 * milliseconds, for which the loop must not be held. If a rendering has to be prepared, that is done on the loop, for a
 * few milliseconds an iteration. The thread is started with the first body.
 */

#include "web/api/rendering.h"

#include <systemd/sd-event.h>

struct renderer;

/* Called on the loop when the body is written. */
typedef void (*renderer_done_t)(void *userdata);

/* Negative errno. */
int renderer_new(struct renderer **ret, sd_event *loop, renderer_done_t done, void *userdata);
/* Waits for a body that is being written; it is not reported. */
struct renderer *renderer_free(struct renderer *renderer);
DEFINE_CLEANUP(struct renderer *, renderer_free)

/* Prepares and runs a rendering, which the caller holds until it is done. Precondition: the last one is done. Negative
 * errno: nothing is run. */
int renderer_start(struct renderer *renderer, struct rendering *rendering);
