/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/lifecycle.h"

#include "base/util/clock.h"
#include "base/util/windowed-max.h"
#include "profiler/capture/capture-folder.h"
#include "profiler/capture/capture-saver.h"
#include "service/lifecycle/keeper.h"
#include "service/lifecycle/listener.h"
#include "service/lifecycle/schedule.h"
#include "service/lifecycle/signals.h"
#include "web/http/web-config.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* A scrape reads the counters again where the last reading is older than this. */
#define SCRAPE_MAX_AGE_NS 100000000U

struct manager {
	const struct options *options;
	sd_event *loop;
	struct report *report;
	struct keeper *keeper;
	struct monitor *monitor;
	struct listener *listener;
	struct schedule *schedule;
	struct windowed_max lag; /* ns a turn of the loop */
	struct self_stats self;	 /* the service's own figures */
};

struct manager *manager_free(struct manager *manager)
{
	if (!manager)
		return NULL;
	listener_free(manager->listener);
	schedule_free(manager->schedule);
	/* A restored count refers to the store. */
	monitor_free(manager->monitor);
	keeper_free(manager->keeper);
	report_free(manager->report);
	sd_event_unref(manager->loop);
	free(manager);
	return NULL;
}

/* --- what HTTP shows */

static void update_self(struct manager *manager)
{
	struct store_stats stats = keeper_stats(manager->keeper);

	manager->self.loop_lag = windowed_max_get(&manager->lag, clock_monotonic_ns());
	manager->self.saves = stats.saves;
	manager->self.save_ns = stats.save_ns;
	manager->self.saved_bytes = stats.image_bytes;
	manager->self.kept_events = stats.kept;
}

static int source_snapshot(void *userdata, struct snapshot **ret)
{
	struct manager *manager = userdata;
	int r;

	update_self(manager);
	r = monitor_snapshot(manager->monitor, SCRAPE_MAX_AGE_NS, &manager->self, ret);
	/* Totals that are shown must not be lost: the image is written first. */
	if (r > 0) {
		keeper_save(manager->keeper);
		report_states(manager->report, manager->monitor);
	}
	/* monitor_snapshot() may have begun to read the tree again. */
	schedule_wake(manager->schedule);
	return r < 0 ? r : 0;
}

static bool source_ready(void *userdata, struct reason *why)
{
	struct manager *manager = userdata;
	bool settled = schedule_is_settled(manager->schedule);
	size_t waiting = monitor_nr_cgroups(manager->monitor, CGROUP_WAITING);

	if (!settled && waiting > 0)
		reason_set(why, 0, "%zu cgroups are still to be opened", waiting);
	else if (!settled)
		reason_set(why, 0, "cgroups are still to be found");
	return settled;
}

static void source_update_profiles(void *userdata)
{
	const struct manager *manager = userdata;

	monitor_take_samples(manager->monitor);
}

static int source_profile(void *userdata, const char *event, const struct profile_query *query, bool counted,
			  struct profile **ret, struct profile_measure *ret_measure, struct reason *why)
{
	const struct manager *manager = userdata;

	return monitor_ask_profile(manager->monitor, event, query, counted, ret, ret_measure, why);
}

static int source_captures(void *userdata, const struct captures **ret, struct capture_rule_info **ret_rules,
			   size_t *ret_nr)
{
	const struct manager *manager = userdata;
	struct capture_rule_info *rules = calloc(CONFIG_MAX_CAPTURES, sizeof(*rules));
	size_t nr = 0;

	if (!rules)
		return -ENOMEM;
	while (nr < CONFIG_MAX_CAPTURES && monitor_capture_rule(manager->monitor, nr, &rules[nr]))
		nr++;
	*ret = monitor_captures(manager->monitor);
	*ret_rules = rules;
	*ret_nr = nr;
	return 0;
}

static int source_capture(void *userdata, const char *id, const struct profile_query *query, struct profile **ret,
			  struct profile_measure *ret_measure, struct reason *why)
{
	const struct manager *manager = userdata;

	return monitor_ask_capture(manager->monitor, id, query, ret, ret_measure, why);
}

