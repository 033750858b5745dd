/* SPDX-License-Identifier: MIT */

#include "web/page.h"

#include <errno.h>

int page_write(struct buf *out)
{
	buf_add(out, page_html, page_html_size);
	if (!out->failed)
		return 0;
	buf_release(out);
	return -ENOMEM;
}
