/* SPDX-License-Identifier: MIT */

#include "web/http/toolkit-config.h"

#include <errno.h>

int toolkit_config_parse(struct toolkit_config **ret, const char *file, const char *text, struct reason *why)
{
	(void)ret;
	(void)text;
	return reason_set(why, -EOPNOTSUPP, "%s: this perfmond was built without libyaml and cannot read it", file);
}

struct toolkit_config *toolkit_config_free(struct toolkit_config *config)
{
	(void)config;
	return NULL;
}
