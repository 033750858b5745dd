/* SPDX-License-Identifier: MIT */

#include "setup/machines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PMUs that every kernel has. */
#define SOFTWARE_PMUS                                                                                                  \
	{ "software/type", "1\n" }, { "tracepoint/type", "2\n" }, { "breakpoint/type", "5\n" },                        \
		{ "kprobe/type", "6\n" }, { "kprobe/format/retprobe", "config:0\n" }, { "uprobe/type", "7\n" },        \
		{ "uprobe/format/retprobe", "config:0\n" },                                                            \
	{                                                                                                              \
		"uprobe/format/ref_ctr_offset", "config:32-63\n"                                                       \
	}

#define RAPL                                                                                                           \
	{ "power/type", "20\n" }, { "power/cpumask", "0\n" }, { "power/format/event", "config:0-7\n" },                \
		{ "power/events/energy-cores", "event=0x01\n" },                                                       \
		{ "power/events/energy-cores.scale", "2.3283064365386962890625e-10\n" },                               \
		{ "power/events/energy-cores.unit", "Joules\n" }, { "power/events/energy-pkg", "event=0x02\n" },       \
		{ "power/events/energy-pkg.scale", "2.3283064365386962890625e-10\n" },                                 \
	{                                                                                                              \
		"power/events/energy-pkg.unit", "Joules\n"                                                             \
	}

#define INTEL_FORMATS(pmu)                                                                                             \
	{ pmu "/format/event", "config:0-7\n" }, { pmu "/format/umask", "config:8-15\n" },                             \
		{ pmu "/format/edge", "config:18\n" }, { pmu "/format/pc", "config:19\n" },                            \
		{ pmu "/format/inv", "config:23\n" }, { pmu "/format/cmask", "config:24-31\n" },                       \
		{ pmu "/format/offcore_rsp", "config1:0-63\n" },                                                       \
	{                                                                                                              \
		pmu "/format/ldlat", "config1:0-15\n"                                                                  \
	}

#define INTEL_CAPS(pmu, model)                                                                                         \
	{ pmu "/caps/branches", "32\n" }, { pmu "/caps/max_precise", "3\n" },                                          \
	{                                                                                                              \
		pmu "/caps/pmu_name", model "\n"                                                                       \
	}

#define CBOX(n, type_text)                                                                                             \
	{ "uncore_cbox_" n "/type", type_text "\n" }, { "uncore_cbox_" n "/cpumask", "0\n" },                          \
		{ "uncore_cbox_" n "/format/event", "config:0-7\n" },                                                  \
		{ "uncore_cbox_" n "/format/umask", "config:8-15\n" },                                                 \
		{ "uncore_cbox_" n "/format/edge", "config:18\n" }, { "uncore_cbox_" n "/format/inv", "config:23\n" }, \
		{ "uncore_cbox_" n "/format/cmask", "config:24-28\n" },                                                \
	{                                                                                                              \
		"uncore_cbox_" n "/events/clockticks", "event=0xff\n"                                                  \
	}

