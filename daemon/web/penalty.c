/* SPDX-License-Identifier: MIT */

#include "web/penalty.h"

static size_t find(const struct penalty *penalty, const struct peer *peer)
{
	size_t i = 0;

	while (i < PENALTY_PEERS && !peer_is_same(&penalty->items[i].peer, peer))
		i++;
	return i;
}

static size_t find_least(const struct penalty *penalty)
{
	size_t least = 0;

	for (size_t i = 1; i < PENALTY_PEERS; i++)
		if (penalty->items[i].until < penalty->items[least].until)
			least = i;
	return least;
}

bool penalty_add(struct penalty *penalty, const struct peer *peer, uint64_t now)
{
	size_t i = find(penalty, peer);
	uint64_t from = now;

	if (i < PENALTY_PEERS && penalty->items[i].until > now)
		from = penalty->items[i].until;
	if (from - now > (uint64_t)PENALTY_NS * (PENALTY_BURST - 1))
		return false;
	if (i == PENALTY_PEERS)
		i = find_least(penalty);
	penalty->items[i].peer = *peer;
	penalty->items[i].until = from + PENALTY_NS;
	return true;
}

void penalty_take_back(struct penalty *penalty, const struct peer *peer)
{
	size_t i = find(penalty, peer);

	if (i < PENALTY_PEERS)
		penalty->items[i].until -= penalty->items[i].until > PENALTY_NS ? PENALTY_NS : penalty->items[i].until;
}
