/* SPDX-License-Identifier: MIT */

#include "profiler/sample/sample-attr.h"

#include "base/util/clock.h"

#include <time.h>

/* As of <linux/perf_event.h> of Linux 6.0. */
#define READ_LOST (UINT64_C(1) << 4)

/* What all events have. */
static void fill_common(struct perf_event_attr *attr, const struct sample_request *request)
{
	attr->sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	attr->read_format = request->lacks.lost ? 0 : READ_LOST;
	attr->disabled = 1;
	attr->sample_id_all = 1;
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
	attr->watermark = 1;
	attr->wakeup_watermark = request->watermark;
	attr->exclude_kernel |= request->lacks.kernel;
}

void sample_attr_side_band(union event_attr *ret, const struct sample_request *request)
{
	struct perf_event_attr *attr = &ret->attr;

	*ret = (union event_attr){
		.attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(*attr), .config = PERF_COUNT_SW_DUMMY },
	};
	fill_common(attr, request);
	attr->exclude_hv = 1;
	attr->mmap = attr->mmap2 = attr->comm = attr->comm_exec = attr->task = attr->cgroup = attr->ksymbol = 1;
	attr->build_id = !request->lacks.build_id;
}

static void concede(struct perf_event_attr *attr, enum concession conceded)
{
	if (conceded >= CONCEDE_PRECISE)
		attr->precise_ip = 0;
	if (conceded >= CONCEDE_GUEST)
		attr->exclude_guest = 0;
	if (conceded >= CONCEDE_HV)
		attr->exclude_hv = 0;
}

/* A clock's period is its rate, and all weights are the same then. */
uint64_t sampled_event_period(const struct sampled_event *event)
{
	if (event->period)
		return event->period;
	return sampled_event_is_clock(event) ? NS_PER_S / event->rate : 0;
}

void sample_attr_event(union event_attr *ret, const struct sampled_event *event, const struct sampled_variant *variant,
		       const struct sample_request *request)
{
	struct perf_event_attr *attr = &ret->attr;

	*ret = variant->attr;
	if (variant->probe)
		attr->config1 = (uintptr_t)variant->probe;
	fill_common(attr, request);
	attr->sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_CGROUP;
	attr->exclude_callchain_kernel = request->lacks.kernel;
	if (sampled_event_is_clock(event))
		attr->exclude_idle = 1;
	/* With the period in its samples, the kernel makes one at every software event, whatever the period is. */
	attr->sample_period = sampled_event_period(event);
	if (!attr->sample_period) {
		attr->sample_type |= PERF_SAMPLE_PERIOD;
		attr->freq = 1;
		attr->sample_freq = event->rate;
	}
	if (request->copy) {
		attr->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
		attr->sample_regs_user = SAMPLED_REGISTERS;
		attr->sample_stack_user = (uint32_t)request->copy;
	}
	concede(attr, request->conceded);
}

struct record_format sample_attr_format(const union event_attr *attr)
{
	return (struct record_format){
		.sample_type = attr->attr.sample_type,
		.read_format = attr->attr.read_format,
		.regs_user = attr->attr.sample_regs_user,
		.sample_id_all = true,
	};
}
