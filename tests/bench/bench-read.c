/* SPDX-License-Identifier: MIT */

/*
 * The cost of a reading over the least it can cost: all groups of N cgroups read through struct session, and
 * by a bare loop of read(2) on as many leaders of equal groups, in turn. Prints medians and their ratio.
 *
 *   bench-read [CGROUPS [ROUNDS]]
 */

#include "base/host/cpu.h"
#include "base/util/cleanup.h"
#include "base/util/clock.h"
#include "counting/engine/perf/open.h"
#include "counting/event/parse.h"
#include "counting/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define EVENTS 5
static const char *const events[EVENTS] = { "task-clock", "context-switches", "cpu-migrations", "page-faults",
					    "major-faults" };

struct bench {
	struct cgroup_mount mount;
	struct cpulist cpus;
	struct privilege privilege;
	struct pmu_catalogue *pmus;
	char folder[256];
	int root_fd;
	struct plan *plan;
	struct cgroup_tree *tree;
	struct session *session;
	int *leaders;
	size_t nr_leaders;
};

static void die(const char *what, const struct reason *why)
{
	fprintf(stderr, "bench-read: %s: %s\n", what, why ? why->text : strerror(errno));
	exit(EXIT_FAILURE);
}

static void make_plan(struct bench *b)
{
	const struct event_env env = { .pmus = b->pmus };
	struct group_list groups[_SCOPE_MAX] = {};
	struct group *group = calloc(1, sizeof(*group));
	const struct planner planner = {
		.engines = perf_alone,
		.cpus = &b->cpus,
		.cgroup_fd = b->root_fd,
		.no_cgroups = "",
		.privilege = &b->privilege,
	};
	struct reason why;

	if (!group || !(group->name = strdup("tasks")))
		die("memory", NULL);
	for (size_t i = 0; i < EVENTS; i++)
		if (event_parse(&group->events, &env, events[i], &why) < 0)
			die(events[i], &why);
	groups[SCOPE_CGROUP] = (struct group_list){ .groups = group, .nr = 1 };
	if (planner_make(&planner, groups, &b->plan, &why) < 0)
		die("plan", &why);
	if (b->plan->scope[SCOPE_CGROUP].nr_sets != 1) {
		reason_set(&why, 0, "%s", b->plan->scope[SCOPE_CGROUP].columns[0].why ?: "?");
		die("events can't be counted", &why);
	}
}

/* A group like the engine's, for the bare loop. */
static int open_bare(const struct bench *b, int cpu, int cgroup_fd, int *fds)
{
	const struct scope_plan *plan = &b->plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < EVENTS; i++) {
		struct perf_event_attr attr = set_attr(plan, &plan->sets[0], i);

		fds[i] = perf_open(plan->columns[plan->sets[0].columns[i]].event, &attr, cpu, cgroup_fd,
				   i ? fds[0] : -1);
		if (fds[i] < 0)
			return fds[i];
	}
	return perf_enable_group(fds[0]);
}

static void on_added(void *userdata, struct cgroup *cgroup)
{
	struct bench *b = userdata;
	_cleanup_(closep) int fd = -1;
	struct reason why = {};

	if (!strstr(cgroup->identity->label, "perfmond-bench-read/"))
		return;
	if (session_add_cgroup(b->session, b->tree, cgroup, &why) != CGROUP_COUNTED)
		die(cgroup->identity->label, &why);
	fd = cgroup_open(b->tree, cgroup);
	for (size_t i = 0; i < b->cpus.nr; i++) {
		int fds[EVENTS];

		if (open_bare(b, b->cpus.cpu[i], fd, fds) < 0)
			die("bare group", NULL);
		b->leaders[b->nr_leaders++] = fds[0];
	}
}

static void ignore(void *userdata, struct cgroup *cgroup)
{
	(void)userdata;
	(void)cgroup;
}

