/* SPDX-License-Identifier: MIT */

#include "setup/needs.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void needs(const char *ability)
{
	const char *line = getenv("MACHINE_LACKS");
	size_t length = strlen(ability);

	while (line && *line) {
		size_t end = strcspn(line, "\n");

		if (strncmp(line, ability, length) == 0 && line[length] == ':') {
			print_message("needs %.*s\n", (int)end, line);
			skip();
		}
		line += end + (line[end] == '\n');
	}
}
