/* SPDX-License-Identifier: MIT */

#include "manager.h"

#include "access.h"
#include "config/list.h"
#include "lag.h"
#include "monitor.h"
#include "report.h"
#include "said.h"
#include "signals.h"
#include "store.h"
#include "util/buf.h"
#include "util/log.h"
#include "util/mountinfo.h"
#include "watch.h"
#include "web/web.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

/* A scrape reads afresh what is older than this. */
#define SCRAPE_MAX_AGE_NS 100000000U
/* Cgroups are found, and those that wait opened, for this long a turn of the loop. */
#define FOLLOW_NS 2000000U
#define ADMIT_NS 3000000U

/* What was opened and closed goes to the fd store so much later, in one go, … */
#define KEEP_NS 50000000U
/* … or so many times later as that took the last time. */
#define KEEP_SHARE 50

/* How often is looked for what nobody tells. */
#define LOOK_US 1000000U
/* … and while the tree waits for its mount. */
#define LOOK_SOON_US 50000U

#define NS_PER_US 1000U

/* Smaller is sooner. */
enum {
	PRIORITY_SIGNAL = -10,
	PRIORITY_TICK = -5,
	PRIORITY_MOUNTS = -2, /* before what the tree tells of a mount that is not there */
	PRIORITY_WEB = SD_EVENT_PRIORITY_NORMAL,
	PRIORITY_CGROUPS = 5, /* found and opened in turn, so that neither can starve the other */
};

struct manager {
	const struct options *options;
	sd_event *loop;
	sd_event_source *tick, *look, *admit;
	struct watch *cgroups, *mounts;
	uint64_t nr_trees; /* the monitor's, of which `cgroups` is the last */
	struct monitor *monitor;
	struct web *web;
	struct web_options *web_options; /* in force */
	int *sockets; /* passed by systemd, to serve on; they stay the caller's, and stay at a reload */
	size_t nr_sockets;
	struct store *store;
	sd_event_source *keep; /* a timer, armed while the store is behind */
	uint64_t keep_ns;      /* what that took the last time */
	struct lag lag;	       /* turns of the loop, in ns */
	uint64_t next_tick;   /* CLOCK_MONOTONIC ns */
	bool settled;	      /* all cgroups found at start have been opened */
	struct report report;
	struct said watching, unlisted, reading, cpus, mounting, keeping; /* … of the cgroup tree, CPUs and the store */
};

struct manager *manager_free(struct manager *manager)
{
	if (!manager)
		return NULL;
	web_free(manager->web);
	web_options_unref(manager->web_options);
	free(manager->sockets);
	sd_event_source_disable_unref(manager->tick);
	sd_event_source_disable_unref(manager->look);
	watch_free(manager->cgroups);
	sd_event_source_disable_unref(manager->admit);
	sd_event_source_disable_unref(manager->keep);
	watch_free(manager->mounts);
	monitor_free(manager->monitor);
	store_free(manager->store);
	report_release(&manager->report);
	said_release(&manager->watching);
	said_release(&manager->unlisted);
	said_release(&manager->reading);
	said_release(&manager->cpus);
	said_release(&manager->mounting);
	said_release(&manager->keeping);
	sd_event_unref(manager->loop);
	free(manager);
	return NULL;
}

/* --- what is said in the log and to systemd */

static void log_problems(const struct manager *manager)
{
	const struct machine *machine = manager->monitor->machine;

	for (size_t i = 0; i < machine->pmus->nr_problems; i++)
		log_warning("%s", machine->pmus->problems[i]);
	if (machine->cpus_problem.text[0])
		log_warning("%s", machine->cpus_problem.text);
	if (!machine->mount.path)
		log_warning("no cgroups: %s", machine->no_cgroups.text);
	if (machine->part_of_tree.text[0])
		log_warning("%s", machine->part_of_tree.text);
}

