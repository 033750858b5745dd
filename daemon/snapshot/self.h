/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the daemon says about itself: the figures behind perfmond_* and /api/v1/status. The manager fills
 * the struct in; expose has a table that names each member.
 */

#include <stdint.h>

/* Answers by their status. */
enum self_http {
	SELF_HTTP_200,
	SELF_HTTP_400,
	SELF_HTTP_401,
	SELF_HTTP_404,
	SELF_HTTP_405,
	SELF_HTTP_421,
	SELF_HTTP_429,
	SELF_HTTP_431,
	SELF_HTTP_503,
	SELF_HTTP_OTHER,
	_SELF_HTTP_MAX,
};

/* Of the web, which writes them itself. */
struct self_web {
	uint64_t connections;		 /* open now */
	uint64_t unsent;		 /* bytes of answers that clients have not taken yet */
	uint64_t requests[_SELF_HTTP_MAX];
	uint64_t refused_address;	 /* connections: their address had too many */
	uint64_t refused_full;		 /* … all were taken, by addresses that have no more than this one */
	uint64_t refused_failed;	 /* … there was no file or no memory for them */
	uint64_t dropped_request;	 /* connections: the request took too long */
	uint64_t dropped_answer;	 /* … the answer was not taken in time */
	uint64_t dropped_idle;		 /* … nothing was asked for long, or another needed the place */
	uint64_t dropped_malformed;	 /* … what came was no request */
};

struct self {
	uint64_t start_time;	      /* ns since the epoch */
	uint64_t uptime;	      /* ns */
	uint64_t interval;	      /* ns */
	uint64_t reads;		      /* times all groups were read */
	uint64_t read_ns;	      /* spent in it, wall clock */
	uint64_t read_errors;	      /* group reads that failed */
	uint64_t backwards;	      /* readings refused since the kernel's numbers went down */
	uint64_t scrapes;	      /* expositions served */
	uint64_t renderings;	      /* expositions written for that */
	uint64_t fds, fd_limit;	      /* perf events open; RLIMIT_NOFILE */
	uint64_t needed_fds;	      /* open files that counting everything wanted would take */
	uint64_t cgroups_counted;     /* now */
	uint64_t cgroups_lingering;   /* removed, still exposed */
	uint64_t cgroups_excluded;    /* left out: by the filters */
	uint64_t cgroups_over_max;    /* … by [cgroup] max */
	uint64_t cgroups_over_fds;    /* … by the limit of open files */
	uint64_t cgroups_failed;      /* … since they can't be opened */
	uint64_t cgroups_waiting;     /* about to be opened */
	uint64_t cgroups_unlisted;    /* wanted, and not even in the tree: path too long, no permission, too many */
	uint64_t cgroups_missed;      /* gone without ever having been counted */
	uint64_t cgroups_pushed_out;  /* did not linger to the end, since others needed the room */
	uint64_t watches, watches_missing, inotify_overflows, rescans;
	uint64_t reloads, reloads_failed;
	uint64_t saves, save_ns;      /* images of all that is counted; ns spent on what is kept for the next start */
	uint64_t saved_bytes;	      /* of the last image */
	uint64_t kept_events;	      /* perf events in the fd store */
	uint64_t cpu_ns;	      /* user and system time of the process */
	uint64_t resident_bytes;
	uint64_t cpus;		      /* online and counted */
	uint64_t cpus_offline;	      /* not any more, and their totals are kept */
	struct self_web web;
	uint64_t loop_lag;	      /* ns: the longest turn of the loop within the last minute */
};