const struct tree_file machine_intel[] = {
	SOFTWARE_PMUS,
	RAPL,
	{ "cpu/type", "4\n" },
	INTEL_FORMATS("cpu"),
	{ "cpu/format/in_tx", "config:32\n" },
	{ "cpu/format/frontend", "config1:0-23\n" },
	{ "cpu/events/cpu-cycles", "event=0x3c\n" },
	{ "cpu/events/instructions", "event=0xc0\n" },
	{ "cpu/events/ref-cycles", "event=0x00,umask=0x03\n" },
	{ "cpu/events/cache-misses", "event=0x2e,umask=0x41\n" },
	{ "cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n" },
	{ "cpu/events/mem-stores", "event=0xd0,umask=0x82\n" },
	{ "cpu/events/topdown-total-slots", "event=0x3c,umask=0x0\n" },
	{ "cpu/events/topdown-total-slots.scale", "4\n" },
	{ "cpu/events/topdown-recovery-bubbles", "event=0xd,umask=0x3,cmask=1\n" },
	INTEL_CAPS("cpu", "skylake"),
	{ "cpu/rdpmc", "1\n" },
	{ "msr/type", "10\n" },
	{ "msr/format/event", "config:0-63\n" },
	{ "msr/events/tsc", "event=0x00\n" },
	{ "msr/events/smi", "event=0x04\n" },
	{ "msr/events/cpu_thermal_margin", "event=0x07\n" },
	{ "msr/events/cpu_thermal_margin.snapshot", "1\n" },
	{ "msr/events/cpu_thermal_margin.unit", "C\n" },
	CBOX("0", "11"),
	CBOX("1", "12"),
	{ "uncore_imc/type", "13\n" },
	{ "uncore_imc/cpumask", "0\n" },
	{ "uncore_imc/format/event", "config:0-7\n" },
	{ "uncore_imc/events/data_reads", "event=0x01\n" },
	{ "uncore_imc/events/data_reads.scale", "6.103515625e-5\n" },
	{ "uncore_imc/events/data_reads.unit", "MiB\n" },
	{ "cstate_core/type", "14\n" },
	{ "cstate_core/cpumask", "0-3\n" },
	{ "cstate_core/format/event", "config:0-63\n" },
	{ "cstate_core/events/c6-residency", "event=0x02\n" },
	{ "intel_pt/type", "8\n" },
	{ "intel_pt/format/tsc", "config:10\n" },
	{ "i915/type", "15\n" },
	{ "i915/cpumask", "\n" },
	{ "i915/format/i915_eventid", "config:0-20\n" },
	{ "i915/events/rc6-residency", "config=0x100003\n" },
	{ "i915/events/rc6-residency.unit", "ns\n" },
	{},
};

#define ADL_IMC(n, type_text, free_type_text)                                                                          \
	{ "uncore_imc_" n "/type", type_text "\n" }, { "uncore_imc_" n "/cpumask", "0\n" },                            \
		{ "uncore_imc_" n "/format/event", "config:0-7\n" },                                                   \
		{ "uncore_imc_" n "/format/chmask", "config:8-11\n" },                                                 \
		{ "uncore_imc_" n "/format/edge", "config:18\n" },                                                     \
		{ "uncore_imc_free_running_" n "/type", free_type_text "\n" },                                         \
		{ "uncore_imc_free_running_" n "/cpumask", "0\n" },                                                    \
		{ "uncore_imc_free_running_" n "/format/event", "config:0-7\n" },                                      \
		{ "uncore_imc_free_running_" n "/format/umask", "config:8-15\n" },                                     \
		{ "uncore_imc_free_running_" n "/events/data_read", "event=0xff,umask=0x20\n" },                       \
		{ "uncore_imc_free_running_" n "/events/data_read.scale", "6.103515625e-5\n" },                        \
		{ "uncore_imc_free_running_" n "/events/data_read.unit", "MiB\n" },                                    \
		{ "uncore_imc_free_running_" n "/events/data_write", "event=0xff,umask=0x30\n" },                      \
		{ "uncore_imc_free_running_" n "/events/data_write.scale", "6.103515625e-5\n" },                       \
	{                                                                                                              \
		"uncore_imc_free_running_" n "/events/data_write.unit", "MiB\n"                                        \
	}

const struct tree_file machine_hybrid[] = {
	SOFTWARE_PMUS,
	RAPL,
	{ "cpu_core/type", "4\n" },
	{ "cpu_core/cpus", "0-15\n" },
	INTEL_FORMATS("cpu_core"),
	{ "cpu_core/format/frontend", "config1:0-23\n" },
	INTEL_CAPS("cpu_core", "alderlake_hybrid"),
	{ "cpu_core/events/cpu-cycles", "event=0x3c\n" },
	{ "cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n" },
	{ "cpu_core/events/slots", "event=0x00,umask=0x4\n" },
	{ "cpu_core/events/topdown-retiring", "event=0x00,umask=0x80\n" },
	{ "cpu_atom/type", "10\n" },
	{ "cpu_atom/cpus", "16-23\n" },
	INTEL_FORMATS("cpu_atom"),
	INTEL_CAPS("cpu_atom", "alderlake_hybrid"),
	{ "cpu_atom/events/cpu-cycles", "event=0x3c\n" },
	{ "cpu_atom/events/mem-loads", "event=0xd0,umask=0x5,ldlat=3\n" },
	{ "cpu_atom/events/topdown-retiring", "event=0xc2,umask=0x0\n" },
	ADL_IMC("0", "21", "23"),
	ADL_IMC("1", "22", "24"),
	{},
};