/* What has become of watching the tree. While it is read that is not known. */
static void say_tree_problem(struct manager *manager)
{
	const struct cgroup_tree *tree = manager->monitor->tree;
	const char *problem = tree ? cgroup_tree_problem(tree) : NULL;
	const char *unlisted = tree ? cgroup_tree_unlisted(tree) : NULL;

	/* Whichever the example is: others make cgroups, and must not fill the log. */
	if (unlisted && said_is_news(&manager->unlisted, "unlisted", count_now()))
		log_warning("%zu cgroups can't be followed and are not counted, for example %s",
			    cgroup_tree_stats(tree).unlisted, unlisted);
	if (problem)
		said_log(&manager->watching, LOG_WARNING, problem);
	else if (tree && !cgroup_tree_has_more(tree))
		said_over(&manager->watching, "all of the cgroup tree is watched again");
}

/* --- what outlives the daemon */

static void say_kept(struct manager *manager, int r)
{
	struct reason why;

	reason_set(&why, 0, "not all that is counted can be kept for the next start: %s", strerror(-r));
	if (r < 0)
		said_log(&manager->keeping, LOG_WARNING, why.text);
	else
		said_over(&manager->keeping, "all that is counted is kept for the next start again");
}

static void save(struct manager *manager)
{
	int r = store_save(manager->store, manager->monitor->count);

	if (r < 0)
		say_kept(manager, r);
}

static void keep(struct manager *manager)
{
	uint64_t start = count_now();

	say_kept(manager, store_keep(manager->store, manager->monitor->count));
	manager->keep_ns = count_now() - start;
}

/* Where something was opened or closed, the store hears of it soon. */
static void keep_soon(struct manager *manager)
{
	uint64_t delay = manager->keep_ns * KEEP_SHARE > KEEP_NS ? manager->keep_ns * KEEP_SHARE : KEEP_NS;
	int armed;

	if (!store_is_behind(manager->store, manager->monitor->count) ||
	    sd_event_source_get_enabled(manager->keep, &armed) < 0 || armed != SD_EVENT_OFF)
		return;
	if (sd_event_source_set_time_relative(manager->keep, delay / NS_PER_US) >= 0)
		(void)sd_event_source_set_enabled(manager->keep, SD_EVENT_ONESHOT);
}

static int on_keep(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	keep(userdata);
	keep_soon(userdata);
	return 0;
}

/* --- events of the loop */

/* In µs: how late a tick may come, so that the kernel can wake up for several timers at once. */
static uint64_t tick_accuracy(uint64_t interval)
{
	return interval / NS_PER_US / 20 + 1;
}

static void tick(struct manager *manager)
{
	monitor_tick(manager->monitor);
	save(manager);
	report_states(&manager->report, manager->monitor);
	keep_soon(manager);
}

static void settle(struct manager *manager)
{
	if (manager->settled || monitor_is_waiting(manager->monitor))
		return;
	manager->settled = true;
	tick(manager);
	if (!manager->report.idle)
		log_info("counting %s", manager->report.status ? manager->report.status : "");
}

static bool follow(struct manager *manager)
{
	struct reason why = {};
	bool more = monitor_follow_cgroups(manager->monitor, FOLLOW_NS, &why);

	if (why.text[0])
		said_log(&manager->reading, LOG_WARNING, why.text);
	return more;
}

static int on_admit(sd_event_source *source, void *userdata)
{
	struct manager *manager = userdata;
	bool behind = monitor_is_behind(manager->monitor) && follow(manager);

	bool waiting = monitor_admit(manager->monitor, ADMIT_NS);

	keep_soon(manager);
	if (waiting || behind)
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	settle(manager);
	return 0;
}

static void wake_admit(struct manager *manager)
{
	if (!manager->settled || monitor_is_waiting(manager->monitor) || monitor_is_behind(manager->monitor))
		(void)sd_event_source_set_enabled(manager->admit, SD_EVENT_ONESHOT);
}

