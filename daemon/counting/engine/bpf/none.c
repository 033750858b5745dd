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

const struct engine_ops *const engine_bpf = NULL;
