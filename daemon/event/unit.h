/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The units of events. Metrics are in Prometheus's base units (seconds, joules, bytes); what sysfs says
 * ("MiB", "ns") goes into the scale.
 */

/* The unit of an event's total after scaling; its name ends the metric's. */
enum event_unit {
	EVENT_UNIT_NONE,    /* plain count, "" */
	EVENT_UNIT_SECONDS, /* "seconds" */
	EVENT_UNIT_JOULES,  /* "joules" */
	EVENT_UNIT_BYTES,   /* "bytes" */
	EVENT_UNIT_CELSIUS, /* never a counter today, but sysfs can say so: "celsius" */
	_EVENT_UNIT_MAX,
};

/* "seconds", "joules", …; "" for EVENT_UNIT_NONE. */
const char *event_unit_name(enum event_unit unit);

/* Turns a sysfs unit ("Joules", "MiB", "ns", …; NULL: none) and scale into a base unit and its scale; an
 * unknown unit stays EVENT_UNIT_NONE with the scale as it was. */
enum event_unit event_unit_parse(const char *unit, double *scale);
