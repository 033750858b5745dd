/* SPDX-License-Identifier: MIT */

/* Event texts on the machines of machines.h, and on this one. */

#include "base/util/file.h"
#include "base/util/text.h"
#include "counting/event/parse.h"
#include "setup/machines.h"
#include "setup/needs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HW PERF_TYPE_HARDWARE
#define SW PERF_TYPE_SOFTWARE
#define TP PERF_TYPE_TRACEPOINT
#define HC PERF_TYPE_HW_CACHE
#define RAW PERF_TYPE_RAW

/* Excluded: u k h G H; then D pinned, e exclusive, p for each step of precision. */
static const char *flags(const struct perf_event_attr *attr, char text[16])
{
	char *p = text;

	if (attr->exclude_user)
		*p++ = 'u';
	if (attr->exclude_kernel)
		*p++ = 'k';
	if (attr->exclude_hv)
		*p++ = 'h';
	if (attr->exclude_guest)
		*p++ = 'G';
	if (attr->exclude_host)
		*p++ = 'H';
	if (attr->pinned)
		*p++ = 'D';
	if (attr->exclusive)
		*p++ = 'e';
	for (unsigned i = 0; i < attr->precise_ip; i++)
		*p++ = 'p';
	*p = '\0';
	return text;
}

struct encoding {
	const char *text;
	uint32_t type;
	uint64_t config, config1, config2;
	const char *metric;
	const char *flags; /* NULL: none */
	const char *unit;  /* NULL: none */
	double scale;	   /* 0: 1 */
};

#define E(text_, type_, config_, config1_, config2_, metric_, ...)                                                     \
	{                                                                                                              \
		.text = text_, .type = type_, .config = config_, .config1 = config1_, .config2 = config2_,             \
		.metric = metric_, __VA_ARGS__                                                                         \
	}

static void check_event(const struct event *event, const struct encoding *want)
{
	/* Nothing else than what is compared here may be set. */
	struct perf_event_attr rest = event->attr;
	static const struct perf_event_attr nothing = {};
	char text[16];

	assert_int_equal(event->attr.type, want->type);
	assert_int_equal(event->attr.config, want->config);
	assert_int_equal(event->attr.config1, want->config1);
	assert_int_equal(event->attr.config2, want->config2);
	assert_int_equal(event->attr.size, sizeof(event->attr));
	assert_string_equal(flags(&event->attr, text), want->flags ? want->flags : "");
	assert_string_equal(event->metric, want->metric);
	assert_string_equal(event_unit_name(event->unit), want->unit ? want->unit : "");
	assert_true(fabs(event->scale / (want->scale > 0 ? want->scale : 1) - 1) < 1e-12);
	assert_int_equal(event->absent, 0);
	assert_null(event->why_absent);

	rest.type = rest.size = 0;
	rest.config = rest.config1 = rest.config2 = 0;
	rest.exclude_user = rest.exclude_kernel = rest.exclude_hv = rest.exclude_guest = rest.exclude_host = 0;
	rest.pinned = rest.exclusive = 0;
	rest.precise_ip = 0;
	assert_memory_equal(&rest, &nothing, sizeof(rest));
}

static void check_encodings(const struct tree_file *files, const struct encoding *table, size_t nr)
{
	struct machine m = machine_new(files);

	for (size_t i = 0; i < nr; i++) {
		struct event_list list = machine_parse(&m, table[i].text);
		const char *equals = strchr(table[i].text, '=');
		bool label = equals && strcspn(table[i].text, ":/") > (size_t)(equals - table[i].text);

		if (list.nr != 1)
			print_error("%s: %zu events\n", table[i].text, list.nr);
		assert_int_equal(list.nr, 1);
		assert_false(list.events[0].by_pmu);
		assert_string_equal(list.events[0].text, label ? equals + 1 : table[i].text);
		check_event(&list.events[0], &table[i]);
		event_list_release(&list);
	}
	machine_release(&m);
}

