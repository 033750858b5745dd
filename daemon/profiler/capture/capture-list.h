/* SPDX-License-Identifier: MIT */
#pragma once

/* The captures that there are in memory and on disk, as JSON: /api/v1/captures adds the rules, and the values of each
 * capture's counter. Pure. */

#include "base/util/buf.h"
#include "profiler/capture/capture-folder.h"
#include "profiler/capture/captures.h"

/* Appends them as a JSON object. */
void capture_list_json(struct buf *out, const struct captures *captures, const struct capture_saved *files,
		       size_t nr_files);
