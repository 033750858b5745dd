/* SPDX-License-Identifier: MIT */

#include "base/host/cpu.h"

#include "base/util/file.h"
#include "base/util/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Bytes: it has a number for each interrupt. */
#define FILE_MAX_STAT (4 * 1024 * 1024)

int cpu_list_read(struct cpulist *ret, const char *sysroot, const char *name, struct reason *why)
{
	_cleanup_(freep) char *path = NULL, *text = NULL;
	int r;

	if (asprintf(&path, "%s/devices/system/cpu/%s", sysroot, name) < 0) {
		path = NULL; /* asprintf(3) leaves it undefined */
		return reason_set(why, -ENOMEM, "out of memory");
	}

	r = read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text);
	if (r < 0)
		return reason_set(why, r, "can't read a list of CPUs from %s: %s", path, strerror(-r));

	/* The kernel writes this for an empty list if the boot option was not given. */
	r = strcmp(text, "(null)") ? cpulist_parse(ret, text) : cpulist_parse(ret, "");
	if (r == -ENOMEM)
		return reason_set(why, r, "out of memory");
	return r < 0 ? reason_set(why, -EBADMSG, "%s holds no list of CPUs such as 0-3", path) : 0;
}

int cpu_online(struct cpulist *ret, const char *sysroot, struct reason *why)
{
	_cleanup_(cpulist_release) struct cpulist list = {};
	int r = cpu_list_read(&list, sysroot, "online", why);

	if (r < 0)
		return r;
	if (list.nr == 0)
		return reason_set(why, -EBADMSG, "%s/devices/system/cpu/online names no CPU", sysroot);
	*ret = steal_struct(list);
	return 0;
}

/* The CPUs that have a line of their own in stat: "cpuN …". */
static int parse_stat(struct cpulist *ret, char *text)
{
	char *line;
	int cpu, r = 0;

	while (r == 0 && (line = strsep(&text, "\n")) && strncmp(line, "cpu", 3) == 0)
		if (isdigit((unsigned char)line[3]) && sscanf(line, "cpu%d ", &cpu) == 1 && cpu <= CPULIST_MAX_CPU)
			r = cpulist_add(ret, cpu);
	return r;
}

int cpu_online_otherwise(struct cpulist *ret, const char *procroot, const char **ret_source)
{
	_cleanup_(cpulist_release) struct cpulist list = {};
	_cleanup_(freep) char *path = NULL, *text = NULL;
	const char *source = "procfs (stat)";
	long nr = sysconf(_SC_NPROCESSORS_ONLN);
	int r = 0;

	if (asprintf(&path, "%s/stat", procroot) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (read_text_file(AT_FDCWD, path, FILE_MAX_STAT, &text) == 0)
		r = parse_stat(&list, text);
	if (list.nr == 0) {
		source = "the C library (sysconf)";
		for (int cpu = 0; cpu < nr && r == 0; cpu++)
			r = cpulist_add(&list, cpu);
	}
	if (r < 0 || list.nr == 0)
		return r == -ENOMEM ? r : -ENOENT;
	*ret_source = source;
	*ret = steal_struct(list);
	return 0;
}

static bool read_online(struct cpu_watch *watch, char text[static sizeof(watch->text)])
{
	ssize_t n = watch->fd < 0 ? -1 : pread(watch->fd, text, sizeof(watch->text) - 1, 0);

	if (n < 0)
		return false;
	text[n] = '\0';
	return true;
}

void cpu_watch_open(struct cpu_watch *ret, const char *sysroot)
{
	char path[PATH_MAX];

	*ret = (struct cpu_watch){ .fd = -1 };
	if (snprintf(path, sizeof(path), "%s/devices/system/cpu/online", sysroot) < (int)sizeof(path))
		ret->fd = open(path, O_RDONLY | O_CLOEXEC);
	(void)read_online(ret, ret->text);
}

void cpu_watch_close(struct cpu_watch *watch)
{
	watch->fd = safe_close(watch->fd);
}

bool cpu_watch_has_changed(struct cpu_watch *watch)
{
	char text[sizeof(watch->text)];

	if (!read_online(watch, text) || strcmp(text, watch->text) == 0)
		return false;
	strcpy(watch->text, text);
	return true;
}

const char *cpu_watch_text(const struct cpu_watch *watch)
{
	return watch->text;
}

int cpu_topology_new(struct cpu_topology *ret, size_t nr)
{
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {
		.places = calloc(nr + 1, sizeof(*topology.places)),
		.dies = calloc(nr + 1, sizeof(*topology.dies)),
		.nr = nr,
	};

	if (!topology.places || !topology.dies)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		topology.places[i] = (struct cpu_place){ CPU_NOWHERE, CPU_NOWHERE };
		topology.dies[i] = CPU_NOWHERE;
	}
	*ret = steal_struct(topology);
	return 0;
}