static void test_generic(_unused_ void **state)
{
	static const struct encoding table[] = {
		E("cycles", HW, 0, 0, 0, "cycles"),
		E("cpu-cycles", HW, 0, 0, 0, "cycles"),
		E("CYCLES", HW, 0, 0, 0, "cycles"),
		E("instructions", HW, 1, 0, 0, "instructions"),
		E("cache-references", HW, 2, 0, 0, "cache_references"),
		E("cache-misses", HW, 3, 0, 0, "cache_misses"),
		E("branch-instructions", HW, 4, 0, 0, "branch_instructions"),
		E("branches", HW, 4, 0, 0, "branch_instructions"),
		E("branch-misses", HW, 5, 0, 0, "branch_misses"),
		E("bus-cycles", HW, 6, 0, 0, "bus_cycles"),
		E("stalled-cycles-frontend", HW, 7, 0, 0, "stalled_cycles_frontend"),
		E("idle-cycles-frontend", HW, 7, 0, 0, "stalled_cycles_frontend"),
		E("stalled-cycles-backend", HW, 8, 0, 0, "stalled_cycles_backend"),
		E("idle-cycles-backend", HW, 8, 0, 0, "stalled_cycles_backend"),
		E("ref-cycles", HW, 9, 0, 0, "ref_cycles"),

		E("cpu-clock", SW, 0, 0, 0, "cpu_clock", .unit = "seconds", .scale = 1e-9),
		E("task-clock", SW, 1, 0, 0, "task_clock", .unit = "seconds", .scale = 1e-9),
		E("page-faults", SW, 2, 0, 0, "page_faults"),
		E("faults", SW, 2, 0, 0, "page_faults"),
		E("context-switches", SW, 3, 0, 0, "context_switches"),
		E("cs", SW, 3, 0, 0, "context_switches"),
		E("cpu-migrations", SW, 4, 0, 0, "cpu_migrations"),
		E("migrations", SW, 4, 0, 0, "cpu_migrations"),
		E("minor-faults", SW, 5, 0, 0, "minor_faults"),
		E("major-faults", SW, 6, 0, 0, "major_faults"),
		E("alignment-faults", SW, 7, 0, 0, "alignment_faults"),
		E("emulation-faults", SW, 8, 0, 0, "emulation_faults"),
		E("dummy", SW, 9, 0, 0, "dummy"),
		E("bpf-output", SW, 10, 0, 0, "bpf_output"),
		E("cgroup-switches", SW, 11, 0, 0, "cgroup_switches"),

		E("L1-dcache-loads", HC, 0, 0, 0, "l1_dcache_loads"),
		E("L1-dcache-load-misses", HC, 0x10000, 0, 0, "l1_dcache_load_misses"),
		E("l1d", HC, 0, 0, 0, "l1_dcache_loads"),
		E("LLC-misses", HC, 0x10002, 0, 0, "llc_load_misses"),
		E("LLC-misses-load", HC, 0x10002, 0, 0, "llc_load_misses"),
		E("L2-write", HC, 0x102, 0, 0, "llc_stores"),
		E("bpu-miss", HC, 0x10005, 0, 0, "branch_load_misses"),
		E("node", HC, 6, 0, 0, "node_loads"),
		E("d-tlb-speculative-read", HC, 0x203, 0, 0, "dtlb_prefetches"),
		E("iTLB-load-misses", HC, 0x10004, 0, 0, "itlb_load_misses"),

		E("r1", RAW, 1, 0, 0, "r1"),
		E("r01A8", RAW, 0x1a8, 0, 0, "r01a8"),
		E("r0x1a8", RAW, 0x1a8, 0, 0, "r0x1a8"),
		E("rffffffffffffffff", RAW, UINT64_MAX, 0, 0, "rffffffffffffffff"),
		E("r00000000000000001", RAW, 1, 0, 0, "r00000000000000001"),

		E("sched:sched_switch", TP, 372, 0, 0, "sched_sched_switch"),
		E("syscalls:sys_enter_getppid", TP, 21, 0, 0, "syscalls_sys_enter_getppid"),
		E("odd:u", TP, 7, 0, 0, "odd_u"),
		E("odd:u:k", TP, 7, 0, 0, "odd_u_kernel", .flags = "uh"),
	};

	check_encodings(machine_intel, table, ARRAY_SIZE(table));
}

