/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One text of a configuration: lines, sections and keys. libinih takes the lines apart. A filter in front of it hands
 * it line by line, and sees to what libinih does not report or silently accepts: unknown sections, text behind a
 * section, NUL bytes, indented lines.
 */

#include "base/config/settings.h"
#include "base/util/reason.h"

/* Bytes of a text; no file comes near. */
#define CONFIG_MAX_SIZE (16 * 1024 * 1024)

/* Applies text to config. defaults: the values are the built-in ones. -EINVAL with "NAME:LINE: …" in why; -ENOMEM.
 * config is left half changed on failure. */
int config_apply(struct config *config, const char *name, const char *text, size_t size, bool defaults,
		 struct reason *why);
