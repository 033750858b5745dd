/* SPDX-License-Identifier: MIT */

#include "counting/event/catalog/pfm.h"

#include <errno.h>
#include <string.h>

static const char no_libpfm[] = "this perfmond is built without libpfm, which knows names of that kind";

bool pfm_is_built_in(void)
{
	return false;
}

/* Without libpfm, only a name with "::" is known to be one of its names. */
int pfm_encode(_unused_ struct pfm_encoding_list *ret, const char *text, struct reason *why)
{
	return strncmp(text + strcspn(text, ":."), "::", 2) == 0 ? reason_set(why, -ENODEV, "%s", no_libpfm) : -ENOENT;
}

void pfm_hint(struct reason *ret, _unused_ const char *text)
{
	reason_set(ret, 0, "; %s", no_libpfm);
}

int pfm_walk(_unused_ int (*each)(void *userdata, const char *name, const struct pfm_encoding *encoding),
	     _unused_ void *userdata)
{
	return 0;
}
