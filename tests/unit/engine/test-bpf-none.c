/* SPDX-License-Identifier: MIT */

/* A build without the BPF engine: there is none, and the sentence says why. With it, test-bpf.c is run. */

#include "counting/engine/bpf/bpf.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_none(_unused_ void **state)
{
	struct reason why = {};

	assert_null(engine_bpf);
	assert_int_equal(bpf_is_available(0, NULL, &why), -EOPNOTSUPP);
	assert_non_null(strstr(why.text, "this build has no BPF engine"));
	/* A caller that only wants to know whether there is one. */
	assert_int_equal(bpf_is_available(0, NULL, NULL), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests_name("bpf-none", tests, NULL, NULL);
}
