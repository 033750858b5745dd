/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/lifecycle.h"

#include "base/util/clock.h"
#include "base/util/windowed-max.h"
#include "service/lifecycle/listener.h"
#include "service/lifecycle/loader.h"
#include "service/lifecycle/saver.h"
#include "service/lifecycle/schedule.h"
#include "service/lifecycle/signals.h"
#include "service/persist/listen-fds.h"
#include "service/profiles/profile-settings.h"
#include "service/profiles/profiles.h"
#include "web/http/web-config.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* A scrape reads the counters again where the last reading is older than this. */
#define SCRAPE_MAX_AGE_NS 100000000U

/* At a reload: programs are tried, and loaded in the size of the plan. The loop loads all that is needed beyond. */
#define LOADS_MAX 2

/* For so long the profiler may take at the stop to save captures, and to hand over its samples. */
#define LEAVE_NS (5 * (uint64_t)NS_PER_S)

struct service {
	const struct options *options;
	sd_event *loop;
	struct report *report;
	struct saver *saver;
	struct world *world;
	struct profiler_keeper *keeper;
	struct profiles *profiles;
	bool is_ready; /* systemd knows it */
	struct listener *listener;
	struct schedule *schedule;
	struct loader *loader;
	bool is_committing;	      /* a reload */
	unsigned nr_loads;	      /* that were begun for the reload */
	struct windowed_max lag, cpu; /* ns a turn of the loop; ns of its CPU time */
	struct self_stats self;	      /* the service's own figures */
};

static void release_service(struct service *service)
{
	listener_free(service->listener);
	schedule_free(service->schedule);
	profiles_free(service->profiles);
	loader_free(service->loader);
	/* A restored session refers to the store. */
	world_free(service->world);
	saver_free(service->saver);
	report_free(service->report);
	sd_event_unref(service->loop);
}

/* --- what HTTP shows */

static void update_self(struct service *service)
{
	struct store_stats stats = saver_stats(service->saver);

	service->self.loop_lag = windowed_max_get(&service->lag, clock_monotonic_ns());
	service->self.loop_cpu = windowed_max_get(&service->cpu, clock_monotonic_ns());
	service->self.saves = stats.saves;
	service->self.save_ns = stats.save_ns;
	service->self.saved_bytes = stats.image_bytes;
	service->self.kept_events = stats.kept;
	profiles_stats(service->profiles, &service->self.profile);
}

static int source_snapshot(void *userdata, struct snapshot **ret)
{
	struct service *service = userdata;
	int r;

	update_self(service);
	r = world_snapshot(service->world, SCRAPE_MAX_AGE_NS, &service->self, ret);
	/* Totals that are shown must not be lost: the image is written first. */
	if (r > 0) {
		saver_write_image(service->saver);
		report_states(service->report, service->world, service->profiles);
	}
	/* world_snapshot() may have begun to read the tree again. */
	schedule_wake(service->schedule);
	return r < 0 ? r : 0;
}

static bool source_ready(void *userdata, struct reason *why)
{
	struct service *service = userdata;
	bool opened = schedule_has_opened(service->schedule);
	size_t waiting = world_nr_cgroups(service->world, CGROUP_WAITING);

	if (!opened && waiting > 0)
		reason_set(why, 0, "%zu cgroups are still to be opened", waiting);
	else if (!opened)
		reason_set(why, 0, "cgroups are still to be found");
	else if (!service->is_ready)
		reason_set(why, 0, "the profiler is being started");
	return opened && service->is_ready;
}

static int source_ask(void *userdata, const struct profile_question *question, web_answered_t answered, void *asker,
		      struct reason *why)
{
	const struct service *service = userdata;

	return profiles_ask(service->profiles, question, answered, asker, why);
}

static void source_cancel(void *userdata)
{
	const struct service *service = userdata;

	profiles_cancel(service->profiles);
}

static const char *source_no_profiles(void *userdata)
{
	const struct service *service = userdata;

	return profiles_problem(service->profiles);
}

static void source_scraped(void *userdata, bool written)
{
	struct service *service = userdata;

	service->self.scrapes++;
	service->self.renderings += written;
}

/* --- reload */

static int load_web_options(struct web_options **ret, const struct service *service, const struct config *config,
			    struct reason *why)
{
	return web_config_load(ret, config, world_fd_limit(service->world), why);
}

/* Has programs loaded in a thread that the reload needs. False: it needs none, or there is no thread. */
static bool load_ahead(struct service *service, const struct config *config, const struct reload *prepared)
{
	struct bpf_load *load = service->nr_loads < LOADS_MAX ? world_find_load(service->world, config, prepared) :
								NULL;

	service->nr_loads += load != NULL;
	return load && loader_start(service->loader, load);
}

/* Everything that can fail comes first: on failure the old config stays in force as a whole. 0: it is
 * being put in force. 1: this is to be called again, when the loader is done. */
