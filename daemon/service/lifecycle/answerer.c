/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/answerer.h"

#include "base/util/gzip.h"
#include "base/util/log.h"
#include "base/util/work-child.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* A child that works for longer, in µs, is killed. */
#define ANSWER_LIMIT_US 30000000U

struct answerer {
	sd_event *loop;
	struct world *world;
	uint64_t *cpu_ns;
	struct work_child *child; /* NULL: nobody has asked since the last one was cancelled */
	web_answered_t answered;
	void *asker;
};

/* --- in the child */

struct job {
	const struct world *world;
	const struct profile_question *question;
};

/* The head of the child's result; its body is the document. */
struct outcome {
	int error;
	struct reason why;
};

static int compress_document(struct buf *out)
{
	_cleanup_(buf_release) struct buf compressed = {};
	int r = gzip_add(&compressed, out->data, out->len);

	if (r < 0)
		return r;
	buf_release(out);
	*out = steal_struct(compressed);
	return 0;
}

static void answer_in_child(struct buf *out, void *head, const void *what)
{
	const struct job *job = what;
	const struct profile_question *question = job->question;
	struct outcome *outcome = head;
	int r;

	if (question->form == PROFILE_FORM_CAPTURES)
		r = world_list_captures(job->world, out);
	else
		r = world_answer(job->world, question, out, &outcome->why);
	if (r == 0 && question->gzip)
		r = compress_document(out);
	if (r == -ENOMEM)
		reason_set(&outcome->why, r, "out of memory");
	if (r < 0)
		buf_release(out);
	outcome->error = r;
}

/* --- on the loop */

static int take_document(struct answerer *answerer, struct blob **ret, struct reason *why)
{
	_cleanup_(closep) int body = -1;
	struct outcome outcome;
	size_t len;
	int r = work_child_take(answerer->child, &outcome, &body, &len, why);

	if (r == -ECHILD) {
		log_warning("HTTP: the process for an answer %s", why->text);
		return reason_set(why, -EAGAIN, "the process for the answer crashed: perfmond's log has more");
	}
	if (r == -ETIME)
		return reason_set(why, r, "the answer took too long: ask for a shorter stretch");
	if (r >= 0 && outcome.error) {
		*why = outcome.why;
		return outcome.error;
	}
	if (r >= 0)
		r = blob_new_mapped(ret, body, len);
	return r < 0 ? reason_set(why, r, "the answer took too much memory: ask for a shorter stretch") : 0;
}

static void on_end(void *userdata)
{
	struct answerer *answerer = userdata;
	_cleanup_(blob_unrefp) struct blob *document = NULL;
	struct reason why = {};
	int r = take_document(answerer, &document, &why);

	*answerer->cpu_ns += work_child_cpu_ns(answerer->child);
	answerer->answered(answerer->asker, r, document, why.text);
}

int answerer_new(struct answerer **ret, sd_event *loop, struct world *world, uint64_t *cpu_ns)
{
	struct answerer *answerer = calloc(1, sizeof(*answerer));

	if (!answerer)
		return -ENOMEM;
	answerer->loop = loop;
	answerer->world = world;
	answerer->cpu_ns = cpu_ns;
	*ret = answerer;
	return 0;
}

struct answerer *answerer_free(struct answerer *answerer)
{
	if (!answerer)
		return NULL;
	answerer_cancel(answerer);
	free(answerer);
	return NULL;
}

/* Children do not get the history (block-pool.c), but the one that answers needs it for weights=counted. */
static void advise_history(const struct history *history, int advice)
{
	if (history->pool.base)
		(void)madvise(history->pool.base, history->pool.size, advice);
}

int answerer_ask(struct answerer *answerer, const struct profile_question *question, web_answered_t answered,
		 void *asker, struct reason *why)
{
	const struct job job = { .world = answerer->world, .question = question };
	const struct history *history = world_history(answerer->world);
	int r = 0;

	if (!answerer->child)
		r = work_child_new(&answerer->child, answerer->loop, sizeof(struct outcome), ANSWER_LIMIT_US, on_end,
				   answerer);
	answerer->answered = answered;
	answerer->asker = asker;
	world_take_samples(answerer->world);
	advise_history(history, MADV_DOFORK);
	if (r == 0)
		r = work_child_start(answerer->child, answer_in_child, &job);
	advise_history(history, MADV_DONTFORK);
	return r < 0 ? reason_set(why, r, "no process can be started for the answer: %s", strerror(-r)) : 0;
}

void answerer_cancel(struct answerer *answerer)
{
	answerer->child = work_child_free(answerer->child);
}
