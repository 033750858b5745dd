/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the tests of configurations have in common. What is not as expected fails the test.
 */

#include "base/config/config.h"

/* The built-in defaults. */
struct config *fresh_config(void);

/* Of a file called "f". */
struct config *parsed(const char *text);
/* A file "f" is refused, with a sentence that begins with the message, and is one line. */
void expect_error(const char *text, size_t size, const char *message);

/* The items of the list, with '|' between them. */
void expect_list(const struct config_list *list, const char *joined);
void expect_place(const struct config_place *place, const char *file, unsigned line);

/* All but the places. */
void expect_same(const struct config *a, const struct config *b);
