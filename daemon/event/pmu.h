/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The PMUs of this machine, as /sys/bus/event_source/devices shows them (perf_event_open(2), "dynamic
 * PMU" and "Files").
 *
 * A PMU has a type number for perf_event_attr.type; formats, which say into which bits of which config
 * word a term goes (format.h); aliases, its named events, each a list of terms; and perhaps a list of
 * CPUs. The meaning of that list depends on the file it came from:
 *
 *   cpumask   an uncore PMU: one CPU stands for its whole package or die, events are opened there and
 *             only there, and never per cgroup;
 *   cpus      a core PMU of a hybrid machine: its events count on these CPUs only.
 *
 * What else it says of itself are its caps/ ("max_precise", "branches", "pmu_name", "slots", …), each a
 * number or a word, and an identifier, which tells apart revisions of arm's uncore PMUs.
 *
 * The catalogue is read once, at start and on reload. What is broken in it (an empty format file, a
 * binary one, one that vanishes while it is read) loses that one term, event or PMU, and stands in
 * `problems` as a sentence with the file's path. An alias that can't mean what was intended, because
 * it uses a term that is lost or its scale is, is lost as well: an event counted wrong is worse than one
 * that is missing. So whatever is in a catalogue can be used.
 */

#include "event/format.h"
#include "event/term.h"
#include "util/buf.h"
#include "util/cpulist.h"
#include "util/reason.h"

#include <stdint.h>

struct pmu_alias {
	char *name;
	char *terms;  /* "event=0x3c,umask=0x00"; a value of "?" has to be given by the user */
	char *unit;   /* of NAME.unit, or NULL */
	double scale; /* of NAME.scale; 1 where there is none */
};

struct pmu_cap {
	char *name;
	char *value;
};

struct pmu {
	char *name;
	uint32_t type;
	char *identifier;	    /* or NULL */
	struct pmu_cap *caps;	    /* sorted by name */
	size_t nr_caps;
	struct pmu_format *formats; /* sorted by name, as are the aliases */
	size_t nr_formats;
	struct pmu_alias *aliases;
	size_t nr_aliases;
	struct cpulist cpus; /* where one of the next two is set */
	bool has_cpumask;    /* an uncore PMU */
	bool has_cpus;	     /* one of several core PMUs, or an arm core PMU, which has the file too */
};

struct pmu_catalogue {
	struct pmu *pmus; /* sorted by name */
	size_t nr;
	char **problems; /* valid UTF-8 on one line each, whatever the files hold */
	size_t nr_problems;
};

/* Reads DIR/NAME/… for every PMU; dir is "/sys/bus/event_source/devices" but in tests. -ENOMEM, or what
 * opening dir said. Everything below that is not fatal and goes into problems. */
int pmu_catalogue_load(struct pmu_catalogue **ret, const char *dir, struct reason *why);
struct pmu_catalogue *pmu_catalogue_free(struct pmu_catalogue *catalogue);
DEFINE_CLEANUP(struct pmu_catalogue *, pmu_catalogue_free)

/* Can a PMU be called so, in an event's text and in a label? */
bool pmu_is_name(const char *name);

const struct pmu *pmu_find(const struct pmu_catalogue *catalogue, const char *name);
const struct pmu *pmu_find_type(const struct pmu_catalogue *catalogue, uint32_t type);
const struct pmu_format *pmu_find_format(const struct pmu *pmu, const char *name);
/* In any case of letters; one that is spelt exactly so goes first. */
const struct pmu_alias *pmu_find_alias(const struct pmu *pmu, const char *name);

/* A cap's number. -ENOENT where there is none of that name, -EINVAL where it holds no number of 64 bits. */
int pmu_cap(const struct pmu *pmu, const char *name, uint64_t *ret);

/* A core PMU counts what CPUs execute: "cpu", "cpu_core", "cpu_atom", "armv8_pmuv3_0", … The generic
 * hardware events, cache events and rNNN stand for one event on each core PMU. */
bool pmu_is_core(const struct pmu *pmu);
size_t pmu_count_core(const struct pmu_catalogue *catalogue);

/* Is the PMU of that name one of several alike: "uncore_imc_3" of "uncore_imc"? */
bool pmu_is_instance_of(const char *pmu, const char *name);

/*
 * Puts a term's value (1 where it has none) into config: the term is one of the PMU's formats, or
 * config, config1, config2, config3 for a whole word. -ENOENT where it is neither; -EINVAL where the value
 * is no number or has too many bits; both with the sentence in why.
 */
int pmu_apply_term(const struct pmu *pmu, const struct term *term, uint64_t config[static PMU_NR_CONFIGS],
		   struct reason *why);

/* "; it has the terms event, umask and the events cpu-cycles, …" for a sentence on a name it has not. */
void pmu_describe(const struct pmu *pmu, struct buf *text);
