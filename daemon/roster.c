/* SPDX-License-Identifier: MIT */

#include "roster.h"

#include <errno.h>
#include <string.h>

/* Room is given out at most so often, … */
#define RANKING_NS 1000000000U
/* … and not before so many times what that took the last time. */
#define RANKING_SHARE 100

void roster_init(struct roster *roster, struct count *count)
{
	*roster = (struct roster){ .count = count };
	TAILQ_INIT(&roster->waiting);
}

void roster_release(struct roster *roster)
{
	free(roster->chosen);
	*roster = (struct roster){};
}

static void enter(struct roster *roster, struct cgroup *cgroup, enum cgroup_status status)
{
	cgroup->status = (int)status;
	roster->nr_status[status]++;
	if (status == CGROUP_WAITING)
		TAILQ_INSERT_TAIL(&roster->waiting, cgroup, in_waiting);
}

static void leave(struct roster *roster, struct cgroup *cgroup)
{
	roster->nr_status[cgroup->status]--;
	if (cgroup->status == CGROUP_WAITING)
		TAILQ_REMOVE(&roster->waiting, cgroup, in_waiting);
}

static void set_status(struct roster *roster, struct cgroup *cgroup, enum cgroup_status status, const char *why)
{
	leave(roster, cgroup);
	enter(roster, cgroup, status);
	free(cgroup->why);
	cgroup->why = why ? strdup(why) : NULL;
}

/* Before anything is tried: it waits, unless the config does not want it. */
static enum cgroup_status first_status(const struct roster *roster, const struct cgroup *cgroup)
{
	bool any = count_plan(roster->count)->scope[SCOPE_CGROUP].nr_columns > 0;

	return cgroup->wanted && any ? CGROUP_WAITING : CGROUP_EXCLUDED;
}

/* Whether a limit kept it out that may since have got room. */
static bool is_left_out(const struct cgroup *cgroup)
{
	return cgroup->status == CGROUP_OVER_MAX || cgroup->status == CGROUP_OVER_FDS;
}

static size_t nr_left_out(const struct roster *roster)
{
	return roster->nr_status[CGROUP_OVER_MAX] + roster->nr_status[CGROUP_OVER_FDS];
}

/* --- what the tree tells */

static void on_added(void *userdata, struct cgroup *cgroup)
{
	struct roster *roster = userdata;

	enter(roster, cgroup, first_status(roster, cgroup));
}

static void unchoose(struct roster *roster, struct cgroup *cgroup)
{
	if (cgroup->chosen)
		roster->chosen[cgroup->chosen - 1] = NULL;
	cgroup->chosen = 0;
}

static void on_removed(void *userdata, struct cgroup *cgroup)
{
	struct roster *roster = userdata;

	unchoose(roster, cgroup);
	if (cgroup->status == CGROUP_COUNTED)
		count_remove_cgroup(roster->count, cgroup, true);
	roster->missed += cgroup->status != CGROUP_EXCLUDED && !cgroup->accounted;
	leave(roster, cgroup);
}

static void on_changed(void *userdata, struct cgroup *cgroup)
{
	struct roster *roster = userdata;

	if (!cgroup->wanted && cgroup->status == CGROUP_COUNTED)
		count_remove_cgroup(roster->count, cgroup, false);
	unchoose(roster, cgroup);
	set_status(roster, cgroup, first_status(roster, cgroup), NULL);
}

struct cgroup_observer roster_observer(struct roster *roster)
{
	return (struct cgroup_observer){
		.added = on_added,
		.removed = on_removed,
		.changed = on_changed,
		.userdata = roster,
	};
}

/* --- opening */

static void admit_one(struct roster *roster, struct cgroup *cgroup)
{
	struct reason why = {};
	int r = count_add_cgroup(roster->count, roster->tree, cgroup, &why);

	set_status(roster, cgroup, r < 0 ? CGROUP_FAILED : (enum cgroup_status)r, why.text[0] ? why.text : NULL);
	cgroup->accounted |= count_is_counted(roster->count, cgroup->identity);
}

/* All that wait are left out for the reason that one of them was. */
static void leave_out_waiting(struct roster *roster, const struct cgroup *like)
{
	while (!TAILQ_EMPTY(&roster->waiting))
		set_status(roster, TAILQ_FIRST(&roster->waiting), (enum cgroup_status)like->status, like->why);
}

/* Opens those that wait, until one is left out, which tells why the others are. True where some still wait. */
static bool admit_waiting(struct roster *roster, uint64_t end)
{
	struct cgroup *cgroup;

	while ((cgroup = TAILQ_FIRST(&roster->waiting))) {
		admit_one(roster, cgroup);
		if (is_left_out(cgroup))
			leave_out_waiting(roster, cgroup);
		if (count_now() > end)
			break;
	}
	return !TAILQ_EMPTY(&roster->waiting);
}

/* --- ranking */

static bool is_candidate(const struct cgroup *cgroup)
{
	return cgroup->status == CGROUP_WAITING || is_left_out(cgroup);
}

