/* SPDX-License-Identifier: MIT */

#include "counting/event/catalog/pmu.h"

#include "base/util/names.h"
#include "base/util/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int compare_pmu(const void *name, const void *pmu)
{
	return strcmp(name, ((const struct pmu *)pmu)->name);
}

static int compare_format(const void *name, const void *format)
{
	return strcmp(name, ((const struct pmu_format *)format)->name);
}

static int compare_alias(const void *name, const void *alias)
{
	return strcmp(name, ((const struct pmu_alias *)alias)->name);
}

bool pmu_is_name(const char *name)
{
	if (!*name)
		return false;
	for (; *name; name++)
		if (!isgraph((unsigned char)*name) || strchr("/:,='", *name))
			return false;
	return true;
}

const struct pmu *pmu_find(const struct pmu_catalogue *catalogue, const char *name)
{
	if (!catalogue->nr)
		return NULL;
	return bsearch(name, catalogue->pmus, catalogue->nr, sizeof(*catalogue->pmus), compare_pmu);
}

const struct pmu *pmu_find_type(const struct pmu_catalogue *catalogue, uint32_t type)
{
	for (size_t i = 0; i < catalogue->nr; i++)
		if (catalogue->pmus[i].type == type)
			return &catalogue->pmus[i];
	return NULL;
}

const struct pmu_format *pmu_find_format(const struct pmu *pmu, const char *name)
{
	if (!pmu->nr_formats)
		return NULL;
	return bsearch(name, pmu->formats, pmu->nr_formats, sizeof(*pmu->formats), compare_format);
}

const struct pmu_alias *pmu_find_alias(const struct pmu *pmu, const char *name)
{
	const struct pmu_alias *exact = NULL;

	if (pmu->nr_aliases)
		exact = bsearch(name, pmu->aliases, pmu->nr_aliases, sizeof(*pmu->aliases), compare_alias);
	if (exact)
		return exact;
	for (size_t i = 0; i < pmu->nr_aliases; i++)
		if (strcasecmp(pmu->aliases[i].name, name) == 0)
			return &pmu->aliases[i];
	return NULL;
}

int pmu_cap(const struct pmu *pmu, const char *name, uint64_t *ret)
{
	for (size_t i = 0; i < pmu->nr_caps; i++)
		if (strcmp(pmu->caps[i].name, name) == 0)
			return parse_u64(pmu->caps[i].value, ret) < 0 ? -EINVAL : 0;
	return -ENOENT;
}

bool pmu_is_core(const struct pmu *pmu)
{
	/* cpum_cf is the core PMU of s390, which has no cpus file either. */
	return pmu->has_cpus || strcmp(pmu->name, "cpu") == 0 || strcmp(pmu->name, "cpum_cf") == 0;
}

size_t pmu_count_core(const struct pmu_catalogue *catalogue)
{
	size_t n = 0;

	for (size_t i = 0; i < catalogue->nr; i++)
		n += pmu_is_core(&catalogue->pmus[i]);
	return n;
}

bool pmu_is_instance_of(const char *pmu, const char *name)
{
	size_t length = strlen(name), digits;
	const char *suffix;

	if (strncmp(pmu, name, length) || pmu[length] != '_')
		return false;
	suffix = pmu + length + 1;
	if (!*suffix)
		return false;

	/* Most instances have a number; those with an address (smmuv3_pmcg_2b442) have it in hexadecimal. Up to three
	 * such digits can be a model instead: armv8_cortex_a53 is no instance of armv8_cortex. */
	digits = strspn(suffix, "0123456789");
	if (!suffix[digits])
		return true;
	digits = strspn(suffix, "0123456789abcdef");
	return !suffix[digits] && digits > 3;
}

static int parse_term_value(const struct term *term, uint64_t *ret, struct reason *why)
{
	int r = 0;

	*ret = 1;
	if (term->value)
		r = parse_u64(term->value, ret);
	if (r == -ERANGE)
		return reason_set(why, -EINVAL, "the value of term '%.60s' has more than 64 bits", term->name);
	if (r < 0)
		return reason_set(why, -EINVAL, "the value of term '%.60s' is not a number: '%.60s'", term->name,
				  term->value);
	return 0;
}

int pmu_apply_term(const struct pmu *pmu, const struct term *term, uint64_t config[static PMU_NR_CONFIGS],
		   struct reason *why)
{
	const struct pmu_format *format = pmu_find_format(pmu, term->name);
	int word = pmu_config_word(term->name);
	uint64_t value;
	int r;

	if (word < 0 && !format)
		return reason_set(why, -ENOENT, "there is no term '%.60s'", term->name);
	r = parse_term_value(term, &value, why);
	if (r < 0)
		return r;
	if (word >= 0) {
		config[word] = value;
		return 0;
	}
	if (pmu_format_apply(format, value, config) < 0)
		return reason_set(why, -EINVAL, "term '%.60s' is 0x%" PRIx64 " at most (%d bits), not 0x%" PRIx64,
				  term->name, pmu_format_max(format), __builtin_popcountll(format->mask), value);
	return 0;
}

void pmu_describe(const struct pmu *pmu, struct buf *text)
{
	struct name_list formats = {}, aliases = {};

	for (size_t i = 0; i < pmu->nr_formats; i++)
		name_list_add(&formats, pmu->formats[i].name);
	for (size_t i = 0; i < pmu->nr_aliases; i++)
		name_list_add(&aliases, pmu->aliases[i].name);
	buf_printf(text, "; it has the terms %s and the events %s", name_list_text(&formats), name_list_text(&aliases));
}
