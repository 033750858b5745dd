/* SPDX-License-Identifier: MIT */

#include "counting/event/catalog/format.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

int pmu_config_word(const char *name)
{
	static const char *const words[PMU_NR_CONFIGS] = { "config", "config1", "config2", "config3" };

	for (int i = 0; i < PMU_NR_CONFIGS; i++)
		if (strcmp(name, words[i]) == 0)
			return i;
	return -EINVAL;
}

/* The bit's number at *p; some number above 63 for any that is. */
static int parse_bit(const char **p)
{
	int bit = 0;

	if (!isdigit((unsigned char)**p))
		return -EINVAL;
	for (; isdigit((unsigned char)**p); (*p)++)
		if (bit < 64)
			bit = bit * 10 + (**p - '0');
	return bit;
}

/* Adds "7" or "0-7" at *p to the mask. */
static int parse_range(const char **p, uint64_t *mask, struct reason *why)
{
	const char *start = *p;
	int low, high;

	low = high = parse_bit(p);
	if (low >= 0 && **p == '-') {
		(*p)++;
		high = parse_bit(p);
	}
	if (low < 0 || high < 0)
		return reason_set(why, -EINVAL, "'%.60s' is not a range of bits", start);
	if (low > 63 || high > 63)
		return reason_set(why, -EINVAL, "'%.60s' goes beyond bit 63", start);
	if (low > high)
		return reason_set(why, -EINVAL, "'%.60s' ends before it begins", start);

	*mask |= (UINT64_MAX >> (63 - (high - low))) << low;
	return 0;
}

int pmu_format_parse(struct pmu_format *ret, const char *text, struct reason *why)
{
	const char *p = strchr(text, ':');
	uint64_t mask = 0;
	char name[16];
	int word;

	if (!p || (size_t)(p - text) >= sizeof(name))
		return reason_set(why, -EINVAL, "'%.60s' is not a format such as 'config:0-7'", text);
	memcpy(name, text, (size_t)(p - text));
	name[p - text] = '\0';
	word = pmu_config_word(name);
	if (word < 0)
		return reason_set(why, -EINVAL, "'%s' is none of config, config1, config2 and config3", name);

	do {
		int r;

		p++;
		r = parse_range(&p, &mask, why);
		if (r < 0)
			return r;
	} while (*p == ',');
	if (*p)
		return reason_set(why, -EINVAL, "'%.60s' does not belong behind a range of bits", p);

	ret->word = (unsigned)word;
	ret->mask = mask;
	return 0;
}

uint64_t pmu_format_max(const struct pmu_format *format)
{
	assert(format->mask);
	return UINT64_MAX >> (64 - __builtin_popcountll(format->mask));
}

int pmu_format_apply(const struct pmu_format *format, uint64_t value, uint64_t config[static PMU_NR_CONFIGS])
{
	uint64_t *word = &config[format->word];

	if (value > pmu_format_max(format))
		return -ERANGE;

	*word &= ~format->mask;
	for (uint64_t left = format->mask; left; left &= left - 1) {
		if (value & 1)
			*word |= left & -left;
		value >>= 1;
	}
	return 0;
}
