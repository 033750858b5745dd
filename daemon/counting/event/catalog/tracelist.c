/* SPDX-License-Identifier: MIT */

#include "counting/event/catalog/tracelist.h"

#include "base/util/text.h"
#include "counting/event/catalog/term.h"

#include <string.h>

void tracelist_add(struct buf *list, const char *subsystem, const char *name, uint64_t id)
{
	buf_str(list, subsystem);
	buf_char(list, ':');
	buf_str(list, name);
	buf_char(list, ' ');
	buf_u64(list, id);
	buf_char(list, '\n');
}

static bool parse_tracepoint(char *line, struct tracepoint *ret)
{
	const char *subsystem = strsep(&line, ":"), *name = strsep(&line, " ");
	uint64_t id;

	if (!line || !term_is_name(subsystem) || !term_is_name(name) || parse_u64(line, &id) < 0)
		return false;
	*ret = (struct tracepoint){ .subsystem = subsystem, .name = name, .id = id };
	return true;
}

bool tracelist_next(char **cursor, struct tracepoint *ret)
{
	char *line;

	while ((line = strsep(cursor, "\n")))
		if (parse_tracepoint(line, ret))
			return true;
	return false;
}