static void on_cgroups(void *userdata)
{
	struct manager *manager = userdata;

	(void)follow(manager);
	wake_admit(manager);
	keep_soon(manager);
}

/* The tree's inotify fd on the loop, while there is a tree, and that does not wait for its mount. It is a copy, since a
 * tree that is dropped closes its own. */
static int follow_cgroups(struct manager *manager)
{
	const struct cgroup_tree *tree = manager->monitor->tree;
	bool suspended = monitor_is_suspended(manager->monitor);
	int r;

	if (!tree || manager->nr_trees != manager->monitor->nr_trees)
		manager->cgroups = watch_free(manager->cgroups);
	if (manager->cgroups)
		return watch_enable(manager->cgroups, !suspended);
	if (suspended || !tree || cgroup_tree_fd(tree) < 0)
		return 0;
	manager->nr_trees = manager->monitor->nr_trees;
	r = watch_new(&manager->cgroups, manager->loop, fcntl(cgroup_tree_fd(tree), F_DUPFD_CLOEXEC, 3), EPOLLIN,
		      PRIORITY_CGROUPS, on_cgroups, manager);
	return r == -EMFILE ? 0 : r; /* tried again at the next look */
}

static int follow_mounts(struct manager *manager, bool told)
{
	struct reason news;

	monitor_follow_mounts(manager->monitor, told, &news);
	if (news.text[0])
		said_log(&manager->mounting, manager->monitor->machine->mount.path ? LOG_NOTICE : LOG_WARNING,
			 news.text);
	keep_soon(manager);
	wake_admit(manager);
	return follow_cgroups(manager);
}

static int look_later(struct manager *manager)
{
	uint64_t delay = monitor_is_suspended(manager->monitor) ? LOOK_SOON_US : LOOK_US;
	int r = sd_event_source_set_time_relative(manager->look, delay);

	return r < 0 ? r : sd_event_source_set_enabled(manager->look, SD_EVENT_ONESHOT);
}

static void on_mounts(void *userdata)
{
	struct manager *manager = userdata;
	int r = follow_mounts(manager, true);

	if (r >= 0 && monitor_is_suspended(manager->monitor))
		r = look_later(manager);
	if (r < 0)
		log_warning("the cgroup tree can't be followed: %s", strerror(-r));
}

/* What nobody tells of is looked for: CPUs that have come or gone, an inotify fd that can be had by now. */
static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;
	struct reason news;
	int r;

	(void)source;
	(void)usec;
	monitor_follow_machine(manager->monitor, &news);
	if (news.text[0])
		said_log(&manager->cpus, LOG_NOTICE, news.text);
	say_tree_problem(manager);
	r = follow_mounts(manager, false);
	return r < 0 ? r : look_later(manager);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;
	uint64_t interval = manager->monitor->config->interval, now;
	int r;

	(void)usec;
	tick(manager);
	wake_admit(manager);

	/* On a fixed grid, so that intervals do not drift; what a stopped machine missed is skipped. */
	now = count_now();
	manager->next_tick += interval;
	if (manager->next_tick <= now)
		manager->next_tick = now + interval;
	r = sd_event_source_set_time(source, manager->next_tick / NS_PER_US);
	return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct manager *manager = userdata;
	struct reason why;

	(void)source;
	log_info("stopping on %s", strsignal((int)info->ssi_signo));
	(void)sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
	monitor_tick(manager->monitor);
	if (store_leave(manager->store, manager->monitor->count, &why) < 0)
		log_warning("%s", why.text);
	return sd_event_exit(manager->loop, 0);
}

/* --- HTTP */

/* The figures that are the manager's. */
static void describe_self(struct manager *manager)
{
	struct self *self = &manager->monitor->self;
	struct store_stats stats = store_stats(manager->store);

	self->loop_lag = lag_max(&manager->lag, count_now());
	self->saves = stats.saves;
	self->save_ns = stats.save_ns;
	self->saved_bytes = stats.image_bytes;
	self->kept_events = stats.kept;
}