/* Memory channels, of six on each socket. */
#define SKX_IMC(n, type_text)                                                                                          \
	{ "uncore_imc_" n "/type", type_text "\n" }, { "uncore_imc_" n "/cpumask", "0,16\n" },                         \
		{ "uncore_imc_" n "/format/event", "config:0-7\n" },                                                   \
		{ "uncore_imc_" n "/format/umask", "config:8-15\n" },                                                  \
		{ "uncore_imc_" n "/format/edge", "config:18\n" }, { "uncore_imc_" n "/format/inv", "config:23\n" },   \
		{ "uncore_imc_" n "/format/thresh", "config:24-31\n" },                                                \
		{ "uncore_imc_" n "/events/clockticks", "event=0x00,umask=0x00\n" },                                   \
		{ "uncore_imc_" n "/events/cas_count_read", "event=0x04,umask=0x03\n" },                               \
		{ "uncore_imc_" n "/events/cas_count_read.scale", "6.103515625e-5\n" },                                \
		{ "uncore_imc_" n "/events/cas_count_read.unit", "MiB\n" },                                            \
		{ "uncore_imc_" n "/events/cas_count_write", "event=0x04,umask=0x0c\n" },                              \
		{ "uncore_imc_" n "/events/cas_count_write.scale", "6.103515625e-5\n" },                               \
	{                                                                                                              \
		"uncore_imc_" n "/events/cas_count_write.unit", "MiB\n"                                                \
	}

/* Slices of the last cache, of 28. */
#define SKX_CHA(n, type_text)                                                                                          \
	{ "uncore_cha_" n "/type", type_text "\n" }, { "uncore_cha_" n "/cpumask", "0,16\n" },                         \
		{ "uncore_cha_" n "/format/event", "config:0-7\n" },                                                   \
		{ "uncore_cha_" n "/format/umask", "config:8-15\n" },                                                  \
		{ "uncore_cha_" n "/format/edge", "config:18\n" },                                                     \
		{ "uncore_cha_" n "/format/tid_en", "config:19\n" }, { "uncore_cha_" n "/format/inv", "config:23\n" }, \
		{ "uncore_cha_" n "/format/thresh", "config:24-31\n" },                                                \
		{ "uncore_cha_" n "/format/filter_tid", "config1:0-8\n" },                                             \
		{ "uncore_cha_" n "/format/filter_state", "config1:17-26\n" },                                         \
		{ "uncore_cha_" n "/format/filter_rem", "config1:32\n" },                                              \
		{ "uncore_cha_" n "/format/filter_loc", "config1:33\n" },                                              \
		{ "uncore_cha_" n "/format/filter_nm", "config1:36\n" },                                               \
		{ "uncore_cha_" n "/format/filter_not_nm", "config1:37\n" },                                           \
		{ "uncore_cha_" n "/format/filter_opc0", "config1:41-50\n" },                                          \
		{ "uncore_cha_" n "/format/filter_opc1", "config1:51-60\n" },                                          \
		{ "uncore_cha_" n "/format/filter_nc", "config1:62\n" },                                               \
	{                                                                                                              \
		"uncore_cha_" n "/format/filter_isoc", "config1:63\n"                                                  \
	}

#define SKX_UPI(n, type_text)                                                                                          \
	{ "uncore_upi_" n "/type", type_text "\n" }, { "uncore_upi_" n "/cpumask", "0,16\n" },                         \
		{ "uncore_upi_" n "/format/event", "config:0-7\n" },                                                   \
		{ "uncore_upi_" n "/format/umask", "config:8-15,32-43,45-55\n" },                                      \
		{ "uncore_upi_" n "/format/edge", "config:18\n" }, { "uncore_upi_" n "/format/inv", "config:23\n" },   \
	{                                                                                                              \
		"uncore_upi_" n "/format/thresh", "config:24-31\n"                                                     \
	}

#define SKX_IIO(n, type_text)                                                                                          \
	{ "uncore_iio_" n "/type", type_text "\n" }, { "uncore_iio_" n "/cpumask", "0,16\n" },                         \
		{ "uncore_iio_" n "/format/event", "config:0-7\n" },                                                   \
		{ "uncore_iio_" n "/format/umask", "config:8-15\n" },                                                  \
		{ "uncore_iio_" n "/format/edge", "config:18\n" }, { "uncore_iio_" n "/format/inv", "config:23\n" },   \
		{ "uncore_iio_" n "/format/thresh", "config:24-35\n" },                                                \
		{ "uncore_iio_" n "/format/ch_mask", "config:36-43\n" },                                               \
	{                                                                                                              \
		"uncore_iio_" n "/format/fc_mask", "config:44-46\n"                                                    \
	}

