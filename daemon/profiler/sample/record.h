/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The records of a perf ring buffer (perf_event_open(2), "MMAP layout"), parsed from bytes. All types of the manual
 * page are known. The parser is pure, and takes any bytes: a length that leaves the record is an error, and nothing is
 * copied, so that texts and arrays point into the record.
 *
 * Fields are found by their place from the front, and the sample_id by its place from the end, since newer kernels add
 * fields and padding between the two. Two types are different: the kernel makes one KSYMBOL or BPF_EVENT for all events
 * that want it, and adds the size of the sample_id to its size for each of them. So all but the first get a record that
 * is too large, with left-overs at its end (seen up to Linux 6.18); there the sample_id is what follows the fields.
 */

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_BUILD_ID_MAX 20
#define RECORD_NAMESPACES_MAX 16
#define RECORD_BPF_TAG 8

/* The parts of perf_event_attr that decide the layout of an event's records. All events of a ring have the same. */
struct record_format {
	uint64_t sample_type, read_format, branch_sample_type;
	uint64_t regs_user, regs_intr; /* sample_regs_user, sample_regs_intr */
	bool sample_id_all;
};

/* Of any record; 0 where the format does not have it. */
struct record_id {
	uint32_t pid, tid, cpu;
	uint64_t time, id, stream_id, identifier;
};

/* Numbers that may stand unaligned in the record are read by record_u64(). */
struct record_array {
	const unsigned char *at;
	uint64_t nr; /* of elements of 8 bytes, or of bytes where the member says so */
};

struct record_sample {
	uint64_t ip, addr, period, weight, data_src, transaction, phys_addr, cgroup, data_page_size, code_page_size;
	struct record_array callchain; /* addresses, and PERF_CONTEXT_… */
	struct record_array read;      /* as read(2) has it */
	struct record_array raw;       /* bytes */
	struct record_array branches;  /* of three numbers each: nr counts branches */
	uint64_t regs_user_abi, regs_intr_abi;
	struct record_array regs_user, regs_intr;
	struct record_array stack_user; /* bytes; those that were in use */
	struct record_array aux;	/* bytes */
};

struct record_mapping {
	uint32_t pid, tid;
	uint64_t start, size, offset; /* offset: in the file */
	const char *file;
	bool has_inode;
	uint32_t major, minor;
	uint64_t inode, generation;
	unsigned build_id_size; /* 0: none */
	const unsigned char *build_id;
	uint32_t prot, flags; /* 0 in PERF_RECORD_MMAP */
};

struct record_task {
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

/* One record. The member of the union is that of the type. */
struct record {
	uint32_t type; /* PERF_RECORD_…; others than those below may come from newer kernels, and have only an id */
	uint16_t misc;
	struct record_id id;
	union {
		struct record_sample sample;
		struct record_mapping mapping; /* MMAP, MMAP2 */
		struct {
			uint32_t pid, tid;
			const char *name;
		} comm;
		struct record_task task; /* FORK, EXIT */
		struct {
			uint64_t id, lost; /* id: 0 for LOST_SAMPLES */
		} lost;			   /* LOST, LOST_SAMPLES */
		struct {
			uint64_t time, id, stream_id;
		} throttle; /* THROTTLE, UNTHROTTLE */
		struct {
			uint32_t pid, tid;
			struct record_array values;
		} read;
		struct {
			uint64_t offset, size, flags;
		} aux;
		struct {
			uint32_t pid, tid;
		} itrace; /* ITRACE_START */
		struct {
			uint32_t pid, tid;
		} other; /* SWITCH_CPU_WIDE: who came before, or comes next */
		struct {
			uint32_t pid, tid;
			struct record_array ids; /* pairs of device and inode: nr counts pairs */
		} namespaces;
		struct {
			uint64_t address;
			uint32_t size;
			uint16_t type, flags;
			const char *name;
		} ksymbol;
		struct {
			uint16_t type, flags;
			uint32_t id;
			const unsigned char *tag; /* RECORD_BPF_TAG bytes */
		} bpf;
		struct {
			uint64_t id;
			const char *path;
		} cgroup;
		struct {
			uint64_t address;
			uint16_t old_size, new_size;
			const unsigned char *bytes; /* the old ones, then the new ones */
		} text_poke;
		struct {
			uint64_t hw_id;
		} aux_output; /* AUX_OUTPUT_HW_ID */
	};
};

/* Parses the record that begins at data and has size bytes, as its header says. -EBADMSG: it is malformed. */
int record_parse(struct record *ret, const struct record_format *format, const void *data, size_t size);

/* The number at an index, which must be less than the array's nr. */
uint64_t record_u64(const struct record_array *array, uint64_t index);
