/* SPDX-License-Identifier: MIT */

/*
 * profile.proto of pprof. A function or place is a location, a module a mapping with its build id; cgroup and command
 * are labels of the samples. A sample without either has a location of its own, of no mapping. The address of a
 * location is its offset in the file, with mappings that begin at 0: by that and the build id, servers can name it.
 */

#include "base/util/clock.h"
#include "base/util/gzip.h"
#include "base/util/hash.h"
#include "base/util/protobuf.h"
#include "profiler/answer/profile.h"

#include <errno.h>
#include <inttypes.h>

/* Numbers of fields. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION_FIELD = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,

	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT = 2,

	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,

	LABEL_KEY = 1,
	LABEL_STR = 2,

	MAPPING_ID = 1,
	MAPPING_LIMIT = 3,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,

	LOCATION_ID = 1,
	LOCATION_MAPPING_ID = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION_ID = 1,

	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILENAME = 4,
};

struct known_string {
	uint64_t number;
	UT_hash_handle hh;
	char text[];
};

struct known_mapping {
	uint32_t last;
	uint32_t module; /* of the archive */
};

struct pprof {
	const struct expose_profile *what;
	struct buf out;
	struct known_string *strings;
	uint64_t nr_strings;
	struct table locations, mappings; /* struct profile_thing and known_mapping; their numbers are the ids */
	bool failed;
};

static void pprof_release(struct pprof *pprof)
{
	struct known_string *string, *next;

	HASH_ITER(hh, pprof->strings, string, next) {
		HASH_DEL(pprof->strings, string);
		free(string);
	}
	table_release(&pprof->locations);
	table_release(&pprof->mappings);
	buf_release(&pprof->out);
}

/* The number of a text in the table of strings, to which it is added. */
static uint64_t string_number(struct pprof *pprof, const char *text)
{
	size_t size = strlen(text);
	struct known_string *string;

	HASH_FIND(hh, pprof->strings, text, size, string);
	if (string)
		return string->number;
	string = calloc(1, sizeof(*string) + size + 1);
	if (!string) {
		pprof->failed = true;
		return 0;
	}
	memcpy(string->text, text, size);
	string->number = pprof->nr_strings;
	HASH_ADD_KEYPTR(hh, pprof->strings, string->text, size, string);
	if (!string->hh.tbl) {
		free(string);
		pprof->failed = true;
		return 0;
	}
	pprof->nr_strings++;
	protobuf_bytes(&pprof->out, PROFILE_STRING_TABLE, text, size);
	return string->number;
}

static void append_value_type(struct pprof *pprof, unsigned field, const char *type, const char *unit)
{
	_cleanup_(buf_release) struct buf message = {};

	protobuf_u64(&message, VALUE_TYPE_TYPE, string_number(pprof, type));
	protobuf_u64(&message, VALUE_TYPE_UNIT, string_number(pprof, unit));
	protobuf_message(&pprof->out, field, &message);
}

static const struct archive_module *module_at(const struct pprof *pprof, uint32_t module)
{
	return archive_module(pprof->what->profile->archive, module);
}

static uint64_t build_id_string(struct pprof *pprof, const struct module_key *key)
{
	char text[2 * MODULE_BUILD_ID_MAX + 1] = "";

	for (uint32_t i = 0; i < key->build_id_size && i < MODULE_BUILD_ID_MAX; i++)
		(void)snprintf(text + (size_t)2 * i, 3, "%02x", key->build_id[i]);
	return string_number(pprof, text);
}

static uint64_t mapping_id(struct pprof *pprof, uint32_t module)
{
	_cleanup_(buf_release) struct buf message = {};
	const struct known_mapping key = { .module = module };
	size_t unlimited = SIZE_MAX;
	uint32_t id = 0;
	bool new;

	if (table_put(&pprof->mappings, &key, 1, &unlimited, &id, &new) < 0) {
		pprof->failed = true;
		return 0;
	}
	if (!new)
		return id;
	protobuf_u64(&message, MAPPING_ID, id);
	protobuf_u64(&message, MAPPING_LIMIT, INT64_MAX);
	protobuf_u64(&message, MAPPING_FILENAME,
		     string_number(pprof, archive_text(pprof->what->profile->archive, module_at(pprof, module)->path)));
	protobuf_u64(&message, MAPPING_BUILD_ID, build_id_string(pprof, &module_at(pprof, module)->key));
	protobuf_u64(&message, MAPPING_HAS_FUNCTIONS, 1);
	protobuf_message(&pprof->out, PROFILE_MAPPING, &message);
	return id;
}

static void append_function(struct pprof *pprof, uint64_t id, const struct profile_thing *thing)
{
	_cleanup_(buf_release) struct buf message = {}, name = {};
	const struct profile *profile = pprof->what->profile;
	const char *symbol = thing->kind == PROFILE_FUNCTION ? archive_symbol(profile->archive, thing->text) : NULL;

	expose_profile_thing_name(&name, profile, thing);
	buf_char(&name, '\0');
	if (name.failed) {
		pprof->failed = true;
		return;
	}
	protobuf_u64(&message, FUNCTION_ID, id);
	protobuf_u64(&message, FUNCTION_NAME, string_number(pprof, name.data));
	protobuf_u64(&message, FUNCTION_SYSTEM_NAME, string_number(pprof, symbol ? symbol : name.data));
	if (thing->module)
		protobuf_u64(
			&message, FUNCTION_FILENAME,
			string_number(pprof, archive_text(profile->archive, module_at(pprof, thing->module)->path)));
	protobuf_message(&pprof->out, PROFILE_FUNCTION_FIELD, &message);
}

