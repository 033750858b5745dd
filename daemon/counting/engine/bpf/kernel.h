/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The part of the engine that is in the kernel: programs, their memory (layout.h), and what the daemon has put there.
 *
 * There is one as a rule, and it goes from one engine to the next at a reload and at a restart: what it counts does not
 * depend on the plan. Which event has which number does; the engine says it (wire).
 *
 * The programs are attached as long as the links are open, here or in systemd's fd store.
 */

#include "base/util/reason.h"
#include "counting/engine/bpf/kernel-part.h"
#include "counting/engine/engine.h"
#include "counting/engine/stored.h"

/* Loads the programs and attaches them (attempt.h). former: the part that it is going to take over from
 * (bpf_kernel_succeed()), or NULL. Any thread may call it, and one at a time. -errno with the reason. */
int bpf_kernel_load(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, const struct bpf_kernel *former,
		    struct reason *why);
/* Was it loaded to take over from that one, or from none (NULL)? */
bool bpf_kernel_follows(const struct bpf_kernel *kernel, const struct bpf_kernel *former);
/* Copies what the former part knows of processes. */
void bpf_kernel_learn(struct bpf_kernel *kernel, const struct bpf_kernel *former);
/* Counting begins, and ends in the former part, of which each event in use has to be CREDIT_ENDING: on each CPU with no
 * event between the two. The CPUs know already who runs there: an event has been wired, or they were flushed. False: a
 * CPU could not do that, and has counted some microseconds in both. */
bool bpf_kernel_succeed(struct bpf_kernel *kernel, struct bpf_kernel *former);
/* Writes the files' ids into an image. */
void bpf_kernel_save(const struct bpf_kernel *kernel, struct buf *out);
/* One that an earlier instance of the daemon has loaded: takes its files out of the pool. -ENOENT: not all are there,
 * or they are of another layout; then the rest of the image is not read. -EBADMSG; -ENOMEM. */
int bpf_kernel_restore(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, struct unpack *in,
		       struct stored_pool *stored);
struct bpf_kernel *bpf_kernel_ref(struct bpf_kernel *kernel);
struct bpf_kernel *bpf_kernel_unref(struct bpf_kernel *kernel);

void bpf_kernel_each_stored(const struct bpf_kernel *kernel, stored_visitor each, void *userdata);

/* What crediting has taken at the CPU's switches, also by parts of this process that have gone since. */
struct switch_cost bpf_kernel_cost(const struct bpf_kernel *kernel, uint32_t cpu);

/* In which hierarchy it is to look for cgroups. Before anything is counted. */
void bpf_kernel_set_hierarchy(struct bpf_kernel *kernel, bool v1);

/* The number is from now on that of the open perf event of that id, on that CPU. Its count begins at the next flush. */
int bpf_kernel_wire(struct bpf_kernel *kernel, uint32_t cpu, uint32_t number, int fd, uint64_t id);
void bpf_kernel_unwire(struct bpf_kernel *kernel, uint32_t cpu, uint32_t number);

/* Credits what has been counted up to now, on a CPU, or on all with perf events. After that no program uses a slot
 * that was not found by a cgroup's id any more when this was called. False: some CPU could not be asked. */
bool bpf_kernel_flush(struct bpf_kernel *kernel, uint32_t cpu);
bool bpf_kernel_flush_all(struct bpf_kernel *kernel);