static int compare_candidates(const void *a, const void *b)
{
	const struct cgroup *x = *(struct cgroup *const *)a, *y = *(struct cgroup *const *)b;

	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	if (x->busy != y->busy)
		return x->busy > y->busy ? -1 : 1;
	return x->identity->id < y->identity->id ? -1 : x->identity->id > y->identity->id;
}

static void end_ranking(struct roster *roster)
{
	for (size_t i = 0; i < roster->nr_chosen; i++)
		if (roster->chosen[i])
			unchoose(roster, roster->chosen[i]);
	free(roster->chosen);
	roster->chosen = NULL;
	roster->nr_chosen = roster->at_chosen = 0;
	roster->is_ranking = false;
	roster->next_ranking = count_now() + RANKING_NS;
	if (roster->spent > RANKING_NS / RANKING_SHARE)
		roster->next_ranking = count_now() + roster->spent * RANKING_SHARE;
	roster->spent = 0;
}

/* Looks at what each candidate has used since the last time; one that can't say counts as idle. False: there are more
 * to look at. */
static bool weigh(struct roster *roster, uint64_t end)
{
	struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(roster->tree), in_all) {
		uint64_t usage;

		if (!is_candidate(cgroup) || cgroup->looked_at >= roster->ranking_began)
			continue;
		if (cgroup_usage(roster->tree, cgroup, &usage) < 0)
			usage = cgroup->usage;
		cgroup->busy = usage > cgroup->usage ? usage - cgroup->usage : 0;
		cgroup->usage = usage;
		cgroup->looked_at = count_now();
		if (cgroup->looked_at > end)
			return false;
	}
	return true;
}

/* Sorts the candidates; the first of them are chosen, as many as there is room for. */
static void choose(struct roster *roster, size_t room)
{
	struct cgroup *cgroup;

	/* Where there is no memory, nobody is chosen this time. */
	roster->chosen = calloc(roster->nr_status[CGROUP_WAITING] + nr_left_out(roster) + 1, sizeof(*roster->chosen));
	if (!roster->chosen)
		return;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(roster->tree), in_all)
		if (is_candidate(cgroup))
			roster->chosen[roster->nr_chosen++] = cgroup;
	qsort(roster->chosen, roster->nr_chosen, sizeof(*roster->chosen), compare_candidates);
	/* One more: what it is refused for is why the others are left out. */
	if (roster->nr_chosen > room + 1)
		roster->nr_chosen = room + 1;
	for (size_t i = 0; i < roster->nr_chosen; i++)
		roster->chosen[i]->chosen = i + 1;
}

/* Opens those that were chosen. True where some are still to be opened. */
static bool admit_chosen(struct roster *roster, uint64_t end)
{
	while (roster->at_chosen < roster->nr_chosen) {
		struct cgroup *cgroup = roster->chosen[roster->at_chosen++];

		if (!cgroup)
			continue;
		admit_one(roster, cgroup);
		if (is_left_out(cgroup)) {
			leave_out_waiting(roster, cgroup);
			return false;
		}
		if (count_now() > end)
			break;
	}
	return roster->at_chosen < roster->nr_chosen;
}

/* A step of giving out room to some of those that wait, or were left out. */
static bool rank(struct roster *roster, uint64_t end)
{
	if (!roster->is_ranking) {
		roster->is_ranking = true;
		roster->ranking_began = count_now();
	}
	if (!roster->chosen) {
		if (!weigh(roster, end))
			return true;
		choose(roster, count_room(roster->count));
	}
	if (admit_chosen(roster, end))
		return true;
	end_ranking(roster);
	return false;
}

void roster_forget_tree(struct roster *roster)
{
	end_ranking(roster);
	memset(roster->nr_status, 0, sizeof(roster->nr_status));
	TAILQ_INIT(&roster->waiting);
	roster->is_mending = false;
	roster->tree = NULL;
}

static void begin_mending(struct roster *roster)
{
	roster->is_mending = true;
	roster->mending_began = count_now();
}

/* What is counted comes before those that wait. True where some are still to be tried again. */
static bool mend(struct roster *roster, uint64_t end)
{
	struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(roster->tree), in_all) {
		if (cgroup->status != CGROUP_COUNTED || !cgroup->why || cgroup->looked_at >= roster->mending_began)
			continue;
		cgroup->looked_at = count_now();
		admit_one(roster, cgroup);
		if (cgroup->looked_at > end)
			return true;
	}
	roster->is_mending = false;
	return false;
}

static bool admit(struct roster *roster, uint64_t end)
{
	size_t room, waiting = roster->nr_status[CGROUP_WAITING];
	bool more = false;

	if (!roster->is_ranking && roster->is_mending && mend(roster, end))
		return true;
	room = count_room(roster->count);
	/* Room for all, or for none, needs no choice. */
	if (!roster->is_ranking && waiting > 0 && (room == 0 || room >= waiting + nr_left_out(roster)))
		more = admit_waiting(roster, end);
	else if (roster_wants_ranking(roster))
		more = rank(roster, end);
	return more || roster->is_mending || roster_wants_ranking(roster);
}

