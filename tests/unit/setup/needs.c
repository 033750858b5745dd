/* SPDX-License-Identifier: MIT */

#include "setup/needs.h"

#include <stdio.h>
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
		size_t size = strcspn(line, "\n");

		if (size > length && strncmp(line, ability, length) == 0 && line[length] == ':') {
			(void)fprintf(stderr, "needs %.*s\n", (int)size, line);
			skip();
		}
		line += size + (line[size] == '\n');
	}
}
