/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/saver.h"

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

struct saver {
	struct store *store;
	struct report *report;
	const struct world *world;
	sd_event_source *timer; /* armed while the store is behind */
	uint64_t took_ns;	/* by the last update */
};

int saver_new(struct saver **ret, struct report *report, struct reason *why)
{
	_cleanup_(saver_freep) struct saver *saver = calloc(1, sizeof(*saver));
	_cleanup_(freep) char *folder = NULL;
	int r;

	if (!saver || unit_state_folder(&folder) < 0 || store_new(&saver->store, folder, getenv("NOTIFY_SOCKET")) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	saver->report = report;
	r = store_claim(saver->store, why);
	if (r == -EBUSY)
		return r;
	if (r < 0)
		log_warning("%s", why->text);
	*ret = steal_ptr(saver);
	return 0;
}

struct saver *saver_free(struct saver *saver)
{
	if (!saver)
		return NULL;
	sd_event_source_disable_unref(saver->timer);
	store_free(saver->store);
	free(saver);
	return NULL;
}

struct session *saver_restore(struct saver *saver, const struct config *config, struct listen_fds *passed)
{
	struct reason news;
	bool lost;
	struct session *session = store_restore(saver->store, passed,
						fd_budget_reserve(UINT64_MAX, config->max_connections), &news, &lost);

	if (news.text[0])
		log_line(lost ? LOG_WARNING : LOG_NOTICE, "%s", news.text);
	return session;
}

void saver_write_image(struct saver *saver)
{
	int r = store_save(saver->store, world_session(saver->world));

	/* That everything is saved again is known only after an update. */
	if (r < 0)
		report_saved(saver->report, r);
}

void saver_update_fds(struct saver *saver)
{
	uint64_t start = clock_monotonic_ns();

	report_saved(saver->report, store_update(saver->store, world_session(saver->world)));
	saver->took_ns = clock_monotonic_ns() - start;
}

void saver_update_fds_soon(struct saver *saver)
{
	uint64_t delay = saver->took_ns * UPDATE_SHARE;
	int armed;

	if (!store_is_behind(saver->store, world_session(saver->world)) ||
	    sd_event_source_get_enabled(saver->timer, &armed) < 0 || armed != SD_EVENT_OFF)
		return;
	if (delay < UPDATE_DELAY_NS)
		delay = UPDATE_DELAY_NS;
	if (sd_event_source_set_time_relative(saver->timer, delay / NS_PER_US) >= 0)
		(void)sd_event_source_set_enabled(saver->timer, SD_EVENT_ONESHOT);
}

static int on_update(sd_event_source *source, uint64_t usec, void *userdata)
{
	const struct saver *saver = userdata;

	(void)source;
	(void)usec;
	/* Each cgroup's files are those of one session or the other; the reload ends with an update. */
	if (world_is_committing(saver->world))
		return 0;
	saver_update_fds(userdata);
	saver_update_fds_soon(userdata);
	return 0;
}

int saver_start(struct saver *saver, sd_event *loop, const struct world *world)
{
	int r;

	assert(!saver->timer);
	r = sd_event_add_time(loop, &saver->timer, CLOCK_MONOTONIC, 0, 0, on_update, saver);
	if (r >= 0)
		r = sd_event_source_set_enabled(saver->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	saver->world = world;
	r = store_begin(saver->store, world_session(world));
	if (r < 0)
		log_warning("cannot remove the totals saved at the last stop (%s): a later start may use them again",
			    strerror(-r));
	saver_update_fds_soon(saver);
	return 0;
}

void saver_leave(struct saver *saver)
{
	struct reason why;

	if (store_leave(saver->store, world_session(saver->world), &why) < 0)
		log_warning("%s", why.text);
}

void saver_leave_samples(struct saver *saver, const struct blob *image)
{
	struct reason why;

	if (image && store_put_samples(saver->store, image, &why) < 0)
		log_warning("samples are not kept for the next start: %s", why.text);
	store_release(saver->store);
}

struct blob *saver_take_samples(struct saver *saver)
{
	struct blob *image;
	struct reason why;

	if (store_take_samples(saver->store, &image, &why) == 0)
		return image;
	log_warning("samples of before are dropped: %s", why.text);
	return NULL;
}

struct store_stats saver_stats(const struct saver *saver)
{
	return store_stats(saver->store);
}
