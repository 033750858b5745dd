/* SPDX-License-Identifier: MIT */

/* util: text, cpulist, buf, pack, file, reason. */

#include "base/util/buf.h"
#include "base/util/cpulist.h"
#include "base/util/file.h"
#include "base/util/moment.h"
#include "base/util/pack.h"
#include "base/util/reason.h"
#include "base/util/text.h"
#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

/* --- numbers, words, durations */

static void test_u64(_unused_ void **state)
{
	static const struct {
		const char *text;
		int r;
		uint64_t v;
	} cases[] = {
		{ "0", 0, 0 },
		{ "42", 0, 42 },
		{ "007", 0, 7 },
		{ "0x1fG", -EINVAL, 0 },
		{ "0x1F", 0, 31 },
		{ "0X1f", 0, 31 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "0x10000000000000000", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "0x", -EINVAL, 0 },
		{ "0x-1", -EINVAL, 0 },
		{ "1.0", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 12345;

		assert_int_equal(parse_u64(cases[i].text, &v), cases[i].r);
		assert_int_equal(v, cases[i].r ? 12345 : cases[i].v);
	}
}

static void test_bool(_unused_ void **state)
{
	static const char *const yes[] = { "yes", "true", "on", "1", "YES", "True" };
	static const char *const no[] = { "no", "false", "off", "0", "No" };
	static const char *const neither[] = { "", "y", "n", "2", "yes ", "yesno", "enabled" };
	bool v;

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		v = false;
		assert_int_equal(parse_bool(yes[i], &v), 0);
		assert_true(v);
	}
	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		v = true;
		assert_int_equal(parse_bool(no[i], &v), 0);
		assert_false(v);
	}
	for (size_t i = 0; i < ARRAY_SIZE(neither); i++) {
		v = true;
		assert_int_equal(parse_bool(neither[i], &v), -EINVAL);
		assert_true(v);
	}
}

