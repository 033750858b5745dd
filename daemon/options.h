/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The command line.
 */

#include "config/config.h"

enum command {
	COMMAND_RUN,
	COMMAND_CHECK,
	COMMAND_ONCE,
	COMMAND_LIST_EVENTS,
	COMMAND_SAVE_TRACEPOINTS,
	COMMAND_EXIT, /* --help and --version have said what there is to say */
};

enum format {
	FORMAT_PROMETHEUS,
	FORMAT_OPENMETRICS,
	FORMAT_JSON,
};

struct options {
	enum command command;
	const char *config_file; /* the default's name where none was given */
	bool config_given;
	char **listen; /* borrowed from argv */
	size_t nr_listen;
	enum format format;
	uint64_t duration; /* ns, of --once */
	const char *glob;  /* of --list-events, or NULL */
	const char *file;  /* of --save-tracepoints */
};

void options_release(struct options *options);

/* Parses, sets the log level, answers --help and --version. -EINVAL: said on standard error. */
int options_parse(struct options *ret, int argc, char **argv);

/* The config that the options ask for: files, then what stands on the command line. */
int options_load_config(const struct options *options, struct config **ret, struct reason *why);
