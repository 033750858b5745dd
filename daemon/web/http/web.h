/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * HTTP on the daemon's loop.
 *
 * Connections are accepted here, from each listening socket, and handed to a server (server.h) that speaks HTTP with
 * them. A server is made for its options and its certificate. When these change, a new server takes its place, and the
 * old one ends when its connections have received their responses. Nothing that a client does blocks the loop: a
 * response that is large is written in a thread, others at once, or come from the profiler later, and all are sent as
 * the client receives them.
 *
 * At the limit of connections, one is evicted for a newcomer: of the address with the most connections, if the
 * newcomer's has fewer, or else an idle or slow one. At the limit of its address, it is an idle or slow one of that
 * address. Only if there is none, the newcomer is refused (clients.h).
 */

#include "web/api/source.h"
#include "web/http/web-config.h"

#include <systemd/sd-event.h>

struct web;

/*
 * Listens on each address (ADDR:PORT, [V6]:PORT, /path of a Unix socket; port 0: a free one). Copies source, and takes
 * a reference to the options. Negative errno with the sentence, which names the address, in why: -EINVAL for a
 * malformed address, -EADDRINUSE, -EACCES, …
 */
int web_new(struct web **ret, sd_event *loop, char *const *listen, size_t nr, const struct web_source *source,
	    struct web_options *options, struct reason *why);

/* The same on sockets that already listen. They stay the caller's: systemd's sockets, with the connections queued in
 * them, outlive a web. */
int web_new_on(struct web **ret, sd_event *loop, const int *sockets, size_t nr, const struct web_source *source,
	       struct web_options *options, struct reason *why);

/* New connections, and the passwords of new requests, are subject to these options from now on. Takes a reference. On
 * failure, with the sentence in why, the old options stay in force. */
int web_set_options(struct web *web, struct web_options *options, struct reason *why);

/* Stops listening, closes connections, removes the files of Unix sockets it made. */
struct web *web_free(struct web *web);
DEFINE_CLEANUP(struct web *, web_free)

/* The URL of the i-th listening socket ("http://127.0.0.1:9753", "unix:/run/…"). NULL: there are fewer. */
const char *web_url(const struct web *web, size_t i);
