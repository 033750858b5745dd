/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who is at the other end of a connection, as far as limits per address go. An IPv6 network of 64 bits is one address,
 * since who has one of its addresses mostly has them all; of a Unix socket it is the user.
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

/* Is this machine's end a loopback address, or a Unix socket? Nobody but the machine itself can get there. */
bool peer_is_local(int fd);
