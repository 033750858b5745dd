/* SPDX-License-Identifier: MIT */

#include "web/http/password-limit.h"

/* RATE_LIMIT_PEERS: none. */
static size_t item_find(const struct rate_limit *limit, const struct peer *peer)
{
	size_t i = 0;

	while (i < RATE_LIMIT_PEERS && !peer_is_same(&limit->items[i].peer, peer))
		i++;
	return i;
}

/* The item whose failures are forgiven first: an unused one, if there is any. */
static size_t item_find_least(const struct rate_limit *limit)
{
	size_t least = 0;

	for (size_t i = 1; i < RATE_LIMIT_PEERS; i++)
		if (limit->items[i].until < limit->items[least].until)
			least = i;
	return least;
}

bool rate_limit_add(struct rate_limit *limit, const struct peer *peer, uint64_t now)
{
	size_t i = item_find(limit, peer);
	uint64_t from = now;

	if (i < RATE_LIMIT_PEERS && limit->items[i].until > now)
		from = limit->items[i].until;
	if (from - now > (uint64_t)RATE_LIMIT_NS * (RATE_LIMIT_BURST - 1))
		return false;
	if (i == RATE_LIMIT_PEERS)
		i = item_find_least(limit);
	limit->items[i].peer = *peer;
	limit->items[i].until = from + RATE_LIMIT_NS;
	return true;
}

void rate_limit_undo(struct rate_limit *limit, const struct peer *peer)
{
	size_t i = item_find(limit, peer);

	if (i < RATE_LIMIT_PEERS)
		limit->items[i].until -= limit->items[i].until > RATE_LIMIT_NS ? RATE_LIMIT_NS : limit->items[i].until;
}
