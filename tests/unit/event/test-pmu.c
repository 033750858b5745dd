/* SPDX-License-Identifier: MIT */

/* Format files, and reading the PMUs of a sysfs that may hold anything. */

#include "base/util/text.h"
#include "counting/event/catalog/pmu.h"
#include "setup/machines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* --- formats */

static void test_format_parse(_unused_ void **state)
{
	static const struct {
		const char *text;
		unsigned word;
		uint64_t mask, max;
	} table[] = {
		{ "config:0-7", 0, 0xff, 0xff },
		{ "config:0-7,32-35", 0, 0xf000000ff, 0xfff },
		{ "config:32-35,0-7", 0, 0xf000000ff, 0xfff },
		{ "config:0-7,4-11", 0, 0xfff, 0xfff },
		{ "config1:0-63", 1, UINT64_MAX, UINT64_MAX },
		{ "config2:63", 2, 1ULL << 63, 1 },
		{ "config3:1,6-10,44", 3, 0x1000000007c2, 0x7f },
		{ "config:0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38", 0, 0x5555555555, 0xfffff },
		{ "config:000-007", 0, 0xff, 0xff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct pmu_format format = {};
		struct reason why = {};

		assert_int_equal(pmu_format_parse(&format, table[i].text, &why), 0);
		assert_int_equal(format.word, table[i].word);
		assert_int_equal(format.mask, table[i].mask);
		assert_int_equal(pmu_format_max(&format), table[i].max);
	}
}

static void test_format_refused(_unused_ void **state)
{
	static const char *const table[][2] = {
		{ "", "'' is not a format such as 'config:0-7'" },
		{ "config", "'config' is not a format" },
		{ "config0-7", "is not a format" },
		{ "config4:0-7", "'config4' is none of config, config1, config2 and config3" },
		{ "Config:0", "'Config' is none of" },
		{ "configuration-of-all:0", "is not a format" },
		{ "config:", "'' is not a range of bits" },
		{ "config:x", "'x' is not a range of bits" },
		{ "config:-7", "'-7' is not a range of bits" },
		{ "config:0-", "'0-' is not a range of bits" },
		{ "config:0-7,", "'' is not a range of bits" },
		{ "config:0-7,,9", "',9' is not a range of bits" },
		{ "config: 0-7", "' 0-7' is not a range of bits" },
		{ "config:64", "'64' goes beyond bit 63" },
		{ "config:0-64", "'0-64' goes beyond bit 63" },
		{ "config:99999999999999999999", "goes beyond bit 63" },
		{ "config:8-7", "'8-7' ends before it begins" },
		{ "config:0-7 ", "' ' does not belong behind" },
		{ "config:0-7\nconfig1:0", "does not belong behind" },
		{ "config:0-7-9", "'-9' does not belong behind" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct pmu_format format = { .word = 7, .mask = 42 };
		struct reason why = {};

		if (pmu_format_parse(&format, table[i][0], &why) != -EINVAL || !strstr(why.text, table[i][1]))
			fail_msg("%s: '%s', not '%s'", table[i][0], why.text, table[i][1]);
		assert_int_equal(format.word, 7);
		assert_int_equal(format.mask, 42);
	}
}

static void test_format_apply(_unused_ void **state)
{
	struct pmu_format split = { .word = 1, .mask = 0xf000000ff }, all = { .word = 0, .mask = UINT64_MAX };
	uint64_t config[PMU_NR_CONFIGS] = { 1, 0xffffffffffffffff, 3, 4 };

	assert_int_equal(pmu_format_apply(&split, 0x1a5, config), 0);
	assert_int_equal(config[1], 0xfffffff1ffffffa5);
	assert_int_equal(pmu_format_apply(&split, 0x1000, config), -ERANGE);
	assert_int_equal(pmu_format_apply(&split, UINT64_MAX, config), -ERANGE);
	assert_int_equal(config[1], 0xfffffff1ffffffa5);
	assert_int_equal(pmu_format_apply(&split, 0, config), 0);
	assert_int_equal(config[1], 0xfffffff0ffffff00);
	assert_int_equal(pmu_format_apply(&all, 0x123456789abcdef0, config), 0);
	assert_int_equal(config[0], 0x123456789abcdef0);
	assert_int_equal(config[2], 3);
	assert_int_equal(config[3], 4);
}

/* --- terms */

static void test_terms(_unused_ void **state)
{
	struct term_list list = {};

	assert_int_equal(term_list_parse(&list, "a,b=1,c.d-e_f='x,y=z',b=0x2,b", NULL), 0);
	assert_int_equal(list.nr, 5);
	assert_string_equal(list.terms[0].name, "a");
	assert_null(list.terms[0].value);
	assert_string_equal(list.terms[1].name, "b");
	assert_string_equal(list.terms[1].value, "1");
	assert_string_equal(list.terms[2].name, "c.d-e_f");
	assert_string_equal(list.terms[2].value, "x,y=z");
	assert_ptr_equal(term_list_find(&list, "b"), &list.terms[3]);
	assert_null(term_list_find(&list, "a"));
	term_list_release(&list);

	assert_int_equal(term_list_parse(&list, "", NULL), 0);
	assert_int_equal(list.nr, 0);
	term_list_release(&list);
	assert_int_equal(term_list_parse(&list, "a,", NULL), -EINVAL);
	assert_null(list.terms);
	assert_true(term_is_name("a-b"));
	assert_false(term_is_name("") || term_is_name("a b") || term_is_name("a="));
}

/* --- whole catalogues */

static struct pmu_catalogue *load(const char *dir)
{
	struct pmu_catalogue *pmus = NULL;
	struct reason why = {};

	assert_int_equal(pmu_catalogue_load(&pmus, dir, &why), 0);
	return pmus;
}

static void check_sorted(const struct pmu_catalogue *pmus)
{
	for (size_t i = 0; i < pmus->nr; i++) {
		const struct pmu *pmu = &pmus->pmus[i];

		assert_ptr_equal(pmu_find(pmus, pmu->name), pmu);
		assert_ptr_equal(pmu_find_type(pmus, pmu->type), pmu);
		for (size_t j = 0; j < pmu->nr_formats; j++)
			assert_ptr_equal(pmu_find_format(pmu, pmu->formats[j].name), &pmu->formats[j]);
		for (size_t j = 0; j < pmu->nr_aliases; j++)
			assert_ptr_equal(pmu_find_alias(pmu, pmu->aliases[j].name), &pmu->aliases[j]);
	}
}

static void test_machines(_unused_ void **state)
{
	static const struct {
		const struct tree_file *files;
		size_t nr, nr_core;
		const char *core;
	} table[] = {
		{ machine_intel, 14, 1, "cpu" },	 { machine_hybrid, 12, 2, "cpu_atom" },
		{ machine_server, 19, 1, "cpu" },	 { machine_zen, 10, 1, "cpu" },
		{ machine_arm, 10, 1, "armv8_pmuv3_0" }, { machine_biglittle, 7, 2, "armv8_cortex_a53" },
		{ machine_power, 7, 1, "cpu" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char *dir = tree_new(table[i].files);
		struct pmu_catalogue *pmus = load(dir);

		assert_int_equal(pmus->nr, table[i].nr);
		assert_int_equal(pmus->nr_problems, 0);
		assert_int_equal(pmu_count_core(pmus), table[i].nr_core);
		assert_true(pmu_is_core(pmu_find(pmus, table[i].core)));
		assert_false(pmu_is_core(pmu_find(pmus, "software")));
		assert_null(pmu_find(pmus, "nothing"));
		assert_null(pmu_find_type(pmus, 12345));
		check_sorted(pmus);
		pmu_catalogue_free(pmus);
		tree_free(dir);
	}
}

static void test_contents(_unused_ void **state)
{
	char *dir = tree_new(machine_intel);
	struct pmu_catalogue *pmus = load(dir);
	const struct pmu *cpu = pmu_find(pmus, "cpu"), *power = pmu_find(pmus, "power"),
			 *cstate = pmu_find(pmus, "cstate_core"), *i915 = pmu_find(pmus, "i915");
	const struct pmu_alias *alias;

	assert_int_equal(cpu->type, 4);
	assert_int_equal(cpu->nr_formats, 10);
	assert_int_equal(cpu->nr_aliases, 8);
	assert_false(cpu->has_cpus || cpu->has_cpumask);
	assert_int_equal(pmu_find_format(cpu, "cmask")->mask, 0xff000000);
	assert_null(pmu_find_format(cpu, "Event"));
	alias = pmu_find_alias(cpu, "mem-loads");
	assert_string_equal(alias->terms, "event=0xcd,umask=0x1,ldlat=3");
	assert_null(alias->unit);
	assert_true(alias->scale == 1);
	assert_ptr_equal(pmu_find_alias(cpu, "MEM-Loads"), alias);
	assert_true(pmu_find_alias(cpu, "topdown-total-slots")->scale == 4);

	assert_true(power->has_cpumask && !power->has_cpus);
	assert_int_equal(power->cpus.nr, 1);
	alias = pmu_find_alias(power, "energy-pkg");
	assert_string_equal(alias->unit, "Joules");
	assert_true(alias->scale == 0x1p-32);
	assert_int_equal(power->nr_aliases, 2);

	assert_true(cstate->has_cpumask);
	assert_int_equal(cstate->cpus.nr, 4);
	assert_true(i915->has_cpumask);
	assert_int_equal(i915->cpus.nr, 0);
	pmu_catalogue_free(pmus);
	tree_free(dir);
	assert_null(pmu_catalogue_free(NULL));
}

static void test_same_name_in_two_cases(_unused_ void **state)
{
	static const struct tree_file files[] = {
		{ "x/type", "9" },
		{ "x/format/event", "config:0-7" },
		{ "x/events/ABC", "event=1" },
		{ "x/events/abc", "event=2" },
		{},
	};
	char *dir = tree_new(files);
	struct pmu_catalogue *pmus = load(dir);

	assert_string_equal(pmu_find_alias(pmu_find(pmus, "x"), "abc")->terms, "event=2");
	assert_string_equal(pmu_find_alias(pmu_find(pmus, "x"), "ABC")->terms, "event=1");
	assert_string_equal(pmu_find_alias(pmu_find(pmus, "x"), "Abc")->terms, "event=1");
	pmu_catalogue_free(pmus);
	tree_free(dir);
}

static void test_caps(_unused_ void **state)
{
	static const struct tree_file files[] = {
		{ "cpu/type", "4" },
		{ "cpu/caps/max_precise", "3\n" },
		{ "cpu/caps/pmu_name", "skylake\n" },
		{ "cpu/caps/slots", "0x00000008\n" },
		{ "cpu/caps/too_much", "18446744073709551616\n" },
		{ "uncore/type", "11" },
		{ "uncore/identifier", "0x00000030\n" },
		{},
	};
	char *dir = tree_new(files);
	struct pmu_catalogue *pmus = load(dir);
	const struct pmu *cpu = pmu_find(pmus, "cpu"), *uncore = pmu_find(pmus, "uncore");
	uint64_t value = 42;

	assert_int_equal(pmus->nr_problems, 0);
	assert_int_equal(cpu->nr_caps, 4);
	assert_string_equal(cpu->caps[1].name, "pmu_name");
	assert_string_equal(cpu->caps[1].value, "skylake");
	assert_null(cpu->identifier);
	assert_int_equal(pmu_cap(cpu, "pmu_name", &value), -EINVAL);
	assert_int_equal(pmu_cap(cpu, "too_much", &value), -EINVAL);
	assert_int_equal(pmu_cap(cpu, "branches", &value), -ENOENT);
	assert_int_equal(pmu_cap(uncore, "max_precise", &value), -ENOENT);
	assert_int_equal(value, 42);
	assert_int_equal(pmu_cap(cpu, "slots", &value), 0);
	assert_int_equal(value, 8);
	assert_int_equal(pmu_cap(cpu, "max_precise", &value), 0);
	assert_int_equal(value, 3);
	assert_int_equal(uncore->nr_caps, 0);
	assert_string_equal(uncore->identifier, "0x00000030");
	pmu_catalogue_free(pmus);
	tree_free(dir);
}

static void test_no_folder(_unused_ void **state)
{
	char *dir = tree_new(NULL), *file = tree_path(dir, "file"), *gone = tree_path(dir, "gone");
	struct pmu_catalogue *pmus = NULL;
	struct reason why = {};

	tree_text(dir, "file", "");
	assert_int_equal(pmu_catalogue_load(&pmus, gone, &why), -ENOENT);
	assert_non_null(strstr(why.text, gone));
	assert_int_equal(pmu_catalogue_load(&pmus, file, &why), -ENOTDIR);
	assert_int_equal(pmu_catalogue_load(&pmus, gone, NULL), -ENOENT);
	assert_null(pmus);
	free(file);
	free(gone);

	tree_remove(dir, "file");
	pmus = load(dir);
	assert_int_equal(pmus->nr, 0);
	assert_null(pmu_find(pmus, "cpu"));
	pmu_catalogue_free(pmus);
	tree_free(dir);
}

static void test_instances(_unused_ void **state)
{
	static const char *const yes[][2] = {
		{ "uncore_imc_0", "uncore_imc" },
		{ "uncore_cha_15", "uncore_cha" },
		{ "smmuv3_pmcg_2b442", "smmuv3_pmcg" },
		{ "uncore_imc_free_running_0", "uncore_imc_free_running" },
	};
	static const char *const no[][2] = {
		{ "uncore_imc", "uncore_imc" },
		{ "uncore_imc_", "uncore_imc" },
		{ "uncore_imc_free_running_0", "uncore_imc" },
		{ "uncore_imcx_0", "uncore_imc" },
		{ "armv8_cortex_a53", "armv8_cortex" },
		{ "cpum_cf", "cpum" },
		{ "cpu_core", "cpu" },
		{ "uncore_imc_0x", "uncore_imc" },
		{ "x", "uncore_imc" },
		{ "uncore_i", "uncore_imc" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true(pmu_is_instance_of(yes[i][0], yes[i][1]));
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		assert_false(pmu_is_instance_of(no[i][0], no[i][1]));
}

/* --- what is broken costs itself, and nothing else */

static const struct tree_file whole[] = {
	{ "good/type", "9\n" },
	{ "good/identifier", "0x000b\n" },
	{ "good/caps/max_precise", "3\n" },
	{ "good/format/event", "config:0-7\n" },
	{ "good/format/umask", "config:8-15\n" },
	{ "good/events/fine", "event=1\n" },
	{ "good/events/masked", "event=1,umask=2\n" },
	{ "good/events/masked.scale", "0.5\n" },
	{ "good/events/masked.unit", "MiB\n" },
	{ "other/type", "10\n" },
	{ "other/cpumask", "0\n" },
	{},
};

enum loss {
	LOSE_PMU,
	LOSE_FORMAT, /* umask, and with it the event `masked` */
	LOSE_FORMATS,
	LOSE_ALIAS, /* masked */
	LOSE_ALIASES,
	LOSE_OTHER,
	LOSE_NOTHING,
};

static void check_loss(const char *dir, enum loss loss, size_t nr_problems, const char *path, const char *sentence)
{
	struct pmu_catalogue *pmus = load(dir);
	const struct pmu *good = pmu_find(pmus, "good");
	char *whole_path = tree_path(dir, path);
	bool found = false;

	for (size_t i = 0; i < pmus->nr_problems; i++) {
		const char *p = pmus->problems[i];

		for (const char *c = p; *c; c += utf8_length(c))
			assert_true(utf8_length(c) > 0 && (unsigned char)*c >= 0x20);
		if (strncmp(p, whole_path, strlen(whole_path)) == 0 && p[strlen(whole_path)] == ':' &&
		    strstr(p, sentence))
			found = true;
	}
	if (!found || pmus->nr_problems != nr_problems) {
		for (size_t i = 0; i < pmus->nr_problems; i++)
			print_error("%s\n", pmus->problems[i]);
		fail_msg("%zu problems; wanted %zu, with '%s: …%s'", pmus->nr_problems, nr_problems, whole_path,
			 sentence);
	}

	assert_int_equal(pmu_find(pmus, "other") != NULL, loss != LOSE_OTHER);
	assert_int_equal(good != NULL, loss != LOSE_PMU);
	if (good) {
		assert_int_equal(pmu_find_format(good, "event") != NULL, loss != LOSE_FORMATS);
		assert_int_equal(pmu_find_format(good, "umask") != NULL, loss != LOSE_FORMAT && loss != LOSE_FORMATS);
		assert_int_equal(pmu_find_alias(good, "fine") != NULL, loss != LOSE_ALIASES && loss != LOSE_FORMATS);
		assert_int_equal(pmu_find_alias(good, "masked") != NULL, loss == LOSE_NOTHING || loss == LOSE_OTHER);
	}
	free(whole_path);
	pmu_catalogue_free(pmus);
}

static void test_broken_files(_unused_ void **state)
{
	static const char binary[] = "9\0\xff", huge_digit[] = "4294967296";
	static const struct {
		const char *file;
		const char *text;
		size_t size; /* 0: as long as text; text NULL: the file is gone */
		enum loss loss;
		size_t nr_problems;
		const char *sentence;
	} table[] = {
		{ "good/type", "", 0, LOSE_PMU, 1, "it is empty" },
		{ "good/type", "\n", 0, LOSE_PMU, 1, "it is empty" },
		{ "good/type", binary, 3, LOSE_PMU, 1, "it holds binary data" },
		{ "good/type", NULL, 0, LOSE_PMU, 1, "No such file" },
		{ "good/type", "nine", 0, LOSE_PMU, 1, "it holds no type number" },
		{ "good/type", "-1", 0, LOSE_PMU, 1, "it holds no type number" },
		{ "good/type", huge_digit, 0, LOSE_PMU, 1, "it holds no type number" },
		{ "good/type", "99999999999999999999999", 0, LOSE_PMU, 1, "it holds no type number" },

		{ "good/format/umask", "", 0, LOSE_FORMAT, 2, "it is empty" },
		{ "good/format/umask", binary, 3, LOSE_FORMAT, 2, "it holds binary data" },
		{ "good/format/umask", "\xff\xfe\x01", 3, LOSE_FORMAT, 2, "is not a format" },
		{ "good/format/umask", NULL, 0, LOSE_FORMAT, 1, "" },
		{ "good/format/umask", "config:64", 0, LOSE_FORMAT, 2, "beyond bit 63" },
		{ "good/format/umask", "config:9-8", 0, LOSE_FORMAT, 2, "ends before it begins" },
		{ "good/format/umask", "config9:1", 0, LOSE_FORMAT, 2, "'config9' is none of" },
		{ "good/format/umask", "config:a-b", 0, LOSE_FORMAT, 2, "'a-b' is not a range of bits" },

		{ "good/events/masked", "", 0, LOSE_ALIAS, 1, "it is empty" },
		{ "good/events/masked", binary, 3, LOSE_ALIAS, 1, "it holds binary data" },
		{ "good/events/masked", "event=", 0, LOSE_ALIAS, 1, "has no value after its '='" },
		{ "good/events/masked", "event=1,,", 0, LOSE_ALIAS, 1, "there is an empty term" },
		{ "good/events/masked", "event=one", 0, LOSE_ALIAS, 1, "is not a number: 'one'" },
		{ "good/events/masked", "event=0x100", 0, LOSE_ALIAS, 1, "term 'event' is 0xff at most" },
		{ "good/events/masked", "evnt=1", 0, LOSE_ALIAS, 1, "there is no term 'evnt'" },
		{ "good/events/masked", "\xff\x1b[31m", 0, LOSE_ALIAS, 1, "a term is NAME or NAME=NUMBER" },
		{ "good/events/masked", "umask=?,evnt=?", 0, LOSE_ALIAS, 1, "there is no term 'evnt'" },
		{ "good/events/masked.scale", "", 0, LOSE_ALIAS, 1, "it is empty" },
		{ "good/events/masked.scale", "much", 0, LOSE_ALIAS, 1, "it holds no number above 0" },
		{ "good/events/masked.scale", "0", 0, LOSE_ALIAS, 1, "it holds no number above 0" },
		{ "good/events/masked.scale", "-1", 0, LOSE_ALIAS, 1, "it holds no number above 0" },
		{ "good/events/masked.scale", "inf", 0, LOSE_ALIAS, 1, "it holds no number above 0" },
		{ "good/events/masked.scale", "nan", 0, LOSE_ALIAS, 1, "it holds no number above 0" },
		{ "good/events/masked.scale", "1e999", 0, LOSE_ALIAS, 1, "it holds no number above 0" },
		{ "good/events/masked.scale", "1 2", 0, LOSE_ALIAS, 1, "it holds no number above 0" },
		{ "good/events/masked.scale", binary, 3, LOSE_ALIAS, 1, "it holds binary data" },
		{ "good/events/masked.unit", "", 0, LOSE_ALIAS, 1, "it is empty" },
		{ "good/events/masked.unit", binary, 3, LOSE_ALIAS, 1, "it holds binary data" },

		{ "good/caps/max_precise", "", 0, LOSE_NOTHING, 1, "it is empty" },
		{ "good/caps/max_precise", binary, 3, LOSE_NOTHING, 1, "it holds binary data" },
		{ "good/identifier", "\n", 0, LOSE_NOTHING, 1, "it is empty" },
		{ "good/identifier", binary, 3, LOSE_NOTHING, 1, "it holds binary data" },

		{ "other/cpumask", "0-", 0, LOSE_OTHER, 1, "it holds no list of CPUs" },
		{ "other/cpumask", "ff,00000000", 0, LOSE_OTHER, 1, "it holds no list of CPUs" },
		{ "other/cpumask", binary, 3, LOSE_OTHER, 1, "it holds binary data" },
		{ "other/cpus", "all", 0, LOSE_OTHER, 1, "it holds no list of CPUs" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char *dir = tree_new(whole);
		const char *place = table[i].file;

		if (!table[i].text) {
			tree_remove(dir, table[i].file);
			/* A format that was never there is a problem of the event that uses it only. */
			place = table[i].nr_problems == 1 && !*table[i].sentence ? "good/events/masked" : place;
		} else {
			tree_bytes(dir, table[i].file, table[i].text,
				   table[i].size ? table[i].size : strlen(table[i].text));
		}
		check_loss(dir, table[i].loss, table[i].nr_problems, place, table[i].sentence);
		tree_free(dir);
	}
}

static void test_broken_shapes(_unused_ void **state)
{
	_cleanup_(freep) char *huge = malloc(1 << 20);
	static const char *const files[] = { "good/type",
					     "good/format/umask",
					     "good/events/masked",
					     "good/events/masked.scale",
					     "good/events/masked.unit",
					     "good/caps/max_precise",
					     "good/identifier",
					     "other/cpumask" };
	static const enum loss losses[] = { LOSE_PMU,	LOSE_FORMAT,  LOSE_ALIAS,   LOSE_ALIAS,
					    LOSE_ALIAS, LOSE_NOTHING, LOSE_NOTHING, LOSE_OTHER };

	assert_non_null(huge);
	memset(huge, '1', 1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		size_t nr = losses[i] == LOSE_FORMAT ? 2 : 1;
		char *dir = tree_new(whole);

		tree_remove(dir, files[i]);
		tree_folder(dir, files[i]);
		check_loss(dir, losses[i], nr, files[i], "Is a directory");
		tree_remove(dir, files[i]);
		tree_bytes(dir, files[i], huge, 1 << 20);
		check_loss(dir, losses[i], nr, files[i], "it is far too long");
		tree_remove(dir, files[i]);
		tree_link(dir, files[i], strrchr(files[i], '/') + 1);
		check_loss(dir, losses[i], nr, files[i], "symbolic links");
		tree_free(dir);
	}
}

static void test_broken_folders(_unused_ void **state)
{
	char *dir = tree_new(whole);

	/* As in sysfs, PMUs are links to folders; one can lead nowhere by the time it is followed. */
	tree_remove(dir, "good");
	tree_link(dir, "good", "../devices/gone");
	check_loss(dir, LOSE_PMU, 1, "good", "No such file");
	tree_remove(dir, "good");
	tree_text(dir, "good", "a file");
	check_loss(dir, LOSE_PMU, 1, "good", "Not a directory");
	tree_free(dir);

	dir = tree_new(whole);
	tree_remove(dir, "good/format");
	tree_text(dir, "good/format", "a file");
	check_loss(dir, LOSE_FORMATS, 3, "good/format", "Not a directory");
	tree_remove(dir, "good/format");
	check_loss(dir, LOSE_FORMATS, 2, "good/events/fine", "there is no term 'event'");
	tree_free(dir);

	dir = tree_new(whole);
	tree_remove(dir, "good/events");
	tree_text(dir, "good/events", "a file");
	check_loss(dir, LOSE_ALIASES, 1, "good/events", "Not a directory");
	tree_free(dir);
}

static void test_odd_names(_unused_ void **state)
{
	char *dir = tree_new(whole);

	tree_text(dir, "od\xff\nd/type", "11");
	tree_text(dir, "a=b/type", "12");
	tree_text(dir, "a:b/type", "13");
	tree_text(dir, "good/format/sp ace", "config:0");
	tree_text(dir, "good/events/e\x1bsc", "event=1");
	tree_text(dir, "good/events/.hidden", "");
	check_loss(dir, LOSE_NOTHING, 5, "a=b", "no event can be written with this name");
	check_loss(dir, LOSE_NOTHING, 5, "a:b", "no event can be written with this name");
	check_loss(dir, LOSE_NOTHING, 5, "good/format/sp ace", "no event can be written with this name");
	check_loss(dir, LOSE_NOTHING, 5, "good/events/e sc", "no event can be written with this name");
	check_loss(dir, LOSE_NOTHING, 5,
		   "od\xef\xbf\xbd"
		   "ff d",
		   "no event can be written with this name");
	tree_free(dir);
}

/* cpus says that it is a core PMU, and goes before a cpumask beside it. */
static void test_cpus_and_cpumask(_unused_ void **state)
{
	static const struct tree_file files[] = {
		{ "x/type", "9" },
		{ "x/cpus", "2-3\n" },
		{ "x/cpumask", "0\n" },
		{},
	};
	char *dir = tree_new(files);
	struct pmu_catalogue *pmus = load(dir);
	const struct pmu *pmu = pmu_find(pmus, "x");

	assert_true(pmu->has_cpus && !pmu->has_cpumask && pmu_is_core(pmu));
	assert_int_equal(pmu->cpus.cpu[0], 2);
	pmu_catalogue_free(pmus);
	tree_free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format_parse),
		cmocka_unit_test(test_format_refused),
		cmocka_unit_test(test_format_apply),
		cmocka_unit_test(test_terms),
		cmocka_unit_test(test_machines),
		cmocka_unit_test(test_contents),
		cmocka_unit_test(test_same_name_in_two_cases),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_no_folder),
		cmocka_unit_test(test_instances),
		cmocka_unit_test(test_broken_files),
		cmocka_unit_test(test_broken_shapes),
		cmocka_unit_test(test_broken_folders),
		cmocka_unit_test(test_odd_names),
		cmocka_unit_test(test_cpus_and_cpumask),
	};

	return cmocka_run_group_tests_name("pmu", tests, NULL, NULL);
}
