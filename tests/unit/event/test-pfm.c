/* SPDX-License-Identifier: MIT */

/*
 * libpfm's names. Its tables are the real ones; which PMUs the machine has, and their types, is played: libpfm
 * would look at this one's CPU and sysfs. So the program tells it to encode for PMUs that are not there
 * (LIBPFM_ENCODE_INACTIVE, libpfm(3)), and takes the place of three of its functions (__wrap_ below).
 *
 * What an event is encoded as was not taken from libpfm, but from the makers: Intel's event list of Skylake-SP,
 * as in the tables of linux-perf 6.1 (`perf list --details` with PERF_CPUID=GenuineIntel-6-55-4), and AMD's
 * Processor Programming Reference of family 19h, model 11h (PMCx0C0 is event select 0xc0; the upper four bits
 * of PMCx1A0 go to bit 32).
 */

#include "counting/event/catalog/pfm.h"
#include "counting/event/parse.h"
#include "counting/event/walk.h"
#include "setup/machines.h"

#include <errno.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* --- the machine as libpfm finds it */

struct played_pmu {
	const char *name;
	uint32_t type; /* 0: what libpfm says */
	int error;     /* what it says instead of encoding */
};

/* Ended by an entry without a name; NULL: this machine as it is. */
static const struct played_pmu *played;

pfm_err_t __real_pfm_get_pmu_info(pfm_pmu_t number, pfm_pmu_info_t *output);
pfm_err_t __wrap_pfm_get_pmu_info(pfm_pmu_t number, pfm_pmu_info_t *output);
int __real_pfm_find_event(const char *text);
int __wrap_pfm_find_event(const char *text);
pfm_err_t __real_pfm_get_os_event_encoding(const char *text, int levels, pfm_os_t os, void *arg);
pfm_err_t __wrap_pfm_get_os_event_encoding(const char *text, int levels, pfm_os_t os, void *arg);

pfm_err_t __wrap_pfm_get_pmu_info(pfm_pmu_t number, pfm_pmu_info_t *output)
{
	pfm_err_t r = __real_pfm_get_pmu_info(number, output);

	if (r != PFM_SUCCESS || !played)
		return r;
	output->is_present = 0;
	for (const struct played_pmu *pmu = played; pmu->name; pmu++)
		if (strcmp(pmu->name, output->name) == 0)
			output->is_present = 1;
	return r;
}

/* The PMU that a text names, or the first that has the event; "PMU::EVENT…" goes into whole. */
static const struct played_pmu *find_played(const char *text, char whole[static 4096])
{
	for (const struct played_pmu *pmu = played; pmu && pmu->name; pmu++) {
		size_t length = strlen(pmu->name);
		char event[256];

		if (strncmp(text, pmu->name, length) == 0 && strncmp(text + length, "::", 2) == 0) {
			(void)snprintf(whole, 4096, "%s", text);
			return pmu;
		}
		(void)snprintf(event, sizeof(event), "%s::%.*s", pmu->name, (int)strcspn(text, ":."), text);
		if (!strstr(text, "::") && __real_pfm_find_event(event) >= 0) {
			(void)snprintf(whole, 4096, "%s::%s", pmu->name, text);
			return pmu;
		}
	}
	return NULL;
}

int __wrap_pfm_find_event(const char *text)
{
	char whole[4096];

	if (!played || strstr(text, "::"))
		return __real_pfm_find_event(text);
	return find_played(text, whole) ? __real_pfm_find_event(whole) : PFM_ERR_NOTFOUND;
}

/* Of an uncore PMU, which this machine's sysfs lacks, libpfm tells the code alone. */
static pfm_err_t encode_uncore(const char *text, struct perf_event_attr *attr)
{
	uint64_t code = 0, *codes = &code;
	int nr = 1;
	pfm_err_t r = pfm_get_event_encoding(text, PFM_PLM0 | PFM_PLM3, NULL, NULL, &codes, &nr);

	attr->config = code;
	return r;
}

