/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The addresses in [web] listen and --listen: 127.0.0.1:9753, [::1]:9753, [fe80::1%eth0]:9753, /run/perfmond.sock. Only
 * numeric addresses: no name is resolved. A link-local address needs its zone, which is a network interface, by name or
 * number; no other address has one (RFC 4007).
 */

#include "base/util/reason.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
		struct sockaddr_storage storage;
	};
	socklen_t size;
	char zone[IF_NAMESIZE]; /* the interface's name; "": there is no zone, or its name is not known */
};

/* -EINVAL: it is no such address; -ENODEV: this machine has no such interface. The sentence in why quotes the text. */
int address_parse(struct address *ret, const char *text, struct reason *why);

/* Is it such an address? It may be one of an interface that comes later. -EINVAL with the sentence in why. */
int address_check(const char *text, struct reason *why);

/* "http://127.0.0.1:9753", "https://[fe80::1%25eth0]:9753" (RFC 6874), "unix:/run/perfmond.sock". To be freed. NULL:
 * out of memory. */
char *address_url(const struct address *address, bool tls);
