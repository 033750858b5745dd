/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The attributes with which events are opened to be sampled, and the format of their records. It is pure.
 */

#include "profiler/protocol.h"
#include "profiler/sample/record.h"

/* Bits of asm/perf_regs.h: all general registers, the stack pointer and the instruction's address. */
#define SAMPLED_REGISTERS_X86_64 UINT64_C(0xff01ff)	  /* AX to SP, IP; R8 to R15 */
#define SAMPLED_REGISTERS_ARM64 ((UINT64_C(1) << 33) - 1) /* X0 to X29, LR, SP, PC */
#if defined(__x86_64__)
#define SAMPLED_REGISTERS SAMPLED_REGISTERS_X86_64
#elif defined(__aarch64__)
#define SAMPLED_REGISTERS SAMPLED_REGISTERS_ARM64
#else
#define SAMPLED_REGISTERS UINT64_C(0) /* there are no copies of stacks */
#endif

/* Parts of an attribute that some PMUs refuse, and without which an event is the same. */
enum concession {
	CONCEDE_NOTHING,
	CONCEDE_PRECISE,
	CONCEDE_GUEST,
	CONCEDE_HV,
	_CONCEDE_MAX,
};

/* What the kernel lacks, or does not allow. */
struct sample_lacks {
	bool lost;     /* PERF_FORMAT_LOST */
	bool build_id; /* of mappings */
	bool kernel;   /* samples in the kernel */
};

struct sample_request {
	struct sample_lacks lacks;
	enum concession conceded; /* up to this */
	size_t copy;		  /* bytes of the stack that each sample has; 0: none, and no registers */
	uint32_t watermark;
};

/* The weight of each of its samples; 0: they differ. */
uint64_t sampled_event_period(const struct sampled_event *event);

void sample_attr_side_band(union event_attr *ret, const struct sample_request *request);
void sample_attr_event(union event_attr *ret, const struct sampled_event *event, const struct sampled_variant *variant,
		       const struct sample_request *request);

struct record_format sample_attr_format(const union event_attr *attr);
