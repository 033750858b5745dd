/* SPDX-License-Identifier: MIT */
#pragma once

/* The captures that there are in memory and on disk, for the document of /api/v1/captures. Pure. */

#include "base/util/buf.h"
#include "profiler/capture/capture-folder.h"
#include "profiler/capture/captures.h"

/* Appends them as members of a JSON object, without its braces. */
void capture_list_json(struct buf *out, const struct captures *captures, const struct capture_saved *files,
		       size_t nr_files);
