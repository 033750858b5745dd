/* SPDX-License-Identifier: MIT */

/* The rule of a capture: a text is a rule whose parts make the same rule again, or is refused with a sentence. */

#include "fuzz.h"

#include "base/config/capture-rule.h"
#include "base/util/buf.h"
#include "base/util/glob.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* As it would be written. */
static char *write_rule(const struct capture_rule *rule)
{
	struct buf text = {};

	buf_printf(&text, "%s@%s %c %.17g for %" PRIu64 "ns", rule->event, rule->cgroup ?: "cpu",
		   rule->below ? '<' : '>', rule->threshold, rule->duration);
	return buf_steal(&text);
}

static void check_rule(const struct capture_rule *rule)
{
	_cleanup_(capture_rule_release) struct capture_rule again = {};
	_cleanup_(freep) char *text = write_rule(rule);

	CHECK(text && *rule->event && isfinite(rule->threshold) && !signbit(rule->threshold));
	CHECK(!rule->cgroup || (*rule->cgroup && strlen(rule->cgroup) <= GLOB_MAX));
	CHECK(capture_rule_parse(&again, text, NULL) == 0);
	CHECK(is_same(rule->event, again.event) && is_same(rule->cgroup, again.cgroup));
	CHECK(rule->below == again.below && rule->duration == again.duration);
	CHECK(rule->threshold <= again.threshold && rule->threshold >= again.threshold);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(capture_rule_release) struct capture_rule rule = {};
	_cleanup_(freep) char *text = strndup((const char *)data, size);
	struct reason why = {};
	int r;

	CHECK(text);
	r = capture_rule_parse(&rule, text, &why);
	CHECK(r == 0 || r == -EINVAL);
	if (r == 0) {
		check_rule(&rule);
		return 0;
	}
	CHECK(!rule.event && !rule.cgroup && strlen(why.text) > 10);
	for (const char *p = why.text; *p; p++)
		CHECK((unsigned char)*p >= 0x20 && *p != 0x7f);
	return 0;
}