pfm_err_t __wrap_pfm_get_os_event_encoding(const char *text, int levels, pfm_os_t os, void *userdata)
{
	char whole[4096];
	const struct played_pmu *pmu = find_played(text, whole);
	pfm_perf_encode_arg_t *arg = userdata;
	pfm_err_t r;

	if (!pmu)
		return __real_pfm_get_os_event_encoding(text, levels, os, userdata);
	if (pmu->error)
		return pmu->error;
	arg->cpu = -1;
	r = __real_pfm_get_os_event_encoding(whole, levels, os, arg);
	if (r == PFM_ERR_NOTSUPP)
		r = encode_uncore(whole, arg->attr);
	if (pmu->type)
		arg->attr->type = pmu->type;
	return r;
}

/* Of types as machines.h has them. */
static const struct played_pmu skylake_sp[] = {
	{ .name = "skx" },
	{ .name = "rapl", .type = 28 },
	{ .name = "skx_unc_imc0", .type = 11 },
	{ .name = "skx_unc_imc1", .type = 12 },
	{ .name = "skx_unc_imc5", .type = 13 },
	{},
};
static const struct played_pmu zen4[] = { { .name = "amd64_fam19h_zen4" }, {} };
/* No libpfm of Debian 12 knows a hybrid CPU: a core and an Atom of their own machines stand for one. */
static const struct played_pmu hybrid[] = { { .name = "skl", .type = 4 }, { .name = "glm", .type = 10 }, {} };

/* A libpfm for another architecture has none of these tables. */
static void need_tables(void)
{
	assert_int_equal(pfm_initialize(), PFM_SUCCESS);
	if (__real_pfm_find_event("skx::INST_RETIRED") < 0 ||
	    __real_pfm_find_event("amd64_fam19h_zen4::RETIRED_OPS") < 0) {
		print_message("SKIPPED: this libpfm has no tables of Skylake-SP and Zen 4\n");
		skip();
	}
}

/* --- encodings */

/* Excluded: u k h G H; then D pinned, e exclusive, p for each step of precision. */
static const char *flags(const struct perf_event_attr *attr, char text[16])
{
	const char letters[] = "ukhGHDe";
	const bool set[] = { attr->exclude_user, attr->exclude_kernel, attr->exclude_hv, attr->exclude_guest,
			     attr->exclude_host, attr->pinned,	       attr->exclusive };
	char *p = text;

	for (size_t i = 0; letters[i]; i++)
		if (set[i])
			*p++ = letters[i];
	for (unsigned i = 0; i < attr->precise_ip; i++)
		*p++ = 'p';
	*p = '\0';
	return text;
}

struct encoding {
	const char *text;
	uint64_t config, config1;
	const char *metric;
	const char *flags; /* NULL: none */
};

static void check(const struct event_list *list, const struct encoding *want)
{
	const struct event *event = &list->events[0];
	struct perf_event_attr rest = event->attr;
	static const struct perf_event_attr nothing = {};
	char text[16];

	if (list->nr != 1 || event->attr.config != want->config)
		print_error("%s: 0x%llx\n", want->text, (unsigned long long)event->attr.config);
	assert_int_equal(list->nr, 1);
	assert_int_equal(event->attr.type, PERF_TYPE_RAW);
	assert_int_equal(event->attr.config, want->config);
	assert_int_equal(event->attr.config1, want->config1);
	assert_int_equal(event->attr.size, sizeof(event->attr));
	assert_string_equal(flags(&event->attr, text), want->flags ? want->flags : "");
	assert_string_equal(event->metric, want->metric);
	assert_string_equal(event->pmu, "cpu");
	assert_string_equal(event->text, want->text);
	assert_false(event->by_pmu || event->uncore || event->software || event->absent);

	rest.type = rest.size = 0;
	rest.config = rest.config1 = 0;
	rest.exclude_user = rest.exclude_kernel = rest.exclude_hv = rest.exclude_guest = rest.exclude_host = 0;
	rest.pinned = rest.exclusive = 0;
	rest.precise_ip = 0;
	assert_memory_equal(&rest, &nothing, sizeof(rest));
}

static void check_all(const struct tree_file *files, const struct played_pmu *pmus, const struct encoding *table,
		      size_t nr)
{
	struct machine m;

	need_tables();
	played = pmus;
	m = machine_new(files);
	for (size_t i = 0; i < nr; i++) {
		struct event_list list = machine_parse(&m, table[i].text);

		check(&list, &table[i]);
		event_list_release(&list);
	}
	machine_release(&m);
}

