/* SPDX-License-Identifier: MIT */

/* Event texts against what perf encodes for them: tests/encoding/table.txt, whose head says how it is read. */

#include "base/util/buf.h"
#include "base/util/file.h"
#include "counting/event/parse.h"
#include "setup/machines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TABLE_MAX (1 << 20)
#define ROWS_MAX 4096
/* More than a made machine has instances of a PMU. */
#define ANSWERS_MAX 16

struct answers {
	char *lines[ANSWERS_MAX]; /* sorted */
	size_t nr;
};

struct totals_row {
	unsigned line;
	const char *machine, *text, *because;
	struct answers perf, meant; /* meant: perfmond's, where they differ on purpose */
};

struct table {
	char *text; /* which the rows point into */
	struct totals_row rows[ROWS_MAX];
	size_t nr;
};

/* --- the table */

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_answer(struct answers *answers, char *line)
{
	assert_true(answers->nr < ANSWERS_MAX);
	answers->lines[answers->nr++] = line;
	qsort(answers->lines, answers->nr, sizeof(*answers->lines), compare_lines);
}

/* What stands behind a text, and in the lines below it. */
static void read_answer(struct totals_row *row, char *line)
{
	static const char meant[] = "perfmond ", because[] = "because ";

	line += strspn(line, " ");
	if (strncmp(line, because, strlen(because)) == 0)
		row->because = line + strlen(because);
	else if (strncmp(line, meant, strlen(meant)) == 0)
		add_answer(&row->meant, line + strlen(meant));
	else
		add_answer(&row->perf, line);
}

static int read_table(void **state)
{
	struct table *table = calloc(1, sizeof(*table));
	const char *machine = NULL;
	unsigned number = 0;
	char *cursor, *line;

	assert_non_null(table);
	*state = table;
	assert_int_equal(read_text_file(AT_FDCWD, ENCODING_TABLE, TABLE_MAX, &table->text), 0);
	for (cursor = table->text; (line = strsep(&cursor, "\n"));) {
		char *rest = line, *word;

		number++;
		if (!*line || *line == '#' || strncmp(line, "perf version ", 13) == 0)
			continue;
		word = strsep(&rest, " ");
		if (strcmp(word, "machine") == 0) {
			machine = rest;
			continue;
		}
		if (*word) {
			assert_true(table->nr < ROWS_MAX);
			table->rows[table->nr++] =
				(struct totals_row){ .line = number, .machine = machine, .text = word };
		}
		if (!machine || !table->nr || !rest)
			fail_msg("%s:%u: tests/encoding/generate.py makes no such line", ENCODING_TABLE, number);
		read_answer(&table->rows[table->nr - 1], rest);
	}
	return 0;
}

static int free_table(void **state)
{
	struct table *table = *state;

	free(table->text);
	free(table);
	return 0;
}

/* --- perfmond's answers, in the table's words */

static char *encoding_of(const struct event *event)
{
	const struct perf_event_attr *attr = &event->attr;
	const struct {
		bool is;
		char letter;
	} excluded[] = {
		{ attr->exclude_user, 'u' },  { attr->exclude_kernel, 'k' }, { attr->exclude_hv, 'h' },
		{ attr->exclude_guest, 'G' }, { attr->exclude_host, 'H' },   { attr->exclude_idle, 'I' },
	};
	const struct {
		const char *name;
		uint64_t value;
	} words[] = {
		{ "config1", attr->config1 },
		{ "config2", attr->config2 },
		{ "config3", event->config3 },
		{ "bp_type", attr->bp_type },
	};
	const char *before = " exclude=";
	struct buf b = {};

	buf_printf(&b, "type=%" PRIu32 " config=0x%" PRIx64, attr->type, (uint64_t)attr->config);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].value)
			buf_printf(&b, " %s=0x%" PRIx64, words[i].name, words[i].value);
	for (size_t i = 0; i < ARRAY_SIZE(excluded); i++)
		if (excluded[i].is) {
			buf_printf(&b, "%s%c", before, excluded[i].letter);
			before = "";
		}
	if (attr->precise_ip)
		buf_printf(&b, " precise=%d", attr->precise_ip);
	buf_str(&b, attr->pinned ? " pinned" : "");
	buf_str(&b, attr->exclusive ? " exclusive" : "");
	return buf_steal(&b);
}

/* Without a PMU or a tracepoint of that name there is nothing to be encoded. */
static bool is_unknown(const struct event *event)
{
	return event->absent && event->absent != -ENODEV;
}

static void ask(const struct machine *machine, const char *text, struct answers *ret, struct reason *why)
{
	struct event_list list = {};
	int r = event_parse(&list, &machine->env, text, why);

	assert_true(r == 0 || r == -EINVAL);
	for (size_t i = 0; i < list.nr; i++)
		add_answer(ret, is_unknown(&list.events[i]) ? strdup("absent") : encoding_of(&list.events[i]));
	if (r < 0)
		add_answer(ret, strdup("refused"));
	event_list_release(&list);
}

/* --- the comparison */

static bool same(const struct answers *a, const struct answers *b)
{
	for (size_t i = 0; i < a->nr && i < b->nr; i++)
		if (strcmp(a->lines[i], b->lines[i]))
			return false;
	return a->nr == b->nr;
}

static void print_answers(const char *whose, const struct answers *answers)
{
	for (size_t i = 0; i < answers->nr; i++)
		print_error("    %s %s\n", whose, answers->lines[i]);
}

/* Returns whether the row holds. */
static bool check_row(const struct totals_row *row, const struct machine *machine)
{
	const struct answers *want = row->meant.nr ? &row->meant : &row->perf;
	const char *wrong = NULL;
	struct answers got = {};
	struct reason why = {};

	ask(machine, row->text, &got, &why);
	if (!same(&got, want))
		wrong = "it is encoded otherwise";
	else if (!row->meant.nr != !row->because)
		wrong = "what is meant and why stand together";
	else if (same(&row->meant, &row->perf))
		wrong = "what is said to differ does not";

	if (wrong) {
		print_error("%s:%u: %s: %s: %s\n", ENCODING_TABLE, row->line, row->machine, row->text, wrong);
		print_answers("is       ", &got);
		if (*why.text)
			print_error("    (%s)\n", why.text);
		print_answers("perfmond ", &row->meant);
		print_answers("perf     ", &row->perf);
	}
	for (size_t i = 0; i < got.nr; i++)
		free(got.lines[i]);
	return !wrong;
}

static void test_encoding(void **state)
{
	const struct table *table = *state;
	size_t nr_wrong = 0, nr_checked = 0;
	const struct totals_row *first = NULL;

	for (const struct machine_kind *kind = machine_kinds; kind->name; kind++) {
		struct machine machine = machine_new(kind->files);

		for (size_t i = 0; i < table->nr; i++) {
			const struct totals_row *row = &table->rows[i];

			if (!row->machine || strcmp(row->machine, kind->name))
				continue;
			nr_checked++;
			if (check_row(row, &machine))
				continue;
			first = first ? first : row;
			nr_wrong++;
		}
		machine_release(&machine);
	}
	if (nr_wrong)
		fail_msg("%zu of %zu texts are not encoded as the table says, the first is '%s' on %s (line %u)",
			 nr_wrong, nr_checked, first->text, first->machine, first->line);
	/* No row is on a machine that nobody makes, and there are as many as were promised. */
	assert_int_equal(nr_checked, table->nr);
	assert_true(nr_checked >= 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encoding),
	};

	return cmocka_run_group_tests_name("encoding", tests, read_table, free_table);
}