static int source_saved_captures(void *userdata, struct capture_saved **ret, size_t *ret_nr)
{
	_cleanup_(freep) char *folder = NULL;
	int r = capture_saver_folder(&folder);

	(void)userdata;
	return r < 0 ? r : capture_folder_list(folder, ret, ret_nr);
}

static int source_saved_capture(void *userdata, const char *id, struct buf *ret)
{
	_cleanup_(freep) char *folder = NULL;
	int r = capture_saver_folder(&folder);

	(void)userdata;
	return r < 0 ? r : capture_folder_read(folder, id, ret);
}

static void source_scraped(void *userdata, bool written)
{
	struct manager *manager = userdata;

	manager->self.scrapes++;
	manager->self.renderings += written;
}

/* --- reload */

static int load_web_options(struct web_options **ret, const struct manager *manager, const struct config *config,
			    struct reason *why)
{
	return web_config_load(ret, config, monitor_fd_limit(manager->monitor), why);
}

/* Everything that can fail comes first: on failure the old config stays in force as a whole. */
static int reload_config(struct manager *manager, struct reason *why)
{
	_cleanup_(config_freep) struct config *config = NULL;
	_cleanup_(reload_freep) struct reload *prepared = NULL;
	_cleanup_(web_options_unrefp) struct web_options *options = NULL;
	const struct config *next;
	int r = options_load_config(&config, manager->options, why);

	if (r >= 0)
		r = load_web_options(&options, manager, config, why);
	if (r >= 0)
		r = monitor_prepare(manager->monitor, config, &prepared, why);
	if (r < 0)
		return r;
	next = steal_ptr(config); /* taken over */
	r = listener_move(manager->listener, monitor_config(manager->monitor), next, options, why);
	if (r < 0)
		return r;
	monitor_commit(manager->monitor, steal_ptr(prepared), why);
	r = schedule_renew(manager->schedule);
	if (r < 0)
		reason_set(why, 0, "the event loop can't be changed: %s", strerror(-r));
	return 0;
}

static void report_reloaded(struct manager *manager, const struct reason *warning)
{
	log_info("reloaded");
	if (warning->text[0])
		log_warning("%s", warning->text);
	report_machine(manager->monitor);
	report_tree(manager->report, manager->monitor);
	report_forget_states(manager->report);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct manager *manager = userdata;
	struct reason why = {};

	(void)source;
	(void)info;
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reloading",
			 clock_monotonic_ns() / NS_PER_US);
	if (reload_config(manager, &why) < 0) {
		manager->self.reloads_failed++;
		log_error("not reloaded, the old config stays in force: %s", why.text);
	} else {
		manager->self.reloads++;
		report_reloaded(manager, &why);
		keeper_update(manager->keeper);
		schedule_wake(manager->schedule);
	}
	report_forget_status(manager->report);
	(void)sd_notify(0, "READY=1");
	report_states(manager->report, manager->monitor);
	return 0;
}

/* --- stop */

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct manager *manager = userdata;

	(void)source;
	log_info("stopping on %s", strsignal((int)info->ssi_signo));
	(void)sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
	monitor_tick(manager->monitor);
	keeper_leave(manager->keeper);
	schedule_leave(manager->schedule);
	return sd_event_exit(manager->loop, 0);
}

/* --- start */

static int loop_error(struct reason *why, int r)
{
	return reason_set(why, r, "the event loop can't be set up: %s", strerror(-r));
}

static int make_loop(struct manager *manager, struct reason *why)
{
	int r = signals_block();

	if (r >= 0)
		r = sd_event_new(&manager->loop);
	if (r >= 0)
		r = signals_add(manager->loop, SIGTERM, on_stop, PRIORITY_SIGNAL, manager);
	if (r >= 0)
		r = signals_add(manager->loop, SIGINT, on_stop, PRIORITY_SIGNAL, manager);
	if (r >= 0)
		r = signals_add(manager->loop, SIGHUP, on_reload, PRIORITY_SIGNAL, manager);
	if (r >= 0)
		r = sd_event_set_watchdog(manager->loop, true);
	return r < 0 ? loop_error(why, r) : 0;
}

