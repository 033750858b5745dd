/* SPDX-License-Identifier: MIT */

/* The documents of /api/v1/events, /api/v1/cgroups and /api/v1/status, read back with jansson. */

#include "setup/json-answer.h"

#include "web/expose/expose.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_events(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "g", "cycles:u", .metric = "cycles_user", .config = 0x11, .type = 4, .user = true },
		{ SCOPE_CPU, "g", "instructions", .config = 1 },
		{ SCOPE_CGROUP, "bad \xff", "a\nb\xff", .metric = "ab", .set = MADE_NO_SET, .state = EVENT_UNSUPPORTED,
		  .why = "there is no 'a\xff'", .absent = -ENOENT, .scale = 0.5, .unit = EVENT_UNIT_BYTES },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL;
	struct buf b = {};

	(void)state;
	assert_int_equal(expose_json_events(&b, s), 0);
	json = parse(&b);
	assert_size(json, "events", 3);
	assert_text(json, "events.0.scope", "cpu");
	assert_text(json, "events.0.group", "g");
	assert_text(json, "events.0.event", "cycles_user");
	assert_text(json, "events.0.text", "cycles:u");
	assert_text(json, "events.0.pmu", "cpu");
	assert_number(json, "events.0.encoding.type", 4);
	assert_text(json, "events.0.encoding.config", "0x11");
	assert_text(json, "events.0.encoding.config2", "0x0");
	assert_true(json_is_true(at(json, "events.0.encoding.exclude_kernel")));
	assert_absent(json, "events.0.encoding.exclude_user");
	assert_absent(json, "events.0.encoding.precise");
	assert_null_at(json, "events.0.unit");
	assert_number(json, "events.0.scale", 1);
	assert_text(json, "events.1.set.leader", "cycles_user");
	assert_number(json, "events.1.set.number", 0);
	assert_text(json, "events.1.cpus", "0-1");
	assert_text(json, "events.1.state", "ok");
	assert_null_at(json, "events.1.reason");
	assert_absent(json, "events.1.absent");

	assert_text(json, "events.2.scope", "cgroup");
	assert_text(json, "events.2.group",
		    "bad \xef\xbf\xbd"
		    "ff");
	assert_text(json, "events.2.text",
		    "a\nb\xef\xbf\xbd"
		    "ff");
	assert_null_at(json, "events.2.set");
	assert_null_at(json, "events.2.cpus");
	assert_text(json, "events.2.unit", "bytes");
	assert_number(json, "events.2.scale", 0.5);
	assert_text(json, "events.2.state", "unsupported");
	assert_text(json, "events.2.reason",
		    "there is no 'a\xef\xbf\xbd"
		    "ff'");
	assert_text(json, "events.2.absent", "ENOENT");

	assert_size(json, "sets", 1);
	assert_text(json, "sets.0.scope", "cpu");
	assert_text(json, "sets.0.group", "g");
	assert_text(json, "sets.0.leader", "cycles_user");
	assert_size(json, "sets.0.members", 2);
	assert_text(json, "sets.0.members.1", "instructions");
	assert_text(json, "sets.0.cpus", "0-1");
}

/* Sets are numbered through all scopes. */
static void test_events_of_several_sets(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "g", "cycles", .set = 0 },
		{ SCOPE_CPU, "g", "page-faults", .set = 1 },
		{ SCOPE_CGROUP, "g", "page-faults", .set = MADE_NO_SET },
		{ SCOPE_CGROUP, "h", "instructions", .set = 0 },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL;
	struct buf b = {};

	(void)state;
	assert_int_equal(expose_json_events(&b, s), 0);
	json = parse(&b);
	assert_size(json, "sets", 3);
	assert_number(json, "events.0.set.number", 0);
	assert_number(json, "events.1.set.number", 1);
	assert_null_at(json, "events.2.set");
	assert_number(json, "events.3.set.number", 2);
	assert_text(json, "sets.2.scope", "cgroup");
	assert_text(json, "sets.2.group", "h");
	assert_text(json, "sets.2.members.0", "instructions");
}

