/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Saves captures whose section asks for it (save = yes) in the state directory, one at a time, as their functions have
 * got their names: in a child, since rendering takes long, and a disk may. A failure is logged once, and shown with the
 * capture.
 */

#include "profiler/capture/captures.h"

#include <systemd/sd-event.h>

struct capture_saver;

/* The captures and cpu_ns are borrowed. The CPU time of children is added to *cpu_ns. Negative errno. */
int capture_saver_new(struct capture_saver **ret, struct captures *captures, sd_event *loop, uint64_t *cpu_ns);
/* Ends a child that is at work. */
struct capture_saver *capture_saver_free(struct capture_saver *saver);
DEFINE_CLEANUP(struct capture_saver *, capture_saver_free)

/* Where captures are saved; NULL: there is no state directory. It stays the saver's. */
const char *capture_saver_folder(const struct capture_saver *saver);

/* Captures may be finished. */
void capture_saver_turn(struct capture_saver *saver);

/* At the stop, when no capture runs any more: all are saved. No turn comes after it. */
void capture_saver_leave(struct capture_saver *saver);
