/* SPDX-License-Identifier: MIT */

#include "profiler/profile-events.h"

#include "base/util/clock.h"

#include <errno.h>
#include <string.h>

static void event_done(struct profile_event *event)
{
	free(event->name);
	free(event->key);
	event_list_release(&event->events);
}

void profile_events_release(struct profile_events *events)
{
	for (size_t i = 0; i < events->nr; i++)
		event_done(&events->items[i]);
	free(events->items);
	free(events->names);
	*events = (struct profile_events){};
}

/* One text, of an event that may be several on this machine. */
static int parse_text(struct event_list *ret, const struct event_env *env, const char *text, struct reason *why)
{
	_cleanup_(freep) char *texts = strdup(text);
	char *cursor = texts, *first;

	if (!texts)
		return -ENOMEM;
	first = event_next_text(&cursor);
	if (!first || event_next_text(&cursor))
		return reason_set(why, -EINVAL, "one event is sampled, not several; make a section for each");
	return event_parse(ret, env, first, why);
}

/* Appends one; text and name are copied. */
static int add_event(struct profile_events *events, const struct event_env *env, const char *name, const char *text,
		     struct reason *why)
{
	struct profile_event *event = &events->items[events->nr];
	int r = parse_text(&event->events, env, text, why);

	if (r == 0) {
		event->name = strdup(name);
		if (!event->name || asprintf(&event->key, "%s=%s", name, text) < 0) {
			event->key = NULL;
			r = -ENOMEM;
		}
	}
	if (r < 0) {
		event_done(event);
		*event = (struct profile_event){};
		return r == -ENOMEM ? reason_set(why, r, "out of memory") : r;
	}
	event->what = (struct sampled_event){ .events = event->events.events, .nr = event->events.nr };
	events->names[events->nr++] = event->name;
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A clock's period is in ns. */
static void set_pace(struct sampled_event *what, uint64_t period, uint64_t rate, uint64_t max_rate)
{
	uint64_t shortest = sampled_event_is_clock(what) ? NS_PER_S / max_rate : 0;

	what->period = period && period < shortest ? shortest : period;
	what->rate = least(rate, max_rate);
}

int profile_events_parse(struct profile_events *ret, const struct config *config, const struct event_env *env,
			 uint64_t max_rate, struct reason *why)
{
	_cleanup_(profile_events_release) struct profile_events events = {};
	int r;

	events.items = calloc(config->nr_profiles + 1, sizeof(*events.items));
	events.names = calloc(config->nr_profiles + 2, sizeof(*events.names));
	if (!events.items || !events.names)
		return reason_set(why, -ENOMEM, "out of memory");
	r = add_event(&events, env, PROFILE_CPU_CLOCK, PROFILE_CPU_CLOCK, why);
	if (r < 0)
		return r;
	set_pace(&events.items[0].what, 0, config->profiles_rate, max_rate);
	for (size_t i = 0; i < config->nr_profiles; i++) {
		const struct config_profile *profile = &config->profiles[i];

		r = add_event(&events, env, profile->name, profile->event.text, why);
		if (r < 0)
			return reason_prefix(why, r, "%s:%u: event", profile->event.place.file,
					     profile->event.place.line);
		set_pace(&events.items[i + 1].what, profile->period, profile->rate, max_rate);
	}
	*ret = steal_struct(events);
	return 0;
}

size_t profile_events_find(const struct profile_events *events, const char *name)
{
	for (size_t i = 0; i < events->nr; i++)
		if (strcmp(events->items[i].name, name) == 0)
			return i;
	return SIZE_MAX;
}
