/* SPDX-License-Identifier: MIT */

#include "counting/world/machine.h"

#include "base/host/unit-folders.h"
#include "base/util/file.h"
#include "base/util/mountinfo.h"
#include "counting/engine/bpf/bpf.h"
#include "counting/event/catalog/tracefs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

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
	free(machine->kallsyms);
	free(machine);
	return NULL;
}

/* PATH below a root that the config names; NULL where there is no memory. */
static char *join_path(const struct config_text *root, const char *path)
{
	char *whole;

	return asprintf(&whole, "%s/%s", root->text, path) < 0 ? NULL : whole;
}

static int check_root(const struct config_text *root, const char *key, struct reason *why)
{
	struct stat st;
	int r = stat(root->text, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;

	return r == 0 ? 0 :
			reason_set(why, -EINVAL, "%s:%u: %s: %s: %s", root->place.file, root->place.line, key,
				   root->text, strerror(r));
}

/* A kernel without perf events has no such folder: the catalogue is empty, with that as its problem. */
static int find_pmus(struct machine *machine, const struct config *config)
{
	_cleanup_(freep) char *folder = join_path(&config->sysfs, "bus/event_source/devices");
	struct reason why;
	int r = folder ? pmu_catalogue_load(&machine->pmus, folder, &why) : -ENOMEM;

	if (r >= 0 || r == -ENOMEM)
		return r;
	return pmu_catalogue_new_empty(&machine->pmus, why.text);
}

/* Where there is a PMU, the watchdog counts cycles on a pinned counter of each CPU. */
static bool has_nmi_watchdog(const struct machine *machine, const struct config *config)
{
	_cleanup_(freep) char *path = join_path(&config->procfs, "sys/kernel/nmi_watchdog"), *text = NULL;

	return pmu_count_core(machine->pmus) > 0 && path &&
	       read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text) == 0 && strcmp(text, "0") != 0;
}

static int exclude_list(struct machine *machine, const char *sysfs, const char *text, struct reason *why)
{
	_cleanup_(cpulist_release) struct cpulist list = {};
	bool named = strcmp(text, "isolated") == 0 || strcmp(text, "nohz_full") == 0;
	int r = named ? cpu_list_read(&list, sysfs, text, why) : cpulist_parse(&list, text);

	/* Kernels built without such CPUs have no list of them. */
	if (r == -ENOENT && machine->cpus_problem.text[0]) {
		*why = machine->cpus_problem;
		reason_set(&machine->cpus_problem, 0, "%.350s; nor is it known which CPUs are '%s' ([cpu] exclude)",
			   why->text, text);
	}
	if (r == -ENOENT)
		return 0;
	for (size_t i = 0; i < list.nr && r == 0; i++)
		r = cpulist_add(&machine->excluded, list.cpu[i]);
	return r == -ENOMEM ? reason_set(why, r, "out of memory") : r;
}

/* Where sysfs does not list the CPUs, procfs or the C library does, but not for following changes. */
static int find_online(struct machine *machine, const struct config *config, struct reason *why)
{
	int r = cpu_online(&machine->online, config->sysfs.text, why);
	const char *source;

	if (r == 0 || r == -ENOMEM)
		return r;
	machine->cpus_problem = *why;
	r = cpu_online_otherwise(&machine->online, config->procfs.text, &source);
	if (r < 0)
		return reason_set(why, r, "%s", r == -ENOMEM ? "out of memory" : machine->cpus_problem.text);
	reason_set(why, 0, "%.300s; the CPUs of %s are counted, and changes are noticed by a reload only",
		   machine->cpus_problem.text, source);
	machine->cpus_problem = *why;
	return 0;
}

static int find_cpus(struct machine *machine, const struct config *config, struct reason *why)
{
	int r = find_online(machine, config, why);

	for (size_t i = 0; i < config->cpu_exclude.nr && r == 0; i++)
		r = exclude_list(machine, config->sysfs.text, config->cpu_exclude.items[i], why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < machine->online.nr && r == 0; i++)
		if (!cpulist_has(&machine->excluded, machine->online.cpu[i]))
			r = cpulist_add(&machine->cpus, machine->online.cpu[i]);
	if (r < 0)
		return reason_set(why, r, "out of memory");
	return machine->cpus.nr ? 0 : reason_set(why, -EINVAL, "[cpu] exclude leaves no CPU that is online");
}

static int find_tracelist(char **ret)
{
	_cleanup_(freep) char *list = NULL;
	int r = unit_saved_path("tracepoints", &list);

	if (r == 0 && access(list, R_OK) < 0)
		r = -errno;
	if (r == 0)
		*ret = steal_ptr(list);
	return r;
}

/* The saved list is used where tracefs can't be read. -ENOMEM. */
static int find_tracepoints(struct machine *machine)
{
	char *list = NULL;
	int r = tracefs_find(OWN_MOUNTINFO, &machine->tracefs, &machine->tracefs_problem);

	if (r == -ENOMEM || (r >= 0 && tracefs_is_readable(machine->tracefs)))
		return r;
	r = find_tracelist(&list);
	if (r == 0) {
		free(machine->tracefs);
		machine->tracefs = list;
	}
	return r == -ENOMEM ? r : 0;
}

