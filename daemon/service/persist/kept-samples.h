/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The profiler's samples between two daemons: an image that nobody here looks into (profiler/archive/archive-image.h).
 * It is in a file in memory, which systemd keeps under the name below (fd-store.h), or else, where systemd keeps
 * nothing, in a file of the state directory that only its owner may read: stacks and commands say much of what the
 * machine does.
 */

#include "base/util/blob.h"
#include "base/util/reason.h"

#define KEPT_SAMPLES_NAME "perfmond-samples"
#define KEPT_SAMPLES_FILE "samples"

/* A larger file is not taken. */
#define KEPT_SAMPLES_MAX ((size_t)64 << 20)

/* Where there is an fd store, it goes there, and else to the file (NULL: none). Negative errno with the sentence in
 * why; -ENOENT: there is no place for it. */
int kept_samples_put(const struct blob *image, bool has_fd_store, const char *file, struct reason *why);

/* The bytes of the fd, or of the file where that is -1; whatever there is is removed: another start does not find it.
 * 0 with *ret NULL: there is nothing. Negative errno with the sentence in why. */
int kept_samples_take(struct blob **ret, int fd, const char *file, struct reason *why);
