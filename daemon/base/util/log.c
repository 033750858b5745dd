/* SPDX-License-Identifier: MIT */

#include "base/util/log.h"

#include "base/util/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

/* Bytes of a line; longer ones are cut. */
#define LINE_MAX_BYTES 2048

/* At file scope, since the log belongs to the process. */
static int max_priority = LOG_INFO;

void log_set_level(int priority)
{
	max_priority = priority;
}

int log_level_parse(const char *text, int *ret)
{
	static const char *const names[] = { "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(text, names[i]) == 0 || (text[0] == (char)('0' + i) && !text[1])) {
			*ret = (int)i;
			return 0;
		}
	if (strcmp(text, "error") == 0) {
		*ret = LOG_ERR;
		return 0;
	}
	return -EINVAL;
}

/* systemd.exec(5), $JOURNAL_STREAM: device and inode of the stream that is connected to the journal. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uint64_t dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%" SCNu64 ":%" SCNu64, &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	       st.st_dev == dev && st.st_ino == ino;
}

/* The text can contain foreign bytes (a cgroup's name, a config line): no newline or escape may get through. */
_printf_(2, 0) static void format_text(char text[static LINE_MAX_BYTES], const char *format, va_list ap)
{
	(void)vsnprintf(text, LINE_MAX_BYTES, format, ap);
	(void)text_make_plain(text, ' ');
}

static void write_line(int priority, const char *text)
{
	char line[LINE_MAX_BYTES + 32];
	int n = stderr_is_journal() ? snprintf(line, sizeof(line), "<%d>%s\n", priority, text) :
				      snprintf(line, sizeof(line), "perfmond: %s\n", text);

	(void)!write(STDERR_FILENO, line, (size_t)n);
}

/* "NAME=value" into part, to be freed; false: there is no memory. */
static bool add_part(struct iovec *part, const char *name, const char *value)
{
	char *text;
	int n = asprintf(&text, "%s=%s", name, value);

	if (n >= 0)
		*part = (struct iovec){ .iov_base = text, .iov_len = (size_t)n };
	return n >= 0;
}

/* False: the journal did not get it. */
static bool send_entry(int priority, const char *text, const struct log_field *fields, size_t nr)
{
	const char number[] = { (char)('0' + priority), '\0' };
	const struct log_field own[] = {
		{ "MESSAGE", text },
		{ "PRIORITY", number },
		{ "SYSLOG_IDENTIFIER", "perfmond" },
	};
	struct iovec parts[ARRAY_SIZE(own) + LOG_FIELDS_MAX];
	size_t n = 0, wanted = ARRAY_SIZE(own) + (nr < LOG_FIELDS_MAX ? nr : LOG_FIELDS_MAX);
	bool sent = false;

	while (n < wanted) {
		const struct log_field *field = n < ARRAY_SIZE(own) ? &own[n] : &fields[n - ARRAY_SIZE(own)];

		if (!add_part(&parts[n], field->name, field->value))
			break;
		n++;
	}
	/* Without a socket sd_journal_sendv() drops the entry, and says that it was sent. */
	if (n == wanted && access("/run/systemd/journal/socket", W_OK) == 0)
		sent = sd_journal_sendv(parts, (int)n) >= 0;
	while (n > 0)
		free(parts[--n].iov_base);
	return sent;
}

void log_fields(const struct log_field *fields, size_t nr, int priority, const char *format, ...)
{
	char text[LINE_MAX_BYTES];
	va_list ap;

	if (priority > max_priority)
		return;
	va_start(ap, format);
	format_text(text, format, ap);
	va_end(ap);
	if (!nr || !stderr_is_journal() || !send_entry(priority, text, fields, nr))
		write_line(priority, text);
}
