/* SPDX-License-Identifier: MIT */

#include "commands.h"
#include "count/privilege.h"
#include "manager.h"
#include "util/log.h"

static int run(const struct options *options)
{
	_cleanup_(config_freep) struct config *config = NULL;
	_cleanup_(inherited_release) struct inherited inherited = {};
	_cleanup_(manager_freep) struct manager *manager = NULL;
	struct reason why = {};
	int r = inherited_read(&inherited, &why);

	if (r >= 0)
		r = options_load_config(options, &config, &why);
	if (r >= 0)
		r = manager_new(&manager, options, steal_ptr(config), &inherited, &why);
	if (r < 0) {
		log_error("%s", why.text);
		return EXIT_FAILURE;
	}
	return manager_run(manager) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	_cleanup_(options_release) struct options options = {};
	struct reason why;

	if (options_parse(&options, argc, argv) < 0)
		return EXIT_FAILURE;
	if (privilege_set_aside(&why) < 0)
		log_warning("%s", why.text);

	switch (options.command) {
	case COMMAND_CHECK:
		return command_check(&options);
	case COMMAND_ONCE:
		return command_once(&options);
	case COMMAND_LIST_EVENTS:
		return command_list_events(&options);
	case COMMAND_SAVE_TRACEPOINTS:
		return command_save_tracepoints(&options);
	case COMMAND_EXIT:
		return EXIT_SUCCESS;
	case COMMAND_RUN:
		break;
	}
	return run(&options);
}