static int source_snapshot(void *userdata, struct snapshot **ret)
{
	struct manager *manager = userdata;
	struct monitor *monitor = manager->monitor;
	/* Held, so that none that is new can stand in its place. */
	_cleanup_(snapshot_unrefp) struct snapshot *before = monitor->latest ? snapshot_ref(monitor->latest) : NULL;
	int r;

	describe_self(manager);
	r = monitor_snapshot(monitor, SCRAPE_MAX_AGE_NS, ret);
	/* What is shown is never lost. */
	if (monitor->latest != before) {
		save(manager);
		report_states(&manager->report, manager->monitor);
	}
	/* The tree may be due to be read again. */
	wake_admit(manager);
	return r;
}

static bool source_ready(void *userdata, struct reason *why)
{
	struct manager *manager = userdata;

	if (!manager->settled)
		reason_set(why, 0, "%zu cgroups are still to be opened",
			   manager->monitor->roster.nr_status[CGROUP_WAITING]);
	return manager->settled;
}

static void source_scraped(void *userdata, bool written)
{
	struct manager *manager = userdata;

	manager->monitor->self.scrapes++;
	manager->monitor->self.renderings += written;
}

static void say_addresses(const struct manager *manager)
{
	const char *url;

	for (size_t i = 0; (url = web_url(manager->web, i)); i++)
		log_info("listening on %s%s", url, manager->nr_sockets > 0 ? " (systemd's socket)" : "");
}

static int listen_on(struct manager *manager, const struct config *config, struct web_options *options,
		     struct reason *why)
{
	const struct web_source source = {
		.snapshot = source_snapshot,
		.ready = source_ready,
		.scraped = source_scraped,
		.about = &manager->monitor->about,
		.stats = &manager->monitor->self.web,
		.userdata = manager,
	};
	bool passed = manager->nr_sockets > 0;
	int r;

	if (passed)
		r = web_new_on(&manager->web, manager->loop, manager->sockets, manager->nr_sockets, &source, options,
			       why);
	else
		r = web_new(&manager->web, manager->loop, config->listen.items, config->listen.nr, &source, options,
			    why);
	if (r >= 0)
		say_addresses(manager);
	return r;
}

/* On the same addresses; connections that are open get their answers. */
static int serve_anew(struct manager *manager, struct web_options *options, struct reason *why)
{
	bool had_tls = manager->web_options->tls;
	int r = web_set_options(manager->web, options, why);

	if (r >= 0 && had_tls != !!options->tls)
		say_addresses(manager);
	return r;
}

/* Moves to the addresses of another config, or stays where it was. Where the two share an address, the old
 * listeners have to go before the new ones can be tried. */
static int listen_anew(struct manager *manager, const struct config *config, struct web_options *options,
		       struct reason *why)
{
	const struct config *old = manager->monitor->config;
	struct web *web = manager->web;
	struct reason lost;
	int r;

	if (web && (manager->nr_sockets > 0 || config_list_equal(&old->listen, &config->listen)))
		return serve_anew(manager, options, why);
	if (config_list_share(&old->listen, &config->listen))
		web = web_free(web);
	r = listen_on(manager, config, options, why);
	if (r >= 0) {
		web_free(web);
		return 0;
	}
	manager->web = web;
	if (!web && listen_on(manager, old, manager->web_options, &lost) < 0)
		log_error("HTTP is down until the next reload: %s", lost.text);
	return r;
}

/* --- reload */

static int set_interval(struct manager *manager)
{
	uint64_t interval = manager->monitor->config->interval;
	int r;

	manager->next_tick = count_now() + interval;
	r = sd_event_source_set_time_accuracy(manager->tick, tick_accuracy(interval));
	return r < 0 ? r : sd_event_source_set_time(manager->tick, manager->next_tick / NS_PER_US);
}