const struct tree_file machine_server[] = {
	SOFTWARE_PMUS,
	{ "power/type", "28\n" },
	{ "power/cpumask", "0,16\n" },
	{ "power/format/event", "config:0-7\n" },
	{ "power/events/energy-pkg", "event=0x02\n" },
	{ "power/events/energy-pkg.scale", "2.3283064365386962890625e-10\n" },
	{ "power/events/energy-pkg.unit", "Joules\n" },
	{ "power/events/energy-ram", "event=0x03\n" },
	{ "power/events/energy-ram.scale", "1.52587890625e-05\n" },
	{ "power/events/energy-ram.unit", "Joules\n" },
	{ "cpu/type", "4\n" },
	INTEL_FORMATS("cpu"),
	{ "cpu/format/any", "config:21\n" },
	{ "cpu/format/in_tx", "config:32\n" },
	{ "cpu/format/in_tx_cp", "config:33\n" },
	{ "cpu/format/frontend", "config1:0-23\n" },
	INTEL_CAPS("cpu", "skylake"),
	{ "cpu/events/branch-instructions", "event=0xc4\n" },
	{ "cpu/events/branch-misses", "event=0xc5\n" },
	{ "cpu/events/bus-cycles", "event=0x3c,umask=0x01\n" },
	{ "cpu/events/cache-misses", "event=0x2e,umask=0x41\n" },
	{ "cpu/events/cache-references", "event=0x2e,umask=0x4f\n" },
	{ "cpu/events/cpu-cycles", "event=0x3c\n" },
	{ "cpu/events/cycles-ct", "event=0x3c,in_tx=1,in_tx_cp=1\n" },
	{ "cpu/events/cycles-t", "event=0x3c,in_tx=1\n" },
	{ "cpu/events/el-abort", "event=0xc8,umask=0x4\n" },
	{ "cpu/events/instructions", "event=0xc0\n" },
	{ "cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n" },
	{ "cpu/events/mem-stores", "event=0xd0,umask=0x82\n" },
	{ "cpu/events/ref-cycles", "event=0x00,umask=0x03\n" },
	{ "cpu/events/topdown-fetch-bubbles", "event=0x9c,umask=0x1\n" },
	{ "cpu/events/topdown-recovery-bubbles.scale", "2\n" },
	{ "cpu/events/topdown-recovery-bubbles", "event=0xd,umask=0x1,any=1\n" },
	{ "cpu/events/topdown-total-slots", "event=0x3c,umask=0x0,any=1\n" },
	{ "cpu/events/topdown-total-slots.scale", "2\n" },
	{ "msr/type", "29\n" },
	{ "msr/format/event", "config:0-63\n" },
	{ "msr/events/aperf", "event=0x01\n" },
	{ "msr/events/mperf", "event=0x02\n" },
	{ "msr/events/pperf", "event=0x03\n" },
	{ "msr/events/smi", "event=0x04\n" },
	{ "msr/events/tsc", "event=0x00\n" },
	{ "cstate_pkg/type", "30\n" },
	{ "cstate_pkg/cpumask", "0,16\n" },
	{ "cstate_pkg/format/event", "config:0-63\n" },
	{ "cstate_pkg/events/c2-residency", "event=0x00\n" },
	{ "cstate_pkg/events/c6-residency", "event=0x02\n" },
	SKX_IMC("0", "11"),
	SKX_IMC("1", "12"),
	SKX_IMC("5", "13"),
	SKX_CHA("0", "14"),
	SKX_CHA("1", "15"),
	SKX_CHA("10", "16"),
	SKX_UPI("0", "17"),
	SKX_UPI("1", "18"),
	SKX_IIO("0", "19"),
	{ "uncore_ubox/type", "20\n" },
	{ "uncore_ubox/cpumask", "0,16\n" },
	{ "uncore_ubox/format/event", "config:0-7\n" },
	{ "uncore_ubox/format/umask", "config:8-15\n" },
	{ "uncore_ubox/events/clockticks", "event=0xff\n" },
	{},
};