static void test_duration(_unused_ void **state)
{
	static const struct {
		const char *text;
		int r;
		uint64_t ns;
	} cases[] = {
		{ "0", 0, 0 },
		{ "1", 0, 1000000000 },
		{ "1s", 0, 1000000000 },
		{ "250ms", 0, 250000000 },
		{ "250 ms", 0, 250000000 },
		{ "7us", 0, 7000 },
		{ "7ns", 0, 7 },
		{ "5min", 0, 300000000000 },
		{ "1.5s", 0, 1500000000 },
		{ "0.1s", 0, 100000000 },
		{ "1h", 0, 3600000000000 },
		{ "2d", 0, 172800000000000 },
		{ "100000d", 0, UINT64_C(8640000000000000000) },
		{ "200000d", -ERANGE, 0 },
		{ "99999999999999999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "+1s", -EINVAL, 0 },
		{ " 1s", -EINVAL, 0 },
		{ "1s ", -EINVAL, 0 },
		{ "1m", -EINVAL, 0 },
		{ "1S", -EINVAL, 0 },
		{ "1.2.3s", -EINVAL, 0 },
		{ ".5s", -EINVAL, 0 },
		{ "1e3s", -EINVAL, 0 },
		{ "0x10s", -EINVAL, 0 },
		{ "1,5s", -EINVAL, 0 },
		{ "5 parsecs", -EINVAL, 0 },
		{ "inf", -EINVAL, 0 },
		{ "1s1s", -EINVAL, 0 },
		{ "000000000000000000000000000000001s", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 12345;
		int r = parse_duration(cases[i].text, &ns);

		if (r != cases[i].r || ns != (r ? 12345 : cases[i].ns))
			fail_msg("'%s': %d, %llu", cases[i].text, r, (unsigned long long)ns);
	}
}

static void test_moment(_unused_ void **state)
{
	static const struct {
		const char *text;
		enum moment_kind kind; /* MOMENT_NONE: it is refused */
		uint64_t ns;
	} cases[] = {
		{ "now", MOMENT_AGO, 0 },
		{ "-5min", MOMENT_AGO, 300000000000 },
		{ "-1.5", MOMENT_AGO, 1500000000 },
		{ "-1h", MOMENT_AGO, 3600000000000 },
		{ "-0", MOMENT_AGO, 0 },
		{ "0", MOMENT_SINCE_EPOCH, 0 },
		{ "1700000000.5", MOMENT_SINCE_EPOCH, 1700000000500000000 },
		{ "99999999999", MOMENT_SINCE_EPOCH, UINT64_MAX },
		{ "", MOMENT_NONE, 0 },
		{ "-", MOMENT_NONE, 0 },
		{ "--1", MOMENT_NONE, 0 },
		{ "+1", MOMENT_NONE, 0 },
		{ "1e3", MOMENT_NONE, 0 },
		{ "nan", MOMENT_NONE, 0 },
		{ "1.2.3", MOMENT_NONE, 0 },
		{ "5min", MOMENT_NONE, 0 },
		{ "-5apples", MOMENT_NONE, 0 },
		{ "yesterday", MOMENT_NONE, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct moment moment = {};

		assert_int_equal(moment_parse(&moment, cases[i].text), cases[i].kind ? 0 : -EINVAL);
		assert_int_equal(moment.kind, cases[i].kind);
		assert_int_equal(moment.ns, cases[i].ns);
	}
}

static void test_share(_unused_ void **state)
{
	static const struct {
		const char *text;
		int r;
		uint64_t ppm;
	} cases[] = {
		{ "1%", 0, 10000 },	     { "0.5%", 0, 5000 },      { "100 %", 0, 1000000 }, { "0%", 0, 0 },
		{ "0.0001%", 0, 1 },	     { "100.1%", -ERANGE, 0 }, { "1", -EINVAL, 0 },	{ "%", -EINVAL, 0 },
		{ "-1%", -EINVAL, 0 },	     { "1%%", -EINVAL, 0 },    { "1e1%", -EINVAL, 0 },	{ "", -EINVAL, 0 },
		{ "1 percent", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ppm = 12345;
		int r = parse_share(cases[i].text, &ppm);

		if (r != cases[i].r || ppm != (r ? 12345 : cases[i].ppm))
			fail_msg("'%s': %d, %llu", cases[i].text, r, (unsigned long long)ppm);
	}
}

/* --- UTF-8 and what is written with it */

static void test_utf8_length(_unused_ void **state)
{
	static const struct {
		const char *s;
		size_t n;
	} cases[] = {
		{ "", 0 },
		{ "a", 1 },
		{ "\x7f", 1 },
		{ "\x80", 0 },
		{ "\xc1\xbf", 0 }, /* overlong */
		{ "\xc2\x80", 2 },
		{ "\xc3", 0 },
		{ "\xc3x", 0 },
		{ "\xe0\x9f\xbf", 0 }, /* overlong */
		{ "\xe0\xa0\x80", 3 },
		{ "\xed\x9f\xbf", 3 },
		{ "\xed\xa0\x80", 0 }, /* a surrogate */
		{ "\xef\xbf\xbd", 3 },
		{ "\xe2\x82", 0 },
		{ "\xf0\x8f\xbf\xbf", 0 }, /* overlong */
		{ "\xf0\x9f\x98\x80", 4 },
		{ "\xf4\x8f\xbf\xbf", 4 },
		{ "\xf4\x90\x80\x80", 0 }, /* beyond Unicode */
		{ "\xf5\x80\x80\x80", 0 },
		{ "\xff", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (utf8_length(cases[i].s) != cases[i].n)
			fail_msg("case %zu: %zu", i, utf8_length(cases[i].s));
}

static void test_utf8_printable(_unused_ void **state)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "/system.slice", "/system.slice" },
		{ "a\n\"b\\", "a\n\"b\\" },
		{ "\xc3\xbc", "\xc3\xbc" },
		{ "a\xff"
		  "b",
		  "a\xef\xbf\xbd"
		  "ffb" },
		{ "\xc3", "\xef\xbf\xbd"
			  "c3" },
		/* What was escaped already is escaped again, so that it can't be taken for another. */
		{ "\xef\xbf\xbd"
		  "ff",
		  "\xef\xbf\xbd"
		  "ef\xef\xbf\xbd"
		  "bf\xef\xbf\xbd"
		  "bdff" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *made = utf8_printable(cases[i][0]);

		assert_string_equal(made, cases[i][1]);
	}
}

static void test_excerpt(_unused_ void **state)
{
	char out[EXCERPT_MAX], text[200];

	assert_string_equal(text_excerpt(out, ""), "");
	assert_string_equal(text_excerpt(out, "a b"), "a b");
	assert_string_equal(text_excerpt(out, "a\n\x1b\x7f\xff"
					      "b"),
			    "a????b");
	assert_string_equal(text_excerpt(out, "\xc2\x9b"
					      "1m"),
			    "?1m");
	assert_string_equal(text_excerpt(out, "\xc3\xbc"), "\xc3\xbc");

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(strlen(text_excerpt(out, text)), EXCERPT_MAX - 1);
	assert_string_equal(out + EXCERPT_MAX - 6, "xx...");

	/* Whole characters only. */
	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xbc", 2);
	text_excerpt(out, text);
	assert_string_equal(out + strlen(out) - 5, "\xc3\xbc...");
	for (const char *p = out; *p; p += utf8_length(p))
		assert_true(utf8_length(p));
}

/* The forms in which editors save a text are one; all other bytes stay. */
static void test_unify_lines(_unused_ void **state)
{
#define BOM "\xef\xbb\xbf"
	static const char *const cases[][2] = {
		{ "", "" },
		{ "a\n\nb", "a\n\nb" },
		{ "a\r\n\r\nb\r\n", "a\n\nb\n" },
		{ "a\r", "a" },
		{ "\ra\rb\r\r\n", "\ra\rb\r\n" },
		{ BOM "a\n" BOM "b\r\n" BOM, "a\nb\n" },
		{ "a" BOM "\n \xef\xbb", "a" BOM "\n \xef\xbb" },
		{ "\xef\xbb", "\xef\xbb" },
	};
	char nul[] = "a\0\r\nb\0";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *text = strdup(cases[i][0]);
		size_t n = text_unify_lines(text, strlen(text));

		assert_int_equal(n, strlen(cases[i][1]));
		assert_memory_equal(text, cases[i][1], n);
	}
	assert_int_equal(text_unify_lines(nul, sizeof(nul) - 1), 5);
	assert_memory_equal(nul, "a\0\nb\0", 5);
	assert_int_equal(text_unify_lines(NULL, 0), 0);
}

/* Nothing that a terminal takes for a command: control characters of one byte and of two, and broken UTF-8. */
static void test_plain(_unused_ void **state)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "a b~", "a b~" },
		{ "\xc2\xa0\xc3\xbc\xef\xbf\xbd\xf0\x9f\x98\x80", "\xc2\xa0\xc3\xbc\xef\xbf\xbd\xf0\x9f\x98\x80" },
		{ "\x1b[1m\n\t\x7f", ".[1m..." },
		{ "\xc2\x80"
		  "a\xc2\x9b"
		  "1m\xc2\x9f",
		  "..a..1m.." },
		{ "\x9b"
		  "1m\xff\xc3",
		  ".1m.." },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *text = strdup(cases[i][0]);

		assert_int_equal(text_is_plain(text), strcmp(cases[i][0], cases[i][1]) == 0);
		assert_string_equal(text_make_plain(text, '.'), cases[i][1]);
		assert_true(text_is_plain(text));
	}
}

