/* SPDX-License-Identifier: MIT */

#include "counting/event/pfm-event.h"

#include "counting/event/generic.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* The modifiers that set the same exclude_… bits as libpfm did. */
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

/* libpfm has no units. If sysfs has the same encoding with a unit, it applies: "RAPL_ENERGY_PKG" is in Joules, as
 * "energy-pkg" is. */
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

static struct event event_of_encoding(const struct pfm_encoding *encoding)
{
	return (struct event){
		.attr = {
			.type = encoding->attr.type,
			.config = encoding->attr.config,
			.config1 = encoding->attr.config1,
			.config2 = encoding->attr.config2,
		},
		.scale = 1,
	};
}

int event_of_pfm(struct event *ret, const struct pmu **ret_pmu, const struct pmu_catalogue *pmus,
		 const struct pfm_encoding *encoding)
{
	const struct pmu *pmu = pmu_find_type(pmus, encoding->attr.type);
	struct event event = event_of_encoding(encoding);
	int r = 0;

	if (pmu)
		r = borrow_unit(&event, pmu);
	else if (event.attr.type != PERF_TYPE_RAW || !pmu_count_core(pmus))
		r = -ENOENT;
	if (r < 0)
		return r;
	*ret = event;
	*ret_pmu = pmu;
	return 0;
}

static int add_encoded_event(struct event_parser *parser, const struct pfm_encoding *encoding)
{
	struct event like = event_of_encoding(encoding);
	const struct pmu *pmu = NULL;
	struct reason why;
	int r = event_of_pfm(&like, &pmu, parser->pmus, encoding);

	if (r == -ENOMEM)
		return r;
	parser->modifier = modifier_of(&encoding->attr);
	if (r < 0 && like.attr.type != PERF_TYPE_RAW) {
		reason_set(&why, -ENODEV, "libpfm has it on a PMU of type %u, which can't be used here",
			   encoding->attr.type);
		return event_parser_add_missing(parser, encoding->pmu, -ENODEV, &why);
	}
	return pmu ? event_parser_add(parser, &like, pmu, NULL) : generic_add_on_core(parser, &like, "raw");
}

int event_parse_pfm(struct event_parser *parser)
{
	_cleanup_(pfm_encoding_list_release) struct pfm_encoding_list encodings = {};
	struct reason why;
	int r = pfm_encode(&encodings, parser->text, &why);

	if (r == -ENOMEM || r == -ENOENT)
		return r;
	if (r == -EINVAL)
		return event_parser_refuse(parser, "%s", why.text);

	/* As a label, since a name would get a suffix for the modifiers, which are attributes in the text already. */
	if (!parser->label) {
		parser->label = strdup(parser->text);
		if (!parser->label)
			return -ENOMEM;
	}
	if (r < 0)
		return event_parser_add_missing(parser, "libpfm", r, &why);
	for (size_t i = 0; r == 0 && i < encodings.nr; i++)
		r = add_encoded_event(parser, &encodings.items[i]);
	return r;
}

/* Upper case, or '.' or "::" behind the first word: no known tracepoint has such a name. */
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

/* "INST_RETIRED", "L1D.REPLACEMENT", "L1D:REPLACEMENT": only CPU vendors use such names. */
static bool is_vendors(const char *text)
{
	size_t length = strcspn(text, ":.");
	const char *rest = text + length + (text[length] != '\0');

	return is_capital(text, length) &&
	       (memchr(text, '_', length) || (rest[0] && rest[1] && is_capital(rest, strcspn(rest, ":.="))));
}

int event_parse_vendors(struct event_parser *parser)
{
	struct reason hint, why;

	if (!is_vendors(parser->text))
		return -EINVAL;
	pfm_hint(&hint, parser->text);
	reason_set(&why, -ENOENT, "no event of that name is known for this CPU%s", hint.text);
	parser->modifier = (struct modifier){};
	if (!parser->label) {
		parser->label = strdup(parser->text);
		if (!parser->label)
			return -ENOMEM;
	}
	return event_parser_add_missing(parser, "libpfm", -ENOENT, &why);
}

int event_hint_pfm(const struct event_parser *parser, int r, struct reason *why)
{
	struct reason hint;
	size_t length;

	if (why && looks_like_pfm(parser->text)) {
		pfm_hint(&hint, parser->text);
		length = strlen(why->text);
		(void)snprintf(why->text + length, sizeof(why->text) - length, "%s", hint.text);
	}
	return r;
}
