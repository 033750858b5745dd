/* SPDX-License-Identifier: MIT */

#include "event/draft.h"

#include "event/pfm.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* libpfm's exclude_… as the modifiers that mean the same. */
static struct modifier modifier_of(const struct perf_event_attr *attr)
{
	struct modifier modifier = {
		.precise = attr->precise_ip,
		.pinned = attr->pinned,
		.exclusive = attr->exclusive,
	};

	if (attr->exclude_user || attr->exclude_kernel || attr->exclude_hv) {
		modifier.user = !attr->exclude_user;
		modifier.kernel = !attr->exclude_kernel;
		modifier.hv = !attr->exclude_hv;
	}
	if (attr->exclude_guest || attr->exclude_host) {
		modifier.guest = !attr->exclude_guest;
		modifier.host = !attr->exclude_host;
	}
	return modifier;
}

static int is_alias_of(const struct pmu *pmu, const struct pmu_alias *alias, const struct perf_event_attr *attr)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	uint64_t config[PMU_NR_CONFIGS] = {};
	int r = term_list_parse(&terms, alias->terms, NULL);

	for (size_t i = 0; r == 0 && i < terms.nr; i++)
		r = pmu_apply_term(pmu, &terms.terms[i], config, NULL);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	return config[0] == attr->config && config[1] == attr->config1 && config[2] == attr->config2 && config[3] == 0;
}

/* Where sysfs has the event too and says what it counts, "RAPL_ENERGY_PKG" is in Joules as "energy-pkg" is. */
static int borrow_unit(struct event *event, const struct pmu *pmu)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < pmu->nr_aliases; i++) {
		const struct pmu_alias *alias = &pmu->aliases[i];

		if (!alias->unit)
			continue;
		r = is_alias_of(pmu, alias, &event->attr);
		if (r > 0) {
			event->scale = alias->scale;
			event->unit = event_unit_parse(alias->unit, &event->scale);
		}
	}
	return r < 0 ? r : 0;
}

int event_from_pfm(struct event *ret, const struct pmu **pmu, const struct pmu_catalogue *pmus,
		   const struct pfm_encoding *encoding)
{
	*ret = (struct event){
		.attr = {
			.type = encoding->attr.type,
			.config = encoding->attr.config,
			.config1 = encoding->attr.config1,
			.config2 = encoding->attr.config2,
		},
		.scale = 1,
	};
	*pmu = pmu_find_type(pmus, encoding->attr.type);
	if (*pmu)
		return borrow_unit(ret, *pmu);
	return encoding->attr.type == PERF_TYPE_RAW && pmu_count_core(pmus) ? 0 : -ENOENT;
}

static int add(struct draft *draft, const struct pfm_encoding *encoding)
{
	const struct pmu *pmu;
	struct event like;
	struct reason why;
	int r = event_from_pfm(&like, &pmu, draft->pmus, encoding);

	if (r == -ENOMEM)
		return r;
	draft->modifier = modifier_of(&encoding->attr);
	if (r < 0 && like.attr.type != PERF_TYPE_RAW) {
		reason_set(&why, -ENODEV, "libpfm has it on a PMU of type %u, which is none of those that can be used",
			   encoding->attr.type);
		return draft_add_missing(draft, encoding->pmu, -ENODEV, &why);
	}
	return pmu ? draft_add(draft, &like, pmu, NULL) : draft_add_on_core(draft, &like, "raw");
}

int draft_pfm(struct draft *draft)
{
	_cleanup_(pfm_encoding_list_release) struct pfm_encoding_list encodings = {};
	struct reason why;
	int r = pfm_encode(&encodings, draft->text, &why);

	if (r == -ENOMEM || r == -ENOENT)
		return r;
	if (r == -EINVAL)
		return draft_refuse(draft, "%s", why.text);

	/* Its attributes are in its name, and what they mean for the modifiers need not be added. */
	if (!draft->label) {
		draft->label = strdup(draft->text);
		if (!draft->label)
			return -ENOMEM;
	}
	if (r < 0)
		return draft_add_missing(draft, "libpfm", r, &why);
	for (size_t i = 0; r == 0 && i < encodings.nr; i++)
		r = add(draft, &encodings.items[i]);
	return r;
}

/* Upper case, or '.' or "::" behind the first word: no tracepoint that anyone has seen is called so. */
static bool looks_like_pfm(const char *text)
{
	size_t length = strcspn(text, ":.");

	if (text[length] == '.' || strncmp(text + length, "::", 2) == 0)
		return true;
	for (size_t i = 0; i < length; i++)
		if (islower((unsigned char)text[i]))
			return false;
	return isupper((unsigned char)text[0]);
}

static bool is_capital(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isupper((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) && text[i] != '_')
			return false;
	return length > 0 && isupper((unsigned char)text[0]);
}

/* "INST_RETIRED", "L1D.REPLACEMENT", "L1D:REPLACEMENT": so do vendors name their CPUs' events, and nobody else. */
static bool is_vendors(const char *text)
{
	size_t length = strcspn(text, ":.");
	const char *rest = text + length + (text[length] != '\0');

	return is_capital(text, length) &&
	       (memchr(text, '_', length) || (rest[0] && rest[1] && is_capital(rest, strcspn(rest, ":.="))));
}

int draft_vendors(struct draft *draft)
{
	struct reason hint, why;

	if (!is_vendors(draft->text))
		return -EINVAL;
	pfm_hint(&hint, draft->text);
	reason_set(&why, -ENOENT, "no event of that name is known of this CPU%s", hint.text);
	draft->modifier = (struct modifier){};
	if (!draft->label) {
		draft->label = strdup(draft->text);
		if (!draft->label)
			return -ENOMEM;
	}
	return draft_add_missing(draft, "libpfm", -ENOENT, &why);
}

int draft_hint_pfm(const struct draft *draft, int r, struct reason *why)
{
	struct reason hint;
	size_t length;

	if (why && looks_like_pfm(draft->text)) {
		pfm_hint(&hint, draft->text);
		length = strlen(why->text);
		(void)snprintf(why->text + length, sizeof(why->text) - length, "%s", hint.text);
	}
	return r;
}
