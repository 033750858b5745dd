/* SPDX-License-Identifier: MIT */

#include "counting/world/admission.h"

#include "base/util/clock.h"

#include <errno.h>
#include <string.h>

/* Room is given out no more often than this, … */
#define RANKING_NS 1000000000U
/* … and not before this many times the CPU time that it took the last time: it takes 1 % of a CPU at most. */
#define RANKING_SHARE 100

void admission_init(struct admission *admission, struct session *session)
{
	*admission = (struct admission){ .session = session };
	TAILQ_INIT(&admission->waiting);
}

void admission_release(struct admission *admission)
{
	free(admission->chosen);
	*admission = (struct admission){};
}

static void enter_status(struct admission *admission, struct cgroup *cgroup, enum cgroup_status status)
{
	cgroup->status = (int)status;
	admission->nr_status[status]++;
	if (status == CGROUP_WAITING)
		TAILQ_INSERT_TAIL(&admission->waiting, cgroup, in_waiting);
}

static bool is_partial(const struct cgroup *cgroup)
{
	return cgroup->status == CGROUP_COUNTED && cgroup->why;
}

static void leave_status(struct admission *admission, struct cgroup *cgroup)
{
	admission->nr_partial -= is_partial(cgroup);
	admission->nr_status[cgroup->status]--;
	if (cgroup->status == CGROUP_WAITING)
		TAILQ_REMOVE(&admission->waiting, cgroup, in_waiting);
}

static void set_status(struct admission *admission, struct cgroup *cgroup, enum cgroup_status status, const char *why)
{
	leave_status(admission, cgroup);
	enter_status(admission, cgroup, status);
	free(cgroup->why);
	cgroup->why = why ? strdup(why) : NULL;
	admission->nr_partial += is_partial(cgroup);
}

/* The status before anything is tried. */
static enum cgroup_status first_status(const struct admission *admission, const struct cgroup *cgroup)
{
	bool any = session_plan(admission->session)->scope[SCOPE_CGROUP].nr_columns > 0;

	return cgroup->wanted && any ? CGROUP_WAITING : CGROUP_EXCLUDED;
}

/* Is it left out by a limit, under which there may be room later? */
static bool is_left_out(const struct cgroup *cgroup)
{
	return cgroup->status == CGROUP_OVER_MAX || cgroup->status == CGROUP_OVER_FDS;
}

static size_t nr_left_out(const struct admission *admission)
{
	return admission->nr_status[CGROUP_OVER_MAX] + admission->nr_status[CGROUP_OVER_FDS];
}

/* --- the tree's observer */

static void on_added(void *userdata, struct cgroup *cgroup)
{
	struct admission *admission = userdata;

	enter_status(admission, cgroup, first_status(admission, cgroup));
}

static void drop_choice(struct admission *admission, struct cgroup *cgroup)
{
	if (cgroup->chosen)
		admission->chosen[cgroup->chosen - 1] = NULL;
	cgroup->chosen = 0;
}

static void on_removed(void *userdata, struct cgroup *cgroup)
{
	struct admission *admission = userdata;

	drop_choice(admission, cgroup);
	if (cgroup->status == CGROUP_COUNTED)
		session_remove_cgroup(admission->session, cgroup, true);
	admission->missed += cgroup->status != CGROUP_EXCLUDED && !cgroup->accounted;
	leave_status(admission, cgroup);
}

static void on_changed(void *userdata, struct cgroup *cgroup)
{
	struct admission *admission = userdata;

	if (!cgroup->wanted && cgroup->status == CGROUP_COUNTED)
		session_remove_cgroup(admission->session, cgroup, false);
	drop_choice(admission, cgroup);
	set_status(admission, cgroup, first_status(admission, cgroup), NULL);
}

struct cgroup_observer admission_observer(struct admission *admission)
{
	return (struct cgroup_observer){
		.added = on_added,
		.removed = on_removed,
		.changed = on_changed,
		.userdata = admission,
	};
}

/* --- opening */

