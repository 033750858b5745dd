/* SPDX-License-Identifier: MIT */

#include "web/expose/metrics.h"

#include "web/expose/self-metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct label_text no_labels = { "", 0 };

/* The labels of a scope's rows, joined into one text: row number i has those from at[2i] to at[2i + 1], and, with the
 * CPU's place, to at[2i + 2]. */
struct row_labels {
	struct buf text;
	size_t *at;
};

/* The state of one walk. */
struct families {
	const struct walk *walk;
	const struct family_writer *writer;
	void *userdata;
	struct row_labels rows[_SCOPE_MAX];
	struct buf labels;    /* the current labels that are not a row's */
	struct buf help;      /* the current help text of an event */
	struct family family; /* the current one */
	bool begun;	      /* the current family has a sample */
};

static void families_release(struct families *f)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		buf_release(&f->rows[scope].text);
		free(f->rows[scope].at);
	}
	buf_release(&f->labels);
	buf_release(&f->help);
}

static struct buf *begin_labels(struct families *f)
{
	f->labels.len = 0;
	return &f->labels;
}

static struct label_text label_text_of(const struct buf *labels)
{
	return labels->len ? (struct label_text){ labels->data, labels->len } : no_labels;
}

static void put_family(struct families *f, const struct family *family)
{
	f->family = *family;
	f->begun = false;
}

/* Called before each sample: a family without samples is not begun. */
static void begin_family(struct families *f)
{
	if (!f->begun)
		f->writer->begin(f->userdata, &f->family);
	f->begun = true;
}

static void put_sample(struct families *f, const struct series *series, uint64_t count, const struct scale *scale)
{
	begin_family(f);
	f->writer->sample(f->userdata, series, count, scale);
}

/* A sample that is not a row's, with labels of its own. */
static int put_single(struct families *f, const struct buf *labels, uint64_t count, const struct scale *scale)
{
	const struct series series = {
		.target = no_labels,
		.own = label_text_of(labels),
		.since = f->walk->snapshot->self.start_time,
	};

	if (labels->failed)
		return -ENOMEM;
	put_sample(f, &series, count, scale);
	return 0;
}

/* --- labels of rows */

static int make_row_labels(struct families *f, enum scope scope)
{
	const struct walk_table *table = &f->walk->table[scope];
	struct row_labels *labels = &f->rows[scope];

	labels->at = calloc(2 * table->nr_rows + 1, sizeof(*labels->at));
	if (!labels->at || !buf_reserve(&labels->text, 1))
		return -ENOMEM;
	for (size_t i = 0; i < table->nr_rows; i++) {
		const struct snapshot_row *row = &table->table->rows[table->rows[i]];

		if (row->identity)
			family_label(&labels->text, "cgroup", row->identity->label);
		family_number_label(&labels->text, "cpu", row->cpu);
		labels->at[2 * i + 1] = labels->text.len;
		family_number_label(&labels->text, "package", row->place.package);
		family_number_label(&labels->text, "die", row->place.die);
		labels->at[2 * i + 2] = labels->text.len;
	}
	return labels->text.failed ? -ENOMEM : 0;
}

/* The series of the i-th selected row. */
static struct series row_series(const struct families *f, const struct walk_table *table, size_t i, bool with_place,
				struct label_text own)
{
	const struct row_labels *labels = &f->rows[table->scope];
	size_t begin = labels->at[2 * i], end = labels->at[2 * i + (with_place ? 2 : 1)];

	return (struct series){
		.target = { labels->text.data + begin, end - begin },
		.own = own,
		.since = table->table->rows[table->rows[i]].since,
	};
}

/* --- events */

/* The i-th selected column. */
static const struct column *nth_column(const struct walk_table *table, size_t i)
{
	return table->table->columns[table->columns[i]].column;
}

/* A selected column and the name of its family. Columns of several PMUs can share a family. */
struct member {
	const char *family;
	size_t at;     /* offset of that name in the list's names */
	size_t column; /* index into the selected columns */
};

