/* SPDX-License-Identifier: MIT */

/* log: what goes to standard error, and what to the journal, whose functions are taken the place of. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/util/buf.h"
#include "base/util/log.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

static struct {
	bool has_socket;
	int result;
	struct buf entry; /* the fields, a line each */
} journal;

int __wrap_sd_journal_sendv(const struct iovec *parts, int nr);
int __wrap_access(const char *path, int mode);
int __real_access(const char *path, int mode);

int __wrap_sd_journal_sendv(const struct iovec *parts, int nr)
{
	for (int i = 0; i < nr; i++) {
		buf_add(&journal.entry, parts[i].iov_base, parts[i].iov_len);
		buf_char(&journal.entry, '\n');
	}
	return journal.result;
}

int __wrap_access(const char *path, int mode)
{
	if (strcmp(path, "/run/systemd/journal/socket") != 0)
		return __real_access(path, mode);
	return journal.has_socket ? 0 : -1;
}

static void name_stream(int fd)
{
	char stream[64];
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	(void)snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
}

/* Standard error goes into a file while a line is logged; returns what is there. */
static char *logged(bool is_journal, size_t nr, const char *text)
{
	const struct log_field fields[] = { { "EVENT", "cycles" }, { "EVENT", "a\nb" }, { "SCOPE", "cpu" } };
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO);
	char *ret = calloc(1, 4096);

	assert_non_null(file);
	assert_non_null(ret);
	name_stream(is_journal ? fileno(file) : saved);
	buf_release(&journal.entry);
	assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
	log_fields(fields, nr, LOG_NOTICE, "%s %d", text, 7);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	(void)close(saved);
	rewind(file);
	(void)!fread(ret, 1, 4095, file);
	(void)fclose(file);
	return ret;
}

static void expect_logged(bool is_journal, const char *text, const char *line, const char *entry)
{
	_cleanup_(freep) char *found = logged(is_journal, 3, text);

	assert_string_equal(found, line);
	assert_int_equal(journal.entry.len, strlen(entry));
	if (*entry)
		assert_memory_equal(journal.entry.data, entry, strlen(entry));
}

static void test_where_lines_go(_unused_ void **state)
{
	static const char entry[] = "MESSAGE=x y 7\nPRIORITY=5\nSYSLOG_IDENTIFIER=perfmond\n"
				    "EVENT=cycles\nEVENT=a\nb\nSCOPE=cpu\n";

	journal.has_socket = true;
	expect_logged(false, "x", "perfmond: x 7\n", "");
	expect_logged(true, "x\ny", "", entry);
	/* It does not take it, or is not to be reached: nothing is lost. */
	journal.result = -ENOBUFS;
	expect_logged(true, "x\ny", "<5>x y 7\n", entry);
	journal.result = 0;
	journal.has_socket = false;
	expect_logged(true, "x\x1b[1m", "<5>x [1m 7\n", "");
	expect_logged(true, "x\xc2\x9b[1m\x9b[1m", "<5>x  [1m [1m 7\n", "");
	buf_release(&journal.entry);
}

static void test_levels(_unused_ void **state)
{
	_cleanup_(freep) char *found = NULL;

	log_set_level(LOG_WARNING);
	found = logged(false, 3, "x");
	log_set_level(LOG_INFO);
	assert_string_equal(found, "");
}

/* Long lines are cut, and fields beyond the bound are left out. */
static void test_bounds(_unused_ void **state)
{
	_cleanup_(freep) char *text = NULL, *found = NULL;
	struct log_field many[LOG_FIELDS_MAX + 1];
	size_t lines = 0;

	assert_true(asprintf(&text, "%5000d", 1) > 0);
	found = logged(false, 0, text);
	assert_int_equal(strlen(found), strlen("perfmond: ") + 2047 + 1);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct log_field){ "N", "1" };
	journal.has_socket = true;
	name_stream(STDERR_FILENO);
	log_fields(many, ARRAY_SIZE(many), LOG_NOTICE, "many");
	for (size_t i = 0; i < journal.entry.len; i++)
		lines += journal.entry.data[i] == '\n';
	assert_int_equal(lines, 3 + LOG_FIELDS_MAX);
	buf_release(&journal.entry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_where_lines_go),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
