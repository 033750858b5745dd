/* SPDX-License-Identifier: MIT */

#include "service/profiles/profile-settings.h"

#include "counting/event/firing.h"
#include "counting/event/parse.h"

#include <errno.h>
#include <string.h>

/* cpu-clock's samples have copies of stacks up to this rate, so that their rings stay small. */
#define COPIED_RATE_MAX 99

_Static_assert(CONFIG_MAX_STACK_BYTES <= SAMPLED_STACK_MAX, "the config has the bounds of what is sampled");

/* --- texts */

/* One text, of an event that may be several on this machine. */
static int parse_text(struct event_list *ret, const struct event_env *env, const char *text, struct reason *why)
{
	_cleanup_(freep) char *texts = strdup(text);
	char *cursor = texts, *first;
	int r;

	if (!texts)
		return reason_set(why, -ENOMEM, "out of memory");
	first = event_next_text(&cursor);
	if (!first || event_next_text(&cursor))
		return reason_set(why, -EINVAL, "one event is sampled, not several; make a section for each");
	r = event_parse(ret, env, first, why);
	return r == -ENOMEM ? reason_set(why, r, "out of memory") : r;
}

/* profile: NULL for cpu-clock. */
static int parse_event(struct event_list *ret, const struct config_profile *profile, const struct event_env *env,
		       struct reason *why)
{
	int r = parse_text(ret, env, profile ? profile->event.text : PROFILE_CPU_CLOCK, why);

	if (r < 0 && profile)
		reason_prefix(why, r, "%s:%u: event", profile->event.place.file, profile->event.place.line);
	return r;
}

int profile_settings_check(const struct config *config, const struct event_env *env, struct reason *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->nr_profiles; i++) {
		_cleanup_(event_list_release) struct event_list list = {};

		r = parse_event(&list, &config->profiles[i], env, why);
	}
	return r;
}

int profile_settings_events(struct event_list *ret, const struct config *config, const struct event_env *env,
			    const char *name, struct reason *why)
{
	*ret = (struct event_list){};
	if (strcmp(name, PROFILE_CPU_CLOCK) == 0)
		return parse_event(ret, NULL, env, why);
	for (size_t i = 0; i < config->nr_profiles; i++)
		if (strcmp(name, config->profiles[i].name) == 0)
			return parse_event(ret, &config->profiles[i], env, why);
	return 0;
}

/* --- one event */

/* -EOPNOTSUPP or -ENOENT with the sentence in why: it can't be sampled here, also if it opens and does not count. */
static int explain_absent(const struct event_list *list, struct async_close *closer, struct reason *why)
{
	struct reason missed = {};
	int fd;

	for (size_t i = 0; i < list->nr; i++)
		if (list->events[i].uncore)
			return reason_set(why, -EOPNOTSUPP, "%s is a device's event, and has no tasks to be sampled",
					  list->events[i].text);
	for (size_t i = 0; i < list->nr; i++)
		if (!list->events[i].absent) {
			bool fires = event_fires(&list->events[i], &fd, &missed);

			async_close_submit(closer, fd);
			if (fires)
				return 0;
		}
	if (missed.text[0])
		return reason_set(why, -EOPNOTSUPP, "%s", missed.text);
	return reason_set(why, -ENOENT, "%s",
			  list->nr && list->events[0].why_absent ? list->events[0].why_absent :
								   "this machine does not have it");
}

/* -ENOMEM. */
static int copy_text(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

static int make_variant(struct sampled_variant *ret, const struct event *event)
{
	int r = copy_text(&ret->text, event->text);

	event_attr(&ret->attr, event);
	if (event->probe)
		ret->attr.attr.config1 = 0;
	ret->is_slow_to_close = event_is_slow_to_close(event);
	if (r == 0)
		r = copy_text(&ret->probe, event->probe);
	if (r == 0)
		r = copy_text(&ret->filter, event->filter);
	return r < 0 ? r : cpulist_copy(&ret->cpus, &event->cpus);
}

static int make_variants(struct sampled_event *ret, const struct event_list *list)
{
	int r = 0;

	ret->variants = calloc(list->nr + 1, sizeof(*ret->variants));
	if (!ret->variants)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < list->nr; i++)
		if (!list->events[i].absent)
			r = make_variant(&ret->variants[ret->nr++], &list->events[i]);
	return r;
}

