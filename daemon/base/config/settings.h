/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All settings of the daemon, as one struct. A value is in the unit that the member's comment names, and within the
 * bounds of its key (keys.h); event texts stay texts, with the place where they were written.
 *
 * A new key of the configuration is a member here (a text or a list also in the tables of settings.c), a row in keys.c,
 * and its default in config.c.
 */

#include "base/config/list.h"
#include "base/util/cleanup.h"

#include <stdint.h>

struct config_group {
	char *name;
	struct config_place place; /* of the section */
	char *events;		   /* as written, all on one line */
	bool alone;
	bool split;
	struct config_place events_place; /* of `events =` */
};

/* What is sampled beside cpu-clock. */
struct config_profile {
	char *name;
	struct config_place place; /* of the section */
	struct config_text event;
	uint64_t rate;	      /* Hz, or 0: … */
	uint64_t period;      /* … events from one sample to the next */
	uint64_t stack_bytes; /* of the stack that each sample copies */
};

/* Of a record of 64 KiB, what its other fields leave. */
#define CONFIG_MAX_STACK_BYTES (62 * 1024)

/* What a profile is kept of, and when. */
struct config_capture {
	char *name;
	struct config_place place; /* of the section */
	struct config_text when;   /* a rule (capture-rule.h) */
	uint64_t before, after;	   /* ns */
	struct config_text event;  /* "": cpu-clock; or the name of a [profile "NAME"] */
	uint64_t rate;		   /* Hz while `after` runs; 0: the event's own */
	uint64_t every;		   /* ns from one to the next, at least */
	uint64_t keep;
	bool save;
};

/* Each is looked at after each reading. */
#define CONFIG_MAX_CAPTURES 32

/* How cgroups are counted. */
enum config_engine {
	CONFIG_ENGINE_AUTO, /* by crediting where that can be, or else by perf events */
	CONFIG_ENGINE_BPF,  /* the same, and it is a problem where it can't be */
	CONFIG_ENGINE_PERF,
};

struct config {
	/* [daemon] */
	uint64_t interval;		  /* ns; 10ms to 1h */
	uint64_t switch_budget;		  /* parts in a million of a CPU's time; 100 to a million */
	uint64_t history_memory;	  /* bytes; 0: no history */
	struct config_text procfs, sysfs; /* the folders where they are mounted: absolute paths */

	/* [web] */
	struct config_list listen; /* ADDR:PORT, [V6]:PORT or /path */
	bool created, peaks;	   /* series with the time a counter began, and with the highest rates */
	/* Files: a path, or the name of one of systemd's credentials. */
	struct config_text tls_certificate, tls_key, tls_client_ca, tls_client_crl, users;
	struct config_list tls_client_names; /* globs on subject alternative names; none: any name */
	bool tls_client_required;	     /* with tls_client_ca: a client without a certificate is refused */
	struct config_text web_config;	     /* a file of exporter-toolkit's, in place of all of these */
	struct config_text cors_origin;
	uint64_t max_connections, max_connections_per_address;
	uint64_t max_header_bytes, max_unsent_bytes;
	uint64_t request_timeout, answer_timeout, idle_timeout; /* ns */

	/* [cpu] */
	struct config_list cpu_groups; /* names of groups, each once */
	bool cpu_aggregate;
	struct config_list cpu_exclude; /* lists of CPUs ("1,3-5"), "isolated", "nohz_full" */

	/* [cgroup] */
	struct config_list cgroup_groups;
	struct config_list include, exclude;
	struct config_list container_files; /* folders: absolute paths */
	struct config_text cgroup_mount;    /* an absolute path; "": found in mountinfo */
	uint64_t cgroup_engine;		    /* enum config_engine */
	uint64_t cgroup_max;
	bool cgroup_per_cpu;
	uint64_t linger; /* ns */

	/* [profiles] */
	bool profiles_enabled;
	uint64_t profiles_rate; /* Hz */
	uint64_t profiles_memory, capture_memory;
	uint64_t profiles_stack_bytes; /* of the stack that each sample of cpu-clock copies; 0: none */
	uint64_t profiles_tables;      /* bytes of all tables for unwinding */
	bool profiles_jit;	       /* names of code that programs make at run time, as they tell them */
	struct config_list profiles_include, profiles_exclude;

	/* [group "…"] */
	struct config_group *groups;
	size_t nr_groups;

	/* [profile "…"] */
	struct config_profile *profiles;
	size_t nr_profiles;

	/* [capture "…"] */
	struct config_capture *captures;
	size_t nr_captures;
};

/* Takes NULL; returns NULL. */
/* As if no profiles were asked for. */
void config_disable_profiles(struct config *config);
struct config *config_free(struct config *config);
DEFINE_CLEANUP(struct config *, config_free)

/* The same for a struct that is not on the heap. */
void config_release(struct config *config);
/* -ENOMEM. */
int config_copy(struct config *ret, const struct config *config);

/* The group of that name, or NULL. */
const struct config_group *config_find_group(const struct config *config, const char *name);

/* The group whose name is the first n bytes, added without events if there is none; its place is set. *ret is valid
 * until the next group is added. -ENOMEM; -E2BIG beyond CONFIG_MAX_ENTRIES. */
int config_add_group(struct config *config, const char *name, size_t n, const struct config_place *place,
		     struct config_group **ret);
/* The same for a profile, which is added without event, rate and period. */
int config_add_profile(struct config *config, const char *name, size_t n, const struct config_place *place,
		       struct config_profile **ret);
/* The same for a capture, which is added with the defaults of its keys, and without `when`; -E2BIG beyond
 * CONFIG_MAX_CAPTURES. */
int config_add_capture(struct config *config, const char *name, size_t n, const struct config_place *place,
		       struct config_capture **ret);
