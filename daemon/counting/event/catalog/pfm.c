/* SPDX-License-Identifier: MIT */

#include "counting/event/catalog/pfm.h"

#include "base/util/buf.h"
#include "base/util/names.h"

#include <errno.h>
#include <perfmon/pfmlib_perf_event.h>
#include <string.h>

/* libpfm has room for 64 attributes of an event, and does not check it. This leaves room for those that it adds by
 * default, and is far above use. */
#define MAX_ATTRIBUTES 32

/* Between the parts of a name. */
#define DELIMITERS ":."

/* The default: no privilege level is excluded. */
#define EVERY_LEVEL (PFM_PLM0 | PFM_PLM3 | PFM_PLMH)

/* libpfm returns the result of the first call again. */
static bool is_ready(void)
{
	return pfm_initialize() == PFM_SUCCESS;
}

bool pfm_is_built_in(void)
{
	return true;
}

/* --- PMUs */

/* libpfm's PMU of that number; false at their end. A PMU that libpfm was built without gets no name. */
static bool nth_pmu(unsigned n, pfm_pmu_info_t *ret)
{
	int r;

	*ret = (pfm_pmu_info_t){ .size = sizeof(*ret) };
	r = pfm_get_pmu_info((pfm_pmu_t)n, ret);
	if (r != PFM_SUCCESS)
		*ret = (pfm_pmu_info_t){};
	return r == PFM_SUCCESS || r == PFM_ERR_NOTSUPP;
}

/* Is it a PMU of this machine? Those of the type OS_GENERIC have the kernel's own events, for which there are other
 * ways (counting/event/tables.h, tracefs.h). */
static bool is_here(const pfm_pmu_info_t *pmu)
{
	return pmu->name && pmu->is_present && pmu->type != PFM_PMU_TYPE_OS_GENERIC;
}

/* libpfm's names of this machine's PMUs. */
static void list_pmus(struct name_list *list)
{
	pfm_pmu_info_t pmu;

	for (unsigned n = 0; is_ready() && nth_pmu(n, &pmu); n++)
		if (is_here(&pmu))
			name_list_add(list, pmu.name);
}

/* The event's PMU. */
static int pmu_of_event(int event, pfm_pmu_info_t *ret)
{
	pfm_event_info_t info = { .size = sizeof(info) };
	int r = pfm_get_event_info(event, PFM_OS_PERF_EVENT_EXT, &info);

	*ret = (pfm_pmu_info_t){ .size = sizeof(*ret) };
	return r == PFM_SUCCESS ? pfm_get_pmu_info(info.pmu, ret) : r;
}

/* --- the parts of a text */

/* The event's name: behind "PMU::", if that comes before any other delimiter. */
static const char *event_part(const char *text)
{
	const char *delimiter = strpbrk(text, DELIMITERS);

	return delimiter && strncmp(delimiter, "::", 2) == 0 ? delimiter + 2 : text;
}

/* [PMU::]EVENT, to be freed. */
static char *without_attributes(const char *text)
{
	const char *event = event_part(text);

	return strndup(text, (size_t)(event - text) + strcspn(event, DELIMITERS));
}

/* The attribute at *p, which is at the delimiter before it; moves *p behind it. NULL at the end. */
static const char *next_attribute(const char **p, size_t *length)
{
	const char *attribute = *p + 1;

	if (!**p)
		return NULL;
	*length = strcspn(attribute, DELIMITERS);
	*p = attribute + *length;
	return attribute;
}

static const char *first_attribute(const char *text)
{
	const char *event = event_part(text);

	return event + strcspn(event, DELIMITERS);
}

/* The number of attributes that libpfm makes of one: some unit masks stand for several, as "ANY_DATA" for
 * "DMND_DATA:PF_DATA". */
static size_t count_equivalent(int event, const char *attribute, size_t length)
{
	pfm_event_attr_info_t info = { .size = sizeof(info) };
	size_t n = 1;

	for (int i = 0; pfm_get_event_attr_info(event, i, PFM_OS_PERF_EVENT_EXT, &info) == PFM_SUCCESS; i++) {
		if (strncasecmp(info.name, attribute, length) == 0 && !info.name[length] && info.equiv)
			for (const char *p = info.equiv; (p = strpbrk(p, DELIMITERS)); p++)
				n++;
		info = (pfm_event_attr_info_t){ .size = sizeof(info) };
	}
	return n;
}

static size_t count_attributes(int event, const char *text)
{
	const char *p = first_attribute(text), *attribute;
	size_t length, n = 0;

	while ((attribute = next_attribute(&p, &length)))
		n += count_equivalent(event, attribute, length);
	return n;
}

/* Does the text choose between host and guests? */
static bool tells_guests_apart(const char *text)
{
	const char *p = first_attribute(text), *attribute;
	size_t length;

	while ((attribute = next_attribute(&p, &length)))
		if ((length == 2 || (length > 2 && attribute[2] == '=')) &&
		    (strncasecmp(attribute, "mg", 2) == 0 || strncasecmp(attribute, "mh", 2) == 0))
			return true;
	return false;
}

/* --- encoding */

