/* SPDX-License-Identifier: MIT */
#pragma once

/* The units of events. Metrics are in Prometheus's base units (seconds, joules, bytes); the prefixes of the units in
 * sysfs ("MiB", "ns") go into the scale. */

/* The unit of an event's total after scaling; its name ends the metric's. */
enum event_unit {
	EVENT_UNIT_NONE,    /* plain count, "" */
	EVENT_UNIT_SECONDS, /* "seconds" */
	EVENT_UNIT_JOULES,  /* "joules" */
	EVENT_UNIT_BYTES,   /* "bytes" */
	EVENT_UNIT_CELSIUS, /* no counter has it today, but sysfs may: "celsius" */
	_EVENT_UNIT_MAX,
};

/* "seconds", "joules", …; "" for EVENT_UNIT_NONE. */
const char *event_unit_name(enum event_unit unit);

/* The base unit of a unit in sysfs ("Joules", "MiB", "ns", …; NULL: none); multiplies *scale accordingly. An unknown
 * unit is EVENT_UNIT_NONE and leaves the scale. */
enum event_unit event_unit_parse(const char *unit, double *scale);
