/* SPDX-License-Identifier: MIT */
#pragma once

/* The id of this machine's boot, as /proc/sys/kernel/random/boot_id has it. To be freed. "": it can't be read; NULL: no
 * memory. */
char *boot_id_read(void);