static void test_intel(_unused_ void **state)
{
	static const struct encoding table[] = {
		{ "INST_RETIRED:ANY_P", 0xc0, 0, "inst_retired_any_p", NULL },
		{ "INST_RETIRED", 0xc0, 0, "inst_retired", NULL },
		{ "CPU_CLK_UNHALTED:THREAD_P", 0x3c, 0, "cpu_clk_unhalted_thread_p", NULL },
		{ "CPU_CLK_UNHALTED:REF_XCLK", 0x13c, 0, "cpu_clk_unhalted_ref_xclk", NULL },
		{ "BR_INST_RETIRED:NEAR_TAKEN", 0x20c4, 0, "br_inst_retired_near_taken", NULL },
		{ "BR_MISP_RETIRED:ALL_BRANCHES", 0xc5, 0, "br_misp_retired_all_branches", NULL },
		{ "LONGEST_LAT_CACHE:MISS", 0x412e, 0, "longest_lat_cache_miss", NULL },
		{ "LONGEST_LAT_CACHE:REFERENCE", 0x4f2e, 0, "longest_lat_cache_reference", NULL },
		{ "L1D:REPLACEMENT", 0x151, 0, "l1d_replacement", NULL },
		{ "L2_RQSTS:MISS", 0x3f24, 0, "l2_rqsts_miss", NULL },
		{ "L2_RQSTS:REFERENCES", 0xff24, 0, "l2_rqsts_references", NULL },
		{ "DTLB_LOAD_MISSES:WALK_COMPLETED", 0xe08, 0, "dtlb_load_misses_walk_completed", NULL },
		{ "ITLB_MISSES:WALK_COMPLETED", 0xe85, 0, "itlb_misses_walk_completed", NULL },
		{ "UOPS_ISSUED:ANY", 0x10e, 0, "uops_issued_any", NULL },
		{ "UOPS_RETIRED:RETIRE_SLOTS", 0x2c2, 0, "uops_retired_retire_slots", NULL },
		{ "IDQ_UOPS_NOT_DELIVERED:CORE", 0x19c, 0, "idq_uops_not_delivered_core", NULL },
		{ "RESOURCE_STALLS:ANY", 0x1a2, 0, "resource_stalls_any", NULL },
		{ "MEM_LOAD_RETIRED:L1_HIT", 0x1d1, 0, "mem_load_retired_l1_hit", NULL },
		{ "MEM_LOAD_RETIRED:L3_MISS", 0x20d1, 0, "mem_load_retired_l3_miss", NULL },
		{ "MEM_INST_RETIRED:ALL_LOADS", 0x81d0, 0, "mem_inst_retired_all_loads", NULL },
		{ "FP_ARITH_INST_RETIRED:SCALAR_DOUBLE", 0x1c7, 0, "fp_arith_inst_retired_scalar_double", NULL },
		{ "LD_BLOCKS:STORE_FORWARD", 0x203, 0, "ld_blocks_store_forward", NULL },
		/* cmask=4, cmask=1, cmask=1,edge */
		{ "CYCLE_ACTIVITY:STALLS_TOTAL", 0x40004a3, 0, "cycle_activity_stalls_total", NULL },
		{ "ARITH:DIVIDER_ACTIVE", 0x1000114, 0, "arith_divider_active", NULL },
		{ "MACHINE_CLEARS:COUNT", 0x10401c3, 0, "machine_clears_count", NULL },
		/* MSRs beside the event: frontend=0x11, ldlat=64 */
		{ "FRONTEND_RETIRED:DSB_MISS", 0x1c6, 0x11, "frontend_retired_dsb_miss", NULL },
		{ "MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=64", 0x1cd, 64, "mem_trans_retired_load_latency_ldlat_64",
		  NULL },
		/* Written otherwise. */
		{ "inst_retired.any_p", 0xc0, 0, "inst_retired_any_p", NULL },
		{ "skx::l1d.replacement", 0x151, 0, "skx__l1d_replacement", NULL },
		{ "UOPS_ISSUED:ANY:c=1:i", 0x180010e, 0, "uops_issued_any_c_1_i", NULL },
		{ "UOPS_ISSUED:ANY:c=2:e=0", 0x200010e, 0, "uops_issued_any_c_2_e_0", NULL },
		{ "L1D:0x01", 0x151, 0, "l1d_0x01", NULL },
	};

	check_all(machine_server, skylake_sp, table, ARRAY_SIZE(table));
}

