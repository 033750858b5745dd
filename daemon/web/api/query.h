/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The query parameters of routes about counters, as a selection from a snapshot. Each route has a const table of those
 * that it takes. An unknown or malformed one is an error, since a filter that is ignored would go unnoticed. Pure.
 */

#include "web/api/request-target.h"
#include "web/expose/expose.h"

struct parameter_rule {
	const char *name;
	int (*take)(struct expose_query *query, const char *value, struct reason *why);
	/* Called before the first of several; NULL: it may be given once only. One rule of a table has it at most. */
	void (*begin)(struct expose_query *query);
};

/* Each ends with an empty rule. */
extern const struct parameter_rule snapshot_parameters[];
extern const struct parameter_rule metrics_parameters[];
extern const struct parameter_rule history_parameters[];
extern const struct parameter_rule no_parameters[];

/* Of all routes: the parameter of that name is a moment. -EINVAL with the sentence in why. */
int query_take_moment(struct moment *ret, const char *name, const char *value, struct reason *why);

/* Fills in what the query of the request target says; borrows the values of its parameters, which are the caller's to
 * release. -EINVAL with the sentence in why; -ENOMEM. */
int query_take(struct expose_query *ret, struct parameters *ret_parameters, const char *target,
	       const struct parameter_rule *rules, struct reason *why);
