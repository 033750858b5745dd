/* SPDX-License-Identifier: MIT */

#include "base/cgroup/container-finder.h"

#include "base/cgroup/container-child.h"
#include "base/util/clock.h"
#include "base/util/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

/* A crowd of new cgroups is looked through so often. */
#define WALK_NS (100 * (uint64_t)NS_PER_MS)

/* So many children may follow each other, and later one in that time: whoever makes cgroups that look like containers
 * gets no more of the CPU. */
#define BURST 50
#define PAUSE_NS (500 * (uint64_t)NS_PER_MS)

/* A container is tried so often, with these pauses behind the first tries. */
#define TRIES 3
static const uint64_t pauses[TRIES - 1] = { NS_PER_S, 4 * (uint64_t)NS_PER_S };

struct key {
	char id[CONTAINER_ID_SIZE];
	uint32_t owner; /* of its files: a user id */
};

/* A container with cgroups in the tree. */
struct known {
	struct key key;
	struct container_names *names;
	unsigned tries;
	uint64_t due;  /* CLOCK_MONOTONIC ns */
	uint64_t seen; /* the number of the last walk that met it */
	bool waits;
	TAILQ_ENTRY(known) in_waiting;
	UT_hash_handle hh;
};

struct container_finder {
	char *const *folders;
	size_t nr_folders;
	struct known *by_key;
	TAILQ_HEAD(, known) waiting; /* for a child to look for them */
	bool noted;		     /* the tree has to be walked through */
	uint64_t walked_at;	     /* CLOCK_MONOTONIC ns */
	uint64_t walks;

	struct helper helper;
	uint64_t credit, credited_at; /* ns, of which a child takes PAUSE_NS; CLOCK_MONOTONIC ns */
	struct container_question question;
	struct container_answers *answers;
	struct reason problem;
};

