/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a request asks for: the request-target of RFC 9112 ("/api/v1/snapshot?limit=5"), taken apart and
 * decoded. Pure. Foreign bytes: a percent sign that stands for nothing, a NUL and invalid UTF-8 are errors.
 */

#include "util/reason.h"

#include <stddef.h>

/* What fits is more than any glob needs. */
#define PARAMETER_MAX 1024
#define PARAMETERS_MAX 16

struct parameter {
	char *name;
	char *value; /* "" where there is no '=' */
};

struct parameters {
	struct parameter items[PARAMETERS_MAX];
	size_t nr;
};

/* The decoded path, without the query; also of the absolute form, "http://host/path", that proxies are
 * sent. -EINVAL with the sentence in why, -ENOMEM. */
int target_path(const char *target, char **ret, struct reason *why);

/* The decoded parameters of the query, empty ones left out. -EINVAL, with the sentence in why, also for one
 * that stands twice and for too many or too long ones; -ENOMEM. */
int target_parameters(const char *target, struct parameters *ret, struct reason *why);
void parameters_release(struct parameters *parameters);
