/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which machine this is, for people: its name, kernel and kind of CPU. A text that can't be found out is "".
 */

#include <stddef.h>
#include <sys/utsname.h>

struct host_identity {
	struct utsname system; /* uname(2): nodename, release, machine */
	char cpu_model[128];   /* "AMD EPYC 7763 64-Core Processor"; UTF-8 is not checked */
};

/* procroot is "/proc" and sysroot is "/sys" but in tests and containers. */
void host_identity_read(struct host_identity *ret, const char *procroot, const char *sysroot);

/* Finds the model in the text of /proc/cpuinfo, which is different for each architecture; pure. ret becomes "" if none
 * is there, as on arm64. Blanks in a row become one. */
void cpu_model_parse(char *ret, size_t size, const char *cpuinfo);
