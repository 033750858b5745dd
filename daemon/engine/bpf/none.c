/* SPDX-License-Identifier: MIT */

#include "engine/bpf/kernel.h"

bool bpf_engine_is_built_in(void)
{
	return false;
}
