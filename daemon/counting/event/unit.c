/* SPDX-License-Identifier: MIT */

#include "counting/event/unit.h"

#include "base/util/cleanup.h"

#include <string.h>

static const char *const unit_names[_EVENT_UNIT_MAX] = {
	[EVENT_UNIT_NONE] = "",	      [EVENT_UNIT_SECONDS] = "seconds", [EVENT_UNIT_JOULES] = "joules",
	[EVENT_UNIT_BYTES] = "bytes", [EVENT_UNIT_CELSIUS] = "celsius",
};

/* Case matters: "mJ" and "MJ" differ by a factor of 10^9. */
static const struct {
	const char *text;
	enum event_unit unit;
	double factor;
} spellings[] = {
	{ "Joules", EVENT_UNIT_JOULES, 1 },   { "joules", EVENT_UNIT_JOULES, 1 },
	{ "J", EVENT_UNIT_JOULES, 1 },	      { "mJ", EVENT_UNIT_JOULES, 1e-3 },
	{ "uJ", EVENT_UNIT_JOULES, 1e-6 },

	{ "Bytes", EVENT_UNIT_BYTES, 1 },     { "bytes", EVENT_UNIT_BYTES, 1 },
	{ "B", EVENT_UNIT_BYTES, 1 },	      { "KiB", EVENT_UNIT_BYTES, 0x1p10 },
	{ "MiB", EVENT_UNIT_BYTES, 0x1p20 },  { "GiB", EVENT_UNIT_BYTES, 0x1p30 },
	{ "TiB", EVENT_UNIT_BYTES, 0x1p40 },  { "KB", EVENT_UNIT_BYTES, 1e3 },
	{ "kB", EVENT_UNIT_BYTES, 1e3 },      { "MB", EVENT_UNIT_BYTES, 1e6 },
	{ "GB", EVENT_UNIT_BYTES, 1e9 },

	{ "ns", EVENT_UNIT_SECONDS, 1e-9 },   { "us", EVENT_UNIT_SECONDS, 1e-6 },
	{ "ms", EVENT_UNIT_SECONDS, 1e-3 },   { "s", EVENT_UNIT_SECONDS, 1 },
	{ "sec", EVENT_UNIT_SECONDS, 1 },     { "seconds", EVENT_UNIT_SECONDS, 1 },
	{ "Seconds", EVENT_UNIT_SECONDS, 1 },

	{ "C", EVENT_UNIT_CELSIUS, 1 },	      { "Celsius", EVENT_UNIT_CELSIUS, 1 },
	{ "celsius", EVENT_UNIT_CELSIUS, 1 },
};

const char *event_unit_name(enum event_unit unit)
{
	return unit_names[unit];
}

enum event_unit event_unit_parse(const char *unit, double *scale)
{
	for (size_t i = 0; unit && i < ARRAY_SIZE(spellings); i++)
		if (strcmp(unit, spellings[i].text) == 0) {
			*scale *= spellings[i].factor;
			return spellings[i].unit;
		}
	return EVENT_UNIT_NONE;
}
