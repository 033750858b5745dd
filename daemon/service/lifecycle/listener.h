/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where the daemon serves HTTP, and how that moves at a reload: on the config's addresses, or on sockets that systemd
 * has passed, which stay the same for the life of the daemon. Addresses are logged as they come into use.
 */

#include "base/config/config.h"
#include "service/persist/listen-fds.h"
#include "web/http/web.h"

struct listener;

/* Nothing is listened on yet. The loop and what source refers to have to outlive the listener, and so do the listening
 * sockets in passed; the others are ignored. -ENOMEM. */
int listener_new(struct listener **ret, sd_event *loop, const struct web_source *source,
		 const struct listen_fds *passed);
/* Stops serving. */
struct listener *listener_free(struct listener *listener);
DEFINE_CLEANUP(struct listener *, listener_free)

/* Serves on the config's addresses, or on the sockets. Takes a reference to options. Negative errno with the sentence,
 * which names the address, in why. */
int listener_start(struct listener *listener, const struct config *config, struct web_options *options,
		   struct reason *why);

/* Moves from the addresses of the config in force to those of the next one, and takes a reference to options. Open
 * connections get their answers. On failure, with the sentence in why, everything stays as it was; where the old
 * addresses can't be had again, that is logged, and HTTP is down. */
int listener_move(struct listener *listener, const struct config *in_force, const struct config *next,
		  struct web_options *options, struct reason *why);
