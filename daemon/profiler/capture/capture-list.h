/* SPDX-License-Identifier: MIT */
#pragma once

/* The document of /api/v1/captures: the captures that there are in memory and on disk, with the rules and the values of
 * each capture's counter, which the daemon has told. Pure. */

#include "base/util/buf.h"
#include "profiler/capture/capture-folder.h"
#include "profiler/capture/captures.h"
#include "profiler/protocol.h"

void capture_list_json(struct buf *out, const struct captures *captures, const struct capture_saved *files,
		       size_t nr_files, const struct told_captures *told);
