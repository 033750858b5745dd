/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/attempt.h"

#include "base/util/clock.h"

#include <errno.h>
#include <pthread.h>
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

static bool attempt_stands(const struct attempt *attempt)
{
	return attempt->again_at > 0 && (attempt->result == 0 || clock_monotonic_ns() < attempt->again_at);
}

static void attempt_note(struct attempt *attempt, int result, uint64_t again_after)
{
	attempt->result = result;
	attempt->again_at = clock_monotonic_ns() + again_after;
}

/* libbpf has one place for what it says. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static int load_alone(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, const struct bpf_kernel *former,
		      struct reason *why)
{
	int r;

	(void)pthread_mutex_lock(&loading);
	r = bpf_kernel_load(ret, sizes, v1, former, why);
	(void)pthread_mutex_unlock(&loading);
	return r;
}

int attempt_load(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, const struct bpf_kernel *former,
		 struct reason *why)
{
	struct attempt *last = &last_attempt;

	if (last->result < 0 && attempt_stands(last))
		return attempt_tell(last, why);
	attempt_note(last, load_alone(ret, sizes, v1, former, &last->why), LOAD_AGAIN_NS);
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

static struct bpf_sizes trial_sizes(const struct attempt *attempt, const struct bpf_sizes *asked)
{
	return (struct bpf_sizes){
		.cpus = larger(attempt->failed.cpus, asked->cpus),
		.slots = larger(attempt->failed.slots, asked->slots),
		.events = larger(attempt->failed.events, asked->events),
		.sets = larger(attempt->failed.sets, asked->sets),
	};
}

static int load_trial(struct bpf_kernel **ret, const struct bpf_sizes *sizes, struct reason *why)
{
	int r = load_alone(ret, sizes, false, NULL, why);

	if (r < 0 || can_be_asked(*ret))
		return r;
	return reason_set(why, -EOPNOTSUPP, "this kernel can't run a BPF program on a chosen CPU, as Linux 5.10 can");
}

/* Takes over the trial that was loaded, or what is left of it. */
static void attempt_take(struct attempt *attempt, struct bpf_kernel *kernel, int result)
{
	(void)bpf_kernel_unref(attempt->trial);
	attempt->trial = result < 0 ? bpf_kernel_unref(kernel) : kernel;
	if (result == 0)
		attempt->failed = (struct bpf_sizes){};
}

static int make_trial(struct attempt *attempt, const struct bpf_sizes *asked)
{
	const struct bpf_sizes sizes = trial_sizes(attempt, asked);
	struct bpf_kernel *kernel = NULL;
	int r = load_trial(&kernel, &sizes, &attempt->why);

	attempt_take(attempt, kernel, r);
	return r;
}

int attempt_try(const struct bpf_sizes *sizes, struct reason *why)
{
	static const struct bpf_sizes least = { .cpus = 1, .slots = 1, .events = 1, .sets = 1 };
	struct attempt *last = &last_attempt;

	if (!attempt_stands(last))
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

/* --- loads in a thread */

struct bpf_load {
	struct bpf_sizes sizes;
	bool tries, v1;
	struct bpf_kernel *former; /* a reference, or NULL */
	struct bpf_kernel *kernel;
	int result;
	struct reason why;
};

static struct bpf_load *new_load(const struct bpf_sizes *sizes, bool v1, struct bpf_kernel *former)
{
	struct bpf_load *load = calloc(1, sizeof(*load));

	if (!load)
		return NULL;
	load->sizes = *sizes;
	load->v1 = v1;
	load->former = former ? bpf_kernel_ref(former) : NULL;
	return load;
}

struct bpf_load *attempt_new_trial(const struct bpf_sizes *sizes)
{
	const struct attempt *last = &last_attempt;
	struct bpf_sizes larger_sizes = trial_sizes(last, sizes);
	struct bpf_load *load = attempt_stands(last) ? NULL : new_load(&larger_sizes, false, NULL);

	if (load)
		load->tries = true;
	return load;
}

struct bpf_load *attempt_new_load(const struct bpf_sizes *sizes, bool v1, struct bpf_kernel *former)
{
	const struct attempt *last = &last_attempt;

	return last->result < 0 && attempt_stands(last) ? NULL : new_load(sizes, v1, former);
}

/* The loop drops the rest of a failed one, since it adds up the cost of all parts. */
void bpf_load_run(struct bpf_load *load)
{
	load->result = load->tries ? load_trial(&load->kernel, &load->sizes, &load->why) :
				     load_alone(&load->kernel, &load->sizes, load->v1, load->former, &load->why);
}

int bpf_load_use(struct bpf_load *load)
{
	struct attempt *last = &last_attempt;

	last->why = load->why;
	attempt_note(last, load->result, load->tries ? TRY_AGAIN_NS : LOAD_AGAIN_NS);
	attempt_take(last, steal_ptr(load->kernel), load->result);
	if (load->result < 0 && !load->tries)
		last->failed = load->sizes;
	return load->result;
}

struct bpf_load *bpf_load_free(struct bpf_load *load)
{
	if (!load)
		return NULL;
	(void)bpf_kernel_unref(load->kernel);
	(void)bpf_kernel_unref(load->former);
	free(load);
	return NULL;
}