static void test_amd(_unused_ void **state)
{
	static const struct encoding table[] = {
		{ "RETIRED_INSTRUCTIONS", 0xc0, 0, "retired_instructions", NULL },
		{ "RETIRED_OPS", 0xc1, 0, "retired_ops", NULL },
		{ "RETIRED_BRANCH_INSTRUCTIONS", 0xc2, 0, "retired_branch_instructions", NULL },
		{ "RETIRED_BRANCH_INSTRUCTIONS_MISPREDICTED", 0xc3, 0, "retired_branch_instructions_mispredicted",
		  NULL },
		{ "CYCLES_NOT_IN_HALT", 0x76, 0, "cycles_not_in_halt", NULL },
		{ "LS_DISPATCH:LD_DISPATCH", 0x129, 0, "ls_dispatch_ld_dispatch", NULL },
		{ "amd64_fam19h_zen4::DISPATCH_STALLS_1:FE_NO_OPS", 0x1000001a0, 0,
		  "amd64_fam19h_zen4__dispatch_stalls_1_fe_no_ops", NULL },
		{ "DISPATCH_STALLS_1:BE_STALLS", 0x100001ea0, 0, "dispatch_stalls_1_be_stalls", NULL },
		{ "RETIRED_INSTRUCTIONS:h", 0xc0, 0, "retired_instructions_h", "uk" },
	};

	check_all(machine_zen, zen4, table, ARRAY_SIZE(table));
}

/* Nothing is excluded that the text does not exclude. What u and precise leave out beside is perf's habit, which
 * plain names have as well (modifier.h). */
static void test_attributes(_unused_ void **state)
{
	static const struct encoding table[] = {
		{ "INST_RETIRED:ANY_P:u", 0xc0, 0, "inst_retired_any_p_u", "kG" },
		{ "INST_RETIRED:ANY_P:k", 0xc0, 0, "inst_retired_any_p_k", "u" },
		{ "INST_RETIRED:ANY_P:k=0", 0xc0, 0, "inst_retired_any_p_k_0", "uk" },
		{ "INST_RETIRED:ANY_P:u:k", 0xc0, 0, "inst_retired_any_p_u_k", NULL },
		{ "INST_RETIRED:ANY_P:mh", 0xc0, 0, "inst_retired_any_p_mh", "G" },
		{ "INST_RETIRED:ANY_P:MG", 0xc0, 0, "inst_retired_any_p_mg", "H" },
		{ "INST_RETIRED:ANY_P.mg=1.mh", 0xc0, 0, "inst_retired_any_p_mg_1_mh", NULL },
		{ "INST_RETIRED:ANY_P:u:mg", 0xc0, 0, "inst_retired_any_p_u_mg", "kH" },
		{ "INST_RETIRED:PREC_DIST:precise=2", 0x1c0, 0, "inst_retired_prec_dist_precise_2", "Gpp" },
		{ "INST_RETIRED:ANY_P:pinned:excl", 0xc0, 0, "inst_retired_any_p_pinned_excl", "De" },
	};

	check_all(machine_server, skylake_sp, table, ARRAY_SIZE(table));
}

static void test_label(_unused_ void **state)
{
	struct event_list list;
	struct machine m;

	need_tables();
	played = skylake_sp;
	m = machine_new(machine_server);
	list = machine_parse(&m, "retired=INST_RETIRED:ANY_P:u");
	assert_string_equal(list.events[0].metric, "retired");
	assert_string_equal(list.events[0].text, "INST_RETIRED:ANY_P:u");
	event_list_release(&list);
	machine_release(&m);
}

/* --- which PMUs */

static void expect_event(const struct event *event, const char *pmu, uint32_t type, uint64_t config, const char *cpus)
{
	_cleanup_(freep) char *list = cpulist_format(&event->cpus);

	assert_string_equal(event->pmu, pmu);
	assert_int_equal(event->attr.type, type);
	assert_int_equal(event->attr.config, config);
	assert_string_equal(list, cpus);
	assert_int_equal(event->absent, 0);
}

