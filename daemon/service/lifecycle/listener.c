/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/listener.h"

#include "base/config/list.h"
#include "base/util/log.h"

#include <assert.h>
#include <errno.h>

struct listener {
	sd_event *loop;
	struct web_source source;
	struct web *web;	     /* NULL: not started, or HTTP is down */
	struct web_options *options; /* in force */
	int *sockets;		     /* passed by systemd; borrowed */
	size_t nr_sockets;
};

int listener_new(struct listener **ret, sd_event *loop, const struct web_source *source,
		 const struct listen_fds *passed)
{
	_cleanup_(listener_freep) struct listener *listener = calloc(1, sizeof(*listener));

	if (!listener)
		return -ENOMEM;
	listener->loop = loop;
	listener->source = *source;
	listener->sockets = calloc(passed->nr + 1, sizeof(*listener->sockets));
	if (!listener->sockets)
		return -ENOMEM;
	listener->nr_sockets = listen_fds_listening(passed, listener->sockets);
	*ret = steal_ptr(listener);
	return 0;
}

struct listener *listener_free(struct listener *listener)
{
	if (!listener)
		return NULL;
	web_free(listener->web);
	web_options_unref(listener->options);
	free(listener->sockets);
	free(listener);
	return NULL;
}

static void log_addresses(const struct listener *listener)
{
	const char *url;

	for (size_t i = 0; (url = web_url(listener->web, i)); i++)
		log_info("listening on %s%s", url, listener->nr_sockets > 0 ? " (systemd's socket)" : "");
}

static void use_options(struct listener *listener, struct web_options *options)
{
	struct web_options *before = listener->options;

	listener->options = web_options_ref(options);
	web_options_unref(before);
}

/* Makes another web in place of listener->web, which is not freed. */
static int open_web(struct listener *listener, const struct config *config, struct web_options *options,
		    struct reason *why)
{
	int r;

	if (listener->nr_sockets > 0)
		r = web_new_on(&listener->web, listener->loop, listener->sockets, listener->nr_sockets,
			       &listener->source, options, why);
	else
		r = web_new(&listener->web, listener->loop, config->listen.items, config->listen.nr, &listener->source,
			    options, why);
	if (r >= 0)
		log_addresses(listener);
	return r;
}

int listener_start(struct listener *listener, const struct config *config, struct web_options *options,
		   struct reason *why)
{
	int r;

	assert(!listener->web);
	r = open_web(listener, config, options, why);
	if (r >= 0)
		use_options(listener, options);
	return r;
}

static int change_options(struct listener *listener, struct web_options *options, struct reason *why)
{
	bool had_tls = web_options_have_tls(listener->options);
	int r = web_set_options(listener->web, options, why);

	if (r < 0)
		return r;
	/* The URLs begin with another scheme now. */
	if (had_tls != web_options_have_tls(options))
		log_addresses(listener);
	use_options(listener, options);
	return 0;
}

int listener_move(struct listener *listener, const struct config *in_force, const struct config *next,
		  struct web_options *options, struct reason *why)
{
	struct web *old = listener->web;
	struct reason lost;
	int r;

	if (old && (listener->nr_sockets > 0 || config_list_equal(&in_force->listen, &next->listen)))
		return change_options(listener, options, why);
	/* The new web can't be bound to an address that the old one still has. */
	if (config_list_share(&in_force->listen, &next->listen))
		old = listener->web = web_free(old);
	r = open_web(listener, next, options, why);
	if (r >= 0) {
		web_free(old);
		use_options(listener, options);
		return 0;
	}
	listener->web = old;
	if (!old && open_web(listener, in_force, listener->options, &lost) < 0)
		log_error("HTTP is down until the next reload: %s", lost.text);
	return r;
}