/* The flags are what perf stat -vv prints for the same text. */
static void test_modifiers(_unused_ void **state)
{
	static const struct encoding table[] = {
		E("cycles:u", HW, 0, 0, 0, "cycles_user", .flags = "khG"),
		E("cycles:k", HW, 0, 0, 0, "cycles_kernel", .flags = "uh"),
		E("cycles:h", HW, 0, 0, 0, "cycles_hv", .flags = "uk"),
		E("cycles:uk", HW, 0, 0, 0, "cycles_user_kernel", .flags = "hG"),
		E("cycles:ku", HW, 0, 0, 0, "cycles_user_kernel", .flags = "hG"),
		E("cycles:kh", HW, 0, 0, 0, "cycles_kernel_hv", .flags = "u"),
		E("cycles:ukh", HW, 0, 0, 0, "cycles_user_kernel_hv", .flags = "G"),
		E("cycles:G", HW, 0, 0, 0, "cycles_guest", .flags = "H"),
		E("cycles:H", HW, 0, 0, 0, "cycles_host", .flags = "G"),
		E("cycles:GH", HW, 0, 0, 0, "cycles_guest_host", .flags = ""),
		E("cycles:uG", HW, 0, 0, 0, "cycles_user_guest", .flags = "khH"),
		E("cycles:Gu", HW, 0, 0, 0, "cycles_user_guest", .flags = "khH"),
		E("cycles:kH", HW, 0, 0, 0, "cycles_kernel_host", .flags = "uhG"),
		E("cycles:Gk", HW, 0, 0, 0, "cycles_kernel_guest", .flags = "uhH"),
		E("cycles:HukG", HW, 0, 0, 0, "cycles_user_kernel_guest_host", .flags = "h"),
		E("cycles:D", HW, 0, 0, 0, "cycles", .flags = "D"),
		E("cycles:e", HW, 0, 0, 0, "cycles", .flags = "e"),
		E("cycles:p", HW, 0, 0, 0, "cycles", .flags = "Gp"),
		E("cycles:ppp", HW, 0, 0, 0, "cycles", .flags = "Gppp"),
		E("cycles:ppG", HW, 0, 0, 0, "cycles_guest", .flags = "Hpp"),
		E("cycles:kpDe", HW, 0, 0, 0, "cycles_kernel", .flags = "uhGDep"),
		E("cs:u", SW, 3, 0, 0, "context_switches_user", .flags = "khG"),
		E("task-clock:D", SW, 1, 0, 0, "task_clock", .flags = "D", .unit = "seconds", .scale = 1e-9),
		E("LLC-loads:k", HC, 2, 0, 0, "llc_loads_kernel", .flags = "uh"),
		E("r1a8:u", RAW, 0x1a8, 0, 0, "r1a8_user", .flags = "khG"),
		E("sched:sched_switch:u", TP, 372, 0, 0, "sched_sched_switch_user", .flags = "khG"),
		E("mem-loads:u", 4, 0x1cd, 3, 0, "mem_loads_user", .flags = "khG"),
		E("cpu/mem-loads/u", 4, 0x1cd, 3, 0, "cpu_mem_loads_user", .flags = "khG"),
		E("cpu/mem-loads/:u", 4, 0x1cd, 3, 0, "cpu_mem_loads_user", .flags = "khG"),
		E("cpu/mem-loads/ppp", 4, 0x1cd, 3, 0, "cpu_mem_loads", .flags = "Gppp"),
		E("msr/tsc/:kD", 10, 0, 0, 0, "msr_tsc_kernel", .flags = "uhD"),
	};

	check_encodings(machine_intel, table, ARRAY_SIZE(table));
}

