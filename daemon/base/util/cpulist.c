/* SPDX-License-Identifier: MIT */

#include "base/util/cpulist.h"

#include "base/util/buf.h"

#include <ctype.h>
#include <errno.h>

void cpulist_release(struct cpulist *list)
{
	free(list->cpu);
	*list = (struct cpulist){};
}

static int parse_cpu(const char **p)
{
	int cpu = 0;

	if (!isdigit((unsigned char)**p))
		return -EINVAL;
	for (; isdigit((unsigned char)**p); (*p)++) {
		cpu = cpu * 10 + (**p - '0');
		if (cpu > CPULIST_MAX_CPU)
			return -EINVAL;
	}
	return cpu;
}

static int add_range(unsigned char *map, const char **p)
{
	int first, last;

	first = last = parse_cpu(p);
	if (first < 0)
		return first;
	if (**p == '-') {
		(*p)++;
		last = parse_cpu(p);
		if (last < first)
			return -EINVAL;
	}
	memset(map + first, 1, (size_t)(last - first) + 1);
	return 0;
}

static int from_map(struct cpulist *ret, const unsigned char *map)
{
	struct cpulist list = {};

	for (int cpu = 0; cpu <= CPULIST_MAX_CPU; cpu++)
		list.nr += map[cpu];
	list.cpu = calloc(list.nr ? list.nr : 1, sizeof(*list.cpu));
	if (!list.cpu)
		return -ENOMEM;

	for (size_t cpu = 0, at = 0; at < list.nr; cpu++)
		if (map[cpu])
			list.cpu[at++] = (int)cpu;
	*ret = list;
	return 0;
}

int cpulist_parse(struct cpulist *ret, const char *text)
{
	_cleanup_(freep) unsigned char *map = calloc(CPULIST_MAX_CPU + 1, 1);
	const char *p = text;

	if (!map)
		return -ENOMEM;

	while (*p && !isspace((unsigned char)*p)) {
		int r = add_range(map, &p);

		if (r < 0)
			return r;
		if (*p == ',' && isdigit((unsigned char)p[1]))
			p++;
		else if (*p && !isspace((unsigned char)*p))
			return -EINVAL;
	}
	while (isspace((unsigned char)*p))
		p++;
	if (*p)
		return -EINVAL;

	return from_map(ret, map);
}

int cpulist_copy(struct cpulist *ret, const struct cpulist *list)
{
	int *cpu = calloc(list->nr ? list->nr : 1, sizeof(*cpu));

	if (!cpu)
		return -ENOMEM;
	if (list->nr)
		memcpy(cpu, list->cpu, list->nr * sizeof(*cpu));
	*ret = (struct cpulist){ .cpu = cpu, .nr = list->nr };
	return 0;
}

int cpulist_add(struct cpulist *list, int cpu)
{
	size_t at = 0;
	int *room;

	if (cpulist_has(list, cpu))
		return 0;
	room = reallocarray(list->cpu, list->nr + 1, sizeof(*room));
	if (!room)
		return -ENOMEM;
	list->cpu = room;
	while (at < list->nr && room[at] < cpu)
		at++;
	memmove(&room[at + 1], &room[at], (list->nr - at) * sizeof(*room));
	room[at] = cpu;
	list->nr++;
	return 0;
}

bool cpulist_has(const struct cpulist *list, int cpu)
{
	size_t low = 0, high = list->nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (list->cpu[mid] == cpu)
			return true;
		if (list->cpu[mid] < cpu)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

bool cpulist_equal(const struct cpulist *a, const struct cpulist *b)
{
	return a->nr == b->nr && (a->nr == 0 || memcmp(a->cpu, b->cpu, a->nr * sizeof(*a->cpu)) == 0);
}

char *cpulist_format(const struct cpulist *list)
{
	struct buf b = {};

	for (size_t i = 0; i < list->nr;) {
		size_t last = i;

		while (last + 1 < list->nr && list->cpu[last + 1] == list->cpu[last] + 1)
			last++;
		buf_printf(&b, "%s%d", i ? "," : "", list->cpu[i]);
		if (last > i)
			buf_printf(&b, "-%d", list->cpu[last]);
		i = last + 1;
	}
	return buf_steal(&b);
}
