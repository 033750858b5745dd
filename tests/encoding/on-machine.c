/* SPDX-License-Identifier: MIT */

/*
 * Becomes a command, which is perf, on a made machine: on-machine DIR NAME COMMAND [ARGUMENT…]
 *
 * The machine's files are made in DIR, or are there from an earlier time; perf learns where its sysfs and
 * tracefs are from the environment. perf_event_open() opens nothing and says that it has, so that what perf
 * encodes depends neither on this machine's PMUs nor on privileges, and is not tried again with other bits.
 */

#include "base/util/cleanup.h"
#include "setup/machines.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DEVICES "sys/bus/event_source/devices"

static int make_machine(const char *dir, const struct machine_kind *kind)
{
	_cleanup_(freep) char *devices = tree_path(dir, DEVICES), *sysfs = tree_path(dir, "sys"),
			      *tracefs = tree_path(dir, "tracing");

	if (mkdir(dir, 0755) == 0) {
		tree_folder(dir, DEVICES);
		tree_add(devices, kind->files);
		tree_folder(dir, "tracing");
		tree_add(tracefs, machine_tracefs);
	} else if (errno != EEXIST) {
		return -1;
	}

	if (setenv("SYSFS_PATH", sysfs, 1) < 0 || setenv("TRACEFS_PATH", tracefs, 1) < 0)
		return -1;
	/* perf has tables of events for each CPU that it knows; it knows none of this name. */
	return setenv("PERF_CPUID", "Made-0-0-0", 1) < 0 ? -1 : setenv("PERF_CONFIG", "/dev/null", 1);
}

static int open_nothing(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	const struct machine_kind *kind = argc > 3 ? machine_kind_find(argv[2]) : NULL;

	if (!kind) {
		fprintf(stderr, "usage: on-machine DIR NAME COMMAND [ARGUMENT...]; NAME is one of");
		for (kind = machine_kinds; kind->name; kind++)
			fprintf(stderr, " %s", kind->name);
		fprintf(stderr, "\n");
		return 127;
	}
	if (make_machine(argv[1], kind) < 0)
		perror(argv[1]);
	else if (open_nothing() < 0)
		perror("seccomp");
	else if (execvp(argv[3], argv + 3) < 0)
		perror(argv[3]);
	return 127;
}
