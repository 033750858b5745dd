/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The Host header, against DNS rebinding: a page of any site can have its own name resolved to 127.0.0.1, and read what
 * listens there as if it were the site's own. Its browser says that name. Pure.
 *
 * The machine's host name is none of those that are taken: whoever answers for names where the machine is (DNS, mDNS,
 * DHCP's domain) can serve a page under it, and have it point here then. Nobody can for localhost and addresses.
 */

#include <stdbool.h>

/* Does it name this machine's loopback: localhost, 127.0.0.0/8 or [::1], with a port or none? */
bool host_is_loopback(const char *host);
