/* SPDX-License-Identifier: MIT */

#include "engine/bpf/bpf.h"

#include <errno.h>

int bpf_is_available(struct reason *why)
{
	return reason_set(why, -EOPNOTSUPP, "this build has no BPF engine (configure --with-bpf)");
}

const struct engine_ops *const engine_bpf = NULL;
