/* SPDX-License-Identifier: MIT */

/* Tables, against a plain array of what is in them and when it was last used. */

#include "profiler/archive/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KEYS 500

struct thing {
	uint32_t last;
	uint32_t key;
	uint32_t value;
};

static void count_leaving(void *userdata, void *entry)
{
	const struct thing *thing = entry;
	unsigned *nr = userdata;

	assert_int_equal(thing->value, thing->key * 3);
	(*nr)++;
}

static void test_ages(void **state)
{
	struct table table = TABLE_OF(struct thing, key, key);
	uint32_t numbers[KEYS] = {}, last[KEYS] = {};
	unsigned seed = 7, left = 0, expected = 0;
	size_t budget = SIZE_MAX;

	(void)state;
	for (uint32_t age = 1; age < 60; age++) {
		for (int i = 0; i < 100; i++) {
			uint32_t key = (uint32_t)rand_r(&seed) % KEYS, number;
			const struct thing thing = { .key = key, .value = key * 3 };
			bool new;

			assert_int_equal(table_find(&table, &thing), last[key] ? numbers[key] : 0);
			assert_int_equal(table_put(&table, &thing, age, &budget, &number, &new), 0);
			assert_int_equal(new, !last[key]);
			assert_true(number > 0);
			if (last[key])
				assert_int_equal(number, numbers[key]);
			numbers[key] = number;
			last[key] = age;
		}
		if (age % 5 == 0) {
			for (uint32_t key = 0; key < KEYS; key++) {
				if (!last[key] || last[key] >= age - 4)
					continue;
				last[key] = 0;
				expected++;
			}
			table_sweep(&table, age - 4, count_leaving, &left);
			assert_int_equal(left, expected);
		}
	}
	for (uint32_t key = 0, nr = 0; key < KEYS; key++) {
		nr += last[key] != 0;
		if (key == KEYS - 1)
			assert_int_equal(table_nr(&table), nr);
		if (last[key])
			assert_int_equal(((struct thing *)table_at(&table, numbers[key]))->key, key);
	}
	assert_true(table.nr <= KEYS + 1);
	table_release(&table);
	assert_int_equal(table_bytes(&table), 0);
	assert_int_equal(table_nr(&table), 0);
}

/* The budget is what it grows by, and nothing is added beyond it. */
static void test_budget(void **state)
{
	struct table table = TABLE_OF(struct thing, key, key);
	size_t budget = 40000, before = budget;
	uint32_t number, added = 0;
	bool new;
	int r = 0;

	(void)state;
	while (r == 0) {
		const struct thing thing = { .key = added };

		r = table_put(&table, &thing, 1, &budget, &number, &new);
		added += r == 0;
		assert_int_equal(before - budget, table_bytes(&table));
	}
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(table_nr(&table), added);
	assert_true(added > 500);
	for (uint32_t key = 0; key < added; key++)
		assert_int_not_equal(table_find(&table, &(struct thing){ .key = key }), 0);
	assert_int_equal(table_find(&table, &(struct thing){ .key = added }), 0);
	/* With room from those that leave, others come in. */
	table_sweep(&table, 2, NULL, NULL);
	budget = 0;
	assert_int_equal(table_put(&table, &(struct thing){ .key = 12345 }, 2, &budget, &number, &new), 0);
	assert_true(new);
	table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
