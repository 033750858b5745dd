/* SPDX-License-Identifier: MIT */

#include "web/api/response.h"

#include "base/util/escape.h"

#include <string.h>

void response_release(struct response *response)
{
	buf_release(&response->body);
	response->shared = blob_unref(response->shared);
}

void response_set_error(struct response *ret, const char *path, unsigned status, const char *sentence)
{
	bool json = strncmp(path, "/api/", strlen("/api/")) == 0;

	response_release(ret);
	ret->status = status;
	ret->encoding = ret->vary = ret->retry_after = NULL;
	ret->type = json ? RESPONSE_JSON_TYPE : RESPONSE_TEXT_TYPE;
	buf_str(&ret->body, json ? "{\"error\":\"" : "");
	/* The sentence may contain foreign text, cut in the middle of a character. */
	(json ? escape_json : escape_help)(&ret->body, sentence);
	buf_str(&ret->body, json ? "\"}\n" : "\n");
}
