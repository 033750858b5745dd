/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The BPF program in the kernel: its skeleton is loaded here. In a build without libbpf, clang or bpftool (configure
 * --without-bpf) none.c stands in place of this engine.
 */

#include <stdbool.h>

bool bpf_engine_is_built_in(void);
