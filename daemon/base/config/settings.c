/* SPDX-License-Identifier: MIT */

#include "base/config/settings.h"

#include "base/util/clock.h"

#include <errno.h>
#include <string.h>

/* Where the texts and the lists are in struct config, so that freeing and copying need not name each. */
static const size_t text_offsets[] = {
	offsetof(struct config, procfs),	  offsetof(struct config, sysfs),
	offsetof(struct config, tls_certificate), offsetof(struct config, tls_key),
	offsetof(struct config, tls_client_ca),	  offsetof(struct config, tls_client_crl),
	offsetof(struct config, users),		  offsetof(struct config, web_config),
	offsetof(struct config, cors_origin),	  offsetof(struct config, cgroup_mount),
};

static const size_t list_offsets[] = {
	offsetof(struct config, listen),	   offsetof(struct config, tls_client_names),
	offsetof(struct config, cpu_groups),	   offsetof(struct config, cpu_exclude),
	offsetof(struct config, cgroup_groups),	   offsetof(struct config, include),
	offsetof(struct config, exclude),	   offsetof(struct config, profiles_include),
	offsetof(struct config, profiles_exclude), offsetof(struct config, container_files),
};

/* --- sections with a name */

/* What they begin with. */
struct named {
	char *name;
	struct config_place place;
};

_Static_assert(offsetof(struct config_group, place) == offsetof(struct named, place), "a group is named");
_Static_assert(offsetof(struct config_profile, place) == offsetof(struct named, place), "a profile is named");
_Static_assert(offsetof(struct config_capture, place) == offsetof(struct named, place), "a capture is named");

static void named_release(struct named *named)
{
	free(named->name);
	config_place_release(&named->place);
}

static int named_copy(struct named *ret, const struct named *named)
{
	ret->name = strdup(named->name);
	return ret->name ? config_place_set(&ret->place, named->place.file, named->place.line) : -ENOMEM;
}

static struct named *named_find(void *items, size_t nr, size_t size, const char *name, size_t n)
{
	for (size_t i = 0; i < nr; i++) {
		struct named *named = (struct named *)((char *)items + i * size);

		if (strncmp(named->name, name, n) == 0 && !named->name[n])
			return named;
	}
	return NULL;
}

/* The one of that name, with its new place. If there is none, a zeroed one is added to the array that `items` is the
 * address of. */
static int named_add(void *items, size_t *nr, size_t size, const char *name, size_t n, const struct config_place *place,
		     bool *ret_new, struct named **ret)
{
	_cleanup_(config_place_release) struct config_place copy = {};
	struct named *named = named_find(*(void **)items, *nr, size, name, n);
	int r = config_place_set(&copy, place->file, place->line);

	*ret_new = !named;
	if (r == 0 && !named) {
		char *text;

		if (*nr >= CONFIG_MAX_ENTRIES)
			return -E2BIG;
		text = config_array_grow(items, *nr, size) ? strndup(name, n) : NULL;
		if (!text)
			return -ENOMEM;
		named = (struct named *)(*(char **)items + *nr * size);
		memset(named, 0, size);
		named->name = text;
		++*nr;
	}
	if (r < 0)
		return r;
	config_place_release(&named->place);
	named->place = steal_struct(copy);
	*ret = named;
	return 0;
}

/* --- groups */

static void group_release(struct config_group *group)
{
	named_release((struct named *)group);
	free(group->events);
	config_place_release(&group->events_place);
	*group = (struct config_group){};
}

static int group_copy(struct config_group *ret, const struct config_group *group)
{
	_cleanup_(group_release) struct config_group copy = { .alone = group->alone, .split = group->split };
	int r = named_copy((struct named *)&copy, (const struct named *)group);

	copy.events = strdup(group->events);
	if (!copy.events)
		return -ENOMEM;
	if (r == 0 && group->events_place.file)
		r = config_place_set(&copy.events_place, group->events_place.file, group->events_place.line);
	if (r < 0)
		return r;

	*ret = steal_struct(copy);
	return 0;
}

const struct config_group *config_find_group(const struct config *config, const char *name)
{
	return (const struct config_group *)named_find(config->groups, config->nr_groups, sizeof(*config->groups), name,
						       strlen(name));
}

/* Without events, which have to be given; split, which is the default of its key. */
int config_add_group(struct config *config, const char *name, size_t n, const struct config_place *place,
		     struct config_group **ret)
{
	_cleanup_(freep) char *events = strdup("");
	struct named *named;
	bool new;
	int r = events ? named_add(&config->groups, &config->nr_groups, sizeof(*config->groups), name, n, place, &new,
				   &named) :
			 -ENOMEM;

	if (r < 0)
		return r;
	*ret = (struct config_group *)named;
	if (new) {
		(*ret)->split = true;
		(*ret)->events = steal_ptr(events);
	}
	return 0;
}

/* --- profiles */

static void profile_release(struct config_profile *profile)
{
	named_release((struct named *)profile);
	config_text_release(&profile->event);
	*profile = (struct config_profile){};
}

static int profile_copy(struct config_profile *ret, const struct config_profile *profile)
{
	_cleanup_(profile_release) struct config_profile copy = {
		.rate = profile->rate,
		.period = profile->period,
		.stack_bytes = profile->stack_bytes,
	};
	int r = named_copy((struct named *)&copy, (const struct named *)profile);

	if (r == 0 && profile->event.text)
		r = config_text_set(&copy.event, profile->event.text, &profile->event.place);
	if (r < 0)
		return r;
	*ret = steal_struct(copy);
	return 0;
}

