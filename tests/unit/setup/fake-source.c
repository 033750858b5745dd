/* SPDX-License-Identifier: MIT */

#include "setup/fake-source.h"

#include "profiler/answer/answer.h"
#include "profiler/capture/capture-list.h"
#include "web/api/route.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int fake_snapshot(void *userdata, struct snapshot **ret)
{
	struct fake_source *fake = userdata;

	fake->nr_snapshots++;
	if (fake->snapshot_error)
		return fake->snapshot_error;
	*ret = snapshot_ref(fake->snapshot);
	return 0;
}

static void fake_update_profiles(void *userdata)
{
	struct fake_source *fake = userdata;

	fake->nr_updates++;
}

static void pass_gate(struct fake_gate *gate)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	unsigned number = ++gate->entered;

	while (!gate->open && number > gate->through)
		(void)nanosleep(&pause, NULL);
	if (gate->deadly)
		(void)raise(SIGKILL);
}

struct asked {
	const struct fake_source *fake;
	const char *event;
	bool counted;
};

/* Asks the archive, in which events have their own names. */
static int ask_archive(const void *userdata, const struct profile_query *query, struct profile **ret,
		       struct profile_measure *ret_measure, struct reason *why)
{
	const struct asked *asked = userdata;
	const char *event = asked->event;
	struct profile_query whole = *query;
	bool clock = strcmp(event, "cpu-clock") == 0;
	struct profile_counts counts = { .problem = "this is a fake" };

	if (asked->fake->profile_error)
		return reason_set(why, asked->fake->profile_error, "nothing is profiled");
	if (!clock && strcmp(event, "faults") && strcmp(event, "page-faults"))
		return reason_set(why, -ENOENT, "no event '%s' is sampled", event);
	*ret_measure = (struct profile_measure){
		.event = event,
		.unit = clock ? "seconds" : "count",
		.scale = clock ? 1e-9 : 1,
		.period = clock ? 52631578 : 0,
	};
	whole.event = event;
	whole.counts = asked->counted ? &counts : NULL;
	return profile_new(ret, asked->fake->archive, &whole);
}

static int fake_answer(void *userdata, const struct profile_question *question, struct buf *out, struct reason *why)
{
	struct fake_source *fake = userdata;
	const struct asked asked = { .fake = fake, .event = question->event, .counted = question->counted };
	const struct answer_samples samples = { .ask = ask_archive, .userdata = &asked, .clock = &question->clock };
	const struct capture *capture;

	fake->nr_profiles++;
	if (fake->gate)
		pass_gate(fake->gate);
	if (!question->capture)
		return answer_question(out, question, &samples, why);
	capture = captures_find(&fake->captures, question->capture);
	return capture ? capture_answer(out, capture, question, why) :
			 reason_set(why, -ENOENT, "there is no such capture");
}

static int fake_captures(void *userdata, struct buf *out)
{
	const struct fake_source *fake = userdata;
	struct capture_saved file = { .bytes = 5 };

	(void)snprintf(file.id, sizeof(file.id), "%s", fake->saved ?: "");
	capture_list_json(out, &fake->captures, &file, fake->saved ? 1 : 0);
	return buf_finish(out, 0);
}

static bool fake_rule(void *userdata, size_t i, struct capture_rule_info *ret)
{
	const struct fake_source *fake = userdata;

	if (i < fake->nr_rules)
		*ret = fake->rules[i];
	return i < fake->nr_rules;
}

static bool fake_ready(void *userdata, struct reason *why)
{
	struct fake_source *fake = userdata;

	if (!fake->ready)
		reason_set(why, 0, "5 cgroups are still to be opened");
	return fake->ready;
}

static void fake_scraped(void *userdata, bool written)
{
	struct fake_source *fake = userdata;

	fake->nr_scraped++;
	fake->nr_written += written;
}

struct fake_source *fake_source_new(struct snapshot *snapshot)
{
	struct fake_source *fake = calloc(1, sizeof(*fake));
	const struct clock_times now = clock_times_now();

	if (!fake || archive_new(&fake->archive, ARCHIVE_LIMIT_MIN) < 0)
		abort();
	captures_init(&fake->captures, 8 << 20);
	clock_steps_note(&fake->clock, &now);
	history_init(&fake->history, &fake->clock, 0);
	fake->snapshot = snapshot;
	fake->ready = true;
	fake->env.pmus = &fake->pmus;
	fake->info = (struct machine_info){
		.version = "1.2.3",
		.engine = "perf",
		.identity = &fake->identity,
		.online = 1,
		.privilege = &fake->privilege,
		.env = &fake->env,
		.no_cgroups = "no cgroup file system is mounted",
		.cpus = &fake->cpus,
	};
	fake->source = (struct web_source){
		.snapshot = fake_snapshot,
		.update_profiles = fake_update_profiles,
		.answer = fake_answer,
		.captures = fake_captures,
		.rule = fake_rule,
		.ready = fake_ready,
		.scraped = fake_scraped,
		.history = &fake->history,
		.values = &fake->values,
		.clock = &fake->clock,
		.info = &fake->info,
		.stats = &fake->stats,
		.userdata = fake,
	};
	return fake;
}

void fake_source_free(struct fake_source *fake)
{
	snapshot_unref(fake->snapshot);
	archive_free(fake->archive);
	captures_release(&fake->captures);
	capture_values_release(&fake->values);
	history_release(&fake->history);
	free(fake);
}

char *ask_route(struct fake_source *fake, const char *target, unsigned status, const char *type)
{
	const struct request_head head = { .method = "GET", .target = target };
	struct response response;

	route_respond(&response, &fake->source, NULL, &head);
	if (response.status != status)
		fail_msg("%s: %u %.*s", target, response.status, (int)response.body.len, response.body.data);
	if (type)
		assert_string_equal(response.type, type);
	return buf_steal(&response.body);
}

json_t *ask_route_json(struct fake_source *fake, const char *target)
{
	_cleanup_(freep) char *body = ask_route(fake, target, 200, "application/json");
	json_error_t error;
	json_t *json = json_loads(body, 0, &error);

	assert_null(strstr(body, "ffffffff"));
	if (!json)
		fail_msg("%s: %s: %s", target, error.text, body);
	return json;
}
