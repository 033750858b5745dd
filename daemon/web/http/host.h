/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The check of the Host header against DNS rebinding: any site can have its name resolve to 127.0.0.1, and its pages
 * can then read from servers there as from the site itself. The browser sends the site's name as Host. Pure.
 *
 * The machine's host name is not accepted: whoever controls names in its network (DNS, mDNS, the domain from DHCP) can
 * serve a page under that name, and then have it resolve to the loopback address. Nobody can do so for localhost and
 * for numeric addresses.
 */

#include <stdbool.h>

/* Is the host this machine's loopback: localhost, 127.0.0.0/8 or [::1], with or without a port? */
bool host_is_loopback(const char *host);
