/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The table of all keys: which section a key is in, the type and the bounds of its value, and the member of struct
 * config or config_group that takes it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum value_type {
	VALUE_BOOL,
	VALUE_NUMBER,
	VALUE_DURATION, /* ns */
	VALUE_SIZE,	/* bytes */
	VALUE_SHARE,	/* parts in a million */
	VALUE_FILE,	/* struct config_text: a path or the name of a credential */
	VALUE_PATH,	/* struct config_text: an absolute path, of at least min bytes */
	VALUE_TEXT,	/* struct config_text: any text */
	VALUE_ORIGIN,	/* struct config_text: scheme://host:port, as a browser writes it */
	VALUE_ENGINE,	/* uint64_t: enum config_engine */
	VALUE_GROUPS,	/* list: names of groups, separated by spaces or commas */
	VALUE_GLOBS,	/* list: globs on labels, separated by spaces; "\ " is a space in one */
	VALUE_NAMES,	/* list: globs on names of any kind, separated by spaces */
	VALUE_ADDRESS,	/* list: one address a line */
	VALUE_CPUS,	/* list: lists of CPUs ("1,3-5"), and names of lists the kernel has; separated by spaces */
	VALUE_PATHS,	/* list: absolute paths, separated by spaces; at most max */
	VALUE_RULE,	/* struct config_text: see base/config/capture-rule.h */
	VALUE_EVENTS,	/* text of a struct config_group, with its place */
};

/* SECTION_GROUP, SECTION_PROFILE and SECTION_CAPTURE have names: [group "NAME"]. Their keys are members of struct
 * config_group, config_profile and config_capture, all others of struct config. */
enum config_section {
	SECTION_DAEMON,
	SECTION_WEB,
	SECTION_CPU,
	SECTION_CGROUP,
	SECTION_PROFILES,
	SECTION_GROUP,
	SECTION_PROFILE,
	SECTION_CAPTURE,
	_SECTION_MAX,
};

struct config_key {
	enum config_section section;
	const char *name;
	enum value_type type;
	size_t offset;	    /* of the member */
	uint64_t min, max;  /* both are allowed */
	const char *bounds; /* the same in words */
	uint64_t step;	    /* the value is a multiple of it; 0: any */
};

extern const char *const config_sections[_SECTION_MAX];
extern const struct config_key config_keys[];
extern const size_t config_nr_keys;

/* The key whose name is the first n bytes, or NULL. */
const struct config_key *config_key_find(enum config_section section, const char *name, size_t n);

/* May the value go on in further lines? */
bool config_key_goes_on(const struct config_key *key);

/* The name of a section has letters, digits, - and _, at most this many. */
#define CONFIG_GROUP_NAME_MAX 40
bool config_is_group_name(const char *name, size_t n);

/* Does the section have a name? */
bool config_is_named(enum config_section section);