/* libpfm's encoding of the whole text. Returns libpfm's error. *ret_sampling: the text has attributes that are only for
 * sampling. */
static int encode_text(const char *text, struct perf_event_attr *ret, bool *ret_sampling)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	pfm_perf_encode_arg_t arg = { .attr = &attr, .size = sizeof(arg) };
	int r = pfm_get_os_event_encoding(text, EVERY_LEVEL, PFM_OS_PERF_EVENT_EXT, &arg);

	if (r != PFM_SUCCESS)
		return r;
	*ret_sampling = attr.sample_period || attr.freq || arg.cpu >= 0;
	/* libpfm excludes guests by default. */
	if (!tells_guests_apart(text))
		attr.exclude_guest = attr.exclude_host = 0;
	*ret = attr;
	return PFM_SUCCESS;
}

static int append_encoding(struct pfm_encoding_list *list, const struct perf_event_attr *attr, const char *pmu)
{
	struct pfm_encoding *items;

	for (size_t i = 0; i < list->nr; i++)
		if (list->items[i].attr.type == attr->type)
			return 0;
	items = reallocarray(list->items, list->nr + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	items[list->nr++] = (struct pfm_encoding){ .attr = *attr, .pmu = pmu };
	return 0;
}

/* Adds the other PMUs of that kind which have the event: without a PMU in the text, libpfm finds the first only. */
static int add_others(struct pfm_encoding_list *list, const char *text, pfm_pmu_type_t type)
{
	pfm_pmu_info_t pmu;
	int r = 0;

	for (unsigned n = 0; r == 0 && nth_pmu(n, &pmu); n++) {
		_cleanup_(freep) char *whole = NULL;
		struct perf_event_attr attr;
		bool sampling;

		if (!is_here(&pmu) || pmu.type != type)
			continue;
		if (asprintf(&whole, "%s::%s", pmu.name, text) < 0) {
			whole = NULL;
			return -ENOMEM;
		}
		if (encode_text(whole, &attr, &sampling) == PFM_SUCCESS)
			r = append_encoding(list, &attr, pmu.name);
	}
	return r;
}

/* --- errors */

/* "skx::NAME" is unknown. It may be an event of another machine's PMU, or of another libpfm: an error only if the PMU
 * is here. */
static int explain_unknown(const char *text, struct reason *why)
{
	size_t length = (size_t)(event_part(text) - text);
	struct name_list list = {};
	struct reason hint;
	pfm_pmu_info_t pmu;

	if (length == 0)
		return -ENOENT;
	length -= strlen("::");
	for (unsigned n = 0; nth_pmu(n, &pmu); n++) {
		if (!pmu.name || strncasecmp(pmu.name, text, length) || pmu.name[length])
			continue;
		if (is_here(&pmu)) {
			pfm_hint(&hint, text);
			return reason_set(why, -EINVAL, "libpfm's PMU '%s' has no such event%s", pmu.name, hint.text);
		}
	}
	list_pmus(&list);
	return reason_set(why, -ENODEV, "this machine has no PMU that libpfm calls '%.*s'; it has: %s",
			  length < 60 ? (int)length : 60, text, name_list_text(&list));
}

/* period, freq and cpu are libpfm's own, and for sampling. */
static bool is_for_samples(const pfm_event_attr_info_t *attribute)
{
	static const char *const names[] = { "period", "freq", "cpu" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (attribute->ctrl == PFM_ATTR_CTRL_PERF_EVENT && strcmp(attribute->name, names[i]) == 0)
			return true;
	return false;
}

/* The names of the event's attributes of one kind. */
static void list_attributes(struct name_list *list, int event, bool unit_masks)
{
	pfm_event_attr_info_t attribute = { .size = sizeof(attribute) };

	for (int i = 0; pfm_get_event_attr_info(event, i, PFM_OS_PERF_EVENT_EXT, &attribute) == PFM_SUCCESS; i++) {
		if ((attribute.type == PFM_ATTR_UMASK) == unit_masks && !is_for_samples(&attribute))
			name_list_add(list, attribute.name);
		attribute = (pfm_event_attr_info_t){ .size = sizeof(attribute) };
	}
}

static int explain_failure(int error, int event, const char *pmu, struct reason *why)
{
	struct name_list unit_masks = {}, attributes = {};

	if (error == PFM_ERR_NOMEM)
		return -ENOMEM;
	if (error == PFM_ERR_NOTSUPP)
		return reason_set(why, -ENODEV,
				  "this kernel does not show the PMU that libpfm calls '%s', or hides "
				  "/proc/sys/kernel/perf_event_paranoid from this process",
				  pmu);
	list_attributes(&unit_masks, event, true);
	list_attributes(&attributes, event, false);
	return reason_set(why, -EINVAL, "libpfm (PMU '%s'): %s; the event has the unit masks %s and the attributes %s",
			  pmu, pfm_strerror(error), name_list_text(&unit_masks), name_list_text(&attributes));
}

int pfm_encode(struct pfm_encoding_list *ret, const char *text, struct reason *why)
{
	_cleanup_(pfm_encoding_list_release) struct pfm_encoding_list list = {};
	_cleanup_(freep) char *name = without_attributes(text);
	struct perf_event_attr attr;
	pfm_pmu_info_t pmu;
	bool sampling;
	int event, r;

	if (!name)
		return -ENOMEM;
	event = is_ready() ? pfm_find_event(name) : PFM_ERR_NOINIT;
	if (event == PFM_ERR_NOMEM)
		return -ENOMEM;
	if (event < 0)
		return event == PFM_ERR_NOINIT ? -ENOENT : explain_unknown(text, why);
	if (pmu_of_event(event, &pmu) != PFM_SUCCESS)
		return -ENOENT;
	if (pmu.type == PFM_PMU_TYPE_OS_GENERIC)
		return event_part(text) == text ? -ENOENT : explain_unknown(text, why);
	if (count_attributes(event, text) > MAX_ATTRIBUTES)
		return reason_set(why, -EINVAL, "more than %d unit masks and attributes", MAX_ATTRIBUTES);

	r = encode_text(text, &attr, &sampling);
	if (r != PFM_SUCCESS)
		return explain_failure(r, event, pmu.name, why);
	if (sampling)
		return reason_set(why, -EINVAL, "period, freq and cpu are for sampling, which perfmond does not do");
	r = append_encoding(&list, &attr, pmu.name);
	if (r == 0 && event_part(text) == text)
		r = add_others(&list, text, pmu.type);
	if (r < 0)
		return r;
	*ret = steal_struct(list);
	return 0;
}

/* --- lists */

/* Calls visit() for each event of this machine's PMUs, once for one that several PMUs have: pfm_find_event() returns
 * the first of a name. */
static int each_event(int (*visit)(void *userdata, const pfm_event_info_t *event, const char *pmu), void *userdata)
{
	pfm_pmu_info_t pmu;
	int r = 0;

	for (unsigned n = 0; is_ready() && r == 0 && nth_pmu(n, &pmu); n++) {
		if (!is_here(&pmu))
			continue;
		for (int i = pmu.first_event; r == 0 && i >= 0; i = pfm_get_event_next(i)) {
			pfm_event_info_t event = { .size = sizeof(event) };

			if (pfm_get_event_info(i, PFM_OS_PERF_EVENT_EXT, &event) == PFM_SUCCESS &&
			    pfm_find_event(event.name) == i)
				r = visit(userdata, &event, pmu.name);
		}
	}
	return r;
}

static int offer_event(void *userdata, const pfm_event_info_t *event, _unused_ const char *pmu)
{
	nearest_offer(userdata, event->name);
	return 0;
}

void pfm_hint(struct reason *ret, const char *text)
{
	const char *event = event_part(text);
	struct name_list pmus = {};
	struct nearest nearest;
	char name[NEAREST_MAX + 2];

	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(event, DELIMITERS), event);
	nearest_init(&nearest, name);
	(void)each_event(offer_event, &nearest);
	list_pmus(&pmus);
	if (nearest.name[0])
		reason_set(ret, 0, "; libpfm has '%s'", nearest.name);
	else if (pmus.length == 0)
		reason_set(ret, 0, "; libpfm knows no PMU of this machine");
	else
		reason_set(ret, 0, "; libpfm does not know it either, on its PMUs %s", name_list_text(&pmus));
}

struct walk {
	int (*each)(void *userdata, const char *name, const struct pfm_encoding *encoding);
	void *userdata;
};

/* Calls each() for EVENT, or EVENT:UNIT-MASK, if it can be encoded: some events need several unit masks. */
static int walk_name(const struct walk *walk, const char *event, const char *unit_mask, const char *pmu)
{
	_cleanup_(freep) char *name = NULL;
	struct pfm_encoding encoding = { .pmu = pmu };
	bool sampling;

	if (asprintf(&name, "%s%s%s", event, unit_mask ? ":" : "", unit_mask ? unit_mask : "") < 0) {
		name = NULL;
		return -ENOMEM;
	}
	if (encode_text(name, &encoding.attr, &sampling) != PFM_SUCCESS)
		return 0;
	return walk->each(walk->userdata, name, &encoding);
}

static int walk_event(void *userdata, const pfm_event_info_t *event, const char *pmu)
{
	bool has_unit_masks = false;
	int r = 0;

	for (int i = 0; r == 0 && i < event->nattrs; i++) {
		pfm_event_attr_info_t attribute = { .size = sizeof(attribute) };

		if (pfm_get_event_attr_info(event->idx, i, PFM_OS_PERF_EVENT_EXT, &attribute) != PFM_SUCCESS ||
		    attribute.type != PFM_ATTR_UMASK)
			continue;
		has_unit_masks = true;
		r = walk_name(userdata, event->name, attribute.name, pmu);
	}
	return r == 0 && !has_unit_masks ? walk_name(userdata, event->name, NULL, pmu) : r;
}

int pfm_walk(int (*each)(void *userdata, const char *name, const struct pfm_encoding *encoding), void *userdata)
{
	struct walk walk = { .each = each, .userdata = userdata };

	return each_event(walk_event, &walk);
}
