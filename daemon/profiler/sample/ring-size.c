/* SPDX-License-Identifier: MIT */

#include "profiler/sample/ring-size.h"

#include "base/util/clock.h"
#include "profiler/sample/sample-attr.h"

#include <limits.h>
#include <linux/perf_event.h>
#include <unistd.h>

/* Pages of data without copies. 16 hold about 7 s of samples at 19 Hz with 40 frames each. */
#define PAGES_OF_SAMPLES 16
#define PAGES_OF_SIDE_BAND 32

/* A ring with copies holds 1/2.5 s. */
#define SUSPENDED_NS (400 * (uint64_t)NS_PER_MS)

/* Words of a sample without registers and stack: the header, 7 fields, and the call chain with its number and marks, by
 * the defaults of kernel.perf_event_max_stack and perf_event_max_contexts_per_stack. */
#define SAMPLE_WORDS (1 + 7 + 1 + PERF_MAX_STACK_DEPTH + PERF_MAX_CONTEXTS_PER_STACK)
/* Of the side-band: fields and the sample_id beside a path. */
#define SIDE_BAND_BYTES (PATH_MAX + 128)

size_t ring_copy(uint64_t stack_bytes, unsigned halvings)
{
	uint64_t copy = SAMPLED_REGISTERS && halvings < 64 ? (stack_bytes >> halvings) & ~UINT64_C(7) : 0;

	return halvings && copy < RING_COPY_MIN ? 0 : (size_t)copy;
}

/* Registers with their ABI; the stack with two sizes. */
static size_t record_max(size_t copy)
{
	size_t words = SAMPLE_WORDS + (copy ? 1 + (size_t)__builtin_popcountll(SAMPLED_REGISTERS) + 2 : 0);

	return words * sizeof(uint64_t) + copy;
}

static uint64_t records_held(const struct sampled_event *event)
{
	uint64_t period = sampled_event_period(event), records = event->rate * SUSPENDED_NS / NS_PER_S;

	if (sampled_event_is_clock(event))
		records = period ? SUSPENDED_NS / period : 0;
	return records < RING_RECORDS_MIN ? RING_RECORDS_MIN : records + 1;
}

struct ring_size ring_size_of(const struct sampled_event *event, size_t copy)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct ring_size size = {
		.copy = copy,
		.record_max = event ? record_max(copy) : SIDE_BAND_BYTES,
		.pages = event ? PAGES_OF_SAMPLES : PAGES_OF_SIDE_BAND,
	};

	while (copy && size.pages * page < records_held(event) * size.record_max)
		size.pages *= 2;
	size.watermark = (uint32_t)(size.pages / 2 * page);
	return size;
}

size_t ring_copy_max(const struct sampled_event *events, size_t nr, unsigned halvings)
{
	size_t most = 0;

	for (size_t i = 0; i < nr; i++) {
		size_t copy = events[i].problem ? 0 : ring_copy(events[i].stack_bytes, halvings);

		most = copy > most ? copy : most;
	}
	return most;
}

/* With copies, there are two rings by turns. */
static uint64_t event_pages(const struct sampled_event *event, size_t copy)
{
	return ring_size_of(event, copy).pages * (copy ? 2 : 1);
}

static uint64_t rings_bytes(const struct sampled_event *events, size_t nr, unsigned halvings)
{
	uint64_t pages = ring_size_of(NULL, 0).pages;

	for (size_t i = 0; i < nr; i++)
		if (!events[i].problem)
			pages += event_pages(&events[i], ring_copy(events[i].stack_bytes, halvings));
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

unsigned ring_halvings(const struct sampled_event *events, size_t nr, size_t nr_cpus)
{
	unsigned halvings = 0;

	while (ring_copy_max(events, nr, halvings) && rings_bytes(events, nr, halvings) * nr_cpus > RINGS_BYTES_MAX)
		halvings++;
	return halvings;
}
