/* SPDX-License-Identifier: MIT */

/* The highest clock of a CPU, by made folders of cpufreq. */

#include "base/host/cpu-freq.h"

#include "base/util/cleanup.h"
#include "setup/no-memory.h"
#include "setup/scratch.h"

#include <limits.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MHZ UINT64_C(1000000)

/* NULL: there is no such file. */
static void make_cpu(const struct scratch *scratch, int cpu, const char *driver, const char *khz)
{
	char name[96];

	(void)snprintf(name, sizeof(name), "devices/system/cpu/cpu%d/cpufreq/scaling_driver", cpu);
	if (driver)
		scratch_text(scratch, name, driver);
	(void)snprintf(name, sizeof(name), "devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", cpu);
	if (khz)
		scratch_text(scratch, name, khz);
}

/* A quarter more than the file says, and no bound unless the driver knows of turbo and the number can be true. */
static void test_only_drivers_that_know_turbo_bound_the_clock(void **state)
{
	static const struct {
		const char *driver, *khz;
		uint64_t hz;
	} cases[] = {
		{ "intel_pstate\n", "4000000\n", 5000 * MHZ },
		{ "intel_cpufreq\n", "2000000\n", 2500 * MHZ },
		{ "amd-pstate\n", "3200000\n", 4000 * MHZ },
		{ "amd-pstate-epp\n", "800000\n", 1000 * MHZ },
		{ "acpi-cpufreq\n", "2000000\n", CPU_FREQ_ANY },
		{ "intel\n", "2000000\n", CPU_FREQ_ANY },
		{ "intel_pstate_2\n", "2000000\n", CPU_FREQ_ANY },
		{ "", "2000000\n", CPU_FREQ_ANY },
		{ NULL, "2000000\n", CPU_FREQ_ANY },
		{ "intel_pstate\n", NULL, CPU_FREQ_ANY },
		{ "intel_pstate\n", "", CPU_FREQ_ANY },
		{ "intel_pstate\n", "0\n", CPU_FREQ_ANY },
		{ "intel_pstate\n", "-1\n", CPU_FREQ_ANY },
		{ "intel_pstate\n", "<unknown>\n", CPU_FREQ_ANY },
		{ "intel_pstate\n", "8000000\n", CPU_FREQ_ANY },
		{ "intel_pstate\n", "99999999999999999999\n", CPU_FREQ_ANY },
	};
	const struct scratch *scratch = *state;
	struct cpu_freqs freqs;

	cpu_freqs_init(&freqs, scratch->path);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		make_cpu(scratch, (int)i, cases[i].driver, cases[i].khz);
	/* From the last on: each CPU has its own, in whatever order they are asked for. */
	for (size_t i = ARRAY_SIZE(cases); i-- > 0;)
		if (cpu_freqs_get(&freqs, (int)i) != cases[i].hz)
			fail_msg("%s, %s", cases[i].driver, cases[i].khz);
	cpu_freqs_release(&freqs);
}

static void test_a_clock_is_read_again_only_on_refresh(void **state)
{
	const struct scratch *scratch = *state;
	struct cpu_freqs freqs;

	cpu_freqs_init(&freqs, scratch->path);
	make_cpu(scratch, 3, "intel_pstate\n", "2000000\n");
	assert_int_equal(cpu_freqs_get(&freqs, 3), 2500 * MHZ);
	make_cpu(scratch, 3, NULL, "4000000\n");
	assert_int_equal(cpu_freqs_get(&freqs, 3), 2500 * MHZ);
	assert_true(cpu_freqs_refresh(&freqs, 3));
	assert_int_equal(cpu_freqs_get(&freqs, 3), 5000 * MHZ);
	assert_false(cpu_freqs_refresh(&freqs, 3));
	/* It falls, which is no rise. */
	make_cpu(scratch, 3, NULL, "1000000\n");
	assert_false(cpu_freqs_refresh(&freqs, 3));
	assert_int_equal(cpu_freqs_get(&freqs, 3), 1250 * MHZ);
	cpu_freqs_release(&freqs);
}

static bool always(void)
{
	return true;
}

/* There is no bound without a folder to look into, or memory. */
static void test_a_clock_that_can_t_be_read_is_any(void **state)
{
	const struct scratch *scratch = *state;
	static char long_root[2 * PATH_MAX];
	struct cpu_freqs none = {}, too_long = { .sysroot = long_root }, no_memory = { .sysroot = scratch->path };

	memset(long_root, '/', sizeof(long_root) - 1);
	make_cpu(scratch, 0, "intel_pstate\n", "2000000\n");
	assert_true(cpu_freqs_get(&none, 0) == CPU_FREQ_ANY);
	assert_false(cpu_freqs_refresh(&none, 0));
	assert_true(cpu_freqs_get(&too_long, 0) == CPU_FREQ_ANY);
	memory_fails = always;
	assert_true(cpu_freqs_get(&no_memory, 0) == CPU_FREQ_ANY);
	assert_false(cpu_freqs_refresh(&no_memory, 0));
	memory_fails = NULL;
	/* Nothing of that is kept. */
	assert_int_equal(cpu_freqs_get(&no_memory, 0), 2500 * MHZ);
	cpu_freqs_release(&none);
	cpu_freqs_release(&too_long);
	cpu_freqs_release(&no_memory);
}

static int setup(void **state)
{
	static struct scratch scratch;

	scratch_make(&scratch);
	*state = &scratch;
	return 0;
}

static int teardown(void **state)
{
	memory_fails = NULL;
	scratch_remove(*state);
	return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_only_drivers_that_know_turbo_bound_the_clock),
		TEST(test_a_clock_is_read_again_only_on_refresh),
		TEST(test_a_clock_that_can_t_be_read_is_any),
	};

	return cmocka_run_group_tests_name("cpu-freq", tests, NULL, NULL);
}