static void test_metric_name(_unused_ void **state)
{
	static const char *const cases[][2] = {
		{ "context-switches", "context_switches" },
		{ "sched:sched_switch", "sched_sched_switch" },
		{ "L1-dcache-load-misses", "l1_dcache_load_misses" },
		{ "msr/tsc/", "msr_tsc" },
		{ "r1A", "r1a" },
		{ "\xc3\xbc", "" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *made = metric_name(cases[i][0]);

		assert_string_equal(made, cases[i][1]);
	}
}

/* --- sets of CPUs */

static void test_cpulist(_unused_ void **state)
{
	static const struct {
		const char *text;
		int r;
		const char *formatted;
		size_t nr;
	} cases[] = {
		{ "", 0, "", 0 },
		{ "\n", 0, "", 0 },
		{ "0", 0, "0", 1 },
		{ "0-3,8", 0, "0-3,8", 5 },
		{ "0-3,8\n", 0, "0-3,8", 5 },
		{ "8,0-3", 0, "0-3,8", 5 },
		{ "0-2,1-3,2", 0, "0-3", 4 },
		{ "1,3,5", 0, "1,3,5", 3 },
		{ "65535", 0, "65535", 1 },
		{ "65536", -EINVAL, NULL, 0 },
		{ "99999999999999999999", -EINVAL, NULL, 0 },
		{ "3-1", -EINVAL, NULL, 0 },
		{ "1-", -EINVAL, NULL, 0 },
		{ "-1", -EINVAL, NULL, 0 },
		{ "1,", -EINVAL, NULL, 0 },
		{ ",1", -EINVAL, NULL, 0 },
		{ "1,,2", -EINVAL, NULL, 0 },
		{ "1 2", -EINVAL, NULL, 0 },
		{ "1, 2", -EINVAL, NULL, 0 },
		{ " 1", -EINVAL, NULL, 0 },
		{ "a", -EINVAL, NULL, 0 },
		{ "0x1", -EINVAL, NULL, 0 },
		{ "1-2-3", -EINVAL, NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(cpulist_release) struct cpulist list = {};
		_cleanup_(freep) char *formatted = NULL;

		if (cpulist_parse(&list, cases[i].text) != cases[i].r)
			fail_msg("'%s'", cases[i].text);
		if (cases[i].r) {
			assert_null(list.cpu);
			continue;
		}
		assert_int_equal(list.nr, cases[i].nr);
		formatted = cpulist_format(&list);
		assert_string_equal(formatted, cases[i].formatted);
	}
}

static void test_cpulist_sets(_unused_ void **state)
{
	_cleanup_(cpulist_release) struct cpulist a = {}, b = {}, c = {}, none = {};

	assert_int_equal(cpulist_parse(&a, "1-3,7,64"), 0);
	assert_int_equal(cpulist_parse(&c, "1-3,7,65"), 0);
	assert_int_equal(cpulist_parse(&none, ""), 0);
	assert_int_equal(cpulist_copy(&b, &a), 0);
	assert_ptr_not_equal(a.cpu, b.cpu);
	assert_true(cpulist_equal(&a, &b));
	assert_false(cpulist_equal(&a, &c));
	assert_false(cpulist_equal(&a, &none));

	for (int cpu = -1; cpu < 70; cpu++) {
		assert_int_equal(cpulist_has(&a, cpu), (cpu >= 1 && cpu <= 3) || cpu == 7 || cpu == 64);
		assert_false(cpulist_has(&none, cpu));
	}
}

/* --- buffers */

static void test_cpulist_add(_unused_ void **state)
{
	static const int cpus[] = { 5, 0, 5, 65535, 3, 0, 4 };
	_cleanup_(cpulist_release) struct cpulist list = {};
	_cleanup_(freep) char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(cpus); i++) {
		assert_false(i == 0 && cpulist_has(&list, cpus[i]));
		assert_int_equal(cpulist_add(&list, cpus[i]), 0);
		assert_true(cpulist_has(&list, cpus[i]));
	}
	text = cpulist_format(&list);
	assert_string_equal(text, "0,3-5,65535");
}

static void test_buf(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	_cleanup_(freep) char *text = NULL;

	buf_str(&b, "a");
	buf_char(&b, 'b');
	buf_add(&b, "cd", 1);
	buf_printf(&b, "%d%s", 7, "x");
	buf_u64(&b, 0);
	buf_u64(&b, UINT64_MAX);
	assert_false(b.failed);
	text = buf_steal(&b);
	assert_string_equal(text, "abc7x018446744073709551615");
	assert_null(b.data);
	assert_int_equal(b.len, 0);
}

static void test_buf_grows(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf b = {};

	for (int i = 0; i < 100000; i++)
		buf_char(&b, (char)('a' + i % 26));
	buf_printf(&b, "%0*d", 5000, 1);
	assert_false(b.failed);
	assert_int_equal(b.len, 105000);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(b.data[i], 'a' + i % 26);
	assert_int_equal(b.data[104999], '1');
}

static void test_buf_fails(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf b = {};

	buf_str(&b, "a");
	assert_false(buf_reserve(&b, SIZE_MAX));
	assert_true(b.failed);
	buf_str(&b, "b");
	buf_printf(&b, "c");
	assert_int_equal(b.len, 1);
	assert_null(buf_steal(&b));
	assert_null(b.data);
}

static void test_buf_double(_unused_ void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ 0.1, "0.1" },
		{ -2, "-2" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 0.1 + 0.2, "0.30000000000000004" },
		{ 9007199254740991.0, "9007199254740991" },
		{ 1e300, "1e+300" },
		{ 5e-324, "4.94065645841247e-324" },
		{ NAN, "NaN" },
		{ INFINITY, "+Inf" },
		{ -INFINITY, "-Inf" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_release) struct buf b = {};
		_cleanup_(freep) char *text = NULL;

		buf_double(&b, cases[i].v);
		text = buf_steal(&b);
		assert_string_equal(text, cases[i].text);
		if (!isnan(cases[i].v))
			assert_true(strtod(text, NULL) == cases[i].v);
	}
}

