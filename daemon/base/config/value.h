/* SPDX-License-Identifier: MIT */
#pragma once

/* Checks one value by its key's type and bounds, and puts it into the key's member. */

#include "base/config/keys.h"
#include "base/config/list.h"
#include "base/util/reason.h"

struct config_value {
	const char *text;
	struct config_place place;
	bool goes_on;  /* adds a line to the value before it */
	bool defaults; /* is a built-in default */
};

/* Sets the key's member of the object (struct config or config_group). -EINVAL with the sentence on the value in why;
 * -ENOMEM. A list may have taken some of the values then. */
int config_value_set(void *object, const struct config_key *key, const struct config_value *value, struct reason *why);