static void test_cgroups(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct buf b = {};

	(void)state;
	made_cgroup(s, "/system.slice/a.service", 7, CGROUP_COUNTED, NULL);
	made_cgroup(s, "/x\"y\xff", 8, CGROUP_OVER_MAX, "raise [cgroup] max \"now\"");
	assert_int_equal(expose_json_cgroups(&b, s), 0);
	json = parse(&b);
	assert_size(json, "cgroups", 2);
	assert_text(json, "cgroups.0.cgroup", "/system.slice/a.service");
	assert_number(json, "cgroups.0.id", 7);
	assert_text(json, "cgroups.0.status", "counted");
	assert_null_at(json, "cgroups.0.reason");
	assert_text(json, "cgroups.0.unit", "a.service");
	assert_text(json, "cgroups.0.slice", "system.slice");
	assert_absent(json, "cgroups.0.pod_uid");
	assert_text(json, "cgroups.1.cgroup",
		    "/x\"y\xef\xbf\xbd"
		    "ff");
	assert_text(json, "cgroups.1.status", "over_max");
	assert_text(json, "cgroups.1.reason", "raise [cgroup] max \"now\"");
}

/* The machine that status tells of. */
struct made_machine {
	int cpu_numbers[3];
	struct pmu pmus[3];
	struct pmu_cap caps[2];
	char *problems[1];
	struct pmu_catalogue catalogue;
	struct event_env env;
	struct privilege privilege;
	struct cpulist cpus;
	struct cgroup_mount mount;
	struct host_identity identity;
	struct machine_info info;
	const char *no_profiles;
};

static void make_machine(struct made_machine *m)
{
	static char cpu[] = "cpu", box[] = "uncore_imc", software[] = "software", path[] = "/sys/fs/cgroup";
	static char precise[] = "max_precise", three[] = "3", name[] = "pmu_name", word[] = "sky\xfflake";
	static char problem[] = "/sys/…/format/x: it is empty";

	*m = (struct made_machine){
		.cpu_numbers = { 0, 1, 3 },
		.caps = { { precise, three }, { name, word } },
		.pmus = { { .name = cpu, .type = 4, .nr_aliases = 12, .caps = m->caps, .nr_caps = 2 },
			  { .name = software, .type = 1 },
			  { .name = box, .type = 30, .has_cpumask = true, .identifier = three } },
		.problems = { problem },
		.privilege = { .paranoid = 2, .cap_perfmon = true, .effective = 1ULL << CAP_PERFMON, .fd_limit = 1024 },
		.mount = { .path = path, .version = 2, .top = 1 },
		.no_profiles = "",
		.identity = { .system = { .nodename = "alder", .release = "6.18.1" }, .cpu_model = "Fast \xff One" },
	};
	m->cpus = (struct cpulist){ m->cpu_numbers, 3 };
	m->pmus[2].cpus = (struct cpulist){ m->cpu_numbers, 1 };
	m->catalogue = (struct pmu_catalogue){ m->pmus, 3, m->problems, 1 };
	m->env = (struct event_env){ .pmus = &m->catalogue, .tracefs_problem = "tracefs is not mounted" };
	m->info = (struct machine_info){
		.version = "1.2.3",
		.engine = "perf",
		.identity = &m->identity,
		.online = 4,
		.privilege = &m->privilege,
		.env = &m->env,
		.mount = &m->mount,
		.cpus = &m->cpus,
	};
}

static json_t *status_json(const struct snapshot *s, const struct made_machine *m)
{
	struct buf b = {};

	assert_int_equal(expose_json_status(&b, s, &m->info, m->no_profiles), 0);
	return parse(&b);
}

