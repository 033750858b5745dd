/* SPDX-License-Identifier: MIT */

#include "profiler/sample/unsampled.h"

/* The kernel counts an event shortly before it looks at the time of its sample. */
#define SLACK_NS 10000U

void unsampled_expect(struct unsampled *unsampled, uint64_t counted, uint64_t lost, uint64_t now)
{
	unsampled->expected = counted > lost ? counted - lost : 0;
	unsampled->due_at = now + SLACK_NS;
	unsampled->sampled_later = 0;
}

void unsampled_sample(struct unsampled *unsampled, uint64_t time)
{
	unsampled->sampled++;
	unsampled->sampled_later += time > unsampled->due_at;
}

void unsampled_compare(struct unsampled *unsampled, uint64_t until)
{
	uint64_t sampled = unsampled->sampled - unsampled->sampled_later;

	if (!unsampled->due_at || until < unsampled->due_at)
		return;
	if (unsampled->expected > sampled && unsampled->expected - sampled > unsampled->nr)
		unsampled->nr = unsampled->expected - sampled;
	unsampled->due_at = 0;
}