static int make_texts(struct sampled_event *ret, const char *name, const char *text, const struct event *event,
		      const char *problem)
{
	const char *unit = event_unit_name(event->unit);
	int r = copy_text(&ret->name, name);

	if (r == 0 && asprintf(&ret->key, "%s=%s", name, text) < 0) {
		ret->key = NULL;
		r = -ENOMEM;
	}
	if (r == 0)
		r = copy_text(&ret->unit, unit[0] ? unit : "count");
	ret->scale = event->scale;
	return r < 0 ? r : copy_text(&ret->problem, problem[0] ? problem : NULL);
}

/* On failure, ret has the parts that were made. */
static int make_event(struct sampled_event *ret, const struct config_profile *profile, const struct event_env *env,
		      struct async_close *closer, struct reason *why)
{
	_cleanup_(event_list_release) struct event_list list = {};
	const char *name = profile ? profile->name : PROFILE_CPU_CLOCK;
	struct reason problem = {};
	int r = parse_event(&list, profile, env, why);

	if (r < 0)
		return r;
	(void)explain_absent(&list, closer, &problem);
	r = make_variants(ret, &list);
	if (r == 0)
		r = make_texts(ret, name, profile ? profile->event.text : name, &list.events[0], problem.text);
	return r < 0 ? reason_set(why, r, "out of memory") : 0;
}

/* --- all of them */

static int copy_texts(char ***ret, size_t *ret_nr, const struct config_list *list)
{
	*ret = calloc(list->nr + 1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	for (; *ret_nr < list->nr; ++*ret_nr)
		if (copy_text(&(*ret)[*ret_nr], list->items[*ret_nr]) < 0)
			return -ENOMEM;
	return 0;
}

static int make_keeps(struct profiler_settings *ret, const struct config *config)
{
	ret->keeps = calloc(config->nr_captures + 1, sizeof(*ret->keeps));
	if (!ret->keeps)
		return -ENOMEM;
	for (; ret->nr_keeps < config->nr_captures; ret->nr_keeps++) {
		const struct config_capture *capture = &config->captures[ret->nr_keeps];

		ret->keeps[ret->nr_keeps].nr = capture->keep;
		if (copy_text(&ret->keeps[ret->nr_keeps].rule, capture->name) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int make_events(struct profiler_settings *ret, const struct config *config, const struct event_env *env,
		       struct async_close *closer, struct reason *why)
{
	int r = 0;

	if (!config->profiles_enabled)
		return 0;
	ret->events = calloc(config->nr_profiles + 1, sizeof(*ret->events));
	if (!ret->events)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i <= config->nr_profiles; i++) {
		const struct config_profile *profile = i ? &config->profiles[i - 1] : NULL;
		struct sampled_event *event = &ret->events[ret->nr_events++];

		event->period = profile ? profile->period : 0;
		event->rate = profile ? profile->rate : config->profiles_rate;
		if (profile)
			event->stack_bytes = profile->stack_bytes;
		else if (event->rate <= COPIED_RATE_MAX)
			event->stack_bytes = config->profiles_stack_bytes;
		r = make_event(event, profile, env, closer, why);
	}
	return r;
}

int profile_settings_make(struct profiler_settings *ret, const struct config *config, const struct cpulist *cpus,
			  const struct event_env *env, struct async_close *closer, struct reason *why)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings = {
		.memory = config->profiles_memory,
		.capture_memory = config->capture_memory,
		.tables = config->profiles_tables,
		.jit = config->profiles_jit,
	};
	int r = make_events(&settings, config, env, closer, why);

	if (r < 0)
		return r;
	r = cpulist_copy(&settings.cpus, cpus);
	if (r == 0)
		r = copy_texts(&settings.include, &settings.nr_include, &config->profiles_include);
	if (r == 0)
		r = copy_texts(&settings.exclude, &settings.nr_exclude, &config->profiles_exclude);
	if (r == 0)
		r = make_keeps(&settings, config);
	if (r == 0)
		r = copy_text(&settings.procfs, config->procfs.text);
	if (r < 0)
		return reason_set(why, r, "out of memory");
	*ret = steal_struct(settings);
	return 0;
}
