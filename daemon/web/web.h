/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * HTTP, on the daemon's loop.
 *
 * Connections are accepted here, from each listening socket, and handed to a server (server.h) that speaks HTTP with
 * them. A server is made with its options and its certificate; where those change, another one takes its place, and the
 * old one ends when its connections have had their answers. Nothing a client does blocks: an answer is written into a
 * buffer at once and sent as the client takes it.
 *
 * Beyond the limit of connections, the address that has the most gives one up for a newcomer's that has less, and of
 * equal ones who is idle or slow; one that has all it may have gives up one of its own that is. Only where there is
 * none is a newcomer refused.
 */

#include "snapshot/about.h"
#include "snapshot/snapshot.h"
#include "web/options.h"

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
	struct self_web *stats; /* to be kept up to date */
	void *userdata;
};

struct web;

/*
 * Listens on each address (ADDR:PORT, [V6]:PORT, /path of a Unix socket; port 0: a free one) and serves
 * from source, which is copied; of the options it takes a reference. Negative errno with the sentence, which names
 * the address, in why:
 * -EINVAL no such address, -EADDRINUSE, -EACCES, …
 */
int web_new(struct web **ret, sd_event *loop, char *const *listen, size_t nr, const struct web_source *source,
	    struct web_options *options, struct reason *why);

/* The same on sockets that listen already, which stay the caller's: systemd's, with the connections that wait there,
 * are to outlive a web. */
int web_new_on(struct web **ret, sd_event *loop, const int *sockets, size_t nr, const struct web_source *source,
	       struct web_options *options, struct reason *why);

/* New connections, and new requests' passwords, are under these options from now on. On failure, with the sentence in
 * why, the old ones stay. */
int web_set_options(struct web *web, struct web_options *options, struct reason *why);

/* Stops listening, drops connections, removes Unix sockets it made. */
struct web *web_free(struct web *web);
DEFINE_CLEANUP(struct web *, web_free)

/* Number i of what is listened on, as a URL ("http://127.0.0.1:9753", "unix:/run/…"); NULL after the last. */
const char *web_url(const struct web *web, size_t i);
