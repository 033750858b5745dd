/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A whole session as bytes, from which a later instance of the daemon continues: the plan (what each number means), the
 * totals, how sure each event is, and of each open event its id and the value at which it stood when its counts were
 * last added. Events go on counting while no daemon runs: whoever gets hold of their files finds what happened
 * meanwhile as the difference.
 *
 * A session that is made from an image looks like the one that wrote it, and a new session takes over from it as after
 * a reload. In the meantime the config may have changed, CPUs and cgroups may have come and gone, and files may be
 * lost.
 *
 * It is made at each reading, so that rows, slots and cells that have not changed since the last time are not written
 * again (base/util/rewrite.h), unless any came or went.
 *
 * An image is of one boot of one machine, because ids and clocks are. It may be cut short, or be anything at all; it is
 * then refused as a whole.
 */

#include "base/host/cpu.h"
#include "base/util/pack.h"
#include "counting/session/engines.h"
#include "counting/session/states.h"
#include "counting/totals/totals-image.h"

/* The header of an image, for the log, and to choose the latest. */
struct image_info {
	uint64_t format;
	uint64_t saved_at;  /* CLOCK_MONOTONIC ns */
	char boot_id[64];   /* cut, if it is longer */
	bool names_engines; /* false: the perf engine has counted all */
};

/* Begins an image in out, which is empty. image_end() completes it; false: no memory. sampled (session_sampled()) comes
 * last, where daemons that do not know it read no further. */
void image_begin(struct rewrite *out, const char *boot_id, uint64_t now, bool names_engines);
bool image_end(struct rewrite *out, uint64_t sampled);

/* Checks the image, and leaves `in` behind what image_begin() wrote. boot_id: NULL takes an image of any boot, which is
 * to be looked at and not to be counted on from. With the sentence in why: -EBADMSG: it is no image, one of another
 * version, or damaged; -ESTALE: it is of another boot. */
int image_open(struct unpack *in, const void *bytes, size_t size, const char *boot_id, struct image_info *ret,
	       struct reason *why);

/* The parts. To get one fails with -EBADMSG where it makes no sense, and with -ENOMEM. */
/* The plan comes without counters, until its engines are known (plan_add_counters()). */
void image_put_plan(struct buf *out, const struct plan *plan);
int image_get_plan(struct unpack *in, struct plan **ret);

/* In an image that names engines: their names, and which of them has counted each set; later, the part that each engine
 * has written. An engine that this build does not have is NULL, and its part is skipped: totals continue without it. */
struct image_engines {
	const struct engine_ops *ops[ENGINES_MAX];
	size_t nr;
};

void image_put_engines(struct buf *out, const struct engines *engines);
int image_get_engines(struct unpack *in, struct plan *plan, struct image_engines *ret);
void image_put_parts(struct rewrite *out, const struct engines *engines);
int image_get_parts(struct unpack *in, const struct image_engines *saved, struct engines *engines,
		    struct totals_row *const *rows, size_t nr_rows, struct stored_pool *stored);

void image_put_states(struct buf *out, const struct states *states);
int image_get_states(struct unpack *in, struct states *states);

void image_put_cpus(struct buf *out, const struct cpulist *cpus);
int image_get_cpus(struct unpack *in, struct cpulist *ret);

void image_put_topology(struct buf *out, const struct cpu_topology *topology);
int image_get_topology(struct unpack *in, struct cpu_topology *ret);
