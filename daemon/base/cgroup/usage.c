/* SPDX-License-Identifier: MIT */

#include "base/cgroup/usage.h"

#include "base/cgroup/reconcile.h"
#include "base/util/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

int cgroup_usage_parse(const char *text, uint64_t *ret_usec)
{
	static const char key[] = "usage_usec ";
	unsigned long long value;
	char *end;

	while (text && strncmp(text, key, strlen(key)) != 0) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	if (!text || !isdigit((unsigned char)text[strlen(key)]))
		return -EBADMSG;
	errno = 0;
	value = strtoull(text + strlen(key), &end, 10);
	if (errno != 0 || (*end != '\n' && *end != '\0'))
		return -EBADMSG;
	*ret_usec = value;
	return 0;
}

/* The file is missing: the cgroup is gone too, or the hierarchy has no such files. */
static int explain_no_file(const struct cgroup_tree *tree, const struct cgroup *cgroup)
{
	_cleanup_(closep) int fd = -1;
	struct stat st;

	fd = reconcile_open(tree, cgroup, O_PATH, &st);
	return fd < 0 ? fd : -EOPNOTSUPP;
}

int cgroup_usage(const struct cgroup_tree *tree, const struct cgroup *cgroup, uint64_t *ret_usec)
{
	_cleanup_(closep) int fd = -1;
	_cleanup_(freep) char *text = NULL;
	struct stat st;
	int r;

	fd = reconcile_open(tree, cgroup, O_PATH, &st);
	if (fd < 0)
		return fd;
	r = read_text_file(fd, "cpu.stat", FILE_MAX_SYSFS, &text);
	/* ENODEV: the cgroup was removed after it was opened. */
	if (r == -ENOENT || r == -ENODEV)
		return explain_no_file(tree, cgroup);
	return r < 0 ? r : cgroup_usage_parse(text, ret_usec);
}
