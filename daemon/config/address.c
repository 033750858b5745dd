/* SPDX-License-Identifier: MIT */

#include "config/address.h"

#include "util/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static int check_port(const char *text, struct reason *why)
{
	uint64_t port;

	if (!isdigit((unsigned char)text[0]) || text[strspn(text, "0123456789")] || parse_u64(text, &port) < 0 ||
	    port > 65535)
		return reason_set(why, -EINVAL, "the port has to be a number from 0 to 65535");
	return 0;
}

static int check_unix_path(const char *path, struct reason *why)
{
	struct sockaddr_un address;

	if (strlen(path) >= sizeof(address.sun_path))
		return reason_set(why, -EINVAL, "the path of a Unix socket has at most %zu bytes",
				  sizeof(address.sun_path) - 1);
	return 0;
}

int config_check_listen(const char *text, struct reason *why)
{
	char host[INET6_ADDRSTRLEN], excerpt[EXCERPT_MAX];
	const char *colon = strrchr(text, ':'), *start = text;
	struct in6_addr address;
	bool v6 = text[0] == '[';
	size_t n;
	int r;

	if (text[0] == '/')
		return check_unix_path(text, why);

	n = colon ? (size_t)(colon - text) : 0;
	if (v6 && n > 1 && text[n - 1] == ']') {
		start++;
		n -= 2;
	}
	if (n == 0 || (v6 && start == text))
		return reason_set(why, -EINVAL,
				  "'%s' is not an address to listen on; write 127.0.0.1:9753, [::1]:9753, or the path "
				  "of a Unix socket",
				  text_excerpt(excerpt, text));

	(void)snprintf(host, sizeof(host), "%.*s", (int)(n < sizeof(host) ? n : 0), start);
	if (inet_pton(v6 ? AF_INET6 : AF_INET, host, &address) != 1)
		return reason_set(why, -EINVAL,
				  "'%s' has no numeric address (names are not looked up); write 127.0.0.1:9753, "
				  "[::1]:9753, or 0.0.0.0:9753 for all interfaces",
				  text_excerpt(excerpt, text));
	r = check_port(colon + 1, why);
	return r < 0 ? reason_prefix(why, r, "'%s'", text_excerpt(excerpt, text)) : 0;
}