/* The monitor goes on from what an instance before this one has kept. */
static int make_monitor(struct manager *manager, struct listen_fds *passed, struct reason *why)
{
	_cleanup_(count_freep) struct count *restored = NULL;
	_cleanup_(config_freep) struct config *config = NULL;
	int r = options_load_config(&config, manager->options, why);

	if (r >= 0)
		r = keeper_new(&manager->keeper, manager->report, why);
	if (r < 0)
		return r;
	restored = keeper_restore(manager->keeper, config, passed);
	r = monitor_new(&manager->monitor, config, restored, why);
	if (r < 0)
		return r;
	config = NULL; /* taken over, as is the count */
	restored = NULL;
	return 0;
}

static int start_listener(struct manager *manager, const struct listen_fds *passed, struct reason *why)
{
	const struct web_source source = {
		.snapshot = source_snapshot,
		.update_profiles = source_update_profiles,
		.profile = source_profile,
		.captures = source_captures,
		.capture = source_capture,
		.saved_captures = source_saved_captures,
		.saved_capture = source_saved_capture,
		.ready = source_ready,
		.scraped = source_scraped,
		.history = monitor_history(manager->monitor),
		.clock = monitor_clock(manager->monitor),
		.info = monitor_info(manager->monitor),
		.stats = &manager->self.web,
		.userdata = manager,
	};
	const struct config *config = monitor_config(manager->monitor);
	_cleanup_(web_options_unrefp) struct web_options *options = NULL;
	int r = load_web_options(&options, manager, config, why);

	if (r < 0)
		return r;
	if (listener_new(&manager->listener, manager->loop, &source, passed) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	return listener_start(manager->listener, config, options, why);
}

static int start_counting(struct manager *manager, struct reason *why)
{
	int r = monitor_start(manager->monitor, why);

	if (r < 0)
		return r;
	if (why->text[0])
		log_warning("%s", why->text);
	/* At the first cgroup an engine can have programs to load, which the loop is not to wait for. */
	(void)monitor_admit(manager->monitor, 0);
	r = schedule_new(&manager->schedule, manager->loop, manager->monitor, manager->keeper, manager->report,
			 &manager->self.web);
	if (r < 0)
		return loop_error(why, r);
	report_machine(manager->monitor);
	report_tree(manager->report, manager->monitor);
	r = keeper_start(manager->keeper, manager->loop, manager->monitor);
	return r < 0 ? loop_error(why, r) : 0;
}

int manager_new(struct manager **ret, const struct options *options, struct listen_fds *passed, struct reason *why)
{
	_cleanup_(manager_freep) struct manager *manager = calloc(1, sizeof(*manager));
	int r;

	if (!manager || report_new(&manager->report) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	manager->options = options;
	r = make_loop(manager, why);
	if (r >= 0)
		r = make_monitor(manager, passed, why);
	/* An address in use ends the start before anything is counted. */
	if (r >= 0)
		r = start_listener(manager, passed, why);
	if (r >= 0)
		r = start_counting(manager, why);
	if (r < 0)
		return r;
	*ret = steal_ptr(manager);
	return 0;
}

/* --- the loop */

/* Waits until something happens, and handles one event. */
static int run_turn(struct manager *manager)
{
	uint64_t start;
	int r = sd_event_prepare(manager->loop);

	if (r == 0)
		r = sd_event_wait(manager->loop, UINT64_MAX);
	if (r <= 0)
		return r;
	start = clock_monotonic_ns();
	r = sd_event_dispatch(manager->loop);
	windowed_max_add(&manager->lag, start, clock_monotonic_ns() - start);
	return r;
}

int manager_run(struct manager *manager)
{
	int r = 0;

	(void)sd_notify(0, "READY=1");
	while (r >= 0 && sd_event_get_state(manager->loop) != SD_EVENT_FINISHED)
		r = run_turn(manager);
	if (r < 0)
		log_error("the event loop failed: %s", strerror(-r));
	return r;
}
