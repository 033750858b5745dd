/* SPDX-License-Identifier: MIT */

/* A build with the BPF engine. Without it, test-bpf-none.c is run. */

#include "engine/bpf/kernel.h"
#include "util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_built_in(_unused_ void **state)
{
	assert_true(bpf_engine_is_built_in());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_built_in),
	};

	return cmocka_run_group_tests_name("bpf", tests, NULL, NULL);
}