static void test_status(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct made_machine m;

	(void)state;
	make_machine(&m);
	s->self = (struct self_stats){
		.uptime = 100000000000,
		.cpu_ns = 250000000,
		.fds = 40,
		.fd_limit = 1024,
		.reads = 9,
		.read_ns = 500000000,
		.resident_bytes = 4096,
		.cgroups_counted = 3,
		.cgroups_over_max = 2,
	};
	json = status_json(s, &m);
	assert_text(json, "version", "1.2.3");
	assert_text(json, "machine.hostname", "alder");
	assert_text(json, "machine.kernel", "6.18.1");
	assert_null_at(json, "machine.architecture");
	assert_text(json, "machine.cpu_model",
		    "Fast \xef\xbf\xbd"
		    "ff One");
	assert_number(json, "machine.cpus", 4);
	assert_number(json, "pid", getpid());
	assert_number(json, "uptime_seconds", 100);
	assert_text(json, "engine", "perf");
	assert_number(json, "privileges.perf_event_paranoid", 2);
	assert_size(json, "privileges.capabilities", 1);
	assert_text(json, "privileges.capabilities.0", "CAP_PERFMON");
	assert_true(json_is_true(at(json, "privileges.may_count_cpus")));
	assert_true(json_is_false(at(json, "privileges.raises_sys_admin")));
	assert_true(json_is_false(at(json, "privileges.kernel_wants_sys_admin")));
	assert_number(json, "files.events", 40);
	assert_number(json, "files.limit", 1024);
	assert_text(json, "cpus", "0-1,3");
	assert_text(json, "cgroups.mount.path", "/sys/fs/cgroup");
	assert_number(json, "cgroups.mount.version", 2);
	assert_true(json_is_true(at(json, "cgroups.mount.whole")));
	assert_number(json, "cgroups.counted", 3);
	assert_text(json, "pmus.0.name", "cpu");
	assert_text(json, "pmus.0.kind", "core");
	assert_number(json, "pmus.0.events", 12);
	assert_null_at(json, "pmus.0.cpus");
	assert_text(json, "pmus.0.caps.max_precise", "3");
	assert_text(json, "pmus.0.caps.pmu_name",
		    "sky\xef\xbf\xbd"
		    "fflake");
	assert_null_at(json, "pmus.0.identifier");
	assert_text(json, "pmus.2.identifier", "3");
	assert_int_equal(json_object_size(at(json, "pmus.2.caps")), 0);
	assert_text(json, "pmus.1.kind", "other");
	assert_text(json, "pmus.2.kind", "uncore");
	assert_text(json, "pmus.2.cpus", "0");
	assert_null_at(json, "tracefs");
	assert_true(json_is_boolean(json_object_get(json, "libpfm")));
	assert_number(json, "cost.cpu_share", 0.0025);
	assert_number(json, "cost.resident_bytes", 4096);
	assert_number(json, "cost.read_seconds", 0.5);

	assert_size(json, "problems", 4);
	assert_text(json, "problems.0", "tracefs is not mounted");
	assert_text(json, "problems.1", m.problems[0]);
	assert_text(json, "problems.2", "1 of 3 events per CPU are not counted: /api/v1/events says why");
	assert_text(json, "problems.3", "2 cgroups are not counted: there are more than [cgroup] max allows");
}

static void test_status_of_a_pmu_that_was_not_free(void **state)
{
	static char cpu[] = "cpu";
	static const struct pmu_counters busy = { cpu, 0, 0, 0 };
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct made_machine m;

	(void)state;
	make_machine(&m);
	assert_int_equal(pmu_counters_add(&s->plan->pmus, &busy), 0);
	json = status_json(s, &m);
	assert_null_at(json, "pmus.0.counters");
	assert_text(json, "problems.2",
		    "PMU cpu: none of its counters was free for the test, and nobody knows how many of them count: "
		    "reload when others have ended");
}

