/* SPDX-License-Identifier: MIT */

/*
 * For how long following the cgroup tree holds its caller: the longest single call at a budget, and what the same takes
 * in one call, at a rescan, when many directories come at once, and when many go. In CPU time: that others want the CPU
 * too is not the tree's cost. The tree is of plain directories, which inotify treats like cgroups. Prints figures and
 * judges nothing.
 *
 *   bench-tree [DIRECTORIES...]
 */

#include "base/cgroup/tree.h"
#include "base/util/cleanup.h"
#include "base/util/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BUDGET_NS 2000000U

/* Some directories have many in them, and most of those none. */
#define IN_ONE 1000

struct bench {
	char folder[64];
	struct cgroup_tree *tree;
	size_t nr;
};

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void make_or_remove(const struct bench *b, const char *name, size_t nr, bool make)
{
	char path[128];

	for (size_t i = 0; i < nr; i++) {
		size_t at = make ? i : nr - 1 - i;
		bool top = at % IN_ONE == 0;

		(void)snprintf(path, sizeof(path), top ? "%s/%s%zu" : "%s/%s%zu/%zu", b->folder, name, at / IN_ONE, at);
		if ((make ? mkdir(path, 0755) : rmdir(path)) < 0)
			die(path);
	}
}

static void ignore(void *userdata, struct cgroup *cgroup)
{
	(void)userdata;
	(void)cgroup;
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

/* Follows to the end with a budget; the longest call is returned, all of them together are in *total. */
static uint64_t follow(const struct bench *b, uint64_t budget, uint64_t *total)
{
	uint64_t longest = 0, start = clock_thread_ns();
	struct reason why = {};
	int r;

	do {
		uint64_t at = clock_thread_ns(), took;

		r = cgroup_tree_follow(b->tree, budget, &why);
		took = clock_thread_ns() - at;
		longest = took > longest ? took : longest;
	} while (r == 1);
	if (r < 0)
		die(why.text);
	*total = clock_thread_ns() - start;
	return longest;
}

static void print(const struct bench *b, const char *what, uint64_t whole, uint64_t longest, uint64_t total)
{
	printf("%zu directories, %s: %.1f ms in one call; at a budget of %.0f ms the longest call %.2f ms (1/%.0f), "
	       "all together %.1f ms\n",
	       b->nr, what, ms(whole), ms(BUDGET_NS), ms(longest), (double)whole / (double)longest, ms(total));
}

static void rescan(const struct bench *b)
{
	uint64_t whole, longest, total, filtered;
	static char *nothing[] = { (char *)"/none/**" };
	static const struct cgroup_filter filter = { .include = nothing, .nr_include = 1 };

	cgroup_tree_rescan(b->tree);
	whole = follow(b, UINT64_MAX, &total);
	cgroup_tree_rescan(b->tree);
	longest = follow(b, BUDGET_NS, &total);
	print(b, "a rescan", whole, longest, total);

	filtered = clock_thread_ns();
	cgroup_tree_set_filter(b->tree, &filter);
	printf("%zu directories, another filter: %.1f ms in one call\n", b->nr, ms(clock_thread_ns() - filtered));
}

/* As many as the queue of events has room for. */
static void come_and_go(const struct bench *b)
{
	const size_t nr = 5000;
	uint64_t whole, longest, total;

	make_or_remove(b, "first", nr, true);
	whole = follow(b, UINT64_MAX, &total);
	make_or_remove(b, "second", nr, true);
	longest = follow(b, BUDGET_NS, &total);
	print(b, "5000 more", whole, longest, total);
	make_or_remove(b, "first", nr, false);
	whole = follow(b, UINT64_MAX, &total);
	make_or_remove(b, "second", nr, false);
	longest = follow(b, BUDGET_NS, &total);
	print(b, "5000 fewer", whole, longest, total);
}

static void measure(size_t nr)
{
	static char *everything[] = { (char *)"**" };
	static const struct cgroup_filter filter = { .include = everything, .nr_include = 1 };
	const struct cgroup_observer observer = { ignore, ignore, ignore, NULL };
	struct bench b = { .nr = nr };
	struct reason why;
	uint64_t start;

	(void)snprintf(b.folder, sizeof(b.folder), "%s/perfmond-bench-XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(b.folder))
		die(b.folder);
	make_or_remove(&b, "old", nr, true);
	if (cgroup_tree_new(&b.tree, b.folder, &filter, &observer, &why) < 0)
		die(why.text);
	cgroup_tree_set_limit(b.tree, 2 * nr + 20000);
	start = clock_thread_ns();
	if (cgroup_tree_start(b.tree, &why) < 0)
		die(why.text);
	printf("%zu directories, the first reading: %.1f ms in one call%s\n", nr, ms(clock_thread_ns() - start),
	       cgroup_tree_problem(b.tree) ? " (not all are watched)" : "");
	rescan(&b);
	come_and_go(&b);
	cgroup_tree_free(b.tree);
	make_or_remove(&b, "old", nr, false);
	if (rmdir(b.folder) < 0)
		die(b.folder);
}

int main(int argc, char **argv)
{
	if (argc == 1) {
		measure(10000);
		measure(100000);
	}
	for (int i = 1; i < argc; i++)
		measure(strtoul(argv[i], NULL, 10));
	return EXIT_SUCCESS;
}
