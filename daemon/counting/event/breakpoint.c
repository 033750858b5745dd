/* SPDX-License-Identifier: MIT */

#include "counting/event/breakpoint.h"

#include "base/elf/kallsyms.h"
#include "base/util/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <string.h>

/* The parts of the text; NULL for one that is missing. */
struct parts {
	char *address, *length, *access, *modifier;
};

/* Access and modifiers both follow a ':', and either can be missing; no letter is both. */
static void cut_parts(char *text, struct parts *ret)
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

static int set_breakpoint_access(struct event_parser *parser, const char *letters, struct perf_event_attr *attr)
{
	for (; letters && *letters; letters++) {
		uint32_t bit = *letters == 'r' ? HW_BREAKPOINT_R : *letters == 'w' ? HW_BREAKPOINT_W : HW_BREAKPOINT_X;

		if (attr->bp_type & bit)
			return event_parser_refuse(parser, "access '%c' is given twice", *letters);
		attr->bp_type |= bit;
	}
	if (!attr->bp_type)
		attr->bp_type = HW_BREAKPOINT_RW;
	if (attr->bp_type & HW_BREAKPOINT_X && attr->bp_type != HW_BREAKPOINT_X)
		return event_parser_refuse(parser, "x (execution) can't be counted together with r and w");
	return 0;
}

static int set_breakpoint_length(struct event_parser *parser, const char *text, struct perf_event_attr *attr)
{
	uint64_t length;

	attr->bp_len = attr->bp_type == HW_BREAKPOINT_X ? sizeof(long) : HW_BREAKPOINT_LEN_4;
	if (!text)
		return 0;
	if (parse_u64(text, &length) < 0 || length < HW_BREAKPOINT_LEN_1 || length > HW_BREAKPOINT_LEN_8)
		return event_parser_refuse(parser, "the length after '/' is 1 to 8 bytes, not '%.60s'", text);
	attr->bp_len = length;
	return 0;
}

/* A number, or a symbol of the kernel: the errors of kallsyms_find(), or -EINVAL if it can be neither. */
static int find_address(struct event_parser *parser, char *text, uint64_t *ret, struct reason *missing)
{
	uint64_t address, offset;
	int r;

	if (isdigit((unsigned char)*text)) {
		if (parse_u64(text, ret) < 0)
			return event_parser_refuse(parser, "'%.60s' is not an address of 64 bits", text);
		return 0;
	}
	r = event_parser_cut_offset(parser, text, &offset);
	if (r < 0)
		return r;
	if (!kallsyms_is_name(text))
		return event_parser_refuse(parser, "a breakpoint is mem:ADDRESS or mem:SYMBOL, as in mem:jiffies/8:w");
	r = kallsyms_find(parser->env->kallsyms, text, &address, missing);
	if (r < 0)
		return r;
	if (__builtin_add_overflow(address, offset, ret))
		return event_parser_refuse(
			parser, "the address at offset 0x%" PRIx64 " from symbol '%.60s' has more than 64 bits", offset,
			text);
	return 0;
}

static int set_breakpoint_name(struct event_parser *parser, const struct parts *parts)
{
	return event_parser_set_name(parser, "mem:%s%s%s%s%s", parts->address, parts->length ? "/" : "",
				     parts->length ? parts->length : "", parts->access ? ":" : "",
				     parts->access ? parts->access : "");
}

int event_parse_breakpoint(struct event_parser *parser, char *text)
{
	struct event like = { .attr = { .type = PERF_TYPE_BREAKPOINT }, .scale = 1 };
	struct reason missing = {};
	struct parts parts;
	uint64_t address;
	int r;

	cut_parts(text, &parts);
	r = set_breakpoint_name(parser, &parts);
	if (r == 0)
		r = set_breakpoint_access(parser, parts.access, &like.attr);
	if (r == 0)
		r = set_breakpoint_length(parser, parts.length, &like.attr);
	if (r == 0 && parts.modifier)
		r = event_parser_set_modifier(parser, parts.modifier);
	if (r < 0)
		return r;

	r = find_address(parser, parts.address, &address, &missing);
	if (r < 0)
		return *missing.text ? event_parser_add_absent(parser, &like, "breakpoint", r, &missing) : r;
	like.attr.bp_addr = address;
	return event_parser_add(parser, &like, NULL, "breakpoint");
}
