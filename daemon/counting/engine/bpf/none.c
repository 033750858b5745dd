/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/bpf.h"

#include <errno.h>

int bpf_is_available(uint64_t max_cgroups, const char *sysroot, struct reason *why)
{
	(void)max_cgroups;
	(void)sysroot;
	return reason_set(why, -EOPNOTSUPP, "this build has no BPF engine (configure --with-bpf)");
}

void bpf_end_trial(void)
{
}

struct bpf_load *bpf_load_to_try(uint64_t max_cgroups, const char *sysroot)
{
	(void)max_cgroups;
	(void)sysroot;
	return NULL;
}

struct bpf_load *bpf_load_to_take_over(const struct engine *next, const struct engine *from, bool v1)
{
	(void)next;
	(void)from;
	(void)v1;
	return NULL;
}

void bpf_load_run(struct bpf_load *load)
{
	(void)load;
}

int bpf_load_use(struct bpf_load *load)
{
	(void)load;
	return 0;
}

struct bpf_load *bpf_load_free(struct bpf_load *load)
{
	(void)load;
	return NULL;
}

const struct engine_ops *const engine_bpf = NULL;