void cpu_topology_release(struct cpu_topology *topology)
{
	free(topology->places);
	free(topology->dies);
	*topology = (struct cpu_topology){};
}

/* A number from the CPU's topology folder, or CPU_NOWHERE: for an unknown one the kernel writes -1, or has no file. */
static int read_number(int *ret, const char *sysroot, int cpu, const char *name)
{
	_cleanup_(freep) char *path = NULL, *text = NULL;
	uint64_t number;
	int r;

	*ret = CPU_NOWHERE;
	if (asprintf(&path, "%s/devices/system/cpu/cpu%d/topology/%s", sysroot, cpu, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text);
	if (r == -ENOMEM)
		return r;
	if (r == 0 && parse_u64(text, &number) == 0 && number <= INT_MAX)
		*ret = (int)number;
	return 0;
}

/* Does the package have several dies, as far as they are known? */
static bool has_several_dies(const struct cpu_topology *topology, int package)
{
	int die = CPU_NOWHERE;

	for (size_t i = 0; i < topology->nr; i++) {
		if (topology->places[i].package != package || topology->dies[i] == CPU_NOWHERE)
			continue;
		if (die != CPU_NOWHERE && topology->dies[i] != die)
			return true;
		die = topology->dies[i];
	}
	return false;
}

void cpu_topology_finish(struct cpu_topology *topology)
{
	int package = CPU_NOWHERE;
	bool several = false;

	for (size_t i = 0; i < topology->nr; i++) {
		struct cpu_place *place = &topology->places[i];

		/* Neighbours are mostly of one package: the last answer is kept. */
		if (place->package != package)
			several = place->package != CPU_NOWHERE && has_several_dies(topology, place->package);
		package = place->package;
		place->die = several ? topology->dies[i] : CPU_NOWHERE;
	}
}

static void take_known(struct cpu_topology *topology, const struct cpu_topology *known)
{
	for (size_t i = 0; i < known->nr; i++) {
		if (topology->places[i].package == CPU_NOWHERE)
			topology->places[i].package = known->places[i].package;
		if (topology->dies[i] == CPU_NOWHERE)
			topology->dies[i] = known->dies[i];
	}
}

int cpu_topology_read(struct cpu_topology *ret, const char *sysroot, const struct cpulist *cpus,
		      const struct cpu_topology *known)
{
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {};
	size_t nr = cpus->nr ? (size_t)cpus->cpu[cpus->nr - 1] + 1 : 0;

	if (cpu_topology_new(&topology, known && known->nr > nr ? known->nr : nr) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < cpus->nr; i++) {
		int cpu = cpus->cpu[i];

		if (read_number(&topology.places[cpu].package, sysroot, cpu, "physical_package_id") < 0 ||
		    read_number(&topology.dies[cpu], sysroot, cpu, "die_id") < 0)
			return -ENOMEM;
	}
	if (known)
		take_known(&topology, known);
	cpu_topology_finish(&topology);
	*ret = steal_struct(topology);
	return 0;
}

struct cpu_place cpu_topology_find(const struct cpu_topology *topology, int cpu)
{
	if (!topology || cpu < 0 || (size_t)cpu >= topology->nr)
		return (struct cpu_place){ CPU_NOWHERE, CPU_NOWHERE };
	return topology->places[cpu];
}
