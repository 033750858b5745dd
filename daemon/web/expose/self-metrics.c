/* SPDX-License-Identifier: MIT */

#include "web/expose/self-metrics.h"

#include "counting/snapshot/self-stats.h"

#define COUNTER(metric, member, text)                                                                                  \
	{                                                                                                              \
		.family = { "perfmond_" metric, FAMILY_COUNTER, "", text },                                            \
		.offset = offsetof(struct self_stats, member),                                                         \
	}
#define GAUGE(metric, member, text)                                                                                    \
	{                                                                                                              \
		.family = { "perfmond_" metric, FAMILY_GAUGE, "", text },                                              \
		.offset = offsetof(struct self_stats, member),                                                         \
	}
#define SECONDS(type, metric, member, text)                                                                            \
	{                                                                                                              \
		.family = { "perfmond_" metric "_seconds", type, "seconds", text },                                    \
		.offset = offsetof(struct self_stats, member), .nanoseconds = true,                                    \
	}
#define BYTES(metric, member, text)                                                                                    \
	{                                                                                                              \
		.family = { "perfmond_" metric "_bytes", FAMILY_GAUGE, "bytes", text },                                \
		.offset = offsetof(struct self_stats, member),                                                         \
	}
/* As Prometheus's client libraries name them, for dashboards and alerts that are made for any of their programs. */
#define PROCESS(metric, unit, member, text)                                                                            \
	{                                                                                                              \
		.family = { "process_" metric, FAMILY_GAUGE, unit, text },                                             \
		.offset = offsetof(struct self_stats, member),                                                         \
	}
#define PROCESS_SECONDS(type, metric, member, text)                                                                    \
	{                                                                                                              \
		.family = { "process_" metric "_seconds", type, "seconds", text },                                     \
		.offset = offsetof(struct self_stats, member), .nanoseconds = true,                                    \
	}