/* Every memory controller counts it, on one CPU of each socket, in the unit that sysfs has for the same event. */
static void test_uncore(_unused_ void **state)
{
	struct event_list list;
	struct machine m;

	need_tables();
	played = skylake_sp;
	m = machine_new(machine_server);
	list = machine_parse(&m, "UNC_M_CAS_COUNT:RD");
	assert_int_equal(list.nr, 3);
	expect_event(&list.events[0], "uncore_imc_0", 11, 0x304, "0,16");
	expect_event(&list.events[1], "uncore_imc_1", 12, 0x304, "0,16");
	expect_event(&list.events[2], "uncore_imc_5", 13, 0x304, "0,16");
	for (size_t i = 0; i < list.nr; i++) {
		assert_true(list.events[i].by_pmu && list.events[i].uncore);
		assert_int_equal(list.events[i].unit, EVENT_UNIT_BYTES);
		assert_true(list.events[i].scale == 64);
		assert_string_equal(list.events[i].metric, "unc_m_cas_count_rd");
	}
	event_list_release(&list);

	list = machine_parse(&m, "skx_unc_imc1::UNC_M_CAS_COUNT:WR");
	assert_int_equal(list.nr, 1);
	expect_event(&list.events[0], "uncore_imc_1", 12, 0xc04, "0,16");
	assert_false(list.events[0].by_pmu);
	event_list_release(&list);

	/* An event that sysfs has no name for is a plain count. */
	list = machine_parse(&m, "skx_unc_imc0::UNC_M_ACT_COUNT:RD");
	assert_int_equal(list.events[0].unit, EVENT_UNIT_NONE);
	assert_true(list.events[0].scale == 1);
	event_list_release(&list);

	list = machine_parse(&m, "RAPL_ENERGY_PKG");
	assert_int_equal(list.nr, 1);
	expect_event(&list.events[0], "power", 28, 2, "0,16");
	assert_int_equal(list.events[0].unit, EVENT_UNIT_JOULES);
	assert_true(list.events[0].scale == 0x1p-32);
	event_list_release(&list);
	machine_release(&m);
}

/* What is one name on both kinds of cores can have two codes. */
static void test_hybrid(_unused_ void **state)
{
	struct event_list list;
	struct machine m;

	need_tables();
	played = hybrid;
	m = machine_new(machine_hybrid);
	list = machine_parse(&m, "UOPS_ISSUED:ANY:u");
	assert_int_equal(list.nr, 2);
	expect_event(&list.events[0], "cpu_core", 4, 0x10e, "0-15");
	expect_event(&list.events[1], "cpu_atom", 10, 0x0e, "16-23");
	assert_true(list.events[0].by_pmu && list.events[1].by_pmu && list.events[1].attr.exclude_kernel);
	event_list_release(&list);

	list = machine_parse(&m, "L2_RQSTS:MISS");
	assert_int_equal(list.nr, 1);
	expect_event(&list.events[0], "cpu_core", 4, 0x3f24, "0-15");
	event_list_release(&list);
	list = machine_parse(&m, "glm::INST_RETIRED:ANY_P");
	assert_int_equal(list.nr, 1);
	expect_event(&list.events[0], "cpu_atom", 10, 0xc0, "16-23");
	event_list_release(&list);
	machine_release(&m);
}

/* A raw event that libpfm has no PMU's type for is one on every core PMU, as rNNN is. */
static void test_raw(_unused_ void **state)
{
	struct event_list list;
	struct machine m;

	need_tables();
	played = skylake_sp;
	m = machine_new(machine_biglittle);
	list = machine_parse(&m, "L1D:REPLACEMENT");
	assert_int_equal(list.nr, 2);
	expect_event(&list.events[0], "armv8_cortex_a53", 8, 0x151, "0-3");
	expect_event(&list.events[1], "armv8_cortex_a72", 9, 0x151, "4-5");
	event_list_release(&list);
	machine_release(&m);

	m = machine_new((const struct tree_file[]){ { "software/type", "1\n" }, {} });
	list = machine_parse(&m, "L1D:REPLACEMENT");
	assert_int_equal(list.nr, 1);
	expect_event(&list.events[0], "raw", PERF_TYPE_RAW, 0x151, "");
	event_list_release(&list);
	machine_release(&m);
}

