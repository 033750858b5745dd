/* SPDX-License-Identifier: MIT */

/*
 * /api/v1/status: the daemon, the machine as it found it, what it may do there, what it costs, and, in
 * "problems", what somebody should know of, in sentences.
 */

#include "expose/expose.h"

#include "event/pfm.h"
#include "expose/document.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>

/* capabilities(7): those that decide what can be counted. */
static const struct {
	unsigned bit;
	const char *name;
} capabilities[] = {
	{ CAP_PERFMON, "CAP_PERFMON" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN" },
	{ CAP_BPF, "CAP_BPF" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE" },
	{ CAP_SYSLOG, "CAP_SYSLOG" },
	{ CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH" },
	{ CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE" },
};

static json_t *capabilities_of(const struct privilege *privilege)
{
	_cleanup_(json_decref_pointer) json_t *names = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++)
		if (privilege->effective >> capabilities[i].bit & 1 &&
		    json_array_append_new(names, json_string(capabilities[i].name)) < 0)
			return NULL;
	return json_incref(names);
}

static json_t *privileges_of(const struct privilege *privilege)
{
	json_t *paranoid = privilege->paranoid == PARANOID_UNKNOWN ? json_null() : json_integer(privilege->paranoid);

	return json_pack("{s:o, s:o, s:b, s:b, s:b}", "perf_event_paranoid", paranoid, "capabilities",
			 capabilities_of(privilege), "raises_sys_admin", privilege->raises_sys_admin,
			 "kernel_wants_sys_admin", privilege->wants_sys_admin, "may_count_cpus",
			 privilege_may_count_cpus(privilege));
}

static json_t *list_of(const struct cpulist *cpus)
{
	_cleanup_(freep) char *list = cpulist_format(cpus);

	return list ? json_string(list) : NULL;
}

/* As the kernel writes them: some are numbers, some are words. */
static json_t *caps_of(const struct pmu *pmu)
{
	_cleanup_(json_decref_pointer) json_t *caps = json_object();

	for (size_t i = 0; i < pmu->nr_caps; i++)
		if (json_object_set_new(caps, pmu->caps[i].name, document_text(pmu->caps[i].value)) < 0)
			return NULL;
	return json_incref(caps);
}

static json_t *pmu_of(const struct pmu *pmu)
{
	const char *kind = pmu_is_core(pmu) ? "core" : pmu->has_cpumask ? "uncore" : "other";
	bool has_cpus = pmu->has_cpumask || pmu->has_cpus;

	return json_pack("{s:o, s:I, s:s, s:o, s:o, s:o, s:o}", "name", document_text(pmu->name), "type",
			 (json_int_t)pmu->type, "kind", kind, "cpus", has_cpus ? list_of(&pmu->cpus) : json_null(),
			 "events", document_u64(pmu->nr_aliases), "identifier", document_text(pmu->identifier), "caps",
			 caps_of(pmu));
}

static json_t *pmus_of(const struct pmu_catalogue *catalogue)
{
	_cleanup_(json_decref_pointer) json_t *pmus = json_array();

	for (size_t i = 0; i < catalogue->nr; i++)
		if (json_array_append_new(pmus, pmu_of(&catalogue->pmus[i])) < 0)
			return NULL;
	return json_incref(pmus);
}

static json_t *mount_of(const struct cgroup_mount *mount)
{
	if (!mount)
		return json_null();
	return json_pack("{s:o, s:i, s:b}", "path", document_text(mount->path), "version", mount->version, "whole",
			 !cgroup_mount_is_part(mount));
}

static json_t *cgroups_of(const struct self *self, const struct cgroup_mount *mount)
{
	const struct {
		const char *name;
		uint64_t nr;
	} members[] = {
		{ "counted", self->cgroups_counted },	{ "lingering", self->cgroups_lingering },
		{ "excluded", self->cgroups_excluded }, { "over_max", self->cgroups_over_max },
		{ "over_fds", self->cgroups_over_fds }, { "failed", self->cgroups_failed },
		{ "waiting", self->cgroups_waiting },	{ "unlisted", self->cgroups_unlisted },
		{ "missed", self->cgroups_missed },	{ "pushed_out", self->cgroups_pushed_out },
	};
	_cleanup_(json_decref_pointer) json_t *cgroups = json_pack("{s:o}", "mount", mount_of(mount));

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (json_object_set_new(cgroups, members[i].name, document_u64(members[i].nr)) < 0)
			return NULL;
	return json_incref(cgroups);
}

static json_t *cost_of(const struct self *self)
{
	double share = self->uptime ? (double)self->cpu_ns / (double)self->uptime : 0;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu_seconds",
			 document_seconds(self->cpu_ns), "cpu_share", document_real(share), "resident_bytes",
			 document_u64(self->resident_bytes), "reads", document_u64(self->reads), "read_seconds",
			 document_seconds(self->read_ns), "read_errors", document_u64(self->read_errors), "scrapes",
			 document_u64(self->scrapes), "loop_lag_seconds", document_seconds(self->loop_lag),
			 "saved_bytes", document_u64(self->saved_bytes), "save_seconds",
			 document_seconds(self->save_ns));
}

/* --- problems */

static bool add_problem(json_t *problems, const char *text)
{
	return !text || json_array_append_new(problems, document_text(text)) == 0;
}

/* "" or NULL: there is nothing to say. */
static bool add_sentence(json_t *problems, const char *text)
{
	return !text || !*text || add_problem(problems, text);
}

static bool is_counting(enum event_state state)
{
	return state == EVENT_OK || state == EVENT_MULTIPLEXED;
}

static bool add_lost_events(json_t *problems, const struct snapshot *snapshot, enum scope scope)
{
	const struct snapshot_table *table = &snapshot->table[scope];
	size_t lost = 0;
	char text[128];

	for (size_t i = 0; i < table->nr_columns; i++)
		lost += !is_counting(table->columns[i].state);
	(void)snprintf(text, sizeof(text), "%zu of %zu events per %s are not counted: /api/v1/events says why", lost,
		       table->nr_columns, scope == SCOPE_CPU ? "CPU" : "cgroup");
	return !lost || add_problem(problems, text);
}

static bool add_numbers(json_t *problems, const struct self *self)
{
	const struct {
		uint64_t nr;
		const char *text;
	} lines[] = {
		{ self->cgroups_over_max, "cgroups are not counted: there are more than [cgroup] max allows" },
		{ self->cgroups_over_fds, "cgroups are not counted: raise the limit of open files (LimitNOFILE=)" },
		{ self->cgroups_failed, "cgroups are not counted: /api/v1/cgroups says why" },
		{ self->cgroups_unlisted, "cgroups are not even listed: /api/v1/cgroups has an example, and why" },
	};
	char text[160];

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		(void)snprintf(text, sizeof(text), "%" PRIu64 " %s", lines[i].nr, lines[i].text);
		if (lines[i].nr && !add_problem(problems, text))
			return false;
	}
	return true;
}

static bool add_privilege(json_t *problems, const struct privilege *privilege)
{
	struct reason why;

	if (privilege_may_count_cpus(privilege))
		return true;
	privilege_explain(privilege, &why);
	reason_prefix(&why, 0, "this process may not count whole CPUs and cgroups");
	return add_problem(problems, why.text);
}

static json_t *problems_of(const struct snapshot *snapshot, const struct about *about)
{
	_cleanup_(json_decref_pointer) json_t *problems = json_array();
	const struct pmu_catalogue *pmus = about->env->pmus;

	if (!add_privilege(problems, about->privilege))
		return NULL;
	if (!add_sentence(problems, about->cpus_problem) || !add_sentence(problems, about->part_of_tree) ||
	    !add_problem(problems, about->mount ? NULL : about->no_cgroups) ||
	    !add_problem(problems, about->env->tracefs ? NULL : about->env->tracefs_problem))
		return NULL;
	for (size_t i = 0; i < pmus->nr_problems; i++)
		if (!add_problem(problems, pmus->problems[i]))
			return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (!add_lost_events(problems, snapshot, (enum scope)scope))
			return NULL;
	if (!add_problem(problems, snapshot->tree_problem))
		return NULL;
	return add_numbers(problems, &snapshot->self) ? json_incref(problems) : NULL;
}

int expose_json_status(struct buf *out, const struct snapshot *snapshot, const struct about *about)
{
	const struct self *self = &snapshot->self;
	json_t *files = json_pack("{s:o, s:o}", "events", document_u64(self->fds), "limit",
				  document_u64(self->fd_limit));

	return document_write(out, json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
					     "version", document_text(about->version), "pid", (int)getpid(),
					     "start_time", document_seconds(self->start_time), "uptime_seconds",
					     document_seconds(self->uptime), "engine", document_text(about->engine),
					     "privileges", privileges_of(about->privilege), "files", files, "cpus",
					     list_of(about->cpus), "cgroups", cgroups_of(self, about->mount), "pmus",
					     pmus_of(about->env->pmus), "libpfm", json_boolean(pfm_is_built_in()),
					     "tracefs", document_text(about->env->tracefs), "problems",
					     problems_of(snapshot, about), "cost", cost_of(self)));
}
