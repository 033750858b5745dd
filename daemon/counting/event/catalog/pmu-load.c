/* SPDX-License-Identifier: MIT */

#include "base/util/buf.h"
#include "base/util/file.h"
#include "base/util/text.h"
#include "counting/event/catalog/folder.h"
#include "counting/event/catalog/pmu.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>

/* The PMU being read. Functions that take it put an error in a file into problems and return 0; they return negative
 * errno only for an error that ends the reading: -ENOMEM. */
struct loading {
	struct pmu_catalogue *catalogue;
	const char *dir;
	const char *name;
	int fd;
	struct pmu pmu;
	bool lost; /* the PMU can't be used */
};

static const char unwritable[] = "no event can be written with this name";

static void pmu_release(struct pmu *pmu)
{
	for (size_t i = 0; i < pmu->nr_caps; i++) {
		free(pmu->caps[i].name);
		free(pmu->caps[i].value);
	}
	for (size_t i = 0; i < pmu->nr_formats; i++)
		free(pmu->formats[i].name);
	for (size_t i = 0; i < pmu->nr_aliases; i++) {
		free(pmu->aliases[i].name);
		free(pmu->aliases[i].terms);
		free(pmu->aliases[i].unit);
	}
	free(pmu->identifier);
	free(pmu->caps);
	free(pmu->formats);
	free(pmu->aliases);
	free(pmu->name);
	cpulist_release(&pmu->cpus);
	*pmu = (struct pmu){};
}

int pmu_catalogue_new_empty(struct pmu_catalogue **ret, const char *problem)
{
	_cleanup_(pmu_catalogue_freep) struct pmu_catalogue *catalogue = calloc(1, sizeof(*catalogue));

	if (!catalogue)
		return -ENOMEM;
	catalogue->problems = calloc(1, sizeof(*catalogue->problems));
	if (!catalogue->problems)
		return -ENOMEM;
	catalogue->problems[0] = strdup(problem);
	if (!catalogue->problems[0])
		return -ENOMEM;
	catalogue->nr_problems = 1;
	*ret = steal_ptr(catalogue);
	return 0;
}

struct pmu_catalogue *pmu_catalogue_free(struct pmu_catalogue *catalogue)
{
	if (!catalogue)
		return NULL;
	for (size_t i = 0; i < catalogue->nr; i++)
		pmu_release(&catalogue->pmus[i]);
	for (size_t i = 0; i < catalogue->nr_problems; i++)
		free(catalogue->problems[i]);
	free(catalogue->pmus);
	free(catalogue->problems);
	free(catalogue);
	return NULL;
}

static void loading_release(struct loading *loading)
{
	safe_close(loading->fd);
	pmu_release(&loading->pmu);
}

