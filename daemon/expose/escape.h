/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Text between the quotes of a format. What is added is valid UTF-8 whatever the text is: labels and
 * sentences mostly are, but a group's name or an event is what someone has written into a file. A byte
 * that is no part of a sequence becomes U+FFFD and its two hex digits, as in labels.
 */

#include "util/buf.h"

/* A label's value, in the Prometheus text format and in OpenMetrics, and a HELP line's text in the latter: \\, \" and
 * \n. */
void escape_label(struct buf *out, const char *text);

/* The text of a HELP line in the Prometheus text format: \\ and \n. */
void escape_help(struct buf *out, const char *text);

/* The inside of a JSON string. */
void escape_json(struct buf *out, const char *text);