static void admit_one(struct admission *admission, struct cgroup *cgroup)
{
	struct reason why = {};
	int r = session_add_cgroup(admission->session, admission->tree, cgroup, &why);

	set_status(admission, cgroup, r < 0 ? CGROUP_FAILED : (enum cgroup_status)r, why.text[0] ? why.text : NULL);
	cgroup->accounted |= session_is_counted(admission->session, cgroup->identity);
}

/* Leaves out all waiting cgroups, for the reason for which `like` was. */
static void leave_out_waiting(struct admission *admission, const struct cgroup *like)
{
	while (!TAILQ_EMPTY(&admission->waiting))
		set_status(admission, TAILQ_FIRST(&admission->waiting), (enum cgroup_status)like->status, like->why);
}

/* Opens waiting cgroups until one is left out, and then leaves out the others for the same reason. True where some
 * still wait. */
static bool admit_waiting(struct admission *admission, uint64_t end)
{
	struct cgroup *cgroup;

	while ((cgroup = TAILQ_FIRST(&admission->waiting))) {
		admit_one(admission, cgroup);
		if (is_left_out(cgroup))
			leave_out_waiting(admission, cgroup);
		if (clock_monotonic_ns() > end)
			break;
	}
	return !TAILQ_EMPTY(&admission->waiting);
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

static void end_ranking(struct admission *admission)
{
	for (size_t i = 0; i < admission->nr_chosen; i++)
		if (admission->chosen[i])
			drop_choice(admission, admission->chosen[i]);
	free(admission->chosen);
	admission->chosen = NULL;
	admission->nr_chosen = admission->at_chosen = 0;
	admission->is_ranking = false;
	admission->next_ranking = clock_monotonic_ns() + RANKING_NS;
	if (admission->spent > RANKING_NS / RANKING_SHARE)
		admission->next_ranking = clock_monotonic_ns() + admission->spent * RANKING_SHARE;
	admission->spent = 0;
}

/* Reads the CPU time that each candidate has used since the last ranking; where it can't be read, the cgroup counts as
 * idle. False where the time is over and some are still to be read. */
static bool weigh_candidates(struct admission *admission, uint64_t end)
{
	struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(admission->tree), in_all) {
		uint64_t usage;

		if (!is_candidate(cgroup) || cgroup->looked_at >= admission->ranking_began)
			continue;
		if (cgroup_usage(admission->tree, cgroup, &usage) < 0)
			usage = cgroup->usage;
		cgroup->busy = usage > cgroup->usage ? usage - cgroup->usage : 0;
		cgroup->usage = usage;
		cgroup->looked_at = clock_monotonic_ns();
		if (cgroup->looked_at > end)
			return false;
	}
	return true;
}

/* Sorts the candidates and chooses the first, as many as there is room for. */
static void choose_candidates(struct admission *admission, size_t room)
{
	struct cgroup *cgroup;

	/* Without memory none is chosen this time. */
	admission->chosen =
		calloc(admission->nr_status[CGROUP_WAITING] + nr_left_out(admission) + 1, sizeof(*admission->chosen));
	if (!admission->chosen)
		return;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(admission->tree), in_all)
		if (is_candidate(cgroup))
			admission->chosen[admission->nr_chosen++] = cgroup;
	qsort(admission->chosen, admission->nr_chosen, sizeof(*admission->chosen), compare_candidates);
	/* One more than there is room for: the reason for which it is refused is that of all others. */
	if (admission->nr_chosen > room + 1)
		admission->nr_chosen = room + 1;
	for (size_t i = 0; i < admission->nr_chosen; i++)
		admission->chosen[i]->chosen = i + 1;
}

/* Opens chosen cgroups. True where some are still to be opened. */
static bool admit_chosen(struct admission *admission, uint64_t end)
{
	while (admission->at_chosen < admission->nr_chosen) {
		struct cgroup *cgroup = admission->chosen[admission->at_chosen++];

		if (!cgroup)
			continue;
		admit_one(admission, cgroup);
		if (is_left_out(cgroup)) {
			leave_out_waiting(admission, cgroup);
			return false;
		}
		if (clock_monotonic_ns() > end)
			break;
	}
	return admission->at_chosen < admission->nr_chosen;
}

/* False: some candidates are still to be weighed. What this takes is done in vain where there is no room for them; the
 * opening of those that are chosen is not. */
