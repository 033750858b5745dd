/* SPDX-License-Identifier: MIT */

/* Event texts, as a config has them: the first byte chooses the machine, the rest is a list of events. */

#include "event/event.h"
#include "machines.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define CHECK(condition)                                                                                  \
	do {                                                                                              \
		if (!(condition))                                                                         \
			__builtin_trap();                                                                 \
	} while (0)

static struct pmu_catalogue *catalogues[5];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(_unused_ int *argc, _unused_ char ***argv)
{
	static const struct tree_file *const machines[] = { machine_intel, machine_hybrid, machine_zen,
							    machine_arm, machine_power };

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		char *dir = tree_new(machines[i]);

		CHECK(pmu_catalogue_load(&catalogues[i], dir, NULL) == 0);
		CHECK(catalogues[i]->nr_problems == 0);
		tree_free(dir);
	}
	return 0;
}

static void check_event(const struct event *event)
{
	CHECK(event->text && event->pmu && event->metric);
	CHECK(*event->metric && !isdigit((unsigned char)*event->metric));
	CHECK(event->metric[strspn(event->metric, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0');
	for (const char *p = event->text; *p; p++)
		CHECK(isgraph((unsigned char)*p));
	CHECK((event->absent != 0) == (event->why_absent != NULL));
	CHECK(event->absent <= 0);
	CHECK(event->scale > 0);
	CHECK(event->unit < _EVENT_UNIT_MAX);
	CHECK(!event->uncore || event->cpus.nr || event->absent);
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
		CHECK(!iscntrl((unsigned char)*p));
	for (size_t i = 0; i < list.nr; i++) {
		check_event(&list.events[i]);
		CHECK(list.events[i].by_pmu == (list.nr > 1));
		event_attr(&attr, &list.events[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct event_env env = {};
	char *list, *cursor, *text;

	if (!size)
		return 0;
	list = cursor = strndup((const char *)data + 1, size - 1);
	CHECK(list);
	env.pmus = catalogues[data[0] % ARRAY_SIZE(catalogues)];
	while ((text = event_next_text(&cursor)))
		parse(&env, text);
	free(list);
	return 0;
}
