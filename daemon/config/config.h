/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The configuration: INI files read with libinih into one struct, by one const table of sections and
 * keys. It knows the shape of each value (a duration, a list, a number in a range), not what a key
 * does: event texts stay texts, with the place they were written at.
 *
 * Files are read in order, later ones on top: a plain key takes the last value; a list (listen, groups,
 * include, exclude) adds to what was given before, and an empty value empties it (as in systemd's
 * files). Defaults are those of conf/perfmond.conf and stand for whatever no file sets; a list's
 * default is replaced by the first value given. A [group "NAME"] that is given again is one group whose
 * keys are replaced.
 *
 * Comments begin with # or ;, at the start of a line or after a space, even one in quotes. A list, and
 * events, may go on in indented lines; an indented line that begins with a key of its section is that key.
 *
 * Any list may end up empty, where a file has emptied it.
 */

#include "util/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a value was written; file is "built-in defaults" or "command line" where it was no file. */
struct config_place {
	char *file;
	unsigned line;
};

/* A plain text; "" is none. */
struct config_text {
	char *text;
	struct config_place place;
};

struct config_list {
	char **items;
	struct config_place *places;
	size_t nr;
	bool is_default; /* the built-in default, which the first value given replaces */
};

struct config_group {
	char *name;
	char *events; /* as written, all on one line */
	bool alone;
	bool split;
	struct config_place place;	  /* of the section */
	struct config_place events_place; /* of `events =` */
};

struct config {
	/* [daemon] */
	uint64_t interval; /* ns; 10ms to 1h */
	struct config_text procfs, sysfs; /* the folders where they are mounted: absolute paths */

	/* [web] */
	struct config_list listen; /* ADDR:PORT, [V6]:PORT or /path */
	bool created, peaks;	   /* series of when counters began, and of the highest rates */
	/* Files: a path, or the name of one of systemd's credentials. */
	struct config_text tls_certificate, tls_key, users;
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
	struct config_text cgroup_mount; /* an absolute path; "": the mount is looked for */
	uint64_t cgroup_max;
	bool cgroup_per_cpu;
	uint64_t linger; /* ns */

	/* [group "…"] */
	struct config_group *groups;
	size_t nr_groups;
};

/* The built-in defaults alone. -ENOMEM. */
int config_new(struct config **ret);
struct config *config_free(struct config *config);
DEFINE_CLEANUP(struct config *, config_free)

/*
 * Reads file (one that does not exist is an error where must_exist, else as good as empty), and then every
 * *.conf in the folder perfmond.conf.d beside it, in name order (plain files only; the folder need not
 * exist), and checks the whole. *ret is untouched on failure: -EINVAL for what is wrong in a file, with
 * "FILE:LINE: …" in why; -errno where a file can't be read, with its name.
 */
int config_load(struct config **ret, const char *file, bool must_exist, struct reason *why);

/* Reads one text as if it were a file called name, on top of config (which is left as it was on
 * failure): what config_load() does for each file, and what is fuzzed. The first error ends it. */
int config_parse(struct config *config, const char *name, const char *text, size_t size, struct reason *why);

/* What can be told only when everything is read: that each group named in a list exists, that each
 * group has events, and that a certificate has its key. -EINVAL with the place in why. config_load() has done it. */
int config_check(const struct config *config, struct reason *why);

/* Replaces [web] listen, as --listen does. -EINVAL where one is no address (config_check_listen() says
 * why), -ENOMEM; config is left as it was then. */
int config_set_listen(struct config *config, char *const *listen, size_t nr);

/* Is it ADDR:PORT, [V6]:PORT with a numeric address, or the path of a Unix socket? -EINVAL with the sentence
 * in why. */
int config_check_listen(const char *text, struct reason *why);

/* The group of that name, or NULL. */
const struct config_group *config_find_group(const struct config *config, const char *name);
