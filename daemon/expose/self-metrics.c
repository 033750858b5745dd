/* SPDX-License-Identifier: MIT */

#include "expose/self-metrics.h"

#define COUNTER(metric, member, text)                                                              \
	{                                                                                          \
		.family = { "perfmond_" metric, FAMILY_COUNTER, "", text },                        \
		.offset = offsetof(struct self, member),                                           \
	}
#define GAUGE(metric, member, text)                                                                \
	{                                                                                          \
		.family = { "perfmond_" metric, FAMILY_GAUGE, "", text },                          \
		.offset = offsetof(struct self, member),                                           \
	}
#define SECONDS(type, metric, member, text)                                                        \
	{                                                                                          \
		.family = { "perfmond_" metric "_seconds", type, "seconds", text },                \
		.offset = offsetof(struct self, member),                                           \
		.nanoseconds = true,                                                               \
	}
#define BYTES(metric, member, text)                                                                \
	{                                                                                          \
		.family = { "perfmond_" metric "_bytes", FAMILY_GAUGE, "bytes", text },            \
		.offset = offsetof(struct self, member),                                           \
	}
#define CGROUPS(state)                                                                             \
	{                                                                                          \
		.family = { "perfmond_cgroups", FAMILY_GAUGE, "", "Cgroups by what is done with them." }, \
		.offset = offsetof(struct self, cgroups_##state),                                  \
		.label = "state",                                                                  \
		.value = #state,                                                                   \
	}

#define HTTP_REQUESTS(code, index)                                                                 \
	{                                                                                          \
		.family = { "perfmond_http_requests", FAMILY_COUNTER, "", "HTTP requests by their answer's status." }, \
		.offset = offsetof(struct self, web.requests[index]),                              \
		.label = "code",                                                                   \
		.value = code,                                                                     \
	}
#define CONNECTIONS(what, member, text)                                                            \
	{                                                                                          \
		.family = { "perfmond_connections_" #what, FAMILY_COUNTER, "", text },              \
		.offset = offsetof(struct self, web.what##_##member),                              \
		.label = "reason",                                                                 \
		.value = #member,                                                                  \
	}
#define REFUSED(member) CONNECTIONS(refused, member, "Connections not taken.")
#define DROPPED(member) CONNECTIONS(dropped, member, "Connections that were ended, not by the client.")

const struct self_metric self_metrics[] = {
	SECONDS(FAMILY_GAUGE, "start_time", start_time, "When the daemon was started, in seconds since the epoch."),
	SECONDS(FAMILY_GAUGE, "interval", interval, "How often all counters are read ([daemon] interval)."),
	GAUGE("cpus", cpus, "CPUs that are counted."),
	GAUGE("cpus_offline", cpus_offline, "CPUs that were counted and are offline: their totals are kept."),
	SECONDS(FAMILY_GAUGE, "loop_lag", loop_lag,
		"The longest time within the last minute for which nothing else could be done: one turn of the loop."),

	COUNTER("reads", reads, "Readings of all counters."),
	SECONDS(FAMILY_COUNTER, "read", read_ns, "Time spent reading counters."),
	COUNTER("read_errors", read_errors, "Readings of one group on one CPU that failed."),
	COUNTER("readings_refused", backwards, "Readings not used, since the kernel's numbers had gone down."),
	COUNTER("scrapes", scrapes, "Expositions served."),
	COUNTER("renderings", renderings,
		"Expositions written: fewer than are served, where several clients ask for the same at the same time."),

	GAUGE("connections", web.connections, "HTTP connections that are open."),
	BYTES("unsent", web.unsent, "Answers that clients have not taken yet."),
	REFUSED(address),
	REFUSED(full),
	REFUSED(failed),
	DROPPED(request),
	DROPPED(answer),
	DROPPED(idle),
	DROPPED(malformed),
	HTTP_REQUESTS("200", SELF_HTTP_200),
	HTTP_REQUESTS("400", SELF_HTTP_400),
	HTTP_REQUESTS("401", SELF_HTTP_401),
	HTTP_REQUESTS("404", SELF_HTTP_404),
	HTTP_REQUESTS("405", SELF_HTTP_405),
	HTTP_REQUESTS("421", SELF_HTTP_421),
	HTTP_REQUESTS("429", SELF_HTTP_429),
	HTTP_REQUESTS("431", SELF_HTTP_431),
	HTTP_REQUESTS("503", SELF_HTTP_503),
	HTTP_REQUESTS("other", SELF_HTTP_OTHER),

	GAUGE("open_events", fds, "Perf events that are open, each of them a file descriptor."),
	GAUGE("needed_fds", needed_fds, "Open files that counting everything that is wanted would take."),
	GAUGE("max_fds", fd_limit, "Limit of open file descriptors (RLIMIT_NOFILE)."),

	CGROUPS(counted),
	CGROUPS(lingering),
	CGROUPS(excluded),
	CGROUPS(over_max),
	CGROUPS(over_fds),
	CGROUPS(failed),
	CGROUPS(waiting),
	CGROUPS(unlisted),
	COUNTER("cgroups_missed", cgroups_missed, "Wanted cgroups that came and went without having been counted."),
	COUNTER("cgroups_pushed_out", cgroups_pushed_out,
		"Removed cgroups not shown for as long as [cgroup] linger, since more than [cgroup] max of them were."),
	COUNTER("cgroup_rescans", rescans, "Times the whole cgroup tree was read again."),
	GAUGE("inotify_watches", watches, "Cgroup directories that are watched."),
	GAUGE("inotify_watches_missing", watches_missing,
	      "Cgroup directories that are not watched, for want of inotify watches."),
	COUNTER("inotify_overflows", inotify_overflows, "Times the inotify queue overflowed."),

	COUNTER("reloads", reloads, "Reloads of the config."),
	COUNTER("reload_failures", reloads_failed, "Reloads refused: the config before stayed in force."),

	COUNTER("saves", saves, "Times all totals were saved for the next start."),
	SECONDS(FAMILY_COUNTER, "save", save_ns, "Time spent on what is kept for the next start."),
	BYTES("saved", saved_bytes, "Size of what is saved for the next start."),
	GAUGE("kept_events", kept_events, "Perf events in systemd's fd store, that go on counting without the daemon."),

	SECONDS(FAMILY_COUNTER, "cpu", cpu_ns, "CPU time the daemon has used, user and system."),
	BYTES("resident_memory", resident_bytes, "Memory of the daemon that is resident."),
};
const size_t self_metrics_size = ARRAY_SIZE(self_metrics);
