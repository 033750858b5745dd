/* SPDX-License-Identifier: MIT */

#include "counting/plan/pmu-counters.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct pmu_counters *look_for(const struct pmu_counters_list *list, const char *pmu)
{
	for (size_t i = 0; list && i < list->nr; i++)
		if (strcmp(list->pmus[i].pmu, pmu) == 0)
			return &list->pmus[i];
	return NULL;
}

bool pmu_counters_has(const struct pmu_counters_list *list, const char *pmu)
{
	return look_for(list, pmu) != NULL;
}

const struct pmu_counters *pmu_counters_find(const struct pmu_counters_list *list, const char *pmu)
{
	const struct pmu_counters *counters = look_for(list, pmu);

	return counters && counters->advertised ? counters : NULL;
}

const struct pmu_counters *pmu_counters_find_lying(const struct pmu_counters_list *list, const char *pmu)
{
	const struct pmu_counters *counters = pmu_counters_find(list, pmu);

	return counters && counters->usable < counters->advertised ? counters : NULL;
}

bool pmu_counters_describe(const struct pmu_counters *counters, struct reason *ret)
{
	bool lies = counters->usable < counters->advertised;

	if (!counters->advertised) {
		reason_set(ret, 0,
			   "PMU %s: none of its counters was free for the test, and nobody knows how many of them "
			   "count: reload when others have ended",
			   counters->pmu);
		return true;
	}
	reason_set(ret, 0, "PMU %s: %u counter%s, of which %s%u count%s at once%s", counters->pmu, counters->advertised,
		   counters->advertised == 1 ? "" : "s", lies ? "only " : "", counters->usable,
		   counters->usable == 1 ? "s" : "", lies ? ": no group is opened with more hardware events" : "");
	return lies;
}

int pmu_counters_add(struct pmu_counters_list *list, const struct pmu_counters *counters)
{
	struct pmu_counters *pmus = reallocarray(list->pmus, list->nr + 1, sizeof(*pmus));
	char *name;

	assert(counters->usable <= counters->advertised);
	if (!pmus)
		return -ENOMEM;
	list->pmus = pmus;
	name = strdup(counters->pmu);
	if (!name)
		return -ENOMEM;
	pmus[list->nr] = *counters;
	pmus[list->nr].pinned = 0;
	pmus[list->nr++].pmu = name;
	return 0;
}

void pmu_counters_list_release(struct pmu_counters_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		free(list->pmus[i].pmu);
	free(list->pmus);
	*list = (struct pmu_counters_list){};
}
