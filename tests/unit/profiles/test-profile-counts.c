/* SPDX-License-Identifier: MIT */

/* The counts of a question: those of its stretch and its cgroups, read in steps while the history goes on. */

#include "service/profiles/profile-counts.h"

#include "setup/history-world.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct fixture {
	struct history_world *w;
	struct totals_row *a, *b, *other;
};

/* Seconds in each of which /a has 4 s of CPU time, /a/b 3 s, and /other 1 s. */
static void run(struct fixture *f, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		f->a->cells[1].total += 4 * SECOND;
		f->b->cells[1].total += 3 * SECOND;
		f->other->cells[1].total += SECOND;
		pass(f->w, SECOND);
		take(f->w);
	}
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->w = history_world_new(MEMORY);
	f->a = add_target(f->w, "/a", false);
	f->other = add_target(f->w, "/other", false);
	f->b = add_target(f->w, "/a/b", false);
	take(f->w);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	history_world_free(f->w);
	free(f);
	return 0;
}

static struct profile_question ask(const struct fixture *f, uint64_t last, const char *cgroup)
{
	return (struct profile_question){
		.event = PROFILE_CPU_CLOCK,
		.last = last,
		.now = f->w->clocks.monotonic,
		.clock = f->w->steps,
		.cgroup = cgroup,
		.counted = true,
	};
}

static struct counts_reader *begin(const struct fixture *f, const struct profile_question *question, struct buf *out,
				   uint64_t config)
{
	struct event_list sampled = { calloc(1, sizeof(*sampled.events)), 1 };
	struct counts_reader *reader;
	struct reason why;

	assert_non_null(sampled.events);
	sampled.events[0] = (struct event){
		.metric = strdup(""),
		.pmu = strdup("software"),
		.attr = { .type = PERF_TYPE_SOFTWARE, .config = config },
	};
	assert_int_equal(counts_reader_new(&reader, out, &f->w->history, &sampled, question, &why), 0);
	return reader;
}

/* As the profiler reads it, to be released. */
static struct profile_question finish(struct counts_reader *reader, struct buf *out)
{
	struct profile_question question;
	int r;

	do
		r = counts_reader_step(reader);
	while (r > 0);
	assert_int_equal(r, 0);
	counts_reader_free(reader);
	assert_int_equal(read_question(&question, out->data, out->len), 0);
	buf_release(out);
	return question;
}

static void expect_count(const struct profile_counts *counts, size_t i, const char *cgroup, double seconds)
{
	double sum = 0;

	assert_true(i < counts->nr);
	assert_string_equal(counts->cgroups[i].cgroup, cgroup);
	for (size_t slot = 0; slot < counts->nr_slots; slot++)
		sum += (double)counts->cgroups[i].counted[slot] / 1e9;
	assert_true(fabs(sum - seconds) < 1e-3);
}

static void test_all(void **state)
{
	struct fixture *f = *state;
	const struct profile_question asked = ask(f, UINT64_MAX, NULL);
	struct buf out = {};
	struct counts_reader *reader = begin(f, &asked, &out, PERF_COUNT_SW_CPU_CLOCK);
	struct profile_question question = finish(reader, &out);

	assert_non_null(strstr(question.counts.problem, "it has just begun"));
	profile_question_release(&question);
	run(f, 20);
	question = ask(f, UINT64_MAX, NULL);
	reader = begin(f, &question, &out, PERF_COUNT_SW_CPU_CLOCK);
	question = finish(reader, &out);
	assert_null(question.counts.problem);
	assert_true(question.counts.root_is_idle);
	assert_int_equal(question.counts.nr_slots, 20);
	assert_int_equal(question.counts.begin, question.now - 20 * SECOND);
	assert_int_equal(question.counts.ends[19], question.now);
	assert_int_equal(question.counts.nr, 3);
	expect_count(&question.counts, 0, "/a", 80);
	expect_count(&question.counts, 1, "/a/b", 60);
	expect_count(&question.counts, 2, "/other", 20);
	profile_question_release(&question);
	question = ask(f, UINT64_MAX, NULL);
	reader = begin(f, &question, &out, PERF_COUNT_SW_PAGE_FAULTS);
	question = finish(reader, &out);
	assert_non_null(strstr(question.counts.problem, "no group of [cgroup] counts this event"));
	assert_int_equal(question.counts.nr, 0);
	profile_question_release(&question);
}