static void test_labels(_unused_ void **state)
{
	static const struct encoding table[] = {
		E("label=cycles", HW, 0, 0, 0, "label"),
		E("busy=cycles:u", HW, 0, 0, 0, "busy", .flags = "khG"),
		E("My-Label_2=cs", SW, 3, 0, 0, "my_label_2"),
		E("_x=cs", SW, 3, 0, 0, "_x"),
		E("_=cs", SW, 3, 0, 0, "event"),
		E("switch=sched:sched_switch", TP, 372, 0, 0, "switch"),
		E("reads=uncore_imc/data_reads/", 13, 1, 0, 0, "reads", .unit = "bytes", .scale = 64),
		E("a=cpu/event=0x3c/", 4, 0x3c, 0, 0, "a"),
		E("a=cpu/event=0x3c,name=b/", 4, 0x3c, 0, 0, "a"),
		E("cpu/event=0x3c,name=B.c/u", 4, 0x3c, 0, 0, "b_c", .flags = "khG"),
		E("cpu/name='x,y:z',event=0x3c/", 4, 0x3c, 0, 0, "x_y_z"),
		E("cpu/name=a,event=0x3c,name=7/", 4, 0x3c, 0, 0, "event_7"),
		E("cpu/name=-,event=0x3c/", 4, 0x3c, 0, 0, "event"),
	};

	check_encodings(machine_intel, table, ARRAY_SIZE(table));
}

static void test_intel(_unused_ void **state)
{
	static const struct encoding table[] = {
		E("cpu//", 4, 0, 0, 0, "cpu"),
		E("cpu/event=0x3c/", 4, 0x3c, 0, 0, "cpu_event_0x3c"),
		E("cpu/event=60,umask=1/", 4, 0x13c, 0, 0, "cpu_event_60_umask_1"),
		E("cpu/event=0xd,umask=0x3,cmask=1,inv,edge/", 4, 0x184030d, 0, 0,
		  "cpu_event_0xd_umask_0x3_cmask_1_inv_edge"),
		E("cpu/event=0xff,umask=0xff,cmask=0xff,inv=1,edge=1,pc=1,in_tx=1/", 4, 0x1ff8cffff, 0, 0,
		  "cpu_event_0xff_umask_0xff_cmask_0xff_inv_1_edge_1_pc_1_in_tx_1"),
		E("cpu/event=0xb7,umask=1,offcore_rsp=0xffffffffffffffff/", 4, 0x1b7, UINT64_MAX, 0,
		  "cpu_event_0xb7_umask_1_offcore_rsp_0xffffffffffffffff"),
		E("cpu/config=0x1ff,config1=2,config2=0xffffffffff/", 4, 0x1ff, 2, 0xffffffffffULL,
		  "cpu_config_0x1ff_config1_2_config2_0xffffffffff"),
		/* Words and fields add up, wherever they stand; of two of a kind the later one counts. */
		E("cpu/umask=1,config=0x3c/", 4, 0x13c, 0, 0, "cpu_umask_1_config_0x3c"),
		E("cpu/config=0x3c,umask=1/", 4, 0x13c, 0, 0, "cpu_config_0x3c_umask_1"),
		E("cpu/config=0x3c,config=0x10/", 4, 0x10, 0, 0, "cpu_config_0x3c_config_0x10"),
		E("msr/tsc,config=4/", 10, 4, 0, 0, "msr_tsc_config_4"),
		E("cpu/r1a8/", 4, 0x1a8, 0, 0, "cpu_r1a8"),
		E("cpu/r3c,inv/", 4, 0x80003c, 0, 0, "cpu_r3c_inv"),

		E("cpu/cpu-cycles/", 4, 0x3c, 0, 0, "cpu_cpu_cycles"),
		E("cpu/CPU-Cycles/", 4, 0x3c, 0, 0, "cpu_cpu_cycles"),
		E("cpu/mem-loads/", 4, 0x1cd, 3, 0, "cpu_mem_loads"),
		E("cpu/mem-loads,ldlat=30/", 4, 0x1cd, 30, 0, "cpu_mem_loads_ldlat_30"),
		E("cpu/ldlat=30,mem-loads/", 4, 0x1cd, 30, 0, "cpu_ldlat_30_mem_loads"),
		E("cpu/mem-loads,umask=0/", 4, 0xcd, 3, 0, "cpu_mem_loads_umask_0"),
		E("cpu/event=mem-stores/", 4, 0x82d0, 0, 0, "cpu_event_mem_stores"),
		E("cpu/event=1,event=0x10/", 4, 0x10, 0, 0, "cpu_event_1_event_0x10"),
		E("cpu/topdown-total-slots/", 4, 0x3c, 0, 0, "cpu_topdown_total_slots", .scale = 4),
		E("mem-loads", 4, 0x1cd, 3, 0, "mem_loads"),
		E("topdown-recovery-bubbles", 4, 0x100030d, 0, 0, "topdown_recovery_bubbles"),
		/* A generic event that sysfs does not list. */
		E("cpu/branches/", HW, 4, 0, 0, "cpu_branches"),
		E("cpu/LLC-load-misses/u", HC, 0x10002, 0, 0, "cpu_llc_load_misses_user", .flags = "khG"),

		E("msr/tsc/", 10, 0, 0, 0, "msr_tsc"),
		E("msr/tsc,event=1/", 10, 1, 0, 0, "msr_tsc_event_1"),
		E("msr/event=tsc/", 10, 0, 0, 0, "msr_event_tsc"),
		E("msr/smi/", 10, 4, 0, 0, "msr_smi"),
		E("smi", 10, 4, 0, 0, "smi"),
		E("msr/event=0xffffffffffffffff/", 10, UINT64_MAX, 0, 0, "msr_event_0xffffffffffffffff"),
		E("msr/cpu_thermal_margin/", 10, 7, 0, 0, "msr_cpu_thermal_margin", .unit = "celsius"),

		E("power/energy-pkg/", 20, 2, 0, 0, "power_energy_pkg", .unit = "joules", .scale = 0x1p-32),
		E("uncore_imc/data_reads/", 13, 1, 0, 0, "uncore_imc_data_reads", .unit = "bytes", .scale = 64),
		E("imc/data_reads/", 13, 1, 0, 0, "imc_data_reads", .unit = "bytes", .scale = 64),
		E("uncore_cbox_1/clockticks/", 12, 0xff, 0, 0, "uncore_cbox_1_clockticks"),
		E("uncore_cbox_0/event=0x22,umask=0x41,cmask=0x1f/", 11, 0x1f004122, 0, 0,
		  "uncore_cbox_0_event_0x22_umask_0x41_cmask_0x1f"),
		E("software/config=3/", SW, 3, 0, 0, "software_config_3"),
		E("uprobe/retprobe,ref_ctr_offset=0x10/", 7, 0x1000000001, 0, 0, "uprobe_retprobe_ref_ctr_offset_0x10"),
	};

	check_encodings(machine_intel, table, ARRAY_SIZE(table));
}