struct member_list {
	struct member *items;
	size_t nr;
	struct buf names;
};

static void member_list_release(struct member_list *list)
{
	buf_release(&list->names);
	free(list->items);
}

static int compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int r = strcmp(x->family, y->family);

	return r ? r : (x->column > y->column) - (x->column < y->column);
}

/* All selected columns, those of one family side by side. */
static int find_members(struct member_list *ret, const struct walk_table *table)
{
	ret->items = calloc(table->nr_columns + 1, sizeof(*ret->items));
	if (!ret->items)
		return -ENOMEM;
	for (; ret->nr < table->nr_columns; ret->nr++) {
		struct member *member = &ret->items[ret->nr];

		member->column = ret->nr;
		member->at = ret->names.len;
		family_event_name(&ret->names, table->scope, walk_event(table, ret->nr));
		buf_char(&ret->names, '\0');
	}
	if (ret->names.failed)
		return -ENOMEM;
	for (size_t i = 0; i < ret->nr; i++)
		ret->items[i].family = ret->names.data + ret->items[i].at;
	qsort(ret->items, ret->nr, sizeof(*ret->items), compare_members);
	return 0;
}

/* Valid until the next call. NULL: out of memory. */
static const char *event_help(struct families *f, const struct column *column)
{
	f->help.len = 0;
	family_event_help(&f->help, column, f->walk->snapshot->options.aggregate);
	buf_char(&f->help, '\0');
	return f->help.failed ? NULL : f->help.data;
}

/* The value of a cell that a family shows. */
enum shown_value {
	SHOWN_TOTAL,
	SHOWN_PEAK,
};

static void put_peak(struct families *f, const struct series *series, const struct snapshot_cell *cell,
		     const struct scale *scale)
{
	double peak = snapshot_peak(cell) * scale->real;

	if (!isfinite(peak))
		return;
	begin_family(f);
	f->writer->measure(f->userdata, series, peak);
}

static int put_column(struct families *f, const struct walk_table *table, size_t column, enum shown_value shown)
{
	const struct event *event = walk_event(table, column);
	struct buf *own = begin_labels(f);

	if (event->by_pmu)
		family_label(own, "pmu", event->pmu);
	if (own->failed)
		return -ENOMEM;
	for (size_t i = 0; i < table->nr_rows; i++) {
		const struct snapshot_cell *cell = snapshot_cell(table->table, table->rows[i], table->columns[column]);
		const struct series series = row_series(f, table, i, event->uncore, label_text_of(own));

		if (!cell->measured)
			continue;
		if (shown == SHOWN_PEAK)
			put_peak(f, &series, cell, &table->scales[column]);
		else
			put_sample(f, &series, cell->total, &table->scales[column]);
	}
	return 0;
}

/* Columns of a family have other series each: no plan has two with the same ones, or with a family of ours
 * (counting/session/planner.h). */
static int put_members(struct families *f, const struct walk_table *table, const struct member *members, size_t nr,
		       enum shown_value shown)
{
	for (size_t i = 0; i < nr; i++)
		if (put_column(f, table, members[i].column, shown) < 0)
			return -ENOMEM;
	return 0;
}

static int put_peaks(struct families *f, const struct walk_table *table, const struct member *members, size_t nr,
		     const char *total_help)
{
	_cleanup_(freep) char *name = NULL, *help = NULL;
	struct family family = { .type = FAMILY_GAUGE, .unit = "" };

	if (asprintf(&name, "%s" PEAK_SUFFIX, members[0].family) < 0)
		name = NULL;
	if (asprintf(&help, "Highest rate of one interval within the last minute: %s", total_help) < 0)
		help = NULL;
	if (!name || !help)
		return -ENOMEM;
	family.name = name;
	family.help = help;
	put_family(f, &family);
	return put_members(f, table, members, nr, SHOWN_PEAK);
}

