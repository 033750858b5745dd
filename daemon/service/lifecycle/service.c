/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/service.h"

#include "base/util/log.h"
#include "service/lifecycle/lifecycle.h"
#include "service/persist/listen-fds.h"

int service_run(const struct options *options)
{
	_cleanup_(listen_fds_release) struct listen_fds passed = {};
	_cleanup_(manager_freep) struct manager *manager = NULL;
	struct reason why = {};
	int r = listen_fds_read(&passed, &why);

	if (r >= 0)
		r = manager_new(&manager, options, &passed, &why);
	if (r < 0) {
		log_error("%s", why.text);
		return EXIT_FAILURE;
	}
	return manager_run(manager) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
