/* SPDX-License-Identifier: MIT */

#include "counting/alarm/trigger.h"

#include "base/util/clock.h"
#include "base/util/hash.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define FORGET_NS (60 * (uint64_t)NS_PER_S)

/* A target in an episode. */
struct episode {
	uint64_t since; /* its rate has been known, and beyond the threshold, since then; 0: not known for now */
	uint64_t seen;
	bool taken, passed_over;
	UT_hash_handle hh;
	char target[];
};

struct trigger {
	struct trigger_rule rule;
	struct episode *episodes;
};

int trigger_new(struct trigger **ret, const struct trigger_rule *rule)
{
	struct trigger *trigger = calloc(1, sizeof(*trigger));

	if (!trigger)
		return -ENOMEM;
	trigger->rule = *rule;
	*ret = trigger;
	return 0;
}

static void episode_drop(struct trigger *trigger, struct episode *episode)
{
	HASH_DEL(trigger->episodes, episode);
	free(episode);
}

struct trigger *trigger_free(struct trigger *trigger)
{
	struct episode *episode, *next;

	if (!trigger)
		return NULL;
	HASH_ITER(hh, trigger->episodes, episode, next)
		episode_drop(trigger, episode);
	free(trigger);
	return NULL;
}

bool trigger_is_beyond(const struct trigger *trigger, double rate)
{
	return trigger->rule.below ? rate < trigger->rule.threshold : rate > trigger->rule.threshold;
}

bool trigger_is_idle(const struct trigger *trigger)
{
	return !trigger->episodes;
}

static struct episode *find_episode(const struct trigger *trigger, const char *target)
{
	struct episode *episode;

	HASH_FIND_STR(trigger->episodes, target, episode);
	return episode;
}

static struct episode *begin_episode(struct trigger *trigger, const char *target)
{
	size_t size = strlen(target) + 1;
	struct episode *episode;

	if (HASH_COUNT(trigger->episodes) >= TRIGGER_TARGETS_MAX)
		return NULL;
	episode = calloc(1, sizeof(*episode) + size);
	if (!episode)
		return NULL;
	memcpy(episode->target, target, size);
	HASH_ADD_STR(trigger->episodes, target, episode);
	if (!episode->hh.tbl) {
		free(episode);
		return NULL;
	}
	return episode;
}

bool trigger_see(struct trigger *trigger, const char *target, double rate, uint64_t begin, uint64_t now)
{
	struct episode *episode = find_episode(trigger, target);
	bool beyond = trigger_is_beyond(trigger, rate);

	if (!episode && beyond)
		episode = begin_episode(trigger, target);
	if (!episode)
		return false;
	if (!beyond && !isnan(rate)) {
		episode_drop(trigger, episode);
		return false;
	}
	episode->seen = now;
	episode->since = !beyond ? 0 : episode->since ?: begin;
	return beyond && !episode->taken && now - episode->since >= trigger->rule.duration;
}

void trigger_take(struct trigger *trigger, const char *target)
{
	struct episode *episode = find_episode(trigger, target);

	if (episode)
		episode->taken = true;
}

bool trigger_pass_over(struct trigger *trigger, const char *target)
{
	struct episode *episode = find_episode(trigger, target);
	bool first = episode && !episode->passed_over;

	if (episode)
		episode->passed_over = true;
	return first;
}

void trigger_end_round(struct trigger *trigger, uint64_t now)
{
	struct episode *episode, *next;

	HASH_ITER(hh, trigger->episodes, episode, next) {
		if (episode->seen != now)
			episode->since = 0;
		if (now - episode->seen > FORGET_NS)
			episode_drop(trigger, episode);
	}
}
