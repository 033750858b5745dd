/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The statistics of the daemon about itself: the values of perfmond_* (web/expose/self-metrics.c has a line for each
 * member) and of /api/v1/status. Counters start at 0 with the process.
 *
 * Three rooms fill it in: the web counts into struct web_stats; the service provides the longest loop iteration and the
 * members about saving, and counts scrapes and reloads; the world sets the rest when it makes a snapshot, which gets
 * a copy.
 */

#include "base/host/process-usage.h"

#include <stdbool.h>
#include <stdint.h>

/* A value that is not known: it is not shown. */
#define SELF_UNKNOWN USAGE_UNKNOWN

/* HTTP statuses with a counter of their own. */
enum self_http {
	SELF_HTTP_200,
	SELF_HTTP_400,
	SELF_HTTP_401,
	SELF_HTTP_404,
	SELF_HTTP_405,
	SELF_HTTP_413,
	SELF_HTTP_421,
	SELF_HTTP_429,
	SELF_HTTP_431,
	SELF_HTTP_503,
	SELF_HTTP_OTHER,
	_SELF_HTTP_MAX,
};

/* Filled in by the web. */
struct web_stats {
	uint64_t connections;		   /* open now */
	uint64_t unsent;		   /* bytes of responses that clients have not received yet */
	uint64_t requests[_SELF_HTTP_MAX]; /* by the status of the response */
	/* Connections refused, by reason. */
	uint64_t refused_address; /* their address had too many */
	uint64_t refused_full;	  /* all were in use, by addresses with no more of them than this one */
	uint64_t refused_failed;  /* no file or no memory was left */
	/* Connections closed by the daemon, by reason. */
	uint64_t dropped_request;     /* the request took too long */
	uint64_t dropped_answer;      /* the client took too long to receive the response */
	uint64_t dropped_idle;	      /* idle for too long, or evicted for another */
	uint64_t dropped_malformed;   /* the bytes received were no request */
	uint64_t dropped_certificate; /* the client's certificate is not trusted, or there was none */
};

/* Of continuous profiling, as the profiler tells them; all 0 where it is off. */
struct profile_stats {
	uint64_t up;	     /* 1: there is a profiler */
	uint64_t restarts;   /* times that another one was started */
	uint64_t memory;     /* bytes: its resident memory */
	uint64_t samples;    /* taken */
	uint64_t lost;	     /* samples that the kernel had no room for */
	uint64_t unfollowed; /* records about processes and cgroups that it had no room for */
	uint64_t unsampled;  /* periods that events have counted, and of which the kernel has made no sample */
	uint64_t throttled;  /* times that the kernel paused sampling on a CPU */
	uint64_t dropped;    /* samples that there was no memory for */
	uint64_t bytes;	     /* memory of the samples, with stacks and names */
	uint64_t ring_bytes; /* locked memory of the rings, which is not in the resident memory's bound */
	uint64_t gap_ns;     /* in which nothing was sampled, since events were opened anew or no profiler ran */
	uint64_t reach;	     /* ns: the age of the oldest sample */
	uint64_t cpu_ns;     /* CPU time of the profiler, and of its children that list functions or make tables */
	uint64_t answer_ns;  /* CPU time of working out answers and of saving captures */
	uint64_t processes;  /* whose mappings are known */
	uint64_t captures, capture_bytes, captures_dropped; /* in memory; that went for others, or for the config */
	/* Stacks by how they end: see perfmond_profile_stacks_total. */
	uint64_t stacks_frame_pointers, stacks_whole, stacks_cut, stacks_no_table, stacks_lost;
	uint64_t table_bytes;	/* memory of tables for unwinding */
	uint64_t waiting_bytes; /* memory of copies of stacks that wait for them */
	uint64_t list_bytes;	/* memory of lists of functions: of files, the kernel, and code made at run time */
};

struct self_stats {
	uint64_t start_time;  /* ns since the epoch */
	uint64_t uptime;      /* ns */
	uint64_t interval;    /* ns */
	uint64_t reads;	      /* times all groups were read */
	uint64_t read_ns;     /* wall-clock time spent reading */
	uint64_t read_errors; /* failed reads of one group */
	uint64_t backwards;   /* readings discarded because the kernel's values had decreased */
	/* Of crediting cgroups at switches, on all CPUs (struct switch_cost): */
	uint64_t switches, switch_ns, switches_hidden, switches_passed, switches_unplaced, credit_errors;
	/* Readings refused because they can't be true. */
	uint64_t lies_time, lies_cycles, lies_child, lies_still;
	uint64_t scrapes;    /* snapshots served */
	uint64_t renderings; /* snapshots written as text for that */
	uint64_t fds;	     /* open perf events */
	uint64_t fd_limit;   /* RLIMIT_NOFILE */
	uint64_t needed_fds; /* open files needed to count everything configured */
	/* Cgroups now, by state. */
	uint64_t cgroups_counted;
	uint64_t cgroups_lingering; /* removed, still exposed */
	uint64_t cgroups_excluded;  /* left out by the filters */
	uint64_t cgroups_over_max;  /* left out by [cgroup] max */
	uint64_t cgroups_over_fds;  /* left out by the limit of open files */
	uint64_t cgroups_failed;    /* cannot be opened */
	uint64_t cgroups_waiting;   /* about to be opened */
	uint64_t cgroups_unlisted;  /* not even in the tree: path too long, no permission, too many */
	/* Cgroups so far. */
	uint64_t cgroups_missed;     /* came and went without being counted */
	uint64_t cgroups_pushed_out; /* lingered for less than [cgroup] linger, because others needed the room */
	uint64_t watches;	     /* cgroup directories watched with inotify */
	uint64_t watches_missing;    /* cgroup directories without a watch */
	uint64_t inotify_overflows;  /* of the inotify queue */
	uint64_t rescans;	     /* times the whole cgroup tree was read again */
	uint64_t reloads;	     /* of the config */
	uint64_t reloads_failed;     /* rejected */
	uint64_t saves;		     /* images of all totals */
	uint64_t save_ns;	     /* time spent saving for the next start */
	uint64_t saved_bytes;	     /* size of the last image */
	uint64_t history_bytes;	     /* memory of the history */
	uint64_t history_targets;    /* in it: CPUs and cgroups, also those that are gone */
	uint64_t history_left_out;   /* not in it, for want of room */
	uint64_t kept_events;	     /* perf events in the fd store */
	uint64_t cpu_ns;	     /* user and system time of the process */
	uint64_t resident_bytes;     /* resident memory of the process */
	uint64_t virtual_bytes;	     /* its address space */
	uint64_t open_fds;	     /* all its open files; SELF_UNKNOWN: not known */
	uint64_t cpus;		     /* online and counted */
	uint64_t cpus_offline;	     /* counted before, now offline; their totals are kept */
	struct web_stats web;
	struct profile_stats profile;
	uint64_t loop_lag; /* ns: the longest event-loop iteration in the last minute, and … */
	uint64_t loop_cpu; /* … the largest CPU time of one */
};
