/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>

int signals_block(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	return signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -errno : 0;
}

int signals_add(sd_event *loop, int signo, sd_event_signal_handler_t handler, int64_t priority, void *userdata)
{
	sd_event_source *source;
	int r = sd_event_add_signal(loop, &source, signo, handler, userdata);

	if (r < 0)
		return r;
	r = sd_event_source_set_priority(source, priority);
	if (r >= 0)
		r = sd_event_source_set_floating(source, true);
	sd_event_source_unref(source);
	return r;
}