static uint64_t location_id(struct pprof *pprof, const struct profile_thing *thing)
{
	_cleanup_(buf_release) struct buf message = {}, line = {};
	size_t unlimited = SIZE_MAX;
	uint32_t id = 0;
	bool new;

	if (table_put(&pprof->locations, thing, 1, &unlimited, &id, &new) < 0) {
		pprof->failed = true;
		return 0;
	}
	if (!new)
		return id;
	append_function(pprof, id, thing);
	protobuf_u64(&message, LOCATION_ID, id);
	if (thing->module)
		protobuf_u64(&message, LOCATION_MAPPING_ID, mapping_id(pprof, thing->module));
	protobuf_u64(&message, LOCATION_ADDRESS, thing->offset);
	protobuf_u64(&line, LINE_FUNCTION_ID, id);
	protobuf_message(&message, LOCATION_LINE, &line);
	protobuf_message(&pprof->out, PROFILE_LOCATION, &message);
	return id;
}

static void append_label(struct pprof *pprof, struct buf *sample, const char *key, uint32_t text)
{
	_cleanup_(buf_release) struct buf message = {};

	protobuf_u64(&message, LABEL_KEY, string_number(pprof, key));
	protobuf_u64(&message, LABEL_STR, string_number(pprof, archive_text(pprof->what->profile->archive, text)));
	protobuf_message(sample, SAMPLE_LABEL, &message);
}

/* The innermost function first, as the node's way up is. */
static void append_sample(struct pprof *pprof, const struct profile_node *node)
{
	_cleanup_(buf_release) struct buf message = {}, labels = {};
	uint64_t locations[ARCHIVE_DEPTH_MAX + 4];
	const uint64_t values[] = { node->self_samples, node->self };
	struct profile_thing thing = expose_profile_no_function(pprof->what->profile, node);
	size_t depth = 0;

	for (; node->parent; node = profile_node(pprof->what->profile, node->parent)) {
		if (node->kind == PROFILE_CGROUP)
			append_label(pprof, &labels, "cgroup", node->text);
		else if (node->kind == PROFILE_COMMAND)
			append_label(pprof, &labels, "comm", node->text);
		else if (node->kind == PROFILE_THREAD)
			append_label(pprof, &labels, "thread", node->text);
		else if (depth < ARRAY_SIZE(locations)) {
			thing = profile_thing_of(node);
			locations[depth++] = location_id(pprof, &thing);
		}
	}
	if (depth == 0)
		locations[depth++] = location_id(pprof, &thing);
	protobuf_packed(&message, SAMPLE_LOCATION_ID, locations, depth);
	protobuf_packed(&message, SAMPLE_VALUE, values, ARRAY_SIZE(values));
	pprof->failed |= labels.failed;
	if (labels.len)
		buf_add(&message, labels.data, labels.len);
	protobuf_message(&pprof->out, PROFILE_SAMPLE, &message);
}

/* The type of an event's samples, to be freed: what is sampled anyway has the name that all tools know. Pyroscope
 * refuses a profile with a '-' in a type. */
static char *type_of_event(const char *event)
{
	char *type = strdup(strcmp(event, "cpu-clock") == 0 ? "cpu" : event);

	for (char *p = type; p && (p = strchr(p, '-'));)
		*p = '_';
	return type;
}

static void append_all(struct pprof *pprof, const char *type)
{
	const struct expose_profile *what = pprof->what;
	const struct profile *profile = what->profile;
	/* Weights are whole numbers: of a clock, ns. */
	const char *unit = strcmp(what->measure.unit, "seconds") == 0 ? "nanoseconds" : what->measure.unit;

	(void)string_number(pprof, "");
	append_value_type(pprof, PROFILE_SAMPLE_TYPE, "samples", "count");
	append_value_type(pprof, PROFILE_SAMPLE_TYPE, type, unit);
	for (uint32_t i = 1; i <= profile_nr(profile) && !pprof->failed; i++)
		if (profile_node(profile, i)->self_samples)
			append_sample(pprof, profile_node(profile, i));
	protobuf_u64(&pprof->out, PROFILE_TIME_NANOS, expose_profile_shown(what, profile->from));
	protobuf_u64(&pprof->out, PROFILE_DURATION_NANOS,
		     profile->to > profile->from ? profile->to - profile->from : 0);
	append_value_type(pprof, PROFILE_PERIOD_TYPE, type, unit);
	protobuf_u64(&pprof->out, PROFILE_PERIOD, expose_profile_period(what));
	protobuf_u64(&pprof->out, PROFILE_DEFAULT_SAMPLE_TYPE, string_number(pprof, type));
}

int expose_profile_pprof(struct buf *out, const struct expose_profile *what)
{
	_cleanup_(pprof_release) struct pprof pprof = {
		.what = what,
		.locations = PROFILE_THINGS,
		.mappings = TABLE_OF(struct known_mapping, module, module),
	};

	_cleanup_(freep) char *type = type_of_event(what->measure.event);

	if (!type)
		return buf_finish(out, -ENOMEM);
	append_all(&pprof, type);
	return buf_finish(out,
			  pprof.failed || pprof.out.failed ? -ENOMEM : gzip_add(out, pprof.out.data, pprof.out.len));
}
