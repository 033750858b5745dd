/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The request target of RFC 9112 ("/api/v1/snapshot?limit=5"), split and decoded. Pure. It is foreign bytes: malformed
 * percent-encoding, a NUL and invalid UTF-8 are errors.
 */

#include "base/util/reason.h"

#include <stddef.h>

/* Bytes of one parameter, encoded: more than any glob needs. */
#define PARAMETER_MAX 1024
#define PARAMETERS_MAX 16

struct parameter {
	char *name;
	char *value; /* "" without '=' */
};

struct parameters {
	struct parameter items[PARAMETERS_MAX];
	size_t nr;
};

/* The decoded path, without the query, to be freed. Also takes the absolute form, "http://host/path", which proxies are
 * sent. -EINVAL with the sentence in why; -ENOMEM. */
int target_path(const char *target, char **ret, struct reason *why);

/* The decoded parameters of the query, without empty ones. -EINVAL with the sentence in why, also for a parameter that
 * is given twice, and for too many or too long ones; -ENOMEM. repeatable: the one that may be given again, or NULL. */
int target_parameters(const char *target, const char *repeatable, struct parameters *ret, struct reason *why);
void parameters_release(struct parameters *parameters);
