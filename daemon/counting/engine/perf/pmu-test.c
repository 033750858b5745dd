/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/pmu-test.h"

#include "base/util/clock.h"
#include "counting/engine/engine.h"
#include "counting/engine/perf/open.h"
#include "counting/event/parse.h"
#include "counting/plan/build.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

/* Long enough for a counter that the host shares out in turns to show it, and no longer than a tick. */
#define TEST_MIN_NS 1000000U
#define TEST_MAX_NS 3000000U
/* Counts of a counter that works, below which nothing is concluded. One reading makes some hundred branches. */
#define TEST_MIN_COUNT 1000U
/* No PMU has so many generic counters: an event that can be opened so often needs none. */
#define TEST_MAX_EVENTS 64

/* With fewer counters that are free, others may have some for a moment: nearly all PMUs have more. */
#define FEW_COUNTERS 4U
/* So often, and for once or twice so long, such a moment is waited for. */
#define MAX_WAITS 3U
#define WAIT_NS (5U * NS_PER_MS)

enum outcome {
	OUTCOME_NOTHING,   /* that event can't tell */
	OUTCOME_NONE_FREE, /* others hold all counters, … */
	OUTCOME_NONE_GOOD, /* … or all but few, none of which counts */
	OUTCOME_FOUND,
};

/* Equal events that run together. */
struct trial {
	int fds[TEST_MAX_EVENTS];
	size_t nr;
};

struct reading {
	uint64_t enabled, running;
	uint64_t values[TEST_MAX_EVENTS];
};

static void trial_release(struct trial *trial)
{
	while (trial->nr > 0)
		safe_close(trial->fds[--trial->nr]);
}

/* Opens one more. leader_fd: of the group that it joins, or -1. Negative errno. */
static int trial_add(struct trial *trial, const struct event *event, int cpu, int leader_fd)
{
	struct perf_event_attr attr = event->attr;
	int fd;

	attr.pinned = leader_fd < 0;
	fd = perf_open(event, &attr, cpu, -1, leader_fd);
	if (fd == -ENOENT && perf_attr_make_plain(&attr, event))
		fd = perf_open(event, &attr, cpu, -1, leader_fd);
	if (fd >= 0)
		trial->fds[trial->nr++] = fd;
	return fd;
}

/* Starts a pinned group. False: there are no counters for it. */
static bool start_pinned(int leader_fd)
{
	return perf_enable_group(leader_fd) == 0 && !perf_is_in_error(leader_fd);
}

/* How many of the events run at once, each by itself? */
static enum outcome count_counters(const struct event *event, int cpu, size_t *ret)
{
	_cleanup_(trial_release) struct trial trial = {};

	while (trial.nr < TEST_MAX_EVENTS) {
		int fd = trial_add(&trial, event, cpu, -1);

		*ret = trial.nr - (fd >= 0);
		if (fd < 0)
			return engine_is_short(fd) || trial.nr == 0 ? OUTCOME_NOTHING : OUTCOME_FOUND;
		if (!start_pinned(fd))
			return *ret > 0 ? OUTCOME_FOUND : OUTCOME_NONE_FREE;
	}
	return OUTCOME_NOTHING;
}

/* Starts so many as one group. False: it does not run. */
static bool start_group(struct trial *trial, const struct event *event, int cpu, size_t nr)
{
	while (trial->nr < nr)
		if (trial_add(trial, event, cpu, trial->nr ? trial->fds[0] : -1) < 0)
			return false;
	return start_pinned(trial->fds[0]);
}

