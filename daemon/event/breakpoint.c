/* SPDX-License-Identifier: MIT */

/* mem:ADDRESS[/LENGTH][:ACCESS]: what the CPU's debug registers watch. */

#include "event/draft.h"
#include "event/kallsyms.h"
#include "util/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <string.h>

/* The text's parts, none of them without its separator. */
struct parts {
	char *address, *length, *access, *modifier;
};

/* What is behind the address may begin with either; no letter is both an access and a modifier. */
static void cut_up(char *text, struct parts *ret)
{
	char *rest = text;
	size_t n;

	ret->length = strsep(&rest, ":");
	ret->address = strsep(&ret->length, "/");
	ret->access = NULL;
	n = rest ? strspn(rest, "rwx") : 0;
	if (n > 0 && (!rest[n] || rest[n] == ':'))
		ret->access = strsep(&rest, ":");
	ret->modifier = rest;
}

static int set_access(struct draft *draft, const char *letters, struct perf_event_attr *attr)
{
	for (; letters && *letters; letters++) {
		uint32_t bit = *letters == 'r' ? HW_BREAKPOINT_R : *letters == 'w' ? HW_BREAKPOINT_W : HW_BREAKPOINT_X;

		if (attr->bp_type & bit)
			return draft_refuse(draft, "access '%c' stands twice", *letters);
		attr->bp_type |= bit;
	}
	if (!attr->bp_type)
		attr->bp_type = HW_BREAKPOINT_RW;
	if (attr->bp_type & HW_BREAKPOINT_X && attr->bp_type != HW_BREAKPOINT_X)
		return draft_refuse(draft, "x (execution) can't be counted together with r and w");
	return 0;
}

static int set_length(struct draft *draft, const char *text, struct perf_event_attr *attr)
{
	uint64_t length;

	attr->bp_len = attr->bp_type == HW_BREAKPOINT_X ? sizeof(long) : HW_BREAKPOINT_LEN_4;
	if (!text)
		return 0;
	if (parse_u64(text, &length) < 0 || length < HW_BREAKPOINT_LEN_1 || length > HW_BREAKPOINT_LEN_8)
		return draft_refuse(draft, "the length after '/' is 1 to 8 bytes, not '%.60s'", text);
	attr->bp_len = length;
	return 0;
}

/* A number, or a symbol of the kernel; 0, or as kallsyms_find(), or -EINVAL where it can be neither. */
static int find_address(struct draft *draft, char *text, uint64_t *ret, struct reason *missing)
{
	uint64_t address, offset;
	int r;

	if (isdigit((unsigned char)*text)) {
		if (parse_u64(text, ret) < 0)
			return draft_refuse(draft, "'%.60s' is no address of 64 bits", text);
		return 0;
	}
	r = draft_cut_offset(draft, text, &offset);
	if (r < 0)
		return r;
	if (!kallsyms_is_name(text))
		return draft_refuse(draft, "a breakpoint is mem:ADDRESS or mem:SYMBOL, as in mem:jiffies/8:w");
	r = kallsyms_find(draft->env->kallsyms, text, &address, missing);
	if (r < 0)
		return r;
	if (__builtin_add_overflow(address, offset, ret))
		return draft_refuse(draft, "0x%" PRIx64 " behind symbol '%.60s' there is nothing", offset, text);
	return 0;
}

static int set_name(struct draft *draft, const struct parts *parts)
{
	return draft_set_name(draft, "mem:%s%s%s%s%s", parts->address, parts->length ? "/" : "",
			      parts->length ? parts->length : "", parts->access ? ":" : "",
			      parts->access ? parts->access : "");
}

int draft_breakpoint(struct draft *draft, char *text)
{
	struct event like = { .attr = { .type = PERF_TYPE_BREAKPOINT }, .scale = 1 };
	struct reason missing = {};
	struct parts parts;
	uint64_t address;
	int r;

	cut_up(text, &parts);
	r = set_name(draft, &parts);
	if (r == 0)
		r = set_access(draft, parts.access, &like.attr);
	if (r == 0)
		r = set_length(draft, parts.length, &like.attr);
	if (r == 0 && parts.modifier)
		r = draft_set_modifier(draft, parts.modifier);
	if (r < 0)
		return r;

	r = find_address(draft, parts.address, &address, &missing);
	if (r < 0)
		return *missing.text ? draft_add_absent(draft, &like, "breakpoint", r, &missing) : r;
	like.attr.bp_addr = address;
	return draft_add(draft, &like, NULL, "breakpoint");
}
