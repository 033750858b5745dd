/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Addresses to listen on: 127.0.0.1:9753, [::1]:9753, [fe80::1%eth0]:9753, /run/perfmond.sock. Only numeric addresses:
 * no name is resolved.
 */

#include "util/reason.h"

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
};

/* -EINVAL with the sentence, which quotes the text, in why. */
int address_parse(struct address *ret, const char *text, struct reason *why);

/* "http://127.0.0.1:9753", "https://[::1]:9753", "unix:/run/perfmond.sock". To be freed. NULL: out of memory. */
char *address_url(const struct address *address, bool tls);