/* The message has no more than is asked for. */
static void test_part(void **state)
{
	static const struct {
		const char *cgroup;
		size_t nr;
	} cases[] = { { NULL, 3 }, { "/a", 2 }, { "/a/**", 1 }, { "/[a-c]", 3 }, { "/o?her", 1 }, { "/b", 0 } };
	struct fixture *f = *state;

	run(f, 30);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		/* Two slots, and the end of the one before them. */
		const struct profile_question asked = ask(f, 2 * SECOND + SECOND / 2, cases[i].cgroup);
		struct buf out = {};
		struct counts_reader *reader = begin(f, &asked, &out, PERF_COUNT_SW_CPU_CLOCK);
		struct profile_question question = finish(reader, &out);

		assert_int_equal(question.counts.nr_slots, 3);
		assert_int_equal(question.counts.begin, question.now - 3 * SECOND);
		assert_int_equal(question.counts.nr, cases[i].nr);
		if (cases[i].nr == 3)
			expect_count(&question.counts, 0, "/a", 12);
		profile_question_release(&question);
	}
}

/* The history changes between two steps: nothing of before is in the message. */
static void test_change(void **state)
{
	struct fixture *f = *state;
	struct profile_question question;
	struct counts_reader *reader;
	struct buf out = {};

	run(f, 10);
	question = ask(f, UINT64_MAX, NULL);
	question.now += 10 * SECOND;
	reader = begin(f, &question, &out, PERF_COUNT_SW_CPU_CLOCK);
	assert_int_equal(counts_reader_step(reader), 1);
	run(f, 1);
	assert_int_equal(counts_reader_step(reader), 1);
	/* All rows are dropped, and are other ones then. */
	history_set_max_size(&f->w->history, 0);
	history_set_max_size(&f->w->history, MEMORY);
	run(f, 2);
	question = finish(reader, &out);
	assert_int_equal(question.counts.nr_slots, 13);
	assert_int_equal(question.counts.nr, 3);
	for (size_t i = 0; i < 13; i++)
		assert_true((i == 12) == !isnan(question.counts.cgroups[2].counted[i]));
	profile_question_release(&question);
}

/* A cgroup whose CPUs have rows of their own: what is known of any is known. */
static void test_merged(void **state)
{
	_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;
	struct fixture *f = *state;
	struct profile_question question;
	struct counts_reader *reader;
	struct totals_row *rows[2];
	struct buf out = {};

	assert_int_equal(cgroup_identity_new(&identity, 9, "/cpus"), 0);
	for (int cpu = 0; cpu < 2; cpu++) {
		assert_int_equal(totals_take(f->w->totals, SCOPE_CGROUP, cpu, identity, &rows[cpu]), 0);
		rows[cpu]->began = 1;
	}
	rows[0]->cells[1].measured = true;
	for (int i = 0; i < 5; i++) {
		/* The second one is known for the last 2 s. */
		rows[1]->cells[1].measured = i >= 2;
		rows[0]->cells[1].total += SECOND;
		rows[1]->cells[1].total += SECOND;
		run(f, 1);
	}
	question = ask(f, 2 * SECOND, "/cpus");
	reader = begin(f, &question, &out, PERF_COUNT_SW_CPU_CLOCK);
	question = finish(reader, &out);
	assert_int_equal(question.counts.nr, 1);
	expect_count(&question.counts, 0, "/cpus", 4);
	profile_question_release(&question);
	question = ask(f, 4 * SECOND, "/cpus");
	reader = begin(f, &question, &out, PERF_COUNT_SW_CPU_CLOCK);
	question = finish(reader, &out);
	expect_count(&question.counts, 0, "/cpus", 6);
	profile_question_release(&question);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(all), TEST(part), TEST(change), TEST(merged) };

	return cmocka_run_group_tests_name("profile-counts", tests, NULL, NULL);
}