static int reload_config(struct service *service, struct reason *why)
{
	_cleanup_(config_freep) struct config *config = NULL;
	_cleanup_(reload_freep) struct reload *prepared = NULL;
	_cleanup_(web_options_unrefp) struct web_options *options = NULL;
	_cleanup_(snapshot_unrefp) struct snapshot *snapshot = NULL;
	const struct config *next = NULL;
	int r = options_load_config(&config, service->options, why);

	if (r >= 0)
		r = load_web_options(&options, service, config, why);
	if (r >= 0 && load_ahead(service, config, NULL))
		return 1;
	if (r >= 0)
		r = world_prepare(service->world, config, &prepared, why);
	if (r >= 0) {
		next = steal_ptr(config); /* taken over */
		r = profile_settings_check(next, &reload_machine(prepared)->env, why);
	}
	if (r < 0)
		return r;
	if (load_ahead(service, next, prepared))
		return 1;
	r = listener_move(service->listener, world_config(service->world), next, options, why);
	if (r < 0)
		return r;
	/* Until the config is in force, answers are of the last reading. */
	update_self(service);
	(void)world_snapshot(service->world, UINT64_MAX, &service->self, &snapshot);
	world_begin_commit(service->world, steal_ptr(prepared));
	service->is_committing = true;
	schedule_wake(service->schedule);
	return 0;
}

static void report_reloaded(struct service *service, const struct reason *warning)
{
	log_info("reloaded");
	if (warning->text[0])
		log_warning("%s", warning->text);
	report_machine(service->world);
	report_tree(service->report, service->world);
	report_forget_states(service->report);
}

static void end_reload(struct service *service)
{
	report_forget_status(service->report);
	(void)sd_notify(0, "READY=1");
	report_states(service->report, service->world, service->profiles);
}

static void begin_reload(struct service *service)
{
	struct reason why = {};

	if (reload_config(service, &why) >= 0)
		return;
	service->self.reloads_failed++;
	log_error("not reloaded, the old config stays in force: %s", why.text);
	end_reload(service);
}

/* When the config is in force. */
static void finish_reload(struct service *service)
{
	struct reason why;
	int r;

	service->is_committing = false;
	world_finish_commit(service->world, &why);
	r = schedule_renew(service->schedule);
	if (r < 0)
		reason_set(&why, 0, "the event loop can't be changed: %s", strerror(-r));
	service->self.reloads++;
	report_reloaded(service, &why);
	saver_update_fds(service->saver);
	schedule_wake(service->schedule);
	end_reload(service);
}

static void on_loaded(void *userdata, struct bpf_load *load)
{
	struct service *service = userdata;

	world_use_load(service->world, load);
	begin_reload(service);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct service *service = userdata;

	(void)source;
	(void)info;
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reloading",
			 clock_monotonic_ns() / NS_PER_US);
	/* The files are read again when it is done. */
	if (loader_is_busy(service->loader))
		return 0;
	if (service->is_committing)
		finish_reload(service);
	service->nr_loads = 0;
	begin_reload(service);
	return 0;
}

/* --- stop */

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct service *service = userdata;
	_cleanup_(blob_unrefp) struct blob *samples = NULL;

	(void)source;
	log_info("stopping on %s", strsignal((int)info->ssi_signo));
	(void)sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
	/* First, so that what is saved tells when sampling ended. */
	samples = profiles_leave(service->profiles, LEAVE_NS);
	world_tick(service->world);
	saver_leave(service->saver);
	saver_leave_samples(service->saver, samples);
	return sd_event_exit(service->loop, 0);
}

/* --- start */

static int loop_error(struct reason *why, int r)
{
	return reason_set(why, r, "the event loop can't be set up: %s", strerror(-r));
}

static int make_loop(struct service *service, struct reason *why)
{
	int r = signals_block();

	if (r >= 0)
		r = sd_event_new(&service->loop);
	if (r >= 0)
		r = signals_add(service->loop, SIGTERM, on_stop, PRIORITY_SIGNAL, service);
	if (r >= 0)
		r = signals_add(service->loop, SIGINT, on_stop, PRIORITY_SIGNAL, service);
	if (r >= 0)
		r = signals_add(service->loop, SIGHUP, on_reload, PRIORITY_SIGNAL, service);
	if (r >= 0)
		r = loader_new(&service->loader, service->loop, on_loaded, service);
	if (r >= 0)
		r = sd_event_set_watchdog(service->loop, true);
	return r < 0 ? loop_error(why, r) : 0;
}

