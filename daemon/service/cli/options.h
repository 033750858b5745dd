/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The command line: a command, and the config that it names.
 */

#include "base/config/config.h"

enum command {
	COMMAND_RUN,
	COMMAND_CHECK,
	COMMAND_ONCE,
	COMMAND_RECORD,
	COMMAND_LIST_EVENTS,
	COMMAND_PROFILER,	  /* for the keeper alone */
	COMMAND_MAKE_FRAME_TABLE, /* for the profiler alone */
	COMMAND_LIST_FUNCTIONS,	  /* for the profiler alone, too */
	COMMAND_SAVE_TRACEPOINTS,
	COMMAND_SAVE_KALLSYMS,
	COMMAND_SAVE_PROCESSES,
	COMMAND_DUMP_IMAGE,
	COMMAND_EXIT, /* --help and --version: done already */
};

enum format {
	FORMAT_PROMETHEUS,
	FORMAT_OPENMETRICS,
	FORMAT_JSON,
};

struct options {
	enum command command;
	const char *config_file; /* borrowed from argv, or the default */
	bool config_given;	 /* then it has to exist */
	char **listen;		 /* borrowed from argv */
	size_t nr_listen;
	enum format format;
	uint64_t duration;     /* ns, of --once and --record; 0: the default */
	const char *glob;      /* of --list-events, or NULL */
	const char *file;      /* of --record, --save-… and --dump-image, where it may be NULL */
	const char *log_level; /* borrowed from argv, or NULL */
};

void options_release(struct options *options);

/* Parses, sets the log level, prints --help and --version. -EINVAL with an error on standard error; -ENOMEM. */
int options_parse(struct options *ret, int argc, char **argv);

/* Loads the config's files, then applies --listen on top. Negative errno with the sentence in why. */
int options_load_config(struct config **ret, const struct options *options, struct reason *why);
