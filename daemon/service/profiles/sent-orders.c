/* SPDX-License-Identifier: MIT */

#include "service/profiles/sent-orders.h"

#include <errno.h>
#include <string.h>

bool state_has_capture(const void *userdata, const char *id)
{
	const struct profiler_state *state = userdata;

	for (size_t i = 0; i < state->nr_captures; i++)
		if (strcmp(state->captures[i], id) == 0)
			return true;
	return false;
}

static void release_order(struct sent_order *order)
{
	free(order->id);
	free(order->rule);
}

int sent_orders_add(struct sent_orders *orders, uint64_t number, const struct capture_order *order)
{
	struct sent_order sent = { .number = number, .id = strdup(order->id), .rule = strdup(order->rule) };
	int r = sent.id && sent.rule ? 0 : -ENOMEM;

	if (orders->nr == SENT_ORDERS_MAX)
		r = -EBUSY;
	if (r < 0)
		release_order(&sent);
	else
		orders->items[orders->nr++] = sent;
	return r;
}

void sent_orders_take_back(struct sent_orders *orders)
{
	release_order(&orders->items[--orders->nr]);
}

void sent_orders_judge(struct sent_orders *orders, uint64_t heard, const struct profiler_state *state,
		       struct capture_rules *rules)
{
	size_t nr = 0;

	for (size_t i = 0; i < orders->nr; i++) {
		struct sent_order *sent = &orders->items[i];

		if (sent->number > heard) {
			orders->items[nr++] = *sent;
			continue;
		}
		capture_rules_note(rules, sent->rule, state_has_capture(state, sent->id));
		release_order(sent);
	}
	orders->nr = nr;
}
