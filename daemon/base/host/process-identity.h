/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Another number for each process that ever had the pid, as long as the machine runs; the same after an exec. It needs
 * neither /proc nor a privilege. 0: this kernel (before Linux 6.9) has none, or there is no descriptor to ask with.
 * -ESRCH: no process has the pid. */
int process_identity(uint32_t pid, uint64_t *ret);
