/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One text of a configuration: lines, sections and keys. libinih takes the lines apart; what it does not
 * tell, or would pass over in silence, is seen to by the reader that hands them to it.
 */

#include "config/config.h"

/* A text is at most this long; no file comes near. */
#define CONFIG_MAX_SIZE (16 * 1024 * 1024)

/* Applies text to config, which is left half changed on failure. -EINVAL with "NAME:LINE: …" in why;
 * -ENOMEM. defaults: they are the built-in ones. */
int config_apply(struct config *config, const char *name, const char *text, size_t size, bool defaults,
		 struct reason *why);
