/* SPDX-License-Identifier: MIT */

#include "web/http/head-check.h"

#include "base/util/text.h"

#include <string.h>
#include <strings.h>

/* The first version of libmicrohttpd that is strict by itself. */
#define STRICT_VERSION "0.9.77"

struct head_check {
	const char *problem; /* NULL: none so far */
	const char *end;     /* behind the last part; NULL: the layout is not known */
	unsigned hosts, lengths;
	bool has_body;
};

static const char line_ends[] = "a line of the request does not end with CR LF, is folded, or contains a NUL";

/* A token of RFC 9110 section 5.6.2. */
static bool is_token(const char *text, size_t n)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < n; i++) {
		char lower = (char)(text[i] | 0x20);
		bool alphanumeric = (lower >= 'a' && lower <= 'z') || (text[i] >= '0' && text[i] <= '9');

		if (!alphanumeric && (text[i] == '\0' || !strchr(others, text[i])))
			return false;
	}
	return n > 0;
}

static bool is_text(const char *text, size_t n)
{
	return !memchr(text, '\0', n) && !memchr(text, '\r', n) && !memchr(text, '\n', n);
}

static bool is_named(const char *name, size_t n, const char *wanted)
{
	return n == strlen(wanted) && strncasecmp(name, wanted, n) == 0;
}

/* Between a name and its value: the colon, which has become NUL, and blanks. */
static bool is_colon(const char *text, const char *value)
{
	if (text >= value || *text != '\0')
		return false;
	for (text++; text < value; text++)
		if (*text != ' ' && *text != '\t')
			return false;
	return true;
}

/* Is the field a line of its own, right behind the last part? */
static bool is_in_place(const struct head_check *check, const char *name, size_t name_size, const char *value)
{
	return name == check->end + strlen("\r\n") && is_colon(name + name_size, value);
}

static void note_field(struct head_check *check, const char *name, size_t name_size, const char *value, size_t n)
{
	if (is_named(name, name_size, MHD_HTTP_HEADER_HOST)) {
		check->hosts++;
	} else if (is_named(name, name_size, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
		check->lengths++;
		check->has_body |= n != 1 || *value != '0';
	} else if (is_named(name, name_size, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
		/* Together with a Content-Length it is as bad as a second one. */
		check->lengths++;
		check->has_body = true;
	}
}

static enum MHD_Result on_field(void *userdata, enum MHD_ValueKind kind, const char *name, size_t name_size,
				const char *value, size_t value_size)
{
	struct head_check *check = userdata;

	(void)kind;
	value = value ?: "";
	if (!is_token(name, name_size))
		check->problem = "a header of the request has no valid name";
	else if (!is_text(value, value_size) || (check->end && !is_in_place(check, name, name_size, value)))
		check->problem = line_ends;
	if (check->problem)
		return MHD_NO;
	if (check->end)
		check->end = value + value_size;
	note_field(check, name, name_size, value, value_size);
	return MHD_YES;
}

static bool is_layout_known(void)
{
	return strverscmp(MHD_get_version(), STRICT_VERSION) < 0;
}

static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == 0x7f)
			return true;
	return false;
}

/* The request line: single spaces between its parts, which have become NUL. */
static void check_line(struct head_check *check, const struct request_line *line)
{
	if (has_control(line->target))
		check->problem = "the target of the request contains a space or a control character";
	if (check->problem || !is_layout_known())
		return;
	if (line->version != line->method + strlen(line->method) + 1 + strlen(line->target) + 1)
		check->problem = "the request line is not a method, a target and a version with one space between them";
	check->end = line->version + strlen(line->version);
}

/* The empty line that ends the head. */
static void check_end(struct head_check *check, struct MHD_Connection *connection, const char *begin)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

	if (check->end && info && check->end + strlen("\r\n\r\n") != begin + info->header_size)
		check->problem = line_ends;
}

static void check_fields(struct head_check *check, const char *version, bool takes_body)
{
	if (check->hosts > 1 || (check->hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0))
		check->problem = "the request needs one Host header";
	else if (check->lengths > 1)
		check->problem = "the request has more than one Content-Length or Transfer-Encoding";
	else if (check->has_body && !takes_body)
		check->problem = "a GET or HEAD must not have a body";
}

const char *head_check(struct MHD_Connection *connection, const struct request_line *line, bool takes_body)
{
	struct head_check check = {};

	check_line(&check, line);
	if (!check.problem)
		(void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, on_field, &check);
	if (!check.problem)
		check_end(&check, connection, line->method);
	if (!check.problem)
		check_fields(&check, line->version, takes_body);
	return check.problem;
}
