/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The PMUs of this machine, as /sys/bus/event_source/devices shows them (perf_event_open(2), "dynamic
 * PMU" and "Files").
 *
 * A PMU has a type number for perf_event_attr.type; formats, which map terms to bits of the config words (format.h);
 * aliases, its named events, each a list of terms; and perhaps a list of CPUs. The meaning of that list depends on its
 * file:
 *
 *   cpumask   an uncore PMU: one CPU stands for its whole package or die; events are opened on that CPU only, and
 *             never per cgroup;
 *   cpus      a core PMU of a hybrid machine: its events count on these CPUs only.
 *
 * A PMU also has caps/ ("max_precise", "branches", "pmu_name", "slots", …), each a number or a word, and perhaps an
 * identifier, by which revisions of arm's uncore PMUs differ.
 *
 * The catalogue is read at start and on reload. A broken file (empty, binary, removed while it is read) loses its term,
 * event or PMU only, and is reported in `problems` as a sentence with the file's path. An alias that uses a lost term,
 * or whose scale is lost, is lost too: a missing event is better than a wrong count. So everything in a catalogue can
 * be used.
 */

#include "base/util/buf.h"
#include "base/util/cpulist.h"
#include "base/util/reason.h"
#include "counting/event/catalog/format.h"
#include "counting/event/catalog/term.h"

#include <stdint.h>

struct pmu_alias {
	char *name;
	char *terms;  /* "event=0x3c,umask=0x00"; a value of "?" has to be given by the user */
	char *unit;   /* from NAME.unit, or NULL */
	double scale; /* from NAME.scale, or 1 */
};

struct pmu_cap {
	char *name;
	char *value;
};

struct pmu {
	char *name;
	uint32_t type;
	char *identifier;     /* or NULL */
	struct pmu_cap *caps; /* sorted by name */
	size_t nr_caps;
	struct pmu_format *formats; /* sorted by name, as are the aliases */
	size_t nr_formats;
	struct pmu_alias *aliases;
	size_t nr_aliases;
	struct cpulist cpus; /* if one of the next two is set */
	bool has_cpumask;    /* an uncore PMU */
	bool has_cpus;	     /* one of several core PMUs, or an arm core PMU, which has the file too */
};

struct pmu_catalogue {
	struct pmu *pmus; /* sorted by name */
	size_t nr;
	char **problems; /* each is valid UTF-8 on one line, whatever bytes are in the files */
	size_t nr_problems;
};

/* Reads DIR/NAME/… for every PMU (pmu-load.c); dir is "/sys/bus/event_source/devices" but in tests. -ENOMEM, or the
 * error of opening dir; all other errors go into problems. */
int pmu_catalogue_load(struct pmu_catalogue **ret, const char *dir, struct reason *why);
/* One without PMUs, and with that problem. -ENOMEM. */
int pmu_catalogue_new_empty(struct pmu_catalogue **ret, const char *problem);
struct pmu_catalogue *pmu_catalogue_free(struct pmu_catalogue *catalogue);
DEFINE_CLEANUP(struct pmu_catalogue *, pmu_catalogue_free)

/* Can a PMU have this name, in an event's text and in a label? */
bool pmu_is_name(const char *name);

const struct pmu *pmu_find(const struct pmu_catalogue *catalogue, const char *name);
const struct pmu *pmu_find_type(const struct pmu_catalogue *catalogue, uint32_t type);
const struct pmu_format *pmu_find_format(const struct pmu *pmu, const char *name);
/* Upper and lower case are the same, but an exact match wins. */
const struct pmu_alias *pmu_find_alias(const struct pmu *pmu, const char *name);

/* A cap's number. -ENOENT if there is no cap of that name, -EINVAL if it is not a number of 64 bits. */
int pmu_cap(const struct pmu *pmu, const char *name, uint64_t *ret);

/* Does it count what CPUs execute: "cpu", "cpu_core", "cpu_atom", "armv8_pmuv3_0", …? Generic hardware events, cache
 * events and rNNN make one event on each core PMU. */
bool pmu_is_core(const struct pmu *pmu);
size_t pmu_count_core(const struct pmu_catalogue *catalogue);

/* Is the PMU of that name one of several alike: "uncore_imc_3" of "uncore_imc"? */
bool pmu_is_instance_of(const char *pmu, const char *name);

/* Puts a term's value (1 if it has none) into config. The term is one of the PMU's formats, or config, config1, config2
 * or config3 for a whole word. -ENOENT if it is neither; -EINVAL if the value is not a number or has too many bits;
 * both with the sentence in why. */
int pmu_apply_term(const struct pmu *pmu, const struct term *term, uint64_t config[static PMU_NR_CONFIGS],
		   struct reason *why);

/* Appends "; it has the terms event, umask and the events cpu-cycles, …", for a sentence on an unknown name. */
void pmu_describe(const struct pmu *pmu, struct buf *text);
