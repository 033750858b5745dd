/* SPDX-License-Identifier: MIT */

/*
 * /api/v1/status: the daemon, the machine as it was found at the start or the last reload, the privileges of the
 * process, its cost, and "problems": sentences about everything that is not counted or not known, for people.
 */

#include "web/expose/expose.h"

#include "counting/event/catalog/pfm.h"
#include "web/expose/document.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>

/* The capabilities(7) that decide what can be counted. */
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

static json_t *capabilities_json(const struct privilege *privilege)
{
	_cleanup_(json_decref_pointer) json_t *names = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++)
		if (privilege->effective >> capabilities[i].bit & 1 &&
		    json_array_append_new(names, json_string(capabilities[i].name)) < 0)
			return NULL;
	return json_incref(names);
}

/* "" is not known. */
static json_t *known_json(const char *text)
{
	return *text ? document_text(text) : json_null();
}

static json_t *identity_json(const struct machine_info *info)
{
	const struct utsname *system = &info->identity->system;

	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "hostname", known_json(system->nodename), "kernel",
			 known_json(system->release), "architecture", known_json(system->machine), "cpu_model",
			 known_json(info->identity->cpu_model), "cpus", document_u64(info->online));
}

static json_t *privileges_json(const struct privilege *privilege)
{
	json_t *paranoid = privilege->paranoid == PARANOID_UNKNOWN ? json_null() : json_integer(privilege->paranoid);

	return json_pack("{s:o, s:o, s:b, s:b, s:b}", "perf_event_paranoid", paranoid, "capabilities",
			 capabilities_json(privilege), "raises_sys_admin", privilege->raises_sys_admin,
			 "kernel_wants_sys_admin", privilege->wants_sys_admin, "may_count_cpus",
			 privilege_may_count_cpus(privilege));
}

/* As the kernel writes them in sysfs: some are numbers, some are words. */
static json_t *caps_json(const struct pmu *pmu)
{
	_cleanup_(json_decref_pointer) json_t *caps = json_object();

	for (size_t i = 0; i < pmu->nr_caps; i++)
		if (json_object_set_new(caps, pmu->caps[i].name, document_text(pmu->caps[i].value)) < 0)
			return NULL;
	return json_incref(caps);
}

static json_t *counters_json(const struct pmu_counters *counters)
{
	if (!counters)
		return json_null();
	return json_pack("{s:I, s:I}", "advertised", (json_int_t)counters->advertised, "usable",
			 (json_int_t)counters->usable);
}

static json_t *pmu_json(const struct pmu *pmu, const struct pmu_counters_list *tested)
{
	const char *kind = pmu_is_core(pmu) ? "core" : pmu->has_cpumask ? "uncore" : "other";
	bool has_cpus = pmu->has_cpumask || pmu->has_cpus;

	return json_pack("{s:o, s:I, s:s, s:o, s:o, s:o, s:o, s:o}", "name", document_text(pmu->name), "type",
			 (json_int_t)pmu->type, "kind", kind, "cpus",
			 has_cpus ? document_cpus(&pmu->cpus) : json_null(), "events", document_u64(pmu->nr_aliases),
			 "identifier", document_text(pmu->identifier), "caps", caps_json(pmu), "counters",
			 counters_json(pmu_counters_find(tested, pmu->name)));
}

static json_t *pmus_json(const struct pmu_catalogue *catalogue, const struct pmu_counters_list *tested)
{
	_cleanup_(json_decref_pointer) json_t *pmus = json_array();

	for (size_t i = 0; i < catalogue->nr; i++)
		if (json_array_append_new(pmus, pmu_json(&catalogue->pmus[i], tested)) < 0)
			return NULL;
	return json_incref(pmus);
}

static json_t *mount_json(const struct cgroup_mount *mount)
{
	if (!mount)
		return json_null();
	return json_pack("{s:o, s:i, s:b}", "path", document_text(mount->path), "version", mount->version, "whole",
			 !cgroup_mount_is_part(mount));
}

static json_t *cgroups_json(const struct self_stats *self, const struct cgroup_mount *mount)
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
	_cleanup_(json_decref_pointer) json_t *cgroups = json_pack("{s:o}", "mount", mount_json(mount));

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (json_object_set_new(cgroups, members[i].name, document_u64(members[i].nr)) < 0)
			return NULL;
	return json_incref(cgroups);
}

static json_t *cost_json(const struct self_stats *self)
{
	double share = self->uptime ? (double)self->cpu_ns / (double)self->uptime : 0;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu_seconds",
			 document_seconds(self->cpu_ns), "cpu_share", document_real(share), "resident_bytes",
			 document_u64(self->resident_bytes), "reads", document_u64(self->reads), "read_seconds",
			 document_seconds(self->read_ns), "switches", document_u64(self->switches), "switch_seconds",
			 document_seconds(self->switch_ns), "read_errors", document_u64(self->read_errors), "scrapes",
			 document_u64(self->scrapes), "loop_lag_seconds", document_seconds(self->loop_lag),
			 "saved_bytes", document_u64(self->saved_bytes), "save_seconds",
			 document_seconds(self->save_ns));
}

/* --- problems */