static void test_status_of_a_pmu_that_lies(void **state)
{
	static char cpu[] = "cpu", imc[] = "uncore_imc";
	static const struct pmu_counters lying = { cpu, 6, 5, 0 }, honest = { imc, 4, 4, 0 };
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct made_machine m;

	(void)state;
	make_machine(&m);
	assert_int_equal(pmu_counters_add(&s->plan->pmus, &lying), 0);
	assert_int_equal(pmu_counters_add(&s->plan->pmus, &honest), 0);
	json = status_json(s, &m);
	assert_number(json, "pmus.0.counters.advertised", 6);
	assert_number(json, "pmus.0.counters.usable", 5);
	assert_null_at(json, "pmus.1.counters");
	assert_number(json, "pmus.2.counters.usable", 4);
	assert_size(json, "problems", 4);
	assert_text(json, "problems.2",
		    "PMU cpu: 6 counters, of which only 5 count at once: no group is opened with more hardware events");
}

static void test_status_of_a_part(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct made_machine m;

	(void)state;
	make_machine(&m);
	m.mount.top = 4711;
	m.info.part_of_tree = "it sees only its own part of the tree";
	m.info.cpus_problem = "";
	json = status_json(s, &m);
	assert_true(json_is_false(at(json, "cgroups.mount.whole")));
	assert_size(json, "problems", 4);
	assert_text(json, "problems.0", "it sees only its own part of the tree");
	json_decref(json);
	m.info.part_of_tree = "";
	m.info.cpus_problem = "CPUs are guessed";
	json = status_json(s, &m);
	assert_text(json, "problems.0", "CPUs are guessed");
	json_decref(json);
	m.info.cpus_problem = "";
	m.no_profiles = "nothing is sampled";
	json = status_json(s, &m);
	assert_text(json, "problems.0", "nothing is sampled");
}

static void test_status_of_the_unprivileged(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct made_machine m;

	(void)state;
	make_machine(&m);
	m.privilege = (struct privilege){ .paranoid = PARANOID_UNKNOWN };
	m.info.mount = NULL;
	m.info.no_cgroups = "no cgroup file system is mounted";
	m.env.tracefs = "/sys/kernel/tracing";
	json = status_json(s, &m);
	assert_null_at(json, "privileges.perf_event_paranoid");
	assert_size(json, "privileges.capabilities", 0);
	assert_true(json_is_false(at(json, "privileges.may_count_cpus")));
	assert_null_at(json, "cgroups.mount");
	assert_text(json, "tracefs", "/sys/kernel/tracing");
	assert_number(json, "cost.cpu_share", 0);
	assert_non_null(strstr(json_string_value(at(json, "problems.0")), "CAP_PERFMON"));
	assert_text(json, "problems.1", "no cgroup file system is mounted");
}

/* A privilege that only a distribution's kernel requires is the first of the problems. */
static void test_status_on_a_patched_kernel(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL, *raised = NULL;
	struct made_machine m;
	const char *problem;

	(void)state;
	make_machine(&m);
	m.privilege.paranoid = 3;
	m.privilege.wants_sys_admin = true;
	json = status_json(s, &m);
	assert_true(json_is_true(at(json, "privileges.kernel_wants_sys_admin")));
	assert_true(json_is_false(at(json, "privileges.may_count_cpus")));
	problem = json_string_value(at(json, "problems.0"));
	assert_non_null(strstr(problem, "this process may not count whole CPUs and cgroups: "
					"kernel.perf_event_paranoid is 3"));
	assert_non_null(strstr(problem, "60-perfmond.conf"));

	m.privilege.cap_sys_admin = m.privilege.raises_sys_admin = true;
	raised = status_json(s, &m);
	assert_true(json_is_true(at(raised, "privileges.raises_sys_admin")));
	assert_true(json_is_true(at(raised, "privileges.may_count_cpus")));
	assert_text(raised, "problems.0", "tracefs is not mounted");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_of_several_sets),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_cgroups),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_status_of_a_pmu_that_lies),
		cmocka_unit_test(test_status_of_a_pmu_that_was_not_free),
		cmocka_unit_test(test_status_of_a_part),
		cmocka_unit_test(test_status_of_the_unprivileged),
		cmocka_unit_test(test_status_on_a_patched_kernel),
	};

	return cmocka_run_group_tests_name("expose-status", tests, NULL, NULL);
}
