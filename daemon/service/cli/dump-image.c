/* SPDX-License-Identifier: MIT */

#include "service/cli/dump-image.h"

#include "base/host/boot-id.h"
#include "base/host/unit-folders.h"
#include "base/util/file.h"
#include "base/util/log.h"
#include "counting/engine/perf/perf.h"
#include "counting/plan/build.h"
#include "counting/session/cpu-canary.h"
#include "counting/session/session-image.h"
#include "service/persist/store.h"
#include "web/expose/document.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* StateDirectory= of the unit, for whoever calls this by hand. */
#define SERVICE_FOLDER "/var/lib/perfmond"

struct dump {
	struct unpack in;
	struct image_info info;
	struct plan *plan;
	struct image_engines saved;
	struct engines engines;
	struct totals *totals;
	struct totals_row **rows;
	size_t nr_rows;
	struct cpulist cpus;
	struct stored_pool pool; /* empty: each file that the image names is missed */
	json_t *json;
};

static void dump_release(struct dump *dump)
{
	engines_release(&dump->engines);
	totals_free(dump->totals);
	plan_unref(dump->plan);
	cpulist_release(&dump->cpus);
	free(dump->rows);
	json_decref(dump->json);
}

/* value may be NULL, for want of memory. */
static int put(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) < 0 ? -ENOMEM : 0;
}

/* An array of nr things; item() makes each. */
static json_t *array_of(size_t nr, json_t *(*item)(const void *userdata, size_t i), const void *userdata)
{
	_cleanup_(json_decref_pointer) json_t *array = json_array();

	for (size_t i = 0; i < nr; i++)
		if (json_array_append_new(array, item(userdata, i)) < 0)
			return NULL;
	return json_incref(array);
}

static json_t *size_item(const void *numbers, size_t i)
{
	return document_u64(((const size_t *)numbers)[i]);
}

/* --- the plan */

/* A column without a set has null. */
static json_t *column_item(const void *plan, size_t i)
{
	const struct column *column = &((const struct scope_plan *)plan)->columns[i];

	return json_pack(
		"{s:o, s:o, s:o, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "group", document_text(column->group->name),
		"event", document_text(column->event->text), "metric", document_text(column->event->metric), "state",
		event_state_name(column->state), "set", column->set == NO_SET ? json_null() : document_u64(column->set),
		"type", (json_int_t)column->attr.type, "config", document_hex(column->attr.config), "config1",
		document_hex(column->attr.config1), "config2", document_hex(column->attr.config2), "read_format",
		document_hex(column->attr.read_format), "scale", document_real(column->event->scale));
}

static json_t *set_item(const void *plan, size_t i)
{
	const struct set *set = &((const struct scope_plan *)plan)->sets[i];

	return json_pack("{s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b}", "group", document_text(set->group->name), "engine",
			 document_text(set->engine ? set->engine->name : NULL), "columns",
			 array_of(set->nr, size_item, set->columns), "cpus", document_cpus(&set->cpus), "exact",
			 set->exact, "uncore", set->uncore, "pinned", set->pinned, "exclusive", set->exclusive);
}

static json_t *scope_json(const struct scope_plan *plan)
{
	return json_pack("{s:o, s:o}", "columns", array_of(plan->nr_columns, column_item, plan), "sets",
			 array_of(plan->nr_sets, set_item, plan));
}

/* --- the steps */

static json_t *place_item(const void *topology, size_t cpu)
{
	const struct cpu_topology *places = topology;

	return json_pack("{s:i, s:i}", "package", places->places[cpu].package, "die", places->dies[cpu]);
}

static int read_machine(struct dump *dump)
{
	_cleanup_(cpulist_release) struct cpulist known = {};
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {};
	bool per_cpu = unpack_at_most(&dump->in, 1);
	int r = image_get_cpus(&dump->in, &dump->cpus);

	if (r == 0)
		r = image_get_cpus(&dump->in, &known);
	if (r == 0)
		r = image_get_topology(&dump->in, &topology);
	if (r == 0)
		r = put(dump->json, "cgroup_per_cpu", json_boolean(per_cpu));
	if (r == 0)
		r = put(dump->json, "cpus", document_cpus(&dump->cpus));
	if (r == 0)
		r = put(dump->json, "known_cpus", document_cpus(&known));
	return r < 0 ? r : put(dump->json, "topology", array_of(topology.nr, place_item, &topology));
}

static int read_plan(struct dump *dump)
{
	int r = image_get_plan(&dump->in, &dump->plan);

	if (r == 0 && dump->info.names_engines)
		r = image_get_engines(&dump->in, dump->plan, &dump->saved);
	if (r < 0)
		return r;
	engine_note_credited(dump->plan);
	r = plan_add_counters(dump->plan);
	return r < 0 ? r :
		       put(dump->json, "plan",
			   json_pack("{s:o, s:o}", scope_name(SCOPE_CPU), scope_json(&dump->plan->scope[SCOPE_CPU]),
				     scope_name(SCOPE_CGROUP), scope_json(&dump->plan->scope[SCOPE_CGROUP])));
}