/* --- small files */

static void test_file(_unused_ void **state)
{
	struct scratch scratch;
	char *text = (char *)"untouched";

	scratch_make(&scratch);
	scratch_text(&scratch, "plain", " 0-3 \n\n");
	scratch_text(&scratch, "empty", "");
	scratch_write(&scratch, "binary", "a\0b", 3);
	scratch_text(&scratch, "long", "0123456789");
	assert_int_equal(mkfifo(scratch_path(&scratch, "fifo"), 0600), 0);

	assert_int_equal(read_text_file(AT_FDCWD, scratch_path(&scratch, "gone"), 100, &text), -ENOENT);
	assert_int_equal(read_text_file(AT_FDCWD, scratch.path, 100, &text), -EISDIR);
	assert_int_equal(read_text_file(AT_FDCWD, scratch_path(&scratch, "binary"), 100, &text), -EBADMSG);
	assert_int_equal(read_text_file(AT_FDCWD, scratch_path(&scratch, "long"), 9, &text), -EFBIG);
	assert_int_equal(read_text_file(AT_FDCWD, "/dev/zero", 100000, &text), -EFBIG);
	assert_string_equal(text, "untouched");

	assert_int_equal(read_text_file(AT_FDCWD, scratch_path(&scratch, "long"), 10, &text), 0);
	assert_string_equal(text, "0123456789");
	free(text);
	assert_int_equal(read_text_file(AT_FDCWD, scratch_path(&scratch, "plain"), 100, &text), 0);
	assert_string_equal(text, " 0-3");
	free(text);
	assert_int_equal(read_text_file(AT_FDCWD, scratch_path(&scratch, "empty"), 100, &text), 0);
	assert_string_equal(text, "");
	free(text);
	/* No writer: it must not wait for one. */
	assert_int_equal(read_text_file(AT_FDCWD, scratch_path(&scratch, "fifo"), 100, &text), 0);
	assert_string_equal(text, "");
	free(text);

	{
		_cleanup_(closep) int dir = open(scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_int_equal(read_text_file(dir, "plain", 100, &text), 0);
		assert_string_equal(text, " 0-3");
		free(text);
	}
	scratch_remove(&scratch);
}

static void test_writing(_unused_ void **state)
{
	_cleanup_(closep) int fd = memfd_create("test", MFD_CLOEXEC);
	int ends[2];
	char got[16];

	/* One after the other, … */
	assert_int_equal(write_all(fd, "abc", 3), 0);
	assert_int_equal(write_all(fd, "def", 3), 0);
	assert_int_equal(pread(fd, got, sizeof(got), 0), 6);
	assert_memory_equal(got, "abcdef", 6);
	/* … or over the beginning. */
	assert_int_equal(write_over(fd, "12", 2), 0);
	assert_int_equal(write_over(fd, "3", 1), 0);
	assert_int_equal(pread(fd, got, sizeof(got), 0), 6);
	assert_memory_equal(got, "32cdef", 6);

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write_all(ends[1], "abc", 3), 0);
	assert_int_equal(write_over(ends[1], "abc", 3), -ESPIPE);
	assert_int_equal(read(ends[0], got, sizeof(got)), 3);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_int_equal(write_all(-1, "abc", 3), -EBADF);
}

