/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Orders of captures that the profiler has not told of. Once it has heard an order, or a later one, the order is a
 * capture, or was refused or lost.
 */

#include "counting/alarm/capture-rules.h"
#include "profiler/protocol.h"

#define SENT_ORDERS_MAX 16

struct sent_order {
	uint64_t number;
	char *id, *rule;
};

struct sent_orders {
	struct sent_order items[SENT_ORDERS_MAX];
	size_t nr;
};

/* Before it is sent. -EBUSY: too many are on their way; -ENOMEM. */
int sent_orders_add(struct sent_orders *orders, uint64_t number, const struct capture_order *order);
/* The last one could not be sent. */
void sent_orders_take_back(struct sent_orders *orders);

/* The profiler has heard those up to a number, and its state tells which of them are captures: the rules note it. */
void sent_orders_judge(struct sent_orders *orders, uint64_t heard, const struct profiler_state *state,
		       struct capture_rules *rules);

/* Does the state have a capture of that id? userdata: the state. */
bool state_has_capture(const void *userdata, const char *id);