const struct tree_file machine_zen[] = {
	SOFTWARE_PMUS,
	RAPL,
	{ "cpu/type", "4\n" },
	{ "cpu/format/event", "config:0-7,32-35\n" },
	{ "cpu/format/umask", "config:8-15\n" },
	{ "cpu/format/edge", "config:18\n" },
	{ "cpu/format/inv", "config:23\n" },
	{ "cpu/format/cmask", "config:24-31\n" },
	{ "cpu/events/cpu-cycles", "event=0x76\n" },
	{ "cpu/events/cache-references", "event=0x60,umask=0xff\n" },
	{ "cpu/caps/branches", "16\n" },
	{ "cpu/caps/max_precise", "0\n" },
	{ "amd_df/type", "11\n" },
	{ "amd_df/cpumask", "0\n" },
	{ "amd_df/format/event", "config:0-7,32-37\n" },
	{ "amd_df/format/umask", "config:8-15,24-27\n" },
	{ "amd_l3/type", "12\n" },
	{ "amd_l3/cpumask", "0,8\n" },
	{ "amd_l3/format/event", "config:0-7\n" },
	{ "amd_l3/format/umask", "config:8-15\n" },
	{ "amd_l3/format/coreid", "config:42-44\n" },
	{ "amd_l3/format/enallslices", "config:46\n" },
	{ "amd_l3/format/enallcores", "config:47\n" },
	{ "amd_l3/format/sliceid", "config:48-50\n" },
	{ "amd_l3/format/threadmask", "config:56-57\n" },
	{ "ibs_op/type", "9\n" },
	{ "ibs_op/format/cnt_ctl", "config:19\n" },
	{},
};

const struct tree_file machine_arm[] = {
	SOFTWARE_PMUS,
	{ "armv8_pmuv3_0/type", "8\n" },
	{ "armv8_pmuv3_0/cpus", "0-3\n" },
	{ "armv8_pmuv3_0/format/event", "config:0-15\n" },
	{ "armv8_pmuv3_0/format/long", "config1:0\n" },
	{ "armv8_pmuv3_0/format/rdpmc", "config1:1\n" },
	{ "armv8_pmuv3_0/events/cpu_cycles", "event=0x0011\n" },
	{ "armv8_pmuv3_0/events/inst_retired", "event=0x0008\n" },
	{ "armv8_pmuv3_0/events/l1d_cache_refill", "event=0x0003\n" },
	{ "armv8_pmuv3_0/caps/bus_slots", "0x00000004\n" },
	{ "armv8_pmuv3_0/caps/bus_width", "0x00000020\n" },
	{ "armv8_pmuv3_0/caps/slots", "0x00000008\n" },
	{ "arm_dsu_0/type", "9\n" },
	{ "arm_dsu_0/cpumask", "0\n" },
	{ "arm_dsu_0/associated_cpus", "0-3\n" },
	{ "arm_dsu_0/format/event", "config:0-31\n" },
	{ "arm_dsu_0/events/bus_access", "event=0x19\n" },
	{ "arm_spe_0/type", "10\n" },
	{ "arm_spe_0/cpumask", "0-3\n" },
	{ "arm_spe_0/format/ts_enable", "config:0\n" },
	{ "arm_spe_0/format/event_filter", "config1:0-63\n" },
	{ "arm_spe_0/format/min_latency", "config2:0-11\n" },
	{ "arm_spe_0/format/inv_event_filter", "config3:0-63\n" },
	{ "smmuv3_pmcg_2b442/type", "11\n" },
	{ "smmuv3_pmcg_2b442/cpumask", "0\n" },
	{ "smmuv3_pmcg_2b442/identifier", "0x00030736\n" },
	{ "smmuv3_pmcg_2b442/format/event", "config:0-15\n" },
	{ "smmuv3_pmcg_2b442/events/cycles", "event=0x0\n" },
	{ "smmuv3_pmcg_2b462/type", "12\n" },
	{ "smmuv3_pmcg_2b462/cpumask", "0\n" },
	{ "smmuv3_pmcg_2b462/identifier", "0x00030736\n" },
	{ "smmuv3_pmcg_2b462/format/event", "config:0-15\n" },
	{ "smmuv3_pmcg_2b462/events/cycles", "event=0x0\n" },
	{},
};

