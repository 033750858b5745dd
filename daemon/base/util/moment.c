/* SPDX-License-Identifier: MIT */

#include "base/util/moment.h"

#include "base/util/clock.h"
#include "base/util/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int parse_ago(uint64_t *ret, const char *text)
{
	*ret = 0;
	if (strcmp(text, "now") == 0)
		return 0;
	return text[0] == '-' && parse_duration(text + 1, ret) == 0 ? 0 : -EINVAL;
}

int moment_parse(struct moment *ret, const char *text)
{
	char *end;
	double seconds;
	uint64_t ago;

	if (parse_ago(&ago, text) == 0) {
		*ret = (struct moment){ .kind = MOMENT_AGO, .ns = ago };
		return 0;
	}
	seconds = strtod(text, &end);
	/* No sign, no exponent, no word. */
	if (!*text || *end || text[strspn(text, "0123456789.")] || !isfinite(seconds))
		return -EINVAL;
	*ret = (struct moment){
		.kind = MOMENT_SINCE_EPOCH,
		.ns = seconds < 1e10 ? (uint64_t)(seconds * NS_PER_S) : UINT64_MAX,
	};
	return 0;
}
