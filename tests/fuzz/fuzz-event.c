/* SPDX-License-Identifier: MIT */

/* Event texts, as a config has them: the first byte chooses the machine, the rest is a list of events. */

#include "fuzz.h"

#include "counting/event/parse.h"
#include "setup/machines.h"
#include "setup/made-elf.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* What texts can look into, under these names: symbols of the kernel, and a program. */
#define KALLSYMS_FD 100
#define PROGRAM_FD 101
#define KALLSYMS "/proc/self/fd/100"
#define PROGRAM "/proc/self/fd/101"

static struct pmu_catalogue *catalogues[5];

static void make_files(void)
{
	static const char symbols[] = "ffffffff81000000 T _text\nffffffff82000000 D jiffies\n"
				      "ffffffffc0000000 t twice\t[mod]\nffffffffc0000100 t twice\t[mod]\n";
	static const struct made_symbol program[] = {
		{ .name = "work", .at = MADE_ADDRESS + 0x100, .size = 0x40 },
		{ .name = "chosen", .at = MADE_ADDRESS + 0x200, .type = STT_GNU_IFUNC },
		{},
	};

	CHECK(dup2(memfd_create("kallsyms", 0), KALLSYMS_FD) >= 0);
	CHECK(write(KALLSYMS_FD, symbols, sizeof(symbols) - 1) == sizeof(symbols) - 1);
	CHECK(dup2(memfd_create("program", 0), PROGRAM_FD) >= 0);
	made_elf_write(PROGRAM, &(struct made_elf){ .symtab = program });
}

int LLVMFuzzerInitialize(_unused_ int *argc, _unused_ char ***argv)
{
	static const struct tree_file *const machines[] = { machine_intel, machine_hybrid, machine_zen, machine_arm,
							    machine_power };

	/* libpfm's tables of PMUs that are not there: the same on every machine. */
	CHECK(setenv("LIBPFM_ENCODE_INACTIVE", "1", 1) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		char *dir = tree_new(machines[i]);

		CHECK(pmu_catalogue_load(&catalogues[i], dir, NULL) == 0);
		CHECK(catalogues[i]->nr_problems == 0);
		tree_free(dir);
	}
	make_files();
	return 0;
}

static void check_event(const struct event *event)
{
	CHECK(event->text && event->pmu && event->metric);
	CHECK(*event->metric && !isdigit((unsigned char)*event->metric));
	CHECK(event->metric[strspn(event->metric, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0');
	for (const char *p = event->text; *p; p++)
		CHECK(!iscntrl((unsigned char)*p) || *p == '\t');
	CHECK(!event->filter || event->filter[strspn(event->filter, " \t")]);
	CHECK(event->attr.type != PERF_TYPE_BREAKPOINT || event->absent || (event->attr.bp_type && event->attr.bp_len));
	CHECK((event->absent != 0) == (event->why_absent != NULL));
	CHECK(event->absent <= 0);
	CHECK(event->scale > 0);
	CHECK(event->unit < _EVENT_UNIT_MAX);
	CHECK(!event->uncore || event->cpus.nr || event->absent);
}

/* What a list was split into is not split further. */
static void check_one(const char *text)
{
	_cleanup_(freep) char *copy = strdup(text);
	char *cursor = copy, *again = event_next_text(&cursor);

	CHECK(again && strcmp(again, text) == 0 && !cursor);
}

static void parse(const struct event_env *env, const char *text)
{
	_cleanup_(event_list_release) struct event_list list = {};
	struct reason why = {};
	union event_attr attr;
	int r = event_parse(&list, env, text, &why);

	CHECK(r == 0 || r == -EINVAL);
	CHECK((r == 0) == (list.nr > 0));
	CHECK((r == 0) || *why.text);
	for (const char *p = why.text; r < 0 && *p; p++)
		CHECK(!iscntrl((unsigned char)*p) || *p == '\t');
	for (size_t i = 0; i < list.nr; i++) {
		check_event(&list.events[i]);
		CHECK(list.events[i].by_pmu == (list.nr > 1));
		event_attr(&attr, &list.events[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct event_env env = { .kallsyms = KALLSYMS };
	char *list, *cursor, *text;

	if (!size)
		return 0;
	list = cursor = strndup((const char *)data + 1, size - 1);
	CHECK(list);
	env.pmus = catalogues[data[0] % ARRAY_SIZE(catalogues)];
	while ((text = event_next_text(&cursor))) {
		check_one(text);
		parse(&env, text);
	}
	free(list);
	return 0;
}