/* --- values as bytes */

static struct unpack unpack_all(const struct buf *b, size_t n)
{
	return (struct unpack){ .at = (const unsigned char *)b->data, .left = n };
}

static void test_pack(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	unsigned char bytes[10];
	struct unpack in;

	pack_u64(&b, 0);
	pack_u64(&b, UINT64_MAX);
	pack_text(&b, NULL);
	pack_text(&b, "");
	pack_text(&b, "1234567");
	pack_text(&b, "12345678\xff");
	pack_bytes(&b, "a\0b", 3);
	pack_bytes(&b, "abcdefghij\0\0\0", 13);
	assert_int_equal(b.len % 8, 0);
	in = unpack_all(&b, b.len);
	assert_int_equal(unpack_u64(&in), 0);
	assert_int_equal(unpack_u64(&in), UINT64_MAX);
	assert_null(unpack_text(&in));
	for (size_t i = 0; i < 3; i++) {
		static const char *const texts[] = { "", "1234567", "12345678\xff" };
		_cleanup_(freep) char *text = unpack_text(&in);

		assert_string_equal(text, texts[i]);
	}
	memset(bytes, 'x', sizeof(bytes));
	unpack_bytes(&in, bytes, sizeof(bytes));
	assert_memory_equal(bytes, "a\0b\0\0\0\0\0\0\0", sizeof(bytes));
	unpack_bytes(&in, bytes, sizeof(bytes));
	assert_memory_equal(bytes, "abcdefghij", sizeof(bytes));
	assert_int_equal(in.left, 0);
	assert_false(in.bad);
	assert_int_equal(unpack_u64(&in), 0);
	assert_true(in.bad);
}

