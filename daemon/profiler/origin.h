/* SPDX-License-Identifier: MIT */
#pragma once

/* The origin of samples, as it goes with them over a restart: the machine's boot, and the cgroups that may be seen. */

#include "profiler/archive/archive-image.h"
#include "profiler/protocol.h"

struct origin {
	struct archive_origin is; /* borrows the texts */
	char *boot_id, *visible;
};

void origin_release(struct origin *origin);
/* -ENOMEM. */
int origin_make(struct origin *ret, const struct profiler_settings *settings);
