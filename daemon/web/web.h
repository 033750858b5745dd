/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * HTTP, on the daemon's loop.
 *
 * libmicrohttpd runs in external epoll mode, without threads: its epoll fd is an I/O source of the loop,
 * its timeout a timer. Each listening address has an MHD daemon of its own, since MHD listens on one
 * socket. Nothing a client does blocks: an answer is written into a buffer at once and sent as the
 * client takes it.
 *
 * Routes are a const table of path, what may be asked of it, and the function that answers.
 */

#include "snapshot/about.h"
#include "snapshot/snapshot.h"

#include <systemd/sd-event.h>

/* What web asks of the manager. */
struct web_source {
	/* A snapshot no older than a scrape may be, with a reference for the caller; negative errno. */
	int (*snapshot)(void *userdata, struct snapshot **ret);
	/* False, with the sentence in why: up, but not counting all it should yet. */
	bool (*ready)(void *userdata, struct reason *why);
	/* An exposition was served, and written for that or found: for perfmond_scrapes_total and
	 * perfmond_renderings_total. */
	void (*scraped)(void *userdata, bool written);
	const struct about *about;
	void *userdata;
};

struct web;

/*
 * Listens on each address (ADDR:PORT, [V6]:PORT, /path of a Unix socket; port 0: a free one) and serves
 * from source, which is copied. Negative errno with the sentence, which names the address, in why:
 * -EINVAL no such address, -EADDRINUSE, -EACCES, …
 */
int web_new(struct web **ret, sd_event *loop, char *const *listen, size_t nr, const struct web_source *source,
	    struct reason *why);

/* The same on sockets that listen already, which stay the caller's: systemd's, with the connections that wait there,
 * are to outlive a web. */
int web_new_on(struct web **ret, sd_event *loop, const int *sockets, size_t nr, const struct web_source *source,
	       struct reason *why);

/* Stops listening, drops connections, removes Unix sockets it made. */
struct web *web_free(struct web *web);
DEFINE_CLEANUP(struct web *, web_free)

/* Number i of what is listened on, as a URL ("http://127.0.0.1:9753", "unix:/run/…"); NULL after the last. */
const char *web_url(const struct web *web, size_t i);
