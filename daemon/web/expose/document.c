/* SPDX-License-Identifier: MIT */

#include "web/expose/document.h"

#include "base/util/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

json_t *document_text(const char *text)
{
	_cleanup_(freep) char *printable = NULL;
	json_t *json;

	if (!text)
		return json_null();
	json = json_string(text);
	if (json)
		return json;
	printable = utf8_printable(text);
	return printable ? json_string(printable) : NULL;
}

json_t *document_u64(uint64_t v)
{
	return v <= INT64_MAX ? json_integer((json_int_t)v) : json_real((double)v);
}

json_t *document_hex(uint64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "0x%" PRIx64, v);
	return json_string(text);
}

json_t *document_real(double v)
{
	if (!isfinite(v))
		return json_null();
	return v == floor(v) && fabs(v) < 0x1p53 ? json_integer((json_int_t)v) : json_real(v);
}

json_t *document_seconds(uint64_t ns)
{
	return document_real((double)ns / 1e9);
}

json_t *document_cpus(const struct cpulist *cpus)
{
	_cleanup_(freep) char *list = cpulist_format(cpus);

	return list ? json_string(list) : NULL;
}

static int add_bytes(const char *bytes, size_t n, void *userdata)
{
	struct buf *out = userdata;

	buf_add(out, bytes, n);
	return out->failed ? -1 : 0;
}

int document_write(struct buf *out, json_t *root)
{
	int r = root ? json_dump_callback(root, add_bytes, out, JSON_COMPACT | JSON_REAL_PRECISION(15)) : -1;

	json_decref(root);
	buf_char(out, '\n');
	return buf_finish(out, r < 0 && !out->failed ? -ENOMEM : 0);
}
