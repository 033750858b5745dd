/* SPDX-License-Identifier: MIT */

#include "cli/commands.h"
#include "host/privilege.h"
#include "service/service.h"
#include "util/log.h"
#include "util/memory.h"

int main(int argc, char **argv)
{
	_cleanup_(options_release) struct options options = {};
	struct reason why;

	memory_return_freed();
	if (options_parse(&options, argc, argv) < 0)
		return EXIT_FAILURE;
	if (privilege_take_up(&why) < 0)
		log_warning("%s", why.text);
	if (privilege_set_aside(&why) < 0)
		log_warning("%s", why.text);
	return options.command == COMMAND_RUN ? service_run(&options) : command_run(&options);
}
