/* SPDX-License-Identifier: MIT */

#include "service/cli/options.h"

#include "base/util/log.h"
#include "base/util/text.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#define DEFAULT_CONFIG SYSCONFDIR "/perfmond/perfmond.conf"

/* ns: what the history keeps. */
#define RECORD_MAX (3600 * (uint64_t)1000000000)

enum {
	OPTION_LISTEN = 256,
	OPTION_CHECK,
	OPTION_ONCE,
	OPTION_RECORD,
	OPTION_DURATION,
	OPTION_LIST_EVENTS,
	OPTION_SAVE_TRACEPOINTS,
	OPTION_SAVE_KALLSYMS,
	OPTION_SAVE_PROCESSES,
	OPTION_DUMP_IMAGE,
	OPTION_PROFILER,
	OPTION_MAKE_FRAME_TABLE,
	OPTION_LIST_FUNCTIONS,
	OPTION_LOG_LEVEL,
	OPTION_VERSION,
};

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "listen", required_argument, NULL, OPTION_LISTEN },
	{ "check", no_argument, NULL, OPTION_CHECK },
	{ "once", optional_argument, NULL, OPTION_ONCE },
	{ "record", required_argument, NULL, OPTION_RECORD },
	{ "duration", required_argument, NULL, OPTION_DURATION },
	{ "list-events", optional_argument, NULL, OPTION_LIST_EVENTS },
	{ "save-tracepoints", required_argument, NULL, OPTION_SAVE_TRACEPOINTS },
	{ "save-kallsyms", required_argument, NULL, OPTION_SAVE_KALLSYMS },
	{ "save-processes", required_argument, NULL, OPTION_SAVE_PROCESSES },
	{ "dump-image", optional_argument, NULL, OPTION_DUMP_IMAGE },
	{ "profiler", no_argument, NULL, OPTION_PROFILER },
	{ "make-frame-table", no_argument, NULL, OPTION_MAKE_FRAME_TABLE },
	{ "list-functions", no_argument, NULL, OPTION_LIST_FUNCTIONS },
	{ "log-level", required_argument, NULL, OPTION_LOG_LEVEL },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{},
};

static void print_help(void)
{
	printf("Usage: perfmond [OPTION]...\n"
	       "Counts performance events per CPU and per cgroup, and serves them over HTTP.\n"
	       "\n"
	       "  -c, --config=FILE       read FILE, then perfmond.conf.d/*.conf beside it\n"
	       "                          (default: %s, if it exists)\n"
	       "      --listen=ADDR:PORT  listen on this address instead of those of [web] listen;\n"
	       "                          may be given again; port 0 takes a free one\n"
	       "      --check             print which events and cgroups can be counted here, and why\n"
	       "                          others can't; exit status 1: the config is wrong,\n"
	       "                          2: something configured can't be counted\n"
	       "      --once[=FORMAT]     count for a while, print the result as prometheus (default),\n"
	       "                          openmetrics or json, and exit\n"
	       "      --record=FILE       count for a while, and write each second to FILE: OpenMetrics\n"
	       "                          with timestamps, for promtool tsdb create-blocks-from\n"
	       "      --duration=TIME     how long --once counts (default: 1s), and --record (1min; at\n"
	       "                          most 1h: by seconds for the last minute, by 15 s before)\n"
	       "      --list-events[=GLOB]  list the events this machine can count\n"
	       "      --save-tracepoints=FILE  write a list of the tracepoints to FILE; a perfmond that\n"
	       "                          may not read tracefs uses the list that it finds as\n"
	       "                          $RUNTIME_DIRECTORY/tracepoints; needs root\n"
	       "      --save-kallsyms=FILE  the same for the kernel's functions, which profiles name by\n"
	       "                          $RUNTIME_DIRECTORY/kallsyms\n"
	       "      --save-processes=FILE  the same for the processes that run, and their mappings,\n"
	       "                          which profiles find in $RUNTIME_DIRECTORY/processes\n"
	       "      --dump-image[=FILE]  print what a stopped perfmond has saved, or another image in FILE,\n"
	       "                          as JSON\n"
	       "      --log-level=LEVEL   err, warning, notice, info (default) or debug\n"
	       "      --version           print the version\n"
	       "  -h, --help              print this\n",
	       DEFAULT_CONFIG);
}

static int reject_value(const char *option, const char *value, const char *wanted)
{
	log_error("--%s=%s: %s", option, value, wanted);
	return -EINVAL;
}

static int parse_format(struct options *options, const char *text)
{
	static const char *const formats[] = {
		[FORMAT_PROMETHEUS] = "prometheus",
		[FORMAT_OPENMETRICS] = "openmetrics",
		[FORMAT_JSON] = "json",
	};

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (strcmp(text ? text : "prometheus", formats[i]) == 0) {
			options->format = (enum format)i;
			return 0;
		}
	return reject_value("once", text, "the formats are prometheus, openmetrics and json");
}