static void explain_part(struct machine *machine)
{
	if (cgroup_mount_is_part(&machine->mount))
		reason_set(&machine->part_of_tree, 0,
			   "it sees only its own part of the cgroup tree: the top directory %.200s is not the "
			   "machine's root (its inode is %" PRIu64 "), and is shown as /. in place of /; mount the "
			   "host's tree into the container and name it with [cgroup] mount =, or use the host's "
			   "cgroup namespace",
			   machine->mount.path, machine->mount.top);
}

void machine_take_mount(struct machine *machine, struct cgroup_mount *mount)
{
	cgroup_mount_release(&machine->mount);
	machine->mount = *mount;
	*mount = (struct cgroup_mount){};
	explain_part(machine);
}

/* -ENOMEM; having no mount is no error. */
static int find_mount(struct machine *machine, const struct config *config)
{
	int r = cgroup_mount_choose(&machine->mount, config->procfs.text, config->cgroup_mount.text,
				    &machine->no_cgroups);

	machine->perf_hierarchy = cgroup_perf_hierarchy(config->procfs.text);
	explain_part(machine);
	return r == -ENOMEM ? r : 0;
}

static int find_all(struct machine *machine, const struct config *config, const struct cpu_topology *known)
{
	machine->kallsyms = join_path(&config->procfs, "kallsyms");
	if (!machine->kallsyms || find_pmus(machine, config) < 0 ||
	    cpu_topology_read(&machine->topology, config->sysfs.text, &machine->online, known) < 0 ||
	    find_tracepoints(machine) == -ENOMEM || find_mount(machine, config) < 0)
		return -ENOMEM;
	return 0;
}

/* Where there are no cgroups, it is of no interest. */
bool machine_is_to_credit(const struct machine *machine, const struct config *config)
{
	return config->cgroup_engine != CONFIG_ENGINE_PERF && config->cgroup_groups.nr > 0 && machine->mount.path;
}

static void choose_engine(struct machine *machine, const struct config *config)
{
	struct reason why;
	int r;

	if (!machine_is_to_credit(machine, config))
		return;
	r = bpf_is_available(config->cgroup_max, config->sysfs.text, &why);
	machine->credits = r >= 0;
	if (r < 0 && (config->cgroup_engine == CONFIG_ENGINE_BPF || machine->privilege.cap_perfmon ||
		      machine->privilege.cap_sys_admin))
		reason_set(&machine->no_crediting, 0,
			   "cgroups are counted by perf events of their own, and not by crediting: %s", why.text);
}

int machine_new(struct machine **ret, const struct config *config, const struct cpu_topology *known, struct reason *why)
{
	_cleanup_(machine_freep) struct machine *machine = calloc(1, sizeof(*machine));
	int r;

	if (!machine)
		return reason_set(why, -ENOMEM, "out of memory");
	r = check_root(&config->procfs, "procfs", why);
	if (r == 0)
		r = check_root(&config->sysfs, "sysfs", why);
	if (r < 0)
		return r;
	host_identity_read(&machine->identity, config->procfs.text, config->sysfs.text);
	privilege_read(&machine->privilege, config->procfs.text);
	/* A limit that can't be raised is respected as it is. */
	(void)privilege_raise_fd_limit(&machine->privilege);

	r = find_cpus(machine, config, why);
	if (r < 0)
		return r;
	if (find_all(machine, config, known) < 0)
		return reason_set(why, -ENOMEM, "out of memory");

	choose_engine(machine, config);
	machine->nmi_watchdog = has_nmi_watchdog(machine, config);
	machine->env = (struct event_env){
		.pmus = machine->pmus,
		.tracefs = machine->tracefs,
		.tracefs_problem = machine->tracefs ? NULL : machine->tracefs_problem.text,
		.kallsyms = machine->kallsyms,
	};
	*ret = steal_ptr(machine);
	return 0;
}

int machine_open_cgroups(const struct machine *machine, struct reason *why)
{
	int fd;

	if (!machine->mount.path) {
		*why = machine->no_cgroups;
		return -1;
	}
	fd = open(machine->mount.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		reason_set(why, 0, "%s: %s", machine->mount.path, strerror(errno));
	return fd;
}

bool machine_problem(const struct machine *machine, size_t i, struct reason *ret)
{
	size_t nr_pmus = machine->pmus->nr_problems;
	const char *no_cgroups = machine->mount.path ? "" : machine->no_cgroups.text;
	const struct {
		const char *prefix, *text;
	} others[] = {
		{ "", machine->cpus_problem.text },
		{ "no cgroups: ", no_cgroups },
		{ "", machine->part_of_tree.text },
	};

	if (i < nr_pmus) {
		reason_set(ret, 0, "%s", machine->pmus->problems[i]);
		return true;
	}
	i -= nr_pmus;
	for (size_t k = 0; k < ARRAY_SIZE(others); k++)
		if (others[k].text[0] && i-- == 0) {
			reason_set(ret, 0, "%s%s", others[k].prefix, others[k].text);
			return true;
		}
	return false;
}
