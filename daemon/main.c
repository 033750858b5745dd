/* SPDX-License-Identifier: MIT */

#include "base/host/privilege.h"
#include "base/util/file.h"
#include "base/util/log.h"
#include "base/util/memory.h"
#include "service/cli/commands.h"
#include "service/lifecycle/lifecycle.h"

#include <string.h>

int main(int argc, char **argv)
{
	_cleanup_(options_release) struct options options = {};
	struct reason why;
	int r = open_standard_files();

	if (r < 0) {
		log_error("/dev/null: %s", strerror(-r));
		return EXIT_FAILURE;
	}
	memory_return_freed();
	if (options_parse(&options, argc, argv) < 0)
		return EXIT_FAILURE;
	if (privilege_take_up(&why) < 0)
		log_warning("%s", why.text);
	if (privilege_set_aside(&why) < 0)
		log_warning("%s", why.text);
	return options.command == COMMAND_RUN ? lifecycle_run(&options) : command_run(&options);
}
