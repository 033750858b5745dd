/* SPDX-License-Identifier: MIT */

#include "base/config/capture-rule.h"

#include "base/util/glob.h"
#include "base/util/text.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define SPACES " \t\r\f\v"

#define EXAMPLE "write EVENT@CGROUP > NUMBER for DURATION, such as task-clock@/system.slice/** > 3.5 for 10s"

void capture_rule_release(struct capture_rule *rule)
{
	free(rule->event);
	free(rule->cgroup);
	*rule = (struct capture_rule){};
}

/* Cuts the last word off a text that begins with a space; "" where there is none. The labels of cgroups may have
 * spaces, so that a rule is read from its end. */
static char *cut_last_word(char *text)
{
	size_t n = strlen(text);
	char *word;

	while (n > 0 && strchr(SPACES, text[n - 1]))
		text[--n] = '\0';
	word = text + n;
	while (word > text && !strchr(SPACES, word[-1]))
		word--;
	if (word > text)
		word[-1] = '\0';
	return word;
}

static int take_duration(struct capture_rule *rule, const char *text, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	if (parse_duration(text, &rule->duration) == 0)
		return 0;
	return reason_set(why, -EINVAL, "'%s' after \"for\" is not a duration; write for example 10s or 1min",
			  text_excerpt(excerpt, text));
}

static int take_threshold(struct capture_rule *rule, const char *text, struct reason *why)
{
	char excerpt[EXCERPT_MAX], *end;

	rule->threshold = strtod(text, &end);
	if (!*text || *end || text[strspn(text, "0123456789.eE+-")] || !isfinite(rule->threshold) ||
	    signbit(rule->threshold))
		return reason_set(why, -EINVAL, "'%s' is not a number per second; " EXAMPLE,
				  text_excerpt(excerpt, text));
	if (rule->below && rule->threshold <= 0)
		return reason_set(why, -EINVAL, "no rate is below 0: this would never be so");
	return 0;
}

static int take_operator(struct capture_rule *rule, const char *text, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	rule->below = strcmp(text, "<") == 0;
	if (rule->below || strcmp(text, ">") == 0)
		return 0;
	return reason_set(why, -EINVAL, "'%s' stands where > or < should, with spaces around it; " EXAMPLE,
			  text_excerpt(excerpt, text));
}

static int check_cgroup(const char *glob, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	(void)text_excerpt(excerpt, glob);
	if (!*glob || !strchr("/*?[", *glob))
		return reason_set(why, -EINVAL,
				  "'@%s' is no cgroup, since their paths begin with '/'; write '@/%s', or @cpu for all "
				  "CPUs",
				  excerpt, excerpt);
	if (strlen(glob) > GLOB_MAX)
		return reason_set(why, -EINVAL, "'%s' is longer than %d bytes", excerpt, GLOB_MAX);
	return 0;
}

static int take_target(struct capture_rule *rule, char *text, struct reason *why)
{
	char *event = text + strspn(text, SPACES), *at = strchr(event, '@');

	for (size_t n = strlen(event); n > 0 && strchr(SPACES, event[n - 1]); n--)
		event[n - 1] = '\0';
	if (at)
		*at++ = '\0';
	if (!*event || event[strcspn(event, SPACES)])
		return reason_set(why, -EINVAL, "%s; " EXAMPLE,
				  *event ? "the event's name has a space in it" : "there is no event");
	if (at && strcmp(at, "cpu") != 0) {
		int r = check_cgroup(at, why);

		if (r < 0)
			return r;
		rule->cgroup = strdup(at);
		if (!rule->cgroup)
			return -ENOMEM;
	}
	rule->event = strdup(event);
	return rule->event ? 0 : -ENOMEM;
}

int capture_rule_parse(struct capture_rule *ret, const char *text, struct reason *why)
{
	_cleanup_(capture_rule_release) struct capture_rule rule = {};
	_cleanup_(freep) char *rest = NULL;
	char *number, *before;
	int r = 0;

	/* The space in front is for a word at the very beginning. */
	if (asprintf(&rest, " %s", text) < 0) {
		rest = NULL;
		return -ENOMEM;
	}
	number = cut_last_word(rest);
	before = cut_last_word(rest);
	if (strcmp(number, "for") == 0)
		return reason_set(why, -EINVAL, "there is no duration after \"for\"; write for example 10s or 1min");
	if (strcmp(before, "for") == 0) {
		r = take_duration(&rule, number, why);
		number = cut_last_word(rest);
		before = cut_last_word(rest);
	}
	if (r == 0)
		r = take_operator(&rule, before, why);
	if (r == 0)
		r = take_threshold(&rule, number, why);
	if (r == 0)
		r = take_target(&rule, rest, why);
	if (r < 0)
		return r;
	*ret = steal_struct(rule);
	return 0;
}
