/* SPDX-License-Identifier: MIT */

#include "setup/fake-source.h"

#include "base/util/gzip.h"
#include "profiler/answer/answer.h"
#include "profiler/capture/capture-list.h"
#include "web/api/route.h"

#include <errno.h>
#include <string.h>

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

static int answer_now(struct fake_source *fake, const struct profile_question *question, struct buf *out,
		      struct reason *why)
{
	const struct asked asked = { .fake = fake, .event = question->event, .counted = question->counted };
	const struct answer_samples samples = { .ask = ask_archive, .userdata = &asked, .clock = &question->clock };
	struct capture_saved file = { .bytes = 5 };
	const struct capture *capture;

	if (question->form == PROFILE_FORM_CAPTURES) {
		(void)snprintf(file.id, sizeof(file.id), "%s", fake->saved ?: "");
		capture_list_json(out, &fake->captures, &file, fake->saved ? 1 : 0, &fake->told);
		return buf_finish(out, 0);
	}
	if (!question->capture)
		return answer_question(out, question, &samples, why);
	capture = captures_find(&fake->captures, question->capture);
	return capture ? capture_answer(out, capture, question, why) :
			 reason_set(why, -ENOENT, "there is no such capture");
}

static int fake_ask(void *userdata, const struct profile_question *question, web_answered_t answered, void *asker,
		    struct reason *why)
{
	struct fake_source *fake = userdata;
	struct fake_answer *answer = &fake->pending;
	_cleanup_(buf_release) struct buf plain = {}, compressed = {};

	/* One at a time. */
	assert_null(answer->answered);
	if (fake->ask_error)
		return reason_set(why, fake->ask_error, "there is no profiler");
	fake->nr_asked++;
	*answer = (struct fake_answer){ .answered = answered, .asker = asker };
	answer->error = fake->answer_error ? reason_set(&answer->why, fake->answer_error, "it is \"lost\"") :
					     answer_now(fake, question, &plain, &answer->why);
	if (answer->error)
		return 0;
	if (question->gzip)
		assert_int_equal(gzip_add(&compressed, plain.data, plain.len), 0);
	assert_int_equal(blob_new(&answer->document, question->gzip ? &compressed : &plain), 0);
	return 0;
}

static void fake_cancel(void *userdata)
{
	struct fake_source *fake = userdata;

	/* There is something to cancel. */
	assert_non_null(fake->pending.answered);
	blob_unref(fake->pending.document);
	fake->pending = (struct fake_answer){};
}

bool fake_source_deliver(struct fake_source *fake)
{
	const struct fake_answer answer = steal_struct(fake->pending);

	if (answer.answered)
		answer.answered(answer.asker, answer.error, answer.document, answer.why.text);
	blob_unref(answer.document);
	return answer.answered;
}

static const char *fake_no_profiles(void *userdata)
{
	(void)userdata;
	return "";
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
		.ask = fake_ask,
		.cancel = fake_cancel,
		.no_profiles = fake_no_profiles,
		.ready = fake_ready,
		.scraped = fake_scraped,
		.history = &fake->history,
		.clock = &fake->clock,
		.info = &fake->info,
		.stats = &fake->stats,
		.userdata = fake,
	};
	return fake;
}

void fake_source_free(struct fake_source *fake)
{
	assert_null(fake->pending.answered);
	snapshot_unref(fake->snapshot);
	archive_free(fake->archive);
	captures_release(&fake->captures);
	history_release(&fake->history);
	free(fake);
}

/* A request that waits for the answer to its question. */
struct waiting {
	struct fake_source *fake;
	const struct request_head *head;
	struct response response;
};

static void on_answered(void *asker, int error, struct blob *document, const char *why)
{
	struct waiting *waiting = asker;
	const struct route_answer answer = { .error = error, .document = document, .why = why };

	route_answer(&waiting->response, &waiting->fake->source, waiting->head, &answer);
}

struct response respond_to(struct fake_source *fake, struct response_cache *cache, const struct request_head *head)
{
	struct waiting waiting = { .fake = fake, .head = head };
	_cleanup_(route_question_release) struct route_question asked = {};
	_cleanup_(rendering_unrefp) struct rendering *rendering = NULL;
	struct reason why = {};
	int r;

	switch (route_respond(&waiting.response, &fake->source, cache, head, &asked, &rendering)) {
	case ROUTE_ASKS:
		assert_int_equal(fake_ask(fake, &asked.question, on_answered, &waiting, &why), 0);
		assert_true(fake_source_deliver(fake));
		break;
	case ROUTE_RENDERS:
		do
			r = rendering_prepare(rendering);
		while (r > 0);
		if (r == 0)
			rendering_run(rendering);
		route_rendered(&waiting.response, &fake->source, rendering);
		if (rendering->body && rendering->key)
			response_cache_add(cache, rendering->snapshot, rendering->key, rendering->coding,
					   rendering->body);
		break;
	default:
		break;
	}
	return waiting.response;
}

const char *body_of(const struct response *response, size_t *ret_len)
{
	*ret_len = response->shared ? response->shared->len : response->body.len;
	return response->shared ? response->shared->data : response->body.data;
}

char *ask_route(struct fake_source *fake, const char *target, unsigned status, const char *type)
{
	const struct request_head head = { .method = "GET", .target = target };
	_cleanup_(response_release) struct response response = respond_to(fake, NULL, &head);
	struct buf text = {};
	const char *body;
	size_t len;

	body = body_of(&response, &len);
	if (response.status != status)
		fail_msg("%s: %u %.*s", target, response.status, (int)len, body);
	if (type)
		assert_string_equal(response.type, type);
	buf_add(&text, body, len);
	return buf_steal(&text);
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