static void test_other_machines(_unused_ void **state)
{
	static const struct encoding zen[] = {
		E("cycles", HW, 0, 0, 0, "cycles"),
		/* The event number's upper four bits stand in bits 32 to 35. */
		E("cpu/event=0x1c7,umask=2/", 4, 0x1000002c7, 0, 0, "cpu_event_0x1c7_umask_2"),
		E("cpu/event=0xfff/", 4, 0xf000000ff, 0, 0, "cpu_event_0xfff"),
		E("cpu/cache-references/", 4, 0xff60, 0, 0, "cpu_cache_references"),
		E("amd_df/event=0x3fff,umask=0xfff/", 11, 0x3f0f00ffff, 0, 0, "amd_df_event_0x3fff_umask_0xfff"),
		E("amd_l3/event=0x04,umask=0xff,enallslices,enallcores,sliceid=3,threadmask=3/", 12, 0x303c0000000ff04,
		  0, 0, "amd_l3_event_0x04_umask_0xff_enallslices_enallcores_sliceid_3_threadmask_3"),
	};
	static const struct encoding arm[] = {
		E("cycles", HW, 0, 0, 0, "cycles"),
		E("L1-dcache-loads:u", HC, 0, 0, 0, "l1_dcache_loads_user", .flags = "khG"),
		E("r11", RAW, 0x11, 0, 0, "r11"),
		E("cpu_cycles", 8, 0x11, 0, 0, "cpu_cycles"),
		E("armv8_pmuv3_0/inst_retired,long/", 8, 8, 1, 0, "armv8_pmuv3_0_inst_retired_long"),
		E("arm_dsu/bus_access/", 9, 0x19, 0, 0, "arm_dsu_bus_access"),
		E("smmuv3_pmcg_2b442/cycles/", 11, 0, 0, 0, "smmuv3_pmcg_2b442_cycles"),
	};
	static const struct encoding power[] = {
		E("hv_24x7/PM_PB_CYC,chip=3/", 9, 0x8000030001, 0, 0, "hv_24x7_pm_pb_cyc_chip_3"),
		E("hv_24x7/chip=0x10,PM_PB_CYC/", 9, 0x8000100001, 0, 0, "hv_24x7_chip_0x10_pm_pb_cyc"),
		E("hv_24x7/HPM_INST__PHYS_CORE,core=5,lpar=7/", 9, 0x2000050002, 7, 0,
		  "hv_24x7_hpm_inst__phys_core_core_5_lpar_7"),
	};

	check_encodings(machine_zen, zen, ARRAY_SIZE(zen));
	check_encodings(machine_arm, arm, ARRAY_SIZE(arm));
	check_encodings(machine_power, power, ARRAY_SIZE(power));
}

