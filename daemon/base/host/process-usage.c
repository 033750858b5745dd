/* SPDX-License-Identifier: MIT */

#include "base/host/process-usage.h"

#include "base/host/procfs.h"
#include "base/util/cleanup.h"
#include "base/util/clock.h"
#include "base/util/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Files that are counted one by one, in a millisecond or so. */
#define COUNTED_FDS_MAX 4096

static uint64_t read_cpu_ns(void)
{
	struct rusage usage = {};

	(void)getrusage(RUSAGE_SELF, &usage);
	return rusage_ns(&usage);
}

/* The first two fields of /proc/self/statm (proc(5)), in pages: size, resident. */
static void read_memory(struct process_usage *usage)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	_cleanup_(freep) char *text = NULL;
	uint64_t size, resident;

	if (read_text_file(AT_FDCWD, OWN_PROCFS "/self/statm", FILE_MAX_SYSFS, &text) < 0 ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
		return;
	usage->virtual_bytes = size * page;
	usage->resident_bytes = resident * page;
}

static uint64_t count_fds(void)
{
	_cleanup_(closedirp) DIR *folder = opendir(OWN_PROCFS "/self/fd");
	uint64_t nr = 0;

	if (!folder)
		return USAGE_UNKNOWN;
	for (const struct dirent *entry; (entry = readdir(folder));)
		nr += entry->d_name[0] != '.';
	return nr - 1; /* the folder's own */
}

/* Since Linux 6.2 the folder has their number as its size. */
static uint64_t read_open_fds(uint64_t at_least)
{
	struct stat st;

	if (stat(OWN_PROCFS "/self/fd", &st) == 0 && st.st_size > 0)
		return (uint64_t)st.st_size;
	return at_least > COUNTED_FDS_MAX ? USAGE_UNKNOWN : count_fds();
}

struct process_usage process_usage_read(uint64_t at_least)
{
	struct process_usage usage = { .cpu_ns = read_cpu_ns(), .open_fds = read_open_fds(at_least) };

	read_memory(&usage);
	return usage;
}
