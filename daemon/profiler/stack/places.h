/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From the call chain of a sample to places in files: the addresses of a process mean nothing to another, and are not
 * for others to see.
 */

#include "profiler/archive/archive.h"
#include "profiler/naming/kernel-functions.h"
#include "profiler/process/processes.h"

/* Fills in at most ARCHIVE_DEPTH_MAX places, the innermost first; returns their number. process: NULL, if it is not
 * known. Paths, keys and names are borrowed from the two. A place in a function of the kernel that is known is the
 * function's beginning: no others are told apart. */
size_t places_of_sample(struct archive_place *places, const struct record_sample *sample, const struct process *process,
			struct kernel_functions *kernel);