static int put_event_families(struct families *f, const struct walk_table *table, const struct member *members,
			      size_t nr)
{
	const struct column *first = nth_column(table, members[0].column);
	const struct family totals = {
		.name = members[0].family,
		.type = FAMILY_COUNTER,
		.unit = event_unit_name(first->event->unit),
		.help = event_help(f, first),
	};
	int r;

	if (!totals.help)
		return -ENOMEM;
	put_family(f, &totals);
	r = put_members(f, table, members, nr, SHOWN_TOTAL);
	if (r == 0 && f->walk->snapshot->options.peaks)
		r = put_peaks(f, table, members, nr, totals.help);
	return r;
}

/* The two families of each scope with the times of its groups. */
static const struct family times_families[_SCOPE_MAX][2] = {
	[SCOPE_CPU] = {
		{ "perf_cpu_group_enabled_seconds", FAMILY_COUNTER, "seconds",
		  "Time during which the group was enabled on the CPU (the kernel's time_enabled)." },
		{ "perf_cpu_group_running_seconds", FAMILY_COUNTER, "seconds",
		  "Time during which the group was counted on the CPU (the kernel's time_running); absent where that "
		  "is always the time enabled." },
	},
	[SCOPE_CGROUP] = {
		{ "perf_cgroup_group_enabled_seconds", FAMILY_COUNTER, "seconds",
		  "Time during which the group was enabled for the cgroup (the kernel's time_enabled)." },
		{ "perf_cgroup_group_running_seconds", FAMILY_COUNTER, "seconds",
		  "Time during which the group was counted for the cgroup (the kernel's time_running); absent where "
		  "that is always the time enabled." },
	},
};

