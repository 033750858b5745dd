/* SPDX-License-Identifier: MIT */

#include "counting/event/probes.h"

#include "base/elf/elf-symbol.h"
#include "base/elf/kallsyms.h"
#include "base/util/text.h"
#include "counting/event/quote.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* The place of a probe: a symbol, perhaps with an offset, or an offset alone (an address, in the kernel). */
struct place {
	char *symbol; /* NULL: none */
	uint64_t offset;
};

static int parse_place(struct event_parser *parser, char *text, bool returns, struct place *ret)
{
	struct place place = {};
	int r;

	if (isdigit((unsigned char)*text)) {
		if (parse_u64(text, &place.offset) < 0)
			return event_parser_refuse(parser, "'%.60s' is not a number of 64 bits", text);
		*ret = place;
		return 0;
	}
	r = event_parser_cut_offset(parser, text, &place.offset);
	if (r < 0)
		return r;
	if (returns && place.offset)
		return event_parser_refuse(parser, "a function returns as a whole: leave out the '+' and what follows");
	if (!*text)
		return event_parser_refuse(parser, "the function's name is missing");
	place.symbol = quote_strip(text);
	if (!place.symbol)
		return event_parser_refuse(parser, "single quotes have to enclose the whole of a function's name");
	*ret = place;
	return 0;
}

/* "kretprobe:…", "uretprobe:…" */
static bool counts_returns(const struct event_parser *parser)
{
	return parser->text[1] == 'r';
}

/* The PMU's format says which bit of config asks for returns. */
static int set_return(const struct pmu *pmu, struct event *like, struct reason *why)
{
	char name[] = "retprobe";
	uint64_t config[PMU_NR_CONFIGS] = {};
	int r = pmu_apply_term(pmu, &(struct term){ .name = name }, config, why);

	like->attr.config = config[0];
	return r;
}

/* Adds the event; an absent one if missing < 0, with the sentence in why, or if the kernel has no such PMU. */
static int add_probe(struct event_parser *parser, struct event *like, const char *name, bool returns, int missing,
		     struct reason *why)
{
	const struct pmu *pmu = pmu_find(parser->pmus, name);

	if (!pmu)
		missing = reason_set(why, -ENOENT, "this kernel has no %ss (CONFIG_%cPROBE_EVENTS)", name,
				     toupper((unsigned char)*name));
	if (missing == 0 && returns)
		missing = set_return(pmu, like, why);
	if (missing == -ENOMEM)
		return missing;
	like->attr.type = pmu ? pmu->type : NO_PMU_TYPE;
	return missing < 0 ? event_parser_add_absent(parser, like, name, missing, why) :
			     event_parser_add(parser, like, pmu, NULL);
}

int event_parse_kprobe(struct event_parser *parser, char *text)
{
	bool returns = counts_returns(parser);
	struct event like = { .scale = 1 };
	struct reason why = {};
	struct place place;
	char *modifier;
	int r;

	r = event_parser_cut_tail(parser, text, &modifier);
	if (r == 0)
		r = event_parser_set_name(parser, "%s:%s", returns ? "kretprobe" : "kprobe", text);
	if (r == 0 && modifier)
		r = event_parser_set_modifier(parser, modifier);
	if (r == 0)
		r = parse_place(parser, text, returns, &place);
	if (r < 0)
		return r;

	if (place.symbol) {
		if (!kallsyms_is_name(place.symbol))
			return event_parser_refuse(parser, "'%.60s' can't be the name of a function in the kernel",
						   place.symbol);
		parser->probe = strdup(place.symbol);
		if (!parser->probe)
			return -ENOMEM;
	}
	like.attr.config2 = place.offset;
	return add_probe(parser, &like, "kprobe", returns, 0, &why);
}

/* The error of a system call on the file: "PATH: …". */
static int fail_file(const char *path, int r, struct reason *why)
{
	return reason_set(why, r, "%.200s: %s", path, strerror(-r));
}

static int find_symbol(const char *path, int fd, const struct place *place, uint64_t *ret, struct reason *why)
{
	struct elf_symbol symbol;
	int r = elf_symbol_find(&symbol, fd, place->symbol, why);

	if (r < 0)
		return r == -ENOMEM ? r : reason_prefix(why, r, "%.200s", path);
	if (symbol.size && place->offset >= symbol.size)
		return reason_set(why, -EINVAL,
				  "%.200s: function '%.100s' has %" PRIu64 " bytes, and offset %" PRIu64
				  " is beyond its end",
				  path, place->symbol, symbol.size, place->offset);
	if (__builtin_add_overflow(symbol.offset, place->offset, ret))
		*ret = UINT64_MAX;
	return 0;
}

/* Finds the file and the offset in it. Only a regular file is opened: opening a device can have effects. */
static int find_in_file(const char *path, const struct place *place, struct event *like, struct reason *why)
{
	_cleanup_(closep) int fd = -1;
	uint64_t offset = place->offset;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return fail_file(path, -errno, why);
	if (!S_ISREG(st.st_mode))
		return reason_set(why, -ENOEXEC, "%.200s: it is not a regular file", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	/* The kernel can count at an offset in a file that this process may not read. */
	if (fd < 0 ? errno != EACCES || place->symbol : fstat(fd, &st) < 0)
		return fail_file(path, -errno, why);
	r = place->symbol ? find_symbol(path, fd, place, &offset, why) : 0;
	if (r < 0)
		return r;
	if (offset >= (uint64_t)st.st_size)
		return reason_set(why, -EINVAL,
				  "%.200s: it has %" PRIu64 " bytes, and offset %" PRIu64 " is beyond its end", path,
				  (uint64_t)st.st_size, offset);
	/* A file that is not ELF can be code of another loader. */
	r = fd < 0 ? 0 : elf_check_code(fd, offset, why);
	if (r < 0 && r != -ENOEXEC)
		return reason_prefix(why, r, "%.200s", path);
	like->attr.config2 = offset;
	like->probe_dev = st.st_dev;
	like->probe_ino = st.st_ino;
	return 0;
}

/* The metric's name is made from the file's name without its folder: "uprobe:libc.so.6:malloc". */
static int set_file_name(struct event_parser *parser, const char *path, const char *place, bool returns)
{
	const char *base = strrchr(path, '/');

	return event_parser_set_name(parser, "%s:%s:%s", returns ? "uretprobe" : "uprobe", base ? base + 1 : path,
				     place);
}

int event_parse_uprobe(struct event_parser *parser, char *text)
{
	bool returns = counts_returns(parser);
	char *rest = text, *path = quote_strip(quote_sep(&rest, ":")), *modifier;
	struct event like = { .scale = 1 };
	struct reason why = {};
	struct place place;
	int r;

	if (!path || *path != '/' || !rest)
		return event_parser_refuse(
			parser, "a uprobe is uprobe:/PATH:FUNCTION or uprobe:/PATH:OFFSET, the path absolute, and "
				"in single quotes where it has a ':' or ','");
	r = event_parser_cut_tail(parser, rest, &modifier);
	if (r == 0)
		r = set_file_name(parser, path, rest, returns);
	if (r == 0 && modifier)
		r = event_parser_set_modifier(parser, modifier);
	if (r == 0)
		r = parse_place(parser, rest, returns, &place);
	if (r < 0)
		return r;

	parser->probe = strdup(path);
	if (!parser->probe)
		return -ENOMEM;
	return add_probe(parser, &like, "uprobe", returns, find_in_file(path, &place, &like, &why), &why);
}
