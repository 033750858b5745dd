/* SPDX-License-Identifier: MIT */

#include "counting/event/generic.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

bool generic_find_hardware(const char *name, struct event *ret, char canonical[static EVENT_CACHE_NAME_MAX])
{
	const struct event_table_entry *entry = event_hardware_find(name);
	uint64_t config;

	if (entry) {
		(void)snprintf(canonical, EVENT_CACHE_NAME_MAX, "%s", entry->name);
		*ret = (struct event){ .attr = { .type = PERF_TYPE_HARDWARE, .config = entry->config },
				       .scale = 1,
				       .steady = entry->steady };
		return true;
	}
	if (event_cache_parse(name, &config, canonical, EVENT_CACHE_NAME_MAX)) {
		*ret = (struct event){ .attr = { .type = PERF_TYPE_HW_CACHE, .config = config }, .scale = 1 };
		return true;
	}
	return false;
}

/* If there are several core PMUs, the kernel would count a plain PERF_TYPE_HARDWARE event on the first of them only. So
 * each event names its PMU: in the upper half of config, or, a raw event, by its type. */
int generic_add_on_core(struct event_parser *parser, const struct event *like, const char *fallback)
{
	bool several = pmu_count_core(parser->pmus) > 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < parser->pmus->nr; i++) {
		const struct pmu *pmu = &parser->pmus->pmus[i];
		struct event event = *like;

		if (!pmu_is_core(pmu))
			continue;
		if (several && event.attr.type == PERF_TYPE_RAW)
			event.attr.type = pmu->type;
		else if (several)
			event.attr.config |= (uint64_t)pmu->type << PERF_PMU_TYPE_SHIFT;
		r = event_parser_add(parser, &event, pmu, NULL);
	}
	return r == 0 && !parser->list.nr ? event_parser_add(parser, like, NULL, fallback) : r;
}

int generic_parse_raw(const char *text, uint64_t *ret)
{
	const char *digits = text + 1;
	uint64_t value = 0;
	bool fits = true;

	if (tolower((unsigned char)text[0]) != 'r')
		return -EINVAL;
	if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
		digits += 2;
	if (!*digits || digits[strspn(digits, "0123456789abcdefABCDEF")])
		return -EINVAL;
	for (; *digits; digits++) {
		int c = tolower((unsigned char)*digits);

		fits = fits && value <= UINT64_MAX >> 4;
		value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (!fits)
		return -ERANGE;
	*ret = value;
	return 0;
}