/* --- what is not there, and what is wrong */

static void expect_absent(const struct machine *m, const char *text, int absent, const char *sentence)
{
	struct event_list list = machine_parse(m, text);

	assert_int_equal(list.nr, 1);
	assert_int_equal(list.events[0].absent, absent);
	if (!strstr(list.events[0].why_absent, sentence))
		fail_msg("%s: '%s', not '%s'", text, list.events[0].why_absent, sentence);
	event_list_release(&list);
}

static void test_absent(_unused_ void **state)
{
	static const struct played_pmu odd[] = {
		{ .name = "skx", .type = 4711 },
		{ .name = "rapl", .error = PFM_ERR_NOTSUPP },
		{},
	};
	struct machine m;

	need_tables();
	played = skylake_sp;
	m = machine_new(machine_server);
	expect_absent(&m, "icl::NO_SUCH_EVENT:ANY", -ENODEV,
		      "this machine has no PMU that libpfm calls 'icl'; it has: rapl, skx, skx_unc_imc0");
	/* One that only a newer libpfm knows; and those which are no PMUs. */
	expect_absent(&m, "xyz_glc::INST_RETIRED:ANY_P", -ENODEV, "no PMU that libpfm calls 'xyz_glc'; it has: rapl,");
	expect_absent(&m, "INST_RETIRED::ANY_P", -ENODEV, "no PMU that libpfm calls 'INST_RETIRED'");
	expect_absent(&m, "perf::PERF_COUNT_HW_CPU_CYCLES", -ENODEV, "no PMU that libpfm calls 'perf'");
	/* As in the texts of a fleet with other CPUs. */
	expect_absent(&m, "RETIRED_OPS:ANY", -ENOENT, "; libpfm does not know it either, on its PMUs rapl, skx,");
	expect_absent(&m, "INST_RETIRE:ANY_P", -ENOENT, "; libpfm has 'INST_RETIRED'");
	expect_absent(&m, "skhed:sched_switch", -ENOENT, "sched_switch");
	/* The style of vendors: it may be another CPU's. */
	expect_absent(&m, "INST_RETIRE", -ENOENT,
		      "no event of that name is known for this CPU; libpfm has 'INST_RETIRED'");
	expect_absent(&m, "RETIRED_OPS:u", -ENOENT, "known for this CPU; libpfm does not know it either");
	expect_absent(&m, "L1D_X.REPLACEMENT:c=1", -ENOENT, "known for this CPU");
	expect_absent(&m, "LLC.REPLACEMENT", -ENOENT, "known for this CPU");
	expect_absent(&m, "LLC:REPLACEMENT", -ENOENT, "known for this CPU");

	played = odd;
	expect_absent(&m, "INST_RETIRED:ANY_P", -ENODEV, "on a PMU of type 4711, which can't be used here");
	expect_absent(&m, "RAPL_ENERGY_PKG", -ENODEV, "this kernel does not show the PMU that libpfm calls 'rapl'");

	/* A CPU that libpfm does not know. */
	played = (const struct played_pmu[]){ {} };
	expect_absent(&m, "INST_RETIRED:ANY_P", -ENOENT, "; libpfm knows no PMU of this machine");
	machine_release(&m);
}

static void expect_refused(const struct machine *m, const char *text, const char *sentence)
{
	struct event_list list = {};
	struct reason why = {};
	int r = event_parse(&list, &m->env, text, &why);

	if (r != -EINVAL || !strstr(why.text, sentence))
		fail_msg("%s: %d, '%s', not '%s'", text, r, why.text, sentence);
	assert_null(list.events);
}

