/* SPDX-License-Identifier: MIT */

#include "web/api/request-target.h"

#include "base/util/text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool is_utf8(const char *text)
{
	for (size_t n; *text; text += n) {
		n = utf8_length(text);
		if (n == 0)
			return false;
	}
	return true;
}

/* Decodes n bytes of percent-encoding; in a query, '+' is a space. -EINVAL: malformed, a NUL, or not UTF-8. */
static int percent_decode(char **ret, const char *text, size_t n, bool query)
{
	_cleanup_(freep) char *decoded = malloc(n + 1);
	char *p = decoded;

	if (!decoded)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int high, low;

		if (text[i] != '%') {
			*p++ = query && text[i] == '+' ? ' ' : text[i];
			continue;
		}
		high = i + 2 < n ? hex_digit(text[i + 1]) : -1;
		low = i + 2 < n ? hex_digit(text[i + 2]) : -1;
		if (high < 0 || low < 0 || (high == 0 && low == 0))
			return -EINVAL;
		*p++ = (char)(high << 4 | low);
		i += 2;
	}
	*p = '\0';
	if (!is_utf8(decoded))
		return -EINVAL;
	*ret = steal_ptr(decoded);
	return 0;
}

int target_path(const char *target, char **ret, struct reason *why)
{
	static const char scheme[] = "http://";
	int r;

	if (strncasecmp(target, scheme, strlen(scheme)) == 0) {
		target += strlen(scheme);
		target += strcspn(target, "/?");
		if (*target != '/')
			target = "/";
	}
	r = percent_decode(ret, target, strcspn(target, "?"), false);
	return r == -EINVAL ? reason_set(why, r, "the path is not valid percent-encoded UTF-8") : r;
}

void parameters_release(struct parameters *parameters)
{
	for (size_t i = 0; i < parameters->nr; i++) {
		free(parameters->items[i].name);
		free(parameters->items[i].value);
	}
	parameters->nr = 0;
}

static const struct parameter *parameter_find(const struct parameters *parameters, const char *name)
{
	for (size_t i = 0; i < parameters->nr; i++)
		if (strcmp(parameters->items[i].name, name) == 0)
			return &parameters->items[i];
	return NULL;
}

static int parameter_add(struct parameters *parameters, const char *text, size_t n, const char *repeatable,
			 struct reason *why)
{
	const char *equals = memchr(text, '=', n);
	size_t name_length = equals ? (size_t)(equals - text) : n;
	_cleanup_(freep) char *name = NULL, *value = NULL;
	int r;

	if (n > PARAMETER_MAX)
		return reason_set(why, -EINVAL, "a query parameter is longer than %d bytes", PARAMETER_MAX);
	if (parameters->nr == PARAMETERS_MAX)
		return reason_set(why, -EINVAL, "more than %d query parameters", PARAMETERS_MAX);
	r = percent_decode(&name, text, name_length, true);
	if (r == 0)
		r = equals ? percent_decode(&value, equals + 1, n - name_length - 1, true) :
			     percent_decode(&value, "", 0, true);
	if (r == -EINVAL)
		return reason_set(why, r, "the query is not valid percent-encoded UTF-8");
	if (r < 0)
		return r;
	if (parameter_find(parameters, name) && !(repeatable && strcmp(name, repeatable) == 0))
		return reason_set(why, -EINVAL, "query parameter '%s' is given twice", name);

	parameters->items[parameters->nr++] = (struct parameter){ .name = steal_ptr(name), .value = steal_ptr(value) };
	return 0;
}

int target_parameters(const char *target, const char *repeatable, struct parameters *ret, struct reason *why)
{
	const char *text = strchr(target, '?');
	_cleanup_(parameters_release) struct parameters parameters = {};

	for (text = text ? text + 1 : ""; *text;) {
		size_t n = strcspn(text, "&");
		int r = n ? parameter_add(&parameters, text, n, repeatable, why) : 0;

		if (r < 0)
			return r;
		text += n + (text[n] == '&');
	}
	*ret = steal_struct(parameters);
	return 0;
}
