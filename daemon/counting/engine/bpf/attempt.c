/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/attempt.h"

#include "base/util/clock.h"

#include <errno.h>
#include <sched.h>

/* A trial that failed is made again after so long; where programs could be tried and not be loaded, after so long. */
#define TRY_AGAIN_NS 1000000000U
#define LOAD_AGAIN_NS 60000000000U

struct attempt {
	uint64_t again_at; /* CLOCK_MONOTONIC ns; 0: there was none */
	int result;
	struct reason why;
	struct bpf_sizes failed;  /* to load; 0: none */
	struct bpf_kernel *trial; /* what it has loaded, until somebody takes it; or NULL */
};

/* The last one of this process. */
static struct attempt last_attempt;

static int attempt_tell(const struct attempt *attempt, struct reason *why)
{
	if (attempt->result < 0)
		*why = attempt->why;
	return attempt->result;
}

static bool attempt_holds(const struct attempt *attempt)
{
	return attempt->again_at > 0 && (attempt->result == 0 || clock_monotonic_ns() < attempt->again_at);
}

static void attempt_note(struct attempt *attempt, int result, uint64_t again_after)
{
	attempt->result = result;
	attempt->again_at = clock_monotonic_ns() + again_after;
}

int attempt_load(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, const struct bpf_kernel *former,
		 struct reason *why)
{
	struct attempt *last = &last_attempt;

	if (last->result < 0 && attempt_holds(last))
		return attempt_tell(last, why);
	attempt_note(last, bpf_kernel_load(ret, sizes, v1, former, &last->why), LOAD_AGAIN_NS);
	if (last->result < 0)
		last->failed = *sizes;
	return attempt_tell(last, why);
}

/* --- trials */

static bool can_be_asked(struct bpf_kernel *kernel)
{
	int cpu = sched_getcpu();

	return bpf_kernel_flush(kernel, cpu < 0 ? 0 : (uint32_t)cpu);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static int make_trial(struct attempt *attempt, const struct bpf_sizes *asked)
{
	const struct bpf_sizes sizes = {
		.cpus = larger(attempt->failed.cpus, asked->cpus),
		.slots = larger(attempt->failed.slots, asked->slots),
		.events = larger(attempt->failed.events, asked->events),
		.sets = larger(attempt->failed.sets, asked->sets),
	};
	int r = bpf_kernel_load(&attempt->trial, &sizes, false, NULL, &attempt->why);

	if (r < 0)
		return r;
	if (can_be_asked(attempt->trial)) {
		attempt->failed = (struct bpf_sizes){};
		return 0;
	}
	attempt->trial = bpf_kernel_unref(attempt->trial);
	return reason_set(&attempt->why, -EOPNOTSUPP,
			  "this kernel can't run a BPF program on a chosen CPU, as Linux 5.10 can");
}

int attempt_try(const struct bpf_sizes *sizes, struct reason *why)
{
	static const struct bpf_sizes least = { .cpus = 1, .slots = 1, .events = 1, .sets = 1 };
	struct attempt *last = &last_attempt;

	if (!attempt_holds(last))
		attempt_note(last, make_trial(last, sizes ? sizes : &least), TRY_AGAIN_NS);
	return attempt_tell(last, why);
}

struct bpf_kernel *attempt_take_trial(void)
{
	return steal_ptr(last_attempt.trial);
}

void attempt_note_restored(struct bpf_kernel *kernel)
{
	if (can_be_asked(kernel))
		attempt_note(&last_attempt, 0, 0);
}
