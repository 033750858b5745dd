/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The Host header, against DNS rebinding: a page of any site can have its own name resolved to 127.0.0.1, and read what
 * listens there as if it were the site's own. Its browser says that name. Pure.
 */

#include <stdbool.h>

/* Does it name this machine's loopback: localhost, 127.0.0.0/8 or [::1], with a port or none? */
bool host_is_loopback(const char *host);
