/* SPDX-License-Identifier: MIT */

#include "target/cpu.h"

#include "util/file.h"
#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

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

	/* What the kernel writes for "none" where the option was not given. */
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
	*ret = list;
	list = (struct cpulist){};
	return 0;
}

static bool read_again(struct cpu_watch *watch, char text[static sizeof(watch->text)])
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
	(void)read_again(ret, ret->text);
}

void cpu_watch_close(struct cpu_watch *watch)
{
	watch->fd = safe_close(watch->fd);
}

bool cpu_watch_has_changed(struct cpu_watch *watch)
{
	char text[sizeof(watch->text)];

	if (!read_again(watch, text) || strcmp(text, watch->text) == 0)
		return false;
	strcpy(watch->text, text);
	return true;
}

void cpu_topology_release(struct cpu_topology *topology)
{
	free(topology->places);
	*topology = (struct cpu_topology){};
}

/* A number from the CPU's topology folder. Where the kernel knows none it writes -1, or there is no file. */
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

/* In the place's package, as far as dies are known. */
static bool has_several_dies(const struct cpu_topology *topology, struct cpu_place place)
{
	for (size_t i = 0; i < topology->nr; i++) {
		struct cpu_place other = topology->places[i];

		if (other.package == place.package && other.die != CPU_NOWHERE && other.die != place.die)
			return true;
	}
	return false;
}

int cpu_topology_read(struct cpu_topology *ret, const char *sysroot, const struct cpulist *cpus)
{
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {};

	topology.nr = cpus->nr ? (size_t)cpus->cpu[cpus->nr - 1] + 1 : 0;
	topology.places = calloc(topology.nr + 1, sizeof(*topology.places));
	if (!topology.places)
		return -ENOMEM;
	for (size_t i = 0; i < topology.nr; i++)
		topology.places[i] = (struct cpu_place){ CPU_NOWHERE, CPU_NOWHERE };
	for (size_t i = 0; i < cpus->nr; i++) {
		struct cpu_place *place = &topology.places[cpus->cpu[i]];

		if (read_number(&place->package, sysroot, cpus->cpu[i], "physical_package_id") < 0 ||
		    read_number(&place->die, sysroot, cpus->cpu[i], "die_id") < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < topology.nr; i++)
		if (topology.places[i].package == CPU_NOWHERE || !has_several_dies(&topology, topology.places[i]))
			topology.places[i].die = CPU_NOWHERE;
	*ret = topology;
	topology = (struct cpu_topology){};
	return 0;
}

struct cpu_place cpu_topology_find(const struct cpu_topology *topology, int cpu)
{
	if (!topology || cpu < 0 || (size_t)cpu >= topology->nr)
		return (struct cpu_place){ CPU_NOWHERE, CPU_NOWHERE };
	return topology->places[cpu];
}