int container_finder_new(struct container_finder **ret)
{
	_cleanup_(container_finder_freep) struct container_finder *finder = calloc(1, sizeof(*finder));
	void *memory;
	int r;

	if (!finder)
		return -ENOMEM;
	TAILQ_INIT(&finder->waiting);
	finder->credit = BURST * PAUSE_NS;
	finder->credited_at = clock_monotonic_ns();
	r = helper_init(&finder->helper);
	if (r < 0)
		return r;
	memory = mmap(NULL, sizeof(*finder->answers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	finder->answers = memory;
	/* jansson seeds its hashes when it is first used, which a sealed child could not. */
	json_object_seed(0);
	*ret = steal_ptr(finder);
	return 0;
}

/* --- known containers */

static void wait_until(struct container_finder *finder, struct known *known, uint64_t due)
{
	known->due = due;
	known->waits = true;
	TAILQ_INSERT_TAIL(&finder->waiting, known, in_waiting);
}

static void stop_waiting(struct container_finder *finder, struct known *known)
{
	if (known->waits)
		TAILQ_REMOVE(&finder->waiting, known, in_waiting);
	known->waits = false;
}

static void forget(struct container_finder *finder, struct known *known)
{
	stop_waiting(finder, known);
	HASH_DEL(finder->by_key, known);
	container_names_unref(known->names);
	free(known);
}

/* Below the slice of a user: the user's. A copied id in a user's own slice gets nothing of the system's containers. */
static uint32_t owner_of(const char *label)
{
	static const char slice[] = "/user.slice/user-";
	uint32_t user;
	int n = 0;

	if (strncmp(label, slice, strlen(slice)) != 0)
		return 0;
	return sscanf(label + strlen(slice), "%" SCNu32 ".slice/%n", &user, &n) == 1 && n ? user : 0;
}

/* Padded, since its bytes are compared. */
static struct key make_key(const char *id, uint32_t owner)
{
	struct key key;

	memset(&key, 0, sizeof(key));
	(void)snprintf(key.id, sizeof(key.id), "%s", id);
	key.owner = owner;
	return key;
}

static struct known *find_known(const struct container_finder *finder, const struct key *key)
{
	struct known *known;

	HASH_FIND(hh, finder->by_key, key, sizeof(*key), known);
	return known;
}

/* NULL: no memory. */
static struct known *add_known(struct container_finder *finder, const struct key *key)
{
	struct known *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	memcpy(&known->key, key, sizeof(*key));
	HASH_ADD(hh, finder->by_key, key, sizeof(*key), known);
	if (!known->hh.tbl) {
		free(known);
		return NULL;
	}
	wait_until(finder, known, 0);
	return known;
}

struct container_finder *container_finder_free(struct container_finder *finder)
{
	struct known *known, *next;

	if (!finder)
		return NULL;
	helper_release(&finder->helper);
	HASH_ITER(hh, finder->by_key, known, next)
		forget(finder, known);
	if (finder->answers)
		(void)munmap(finder->answers, sizeof(*finder->answers));
	free(finder);
	return NULL;
}

void container_finder_use(struct container_finder *finder, char *const *folders, size_t nr)
{
	struct known *known, *next;

	finder->folders = folders;
	finder->nr_folders = nr < CONTAINER_FOLDERS ? nr : CONTAINER_FOLDERS;
	finder->problem.text[0] = '\0';
	/* What a child answers now has been asked of other folders. */
	finder->question.nr = 0;
	HASH_ITER(hh, finder->by_key, known, next) {
		stop_waiting(finder, known);
		known->tries = 0;
		if (!known->names)
			wait_until(finder, known, 0);
	}
	container_finder_note(finder);
}

void container_finder_note(struct container_finder *finder)
{
	finder->noted = true;
}

/* --- from containers to cgroups */

/* A pod's cgroup is above those of its containers. */
static bool name_pod(const struct cgroup *cgroup, const struct container_names *names)
{
	struct cgroup_identity *identity = cgroup ? cgroup->identity : NULL;

	return identity && identity->pod_uid && !identity->container_id && !identity->names &&
	       container_names_of_pod(&identity->names, names) == 0;
}

static bool name_cgroup(const struct cgroup *cgroup, const struct known *known)
{
	struct cgroup_identity *identity = cgroup->identity;

	if (identity->names || !known->names)
		return false;
	identity->names = container_names_ref(known->names);
	(void)name_pod(cgroup_parent(cgroup), known->names);
	return true;
}

static bool walk(struct container_finder *finder, const struct cgroup_tree *tree)
{
	struct known *known, *next;
	struct cgroup *cgroup;
	bool any = false;

	finder->noted = false;
	finder->walked_at = clock_monotonic_ns();
	finder->walks++;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(tree), in_all) {
		const struct cgroup_identity *identity = cgroup->identity;
		struct key key;

		if (!identity->container_id)
			continue;
		key = make_key(identity->container_id, owner_of(identity->label));
		known = find_known(finder, &key);
		if (!known && cgroup->wanted)
			known = add_known(finder, &key);
		if (!known)
			continue;
		known->seen = finder->walks;
		any |= name_cgroup(cgroup, known);
	}
	HASH_ITER(hh, finder->by_key, known, next)
		if (known->seen != finder->walks)
			forget(finder, known);
	return any;
}

/* --- answers */

static void note_denied(struct container_finder *finder)
{
	for (size_t i = 0; i < finder->question.nr_folders && !finder->problem.text[0]; i++)
		if (finder->answers->errors[i])
			reason_set(&finder->problem, 0,
				   "names of containers can't be read: %s: %s: container-names.conf, one of the "
				   "installed examples, permits it; with an empty [cgroup] container_files none are "
				   "looked for",
				   finder->question.folders[i], strerror(finder->answers->errors[i]));
}

static void note_problem(struct container_finder *finder, const struct known *known,
			 const struct container_answer *answer)
{
	static const char *const texts[_CONTAINER_FOUND_MAX] = {
		[CONTAINER_UNTRIED] = "looking for its files takes too long, or fails",
		[CONTAINER_NO_JSON] = "its file is not JSON in UTF-8",
		[CONTAINER_TOO_LARGE] = "its file is too large",
		[CONTAINER_UNREADABLE] = "its file can't be read",
		[CONTAINER_UNSAFE] = "its file is a link, or no regular file",
	};

	if (answer->found >= _CONTAINER_FOUND_MAX || !texts[answer->found]) {
		note_denied(finder);
		return;
	}
	if (!finder->problem.text[0])
		reason_set(&finder->problem, 0, "container %.12s has no names: %s%s%s", known->key.id,
			   answer->found && answer->folder < finder->question.nr_folders ?
				   finder->question.folders[answer->folder] :
				   "",
			   answer->found ? ": " : "", texts[answer->found]);
}

/* Nothing of it is believed: it is in memory that the child has written. */
static void take_answer(struct container_finder *finder, struct known *known, const struct container_answer *answer)
{
	if (known->names)
		return;
	if (answer->found == CONTAINER_NAMED)
		(void)container_names_new(&known->names, &answer->texts);
	if (known->names)
		finder->noted = true;
	else if (known->tries < TRIES && answer->found == CONTAINER_NO_FILE)
		wait_until(finder, known, clock_monotonic_ns() + pauses[known->tries - 1]);
	else
		note_problem(finder, known, answer);
}

/* A child that was killed, or has died, has not come to those behind the one it worked on. */
static void take_answers(struct container_finder *finder)
{
	uint32_t at = finder->answers->at;

	for (size_t i = 0; i < finder->question.nr; i++) {
		const struct container_answer *answer = &finder->answers->answers[i];
		const struct key key = make_key(finder->question.ids[i], finder->question.owners[i]);
		struct known *known = find_known(finder, &key);

		if (!known || known->waits)
			continue;
		if (answer->found == CONTAINER_UNTRIED && i != at && known->tries < TRIES)
			wait_until(finder, known, 0);
		else
			take_answer(finder, known, answer);
	}
}

/* --- questions */

static void choose(struct container_finder *finder)
{
	struct container_question *question = &finder->question;
	uint64_t now = clock_monotonic_ns();
	struct known *known, *next;

	question->nr = 0;
	for (known = TAILQ_FIRST(&finder->waiting); known && question->nr < CONTAINER_BATCH; known = next) {
		next = TAILQ_NEXT(known, in_waiting);
		if (known->due > now)
			continue;
		memcpy(question->ids[question->nr], known->key.id, CONTAINER_ID_SIZE);
		question->owners[question->nr++] = known->key.owner;
		stop_waiting(finder, known);
		known->tries++;
	}
}

static bool has_credit(struct container_finder *finder)
{
	uint64_t now = clock_monotonic_ns(), credit = finder->credit + now - finder->credited_at;

	finder->credit = credit < BURST * PAUSE_NS ? credit : BURST * PAUSE_NS;
	finder->credited_at = now;
	return finder->credit >= PAUSE_NS;
}

/* Where no child can be had, the containers are tried again. */
static void ask(struct container_finder *finder)
{
	struct container_work work = { .question = &finder->question, .answers = finder->answers };

	choose(finder);
	if (finder->question.nr == 0)
		return;
	finder->credit -= PAUSE_NS;
	for (size_t i = 0; i < finder->nr_folders; i++)
		finder->question.folders[i] = finder->folders[i];
	finder->question.nr_folders = finder->nr_folders;
	memset(finder->answers, 0, sizeof(*finder->answers));
	finder->answers->at = CONTAINER_BATCH;
	if (helper_start(&finder->helper, -1, container_child_run, &work) < 0)
		take_answers(finder);
}

bool container_finder_turn(struct container_finder *finder, const struct cgroup_tree *tree)
{
	bool ended = helper_has_ended(&finder->helper), any = false;

	if (ended)
		take_answers(finder);
	if (finder->nr_folders && tree && finder->noted &&
	    (ended || clock_monotonic_ns() - finder->walked_at > WALK_NS))
		any = walk(finder, tree);
	if (!helper_is_busy(&finder->helper) && finder->nr_folders && has_credit(finder))
		ask(finder);
	return any;
}

int container_finder_fd(const struct container_finder *finder)
{
	return helper_fd(&finder->helper);
}

const char *container_finder_problem(const struct container_finder *finder)
{
	return finder->problem.text;
}
