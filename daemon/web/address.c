/* SPDX-License-Identifier: MIT */

#include "web/address.h"

#include "util/buf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <net/if.h>
#include <string.h>

#define PORT_MAX 65535

/* Longer than any numeric address with its zone. */
#define HOST_MAX 128

static int parse_local(struct address *ret, const char *path, struct reason *why)
{
	struct address address = { .local.sun_family = AF_UNIX };
	size_t length = strlen(path);

	if (length >= sizeof(address.local.sun_path))
		return reason_set(why, -EINVAL, "cannot listen on %s: the path of a Unix socket has at most %zu bytes",
				  path, sizeof(address.local.sun_path) - 1);
	memcpy(address.local.sun_path, path, length + 1);
	address.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
	*ret = address;
	return 0;
}

/* Digits only: strtoul() also accepts signs and spaces. */
static int parse_port(const char *text, in_port_t *ret)
{
	size_t n = strspn(text, "0123456789");
	unsigned long port;

	if (n == 0 || n > 5 || text[n])
		return -EINVAL;
	port = strtoul(text, NULL, 10);
	if (port > PORT_MAX)
		return -EINVAL;
	*ret = htons((in_port_t)port);
	return 0;
}

/* The interface of a link-local address, by name or number. */
static int parse_zone(const char *zone, uint32_t *ret)
{
	unsigned index = if_nametoindex(zone);

	if (index == 0 && zone[0] && zone[strspn(zone, "0123456789")] == '\0')
		index = (unsigned)strtoul(zone, NULL, 10);
	*ret = index;
	return index ? 0 : -EINVAL;
}

static int parse_v6(struct address *ret, char *host, in_port_t port)
{
	struct address address = { .v6 = { .sin6_family = AF_INET6, .sin6_port = port }, .size = sizeof(address.v6) };
	char *zone = strchr(host, '%');

	if (zone) {
		*zone++ = '\0';
		if (parse_zone(zone, &address.v6.sin6_scope_id) < 0)
			return -EINVAL;
	}
	if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) != 1)
		return -EINVAL;
	*ret = address;
	return 0;
}

static int parse_v4(struct address *ret, const char *host, in_port_t port)
{
	struct address address = { .v4 = { .sin_family = AF_INET, .sin_port = port }, .size = sizeof(address.v4) };

	if (inet_pton(AF_INET, host, &address.v4.sin_addr) != 1)
		return -EINVAL;
	*ret = address;
	return 0;
}

int address_parse(struct address *ret, const char *text, struct reason *why)
{
	const char *colon = strrchr(text, ':');
	char host[HOST_MAX];
	in_port_t port;
	size_t length;
	bool v6 = text[0] == '[';
	int r;

	if (text[0] == '/')
		return parse_local(ret, text, why);
	/* "[::1]" and "::1" have no port, although their last colon is followed by digits. */
	if (!colon || (v6 ? colon == text || colon[-1] != ']' : strchr(text, ':') != colon))
		return reason_set(why, -EINVAL,
				  "cannot listen on '%s': write ADDRESS:PORT, [IPv6 ADDRESS]:PORT or the /path of a "
				  "Unix socket",
				  text);
	if (parse_port(colon + 1, &port) < 0)
		return reason_set(why, -EINVAL, "cannot listen on '%s': the port must be a number from 0 to %d", text,
				  PORT_MAX);

	length = (size_t)(colon - text) - (v6 ? 2 : 0);
	if (length < sizeof(host)) {
		memcpy(host, text + v6, length);
		host[length] = '\0';
		r = v6 ? parse_v6(ret, host, port) : parse_v4(ret, host, port);
		if (r == 0)
			return 0;
	}
	return reason_set(why, -EINVAL,
			  "cannot listen on '%s': the address must be numeric (127.0.0.1, or 0.0.0.0 for all; "
			  "[::1], or [::] for all)",
			  text);
}

char *address_url(const struct address *address, bool tls)
{
	char host[INET6_ADDRSTRLEN] = "";
	struct buf url = {};

	switch (address->any.sa_family) {
	case AF_UNIX:
		/* An abstract name begins with a NUL; "@" is how ss(8) and systemd.socket(5) write it. */
		buf_printf(&url, "unix:%s%s", address->local.sun_path[0] ? "" : "@",
			   address->local.sun_path + !address->local.sun_path[0]);
		break;
	case AF_INET:
		(void)inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof(host));
		buf_printf(&url, "http%s://%s:%u", tls ? "s" : "", host, ntohs(address->v4.sin_port));
		break;
	default:
		(void)inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof(host));
		buf_printf(&url, "http%s://[%s", tls ? "s" : "", host);
		/* RFC 6874: the percent sign of a zone is escaped. */
		if (address->v6.sin6_scope_id)
			buf_printf(&url, "%%25%u", address->v6.sin6_scope_id);
		buf_printf(&url, "]:%u", ntohs(address->v6.sin6_port));
	}
	return buf_steal(&url);
}
