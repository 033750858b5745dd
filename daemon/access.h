/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How the web is served, by the config: [web] but for its addresses, with certificate, key and users read from their
 * files and looked at. So a broken file is found when the config is loaded, and nothing of it is in force.
 */

#include "config/config.h"
#include "web/options.h"

/* Open files that are neither of events nor of connections: sysfs, the loop, listening sockets. */
#define FDS_OF_OTHERS 128

/* Without them nothing works: what is open all the time, and what is opened for a moment to look at something. */
#define FDS_OF_ITSELF 20
#define FEW_CONNECTIONS 4

/* How many open files are to be left to what is not counting, of a limit: half of it at most, but no fewer than it
 * takes to look at the machine and to answer. */
size_t access_fd_reserve(const struct config *config, uint64_t fd_limit);

/* -EINVAL and others with "FILE:LINE: KEY: /path: …" in why. What is odd, and no reason to fail, is logged. */
int access_load(struct web_options **ret, const struct config *config, uint64_t fd_limit, struct reason *why);