/* What is cut short anywhere is bad, and empty from there on. */
static void test_pack_cut(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf b = {};
	char bytes[16];

	pack_text(&b, "text");
	pack_bytes(&b, "123456789", 9);
	pack_u64(&b, 7);
	for (size_t n = 0; n < b.len; n++) {
		_cleanup_(freep) unsigned char *cut = malloc(n + 1);
		struct unpack in = { .at = cut, .left = n };
		_cleanup_(freep) char *text = NULL;

		assert_non_null(cut);
		memcpy(cut, b.data, n);
		text = unpack_text(&in);
		assert_int_equal(text != NULL, n >= 16);
		unpack_bytes(&in, bytes, sizeof(bytes));
		assert_int_equal(bytes[0], n >= 40 ? '1' : 0);
		assert_int_equal(unpack_u64(&in), 0);
		assert_true(in.bad);
		assert_int_equal(unpack_nr(&in, 1), 0);
	}
}

/* A number that is out of its bounds, and a length that is. */
static void test_pack_bounds(_unused_ void **state)
{
	static const struct {
		uint64_t number;
		bool at_most, nr, bytes, text; /* is taken */
	} cases[] = {
		{ 0, true, true, true, true },
		{ 3, true, true, true, true },
		{ 4, false, false, true, true },
		{ 8, false, false, true, false }, /* there is a NUL in it */
		{ 9, false, false, false, false },
		{ 24, false, false, false, false },
		{ 25, false, false, false, false },
		{ UINT64_MAX - 7, false, false, false, false },
		{ UINT64_MAX - 1, false, false, false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_release) struct buf b = {};
		_cleanup_(freep) char *text = NULL;
		char bytes[8];
		struct unpack in;

		pack_u64(&b, cases[i].number);
		buf_add(&b, "abcd\0\0\0\0abcdabcdabcdabcd", 24);
		in = unpack_all(&b, b.len);
		assert_int_equal(unpack_at_most(&in, 3), cases[i].at_most ? cases[i].number : 0);
		assert_int_equal(in.bad, !cases[i].at_most);
		in = unpack_all(&b, b.len);
		assert_int_equal(unpack_nr(&in, 8), cases[i].nr ? cases[i].number : 0);
		assert_int_equal(in.bad, !cases[i].nr);
		in = unpack_all(&b, b.len);
		unpack_bytes(&in, bytes, sizeof(bytes));
		assert_int_equal(in.bad, !cases[i].bytes);
		in = unpack_all(&b, b.len);
		text = unpack_text(&in);
		assert_int_equal(text != NULL, cases[i].text);
		assert_int_equal(in.bad, !cases[i].text);
	}
}