/* False: in error state, or its CPU went offline. */
static bool read_group(const struct trial *trial, struct reading *ret)
{
	/* number, enabled, running, { value, id }…: the format of perf_open() */
	uint64_t group[3 + 2 * TEST_MAX_EVENTS];
	ssize_t size = (ssize_t)((3 + 2 * trial->nr) * sizeof(*group));

	if (read(trial->fds[0], group, sizeof(group)) != size)
		return false;
	ret->enabled = group[1];
	ret->running = group[2];
	for (size_t i = 0; i < trial->nr; i++)
		ret->values[i] = group[3 + 2 * i];
	return true;
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The count of a counter that works: the median of those that have counted anything. */
static uint64_t find_whole(const uint64_t *rises, size_t nr)
{
	uint64_t sorted[TEST_MAX_EVENTS];
	size_t nr_sorted = 0;

	for (size_t i = 0; i < nr; i++)
		if (rises[i] > 0)
			sorted[nr_sorted++] = rises[i];
	qsort(sorted, nr_sorted, sizeof(*sorted), compare_u64);
	return nr_sorted ? sorted[nr_sorted / 2] : 0;
}

/* Lets the group count the reading of itself. False: too little was counted to tell anything. */
static bool count_readings(const struct trial *trial, uint64_t *ret_rises, uint64_t *ret_whole)
{
	uint64_t start = clock_monotonic_ns(), now;
	struct reading first, last;

	if (!read_group(trial, &first))
		return false;
	do {
		if (!read_group(trial, &last))
			return false;
		for (size_t i = 0; i < trial->nr; i++)
			ret_rises[i] = last.values[i] - first.values[i];
		*ret_whole = find_whole(ret_rises, trial->nr);
		now = clock_monotonic_ns() - start;
	} while (now < TEST_MAX_NS && (now < TEST_MIN_NS || *ret_whole < TEST_MIN_COUNT));
	/* A group that did not run all the time may count less. */
	return *ret_whole >= TEST_MIN_COUNT && last.running - first.running == last.enabled - first.enabled;
}

static enum outcome test_once(struct pmu_counters *ret, const struct event *event, int cpu)
{
	_cleanup_(trial_release) struct trial trial = {};
	uint64_t rises[TEST_MAX_EVENTS], whole, sum = 0;
	size_t nr;
	enum outcome outcome = count_counters(event, cpu, &nr);

	if (outcome != OUTCOME_FOUND)
		return outcome;
	if (!start_group(&trial, event, cpu, nr))
		return OUTCOME_NONE_FREE; /* not so many any more */
	if (!count_readings(&trial, rises, &whole))
		return nr < FEW_COUNTERS ? OUTCOME_NONE_GOOD : OUTCOME_NOTHING;
	for (size_t i = 0; i < nr; i++)
		sum += rises[i] < whole ? rises[i] : whole;
	*ret = (struct pmu_counters){
		.pmu = event->pmu,
		.advertised = (unsigned)nr,
		.usable = (unsigned)((sum + whole / 2) / whole),
	};
	return OUTCOME_FOUND;
}

/* Counters that are not free now may be our own: they were found earlier, and remain. */
static void keep_known(struct pmu_counters *counters, const struct pmu_counters *known)
{
	unsigned dead = counters->advertised - counters->usable, usable;

	if (!known || counters->advertised >= known->advertised)
		return;
	usable = known->advertised - dead;
	counters->advertised = known->advertised;
	counters->usable = usable < known->usable ? usable : known->usable;
}

/* Tests a second time where the PMU seems to lie. */
static enum outcome test_twice(struct pmu_counters *ret, const struct event *event, int cpu,
			       const struct pmu_counters *known)
{
	struct pmu_counters again;
	enum outcome outcome = test_once(ret, event, cpu);

	if (outcome != OUTCOME_FOUND)
		return outcome;
	keep_known(ret, known);
	if (ret->usable == ret->advertised || (known && ret->usable >= known->usable) ||
	    test_once(&again, event, cpu) != OUTCOME_FOUND)
		return OUTCOME_FOUND;
	keep_known(&again, known);
	if (again.usable > ret->usable)
		*ret = again;
	return OUTCOME_FOUND;
}

/* May others have had counters for a moment? */
static bool is_doubtful(enum outcome outcome, const struct pmu_counters *found, const struct event *event, int cpu)
{
	size_t nr;

	if (outcome != OUTCOME_FOUND)
		return outcome == OUTCOME_NONE_FREE || outcome == OUTCOME_NONE_GOOD;
	return found->advertised < FEW_COUNTERS ||
	       (count_counters(event, cpu, &nr) == OUTCOME_FOUND && nr > found->advertised);
}

/* Two that test at the same time should not meet again. */
static void wait_a_moment(void)
{
	const struct timespec pause = timespec_of_ns(WAIT_NS + clock_monotonic_ns() % WAIT_NS);

	(void)nanosleep(&pause, NULL);
}

/* waits: that are left. */
static enum outcome test_patiently(struct pmu_counters *ret, const struct event *event, int cpu, unsigned *waits)
{
	enum outcome outcome = test_twice(ret, event, cpu, NULL);

	while (*waits > 0 && is_doubtful(outcome, ret, event, cpu)) {
		struct pmu_counters again;

		(*waits)--;
		wait_a_moment();
		if (test_twice(&again, event, cpu, NULL) != OUTCOME_FOUND)
			continue;
		if (outcome != OUTCOME_FOUND || again.advertised > ret->advertised)
			*ret = again;
		outcome = OUTCOME_FOUND;
	}
	return outcome;
}

static enum outcome test_pmu(struct pmu_counters *ret, const struct event *event, int cpu,
			     const struct pmu_counters *known, unsigned *waits)
{
	enum outcome outcome;

	if (known)
		return test_twice(ret, event, cpu, known);
	outcome = test_patiently(ret, event, cpu, waits);
	if (outcome == OUTCOME_NONE_FREE)
		*ret = (struct pmu_counters){ .pmu = event->pmu };
	return outcome;
}

/* Tests with that event the PMUs that are not in ret yet. */
static int test_with(struct pmu_counters_list *ret, const char *text, const struct event_env *env,
		     const struct cpulist *cpus, const struct pmu_counters_list *known, unsigned *waits)
{
	_cleanup_(event_list_release) struct event_list list = {};
	struct reason why;
	int r = event_parse(&list, env, text, &why);

	for (size_t i = 0; i < list.nr && r == 0; i++) {
		const struct event *event = &list.events[i];
		_cleanup_(cpulist_release) struct cpulist on = {};
		const struct pmu_counters *before = pmu_counters_find(known, event->pmu);
		struct pmu_counters found;
		enum outcome outcome;

		if (event->no_pmu || event->absent || pmu_counters_has(ret, event->pmu))
			continue;
		r = cpulist_of_event(&on, event, cpus);
		if (r < 0 || on.nr == 0)
			continue;
		outcome = test_pmu(&found, event, on.cpu[0], before, waits);
		if (outcome == OUTCOME_FOUND)
			ret->still += found.advertised - found.usable;
		if (outcome == OUTCOME_FOUND || (outcome == OUTCOME_NONE_FREE && !before))
			r = pmu_counters_add(ret, &found);
	}
	return r == -ENOMEM ? r : 0;
}

static int add_known(struct pmu_counters_list *ret, const struct event_env *env, const struct pmu_counters_list *known)
{
	int r = 0;

	for (size_t i = 0; known && i < known->nr && r == 0; i++)
		if (!pmu_counters_has(ret, known->pmus[i].pmu) && pmu_find(env->pmus, known->pmus[i].pmu))
			r = pmu_counters_add(ret, &known->pmus[i]);
	return r;
}

int pmu_test_all(struct pmu_counters_list *ret, const struct event_env *env, const struct cpulist *cpus,
		 const struct pmu_counters_list *known)
{
	static const char *const texts[] = { "branches", "instructions", "cycles" };
	struct pmu_counters_list found = {};
	unsigned waits = MAX_WAITS;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = test_with(&found, texts[i], env, cpus, known, &waits);
	if (r == 0)
		r = add_known(&found, env, known);
	if (r < 0)
		pmu_counters_list_release(&found);
	else
		*ret = found;
	return r;
}
