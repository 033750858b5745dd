/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Text between the quotes of a format. The result is valid UTF-8 for any text: names of groups and events come from
 * files and can contain any bytes. A byte that is not part of a valid sequence becomes U+FFFD and its two hex digits,
 * as in labels.
 */

#include "base/util/buf.h"

/* The value of a label in both text formats, and the text of a HELP line in OpenMetrics: escapes \, " and LF. */
void escape_label(struct buf *out, const char *text);

/* The text of a HELP line in the Prometheus text format: escapes \ and LF. */
void escape_help(struct buf *out, const char *text);

/* The inside of a JSON string; and a whole one, with its quotes. */
void escape_json(struct buf *out, const char *text);
void escape_json_string(struct buf *out, const char *text);