#define CGROUPS(state)                                                                                                 \
	{                                                                                                              \
		.family = { "perfmond_cgroups", FAMILY_GAUGE, "",                                                      \
			    "Cgroups by whether they are counted, or why not." },                                      \
		.offset = offsetof(struct self_stats, cgroups_##state), .label = "state", .value = #state,             \
	}

#define PMU_LIES(what)                                                                                                 \
	{                                                                                                              \
		.family = { "perfmond_pmu_lies", FAMILY_COUNTER, "",                                                   \
			    "Readings refused because they cannot be true." },                                         \
		.offset = offsetof(struct self_stats, lies_##what), .label = "kind", .value = #what,                   \
	}

#define HTTP_REQUESTS(code, index)                                                                                     \
	{                                                                                                              \
		.family = { "perfmond_http_requests", FAMILY_COUNTER, "",                                              \
			    "HTTP requests by the status of the response." },                                          \
		.offset = offsetof(struct self_stats, web.requests[index]), .label = "code", .value = code,            \
	}
#define CONNECTIONS(what, member, text)                                                                                \
	{                                                                                                              \
		.family = { "perfmond_connections_" #what, FAMILY_COUNTER, "", text },                                 \
		.offset = offsetof(struct self_stats, web.what##_##member), .label = "reason", .value = #member,       \
	}
#define STACKS(end)                                                                                                    \
	{                                                                                                              \
		.family = { "perfmond_profile_stacks", FAMILY_COUNTER, "", "Stacks of samples by where they end." },   \
		.offset = offsetof(struct self_stats, profile.stacks_##end), .label = "end", .value = #end,            \
	}
#define REFUSED(member) CONNECTIONS(refused, member, "Connections refused.")
#define DROPPED(member) CONNECTIONS(dropped, member, "Connections cut off by the daemon.")

const struct self_metric self_metrics[] = {
	SECONDS(FAMILY_GAUGE, "start_time", start_time, "Start time of the daemon, in seconds since the epoch."),
	SECONDS(FAMILY_GAUGE, "interval", interval, "Interval at which all counters are read ([daemon] interval)."),
	GAUGE("cpus", cpus, "CPUs that are online and counted."),
	GAUGE("cpus_offline", cpus_offline, "CPUs that were counted and are now offline; their totals are kept."),
	SECONDS(FAMILY_GAUGE, "loop_lag", loop_lag, "Longest event-loop iteration in the last minute."),
	SECONDS(FAMILY_GAUGE, "loop_cpu", loop_cpu, "Largest CPU time of an event-loop iteration in the last minute."),

	COUNTER("reads", reads, "Times that all counters were read."),
	SECONDS(FAMILY_COUNTER, "read", read_ns, "Time spent reading counters."),
	COUNTER("read_errors", read_errors, "Failed reads of one group on one CPU."),
	COUNTER("readings_refused", backwards, "Readings discarded because the kernel's values had decreased."),
	COUNTER("hidden_switches", switches_hidden,
		"Switches that the kernel's tracing did not show: what the hidden task had counted went to the next "
		"cgroup."),
	COUNTER("missed_switches", switches_passed,
		"Switches and moves that came while counts were being credited on that CPU."),
	COUNTER("cgroups_unplaced", switches_unplaced,
		"Times that a cgroup came to run while there was no place for its counts, which went to an ancestor."),
	COUNTER("credit_errors", credit_errors,
		"Events by which all cgroups together had other counts than their CPU: it is 0, or perfmond is wrong."),
	PMU_LIES(time),
	PMU_LIES(cycles),
	PMU_LIES(child),
	PMU_LIES(still),
	COUNTER("scrapes", scrapes, "Snapshots served, in any format."),
	COUNTER("renderings", renderings,
		"Snapshots written as text: fewer than perfmond_scrapes_total where several clients ask at the same "
		"time."),

	GAUGE("connections", web.connections, "Open HTTP connections."),
	BYTES("unsent", web.unsent, "Responses that clients have not received yet."),
	REFUSED(address),
	REFUSED(full),
	REFUSED(failed),
	DROPPED(request),
	DROPPED(answer),
	DROPPED(idle),
	DROPPED(malformed),
	DROPPED(certificate),
	HTTP_REQUESTS("200", SELF_HTTP_200),
	HTTP_REQUESTS("400", SELF_HTTP_400),
	HTTP_REQUESTS("401", SELF_HTTP_401),
	HTTP_REQUESTS("404", SELF_HTTP_404),
	HTTP_REQUESTS("405", SELF_HTTP_405),
	HTTP_REQUESTS("413", SELF_HTTP_413),
	HTTP_REQUESTS("421", SELF_HTTP_421),
	HTTP_REQUESTS("429", SELF_HTTP_429),
	HTTP_REQUESTS("431", SELF_HTTP_431),
	HTTP_REQUESTS("503", SELF_HTTP_503),
	HTTP_REQUESTS("other", SELF_HTTP_OTHER),

	GAUGE("open_events", fds, "Perf events open for counting, each a file descriptor; profiles have others."),
	GAUGE("needed_fds", needed_fds, "Open files needed to count everything configured."),
	GAUGE("max_fds", fd_limit, "Limit of open file descriptors (RLIMIT_NOFILE)."),

	CGROUPS(counted),
	CGROUPS(lingering),
	CGROUPS(excluded),
	CGROUPS(over_max),
	CGROUPS(over_fds),
	CGROUPS(failed),
	CGROUPS(waiting),
	CGROUPS(unlisted),
	COUNTER("cgroups_missed", cgroups_missed,
		"Cgroups that the filters admit that came and went without being counted."),
	COUNTER("cgroups_pushed_out", cgroups_pushed_out,
		"Removed cgroups shown for less than [cgroup] linger, because more than [cgroup] max lingered."),
	COUNTER("cgroup_rescans", rescans, "Times the whole cgroup tree was read again."),
	GAUGE("inotify_watches", watches, "Cgroup directories watched for changes."),
	GAUGE("inotify_watches_missing", watches_missing,
	      "Cgroup directories without a watch; the log gives the reason."),
	COUNTER("inotify_overflows", inotify_overflows, "Times the inotify queue overflowed."),

	COUNTER("reloads", reloads, "Reloads of the config."),
	COUNTER("reload_failures", reloads_failed, "Rejected reloads; the previous config stayed in force."),

	COUNTER("saves", saves, "Times that all totals were saved for the next start."),
	SECONDS(FAMILY_COUNTER, "save", save_ns, "Time spent saving for the next start."),
	BYTES("saved", saved_bytes, "Size of the last save for the next start."),
	BYTES("history", history_bytes, "Memory of the history ([daemon] history_memory)."),
	GAUGE("history_targets", history_targets, "CPUs and cgroups in the history, also those that are gone."),
	GAUGE("history_left_out", history_left_out,
	      "CPUs and cgroups that the history has no room for ([daemon] history_memory)."),
	GAUGE("kept_events", kept_events,
	      "Perf events in systemd's fd store, which go on counting without the daemon."),

	GAUGE("profiler_up", profile.up, "1: there is a process that takes samples."),
	COUNTER("profiler_restarts", profile.restarts, "Times that the process that takes samples was started again."),
	BYTES("profiler_memory", profile.memory, "Resident memory of the process that takes samples."),
	COUNTER("profile_samples", profile.samples, "Samples taken for profiles."),
	COUNTER("profile_lost", profile.lost,
		"Samples that the kernel had no room for in a ring buffer, or that made no sense."),
	COUNTER("profile_unfollowed", profile.unfollowed,
		"Records about commands, mappings and cgroups that the kernel had no room for: samples may lack "
		"names."),
	COUNTER("profile_unsampled", profile.unsampled,
		"Periods that sampled events have counted and that the kernel made no sample of."),
	COUNTER("profile_throttled", profile.throttled, "Times that the kernel paused sampling on a CPU."),
	COUNTER("profile_dropped", profile.dropped, "Samples that there was no memory for."),
	BYTES("profile", profile.bytes, "Memory of the samples, with their stacks and names ([profiles] memory)."),
	BYTES("profile_ring", profile.ring_bytes, "Memory of the ring buffers."),
	SECONDS(FAMILY_COUNTER, "profile_gap", profile.gap_ns,
		"Time in which nothing was sampled, since events were opened anew or no daemon ran: at reloads, when "
		"CPUs come or go, and over a restart."),
	SECONDS(FAMILY_GAUGE, "profile_reach", profile.reach, "Age of the oldest sample in memory."),
	SECONDS(FAMILY_COUNTER, "profile_cpu", profile.cpu_ns,
		"CPU time of the process that takes samples, and of its children that list functions (also those in "
		"files of JIT compilers) and make tables for unwinding, without the kernel's at each sample."),
	SECONDS(FAMILY_COUNTER, "profile_answer", profile.answer_ns,
		"CPU time of the children that work out answers about profiles and save captures."),
	STACKS(whole),
	STACKS(cut),
	STACKS(no_table),
	STACKS(lost),
	STACKS(frame_pointers),
	BYTES("profile_table", profile.table_bytes, "Memory of tables for unwinding ([profiles] tables)."),
	BYTES("profile_waiting", profile.waiting_bytes, "Memory of copies of stacks that wait for such a table."),
	BYTES("profile_list", profile.list_bytes,
	      "Memory of lists of functions: of files, of the kernel, and of code that is made at run time."),
	GAUGE("profile_processes", profile.processes, "Processes whose commands and mappings are known."),
	GAUGE("captures_kept", profile.captures, "Captures in memory, also those that run."),
	BYTES("captures", profile.capture_bytes,
	      "Memory of captures ([profiles] capture_memory); those that run count as the most that they may take."),
	COUNTER("captures_dropped", profile.captures_dropped,
		"Captures that made room for others, of which a rule keeps fewer now, or that were lost with the "
		"profiler."),

	SECONDS(FAMILY_COUNTER, "cpu", cpu_ns, "CPU time used by the daemon, user and system."),
	BYTES("resident_memory", resident_bytes, "Resident memory of the daemon."),

	PROCESS_SECONDS(FAMILY_COUNTER, "cpu", cpu_ns, "Total user and system CPU time spent in seconds."),
	PROCESS_SECONDS(FAMILY_GAUGE, "start_time", start_time,
			"Start time of the process since unix epoch in seconds."),
	PROCESS("resident_memory_bytes", "bytes", resident_bytes, "Resident memory size in bytes."),
	PROCESS("virtual_memory_bytes", "bytes", virtual_bytes, "Virtual memory size in bytes."),
	PROCESS("open_fds", "", open_fds, "Number of open file descriptors."),
	PROCESS("max_fds", "", fd_limit, "Maximum number of open file descriptors."),
};
const size_t self_metrics_size = ARRAY_SIZE(self_metrics);
