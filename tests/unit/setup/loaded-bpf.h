/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The part of the engine bpf that is in the kernel, loaded into the one that runs here. Tests are skipped where that
 * can't be.
 */

#include "base/util/cleanup.h"
#include "counting/engine/bpf/bpf.h"
#include "counting/engine/bpf/chunks.h"
#include "counting/engine/bpf/kernel.h"
#include "setup/needs.h"

#include <sys/sysinfo.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The machine's own cgroups run meanwhile: no cgroup has these ids. */
#define NO_CGROUP(nr) ((UINT64_C(1) << 62) + (nr))
#define ROOM 1024 /* slots, of which some are left for the test */

DEFINE_CLEANUP(struct bpf_kernel *, bpf_kernel_unref)

static inline struct bpf_kernel *load_sizes(const struct bpf_kernel *former, const struct bpf_sizes *sizes)
{
	struct bpf_kernel *kernel = NULL;
	struct reason why = {};

	needs("bpf");
	if (bpf_is_available(0, NULL, &why) < 0)
		fail_msg("%s", why.text);
	bpf_end_trial();
	if (bpf_kernel_load(&kernel, sizes, false, former, &why) < 0)
		fail_msg("%s", why.text);
	if (former)
		bpf_kernel_learn(kernel, former);
	return kernel;
}

static inline struct bpf_sizes sizes_of(uint32_t slots)
{
	return (struct bpf_sizes){ .cpus = (uint32_t)get_nprocs_conf(), .slots = slots, .events = 2, .sets = 1 };
}

static inline struct bpf_kernel *load_after(const struct bpf_kernel *former, uint32_t slots)
{
	const struct bpf_sizes sizes = sizes_of(slots);

	return load_sizes(former, &sizes);
}

static inline struct bpf_kernel *load(uint32_t slots)
{
	return load_after(NULL, slots);
}
