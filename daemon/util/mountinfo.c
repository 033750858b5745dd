/* SPDX-License-Identifier: MIT */

#include "util/mountinfo.h"

#include <string.h>

static bool octal(char c)
{
	return c >= '0' && c <= '7';
}

/* The kernel writes a space, tab, newline, backslash or '#' as a backslash and three octal digits. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && octal(s[2]) && octal(s[3])) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* 36 35 98:0 /root /mount/point rw,noatime master:1 … - fstype source super,options
 *
 * The number of fields before the "-" varies, and a source may be empty: only the spaces tell. */
static bool parse_line(char *line, struct mountinfo *ret)
{
	enum { ROOT = 3, MOUNT_POINT = 4, FSTYPE = 0, SUPER_OPTIONS = 2 };
	char *front[6] = {}, *back[3] = {}, *field;
	size_t nr_front = 0, nr_back = 0;
	bool behind = false;

	while ((field = strsep(&line, " "))) {
		if (behind) {
			if (nr_back < 3)
				back[nr_back++] = field;
		} else if (nr_front < 6) {
			front[nr_front++] = field;
		} else {
			behind = strcmp(field, "-") == 0;
		}
	}
	if (nr_back < 3 || front[MOUNT_POINT][0] != '/')
		return false;

	unescape(front[ROOT]);
	unescape(front[MOUNT_POINT]);
	unescape(back[FSTYPE]);
	unescape(back[SUPER_OPTIONS]);
	*ret = (struct mountinfo){
		.root = front[ROOT],
		.mount_point = front[MOUNT_POINT],
		.fstype = back[FSTYPE],
		.options = back[SUPER_OPTIONS],
	};
	return true;
}

bool mountinfo_next(char **cursor, struct mountinfo *ret)
{
	char *line;

	while ((line = strsep(cursor, "\n")))
		if (parse_line(line, ret))
			return true;
	return false;
}

bool mountinfo_has_option(const struct mountinfo *mount, const char *name)
{
	size_t length = strlen(name);

	for (const char *p = mount->options; *p;) {
		size_t n = strcspn(p, ",");

		if (n == length && memcmp(p, name, n) == 0)
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}