/* The world goes on from what an instance before this one has saved. */
static int make_world(struct service *service, struct listen_fds *passed, struct reason *why)
{
	_cleanup_(session_freep) struct session *restored = NULL;
	_cleanup_(config_freep) struct config *config = NULL;
	uint64_t sampled;
	int r = options_load_config(&config, service->options, why);

	if (r >= 0)
		r = saver_new(&service->saver, service->report, why);
	if (r < 0)
		return r;
	restored = saver_restore(service->saver, config, passed);
	sampled = restored ? session_sampled(restored) : 0;
	r = world_new(&service->world, config, restored, why);
	if (r < 0)
		return r;
	r = profile_settings_check(config, &world_machine(service->world)->env, why);
	config = NULL; /* taken over, as is the session */
	restored = NULL;
	if (r == 0 && profiles_new(&service->profiles, service->loop, service->world, service->keeper, sampled) < 0)
		r = reason_set(why, -ENOMEM, "out of memory");
	return r;
}

static int start_listener(struct service *service, const struct listen_fds *passed, struct reason *why)
{
	const struct web_source source = {
		.snapshot = source_snapshot,
		.ask = source_ask,
		.cancel = source_cancel,
		.no_profiles = source_no_profiles,
		.ready = source_ready,
		.scraped = source_scraped,
		.history = world_history(service->world),
		.clock = world_clock(service->world),
		.info = world_info(service->world),
		.stats = &service->self.web,
		.userdata = service,
	};
	const struct config *config = world_config(service->world);
	_cleanup_(web_options_unrefp) struct web_options *options = NULL;
	int r = load_web_options(&options, service, config, why);

	if (r < 0)
		return r;
	if (listener_new(&service->listener, service->loop, &source, passed) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	return listener_start(service->listener, config, options, why);
}

static int start_counting(struct service *service, struct reason *why)
{
	int r = world_start(service->world, why);

	if (r < 0)
		return r;
	if (why->text[0])
		log_warning("%s", why->text);
	/* At the first cgroup an engine can have programs to load, which the loop is not to wait for. */
	(void)world_admit(service->world, 0);
	r = schedule_new(&service->schedule, service->loop, service->world, service->profiles, service->saver,
			 service->report);
	if (r < 0)
		return loop_error(why, r);
	report_machine(service->world);
	report_tree(service->report, service->world);
	r = saver_start(service->saver, service->loop, service->world);
	if (r < 0)
		return loop_error(why, r);
	/* Last: a start that fails leaves them to the next one. */
	profiles_go_on(service->profiles, saver_take_samples(service->saver));
	return 0;
}

/* Loads the config and starts everything but the loop. options and passed are borrowed for the service's life.
 * Listening sockets in passed take the place of the config's addresses. Negative errno with the sentence in why. */
static int start_service(struct service *service, const struct options *options, struct listen_fds *passed,
			 struct reason *why)
{
	int r;

	service->options = options;
	if (report_new(&service->report) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	r = make_loop(service, why);
	if (r >= 0)
		r = make_world(service, passed, why);
	/* An address in use ends the start before anything is counted. */
	if (r >= 0)
		r = start_listener(service, passed, why);
	return r < 0 ? r : start_counting(service, why);
}

/* --- the loop */

/* Tells systemd that it is ready, when samples are taken as well. */
static void note_ready(struct service *service)
{
	if (service->is_ready || !profiles_have_started(service->profiles))
		return;
	if (!profiles_are_in_force(service->profiles))
		log_warning("ready without the profiler, which has not opened its rings: %s",
			    profiles_problem(service->profiles));
	service->is_ready = true;
	(void)sd_notify(0, "READY=1");
}

/* Waits until something happens, and handles one event. */
static int run_turn(struct service *service)
{
	uint64_t start, cpu;
	int r = sd_event_prepare(service->loop);

	if (r == 0)
		r = sd_event_wait(service->loop, UINT64_MAX);
	if (r <= 0)
		return r;
	start = clock_monotonic_ns();
	cpu = clock_thread_ns();
	r = sd_event_dispatch(service->loop);
	windowed_max_add(&service->lag, start, clock_monotonic_ns() - start);
	windowed_max_add(&service->cpu, start, clock_thread_ns() - cpu);
	if (service->is_committing && !world_is_committing(service->world))
		finish_reload(service);
	note_ready(service);
	return r;
}

/* Runs until a signal ends it: 0, or negative errno where the loop failed. */
static int run_loop(struct service *service)
{
	int r = 0;

	note_ready(service);
	while (r >= 0 && sd_event_get_state(service->loop) != SD_EVENT_FINISHED)
		r = run_turn(service);
	if (r < 0)
		log_error("the event loop failed: %s", strerror(-r));
	return r;
}

int lifecycle_run(const struct options *options, struct profiler_keeper *keeper)
{
	_cleanup_(listen_fds_release) struct listen_fds passed = {};
	_cleanup_(release_service) struct service service = { .keeper = keeper };
	struct reason why = {};
	int r = listen_fds_read(&passed, &why);

	if (r >= 0)
		r = start_service(&service, options, &passed, &why);
	if (r < 0) {
		log_error("%s", why.text);
		return EXIT_FAILURE;
	}
	return run_loop(&service) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
