/* SPDX-License-Identifier: MIT */

#include "profiler/answer/weights.h"

#include "profiler/answer/selection.h"
#include "profiler/archive/table.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define PRESENT_WORDS (PROFILE_SLOTS_MAX / 64)

/* A cgroup with samples. */
struct weighed {
	uint32_t last;
	uint32_t cgroup; /* text of the archive */
	const char *problem;
	uint64_t sampled, total;	 /* weights; what was counted */
	uint64_t rest;			 /* of the division, up to the next sample: below `sampled` */
	uint64_t present[PRESENT_WORDS]; /* slots with samples */
};

struct weights {
	const struct archive *archive;
	const struct profile_counts *counts;
	struct table cgroups; /* struct weighed */
};

bool profile_counts_narrow(const struct profile_counts *counts, uint64_t *from, uint64_t *to)
{
	uint64_t begin = counts->begin, first = UINT64_MAX, last = 0;

	for (size_t i = 0; i < counts->nr_slots; i++) {
		if (begin >= *from && counts->ends[i] <= *to) {
			first = begin < first ? begin : first;
			last = counts->ends[i];
		}
		begin = counts->ends[i];
	}
	if (!last)
		return false;
	*from = first;
	*to = last;
	return true;
}

/* --- what was counted */

/* The first count whose label is not before the first n bytes of a path. */
static size_t lower_bound(const struct profile_counts *counts, const char *path, size_t n)
{
	size_t low = 0, high = counts->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strncmp(counts->cgroups[middle].cgroup, path, n) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The count of the cgroup whose label is the first n bytes of a path, or NULL. */
static const struct profile_count *find_count(const struct profile_counts *counts, const char *path, size_t n)
{
	for (size_t i = lower_bound(counts, path, n); i < counts->nr; i++) {
		const char *label = counts->cgroups[i].cgroup;

		if (strncmp(label, path, n))
			return NULL;
		if (!label[n])
			return &counts->cgroups[i];
	}
	return NULL;
}

/* What the cgroups right below have counted in a slot. */
static double count_below(const struct profile_counts *counts, const char *path, size_t slot)
{
	size_t n = strcmp(path, "/") ? strlen(path) : 0;
	double sum = 0;

	for (size_t i = lower_bound(counts, path, n); i < counts->nr; i++) {
		const char *label = counts->cgroups[i].cgroup;
		float counted = counts->cgroups[i].counted[slot];

		if (strncmp(label, path, n))
			break;
		if (label[n] == '/' && label[n + 1] && !strchr(label + n + 1, '/') && !isnan(counted))
			sum += (double)counted;
	}
	return sum;
}

static bool is_present(const struct weighed *weighed, size_t slot)
{
	return weighed->present[slot / 64] >> slot % 64 & 1;
}

/* Is a count known in each slot in which there are samples? */
static bool covers(const struct profile_counts *counts, const struct profile_count *count,
		   const struct weighed *weighed)
{
	for (size_t i = 0; count && i < counts->nr_slots; i++)
		if (is_present(weighed, i) && isnan(count->counted[i]))
			return false;
	return count;
}

static const char *path_of(const struct weights *weights, const struct weighed *weighed)
{
	return archive_text(weights->archive, weighed->cgroup);
}

/* The cgroup's own: without those below. */
static void add_counts(const struct weights *weights, struct weighed *weighed, uint64_t from, uint64_t to)
{
	const struct profile_counts *counts = weights->counts;
	const char *path = path_of(weights, weighed);
	const struct profile_count *count = find_count(counts, path, strlen(path));
	uint64_t begin = counts->begin;
	double sum = 0;

	if (counts->root_is_idle && strcmp(path, "/") == 0)
		weighed->problem = "the root's counter goes on while CPUs are idle";
	else if (!count)
		weighed->problem = "it is not counted";
	else if (!covers(counts, count, weighed))
		weighed->problem = "its counter does not cover the stretch";
	for (size_t i = 0; !weighed->problem && i < counts->nr_slots; begin = counts->ends[i++])
		if (begin >= from && counts->ends[i] <= to && !isnan(count->counted[i]))
			sum += (double)count->counted[i] - count_below(counts, path, i);
	weighed->total = sum > 0 ? (uint64_t)llround(sum) : 0;
}

/* --- samples */

static struct weighed *weighed_at(const struct weights *weights, uint32_t number)
{
	return table_at(&weights->cgroups, number);
}

static struct weighed *find_weighed(const struct weights *weights, uint32_t cgroup)
{
	const struct weighed key = { .cgroup = cgroup };
	uint32_t number = table_find(&weights->cgroups, &key);

	return number ? weighed_at(weights, number) : NULL;
}

static size_t slot_of(const struct profile_counts *counts, uint64_t time)
{
	size_t low = 0, high = counts->nr_slots - 1;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (counts->ends[middle] <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int add_sample(void *userdata, const struct stored_sample *sample, uint64_t time)
{
	struct weights *weights = userdata;
	const struct archive_context *context = archive_context(weights->archive, sample->context);
	const struct weighed key = { .cgroup = context->cgroup };
	size_t unlimited = SIZE_MAX, slot = slot_of(weights->counts, time);
	struct weighed *weighed;
	uint32_t number;
	bool new;
	int r = table_put(&weights->cgroups, &key, 1, &unlimited, &number, &new);

	if (r < 0)
		return r;
	weighed = weighed_at(weights, number);
	weighed->sampled += archive_weight(sample);
	weighed->present[slot / 64] |= UINT64_C(1) << slot % 64;
	return 0;
}

static int add_samples(struct weights *weights, const char *event, uint64_t from, uint64_t to)
{
	_cleanup_(selection_release) struct selection selection = {};
	int r = selection_init(&selection, weights->archive, event, NULL, false, NULL);

	return r < 0 ? r : selection_walk(&selection, from, to, add_sample, weights);
}

/* The cgroup with samples whose label is the first n bytes of a path, or NULL. */
static struct weighed *find_by_path(const struct weights *weights, const char *path, size_t n)
{
	for (uint32_t i = 1; i <= table_nr(&weights->cgroups); i++) {
		struct weighed *weighed = weighed_at(weights, i);
		const char *label = path_of(weights, weighed);

		if (strncmp(label, path, n) == 0 && !label[n])
			return weighed;
	}
	return NULL;
}

/* What a cgroup has counted can be told from what is below it only if that is counted as well: on the way down, each
 * cgroup above one with samples needs the counts of the next. */
static void check_above(const struct weights *weights, const struct weighed *weighed)
{
	const char *path = path_of(weights, weighed);

	for (size_t n = 0; path[0] == '/' && path[1] && path[n]; n += 1 + strcspn(path + n + 1, "/")) {
		size_t next = n + 1 + strcspn(path + n + 1, "/");
		struct weighed *above = find_by_path(weights, n ? path : "/", n ?: 1);

		if (above && !above->problem &&
		    !covers(weights->counts, find_count(weights->counts, path, next), weighed))
			above->problem = "a cgroup below it is not counted all the time";
	}
}

int weights_new(struct weights **ret, const struct archive *archive, const struct profile_counts *counts,
		const char *event, uint64_t from, uint64_t to)
{
	_cleanup_(weights_freep) struct weights *weights = calloc(1, sizeof(*weights));
	int r;

	if (!weights)
		return -ENOMEM;
	*weights = (struct weights){
		.archive = archive,
		.counts = counts,
		.cgroups = TABLE_OF(struct weighed, cgroup, cgroup),
	};
	r = add_samples(weights, event, from, to);
	if (r < 0)
		return r;
	for (uint32_t i = 1; i <= table_nr(&weights->cgroups); i++)
		add_counts(weights, weighed_at(weights, i), from, to);
	for (uint32_t i = 1; i <= table_nr(&weights->cgroups); i++)
		check_above(weights, weighed_at(weights, i));
	*ret = steal_ptr(weights);
	return 0;
}

struct weights *weights_free(struct weights *weights)
{
	if (!weights)
		return NULL;
	table_release(&weights->cgroups);
	free(weights);
	return NULL;
}

uint64_t weights_fit(struct weights *weights, uint32_t cgroup, uint64_t weight)
{
	struct weighed *weighed = find_weighed(weights, cgroup);
	unsigned __int128 share;

	if (!weighed || weighed->problem || !weighed->sampled)
		return weight;
	share = (unsigned __int128)weight * weighed->total + weighed->rest;
	weighed->rest = (uint64_t)(share % weighed->sampled);
	return (uint64_t)(share / weighed->sampled);
}

const char *weights_problem(const struct weights *weights, uint32_t cgroup)
{
	const struct weighed *weighed = find_weighed(weights, cgroup);

	return weighed ? weighed->problem : NULL;
}