static bool rank_candidates(struct admission *admission, uint64_t end)
{
	uint64_t start = clock_thread_ns();
	bool weighed = weigh_candidates(admission, end);

	if (weighed)
		choose_candidates(admission, session_room(admission->session));
	admission->spent += clock_thread_ns() - start;
	return weighed;
}

/* A step of giving out room to candidates; true where the ranking goes on. */
static bool run_ranking(struct admission *admission, uint64_t end)
{
	if (!admission->is_ranking) {
		admission->is_ranking = true;
		admission->ranking_began = clock_monotonic_ns();
	}
	if (!admission->chosen && !rank_candidates(admission, end))
		return true;
	if (admit_chosen(admission, end))
		return true;
	end_ranking(admission);
	return false;
}

void admission_forget_tree(struct admission *admission)
{
	end_ranking(admission);
	memset(admission->nr_status, 0, sizeof(admission->nr_status));
	admission->nr_partial = 0;
	TAILQ_INIT(&admission->waiting);
	admission->is_completing = false;
	admission->tree = NULL;
}

static void begin_completing(struct admission *admission)
{
	admission->is_completing = true;
	admission->completing_began = clock_monotonic_ns();
}

/* Opens sets that counted cgroups lack. True where some cgroups are still to be tried. */
static bool complete_counted(struct admission *admission, uint64_t end)
{
	struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(admission->tree), in_all) {
		if (!is_partial(cgroup) || cgroup->looked_at >= admission->completing_began)
			continue;
		cgroup->looked_at = clock_monotonic_ns();
		admit_one(admission, cgroup);
		if (cgroup->looked_at > end)
			return true;
	}
	admission->is_completing = false;
	return false;
}

static bool admit_some(struct admission *admission, uint64_t end)
{
	size_t room, waiting = admission->nr_status[CGROUP_WAITING];
	bool more = false;

	if (!admission->is_ranking && admission->is_completing && complete_counted(admission, end))
		return true;
	room = session_room(admission->session);
	/* With room for all, or for none, there is nothing to choose. */
	if (!admission->is_ranking && waiting > 0 && (room == 0 || room >= waiting + nr_left_out(admission)))
		more = admit_waiting(admission, end);
	else if (admission_wants_ranking(admission))
		more = run_ranking(admission, end);
	return more || admission->is_completing || admission_wants_ranking(admission);
}

bool admission_admit(struct admission *admission, uint64_t budget)
{
	uint64_t start = clock_monotonic_ns();
	bool more;

	if (!admission->tree)
		return false;
	do {
		more = admit_some(admission, budget > UINT64_MAX - start ? UINT64_MAX : start + budget);
	} while (more && clock_monotonic_ns() - start < budget);
	return more;
}

bool admission_is_waiting(const struct admission *admission)
{
	return admission->nr_status[CGROUP_WAITING] > 0 || admission->is_ranking || admission->is_completing;
}

bool admission_wants_ranking(const struct admission *admission)
{
	return admission->tree &&
	       (admission->is_ranking ||
		(nr_left_out(admission) + admission->nr_status[CGROUP_WAITING] > 0 &&
		 clock_monotonic_ns() >= admission->next_ranking && session_room(admission->session) > 0));
}

/* --- later */

/*
 * A cgroup that may be gone stays counted while it is seen to run, or nobody needs its room. Otherwise it gives way: if
 * it is gone it would keep others out for ever, and there is no other way to tell.
 */
static void check_doubtful(struct admission *admission, struct cgroup *cgroup)
{
	uint64_t ran = cgroup->doubtful ? session_cgroup_time(admission->session, cgroup) : 0;

	cgroup->doubtful = cgroup->doubtful && !(cgroup->doubted && ran > cgroup->ran);
	if (!cgroup->doubtful || !cgroup->doubted) {
		cgroup->doubted = cgroup->doubtful;
		cgroup->ran = ran;
	} else if (session_room(admission->session) < nr_left_out(admission)) {
		session_remove_cgroup(admission->session, cgroup, true);
		set_status(admission, cgroup, CGROUP_FAILED,
			   "possibly removed: its directory is not accessible, and it has not run since inotify events "
			   "were lost; its place went to another cgroup");
	}
}