/* Everything that can be wrong with the new config is found out before anything is changed; what goes wrong
 * then is a warning in why. */
static int reload(struct manager *manager, struct reason *why)
{
	_cleanup_(config_freep) struct config *config = NULL;
	_cleanup_(reload_freep) struct reload *prepared = NULL;
	_cleanup_(web_options_unrefp) struct web_options *options = NULL;
	uint64_t interval = manager->monitor->config->interval;
	const struct config *next;
	int r = options_load_config(manager->options, &config, why);

	if (r >= 0)
		r = access_load(&options, config, manager->monitor->machine->privilege.fd_limit, why);
	if (r >= 0)
		r = monitor_prepare(manager->monitor, config, &prepared, why);
	if (r < 0)
		return r;
	next = steal_ptr(config);
	r = listen_anew(manager, next, options, why);
	if (r < 0)
		return r;
	web_options_unref(manager->web_options);
	manager->web_options = steal_ptr(options);
	monitor_commit(manager->monitor, steal_ptr(prepared), why);
	report_forget_states(&manager->report);

	r = interval == manager->monitor->config->interval ? 0 : set_interval(manager);
	if (r >= 0)
		r = follow_cgroups(manager);
	if (r < 0)
		reason_set(why, 0, "the event loop can't be changed: %s", strerror(-r));
	return 0;
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct manager *manager = userdata;
	struct reason why = {};

	(void)source;
	(void)info;
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reloading", count_now() / NS_PER_US);
	if (reload(manager, &why) < 0) {
		manager->monitor->self.reloads_failed++;
		log_error("not reloaded, the old config stays in force: %s", why.text);
	} else {
		manager->monitor->self.reloads++;
		log_info("reloaded");
		if (why.text[0])
			log_warning("%s", why.text);
		log_problems(manager);
		say_tree_problem(manager);
		keep(manager);
		wake_admit(manager);
	}
	report_forget_status(&manager->report);
	(void)sd_notify(0, "READY=1");
	report_states(&manager->report, manager->monitor);
	return 0;
}

/* --- start */

static int make_loop(struct manager *manager)
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
	return r;
}

static int add_sources(struct manager *manager)
{
	uint64_t interval = manager->monitor->config->interval;
	int r;

	manager->next_tick = count_now() + interval;
	r = sd_event_add_time(manager->loop, &manager->tick, CLOCK_MONOTONIC, manager->next_tick / NS_PER_US,
			      tick_accuracy(interval), on_tick, manager);
	if (r >= 0)
		r = sd_event_source_set_priority(manager->tick, PRIORITY_TICK);
	if (r >= 0)
		r = sd_event_add_time_relative(manager->loop, &manager->look, CLOCK_MONOTONIC, LOOK_US, LOOK_US / 4,
					       on_look, manager);
	if (r >= 0)
		r = sd_event_add_defer(manager->loop, &manager->admit, on_admit, manager);
	if (r >= 0)
		r = sd_event_source_set_priority(manager->admit, PRIORITY_CGROUPS);
	if (r >= 0)
		r = sd_event_add_time(manager->loop, &manager->keep, CLOCK_MONOTONIC, 0, 0, on_keep, manager);
	if (r >= 0)
		r = sd_event_source_set_enabled(manager->keep, SD_EVENT_OFF);
	/* Readable with priority after each change (proc(5)); without it, they are found when somebody looks. */
	if (r >= 0 && watch_new(&manager->mounts, manager->loop, open(OWN_MOUNTINFO, O_RDONLY | O_CLOEXEC), EPOLLPRI,
				PRIORITY_MOUNTS, on_mounts, manager) == -ENOMEM)
		r = -ENOMEM;
	return r < 0 ? r : follow_cgroups(manager);
}

/* STATE_DIRECTORY is systemd's, of StateDirectory= (systemd.exec(5)); it may name several. Where it is another
 * daemon's, this one does not start: without its totals it would look well, and lose them at each restart. */
