/* SPDX-License-Identifier: MIT */

/* Mappings over one another, compared with a plain array of what is at each address; shared ones; bounds. */

#include "base/host/proc-maps.h"
#include "profiler/process/mappings.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ADDRESSES 200

static struct module *new_module(const char *path)
{
	const struct module_key key = {};
	struct module *module = module_new(&key, path);

	assert_non_null(module);
	return module;
}

/* Which module is at each address, and the offset there. */
struct model {
	const struct module *module[ADDRESSES];
	uint64_t offset[ADDRESSES];
};

static void model_put(struct model *model, uint64_t start, uint64_t size, uint64_t offset, const struct module *module)
{
	for (uint64_t i = 0; i < size; i++) {
		model->module[start + i] = module;
		model->offset[start + i] = offset + i;
	}
}

static void check_model(const struct mappings *mappings, const struct model *model)
{
	for (uint64_t at = 0; at < ADDRESSES; at++) {
		const struct mapping *found = mappings_find(mappings, at);

		assert_ptr_equal(found ? found->module : NULL, model->module[at]);
		if (found)
			assert_int_equal(at - found->start + found->offset, model->offset[at]);
	}
}

static void test_overlaps(void **state)
{
	struct module *modules[4] = { new_module("/a"), new_module("/b"), new_module("/c"), new_module("/d") };
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 200; round++) {
		size_t account = 0;
		struct mappings *mappings = mappings_new(&account);
		struct model model = {};

		for (int i = 0; i < 30; i++) {
			uint64_t start = (uint64_t)rand_r(&seed) % 150, size = 1 + (uint64_t)rand_r(&seed) % 49;
			uint64_t offset = (uint64_t)rand_r(&seed) % 1000;
			struct module *module = modules[rand_r(&seed) % 4];

			assert_int_equal(mappings_put(&mappings, start, size, offset, module), 0);
			model_put(&model, start, size, offset, module);
			check_model(mappings, &model);
		}
		assert_true(account >= mappings_nr(mappings));
		mappings_unref(mappings);
		assert_int_equal(account, 0);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(modules[i]->refs, 1);
		module_unref(modules[i]);
	}
}

static void test_shared(void **state)
{
	struct module *a = new_module("/a"), *b = new_module("/b");
	size_t account = 0;
	struct mappings *parent = mappings_new(&account), *child;

	(void)state;
	assert_int_equal(mappings_put(&parent, 10, 10, 0, a), 0);
	child = mappings_ref(parent);
	assert_int_equal(mappings_put(&child, 12, 2, 0, b), 0);
	assert_ptr_not_equal(parent, child);
	assert_ptr_equal(mappings_find(parent, 13)->module, a);
	assert_ptr_equal(mappings_find(child, 13)->module, b);
	assert_ptr_equal(mappings_find(child, 15)->module, a);
	mappings_unref(parent);
	assert_ptr_equal(mappings_find(child, 11)->module, a);
	mappings_unref(child);
	assert_int_equal(account, 0);
	assert_int_equal(a->refs, 1);
	module_unref(a);
	module_unref(b);
}

static void test_bounds(void **state)
{
	struct module *a = new_module("/a");
	size_t account = 0;
	struct mappings *mappings = mappings_new(&account);

	(void)state;
	assert_int_equal(mappings_put(&mappings, 5, 0, 0, a), 0);
	assert_int_equal(mappings_put(&mappings, 5, UINT64_MAX, 0, a), 0);
	assert_int_equal(mappings_nr(mappings), 0);
	assert_int_equal(mappings_put(&mappings, UINT64_MAX - 9, 9, 0, a), 0);
	assert_non_null(mappings_find(mappings, UINT64_MAX - 1));
	assert_null(mappings_find(mappings, UINT64_MAX));
	for (uint64_t i = 1; i < MAPPINGS_MAX; i++)
		assert_int_equal(mappings_put(&mappings, i * 100, 10, 0, a), 0);
	assert_int_equal(mappings_put(&mappings, 1, 10, 0, a), -E2BIG);
	assert_int_equal(mappings_nr(mappings), MAPPINGS_MAX);
	mappings_unref(mappings);
	module_unref(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
