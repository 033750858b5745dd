/* SPDX-License-Identifier: MIT */

#include "base/util/escape.h"

#include "base/util/text.h"

/* The replacement of each byte below 128; NULL: the byte itself. */
typedef const char *const escape_table[128];

/* The length of the run from p on that needs no escaping: it is copied in one piece. */
static size_t unescaped_length(const char *p, const escape_table table)
{
	size_t n = 0;

	while (p[n] && !((unsigned char)p[n] & 0x80) && !table[(unsigned char)p[n]])
		n++;
	return n;
}

static void escape_text(struct buf *out, const char *text, const escape_table table)
{
	while (*text) {
		size_t n = unescaped_length(text, table);
		unsigned char c;

		buf_add(out, text, n);
		text += n;
		c = (unsigned char)*text;
		if (!c)
			break;
		if (c < 0x80) {
			buf_str(out, table[c]);
			text++;
			continue;
		}
		n = utf8_length(text);
		if (n)
			buf_add(out, text, n);
		else
			buf_printf(out, "\xef\xbf\xbd%02x", c);
		text += n ? n : 1;
	}
}

void escape_label(struct buf *out, const char *text)
{
	static const escape_table table = { ['\\'] = "\\\\", ['"'] = "\\\"", ['\n'] = "\\n" };

	escape_text(out, text, table);
}

void escape_help(struct buf *out, const char *text)
{
	static const escape_table table = { ['\\'] = "\\\\", ['\n'] = "\\n" };

	escape_text(out, text, table);
}

void escape_json(struct buf *out, const char *text)
{
	/* RFC 8259: all control characters, the quote and the backslash. */
	static const escape_table table = {
		[0x01] = "\\u0001", [0x02] = "\\u0002", [0x03] = "\\u0003", [0x04] = "\\u0004", [0x05] = "\\u0005",
		[0x06] = "\\u0006", [0x07] = "\\u0007", ['\b'] = "\\b",	    ['\t'] = "\\t",	['\n'] = "\\n",
		[0x0b] = "\\u000b", ['\f'] = "\\f",	['\r'] = "\\r",	    [0x0e] = "\\u000e", [0x0f] = "\\u000f",
		[0x10] = "\\u0010", [0x11] = "\\u0011", [0x12] = "\\u0012", [0x13] = "\\u0013", [0x14] = "\\u0014",
		[0x15] = "\\u0015", [0x16] = "\\u0016", [0x17] = "\\u0017", [0x18] = "\\u0018", [0x19] = "\\u0019",
		[0x1a] = "\\u001a", [0x1b] = "\\u001b", [0x1c] = "\\u001c", [0x1d] = "\\u001d", [0x1e] = "\\u001e",
		[0x1f] = "\\u001f", ['"'] = "\\\"",	['\\'] = "\\\\",
	};

	escape_text(out, text, table);
}

void escape_json_string(struct buf *out, const char *text)
{
	buf_char(out, '"');
	escape_json(out, text);
	buf_char(out, '"');
}