/* --- texts that stand for several events */

struct instance {
	const char *pmu;
	uint32_t type;
	uint64_t config;
	const char *cpus;
};

static void check_instances(const struct machine *m, const char *text, const char *metric, bool uncore,
			    const struct instance *want, size_t nr)
{
	struct event_list list = machine_parse(m, text);

	assert_int_equal(list.nr, nr);
	for (size_t i = 0; i < nr; i++) {
		char *cpus = cpulist_format(&list.events[i].cpus);

		assert_string_equal(list.events[i].pmu, want[i].pmu);
		assert_int_equal(list.events[i].attr.type, want[i].type);
		assert_int_equal(list.events[i].attr.config, want[i].config);
		assert_string_equal(cpus, want[i].cpus);
		assert_string_equal(list.events[i].metric, metric);
		assert_string_equal(list.events[i].text, text);
		assert_int_equal(list.events[i].uncore, uncore);
		assert_int_equal(list.events[i].by_pmu, nr > 1);
		assert_false(list.events[i].software);
		free(cpus);
	}
	event_list_release(&list);
}

#define CHECK_INSTANCES(m, text, metric, uncore, ...)                                                                  \
	do {                                                                                                           \
		static const struct instance _want[] = { __VA_ARGS__ };                                                \
		check_instances(m, text, metric, uncore, _want, ARRAY_SIZE(_want));                                    \
	} while (0)

static void test_hybrid(_unused_ void **state)
{
	struct machine m = machine_new(machine_hybrid);

	CHECK_INSTANCES(&m, "cycles", "cycles", false, { "cpu_atom", HW, 0xa00000000, "16-23" },
			{ "cpu_core", HW, 0x400000000, "0-15" });
	CHECK_INSTANCES(&m, "branches:u", "branch_instructions_user", false, { "cpu_atom", HW, 0xa00000004, "16-23" },
			{ "cpu_core", HW, 0x400000004, "0-15" });
	CHECK_INSTANCES(&m, "LLC-load-misses", "llc_load_misses", false, { "cpu_atom", HC, 0xa00010002, "16-23" },
			{ "cpu_core", HC, 0x400010002, "0-15" });
	CHECK_INSTANCES(&m, "r1a8", "r1a8", false, { "cpu_atom", 10, 0x1a8, "16-23" },
			{ "cpu_core", 4, 0x1a8, "0-15" });
	CHECK_INSTANCES(&m, "topdown-retiring", "topdown_retiring", false, { "cpu_atom", 10, 0xc2, "16-23" },
			{ "cpu_core", 4, 0x8000, "0-15" });
	/* What only one of them has is one event. */
	CHECK_INSTANCES(&m, "slots", "slots", false, { "cpu_core", 4, 0x400, "0-15" });
	CHECK_INSTANCES(&m, "cpu_atom/mem-loads/", "cpu_atom_mem_loads", false, { "cpu_atom", 10, 0x5d0, "16-23" });
	CHECK_INSTANCES(&m, "cpu_core/cycles/", "cpu_core_cycles", false, { "cpu_core", HW, 0x400000000, "0-15" });
	CHECK_INSTANCES(&m, "power/energy-pkg/", "power_energy_pkg", true, { "power", 20, 2, "0" });
	machine_release(&m);
}