/* --- sentences */

static void test_reason(_unused_ void **state)
{
	struct reason why;
	char text[2 * REASON_MAX];

	assert_int_equal(reason_set(NULL, -EIO, "%d", 1), -EIO);
	assert_int_equal(reason_prefix(NULL, -EIO, "%d", 1), -EIO);

	assert_int_equal(reason_set(&why, -EIO, "%s went %d", "it", 1), -EIO);
	assert_string_equal(why.text, "it went 1");
	assert_int_equal(reason_prefix(&why, -EINVAL, "%s:%d", "file", 3), -EINVAL);
	assert_string_equal(why.text, "file:3: it went 1");

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	reason_set(&why, 0, "%s", text);
	assert_int_equal(strlen(why.text), REASON_MAX - 1);
	reason_prefix(&why, 0, "place");
	assert_int_equal(strlen(why.text), REASON_MAX - 1);
	assert_memory_equal(why.text, "place: xxx", 10);
	reason_prefix(&why, 0, "%s", text);
	assert_int_equal(strlen(why.text), REASON_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64),	    cmocka_unit_test(test_bool),
		cmocka_unit_test(test_duration),    cmocka_unit_test(test_share),
		cmocka_unit_test(test_utf8_length), cmocka_unit_test(test_utf8_printable),
		cmocka_unit_test(test_excerpt),	    cmocka_unit_test(test_metric_name),
		cmocka_unit_test(test_cpulist),	    cmocka_unit_test(test_cpulist_sets),
		cmocka_unit_test(test_cpulist_add), cmocka_unit_test(test_buf),
		cmocka_unit_test(test_buf_grows),   cmocka_unit_test(test_buf_fails),
		cmocka_unit_test(test_buf_double),  cmocka_unit_test(test_file),
		cmocka_unit_test(test_pack),	    cmocka_unit_test(test_pack_cut),
		cmocka_unit_test(test_pack_bounds), cmocka_unit_test(test_reason),
		cmocka_unit_test(test_writing),	    cmocka_unit_test(test_plain),
		cmocka_unit_test(test_moment),	    cmocka_unit_test(test_unify_lines),
	};

	return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
