/* SPDX-License-Identifier: MIT */

/*
 * Functions of the kernel and of programs, counted where they are entered or where they return (ret): kprobe:PLACE,
 * kretprobe:PLACE, uprobe:/FILE:PLACE, uretprobe:/FILE:PLACE, through the kernel's PMUs of that name
 * (perf_event_open(2), "kprobe and uprobe").
 */

#include "event/draft.h"
#include "event/elf-symbol.h"
#include "event/kallsyms.h"
#include "event/quote.h"
#include "util/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* What is counted: either a symbol, perhaps with an offset, or an offset (an address in the kernel) alone. */
struct place {
	char *symbol; /* NULL: none */
	uint64_t offset;
};

static int parse_place(struct draft *draft, char *text, bool returns, struct place *ret)
{
	int r;

	*ret = (struct place){};
	if (isdigit((unsigned char)*text)) {
		if (parse_u64(text, &ret->offset) < 0)
			return draft_refuse(draft, "'%.60s' is no number of 64 bits", text);
		return 0;
	}
	r = draft_cut_offset(draft, text, &ret->offset);
	if (r < 0)
		return r;
	if (returns && ret->offset)
		return draft_refuse(draft, "a function returns as a whole: leave out the '+' and what follows");
	if (!*text)
		return draft_refuse(draft, "no function is named");
	ret->symbol = quote_strip(text);
	if (!ret->symbol)
		return draft_refuse(draft, "single quotes stand around the whole of a function's name");
	return 0;
}

/* "kretprobe:…", "uretprobe:…" */
static bool counts_returns(const struct draft *draft)
{
	return draft->text[1] == 'r';
}

/* The PMU's bit for returns is where its format says. */
static int set_return(const struct pmu *pmu, struct event *like, struct reason *why)
{
	char name[] = "retprobe";
	uint64_t config[PMU_NR_CONFIGS] = {};
	int r = pmu_apply_term(pmu, &(struct term){ .name = name }, config, why);

	like->attr.config = config[0];
	return r;
}

/* Adds the event, unless it is known already why this machine lacks it: missing < 0, with the sentence in why. */
static int add(struct draft *draft, struct event *like, const char *name, bool returns, int missing,
	       struct reason *why)
{
	const struct pmu *pmu = pmu_find(draft->pmus, name);

	if (!pmu)
		missing = reason_set(why, -ENOENT,
				     "this kernel has no %ss (CONFIG_%cPROBE_EVENTS)", name,
				     toupper((unsigned char)*name));
	if (missing == 0 && returns)
		missing = set_return(pmu, like, why);
	if (missing == -ENOMEM)
		return missing;
	/* Lest it be taken for PERF_TYPE_HARDWARE. */
	like->attr.type = pmu ? pmu->type : NO_PMU_TYPE;
	return missing < 0 ? draft_add_absent(draft, like, name, missing, why) : draft_add(draft, like, pmu, NULL);
}

int draft_kprobe(struct draft *draft, char *text)
{
	bool returns = counts_returns(draft);
	struct event like = { .scale = 1 };
	struct reason why = {};
	struct place place;
	char *modifier;
	int r;

	r = draft_cut_tail(draft, text, &modifier);
	if (r == 0)
		r = draft_set_name(draft, "%s:%s", returns ? "kretprobe" : "kprobe", text);
	if (r == 0 && modifier)
		r = draft_set_modifier(draft, modifier);
	if (r == 0)
		r = parse_place(draft, text, returns, &place);
	if (r < 0)
		return r;

	if (place.symbol) {
		if (!kallsyms_is_name(place.symbol))
			return draft_refuse(draft, "'%.60s' is no name of a function in the kernel", place.symbol);
		draft->probe = strdup(place.symbol);
		if (!draft->probe)
			return -ENOMEM;
	}
	like.attr.config2 = place.offset;
	return add(draft, &like, "kprobe", returns, 0, &why);
}

/* What is wrong with the file or the function in it: "PATH: …". */
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
		return reason_set(why, -EINVAL, "%.200s: function '%.100s' has %" PRIu64 " bytes, and offset %" PRIu64
						" is behind it", path, place->symbol, symbol.size, place->offset);
	if (__builtin_add_overflow(symbol.offset, place->offset, ret))
		*ret = UINT64_MAX;
	return 0;
}

/* Finds the file and the offset in it. It has to be a plain file, and is not opened where it is none: for a device,
 * to be opened can be an order to do something. */
static int find_in_file(const char *path, const struct place *place, struct event *like, struct reason *why)
{
	_cleanup_(closep) int fd = -1;
	uint64_t offset = place->offset;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return fail_file(path, -errno, why);
	if (!S_ISREG(st.st_mode))
		return reason_set(why, -ENOEXEC, "%.200s: it is no regular file", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	/* The kernel can count at an offset in what this process may not read. */
	if (fd < 0 ? errno != EACCES || place->symbol : fstat(fd, &st) < 0)
		return fail_file(path, -errno, why);
	r = place->symbol ? find_symbol(path, fd, place, &offset, why) : 0;
	if (r < 0)
		return r;
	if (offset >= (uint64_t)st.st_size)
		return reason_set(why, -EINVAL, "%.200s: it has %" PRIu64 " bytes, and offset %" PRIu64 " is behind it",
				  path, (uint64_t)st.st_size, offset);
	/* What is no ELF file can be code all the same, of another loader. */
	r = fd < 0 ? 0 : elf_check_code(fd, offset, why);
	if (r < 0 && r != -ENOEXEC)
		return reason_prefix(why, r, "%.200s", path);
	like->attr.config2 = offset;
	like->probe_dev = st.st_dev;
	like->probe_ino = st.st_ino;
	return 0;
}

/* What the metric is called after: "uprobe:libc.so.6:malloc". */
static int set_file_name(struct draft *draft, const char *path, const char *place, bool returns)
{
	const char *base = strrchr(path, '/');

	return draft_set_name(draft, "%s:%s:%s", returns ? "uretprobe" : "uprobe", base ? base + 1 : path, place);
}

int draft_uprobe(struct draft *draft, char *text)
{
	bool returns = counts_returns(draft);
	char *rest = text, *path = quote_strip(quote_sep(&rest, ":")), *modifier;
	struct event like = { .scale = 1 };
	struct reason why = {};
	struct place place;
	int r;

	if (!path || *path != '/' || !rest)
		return draft_refuse(draft,
				    "a uprobe is uprobe:/PATH:FUNCTION or uprobe:/PATH:OFFSET, the path absolute, and "
				    "in single quotes where it has a ':' or ','");
	r = draft_cut_tail(draft, rest, &modifier);
	if (r == 0)
		r = set_file_name(draft, path, rest, returns);
	if (r == 0 && modifier)
		r = draft_set_modifier(draft, modifier);
	if (r == 0)
		r = parse_place(draft, rest, returns, &place);
	if (r < 0)
		return r;

	draft->probe = strdup(path);
	if (!draft->probe)
		return -ENOMEM;
	return add(draft, &like, "uprobe", returns, find_in_file(path, &place, &like, &why), &why);
}
