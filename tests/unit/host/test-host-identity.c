/* SPDX-License-Identifier: MIT */

/* The model of the CPU, from what the kernels of several architectures write. */

#include "base/host/host-identity.h"

#include "base/util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_models(_unused_ void **state)
{
	static const struct {
		const char *cpuinfo, *model;
	} cases[] = {
		{ "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)   CPU @ 2.80GHz \nflags\t: cpu\n",
		  "Intel(R) Xeon(R) CPU @ 2.80GHz" },
		{ "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "" },
		{ "system type\t: MIPS Malta\nprocessor\t: 0\ncpu model\t: MIPS 24Kc V0.0\n", "MIPS 24Kc V0.0" },
		{ "processor\t: 0\ncpu\t\t: POWER9 (architected), altivec supported\n",
		  "POWER9 (architected), altivec supported" },
		{ "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nuarch\t\t: sifive,u74-mc", "sifive,u74-mc" },
		{ "model name\t:\n", "" },
		{ "model name", "" },
		{ "model names : x\n", "" },
		{ "", "" },
	};
	char model[128];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(model, 'x', sizeof(model));
		cpu_model_parse(model, sizeof(model), cases[i].cpuinfo);
		assert_string_equal(model, cases[i].model);
	}
}

static void test_long_model(_unused_ void **state)
{
	char model[8];

	cpu_model_parse(model, sizeof(model), "model name : 123456789\n");
	assert_string_equal(model, "1234567");
	cpu_model_parse(model, sizeof(model), "model name : 123456 89\n");
	assert_string_equal(model, "123456");
}

static void write_file(const char *folder, const char *name, const char *text, size_t n)
{
	char path[200];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

/* Without a model of the CPU, the board's name, which ends with a NUL; without both, nothing. */
static void test_roots(_unused_ void **state)
{
	static const char *const folders[] = { "", "/firmware", "/firmware/devicetree", "/firmware/devicetree/base" };
	static const char board[] = "Raspberry Pi 4 Model B";
	char root[] = "/tmp/perfmond-test-XXXXXX", path[200];
	struct host_identity identity;

	assert_non_null(mkdtemp(root));
	for (size_t i = 1; i < ARRAY_SIZE(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	host_identity_read(&identity, root, root);
	assert_string_equal(identity.cpu_model, "");
	assert_true(strlen(identity.system.nodename) > 0 && strlen(identity.system.release) > 0);

	write_file(root, "firmware/devicetree/base/model", board, sizeof(board));
	write_file(root, "cpuinfo", "CPU part : 1\n", 13);
	host_identity_read(&identity, root, root);
	assert_string_equal(identity.cpu_model, board);

	write_file(root, "cpuinfo", "model name : A\n", 15);
	host_identity_read(&identity, root, root);
	assert_string_equal(identity.cpu_model, "A");

	(void)snprintf(path, sizeof(path), "%s/cpuinfo", root);
	assert_int_equal(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s%s/model", root, folders[3]);
	assert_int_equal(unlink(path), 0);
	for (size_t i = ARRAY_SIZE(folders); i-- > 0;) {
		(void)snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		assert_int_equal(rmdir(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_long_model),
		cmocka_unit_test(test_roots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
