/* SPDX-License-Identifier: MIT */

#include "web/http/peer.h"

#include "base/config/address.h"

#include <arpa/inet.h>
#include <string.h>

#define PREFIX_BYTES 8

/* An IPv4-mapped IPv6 address, as dual-stack sockets show IPv4 peers, counts as IPv4. NULL: neither. */
static const struct in_addr *v4_of(const struct address *address)
{
	if (address->any.sa_family == AF_INET)
		return &address->v4.sin_addr;
	if (address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr))
		return (const struct in_addr *)&address->v6.sin6_addr.s6_addr[12];
	return NULL;
}

struct peer peer_of(int fd)
{
	struct address address = { .size = sizeof(address.storage) };
	struct peer peer = {};
	const struct in_addr *v4;
	struct ucred user;

	if (getpeername(fd, &address.any, &address.size) < 0)
		return peer;
	v4 = v4_of(&address);
	if (v4) {
		peer.family = AF_INET;
		memcpy(peer.bytes, v4, sizeof(*v4));
	} else if (address.any.sa_family == AF_INET6) {
		peer.family = AF_INET6;
		memcpy(peer.bytes, &address.v6.sin6_addr, PREFIX_BYTES);
	} else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &(socklen_t){ sizeof(user) }) == 0) {
		peer.family = AF_UNIX;
		memcpy(peer.bytes, &user.uid, sizeof(user.uid));
	}
	return peer;
}

bool peer_is_same(const struct peer *a, const struct peer *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

char *peer_text(const struct peer *peer, char out[static PEER_TEXT_MAX])
{
	struct in6_addr v6 = {};
	char text[INET6_ADDRSTRLEN] = "?";
	uid_t uid;

	memcpy(&v6, peer->bytes, sizeof(peer->bytes));
	switch (peer->family) {
	case AF_INET:
		(void)inet_ntop(AF_INET, peer->bytes, text, sizeof(text));
		(void)snprintf(out, PEER_TEXT_MAX, "%s", text);
		break;
	case AF_INET6:
		(void)inet_ntop(AF_INET6, &v6, text, sizeof(text));
		(void)snprintf(out, PEER_TEXT_MAX, "%s/64", text);
		break;
	case AF_UNIX:
		memcpy(&uid, peer->bytes, sizeof(uid));
		(void)snprintf(out, PEER_TEXT_MAX, "user %u", uid);
		break;
	default:
		(void)snprintf(out, PEER_TEXT_MAX, "an unknown address");
	}
	return out;
}

bool peer_is_local(int fd)
{
	struct address address = { .size = sizeof(address.storage) };
	const struct in_addr *v4;

	if (getsockname(fd, &address.any, &address.size) < 0)
		return false;
	v4 = v4_of(&address);
	if (v4)
		return ntohl(v4->s_addr) >> 24 == IN_LOOPBACKNET;
	return address.any.sa_family == AF_UNIX ||
	       (address.any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr));
}
