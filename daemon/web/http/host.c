/* SPDX-License-Identifier: MIT */

#include "web/http/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

/* The text behind the host: nothing, or ":PORT". */
static bool is_port_suffix(const char *text)
{
	return !*text || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

/* The length of the host: of "[...]", or up to a colon. */
static size_t host_length(const char *host)
{
	const char *end = host[0] == '[' ? strchr(host, ']') : NULL;

	return end ? (size_t)(end + 1 - host) : strcspn(host, ":");
}

static bool is_loopback_v4(const char *text)
{
	struct in_addr address;

	return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool host_is_loopback(const char *host)
{
	static const char localhost[] = "localhost", v6[] = "[::1]";
	size_t n = host_length(host);
	char name[INET_ADDRSTRLEN];

	if (!is_port_suffix(host + n) || n >= sizeof(name))
		return false;
	memcpy(name, host, n);
	name[n] = '\0';
	return strcasecmp(name, localhost) == 0 || strcmp(name, v6) == 0 || is_loopback_v4(name);
}