bool roster_admit(struct roster *roster, uint64_t budget)
{
	uint64_t start = count_now(), now;
	bool more;

	if (!roster->tree)
		return false;
	do {
		more = admit(roster, budget > UINT64_MAX - start ? UINT64_MAX : start + budget);
		now = count_now();
	} while (more && now - start < budget);
	if (roster->is_ranking)
		roster->spent += now - start;
	return more;
}

bool roster_is_waiting(const struct roster *roster)
{
	return roster->nr_status[CGROUP_WAITING] > 0 || roster->is_ranking || roster->is_mending;
}

bool roster_wants_ranking(const struct roster *roster)
{
	return roster->tree && (roster->is_ranking || (nr_left_out(roster) + roster->nr_status[CGROUP_WAITING] > 0 &&
						       count_now() >= roster->next_ranking &&
						       count_room(roster->count) > 0));
}

/* --- later */

/*
 * One that may be gone goes on while it is seen to run, or nobody needs its room. Otherwise it gives way: what is gone
 * would keep others out for ever, and there is no other way to tell.
 */
static void look_for_life(struct roster *roster, struct cgroup *cgroup)
{
	uint64_t ran = cgroup->doubtful ? count_cgroup_time(roster->count, cgroup) : 0;

	cgroup->doubtful = cgroup->doubtful && !(cgroup->doubted && ran > cgroup->ran);
	if (!cgroup->doubtful || !cgroup->doubted) {
		cgroup->doubted = cgroup->doubtful;
		cgroup->ran = ran;
	} else if (count_room(roster->count) < nr_left_out(roster)) {
		count_remove_cgroup(roster->count, cgroup, true);
		set_status(roster, cgroup, CGROUP_FAILED,
			   "possibly removed: its directory is not accessible, and it has not run since inotify events "
			   "were lost; its place went to another cgroup");
	}
}

void roster_retry(struct roster *roster)
{
	struct cgroup *cgroup;

	if (!roster->tree || count_plan(roster->count)->scope[SCOPE_CGROUP].nr_sets == 0)
		return;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(roster->tree), in_all)
		if (cgroup->status == CGROUP_FAILED)
			set_status(roster, cgroup, CGROUP_WAITING, NULL);
		else if (cgroup->status == CGROUP_COUNTED)
			look_for_life(roster, cgroup);
	begin_mending(roster);
}

/* Those that `from` counts and that are wanted, by the rule. What is not wanted is dropped. NULL when there is no
 * memory. */
static struct cgroup **sort_counted(struct roster *roster, struct count *from, size_t *ret_nr)
{
	struct cgroup **counted = calloc(cgroup_tree_size(roster->tree) + 1, sizeof(struct cgroup *)), *cgroup;
	size_t nr = 0;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(roster->tree), in_all) {
		set_status(roster, cgroup, first_status(roster, cgroup), NULL);
		if (!count_has_cgroup(from, cgroup))
			continue;
		cgroup->accounted = true;
		if (cgroup->status != CGROUP_WAITING)
			count_remove_cgroup(from, cgroup, false);
		else if (counted)
			counted[nr++] = cgroup;
	}
	if (counted)
		qsort(counted, nr, sizeof(struct cgroup *), compare_candidates);
	*ret_nr = nr;
	return counted;
}

/* It needs more files than there is room for, and `from` counts it still. */
static bool wants_room(const struct cgroup *cgroup, const struct count *from)
{
	return cgroup->status == CGROUP_OVER_FDS && count_has_cgroup(from, cgroup);
}

int roster_move(struct roster *roster, struct count *to, struct count *from)
{
	_cleanup_(freep) struct cgroup **counted = NULL;
	size_t nr = 0;
	int r;

	end_ranking(roster);
	roster->next_ranking = 0;
	roster->count = to;
	/* Without memory they are opened anew, bit by bit, and lose what happens until then. */
	if (roster->tree)
		counted = sort_counted(roster, from, &nr);
	/* The last give way to CPUs, and to those before them; they wait from now on. */
	while (nr > 0 && !count_has_room_for_cpus(to))
		count_remove_cgroup(from, counted[--nr], true);
	r = count_add_cpus(to);
	/* To open all that is new would be a long turn of the loop: with room enough it is done bit by bit. */
	if (roster->tree && count_room(to) >= nr) {
		count_defer(to);
		begin_mending(roster);
	}
	for (size_t i = 0; i < nr; i++) {
		admit_one(roster, counted[i]);
		while (nr > i + 1 && wants_room(counted[i], from)) {
			count_remove_cgroup(from, counted[--nr], true);
			admit_one(roster, counted[i]);
		}
	}
	return r;
}

size_t roster_needed_fds(const struct roster *roster)
{
	size_t wanted = 0;

	for (int status = 0; status < _CGROUP_STATUS_MAX; status++)
		wanted += status == CGROUP_EXCLUDED ? 0 : roster->nr_status[status];
	return wanted * plan_fds_per_cgroup(count_plan(roster->count)) +
	       plan_fds_of_cpus(count_plan(roster->count)) + count_stats(roster->count).lifelines;
}
