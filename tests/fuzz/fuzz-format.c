/* SPDX-License-Identifier: MIT */

/*
 * The files of a PMU in sysfs. The first byte chooses: a format's text and an alias's terms alone, which is
 * fast, or one of the files of a PMU that is then read as a whole.
 */

#include "fuzz.h"

#include "base/util/text.h"
#include "counting/event/catalog/pmu.h"
#include "setup/tree.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

static const struct tree_file files[] = {
	{ "pmu/type", "9\n" },
	{ "pmu/cpumask", "0\n" },
	{ "pmu/format/event", "config:0-7,32-35\n" },
	{ "pmu/format/umask", "config1:8-15\n" },
	{ "pmu/events/a", "event=1,umask=?\n" },
	{ "pmu/events/a.scale", "0.5\n" },
	{ "pmu/events/a.unit", "MiB\n" },
	{ "pmu/caps/max_precise", "3\n" },
	{ "pmu/identifier", "0x30\n" },
	{},
};

static char *dir;
static struct pmu_catalogue *catalogue;

static void remove_dir(void)
{
	dir = tree_free(dir);
	catalogue = pmu_catalogue_free(catalogue);
}

int LLVMFuzzerInitialize(_unused_ int *argc, _unused_ char ***argv)
{
	dir = tree_new(files);
	CHECK(pmu_catalogue_load(&catalogue, dir, NULL) == 0);
	CHECK(catalogue->nr == 1 && catalogue->nr_problems == 0);
	CHECK(atexit(remove_dir) == 0);
	return 0;
}

static void fuzz_format(const char *text)
{
	uint64_t config[PMU_NR_CONFIGS] = {};
	struct pmu_format format = {};
	struct reason why = {};
	uint64_t max;
	int r = pmu_format_parse(&format, text, &why);

	CHECK(r == 0 || (r == -EINVAL && *why.text));
	if (r < 0)
		return;
	CHECK(format.word < PMU_NR_CONFIGS && format.mask);
	max = pmu_format_max(&format);
	CHECK(pmu_format_apply(&format, max, config) == 0);
	CHECK(config[format.word] == format.mask);
	CHECK(max == UINT64_MAX || pmu_format_apply(&format, max + 1, config) == -ERANGE);
	CHECK(pmu_format_apply(&format, 0, config) == 0);
	for (size_t i = 0; i < PMU_NR_CONFIGS; i++)
		CHECK(config[i] == 0);
}

static void fuzz_terms(const char *text)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	uint64_t config[PMU_NR_CONFIGS] = {};
	struct reason why = {};
	int r = term_list_parse(&terms, text, &why);

	CHECK(r == 0 || (r == -EINVAL && *why.text && !terms.nr));
	for (size_t i = 0; i < terms.nr; i++) {
		CHECK(term_is_name(terms.terms[i].name));
		r = pmu_apply_term(&catalogue->pmus[0], &terms.terms[i], config, &why);
		CHECK(r == 0 || r == -EINVAL || r == -ENOENT);
		CHECK(!terms.terms[i].value || term_list_find(&terms, terms.terms[i].name));
	}
}

static void fuzz_file(const char *file, const char *original, const uint8_t *data, size_t size)
{
	struct pmu_catalogue *loaded = NULL;

	tree_bytes(dir, file, data, size);
	CHECK(pmu_catalogue_load(&loaded, dir, NULL) == 0);
	tree_text(dir, file, original);

	CHECK(loaded->nr <= 1);
	CHECK(loaded->nr == 1 || loaded->nr_problems);
	for (size_t i = 0; i < loaded->nr_problems; i++) {
		CHECK(strncmp(loaded->problems[i], dir, strlen(dir)) == 0);
		for (const char *p = loaded->problems[i]; *p; p += utf8_length(p))
			CHECK(utf8_length(p) > 0 && !iscntrl((unsigned char)*p));
	}
	for (size_t i = 0; loaded->nr && i < loaded->pmus[0].nr_aliases; i++)
		CHECK(isfinite(loaded->pmus[0].aliases[i].scale) && loaded->pmus[0].aliases[i].scale > 0);
	pmu_catalogue_free(loaded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t nr_files = ARRAY_SIZE(files) - 1, choice;
	_cleanup_(freep) char *text = NULL;

	if (!size)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	CHECK(text);
	choice = data[0] % (nr_files + 2);
	if (choice == 0)
		fuzz_format(text);
	else if (choice == 1)
		fuzz_terms(text);
	else
		fuzz_file(files[choice - 2].path, files[choice - 2].text, data + 1, size - 1);
	return 0;
}