/* Adds "DIR/PMU/FILE: what"; FILE may be empty. Names and contents are foreign bytes. */
static int add_problem(struct loading *loading, const char *file, const char *what)
{
	struct pmu_catalogue *catalogue = loading->catalogue;
	_cleanup_(freep) char *text = NULL;
	char **problems;

	if (asprintf(&text, "%s/%s%s%s: %s", loading->dir, loading->name, *file ? "/" : "", file, what) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	for (char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';

	problems = reallocarray(catalogue->problems, catalogue->nr_problems + 1, sizeof(*problems));
	if (!problems)
		return -ENOMEM;
	catalogue->problems = problems;
	problems[catalogue->nr_problems] = utf8_printable(text);
	if (!problems[catalogue->nr_problems])
		return -ENOMEM;
	catalogue->nr_problems++;
	return 0;
}

static const char *explain_read(int r)
{
	switch (r) {
	case -EFBIG:
		return "it is far too long";
	case -EBADMSG:
		return "it holds binary data";
	default:
		return strerror(-r);
	}
}

/* Reads a file of the PMU. If it can't be read, or is empty, *ret is NULL and that is a problem, unless an optional
 * file is missing. */
static int read_file(struct loading *loading, const char *file, bool optional, char **ret)
{
	_cleanup_(freep) char *text = NULL;
	int r = read_text_file(loading->fd, file, FILE_MAX_SYSFS, &text);

	*ret = NULL;
	if (r == -ENOMEM || (optional && r == -ENOENT))
		return r == -ENOMEM ? r : 0;
	if (r < 0)
		return add_problem(loading, file, explain_read(r));
	if (!*text)
		return add_problem(loading, file, "it is empty");
	/* Some thousand of these are kept, so each gets a block of its own size rather than the reading buffer. */
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int load_type(struct loading *loading)
{
	_cleanup_(freep) char *text = NULL;
	uint64_t type;
	int r = read_file(loading, "type", false, &text);

	loading->lost = !text;
	if (r < 0 || loading->lost)
		return r;
	if (parse_u64(text, &type) < 0 || type > UINT32_MAX) {
		loading->lost = true;
		return add_problem(loading, "type", "it holds no type number");
	}
	loading->pmu.type = (uint32_t)type;
	return 0;
}

/* An empty list is allowed: all CPUs of that kind can be offline. */
static int load_cpus_of(struct loading *loading, const char *file, bool *has)
{
	_cleanup_(freep) char *text = NULL;
	int r = read_text_file(loading->fd, file, FILE_MAX_SYSFS, &text);

	if (r == -ENOMEM || r == -ENOENT)
		return r == -ENOMEM ? r : 0;
	*has = true;
	if (r == 0)
		r = cpulist_parse(&loading->pmu.cpus, text);
	if (r == 0 || r == -ENOMEM)
		return r;

	/* Without the list, events would be opened on CPUs where they don't count, or count twice. */
	loading->lost = true;
	return add_problem(loading, file, r == -EINVAL ? "it holds no list of CPUs" : explain_read(r));
}

static int load_cpus(struct loading *loading)
{
	int r = load_cpus_of(loading, "cpus", &loading->pmu.has_cpus);

	if (r < 0 || loading->pmu.has_cpus)
		return r;
	return load_cpus_of(loading, "cpumask", &loading->pmu.has_cpumask);
}

/* The names in a folder of the PMU, and room for an item of each in *items; both stay empty if there is no folder. */
static int read_items(struct loading *loading, const char *folder, struct name_array *ret, size_t size, void **items)
{
	int r = folder_read(loading->fd, folder, ret);

	if (r == -ENOMEM || r == -ENOENT)
		return r == -ENOMEM ? r : 0;
	if (r < 0)
		return add_problem(loading, folder, strerror(-r));
	*items = calloc(ret->nr ? ret->nr : 1, size);
	return *items ? 0 : -ENOMEM;
}

/* Reads FOLDER/NAME of a cap, a term or an alias: its path and its text. *text stays NULL if it can't be used, which is
 * a problem. */
static int read_entry(struct loading *loading, const char *folder, const char *name, char **file, char **text)
{
	if (asprintf(file, "%s/%s", folder, name) < 0) {
		*file = NULL;
		return -ENOMEM;
	}
	if (!term_is_name(name))
		return add_problem(loading, *file, unwritable);
	return read_file(loading, *file, false, text);
}

static int load_cap(struct loading *loading, const char *name)
{
	_cleanup_(freep) char *file = NULL, *text = NULL;
	struct pmu_cap cap;
	int r = read_entry(loading, "caps", name, &file, &text);

	if (r < 0 || !text)
		return r;
	cap = (struct pmu_cap){ .name = strdup(name), .value = steal_ptr(text) };
	loading->pmu.caps[loading->pmu.nr_caps++] = cap;
	return cap.name ? 0 : -ENOMEM;
}

static int load_caps(struct loading *loading)
{
	_cleanup_(name_array_release) struct name_array names = {};
	void *items = NULL;
	int r = read_items(loading, "caps", &names, sizeof(*loading->pmu.caps), &items);

	loading->pmu.caps = items;
	for (size_t i = 0; r == 0 && i < names.nr; i++)
		r = load_cap(loading, names.names[i]);
	return r == 0 ? read_file(loading, "identifier", true, &loading->pmu.identifier) : r;
}

static int load_format(struct loading *loading, const char *name)
{
	_cleanup_(freep) char *file = NULL, *text = NULL;
	struct pmu_format format = {};
	struct reason why;
	int r;

	r = read_entry(loading, "format", name, &file, &text);
	if (r < 0 || !text)
		return r;
	if (pmu_format_parse(&format, text, &why) < 0)
		return add_problem(loading, file, why.text);

	format.name = strdup(name);
	if (!format.name)
		return -ENOMEM;
	loading->pmu.formats[loading->pmu.nr_formats++] = format;
	return 0;
}

static int load_formats(struct loading *loading)
{
	_cleanup_(name_array_release) struct name_array names = {};
	void *items = NULL;
	int r = read_items(loading, "format", &names, sizeof(*loading->pmu.formats), &items);

	loading->pmu.formats = items;
	for (size_t i = 0; r == 0 && i < names.nr; i++)
		r = load_format(loading, names.names[i]);
	return r;
}

/* Is it a file in events/ with an attribute of an event beside it? */
static bool is_attribute(const char *name)
{
	static const char *const suffixes[] = { ".unit", ".scale", ".per-pkg", ".snapshot", ".percore" };
	size_t length = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		size_t n = strlen(suffixes[i]);

		if (length > n && strcmp(name + length - n, suffixes[i]) == 0)
			return true;
	}
	return false;
}

/* Does the PMU have all of the terms? A value that the user has to give is checked as 0, which always fits. */
static int check_terms(const struct pmu *pmu, const char *text, struct reason *why)
{
	_cleanup_(term_list_release) struct term_list list = {};
	uint64_t config[PMU_NR_CONFIGS] = {};
	char zero[] = "0";
	int r = term_list_parse(&list, text, why);

	for (size_t i = 0; r == 0 && i < list.nr; i++) {
		struct term *term = &list.terms[i];

		if (term->value && strcmp(term->value, "?") == 0)
			term->value = zero;
		r = pmu_apply_term(pmu, term, config, why);
	}
	return r;
}

static int parse_scale(const char *text, double *ret)
{
	char *end;
	double scale = strtod(text, &end);

	if (end == text || *end || !isfinite(scale) || scale <= 0)
		return -EINVAL;
	*ret = scale;
	return 0;
}

/* Reads NAME.unit and NAME.scale; *usable is false if one exists and can't be used. */
static int load_unit(struct loading *loading, const char *file, struct pmu_alias *alias, bool *usable)
{
	_cleanup_(freep) char *unit_file = NULL, *scale_file = NULL, *text = NULL;
	size_t before = loading->catalogue->nr_problems;
	int r;

	if (asprintf(&unit_file, "%s.unit", file) < 0) {
		unit_file = NULL;
		return -ENOMEM;
	}
	if (asprintf(&scale_file, "%s.scale", file) < 0) {
		scale_file = NULL;
		return -ENOMEM;
	}

	r = read_file(loading, unit_file, true, &alias->unit);
	if (r == 0)
		r = read_file(loading, scale_file, true, &text);
	if (r == 0 && text && parse_scale(text, &alias->scale) < 0)
		r = add_problem(loading, scale_file, "it holds no number above 0");
	*usable = loading->catalogue->nr_problems == before;
	return r;
}

static int load_alias(struct loading *loading, const char *name)
{
	struct pmu_alias *alias = &loading->pmu.aliases[loading->pmu.nr_aliases];
	_cleanup_(freep) char *file = NULL, *text = NULL, *unit = NULL;
	struct reason why;
	bool usable;
	int r;

	r = read_entry(loading, "events", name, &file, &text);
	if (r < 0 || !text)
		return r;
	r = check_terms(&loading->pmu, text, &why);
	if (r < 0)
		return r == -ENOMEM ? r : add_problem(loading, file, why.text);

	*alias = (struct pmu_alias){ .scale = 1 };
	r = load_unit(loading, file, alias, &usable);
	unit = steal_ptr(alias->unit);
	if (r < 0 || !usable)
		return r;

	alias->name = strdup(name);
	if (!alias->name)
		return -ENOMEM;
	alias->terms = steal_ptr(text);
	alias->unit = steal_ptr(unit);
	loading->pmu.nr_aliases++;
	return 0;
}

static int load_aliases(struct loading *loading)
{
	_cleanup_(name_array_release) struct name_array names = {};
	void *items = NULL;
	int r = read_items(loading, "events", &names, sizeof(*loading->pmu.aliases), &items);

	loading->pmu.aliases = items;
	for (size_t i = 0; r == 0 && i < names.nr; i++)
		if (!is_attribute(names.names[i]))
			r = load_alias(loading, names.names[i]);
	return r;
}

static int load_pmu(struct pmu_catalogue *catalogue, const char *dir, int dirfd, const char *name)
{
	_cleanup_(loading_release) struct loading loading = {
		.catalogue = catalogue,
		.dir = dir,
		.name = name,
		.fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	};
	int r;

	if (loading.fd < 0)
		return add_problem(&loading, "", strerror(errno));
	if (!pmu_is_name(name))
		return add_problem(&loading, "", unwritable);

	r = load_type(&loading);
	if (r == 0 && !loading.lost)
		r = load_cpus(&loading);
	if (r == 0 && !loading.lost)
		r = load_caps(&loading);
	if (r == 0 && !loading.lost)
		r = load_formats(&loading);
	if (r == 0 && !loading.lost)
		r = load_aliases(&loading);
	if (r < 0 || loading.lost)
		return r;

	loading.pmu.name = strdup(name);
	if (!loading.pmu.name)
		return -ENOMEM;
	catalogue->pmus[catalogue->nr++] = steal_struct(loading.pmu);
	return 0;
}

int pmu_catalogue_load(struct pmu_catalogue **ret, const char *dir, struct reason *why)
{
	_cleanup_(pmu_catalogue_freep) struct pmu_catalogue *catalogue = calloc(1, sizeof(*catalogue));
	_cleanup_(closep) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(name_array_release) struct name_array names = {};
	int r;

	if (!catalogue)
		return -ENOMEM;
	r = fd < 0 ? -errno : folder_read(fd, ".", &names);
	if (r < 0)
		return reason_set(why, r, "%s: %s", dir, strerror(-r));

	catalogue->pmus = calloc(names.nr ? names.nr : 1, sizeof(*catalogue->pmus));
	if (!catalogue->pmus)
		return -ENOMEM;
	for (size_t i = 0; i < names.nr; i++) {
		r = load_pmu(catalogue, dir, fd, names.names[i]);
		if (r < 0)
			return r;
	}

	*ret = steal_ptr(catalogue);
	return 0;
}