static json_t *cell_item(const void *userdata, size_t i)
{
	const struct totals_row *row = userdata;

	return json_pack("{s:o, s:o, s:b}", "total", document_u64(row->cells[i].total), "at_tick",
			 document_u64(row->rates[i].at_tick), "measured", row->cells[i].measured);
}

static json_t *times_item(const void *userdata, size_t i)
{
	const struct totals_times *times = &((const struct totals_row *)userdata)->times[i];

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "enabled_ns", document_u64(times->enabled), "running_ns",
			 document_u64(times->running), "enabled_at_tick_ns", document_u64(times->enabled_at_tick),
			 "running_at_tick_ns", document_u64(times->running_at_tick), "covered_ns",
			 document_u64(times->covered), "waited_ns", document_u64(times->waited));
}

/* The CPU -1 is the sum of all. Cells are in the order of the scope's columns, times in that of its sets. */
static json_t *totals_item(const void *userdata, size_t i)
{
	const struct dump *dump = userdata;
	const struct totals_row *row = dump->rows[i];
	const struct scope_plan *plan = &dump->plan->scope[row->scope];

	return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "scope", scope_name(row->scope), "cpu", row->cpu,
			 "cgroup_id", row->identity ? document_u64(row->identity->id) : json_null(), "cgroup",
			 document_text(row->identity ? row->identity->label : NULL), "since_ns",
			 document_u64(row->since), "gone_at_ns", document_u64(row->gone_at), "cells",
			 array_of(plan->nr_columns, cell_item, row), "times", array_of(plan->nr_sets, times_item, row));
}

static int read_totals(struct dump *dump)
{
	int r = totals_new(&dump->totals, dump->plan, SIZE_MAX);

	if (r == 0)
		r = image_get_totals(&dump->in, dump->totals, &dump->rows, &dump->nr_rows);
	if (r < 0)
		return r;
	r = put(dump->json, "last_tick_ns", document_u64(dump->totals->last_tick));
	return r < 0 ? r : put(dump->json, "rows", array_of(dump->nr_rows, totals_item, dump));
}

struct scope_states {
	const struct states *states;
	enum scope scope;
};

static json_t *state_item(const void *userdata, size_t i)
{
	const struct scope_states *of = userdata;
	const struct stall *stall = &states_column(of->states, of->scope, i)->stall;

	return json_pack("{s:o, s:o, s:b, s:b}", "busy_ns", document_u64(stall->busy), "counted",
			 document_u64(stall->counted), "has_counted", stall->has_counted, "stalled", stall->stalled);
}

static json_t *states_json(const struct dump *dump, const struct states *states, enum scope scope)
{
	return array_of(dump->plan->scope[scope].nr_columns, state_item, &(struct scope_states){ states, scope });
}

static int read_states(struct dump *dump)
{
	_cleanup_(states_freep) struct states *states = NULL;
	int r = states_new(&states, dump->plan);

	if (r == 0)
		r = image_get_states(&dump->in, states);
	return r < 0 ? r :
		       put(dump->json, "states",
			   json_pack("{s:o, s:o}", scope_name(SCOPE_CPU), states_json(dump, states, SCOPE_CPU),
				     scope_name(SCOPE_CGROUP), states_json(dump, states, SCOPE_CGROUP)));
}

/* --- the parts of the engines */

/* ops: NULL, if this build lacks the engine. `files` are those that a restart would need; the rest of a part is the
 * engine's own. Only parts of images that name engines have their length before them. */
static int read_part(struct dump *dump, const struct engine_ops *ops, json_t *parts)
{
	const struct image_engines one = { .ops = { ops }, .nr = 1 };
	struct engine *engine = ops ? engines_find(&dump->engines, ops) : NULL;
	size_t before = dump->in.left, missed = dump->pool.nr_missed;
	json_t *part;
	int r = dump->info.names_engines ?
			image_get_parts(&dump->in, &one, &dump->engines, dump->rows, dump->nr_rows, &dump->pool) :
			ops->restore(engine, &dump->in, dump->rows, dump->nr_rows, &dump->pool);

	if (r < 0)
		return r;
	part = json_pack("{s:o, s:o, s:o}", "engine", document_text(ops ? ops->name : NULL), "bytes",
			 document_u64(before - dump->in.left), "files", document_u64(dump->pool.nr_missed - missed));
	return json_array_append_new(parts, part) < 0 ? -ENOMEM : 0;
}

