/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/schedule.h"

#include "base/util/clock.h"
#include "base/util/log.h"
#include "base/util/memory.h"
#include "base/util/mountinfo.h"
#include "service/lifecycle/fd-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

/* For this long a turn of the loop cgroups are found, and waiting ones opened. */
#define FOLLOW_NS 2000000U
#define ADMIT_NS 3000000U

/* While a reload is put in force, intervals end so much later. */
#define COMMIT_US 2000U

/* How often changes are looked for that nobody announces, … */
#define CHECK_US 1000000U
/* … and while the tree waits for its mount. */
#define CHECK_SOON_US 50000U

struct schedule {
	sd_event *loop;
	struct world *world;
	struct saver *saver;
	struct report *report;
	struct profiles *profiles;

	sd_event_source *tick, *check, *admit;
	struct watch *cgroups, *mounts, *names;
	uint64_t watched_tree; /* the number of the tree that `cgroups` watches */
	uint64_t generation;   /* the world's, at the last admission */
	uint64_t interval;     /* ns */
	uint64_t next_tick;    /* CLOCK_MONOTONIC ns */
	bool has_opened;
};

/* --- intervals */

static void end_interval(struct schedule *schedule)
{
	world_tick(schedule->world);
	profiles_tick(schedule->profiles);
	saver_write_image(schedule->saver);
	report_states(schedule->report, schedule->world, schedule->profiles);
	saver_update_fds_soon(schedule->saver);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct schedule *schedule = userdata;
	uint64_t now;
	int r;

	(void)usec;
	if (world_is_committing(schedule->world)) {
		r = sd_event_source_set_time_relative(source, COMMIT_US);
		return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	}
	end_interval(schedule);
	schedule_wake(schedule);

	/* On a fixed grid, so that intervals do not drift; ticks that were missed while the machine slept are
	 * skipped. */
	now = clock_monotonic_ns();
	schedule->next_tick += schedule->interval;
	if (schedule->next_tick <= now)
		schedule->next_tick = now + schedule->interval;
	r = sd_event_source_set_time(source, schedule->next_tick / NS_PER_US);
	return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* In µs: how late a tick may come, so that the kernel can wake up for several timers at once. */
static uint64_t tick_accuracy(uint64_t interval)
{
	return interval / NS_PER_US / 20 + 1;
}

static int add_tick(struct schedule *schedule)
{
	int r;

	schedule->next_tick = clock_monotonic_ns() + schedule->interval;
	r = sd_event_add_time(schedule->loop, &schedule->tick, CLOCK_MONOTONIC, schedule->next_tick / NS_PER_US,
			      tick_accuracy(schedule->interval), on_tick, schedule);
	return r < 0 ? r : sd_event_source_set_priority(schedule->tick, PRIORITY_TICK);
}

static int change_interval(struct schedule *schedule, uint64_t interval)
{
	int r;

	schedule->interval = interval;
	schedule->next_tick = clock_monotonic_ns() + interval;
	r = sd_event_source_set_time(schedule->tick, schedule->next_tick / NS_PER_US);
	return r < 0 ? r : sd_event_source_set_time_accuracy(schedule->tick, tick_accuracy(interval));
}

/* --- cgroups */

static bool follow_cgroups(struct schedule *schedule)
{
	struct reason why = {};
	bool more = world_follow_cgroups(schedule->world, FOLLOW_NS, &why);

	report_news(schedule->report, REPORT_CGROUPS, LOG_WARNING, &why);
	profiles_follow(schedule->profiles);
	return more;
}

/* The first time that all cgroups are opened which there is room for: the daemon is ready. New ones may wait for the
 * next ranking. */
static void decide_once(struct schedule *schedule)
{
	if (schedule->has_opened)
		return;
	schedule->has_opened = true;
	end_interval(schedule);
	report_opened(schedule->report);
	memory_forget_code();
}

static int on_admit(sd_event_source *source, void *userdata)
{
	struct schedule *schedule = userdata;
	bool behind = !world_is_committing(schedule->world) && world_is_behind(schedule->world) &&
		      follow_cgroups(schedule);
	bool waiting = world_admit(schedule->world, ADMIT_NS);

	/* The rest of a check has waited for the end of a commit. */
	if (schedule->generation != world_generation(schedule->world))
		(void)sd_event_source_set_time_relative(schedule->check, 0);
	schedule->generation = world_generation(schedule->world);
	saver_update_fds_soon(schedule->saver);
	if (waiting || behind)
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	decide_once(schedule);
	return 0;
}

void schedule_wake(struct schedule *schedule)
{
	if (!schedule->has_opened || world_is_waiting(schedule->world) || world_is_behind(schedule->world))
		(void)sd_event_source_set_enabled(schedule->admit, SD_EVENT_ONESHOT);
}

bool schedule_has_opened(const struct schedule *schedule)
{
	return schedule->has_opened;
}

static void on_cgroups(void *userdata)
{
	struct schedule *schedule = userdata;

	/* The file stays readable. */
	if (world_is_committing(schedule->world))
		return;
	(void)follow_cgroups(schedule);
	schedule_wake(schedule);
	saver_update_fds_soon(schedule->saver);
}

/* Watches a copy of an fd: whoever is dropped closes its own while the loop still has it. Without a file for it, that
 * is tried again at the next check. */
static int watch_copy(struct watch **ret, struct schedule *schedule, int fd, int64_t priority,
		      void (*changed)(void *userdata))
{
	_cleanup_(closep) int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	int r;

	if (copy < 0)
		return errno == EMFILE ? 0 : -errno;
	r = watch_new(ret, schedule->loop, copy, EPOLLIN, priority, changed, schedule);
	if (r >= 0)
		(void)steal_fd(&copy);
	return r;
}

/* Watches the inotify fd of the tree there is now, unless that waits for its mount. */
static int watch_tree(struct schedule *schedule)
{
	bool suspended = world_is_suspended(schedule->world);
	uint64_t tree = 0;
	int fd = world_inotify_fd(schedule->world, &tree);

	if (fd < 0 || schedule->watched_tree != tree)
		schedule->cgroups = watch_free(schedule->cgroups);
	if (schedule->cgroups)
		return watch_enable(schedule->cgroups, !suspended);
	if (suspended || fd < 0)
		return 0;
	schedule->watched_tree = tree;
	return watch_copy(&schedule->cgroups, schedule, fd, PRIORITY_CGROUPS, on_cgroups);
}

/* --- names of containers */

static void on_names(void *userdata)
{
	struct schedule *schedule = userdata;
	struct reason why;

	world_name_containers(schedule->world, &why);
	report_news(schedule->report, REPORT_NAMES, LOG_WARNING, &why);
}

static int watch_names(struct schedule *schedule)
{
	if (schedule->names)
		return 0;
	return watch_copy(&schedule->names, schedule, world_names_fd(schedule->world), PRIORITY_CGROUPS, on_names);
}

/* --- the machine */

static int follow_mounts(struct schedule *schedule, bool notified)
{
	struct reason news;

	world_follow_mounts(schedule->world, notified, &news);
	report_news(schedule->report, REPORT_MOUNTS,
		    world_machine(schedule->world)->mount.path ? LOG_NOTICE : LOG_WARNING, &news);
	saver_update_fds_soon(schedule->saver);
	schedule_wake(schedule);
	profiles_follow(schedule->profiles);
	return watch_tree(schedule);
}

static int check_later(struct schedule *schedule)
{
	uint64_t delay = world_is_suspended(schedule->world) ? CHECK_SOON_US : CHECK_US;
	int r = sd_event_source_set_time_relative(schedule->check, delay);

	return r < 0 ? r : sd_event_source_set_enabled(schedule->check, SD_EVENT_ONESHOT);
}

static int on_check(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct schedule *schedule = userdata;
	struct reason news;
	int r;

	(void)source;
	(void)usec;
	if (world_is_committing(schedule->world))
		return check_later(schedule);
	world_follow_machine(schedule->world, &news);
	report_news(schedule->report, REPORT_CPUS, LOG_NOTICE, &news);
	schedule_wake(schedule);
	if (world_is_committing(schedule->world))
		return check_later(schedule);
	report_tree(schedule->report, schedule->world);
	on_names(schedule);
	r = follow_mounts(schedule, false);
	if (r >= 0)
		r = watch_names(schedule);
	return r < 0 ? r : check_later(schedule);
}

static void on_mounts(void *userdata)
{
	struct schedule *schedule = userdata;
	int r = follow_mounts(schedule, true);

	if (r >= 0 && world_is_suspended(schedule->world))
		r = check_later(schedule);
	if (r < 0)
		log_warning("the cgroup tree can't be followed: %s", strerror(-r));
}

/* mountinfo is readable with priority after each change (proc(5)). Without the watch, changes are found by the next
 * check. */
static int watch_mounts(struct schedule *schedule)
{
	_cleanup_(closep) int fd = open(OWN_MOUNTINFO, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return 0;
	r = watch_new(&schedule->mounts, schedule->loop, fd, EPOLLPRI, PRIORITY_MOUNTS, on_mounts, schedule);
	if (r >= 0)
		(void)steal_fd(&fd);
	return r == -ENOMEM ? r : 0;
}

/* --- all of it */

static int add_loop_sources(struct schedule *schedule)
{
	int r = add_tick(schedule);

	if (r >= 0)
		r = sd_event_add_time_relative(schedule->loop, &schedule->check, CLOCK_MONOTONIC, CHECK_US,
					       CHECK_US / 4, on_check, schedule);
	if (r >= 0)
		r = sd_event_add_defer(schedule->loop, &schedule->admit, on_admit, schedule);
	if (r >= 0)
		r = sd_event_source_set_priority(schedule->admit, PRIORITY_CGROUPS);
	if (r >= 0)
		r = watch_mounts(schedule);
	if (r >= 0)
		r = watch_names(schedule);
	return r < 0 ? r : watch_tree(schedule);
}

int schedule_new(struct schedule **ret, sd_event *loop, struct world *world, struct profiles *profiles,
		 struct saver *saver, struct report *report)
{
	_cleanup_(schedule_freep) struct schedule *schedule = calloc(1, sizeof(*schedule));
	int r;

	if (!schedule)
		return -ENOMEM;
	*schedule = (struct schedule){
		.loop = loop,
		.world = world,
		.profiles = profiles,
		.saver = saver,
		.report = report,
		.interval = world_config(world)->interval,
		.generation = world_generation(world),
	};
	r = add_loop_sources(schedule);
	if (r < 0)
		return r;
	*ret = steal_ptr(schedule);
	return 0;
}

struct schedule *schedule_free(struct schedule *schedule)
{
	if (!schedule)
		return NULL;
	sd_event_source_disable_unref(schedule->tick);
	sd_event_source_disable_unref(schedule->check);
	sd_event_source_disable_unref(schedule->admit);
	watch_free(schedule->cgroups);
	watch_free(schedule->mounts);
	watch_free(schedule->names);
	free(schedule);
	return NULL;
}

int schedule_renew(struct schedule *schedule)
{
	uint64_t interval = world_config(schedule->world)->interval;
	int r = interval == schedule->interval ? 0 : change_interval(schedule, interval);

	memory_forget_code();
	profiles_follow(schedule->profiles);
	return r < 0 ? r : watch_tree(schedule);
}
