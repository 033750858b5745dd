/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/* doc/openapi.json, the description of what is served, which the build makes into openapi-data.c. */
extern const char openapi_json[];
extern const size_t openapi_json_size;