int config_add_profile(struct config *config, const char *name, size_t n, const struct config_place *place,
		       struct config_profile **ret)
{
	struct named *named;
	bool new;
	int r = named_add(&config->profiles, &config->nr_profiles, sizeof(*config->profiles), name, n, place, &new,
			  &named);

	if (r == 0)
		*ret = (struct config_profile *)named;
	return r;
}

/* --- captures */

static void capture_release(struct config_capture *capture)
{
	named_release((struct named *)capture);
	config_text_release(&capture->when);
	config_text_release(&capture->event);
	*capture = (struct config_capture){};
}

static int capture_copy(struct config_capture *ret, const struct config_capture *capture)
{
	_cleanup_(capture_release) struct config_capture copy = *capture;
	int r;

	copy.name = NULL;
	copy.place = (struct config_place){};
	copy.when = copy.event = (struct config_text){};
	r = named_copy((struct named *)&copy, (const struct named *)capture);
	if (r == 0 && capture->when.text)
		r = config_text_set(&copy.when, capture->when.text, &capture->when.place);
	if (r == 0 && capture->event.text)
		r = config_text_set(&copy.event, capture->event.text, &capture->event.place);
	if (r < 0)
		return r;
	*ret = steal_struct(copy);
	return 0;
}

int config_add_capture(struct config *config, const char *name, size_t n, const struct config_place *place,
		       struct config_capture **ret)
{
	struct named *named;
	bool new;
	int r = config->nr_captures >= CONFIG_MAX_CAPTURES &&
				!named_find(config->captures, config->nr_captures, sizeof(*config->captures), name, n) ?
			-E2BIG :
			named_add(&config->captures, &config->nr_captures, sizeof(*config->captures), name, n, place,
				  &new, &named);

	if (r < 0)
		return r;
	*ret = (struct config_capture *)named;
	if (new) {
		(*ret)->before = 30 * (uint64_t)NS_PER_S;
		(*ret)->after = 10 * (uint64_t)NS_PER_S;
		(*ret)->every = 600 * (uint64_t)NS_PER_S;
		(*ret)->keep = 16;
	}
	return 0;
}

/* --- the whole */

static struct config_text *text_at(const struct config *config, size_t i)
{
	return (struct config_text *)((char *)(uintptr_t)config + text_offsets[i]);
}

static struct config_list *list_at(const struct config *config, size_t i)
{
	return (struct config_list *)((char *)(uintptr_t)config + list_offsets[i]);
}

void config_release(struct config *config)
{
	for (size_t i = 0; i < ARRAY_SIZE(text_offsets); i++)
		config_text_release(text_at(config, i));
	for (size_t i = 0; i < ARRAY_SIZE(list_offsets); i++)
		config_list_release(list_at(config, i));
	for (size_t i = 0; i < config->nr_groups; i++)
		group_release(&config->groups[i]);
	free(config->groups);
	for (size_t i = 0; i < config->nr_profiles; i++)
		profile_release(&config->profiles[i]);
	free(config->profiles);
	for (size_t i = 0; i < config->nr_captures; i++)
		capture_release(&config->captures[i]);
	free(config->captures);
	*config = (struct config){};
}

void config_disable_profiles(struct config *config)
{
	config->profiles_enabled = false;
}

struct config *config_free(struct config *config)
{
	if (!config)
		return NULL;
	config_release(config);
	free(config);
	return NULL;
}

static int copy_texts(struct config *ret, const struct config *config)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(text_offsets); i++) {
		const struct config_text *text = text_at(config, i);

		if (text->text)
			r = config_text_set(text_at(ret, i), text->text, &text->place);
	}
	return r;
}

static int copy_lists(struct config *ret, const struct config *config)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(list_offsets); i++)
		r = config_list_copy(list_at(ret, i), list_at(config, i));
	return r;
}

static int copy_groups(struct config *ret, const struct config *config)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->nr_groups; i++) {
		if (!config_array_grow(&ret->groups, i, sizeof(*ret->groups)))
			return -ENOMEM;
		r = group_copy(&ret->groups[i], &config->groups[i]);
		ret->nr_groups += r == 0;
	}
	return r;
}

static int copy_profiles(struct config *ret, const struct config *config)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->nr_profiles; i++) {
		if (!config_array_grow(&ret->profiles, i, sizeof(*ret->profiles)))
			return -ENOMEM;
		r = profile_copy(&ret->profiles[i], &config->profiles[i]);
		ret->nr_profiles += r == 0;
	}
	return r;
}

static int copy_captures(struct config *ret, const struct config *config)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->nr_captures; i++) {
		if (!config_array_grow(&ret->captures, i, sizeof(*ret->captures)))
			return -ENOMEM;
		r = capture_copy(&ret->captures[i], &config->captures[i]);
		ret->nr_captures += r == 0;
	}
	return r;
}

int config_copy(struct config *ret, const struct config *config)
{
	_cleanup_(config_release) struct config copy = *config;
	int r;

	/* Owned members are copied; the others are plain values. */
	for (size_t i = 0; i < ARRAY_SIZE(text_offsets); i++)
		*text_at(&copy, i) = (struct config_text){};
	for (size_t i = 0; i < ARRAY_SIZE(list_offsets); i++)
		*list_at(&copy, i) = (struct config_list){};
	copy.groups = NULL;
	copy.profiles = NULL;
	copy.captures = NULL;
	copy.nr_groups = copy.nr_profiles = copy.nr_captures = 0;

	r = copy_texts(&copy, config);
	if (r == 0)
		r = copy_lists(&copy, config);
	if (r == 0)
		r = copy_groups(&copy, config);
	if (r == 0)
		r = copy_profiles(&copy, config);
	if (r == 0)
		r = copy_captures(&copy, config);
	if (r < 0)
		return r;

	*ret = steal_struct(copy);
	return 0;
}