/* Of a command with a file, which --dump-image may lack. */
static int apply_file(struct options *options, int option)
{
	static const enum command commands[] = {
		[OPTION_RECORD] = COMMAND_RECORD,
		[OPTION_SAVE_TRACEPOINTS] = COMMAND_SAVE_TRACEPOINTS,
		[OPTION_SAVE_KALLSYMS] = COMMAND_SAVE_KALLSYMS,
		[OPTION_SAVE_PROCESSES] = COMMAND_SAVE_PROCESSES,
		[OPTION_DUMP_IMAGE] = COMMAND_DUMP_IMAGE,
	};

	options->command = commands[option];
	options->file = optarg;
	return 0;
}

static int apply_option(struct options *options, int option)
{
	int level;

	switch (option) {
	case 'c':
		options->config_file = optarg;
		options->config_given = true;
		return 0;
	case OPTION_LISTEN:
		options->listen[options->nr_listen++] = optarg;
		return 0;
	case OPTION_CHECK:
		options->command = COMMAND_CHECK;
		return 0;
	case OPTION_ONCE:
		options->command = COMMAND_ONCE;
		return parse_format(options, optarg);
	case OPTION_DURATION:
		if (parse_duration(optarg, &options->duration) < 0 || options->duration == 0)
			return reject_value("duration", optarg, "not a duration (such as 500ms, 10s, 1min)");
		return 0;
	case OPTION_LIST_EVENTS:
		options->command = COMMAND_LIST_EVENTS;
		options->glob = optarg;
		return 0;
	case OPTION_RECORD:
	case OPTION_SAVE_TRACEPOINTS:
	case OPTION_SAVE_KALLSYMS:
	case OPTION_SAVE_PROCESSES:
	case OPTION_DUMP_IMAGE:
		return apply_file(options, option);
	case OPTION_PROFILER:
		options->command = COMMAND_PROFILER;
		return 0;
	case OPTION_MAKE_FRAME_TABLE:
	case OPTION_LIST_FUNCTIONS:
		options->command = option == OPTION_LIST_FUNCTIONS ? COMMAND_LIST_FUNCTIONS : COMMAND_MAKE_FRAME_TABLE;
		return 0;
	case OPTION_LOG_LEVEL:
		options->log_level = optarg;
		if (log_level_parse(optarg, &level) < 0)
			return reject_value("log-level", optarg, "the levels are err, warning, notice, info and debug");
		log_set_level(level);
		return 0;
	case OPTION_VERSION:
		printf("perfmond %s (%s)\n", PACKAGE_VERSION,
		       BUILD_FEATURES[0] ? "with " BUILD_FEATURES : "without optional parts");
		options->command = COMMAND_EXIT;
		return 0;
	case 'h':
		print_help();
		options->command = COMMAND_EXIT;
		return 0;
	default:
		return -EINVAL; /* getopt_long() has printed the error */
	}
}

void options_release(struct options *options)
{
	free(options->listen);
	*options = (struct options){};
}

int options_parse(struct options *ret, int argc, char **argv)
{
	_cleanup_(options_release) struct options options = {
		.config_file = DEFAULT_CONFIG,
		.listen = calloc((size_t)argc + 1, sizeof(char *)),
	};
	int option;

	if (!options.listen)
		return -ENOMEM;
	while ((option = getopt_long(argc, argv, "c:h", long_options, NULL)) >= 0) {
		if (apply_option(&options, option) < 0) {
			fprintf(stderr, "Try 'perfmond --help' for more.\n");
			return -EINVAL;
		}
		if (options.command == COMMAND_EXIT)
			break;
	}
	if (options.command != COMMAND_EXIT && optind < argc) {
		log_error("'%s' is not an option, and there are no other arguments", argv[optind]);
		fprintf(stderr, "Try 'perfmond --help' for more.\n");
		return -EINVAL;
	}
	if (options.command == COMMAND_RECORD && options.duration > RECORD_MAX) {
		log_error("--record takes a --duration of 1h at most");
		return -EINVAL;
	}
	*ret = options;
	options = (struct options){};
	return 0;
}

int options_load_config(struct config **ret, const struct options *options, struct reason *why)
{
	_cleanup_(config_freep) struct config *config = NULL;
	int r = config_load(&config, options->config_file, options->config_given, why);

	if (r < 0)
		return r;
	for (size_t i = 0; i < options->nr_listen; i++) {
		r = address_check(options->listen[i], why);
		if (r < 0)
			return reason_prefix(why, r, "--listen");
	}
	if (options->nr_listen > 0 && config_set_listen(config, options->listen, options->nr_listen) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	*ret = steal_ptr(config);
	return 0;
}