static void test_biglittle(_unused_ void **state)
{
	struct machine m = machine_new(machine_biglittle);

	CHECK_INSTANCES(&m, "cycles", "cycles", false, { "armv8_cortex_a53", HW, 0x800000000, "0-3" },
			{ "armv8_cortex_a72", HW, 0x900000000, "4-5" });
	CHECK_INSTANCES(&m, "r11", "r11", false, { "armv8_cortex_a53", 8, 0x11, "0-3" },
			{ "armv8_cortex_a72", 9, 0x11, "4-5" });
	CHECK_INSTANCES(&m, "armv8_cortex_a72/cpu_cycles/", "armv8_cortex_a72_cpu_cycles", false,
			{ "armv8_cortex_a72", 9, 0x11, "4-5" });
	machine_release(&m);
}

static void test_one_core_pmu(_unused_ void **state)
{
	struct machine m = machine_new(machine_arm);

	CHECK_INSTANCES(&m, "cycles", "cycles", false, { "armv8_pmuv3_0", HW, 0, "0-3" });
	CHECK_INSTANCES(&m, "r8", "r8", false, { "armv8_pmuv3_0", RAW, 8, "0-3" });
	CHECK_INSTANCES(&m, "arm_dsu/bus_access/", "arm_dsu_bus_access", true, { "arm_dsu_0", 9, 0x19, "0" });
	CHECK_INSTANCES(&m, "smmuv3_pmcg/cycles/", "smmuv3_pmcg_cycles", true, { "smmuv3_pmcg_2b442", 11, 0, "0" },
			{ "smmuv3_pmcg_2b462", 12, 0, "0" });
	machine_release(&m);

	m = machine_new(machine_intel);
	CHECK_INSTANCES(&m, "cycles", "cycles", false, { "cpu", HW, 0, "" });
	CHECK_INSTANCES(&m, "r8", "r8", false, { "cpu", RAW, 8, "" });
	CHECK_INSTANCES(&m, "uncore_cbox/clockticks/", "uncore_cbox_clockticks", true,
			{ "uncore_cbox_0", 11, 0xff, "0" }, { "uncore_cbox_1", 12, 0xff, "0" });
	CHECK_INSTANCES(&m, "cbox/event=0x22/", "cbox_event_0x22", true, { "uncore_cbox_0", 11, 0x22, "0" },
			{ "uncore_cbox_1", 12, 0x22, "0" });
	CHECK_INSTANCES(&m, "clockticks", "clockticks", true, { "uncore_cbox_0", 11, 0xff, "0" },
			{ "uncore_cbox_1", 12, 0xff, "0" });
	machine_release(&m);

	/* No PMU at all: the kernel is asked all the same. */
	m = machine_new(NULL);
	CHECK_INSTANCES(&m, "cycles", "cycles", false, { "cpu", HW, 0, "" });
	CHECK_INSTANCES(&m, "r8", "r8", false, { "raw", RAW, 8, "" });
	machine_release(&m);
}

static void test_instances_that_differ(_unused_ void **state)
{
	static const struct tree_file files[] = {
		{ "uncore_x_0/type", "30" },
		{ "uncore_x_0/cpumask", "0" },
		{ "uncore_x_0/format/event", "config:0-7" },
		{ "uncore_x_0/events/a", "event=1" },
		{ "uncore_x_1/type", "31" },
		{ "uncore_x_1/cpumask", "0" },
		{ "uncore_x_1/format/event", "config:0-7" },
		{},
	};
	struct machine m = machine_new(files);

	CHECK_INSTANCES(&m, "uncore_x/a/", "uncore_x_a", true, { "uncore_x_0", 30, 1, "0" });
	CHECK_INSTANCES(&m, "uncore_x/event=2/", "uncore_x_event_2", true, { "uncore_x_0", 30, 2, "0" },
			{ "uncore_x_1", 31, 2, "0" });
	machine_release(&m);
}

