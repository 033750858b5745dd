/* SPDX-License-Identifier: MIT */

#include "service/profiles/captures-told.h"

#include <errno.h>
#include <stdlib.h>

void captures_told_release(struct told_captures *told)
{
	for (size_t i = 0; i < told->nr_values; i++)
		free(told->values[i].rates);
	free(told->values);
	free(told->rules);
	*told = (struct told_captures){};
}

static int add_rules(struct told_captures *ret, const struct capture_rules *rules)
{
	struct capture_rule_info info;
	size_t nr = 0;

	while (capture_rules_info(rules, nr, &info))
		nr++;
	ret->rules = calloc(nr + 1, sizeof(*ret->rules));
	if (!ret->rules)
		return -ENOMEM;
	for (; capture_rules_info(rules, ret->nr_rules, &info); ret->nr_rules++)
		ret->rules[ret->nr_rules] = (struct told_rule){
			.name = info.name,
			.when = info.when,
			.problem = info.problem,
			.captures = info.captures,
			.passed_over = info.passed_over,
		};
	return 0;
}

static int add_values(struct told_captures *ret, const struct capture_values *values)
{
	struct told_values *told = &ret->values[ret->nr_values];

	*told = (struct told_values){ .capture = values->id, .nr = values->nr_points };
	told->rates = calloc(told->nr + 1, sizeof(*told->rates));
	if (!told->rates)
		return -ENOMEM;
	ret->nr_values++;
	for (size_t i = 0; i < told->nr; i++)
		told->rates[i] = (struct told_rate){ .end = values->points[i].end, .rate = values->points[i].rate };
	return 0;
}

int captures_told_make(struct told_captures *ret, const struct capture_rules *rules,
		       const struct capture_values_list *values)
{
	const struct capture_values *item;
	int r;

	*ret = (struct told_captures){ .values = calloc(CAPTURE_VALUES_MAX, sizeof(*ret->values)) };
	r = ret->values ? add_rules(ret, rules) : -ENOMEM;
	for (size_t i = 0; r == 0 && (item = capture_values_at(values, i)); i++)
		r = add_values(ret, item);
	if (r < 0)
		captures_told_release(ret);
	return r;
}