static bool problems_add(json_t *problems, const char *text)
{
	return !text || json_array_append_new(problems, document_text(text)) == 0;
}

/* "" and NULL are no problem. */
static bool problems_add_sentence(json_t *problems, const char *text)
{
	return !text || !*text || problems_add(problems, text);
}

static bool is_counting(enum event_state state)
{
	return state == EVENT_OK || state == EVENT_MULTIPLEXED;
}

static bool problems_add_events(json_t *problems, const struct snapshot *snapshot, enum scope scope)
{
	const struct snapshot_table *table = &snapshot->table[scope];
	size_t lost = 0, partial = 0;
	char text[128];

	for (size_t i = 0; i < table->nr_columns; i++) {
		partial += table->columns[i].partial;
		lost += !table->columns[i].partial && !is_counting(table->columns[i].state);
	}
	(void)snprintf(text, sizeof(text), "%zu of %zu events per %s are not counted: /api/v1/events says why", lost,
		       table->nr_columns, scope == SCOPE_CPU ? "CPU" : "cgroup");
	if (lost && !problems_add(problems, text))
		return false;
	(void)snprintf(text, sizeof(text),
		       "%zu of %zu events per cgroup are missing in some cgroups: /api/v1/events says why", partial,
		       table->nr_columns);
	return !partial || problems_add(problems, text);
}

static bool problems_add_cgroups(json_t *problems, const struct self_stats *self)
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
		if (lines[i].nr && !problems_add(problems, text))
			return false;
	}
	return true;
}

static bool problems_add_counters(json_t *problems, const struct pmu_counters_list *pmus)
{
	struct reason why;

	for (size_t i = 0; i < pmus->nr; i++)
		if (pmu_counters_describe(&pmus->pmus[i], &why) && !problems_add(problems, why.text))
			return false;
	return true;
}

static bool problems_add_privilege(json_t *problems, const struct privilege *privilege)
{
	struct reason why;

	if (privilege->keeps_profilers && !problems_add(problems, PRIVILEGE_NOT_PARTED))
		return false;
	if (privilege_may_count_cpus(privilege))
		return true;
	privilege_explain(privilege, &why);
	reason_prefix(&why, 0, "this process may not count whole CPUs and cgroups");
	return problems_add(problems, why.text);
}

static bool problems_add_rules(json_t *problems, const struct snapshot *snapshot)
{
	struct reason text;

	for (size_t i = 0; i < snapshot->nr_rules; i++) {
		const struct snapshot_rule *rule = &snapshot->rules[i];

		reason_set(&text, 0, "[capture \"%s\"] is not evaluated: %s", rule->name, rule->problem);
		if (rule->problem[0] && !problems_add(problems, text.text))
			return false;
	}
	return true;
}

static json_t *problems_json(const struct snapshot *snapshot, const struct machine_info *info, const char *no_profiles)
{
	_cleanup_(json_decref_pointer) json_t *problems = json_array();
	const struct pmu_catalogue *pmus = info->env->pmus;

	if (!problems_add_privilege(problems, info->privilege))
		return NULL;
	if (!problems_add_sentence(problems, info->cpus_problem) ||
	    !problems_add_sentence(problems, info->part_of_tree) ||
	    !problems_add_sentence(problems, info->no_crediting) || !problems_add_sentence(problems, no_profiles) ||
	    !problems_add_sentence(problems, info->no_names) ||
	    !problems_add(problems, info->mount ? NULL : info->no_cgroups) ||
	    !problems_add(problems, info->env->tracefs ? NULL : info->env->tracefs_problem))
		return NULL;
	for (size_t i = 0; i < pmus->nr_problems; i++)
		if (!problems_add(problems, pmus->problems[i]))
			return NULL;
	if (!problems_add_counters(problems, &snapshot->plan->pmus) || !problems_add_rules(problems, snapshot))
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (!problems_add_events(problems, snapshot, (enum scope)scope))
			return NULL;
	if (!problems_add(problems, snapshot->tree_problem))
		return NULL;
	return problems_add_cgroups(problems, &snapshot->self) ? json_incref(problems) : NULL;
}

int expose_json_status(struct buf *out, const struct snapshot *snapshot, const struct machine_info *info,
		       const char *no_profiles)
{
	const struct self_stats *self = &snapshot->self;
	json_t *files =
		json_pack("{s:o, s:o}", "events", document_u64(self->fds), "limit", document_u64(self->fd_limit));

	return document_write(
		out, json_pack("{s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
			       document_text(info->version), "machine", identity_json(info), "pid", (int)getpid(),
			       "start_time", document_seconds(self->start_time), "uptime_seconds",
			       document_seconds(self->uptime), "engine", document_text(info->engine), "privileges",
			       privileges_json(info->privilege), "files", files, "cpus", document_cpus(info->cpus),
			       "cgroups", cgroups_json(self, info->mount), "pmus",
			       pmus_json(info->env->pmus, &snapshot->plan->pmus), "libpfm",
			       json_boolean(pfm_is_built_in()), "tracefs", document_text(info->env->tracefs),
			       "problems", problems_json(snapshot, info, no_profiles), "cost", cost_json(self)));
}
