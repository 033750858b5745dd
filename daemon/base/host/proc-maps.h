/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The executable mappings of a process that ran before anybody watched, from /proc/PID/maps: by the ioctl
 * PROCMAP_QUERY (Linux 6.11), which tells build ids too, or else from its text. CAP_PERFMON is enough for another
 * user's process since Linux 6.15; before, CAP_SYS_PTRACE is needed.
 */

#include "base/elf/module.h"

#include <stddef.h>

/* Of a process. Compilers at run time and their like make thousands of mappings; those beyond are left out. */
#define MAPPINGS_MAX 4096

struct proc_mapping {
	uint64_t start, size, offset;
	struct module_key key;
	const char *path;
};

/* Calls take() for each mapping, at most max of them; its error ends the reading, and is returned. Negative errno:
 * -ENOENT or -ESRCH the process is gone, -EACCES or -EPERM no permission. */
int proc_maps_read(const char *procroot, uint32_t pid, size_t max,
		   int (*take)(void *userdata, const struct proc_mapping *mapping), void *userdata);

/* One line of the text. False: it is not executable, or malformed. The path points into the line, which ends with a
 * NUL, without a newline. */
bool proc_maps_parse(struct proc_mapping *ret, const char *line);

/* The command's name, of /proc/PID/comm. */
#define PROC_COMM_SIZE 16
int proc_comm_read(const char *procroot, uint32_t pid, char ret[static PROC_COMM_SIZE]);
