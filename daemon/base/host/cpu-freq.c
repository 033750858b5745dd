/* SPDX-License-Identifier: MIT */

#include "base/host/cpu-freq.h"

#include "base/util/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Their cpuinfo_max_freq has turbo in it. */
static const char *const knowing_drivers[] = { "amd-pstate", "amd-pstate-epp", "intel_cpufreq", "intel_pstate" };

static char *read_cpufreq(const char *sysroot, int cpu, const char *name)
{
	char path[PATH_MAX], *text = NULL;

	if (snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/cpufreq/%s", sysroot, cpu, name) >=
	    (int)sizeof(path))
		return NULL;
	return read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text) == 0 ? text : NULL;
}

static bool driver_knows(const char *driver)
{
	for (size_t i = 0; driver && i < ARRAY_SIZE(knowing_drivers); i++)
		if (strcmp(driver, knowing_drivers[i]) == 0)
			return true;
	return false;
}

/* The file has kHz. */
static uint64_t read_highest(const char *sysroot, int cpu)
{
	_cleanup_(freep) char *driver = sysroot ? read_cpufreq(sysroot, cpu, "scaling_driver") : NULL;
	_cleanup_(freep) char *text = driver_knows(driver) ? read_cpufreq(sysroot, cpu, "cpuinfo_max_freq") : NULL;
	uint64_t khz = text ? strtoull(text, NULL, 10) : 0;

	return khz > 0 && khz < CPU_FREQ_ANY / 1250 ? khz * 1250 : CPU_FREQ_ANY;
}

static bool make_place(struct cpu_freqs *freqs, size_t nr)
{
	uint64_t *hz = reallocarray(freqs->hz, nr, sizeof(*hz));

	if (!hz)
		return false;
	memset(hz + freqs->nr, 0, (nr - freqs->nr) * sizeof(*hz));
	freqs->hz = hz;
	freqs->nr = nr;
	return true;
}

void cpu_freqs_init(struct cpu_freqs *freqs, const char *sysroot)
{
	*freqs = (struct cpu_freqs){ .sysroot = sysroot };
}

uint64_t cpu_freqs_get(struct cpu_freqs *freqs, int cpu)
{
	size_t at = (size_t)cpu;

	if (at >= freqs->nr && !make_place(freqs, at + 1))
		return CPU_FREQ_ANY;
	if (freqs->hz[at] == 0)
		freqs->hz[at] = read_highest(freqs->sysroot, cpu);
	return freqs->hz[at];
}

bool cpu_freqs_refresh(struct cpu_freqs *freqs, int cpu)
{
	uint64_t before = cpu_freqs_get(freqs, cpu);

	if ((size_t)cpu < freqs->nr)
		freqs->hz[cpu] = 0;
	return cpu_freqs_get(freqs, cpu) > before;
}

void cpu_freqs_release(struct cpu_freqs *freqs)
{
	free(freqs->hz);
	freqs->hz = NULL;
	freqs->nr = 0;
}
