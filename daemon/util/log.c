/* SPDX-License-Identifier: MIT */

#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* The one variable at file scope in the daemon, since the log belongs to the process. */
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

void log_line(int priority, const char *format, ...)
{
	char text[2048];
	va_list ap;
	int n, m;

	if (priority > max_priority)
		return;

	n = stderr_is_journal() ? snprintf(text, sizeof(text), "<%d>", priority) :
				  snprintf(text, sizeof(text), "perfmond: ");
	va_start(ap, format);
	m = vsnprintf(text + n, sizeof(text) - (size_t)n - 1, format, ap);
	va_end(ap);
	if (m < 0)
		return;

	/* The text can contain foreign bytes (a cgroup's name, a config line): no newline or escape may get through. */
	for (char *p = text + n; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	n = (int)strlen(text);
	text[n++] = '\n';
	(void)!write(STDERR_FILENO, text, (size_t)n);
}