static int put_events(struct families *f, const struct walk_table *table)
{
	_cleanup_(member_list_release) struct member_list members = {};
	size_t nr;

	if (find_members(&members, table) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < members.nr; i += nr) {
		for (nr = 1; i + nr < members.nr; nr++)
			if (strcmp(members.items[i + nr].family, members.items[i].family))
				break;
		if (put_event_families(f, table, members.items + i, nr) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* --- times of groups */

/* The selected columns of a group, and the sets that have their times. */
struct group_part {
	const char *name;
	size_t *columns, nr_columns; /* indices into the snapshot's table */
	size_t *sets, nr_sets;
};

static void group_part_release(struct group_part *part)
{
	free(part->columns);
	free(part->sets);
}

static bool list_has(const size_t *items, size_t nr, size_t item)
{
	for (size_t i = 0; i < nr; i++)
		if (items[i] == item)
			return true;
	return false;
}

/* The group of the selected column number `first`. Without columns where an earlier column is in the same group, which
 * has been shown with that one. */
static int find_group(struct group_part *ret, const struct scope_plan *plan, const struct walk_table *table,
		      size_t first)
{
	ret->name = nth_column(table, first)->group->name;
	for (size_t i = 0; i < first; i++)
		if (nth_column(table, i)->set != NO_SET && strcmp(nth_column(table, i)->group->name, ret->name) == 0)
			return 0;

	ret->columns = calloc(table->nr_columns, sizeof(*ret->columns));
	ret->sets = calloc(table->nr_columns, sizeof(*ret->sets));
	if (!ret->columns || !ret->sets)
		return -ENOMEM;
	for (size_t i = first; i < table->nr_columns; i++) {
		const struct column *column = nth_column(table, i);
		size_t set;

		if (column->set == NO_SET || strcmp(column->group->name, ret->name))
			continue;
		ret->columns[ret->nr_columns++] = table->columns[i];
		set = set_with_times(plan, column->set);
		if (!list_has(ret->sets, ret->nr_sets, set))
			ret->sets[ret->nr_sets++] = set;
	}
	return 0;
}

/*
 * Sums the times of the group's sets in a row. False where they are unknown: no column of the group is measured there.
 * A group that was enabled and has never run is an exception: its times are known.
 */
static bool group_times(const struct group_part *part, const struct snapshot_table *table, size_t row,
			struct snapshot_times *ret)
{
	const struct snapshot_times *times = table->times + row * table->nr_sets;
	bool known = false;

	*ret = (struct snapshot_times){};
	for (size_t i = 0; i < part->nr_sets; i++) {
		ret->enabled += times[part->sets[i]].enabled;
		ret->running += times[part->sets[i]].running;
	}
	for (size_t i = 0; i < part->nr_columns && !known; i++)
		known = snapshot_cell(table, row, part->columns[i])->measured;
	return known || (ret->enabled > 0 && ret->running == 0);
}

/* Is it counted whenever it is enabled? Then there is no need to say so by a second series. */
static bool always_runs(const struct scope_plan *plan, const struct group_part *part)
{
	for (size_t i = 0; i < part->nr_sets; i++)
		if (!plan->sets[part->sets[i]].exact)
			return false;
	return true;
}

static int put_group_times(struct families *f, const struct walk_table *table, size_t first, bool running)
{
	_cleanup_(group_part_release) struct group_part part = {};
	const struct scope_plan *plan = &f->walk->snapshot->plan->scope[table->scope];
	struct buf *own = begin_labels(f);
	const struct scale scale = SCALE_NS;

	if (find_group(&part, plan, table, first) < 0)
		return -ENOMEM;
	if (part.nr_columns == 0 || (running && always_runs(plan, &part)))
		return 0;
	family_label(own, "group", part.name);
	if (own->failed)
		return -ENOMEM;
	for (size_t i = 0; i < table->nr_rows; i++) {
		const struct series series = row_series(f, table, i, false, label_text_of(own));
		struct snapshot_times times;

		if (group_times(&part, table->table, table->rows[i], &times))
			put_sample(f, &series, running ? times.running : times.enabled, &scale);
	}
	return 0;
}

static int put_times(struct families *f, const struct walk_table *table)
{
	for (int running = 0; running < 2; running++) {
		put_family(f, &times_families[table->scope][running]);
		for (size_t i = 0; i < table->nr_columns; i++)
			if (nth_column(table, i)->set != NO_SET && put_group_times(f, table, i, running) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* --- states */

static int put_state(struct families *f, const struct snapshot_column *column)
{
	const struct event *event = column->column->event;
	const struct scale one = SCALE_ONE;
	struct buf *labels = begin_labels(f);

	family_label(labels, "scope", scope_name(column->column->scope));
	family_label(labels, "group", column->column->group->name);
	family_label(labels, "event", event->metric);
	family_label(labels, "state", event_state_name(column->state));
	if (event->by_pmu)
		family_label(labels, "pmu", event->pmu);
	return put_single(f, labels, 1, &one);
}

static int put_states(struct families *f)
{
	static const struct family family = {
		.name = "perf_event_state",
		.type = FAMILY_GAUGE,
		.unit = "",
		.help = "1 for the state that a configured event is in; /api/v1/events says why.",
	};

	put_family(f, &family);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct walk_table *table = &f->walk->table[scope];

		for (size_t i = 0; i < table->nr_columns; i++)
			if (put_state(f, &table->table->columns[table->columns[i]]) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* --- identities of cgroups */

static int put_identity(struct families *f, const struct snapshot_row *row)
{
	const struct cgroup_identity *identity = row->identity;
	const struct {
		const char *name, *value;
	} labels[] = {
		{ "unit", identity->unit },
		{ "slice", identity->slice },
		{ "container_id", identity->container_id },
		{ "pod_uid", identity->pod_uid },
		{ "machine", identity->machine },
	};
	const struct scale one = SCALE_ONE;
	struct buf *text = begin_labels(f);
	char id[24];

	(void)snprintf(id, sizeof(id), "%" PRIu64, identity->id);
	family_label(text, "cgroup", identity->label);
	family_label(text, "id", id);
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		if (labels[i].value)
			family_label(text, labels[i].name, labels[i].value);
	for (int i = 0; i < _CONTAINER_NAME_MAX; i++) {
		const char *name = container_names_text(row->names, (enum container_name)i);

		if (name)
			family_label(text, container_name_keys[i], name);
	}
	return put_single(f, text, 1, &one);
}

/* By label. Of one label, a row of an existing cgroup comes before one that is gone. */
static int compare_rows(const void *a, const void *b)
{
	const struct snapshot_row *const *x = a, *const *y = b;
	int r = strcmp((*x)->identity->label, (*y)->identity->label);

	if (r == 0)
		r = (*x)->gone - (*y)->gone;
	return r ? r : (*x > *y) - (*x < *y);
}

/* The selected rows, one for each label, since a join needs one series. Where rows are per CPU, several have one
 * label: these are sorted to be side by side. */
static const struct snapshot_row **list_cgroups(const struct walk_table *table, size_t *ret_nr)
{
	const struct snapshot_row **rows = calloc(table->nr_rows + 1, sizeof(*rows));
	bool by_cpu = false;
	size_t nr = 0;

	for (size_t i = 0; rows && i < table->nr_rows; i++) {
		rows[i] = &table->table->rows[table->rows[i]];
		by_cpu |= rows[i]->cpu != ROW_ALL_CPUS;
	}
	if (rows && by_cpu)
		qsort(rows, table->nr_rows, sizeof(*rows), compare_rows);
	for (size_t i = 0; rows && i < table->nr_rows; i++)
		if (nr == 0 || strcmp(rows[nr - 1]->identity->label, rows[i]->identity->label) != 0)
			rows[nr++] = rows[i];
	*ret_nr = nr;
	return rows;
}

static int put_descendants(struct families *f, const struct snapshot_row *row)
{
	const struct scale one = SCALE_ONE;
	struct buf *text = begin_labels(f);

	family_label(text, "cgroup", row->identity->label);
	return put_single(f, text, row->descendants, &one);
}

static int put_cgroups(struct families *f)
{
	static const struct family identity = {
		.name = "perf_cgroup",
		.type = FAMILY_INFO,
		.unit = "",
		.help = "Identity of a cgroup: labels to join on.",
	};
	static const struct family descendants = {
		.name = "perf_cgroup_descendants",
		.type = FAMILY_GAUGE,
		.unit = "",
		.help = "Cgroups below it, at any depth, that have series; 0: a leaf.",
	};
	size_t nr;
	_cleanup_(freep) const struct snapshot_row **rows = list_cgroups(&f->walk->table[SCOPE_CGROUP], &nr);

	if (!rows)
		return -ENOMEM;
	put_family(f, &identity);
	for (size_t i = 0; i < nr; i++)
		if (put_identity(f, rows[i]) < 0)
			return -ENOMEM;
	put_family(f, &descendants);
	for (size_t i = 0; i < nr; i++)
		if (put_descendants(f, rows[i]) < 0)
			return -ENOMEM;
	return 0;
}

/* --- the daemon itself */

#ifdef __clang__
#define BUILD_COMPILER __VERSION__
#else
#define BUILD_COMPILER "gcc " __VERSION__
#endif

static int put_build(struct families *f)
{
	static const struct family build = { "perfmond_build", FAMILY_INFO, "",
					     "Version of the daemon, and how it was built." };
	static const struct family up = { "perfmond_up", FAMILY_GAUGE, "", "Always 1: the daemon answers." };
	const struct scale one = SCALE_ONE;
	struct buf *labels = begin_labels(f);

	put_family(f, &build);
	family_label(labels, "version", PACKAGE_VERSION);
	family_label(labels, "revision", BUILD_REVISION);
	family_label(labels, "compiler", BUILD_COMPILER);
	family_label(labels, "features", BUILD_FEATURES);
	if (put_single(f, labels, 1, &one) < 0)
		return -ENOMEM;
	put_family(f, &up);
	return put_single(f, begin_labels(f), 1, &one);
}

/* Of core PMUs that could be tested. */
static int put_pmu_counters(struct families *f)
{
	static const struct family family = {
		"perfmond_pmu_counters", FAMILY_GAUGE, "",
		"Hardware counters of a CPU: advertised by its PMU, and usable at once."
	};
	const struct pmu_counters_list *pmus = &f->walk->snapshot->plan->pmus;
	const struct scale one = SCALE_ONE;

	put_family(f, &family);
	for (size_t i = 0; i < 2 * pmus->nr; i++) {
		const struct pmu_counters *counters = &pmus->pmus[i / 2];
		bool usable = i % 2;
		struct buf *labels = begin_labels(f);

		if (!counters->advertised)
			continue;
		family_label(labels, "pmu", counters->pmu);
		family_label(labels, "kind", usable ? "usable" : "advertised");
		if (put_single(f, labels, usable ? counters->usable : counters->advertised, &one) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* What crediting takes, by CPU. */
static int put_switches(struct families *f)
{
	static const struct family families[] = {
		{ "perfmond_switches", FAMILY_COUNTER, "", "Switches between cgroups at which counts were credited." },
		{ "perfmond_switch_seconds", FAMILY_COUNTER, "seconds", "Time that crediting took at switches." },
	};
	const struct scale scales[] = { SCALE_ONE, SCALE_NS };
	const struct snapshot *snapshot = f->walk->snapshot;

	for (size_t k = 0; k < ARRAY_SIZE(families); k++) {
		put_family(f, &families[k]);
		for (size_t i = 0; i < snapshot->nr_switches; i++) {
			const struct switch_cost *cost = &snapshot->switches[i];
			struct buf *labels = begin_labels(f);

			family_number_label(labels, "cpu", cost->cpu);
			if (put_single(f, labels, k ? cost->ns : cost->switches, &scales[k]) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

/* What the rules of captures have done. */
static int put_rules(struct families *f)
{
	static const struct family families[] = {
		{ "perfmond_captures", FAMILY_COUNTER, "", "Captures that a rule has made." },
		{ "perfmond_captures_passed_over", FAMILY_COUNTER, "",
		  "Episodes in which a rule made no capture, since it had made one shortly before, or too many ran." },
	};
	const struct snapshot *snapshot = f->walk->snapshot;
	const struct scale one = SCALE_ONE;

	for (size_t k = 0; k < ARRAY_SIZE(families); k++) {
		put_family(f, &families[k]);
		for (size_t i = 0; i < snapshot->nr_rules; i++) {
			const struct snapshot_rule *rule = &snapshot->rules[i];
			struct buf *labels = begin_labels(f);

			family_label(labels, "capture", rule->name);
			if (put_single(f, labels, k ? rule->passed_over : rule->captures, &one) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int put_self(struct families *f)
{
	const struct scale one = SCALE_ONE, ns = SCALE_NS;

	if (put_build(f) < 0 || put_pmu_counters(f) < 0 || put_switches(f) < 0 || put_rules(f) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < self_metrics_size; i++) {
		const struct self_metric *metric = &self_metrics[i];
		struct buf *labels = begin_labels(f);
		uint64_t value;

		memcpy(&value, (const char *)&f->walk->snapshot->self + metric->offset, sizeof(value));
		if (i == 0 || strcmp(metric->family.name, self_metrics[i - 1].family.name))
			put_family(f, &metric->family);
		if (value == SELF_UNKNOWN)
			continue;
		if (metric->label)
			family_label(labels, metric->label, metric->value);
		if (put_single(f, labels, value, metric->nanoseconds ? &ns : &one) < 0)
			return -ENOMEM;
	}
	return 0;
}

int walk_families(const struct walk *walk, const struct family_writer *writer, void *userdata)
{
	_cleanup_(families_release) struct families f = { .walk = walk, .writer = writer, .userdata = userdata };

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct walk_table *table = &walk->table[scope];

		if (make_row_labels(&f, (enum scope)scope) < 0 || put_events(&f, table) < 0 || put_times(&f, table) < 0)
			return -ENOMEM;
	}
	if (put_states(&f) < 0 || put_cgroups(&f) < 0 || (!walk->without_self && put_self(&f) < 0))
		return -ENOMEM;
	writer->end(userdata);
	return 0;
}
