/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/keeper.h"

#include "base/host/fd-budget.h"
#include "base/host/unit-folders.h"
#include "base/util/clock.h"
#include "base/util/log.h"
#include "service/persist/state-folder.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

/* Changes wait for so long, so that many go to the fd store together, … */
#define UPDATE_DELAY_NS 50000000U
/* … and for this many times as long as the last update took, so that updates take 2 % of the time at most. */
#define UPDATE_SHARE 50

struct keeper {
	struct store *store;
	struct report *report;
	const struct world *world;
	sd_event_source *timer; /* armed while the store is behind */
	uint64_t took_ns;	/* by the last update */
};

int keeper_new(struct keeper **ret, struct report *report, struct reason *why)
{
	_cleanup_(keeper_freep) struct keeper *keeper = calloc(1, sizeof(*keeper));
	_cleanup_(freep) char *folder = NULL;
	int r;

	if (!keeper || unit_state_folder(&folder) < 0 || store_new(&keeper->store, folder, getenv("NOTIFY_SOCKET")) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	keeper->report = report;
	r = store_claim(keeper->store, why);
	if (r == -EBUSY)
		return r;
	if (r < 0)
		log_warning("%s", why->text);
	*ret = steal_ptr(keeper);
	return 0;
}

struct keeper *keeper_free(struct keeper *keeper)
{
	if (!keeper)
		return NULL;
	sd_event_source_disable_unref(keeper->timer);
	store_free(keeper->store);
	free(keeper);
	return NULL;
}

struct session *keeper_restore(struct keeper *keeper, const struct config *config, struct listen_fds *passed)
{
	struct reason news;
	bool lost;
	struct session *session = store_restore(keeper->store, passed,
						fd_budget_reserve(UINT64_MAX, config->max_connections), &news, &lost);

	if (news.text[0])
		log_line(lost ? LOG_WARNING : LOG_NOTICE, "%s", news.text);
	return session;
}

void keeper_save(struct keeper *keeper)
{
	int r = store_save(keeper->store, world_session(keeper->world));

	/* That everything is kept again is known only after an update. */
	if (r < 0)
		report_kept(keeper->report, r);
}

void keeper_update(struct keeper *keeper)
{
	uint64_t start = clock_monotonic_ns();

	report_kept(keeper->report, store_keep(keeper->store, world_session(keeper->world)));
	keeper->took_ns = clock_monotonic_ns() - start;
}

void keeper_update_soon(struct keeper *keeper)
{
	uint64_t delay = keeper->took_ns * UPDATE_SHARE;
	int armed;

	if (!store_is_behind(keeper->store, world_session(keeper->world)) ||
	    sd_event_source_get_enabled(keeper->timer, &armed) < 0 || armed != SD_EVENT_OFF)
		return;
	if (delay < UPDATE_DELAY_NS)
		delay = UPDATE_DELAY_NS;
	if (sd_event_source_set_time_relative(keeper->timer, delay / NS_PER_US) >= 0)
		(void)sd_event_source_set_enabled(keeper->timer, SD_EVENT_ONESHOT);
}

static int on_update(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	keeper_update(userdata);
	keeper_update_soon(userdata);
	return 0;
}

int keeper_start(struct keeper *keeper, sd_event *loop, const struct world *world)
{
	int r;

	assert(!keeper->timer);
	r = sd_event_add_time(loop, &keeper->timer, CLOCK_MONOTONIC, 0, 0, on_update, keeper);
	if (r >= 0)
		r = sd_event_source_set_enabled(keeper->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	keeper->world = world;
	r = store_begin(keeper->store, world_session(world));
	if (r < 0)
		log_warning("cannot remove the totals saved at the last stop (%s): a later start may use them again",
			    strerror(-r));
	keeper_update_soon(keeper);
	return 0;
}

void keeper_leave(struct keeper *keeper)
{
	struct reason why;

	if (store_leave(keeper->store, world_session(keeper->world), &why) < 0)
		log_warning("%s", why.text);
}

struct store_stats keeper_stats(const struct keeper *keeper)
{
	return store_stats(keeper->store);
}