static void test_refused(_unused_ void **state)
{
	static const char *const table[][2] = {
		{ "INST_RETIRED:ANY", "event 'INST_RETIRED:ANY': libpfm (PMU 'skx'): invalid event attribute; the "
				      "event has the unit masks ANY_P, ALL, " },
		{ "INST_RETIRED:ANY_P:x", "and the attributes e, i, c, t, intx, intxcp, u, k, precise, excl, mg, mh, "
					  "pinned" },
		{ "INST_RETIRED:ANY_P:uk", "invalid event attribute" },
		{ "L1D:REPLACED", "libpfm (PMU 'skx'): invalid event attribute; the event has the unit masks " },
		{ "cycles::u", "event 'cycles::u': unknown modifier ':'" },
		{ "cycles:ANY", "event 'cycles:ANY': unknown modifier 'A'" },
		{ "INST_RETIRED:ANY_P:h", "invalid event attribute" },
		{ "INST_RETIRED:ANY_P:", "invalid event attribute" },
		{ "INST_RETIRED:ANY_P:c=256", "invalid event attribute value" },
		{ "INST_RETIRED:ANY_P:c=many", "invalid event attribute value" },
		{ "INST_RETIRED:ANY_P:u=2", "invalid event attribute value" },
		{ "INST_RETIRED:ANY_P:precise=4", "invalid event attribute value" },
		{ "INST_RETIRED:ANY_P:c=1:c=2", "attribute value already set" },
		{ "MEM_LOAD_RETIRED", "invalid or missing unit mask; the event has the unit masks " },
		{ "INST_RETIRED:ANY_P:period=1000", "period, freq and cpu are for sampling" },
		{ "INST_RETIRED:ANY_P:freq=1000", "period, freq and cpu are for sampling" },
		{ "INST_RETIRED:ANY_P:cpu=1", "period, freq and cpu are for sampling" },
		{ "skx::INST_RETIRE:ANY_P", "libpfm's PMU 'skx' has no such event; libpfm has 'INST_RETIRED'" },
		{ "skx::", "libpfm's PMU 'skx' has no such event" },
		{ "skx_unc_imc0::UNC_M_CAS_COUNT:u", "invalid event attribute" },
		{ "inst.retire", "; libpfm does not know it either, on its PMUs rapl, skx, " },
		/* The kernel's own events have names here that say their unit. */
		{ "perf_count_sw_cpu_clock", "unknown event 'perf_count_sw_cpu_clock'" },
		/* No vendor's style. */
		{ "CYCLE", "did you mean 'cycles'" },
		{ "LLC:x", "unknown modifier 'x'" },
	};
	struct machine m;

	need_tables();
	played = skylake_sp;
	m = machine_new(machine_server);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		expect_refused(&m, table[i][0], table[i][1]);
	machine_release(&m);
}

/* libpfm keeps what it is given in an array of 64, and does not look. */
static void test_too_many(_unused_ void **state)
{
	char text[2048] = "INST_RETIRED", switches[2048] = "IDQ";
	struct event_list list;
	struct machine m;

	need_tables();
	played = skylake_sp;
	m = machine_new(machine_server);
	for (int i = 0; i < 200; i++)
		strcat(text, ":ANY_P");
	expect_refused(&m, text, "more than 32 unit masks and attributes");
	/* It stands for MS_UOPS:c=1:e. */
	for (int i = 0; i < 10; i++)
		strcat(switches, ":MS_SWITCHES");
	list = machine_parse(&m, switches);
	assert_int_equal(list.events[0].attr.config, 0x1043079);
	event_list_release(&list);
	strcat(switches, ":MS_SWITCHES");
	expect_refused(&m, switches, "more than 32 unit masks and attributes");
	machine_release(&m);
}

/* --- tracepoints, which look alike */

static void test_tracepoint_goes_first(_unused_ void **state)
{
	struct event_list list;
	struct machine m;

	need_tables();
	played = skylake_sp;
	m = machine_new(machine_server);
	list = machine_parse(&m, "sched:sched_switch");
	assert_int_equal(list.events[0].attr.type, PERF_TYPE_TRACEPOINT);
	event_list_release(&list);

	tree_text(m.tracefs, "events/INST_RETIRED/ANY_P/id", "7\n");
	list = machine_parse(&m, "INST_RETIRED:ANY_P");
	assert_int_equal(list.events[0].attr.type, PERF_TYPE_TRACEPOINT);
	assert_int_equal(list.events[0].attr.config, 7);
	event_list_release(&list);
	list = machine_parse(&m, "INST_RETIRED:ANY_P:u");
	assert_int_equal(list.events[0].attr.type, PERF_TYPE_TRACEPOINT);
	event_list_release(&list);
	list = machine_parse(&m, "skx::INST_RETIRED:ANY_P");
	assert_int_equal(list.events[0].attr.type, PERF_TYPE_RAW);
	event_list_release(&list);

	/* Without tracefs nobody can tell, and libpfm can. */
	m.env.tracefs = NULL;
	m.env.tracefs_problem = "tracefs is not mounted";
	list = machine_parse(&m, "INST_RETIRED:ANY_P");
	assert_int_equal(list.events[0].attr.type, PERF_TYPE_RAW);
	event_list_release(&list);
	machine_release(&m);
}

