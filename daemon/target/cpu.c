/* SPDX-License-Identifier: MIT */

#include "target/cpu.h"

#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int cpu_online(struct cpulist *ret, const char *sysroot, struct reason *why)
{
	_cleanup_(freep) char *path = NULL, *text = NULL;
	_cleanup_(cpulist_release) struct cpulist list = {};
	int r;

	if (asprintf(&path, "%s/devices/system/cpu/online", sysroot) < 0) {
		path = NULL; /* asprintf(3) leaves it undefined */
		return reason_set(why, -ENOMEM, "out of memory");
	}

	r = read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text);
	if (r < 0)
		return reason_set(why, r, "can't read which CPUs are online from %s: %s", path,
				  strerror(-r));

	r = cpulist_parse(&list, text);
	if (r == -ENOMEM)
		return reason_set(why, r, "out of memory");
	if (r < 0 || list.nr == 0)
		return reason_set(why, -EBADMSG, "%s holds no list of CPUs such as 0-3", path);

	*ret = list;
	list = (struct cpulist){};
	return 0;
}