static int read_engines(struct dump *dump)
{
	static const struct privilege none = {};
	const struct engine_env env = { .privilege = &none };
	_cleanup_(json_decref_pointer) json_t *parts = json_array();
	int r = engines_new(&dump->engines, dump->plan, &env);

	if (!dump->info.names_engines)
		dump->saved = (struct image_engines){ .ops = { &engine_perf }, .nr = 1 };
	for (size_t i = 0; i < dump->saved.nr && r == 0; i++)
		r = read_part(dump, dump->saved.ops[i], parts);
	return r < 0 ? r : put(dump->json, "engines", json_incref(parts));
}

/* sampled comes last, and images of earlier daemons lack it. */
static int read_canaries(struct dump *dump)
{
	struct cpu_canaries canaries = {};
	size_t missed = dump->pool.nr_missed;
	int r = cpu_canaries_new(&canaries, dump->cpus.nr);

	if (r == 0)
		r = cpu_canaries_restore(&canaries, &dump->in, &dump->cpus, &dump->engines, &dump->pool);
	cpu_canaries_release(&canaries);
	if (r == 0)
		r = put(dump->json, "canaries", document_u64(dump->pool.nr_missed - missed));
	if (r == 0 && dump->in.left)
		r = put(dump->json, "sampled_ns", document_u64(unpack_u64(&dump->in)));
	return r == 0 && dump->in.bad ? -EBADMSG : r;
}

/* In the order of session_save(). */
static const struct {
	const char *part;
	int (*read)(struct dump *dump);
} steps[] = {
	{ "CPUs", read_machine },  { "plan", read_plan },	{ "totals", read_totals },
	{ "states", read_states }, { "engines", read_engines }, { "canaries", read_canaries },
};

/* --- the whole */

static int put_header(struct dump *dump, const char *path, size_t size)
{
	_cleanup_(freep) char *boot_id = boot_id_read();

	dump->json = json_pack("{s:o, s:o, s:o, s:o, s:o}", "file", document_text(path), "bytes", document_u64(size),
			       "format", document_u64(dump->info.format), "saved_at_ns",
			       document_u64(dump->info.saved_at), "boot_id", document_text(dump->info.boot_id));
	if (!boot_id || !dump->json)
		return -ENOMEM;
	if (strcmp(boot_id, dump->info.boot_id) == 0)
		return 0;
	return put(dump->json, "note",
		   json_string("The image is of another boot: its ids and times mean nothing on this machine now."));
}

static int dump_bytes(struct dump *dump, const char *path, const void *bytes, size_t size, struct reason *why)
{
	int r = image_open(&dump->in, bytes, size, NULL, &dump->info, why);

	if (r < 0)
		return r;
	r = put_header(dump, path, size);
	for (size_t i = 0; i < ARRAY_SIZE(steps) && r == 0; i++) {
		r = steps[i].read(dump);
		if (r == -EBADMSG)
			return reason_set(why, r, "they make no sense: the %s, before byte %zu of %zu", steps[i].part,
					  (size_t)((const char *)dump->in.at - (const char *)bytes), size);
	}
	return r < 0 ? reason_set(why, r, "out of memory") : 0;
}

/* Another process may write to the file meanwhile: so its bytes are copied, and not mapped. */
static int read_file(const char *path, void **ret, size_t *ret_size, struct reason *why)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_(freep) char *bytes = NULL;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return reason_set(why, -errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size > STORE_IMAGE_MAX)
		return reason_set(why, -EBADMSG, "no image is of this kind or size");
	bytes = malloc((size_t)st.st_size + 1);
	r = bytes ? read_exactly_at(fd, bytes, (size_t)st.st_size, 0) : -ENOMEM;
	if (r < 0)
		return reason_set(why, r, "%s", strerror(-r));
	*ret = steal_ptr(bytes);
	*ret_size = (size_t)st.st_size;
	return 0;
}

static char *default_path(void)
{
	_cleanup_(freep) char *folder = NULL;
	char *path;

	if (unit_state_folder(&folder) < 0 || asprintf(&path, "%s/" STORE_STATE_FILE, folder ?: SERVICE_FOLDER) < 0)
		return NULL;
	return path;
}

int dump_image_run(const struct options *options)
{
	_cleanup_(dump_release) struct dump dump = { .pool = { .max = SIZE_MAX } };
	_cleanup_(freep) char *path = options->file ? strdup(options->file) : default_path();
	_cleanup_(freep) void *bytes = NULL;
	struct reason why = {};
	size_t size = 0;
	int r = path ? read_file(path, &bytes, &size, &why) : reason_set(&why, -ENOMEM, "out of memory");

	if (r == 0)
		r = dump_bytes(&dump, path, bytes, size, &why);
	if (r == 0 && json_dumpf(dump.json, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII) == 0) {
		(void)putchar('\n');
		return EXIT_SUCCESS;
	}
	if (r == -ENOENT && !options->file)
		log_error("%s: %s (it is there while perfmond is stopped)", path, why.text);
	else if (r < 0)
		log_error("%s: the saved totals can't be read: %s", path ?: "--dump-image", why.text);
	else
		log_error("standard output: a part could not be written");
	return EXIT_FAILURE;
}
