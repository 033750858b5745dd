/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The other end of a connection, as limits per address see it. An IPv6 network of 64 bits counts as one address, since
 * the owner of one of its addresses usually owns them all. For a Unix socket it is the user.
 */

#include <stdbool.h>
#include <stdint.h>

struct peer {
	uint8_t family; /* AF_INET, AF_INET6, AF_UNIX; 0: unknown */
	uint8_t bytes[8];
};

/* Of a connected socket. */
struct peer peer_of(int fd);
bool peer_is_same(const struct peer *a, const struct peer *b);

/* "192.0.2.1", "2001:db8::/64", "user 0". Returns out. */
#define PEER_TEXT_MAX 64
char *peer_text(const struct peer *peer, char out[static PEER_TEXT_MAX]);

/* Is the local end of the socket a loopback address or a Unix socket? Only processes on this machine can connect to
 * these. */
bool peer_is_local(int fd);