static int make_store(struct manager *manager, struct reason *why)
{
	const char *folders = getenv("STATE_DIRECTORY");
	_cleanup_(freep) char *folder = folders && *folders ? strndup(folders, strcspn(folders, ":")) : NULL;

	int r;

	if (store_new(&manager->store, folder, getenv("NOTIFY_SOCKET")) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	r = store_claim(manager->store, why);
	if (r < 0 && r != -EBUSY)
		log_warning("%s", why->text);
	return r == -EBUSY ? r : 0;
}

/* The monitor, which goes on from what an instance before this one has left. The config is handed over where it
 * succeeds. */
static int make_monitor(struct manager *manager, struct config *config, struct inherited *inherited,
			struct reason *why)
{
	struct count *restored;
	struct reason news;
	bool bad;
	int r;

	r = make_store(manager, why);
	if (r < 0)
		return r;
	restored = store_restore(manager->store, inherited, access_fd_reserve(config, UINT64_MAX), &news, &bad);
	if (news.text[0])
		log_line(bad ? LOG_WARNING : LOG_NOTICE, "%s", news.text);
	r = monitor_new(&manager->monitor, config, restored, why);
	if (r < 0)
		count_free(restored);
	return r;
}

int manager_new(struct manager **ret, const struct options *options, struct config *config,
		struct inherited *inherited, struct reason *why)
{
	_cleanup_(manager_freep) struct manager *manager = calloc(1, sizeof(*manager));
	_cleanup_(config_freep) struct config *owned = config;
	int r;

	if (!manager)
		return reason_set(why, -ENOMEM, "out of memory");
	manager->options = options;
	manager->sockets = calloc(inherited->nr + 1, sizeof(*manager->sockets));
	if (!manager->sockets)
		return reason_set(why, -ENOMEM, "out of memory");
	manager->nr_sockets = inherited_listening(inherited, manager->sockets);

	r = make_loop(manager);
	if (r < 0)
		return reason_set(why, r, "the event loop can't be set up: %s", strerror(-r));
	r = make_monitor(manager, owned, inherited, why);
	if (r < 0)
		return r;
	owned = NULL;
	/* An address in use ends the start before anything is counted. */
	r = access_load(&manager->web_options, manager->monitor->config, manager->monitor->machine->privilege.fd_limit,
			why);
	if (r >= 0)
		r = listen_on(manager, manager->monitor->config, manager->web_options, why);
	if (r < 0)
		return r;
	r = monitor_start(manager->monitor, why);
	if (r < 0)
		return r;
	if (why->text[0])
		log_warning("%s", why->text);
	r = add_sources(manager);
	if (r < 0)
		return reason_set(why, r, "the event loop can't be set up: %s", strerror(-r));
	log_problems(manager);
	say_tree_problem(manager);
	r = store_begin(manager->store, manager->monitor->count);
	if (r < 0)
		log_warning("what was saved at the last stop can't be removed, and may come back: %s", strerror(-r));
	keep_soon(manager);
	*ret = steal_ptr(manager);
	return 0;
}

/* One turn: waits until something happens, and does one thing of it. */
static int turn(struct manager *manager)
{
	uint64_t start;
	int r = sd_event_prepare(manager->loop);

	if (r == 0)
		r = sd_event_wait(manager->loop, UINT64_MAX);
	if (r <= 0)
		return r;
	start = count_now();
	r = sd_event_dispatch(manager->loop);
	lag_note(&manager->lag, start, count_now() - start);
	return r;
}

int manager_run(struct manager *manager)
{
	int r = 0;

	(void)sd_notify(0, "READY=1");
	while (r >= 0 && sd_event_get_state(manager->loop) != SD_EVENT_FINISHED)
		r = turn(manager);
	if (r < 0)
		log_error("the event loop failed: %s", strerror(-r));
	return r;
}
