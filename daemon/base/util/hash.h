/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * uthash, which calls exit(3) when there is no memory unless it is asked not to. After HASH_ADD, an
 * element that could not be added has hh.tbl == NULL.
 */

#define HASH_NONFATAL_OOM 1

#include <uthash.h>
