/* SPDX-License-Identifier: MIT */

#include "base/host/privilege.h"
#include "base/util/file.h"
#include "base/util/log.h"
#include "base/util/memory.h"
#include "profiler/main.h"
#include "profiler/naming/list-child.h"
#include "profiler/protocol.h"
#include "profiler/stack/frame-table-child.h"
#include "service/cli/commands.h"
#include "service/lifecycle/lifecycle.h"

#include <string.h>

/* The keeper is forked first of all: it has what the daemon will have given up, and none of its memory. Without it
 * there are no profiles. */
static void start_keeper(struct profiler_keeper **ret, const struct options *options)
{
	const char *const argv[] = {
		"perfmond", "--profiler", options->log_level ? "--log-level" : NULL, options->log_level, NULL,
	};
	struct reason why;

	if (options->command != COMMAND_RUN && options->command != COMMAND_CHECK)
		return;
	if (profiler_keeper_start(ret, argv, PROFILER_LONGEST_PAUSE_NS, &why) < 0)
		log_error("%s", why.text);
}

/* is_parted: reading other processes is for the profiler, which the keeper can still start. */
static void take_up_privileges(bool is_parted)
{
	struct reason why;

	if (privilege_take_up(&why) < 0)
		log_warning("%s", why.text);
	if (privilege_set_aside(&why) < 0)
		log_warning("%s", why.text);
	if (is_parted && privilege_give_up_profilers(&why) < 0)
		log_warning("%s", why.text);
}

int main(int argc, char **argv)
{
	_cleanup_(options_release) struct options options = {};
	_cleanup_(profiler_keeper_freep) struct profiler_keeper *keeper = NULL;
	int r = open_standard_files();

	if (r < 0) {
		log_error("/dev/null: %s", strerror(-r));
		return EXIT_FAILURE;
	}
	memory_return_freed();
	if (options_parse(&options, argc, argv) < 0)
		return EXIT_FAILURE;
	if (options.command == COMMAND_MAKE_FRAME_TABLE)
		frame_table_child_run();
	if (options.command == COMMAND_LIST_FUNCTIONS)
		list_child_run();
	start_keeper(&keeper, &options);
	take_up_privileges(options.command != COMMAND_PROFILER);
	switch (options.command) {
	case COMMAND_RUN:
		return lifecycle_run(&options, keeper);
	case COMMAND_PROFILER:
		return profiler_main(PROFILER_FD_DAEMON);
	default:
		return command_run(&options, keeper);
	}
}