void admission_retry(struct admission *admission)
{
	struct cgroup *cgroup;
	bool doubts = false;

	if (!admission->tree || session_plan(admission->session)->scope[SCOPE_CGROUP].nr_sets == 0)
		return;
	if (admission->nr_partial > 0)
		begin_completing(admission);
	/* Where a cgroup has become doubtful, the tree is incomplete. */
	if (admission->nr_status[CGROUP_FAILED] == 0 && !admission->doubts &&
	    !cgroup_tree_is_incomplete(admission->tree))
		return;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(admission->tree), in_all) {
		if (cgroup->status == CGROUP_FAILED)
			set_status(admission, cgroup, CGROUP_WAITING, NULL);
		else if (cgroup->status == CGROUP_COUNTED)
			check_doubtful(admission, cgroup);
		doubts |= cgroup->doubtful;
	}
	admission->doubts = doubts;
}

/* The wanted cgroups that `from` counts, best first; removes from it those that are not wanted. NULL when there is no
 * memory. */
static struct cgroup **sort_counted(struct admission *admission, struct session *from, size_t *ret_nr)
{
	struct cgroup **counted = calloc(cgroup_tree_size(admission->tree) + 1, sizeof(struct cgroup *)), *cgroup;
	size_t nr = 0;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(admission->tree), in_all) {
		set_status(admission, cgroup, first_status(admission, cgroup), NULL);
		if (!session_has_cgroup(from, cgroup))
			continue;
		cgroup->accounted = true;
		if (cgroup->status != CGROUP_WAITING)
			session_remove_cgroup(from, cgroup, false);
		else if (counted)
			counted[nr++] = cgroup;
	}
	if (counted)
		qsort(counted, nr, sizeof(struct cgroup *), compare_candidates);
	*ret_nr = nr;
	return counted;
}

/* Files are short for it, and `from` still counts it. */
static bool wants_room(const struct cgroup *cgroup, const struct session *from)
{
	return cgroup->status == CGROUP_OVER_FDS && session_has_cgroup(from, cgroup);
}

int admission_begin_move(struct admission *admission, struct session *to, struct session *from)
{
	struct cgroup **counted = NULL;
	size_t nr = 0;
	int r;

	end_ranking(admission);
	admission->next_ranking = 0;
	admission->session = to;
	/* Without memory they are opened again bit by bit, and their counts until then are lost. */
	if (admission->tree)
		counted = sort_counted(admission, from, &nr);
	/* The last by the rule give way to the CPUs, and below to cgroups before them; they wait then. */
	while (nr > 0 && !session_has_room_for_cpus(to))
		session_remove_cgroup(from, counted[--nr], true);
	r = session_add_cpus(to);
	/* Opening all that is new at once would hold up the loop: with room enough it is done bit by bit. */
	if (admission->tree && session_room(to) >= nr) {
		session_defer(to);
		begin_completing(admission);
	}
	admission->from = from;
	admission->moving = counted;
	admission->nr_moving = nr;
	admission->at_moving = 0;
	return r;
}

static void move_one(struct admission *admission, struct cgroup *cgroup)
{
	admit_one(admission, cgroup);
	while (admission->nr_moving > admission->at_moving && wants_room(cgroup, admission->from)) {
		session_remove_cgroup(admission->from, admission->moving[--admission->nr_moving], true);
		admit_one(admission, cgroup);
	}
}

bool admission_move(struct admission *admission, uint64_t budget)
{
	uint64_t start = clock_monotonic_ns();

	while (admission->at_moving < admission->nr_moving) {
		move_one(admission, admission->moving[admission->at_moving++]);
		if (clock_monotonic_ns() - start > budget)
			return true;
	}
	free(admission->moving);
	admission->moving = NULL;
	admission->from = NULL;
	return false;
}

size_t admission_needed_fds(const struct admission *admission)
{
	size_t wanted = 0;

	for (int status = 0; status < _CGROUP_STATUS_MAX; status++)
		wanted += status == CGROUP_EXCLUDED ? 0 : admission->nr_status[status];
	return wanted * session_fds_per_cgroup(admission->session) + session_fds_of_cpus(admission->session) +
	       session_stats(admission->session).canaries;
}