static void test_software_context(_unused_ void **state)
{
	static const struct {
		const char *text, *pmu;
		bool software;
	} table[] = {
		{ "cs", "software", true },
		{ "sched:sched_switch", "tracepoint", true },
		{ "software/config=3/", "software", true },
		{ "uprobe/retprobe/", "uprobe", true },
		{ "kprobe/retprobe/", "kprobe", true },
		{ "msr/tsc/", "msr", true },
		{ "cycles", "cpu", false },
		{ "cpu/event=1/", "cpu", false },
		{ "power/energy-pkg/", "power", false },
		{ "r1", "cpu", false },
	};
	struct machine m = machine_new(machine_intel);

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct event_list list = machine_parse(&m, table[i].text);

		assert_int_equal(list.events[0].software, table[i].software);
		assert_string_equal(list.events[0].pmu, table[i].pmu);
		event_list_release(&list);
	}
	machine_release(&m);
}

static void test_config3(_unused_ void **state)
{
	struct machine m = machine_new(machine_arm);
	struct event_list list =
		machine_parse(&m, "arm_spe_0/ts_enable,inv_event_filter=0x1234567890abcdef,min_latency=5/");
	struct event *event = &list.events[0];
	union event_attr attr;
	uint64_t word;

	assert_int_equal(event->config3, 0x1234567890abcdef);
	event_attr(&attr, event);
	assert_int_equal(attr.attr.size, sizeof(attr));
	assert_true(sizeof(attr) >= 136);
	memcpy(&word, (const char *)&attr + 128, sizeof(word));
	assert_int_equal(word, 0x1234567890abcdef);
	assert_int_equal(attr.attr.config, 1);
	assert_int_equal(attr.attr.config2, 5);
	event_list_release(&list);

	list = machine_parse(&m, "cycles:u");
	event_attr(&attr, &list.events[0]);
	assert_int_equal(attr.attr.size, sizeof(attr.attr));
	assert_memory_equal(&attr.attr, &list.events[0].attr, sizeof(attr.attr));
	event_list_release(&list);
	machine_release(&m);
}

/* --- this machine */

static void test_here(_unused_ void **state)
{
	static const char dir[] = "/sys/bus/event_source/devices";
	_cleanup_(pmu_catalogue_freep) struct pmu_catalogue *pmus = NULL;
	struct reason why;

	needs("event-sources");
	if (pmu_catalogue_load(&pmus, dir, &why) < 0)
		fail_msg("%s", why.text);
	for (size_t i = 0; i < pmus->nr_problems; i++)
		print_message("%s\n", pmus->problems[i]);
	assert_non_null(pmu_find(pmus, "software"));
	assert_ptr_equal(pmu_find(pmus, "software"), pmu_find_type(pmus, PERF_TYPE_SOFTWARE));
}

static void test_msr_here(_unused_ void **state)
{
	_cleanup_(pmu_catalogue_freep) struct pmu_catalogue *pmus = NULL;
	_cleanup_(freep) char *type = NULL;
	struct event_env env = {};
	struct event_list list = {};
	struct reason why;
	uint64_t number;

	needs("msr");
	if (pmu_catalogue_load(&pmus, "/sys/bus/event_source/devices", &why) < 0)
		fail_msg("%s", why.text);
	env.pmus = pmus;
	assert_int_equal(event_parse(&list, &env, "msr/tsc/", &why), 0);
	assert_int_equal(read_text_file(AT_FDCWD, "/sys/bus/event_source/devices/msr/type", 64, &type), 0);
	assert_int_equal(parse_u64(type, &number), 0);
	assert_int_equal(list.events[0].attr.type, number);
	assert_int_equal(list.events[0].attr.config, 0);
	assert_string_equal(list.events[0].metric, "msr_tsc");
	assert_true(list.events[0].software);
	assert_int_equal(list.events[0].absent, 0);
	event_list_release(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generic),
		cmocka_unit_test(test_modifiers),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_intel),
		cmocka_unit_test(test_other_machines),
		cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_biglittle),
		cmocka_unit_test(test_one_core_pmu),
		cmocka_unit_test(test_instances_that_differ),
		cmocka_unit_test(test_software_context),
		cmocka_unit_test(test_config3),
		cmocka_unit_test(test_here),
		cmocka_unit_test(test_msr_here),
	};

	return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
