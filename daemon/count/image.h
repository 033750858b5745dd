/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All of a count as bytes: what a later instance of the daemon goes on from. The plan (what each number means), the
 * ledger (the totals), how sure each event is, and of each open perf event its id and the value at which it stood when
 * its counts were last added. Events go on counting while no daemon runs: whoever gets hold of their fds finds what
 * happened meanwhile as the difference.
 *
 * From an image a count is made that looks like the one it was written from, and its successor takes over from it as
 * after a reload: the config may have changed meanwhile, CPUs and cgroups may have come and gone, and fds may be
 * missing.
 *
 * An image is of one boot of one machine: ids and clocks are. It may be cut short or be anything at all; it is then
 * refused as a whole.
 */

#include "count/ledger.h"
#include "count/states.h"
#include "target/cpu.h"
#include "util/pack.h"

/* What an image tells of itself, for the log and to choose by. */
struct image_info {
	uint64_t saved_at; /* CLOCK_MONOTONIC ns */
};

/* The machine's boot, from PROCROOT/sys/kernel/random/boot_id; "" where that can't be read. To be freed. NULL: no
 * memory. */
char *image_boot_id(const char *procroot);

/* Begins an image in out, which is empty; what follows is closed by image_end(). False when there is no memory. */
void image_begin(struct buf *out, const char *boot_id, uint64_t now);
bool image_end(struct buf *out);

/*
 * Checks the image and leaves `in` at what was written behind image_begin(). With the sentence in why: -EBADMSG, it is
 * no image, one of another version, or damaged; -ESTALE, it is of another boot.
 */
int image_open(struct unpack *in, const void *bytes, size_t size, const char *boot_id, struct image_info *ret,
	       struct reason *why);

/* The parts. Getting: -EBADMSG where the part makes no sense, -ENOMEM. */
void image_put_plan(struct buf *out, const struct plan *plan);
int image_get_plan(struct unpack *in, struct plan **ret);

/* Numbers the ledger's rows. */
void image_put_ledger(struct buf *out, const struct ledger *ledger);
/* The rows by their numbers are in an array to be freed. The ledger is empty. */
int image_get_ledger(struct unpack *in, struct ledger *ledger, struct row ***ret_rows, size_t *ret_nr);

void image_put_states(struct buf *out, const struct states *states);
int image_get_states(struct unpack *in, struct states *states);

void image_put_cpus(struct buf *out, const struct cpulist *cpus);
int image_get_cpus(struct unpack *in, struct cpulist *ret);

void image_put_topology(struct buf *out, const struct cpu_topology *topology);
int image_get_topology(struct unpack *in, struct cpu_topology *ret);