const struct tree_file machine_biglittle[] = {
	SOFTWARE_PMUS,
	{ "armv8_cortex_a53/type", "8\n" },
	{ "armv8_cortex_a53/cpus", "0-3\n" },
	{ "armv8_cortex_a53/format/event", "config:0-15\n" },
	{ "armv8_cortex_a53/events/cpu_cycles", "event=0x0011\n" },
	{ "armv8_cortex_a53/caps/slots", "0x00000000\n" },
	{ "armv8_cortex_a72/type", "9\n" },
	{ "armv8_cortex_a72/cpus", "4-5\n" },
	{ "armv8_cortex_a72/format/event", "config:0-15\n" },
	{ "armv8_cortex_a72/events/cpu_cycles", "event=0x0011\n" },
	{ "armv8_cortex_a72/caps/slots", "0x00000000\n" },
	{},
};

const struct tree_file machine_power[] = {
	SOFTWARE_PMUS,
	{ "cpu/type", "4\n" },
	{ "cpu/format/event", "config:0-59\n" },
	{ "cpu/events/cpu-cycles", "event=0x1e\n" },
	{ "cpu/caps/pmu_name", "POWER10\n" },
	{ "hv_24x7/type", "9\n" },
	{ "hv_24x7/cpumask", "0\n" },
	{ "hv_24x7/format/domain", "config:0-3\n" },
	{ "hv_24x7/format/chip", "config:16-31\n" },
	{ "hv_24x7/format/core", "config:16-31\n" },
	{ "hv_24x7/format/offset", "config:32-63\n" },
	{ "hv_24x7/format/lpar", "config1:0-15\n" },
	{ "hv_24x7/events/PM_PB_CYC", "domain=0x1,offset=0x80,chip=?,lpar=0x0\n" },
	{ "hv_24x7/events/HPM_INST__PHYS_CORE", "domain=0x2,offset=0x20,core=?,lpar=0x0\n" },
	{},
};

const struct machine_kind machine_kinds[] = {
	{ "intel", machine_intel },   { "hybrid", machine_hybrid },
	{ "server", machine_server }, { "zen", machine_zen },
	{ "arm", machine_arm },	      { "biglittle", machine_biglittle },
	{ "power", machine_power },   {},
};

const struct machine_kind *machine_kind_find(const char *name)
{
	for (const struct machine_kind *kind = machine_kinds; kind->name; kind++)
		if (strcmp(kind->name, name) == 0)
			return kind;
	return NULL;
}

#define TRACEPOINT_FORMAT(name, id, fields)                                                                            \
	"name: " name "\nID: " id "\nformat:\n"                                                                        \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                                         \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n" fields "\nprint fmt: \"\"\n"

const struct tree_file machine_tracefs[] = {
	{ "events/sched/sched_switch/id", "372\n" },
	{ "events/sched/sched_switch/format",
	  TRACEPOINT_FORMAT("sched_switch", "372",
			    "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
			    "\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
			    "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n") },
	{ "events/sched/filter", "none\n" },
	{ "events/syscalls/sys_enter_getppid/id", "21\n" },
	{ "events/syscalls/sys_enter_getppid/format",
	  TRACEPOINT_FORMAT("sys_enter_getppid", "21", "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n") },
	{ "events/odd/u/id", "7\n" },
	{ "events/broken/empty/id", "" },
	{},
};

struct machine machine_new(const struct tree_file *files)
{
	struct machine m = { .sysfs = tree_new(files), .tracefs = tree_new(machine_tracefs) };
	struct reason why;

	if (pmu_catalogue_load(&m.pmus, m.sysfs, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		abort();
	}
	for (size_t i = 0; i < m.pmus->nr_problems; i++)
		fprintf(stderr, "%s\n", m.pmus->problems[i]);
	if (m.pmus->nr_problems)
		abort();
	m.env = (struct event_env){ .pmus = m.pmus, .tracefs = m.tracefs };
	return m;
}

void machine_release(struct machine *machine)
{
	machine->pmus = pmu_catalogue_free(machine->pmus);
	machine->sysfs = tree_free(machine->sysfs);
	machine->tracefs = tree_free(machine->tracefs);
}

struct event_list machine_parse(const struct machine *machine, const char *text)
{
	struct event_list list = {};
	struct reason why = {};

	if (event_parse(&list, &machine->env, text, &why) < 0 || !list.nr) {
		fprintf(stderr, "%s: %s\n", text, why.text);
		abort();
	}
	return list;
}
