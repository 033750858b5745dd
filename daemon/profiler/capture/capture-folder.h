/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Captures as files, in a folder of the state directory: NAME-TIME-NUMBER.pb.gz, for pprof. The files of a rule, and
 * the bytes of all, are bounded: the oldest go. Their times of modification are their order: a file gets a later one
 * than all that are there, also if the clock was set back since. Files with other names are never touched, but for what
 * a write that was killed has left behind.
 */

#include "base/util/buf.h"
#include "base/util/reason.h"
#include "profiler/protocol.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct capture_file {
	const char *id;	    /* NAME-TIME-NUMBER */
	const char *rule;   /* that NAME */
	uint64_t keep;	    /* files of that NAME, with this one */
	uint64_t max_bytes; /* of all files, with this one */
};

/* One that is there. */
struct capture_saved {
	char id[NAME_MAX + 1];
	uint64_t bytes;
};

/* Makes the folder, if it is not there, removes what is beyond the bounds, and writes the file. That takes as long as
 * the disk does. folder: NULL where there is no state directory. Negative errno with the sentence in why. */
int capture_folder_write(const char *folder, const struct capture_file *file, const char *bytes, size_t size,
			 struct reason *why);

/* The captures that are there, the newest first, to be freed; none where there is no folder. -ENOMEM. */
int capture_folder_list(const char *folder, struct capture_saved **ret, size_t *ret_nr);

/* Appends the file of the capture that the question is about, which is whole and for pprof. With the sentence in why:
 * -EINVAL: another form of it or a part of it is asked for; -ENOENT: it is not there, or can't be read; -ENOMEM. */
int capture_folder_answer(struct buf *out, const char *folder, const struct profile_question *question,
			  struct reason *why);