static void make_cgroups(const struct bench *b, size_t nr, bool make)
{
	char path[300];

	if (make && mkdir(b->folder, 0755) < 0)
		die(b->folder, NULL);
	for (size_t i = 0; i < nr; i++) {
		(void)snprintf(path, sizeof(path), "%s/c%zu", b->folder, i);
		if ((make ? mkdir(path, 0755) : rmdir(path)) < 0)
			die(path, NULL);
	}
	if (!make && rmdir(b->folder) < 0)
		die(b->folder, NULL);
}

static uint64_t read_bare(const struct bench *b)
{
	uint64_t buffer[3 + 2 * EVENTS], start = clock_monotonic_ns();

	for (size_t i = 0; i < b->nr_leaders; i++)
		if (read(b->leaders[i], buffer, sizeof(buffer)) != sizeof(buffer))
			die("read", NULL);
	return clock_monotonic_ns() - start;
}

static uint64_t read_counted(const struct bench *b)
{
	uint64_t start = clock_monotonic_ns();

	session_read(b->session);
	return clock_monotonic_ns() - start;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void measure(const struct bench *b, size_t rounds)
{
	uint64_t *bare = calloc(rounds, sizeof(*bare)), *counted = calloc(rounds, sizeof(*counted));
	double groups = (double)b->nr_leaders;

	if (!bare || !counted)
		die("memory", NULL);
	(void)read_bare(b);
	(void)read_counted(b);
	for (size_t i = 0; i < rounds; i++) {
		bare[i] = read_bare(b);
		counted[i] = read_counted(b);
	}
	qsort(bare, rounds, sizeof(*bare), by_size);
	qsort(counted, rounds, sizeof(*counted), by_size);
	printf("%zu groups of %d events, %zu rounds: bare read(2) %.0f ns a group, perfmond %.0f ns a group: "
	       "ratio %.2f (medians)\n",
	       b->nr_leaders, EVENTS, rounds, (double)bare[rounds / 2] / groups, (double)counted[rounds / 2] / groups,
	       (double)counted[rounds / 2] / (double)bare[rounds / 2]);
	free(bare);
	free(counted);
}

int main(int argc, char **argv)
{
	static char *everything[] = { (char *)"**" };
	static const struct cgroup_filter filter = { .include = everything, .nr_include = 1 };
	size_t cgroups = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 300;
	struct bench b = {};
	struct reason why;
	const struct cgroup_observer observer = { on_added, ignore, ignore, &b };
	const struct session_options options = { .cgroup_max = cgroups, .fd_reserve = 16 };

	privilege_read(&b.privilege, "/proc");
	(void)privilege_raise_fd_limit(&b.privilege);
	if (cpu_online(&b.cpus, "/sys", &why) < 0 ||
	    pmu_catalogue_load(&b.pmus, "/sys/bus/event_source/devices", &why) < 0 ||
	    cgroup_mount_find(&b.mount, "/proc/self/mountinfo", &why) < 0)
		die("machine", &why);
	b.root_fd = open(b.mount.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(b.folder, sizeof(b.folder), "%s/perfmond-bench-read", b.mount.path);
	b.leaders = calloc(cgroups * b.cpus.nr, sizeof(*b.leaders));

	make_plan(&b);
	if (!b.leaders || session_new(&b.session, b.plan, &b.cpus, &b.privilege, &options) < 0)
		die("memory", NULL);
	make_cgroups(&b, cgroups, true);
	if (cgroup_tree_new(&b.tree, b.mount.path, &filter, &observer, &why) < 0 || cgroup_tree_start(b.tree, &why) < 0)
		die("tree", &why);

	measure(&b, rounds);

	session_free(b.session);
	cgroup_tree_free(b.tree);
	for (size_t i = 0; i < b.nr_leaders; i++)
		safe_close(b.leaders[i]);
	make_cgroups(&b, cgroups, false);
	plan_unref(b.plan);
	pmu_catalogue_free(b.pmus);
	cpulist_release(&b.cpus);
	cgroup_mount_release(&b.mount);
	safe_close(b.root_fd);
	free(b.leaders);
	return EXIT_SUCCESS;
}
