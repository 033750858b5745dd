/* SPDX-License-Identifier: MIT */

#include "machine.h"

#include "event/tracefs.h"
#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct machine *machine_free(struct machine *machine)
{
	if (!machine)
		return NULL;
	pmu_catalogue_free(machine->pmus);
	free(machine->tracefs);
	cpulist_release(&machine->online);
	cpulist_release(&machine->excluded);
	cpulist_release(&machine->cpus);
	cpu_topology_release(&machine->topology);
	cgroup_mount_release(&machine->mount);
	free(machine);
	return NULL;
}

/* A kernel without perf events has no such folder: an empty catalogue, with that as its problem. */
static int find_pmus(struct machine *machine)
{
	struct reason why;
	int r = pmu_catalogue_load(&machine->pmus, SYSFS "/bus/event_source/devices", &why);

	if (r >= 0 || r == -ENOMEM)
		return r;
	machine->pmus = calloc(1, sizeof(*machine->pmus));
	if (!machine->pmus)
		return -ENOMEM;
	machine->pmus->problems = calloc(1, sizeof(char *));
	if (!machine->pmus->problems)
		return -ENOMEM;
	machine->pmus->problems[0] = strdup(why.text);
	if (!machine->pmus->problems[0])
		return -ENOMEM;
	machine->pmus->nr_problems = 1;
	return 0;
}

/* It counts cycles on a pinned counter of each CPU, where there is a PMU. */
static bool has_nmi_watchdog(const struct machine *machine)
{
	_cleanup_(freep) char *text = NULL;

	return pmu_count_core(machine->pmus) > 0 &&
	       read_text_file(AT_FDCWD, PROCFS "/sys/kernel/nmi_watchdog", FILE_MAX_SYSFS, &text) == 0 &&
	       strcmp(text, "0") != 0;
}

static int exclude_list(struct cpulist *excluded, const char *text, struct reason *why)
{
	_cleanup_(cpulist_release) struct cpulist list = {};
	bool named = strcmp(text, "isolated") == 0 || strcmp(text, "nohz_full") == 0;
	int r = named ? cpu_list_read(&list, SYSFS, text, why) : cpulist_parse(&list, text);

	if (r == -ENOENT)
		return 0;
	for (size_t i = 0; i < list.nr && r == 0; i++)
		r = cpulist_add(excluded, list.cpu[i]);
	return r == -ENOMEM ? reason_set(why, r, "out of memory") : r;
}

/* What is online, what is to be left alone, and what is left. */
static int find_cpus(struct machine *machine, char *const *exclude, size_t nr_exclude, struct reason *why)
{
	int r = cpu_online(&machine->online, SYSFS, why);

	for (size_t i = 0; i < nr_exclude && r == 0; i++)
		r = exclude_list(&machine->excluded, exclude[i], why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < machine->online.nr && r == 0; i++)
		if (!cpulist_has(&machine->excluded, machine->online.cpu[i]))
			r = cpulist_add(&machine->cpus, machine->online.cpu[i]);
	if (r < 0)
		return reason_set(why, r, "out of memory");
	return machine->cpus.nr ? 0 : reason_set(why, -EINVAL, "[cpu] exclude leaves no CPU that is online");
}

/* RuntimeDirectory= of the unit, before whose start root saves a list of the tracepoints there. */
static int find_tracelist(char **ret)
{
	const char *folder = getenv("RUNTIME_DIRECTORY");
	_cleanup_(freep) char *list = NULL;

	if (!folder)
		return -ENOENT;
	if (asprintf(&list, "%.*s/tracepoints", (int)strcspn(folder, ":"), folder) < 0) {
		list = NULL;
		return -ENOMEM;
	}
	if (access(list, R_OK) < 0)
		return -errno;
	*ret = steal_ptr(list);
	return 0;
}

/* What is saved is used where the original can't be. -ENOMEM. */
static int find_tracepoints(struct machine *machine)
{
	char *list = NULL;
	int r = tracefs_find(PROCFS "/self/mountinfo", &machine->tracefs, &machine->tracefs_problem);

	if (r == -ENOMEM || (r >= 0 && tracefs_is_readable(machine->tracefs)))
		return r;
	r = find_tracelist(&list);
	if (r == 0) {
		free(machine->tracefs);
		machine->tracefs = list;
	}
	return r == -ENOMEM ? r : 0;
}

int machine_new(struct machine **ret, char *const *exclude, size_t nr_exclude, const struct cpu_topology *known,
		struct reason *why)
{
	_cleanup_(machine_freep) struct machine *machine = calloc(1, sizeof(*machine));
	int r;

	if (!machine)
		return reason_set(why, -ENOMEM, "out of memory");
	privilege_read(&machine->privilege, PROCFS);
	/* Where it can't be raised, the limit stays what it is, and is respected. */
	(void)privilege_raise_fd_limit(&machine->privilege);

	r = find_cpus(machine, exclude, nr_exclude, why);
	if (r < 0)
		return r;
	if (find_pmus(machine) < 0 || cpu_topology_read(&machine->topology, SYSFS, &machine->online, known) < 0 ||
	    find_tracepoints(machine) == -ENOMEM ||
	    cgroup_mount_find(&machine->mount, PROCFS "/self/mountinfo", &machine->no_cgroups) == -ENOMEM)
		return reason_set(why, -ENOMEM, "out of memory");

	machine->nmi_watchdog = has_nmi_watchdog(machine);
	machine->env = (struct event_env){
		.pmus = machine->pmus,
		.tracefs = machine->tracefs,
		.tracefs_problem = machine->tracefs ? NULL : machine->tracefs_problem.text,
		.kallsyms = PROCFS "/kallsyms",
	};
	*ret = steal_ptr(machine);
	return 0;
}