/* --- lists */

struct listed {
	const struct machine *machine;
	size_t nr;
	bool any_p, cas, energy;
};

static int on_listing(void *userdata, const struct event_listing *listing)
{
	struct listed *listed = userdata;
	struct event_list list;

	if (strcmp(listing->kind, "libpfm event"))
		return 0;
	listed->nr++;
	listed->any_p |= strcmp(listing->name, "INST_RETIRED:ANY_P") == 0 && strcmp(listing->pmu, "skx") == 0;
	if (strcmp(listing->name, "UNC_M_CAS_COUNT:RD") == 0) {
		assert_false(listed->cas); /* once for all controllers */
		assert_string_equal(listing->pmu, "skx_unc_imc0");
		assert_string_equal(listing->unit, "bytes");
		listed->cas = true;
	}
	listed->energy |= strcmp(listing->name, "RAPL_ENERGY_PKG") == 0 && strcmp(listing->unit, "joules") == 0;

	/* What is listed can be written. */
	list = machine_parse(listed->machine, listing->name);
	assert_int_equal(list.events[0].absent, 0);
	event_list_release(&list);
	return 0;
}

static void test_list(_unused_ void **state)
{
	struct listed listed = {};
	struct machine m;

	need_tables();
	played = skylake_sp;
	m = machine_new(machine_server);
	listed.machine = &m;
	assert_int_equal(event_walk(&m.env, on_listing, &listed), 0);
	assert_true(listed.nr > 300);
	assert_true(listed.any_p && listed.cas && listed.energy);
	machine_release(&m);

	/* A guest without a PMU has the CPU that libpfm knows, and nothing to count with. */
	listed = (struct listed){};
	m = machine_new((const struct tree_file[]){ { "software/type", "1\n" }, {} });
	assert_int_equal(event_walk(&m.env, on_listing, &listed), 0);
	assert_int_equal(listed.nr, 0);
	machine_release(&m);
}

static int stop_at_once(_unused_ void *userdata, _unused_ const char *name,
			_unused_ const struct pfm_encoding *encoding)
{
	return 42;
}

static void test_pmus(_unused_ void **state)
{
	need_tables();
	assert_true(pfm_is_built_in());
	played = zen4;
	assert_int_equal(pfm_walk(stop_at_once, NULL), 42);
	played = (const struct played_pmu[]){ {} };
	assert_int_equal(pfm_walk(stop_at_once, NULL), 0);
}

/* Whatever this one's CPU is: libpfm finds by name what it has listed. */
static int encode_again(void *userdata, const char *name, const struct pfm_encoding *encoding)
{
	struct pfm_encoding_list list = {};
	struct reason why = {};

	if (pfm_encode(&list, name, &why) < 0)
		fail_msg("%s: %s", name, why.text);
	assert_int_equal(list.items[0].attr.config, encoding->attr.config);
	pfm_encoding_list_release(&list);
	++*(size_t *)userdata;
	return 0;
}

static void test_this_machine(_unused_ void **state)
{
	size_t nr = 0;

	played = NULL;
	assert_int_equal(pfm_walk(encode_again, &nr), 0);
	if (!nr) {
		print_message("SKIPPED: libpfm knows no PMU of this machine\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intel),
		cmocka_unit_test(test_amd),
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_label),
		cmocka_unit_test(test_uncore),
		cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_raw),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_tracepoint_goes_first),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_pmus),
		cmocka_unit_test(test_this_machine),
	};

	/* Before libpfm looks. */
	if (setenv("LIBPFM_ENCODE_INACTIVE", "1", 1) < 0 || unsetenv("LIBPFM_FORCE_PMU") < 0)
		abort();
	return cmocka_run_group_tests_name("pfm", tests, NULL, NULL);
}
