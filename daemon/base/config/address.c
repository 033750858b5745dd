/* SPDX-License-Identifier: MIT */

#include "base/config/address.h"

#include "base/util/buf.h"
#include "base/util/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* Longer than any numeric address with its zone. */
#define HOST_MAX 128

static int parse_local(struct address *ret, const char *path, struct reason *why)
{
	struct address address = { .local.sun_family = AF_UNIX };
	size_t length = strlen(path);

	if (length >= sizeof(address.local.sun_path))
		return reason_set(why, -EINVAL, "the path of a Unix socket has at most %zu bytes",
				  sizeof(address.local.sun_path) - 1);
	memcpy(address.local.sun_path, path, length + 1);
	address.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
	*ret = address;
	return 0;
}

static int parse_port(const char *text, in_port_t *ret)
{
	uint64_t port;

	if (!isdigit((unsigned char)text[0]) || text[strspn(text, "0123456789")] || parse_u64(text, &port) < 0 ||
	    port > UINT16_MAX)
		return -EINVAL;
	*ret = htons((in_port_t)port);
	return 0;
}

/* bind(2) refuses a number that no interface has. */
static int parse_zone(const char *zone, uint32_t *ret, struct reason *why)
{
	uint64_t number = if_nametoindex(zone);

	if (number == 0 && zone[strspn(zone, "0123456789")] == '\0')
		(void)parse_u64(zone, &number);
	if (number == 0 || number > INT_MAX)
		return reason_set(why, -ENODEV, "names a network interface that this machine does not have");
	*ret = (uint32_t)number;
	return 0;
}

static int fail_numeric(struct reason *why)
{
	return reason_set(why, -EINVAL,
			  "has no numeric address (names are not looked up); write 127.0.0.1:9753, [::1]:9753, or "
			  "0.0.0.0:9753 for all interfaces");
}

/* Changes host. */
static int parse_v6(struct address *ret, char *host, in_port_t port, struct reason *why)
{
	struct address address = { .v6 = { .sin6_family = AF_INET6, .sin6_port = port }, .size = sizeof(address.v6) };
	char *zone = strchr(host, '%');
	bool is_link_local;
	int r = 0;

	if (zone)
		*zone++ = '\0';
	if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) != 1)
		return fail_numeric(why);
	is_link_local = IN6_IS_ADDR_LINKLOCAL(&address.v6.sin6_addr);
	if (is_link_local && (!zone || !*zone))
		return reason_set(why, -EINVAL,
				  "is a link-local address, which needs its network interface; write [%s%%eth0]:9753",
				  host);
	if (zone && !is_link_local)
		return reason_set(why, -EINVAL,
				  "names a network interface, which link-local addresses alone have; write [%s]:9753",
				  host);
	if (zone)
		r = parse_zone(zone, &address.v6.sin6_scope_id, why);
	if (r < 0)
		return r;
	*ret = address;
	return 0;
}

static int parse_v4(struct address *ret, const char *host, in_port_t port, struct reason *why)
{
	struct address address = { .v4 = { .sin_family = AF_INET, .sin_port = port }, .size = sizeof(address.v4) };

	if (inet_pton(AF_INET, host, &address.v4.sin_addr) != 1)
		return fail_numeric(why);
	*ret = address;
	return 0;
}

/* The sentence goes on behind the text. */
static int parse_internet(struct address *ret, const char *text, struct reason *why)
{
	bool v6 = text[0] == '[';
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	char host[HOST_MAX];
	in_port_t port;

	/* "[::1]" and "::1" have no port, although their last colon is followed by digits. */
	if (!length || (v6 ? colon[-1] != ']' : strchr(text, ':') != colon))
		return reason_set(why, -EINVAL,
				  "is not an address to listen on; write 127.0.0.1:9753, [::1]:9753, or the path of a "
				  "Unix socket");
	if (parse_port(colon + 1, &port) < 0)
		return reason_set(why, -EINVAL, "has a port that is not a number from 0 to %d", UINT16_MAX);
	if (length >= sizeof(host))
		return fail_numeric(why);
	memcpy(host, text + v6, length);
	host[length - 2 * v6] = '\0';
	return v6 ? parse_v6(ret, host, port, why) : parse_v4(ret, host, port, why);
}

int address_parse(struct address *ret, const char *text, struct reason *why)
{
	char excerpt[EXCERPT_MAX];
	struct reason rest;
	int r;

	if (text[0] == '/')
		return parse_local(ret, text, why);
	r = parse_internet(ret, text, &rest);
	return r < 0 ? reason_set(why, r, "'%s' %s", text_excerpt(excerpt, text), rest.text) : 0;
}

int address_check(const char *text, struct reason *why)
{
	struct address address;
	int r = address_parse(&address, text, why);

	return r == -ENODEV ? 0 : r;
}

/* RFC 6874: the percent sign of a zone is escaped, and so is what a URL does not take in a name. */
static void add_zone(struct buf *url, const struct address *address)
{
	buf_str(url, "%25");
	if (!address->zone[0])
		buf_printf(url, "%u", address->v6.sin6_scope_id);
	for (const char *p = address->zone; *p; p++)
		if (isalnum((unsigned char)*p) || strchr("-._~", *p))
			buf_char(url, *p);
		else
			buf_printf(url, "%%%02X", (unsigned char)*p);
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
		if (address->v6.sin6_scope_id)
			add_zone(&url, address);
		buf_printf(&url, "]:%u", ntohs(address->v6.sin6_port));
	}
	return buf_steal(&url);
}
