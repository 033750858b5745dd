/* SPDX-License-Identifier: MIT */

#include "web/api/captures-route.h"

#include "web/expose/document.h"

#include <errno.h>

/* --- functions here return NULL, or false, when out of memory */

static json_t *rules_json(const struct web_source *source)
{
	_cleanup_(json_decref_pointer) json_t *rules = json_array();
	struct capture_rule_info rule;

	for (size_t i = 0; source->rule(source->userdata, i, &rule); i++) {
		json_t *json = json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", document_text(rule.name), "when",
					 document_text(rule.when), "problem",
					 document_text(*rule.problem ? rule.problem : NULL), "captures",
					 document_u64(rule.captures), "passed_over", document_u64(rule.passed_over));

		if (json_array_append_new(rules, json) < 0)
			return NULL;
	}
	return json_incref(rules);
}

/* Without values, an empty list. */
static json_t *values_json(const struct capture_values *values)
{
	_cleanup_(json_decref_pointer) json_t *points = json_array();

	for (size_t i = 0; values && i < values->nr_points; i++) {
		const struct capture_point *point = &values->points[i];
		json_t *json = json_pack("{s:o, s:o}", "time", document_seconds(point->end), "rate",
					 document_real(point->rate));

		if (json_array_append_new(points, json) < 0)
			return NULL;
	}
	return json_incref(points);
}

static bool add_values(json_t *captures, const struct capture_values_list *list)
{
	json_t *capture;
	size_t i;

	json_array_foreach(captures, i, capture)
	{
		const char *id = json_string_value(json_object_get(capture, "id"));
		const struct capture_values *values = id ? capture_values_find(list, id) : NULL;

		if (json_object_set_new(capture, "values", values_json(values)) < 0)
			return false;
	}
	return true;
}

int captures_route_respond(struct response *ret, const struct web_source *source, const struct blob *list)
{
	_cleanup_(json_decref_pointer) json_t *root = json_loadb(list->data, list->len, 0, NULL);

	if (!root || json_object_set_new(root, "rules", rules_json(source)) < 0 ||
	    !add_values(json_object_get(root, "captures"), source->values))
		return -ENOMEM;
	return document_write(&ret->body, steal_ptr(root));
}
