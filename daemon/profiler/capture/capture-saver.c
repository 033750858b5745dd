/* SPDX-License-Identifier: MIT */

#include "profiler/capture/capture-saver.h"

#include "base/host/unit-folders.h"
#include "base/util/log-once.h"
#include "base/util/log.h"
#include "base/util/work-child.h"
#include "profiler/answer/profile.h"
#include "profiler/capture/capture-folder.h"

#include <errno.h>
#include <string.h>

/* A disk can be slow. */
#define SAVE_LIMIT_US 300000000U

struct capture_saver {
	struct captures *captures;
	char *folder; /* or NULL: there is no state directory */
	struct work_child *child;
	uint64_t *cpu_ns;
	char *id; /* of the capture that the child is at; NULL: none */
	struct log_once problem;
};

/* --- one capture */

struct work {
	const struct capture_saver *saver;
	const struct capture *capture;
};

/* All of it, for pprof. */
static int render_capture(const struct capture *capture, struct buf *ret, struct reason *why)
{
	const struct profile_query query = { .to = UINT64_MAX, .by = PROFILE_BY_CGROUP | PROFILE_BY_COMMAND };
	struct expose_profile what = { .clock = &capture->cause.clock };
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = capture_ask(capture, &query, &profile, &what.measure);

	what.profile = profile;
	if (r == 0)
		r = expose_profile_pprof(ret, &what);
	return r < 0 ? reason_set(why, r, "captures can't be saved: %s", strerror(-r)) : 0;
}

static int save_capture(const struct work *work, struct reason *why)
{
	const struct capture_file file = {
		.id = work->capture->id,
		.rule = work->capture->cause.rule,
		.keep = work->capture->keep,
		.max_bytes = work->saver->captures->limit,
	};
	_cleanup_(buf_release) struct buf bytes = {};
	int r = render_capture(work->capture, &bytes, why);

	return r < 0 ? r : capture_folder_write(work->saver->folder, &file, bytes.data, bytes.len, why);
}

/* The head is the sentence on what went wrong. */
static void save_in_child(_unused_ struct buf *out, void *head, const void *what)
{
	(void)save_capture(what, head);
}

static void note_result(struct capture_saver *saver, const char *id, const char *problem)
{
	captures_saved(saver->captures, id, problem);
	if (problem[0])
		log_once_line(&saver->problem, LOG_WARNING, problem);
	else
		log_once_resolved(&saver->problem, "captures are saved again");
}

/* --- on the loop */

static void on_end(void *userdata)
{
	struct capture_saver *saver = userdata;
	_cleanup_(freep) char *id = steal_ptr(saver->id);
	struct reason why = {}, end;
	int r = work_child_take(saver->child, &why, NULL, NULL, &end);

	*saver->cpu_ns += work_child_cpu_ns(saver->child);
	if (r < 0)
		reason_set(&why, r, "captures can't be saved: their child %s", end.text);
	note_result(saver, id, why.text);
	capture_saver_turn(saver);
}

/* To be freed; NULL: there is no state directory. -ENOMEM. */
static int find_folder(char **ret)
{
	_cleanup_(freep) char *folder = NULL;

	*ret = NULL;
	if (unit_state_folder(&folder) < 0)
		return -ENOMEM;
	if (!folder || asprintf(ret, "%s/captures", folder) >= 0)
		return 0;
	*ret = NULL;
	return -ENOMEM;
}

int capture_saver_new(struct capture_saver **ret, struct captures *captures, sd_event *loop, uint64_t *cpu_ns)
{
	_cleanup_(capture_saver_freep) struct capture_saver *saver = calloc(1, sizeof(*saver));
	int r;

	if (!saver || find_folder(&saver->folder) < 0)
		return -ENOMEM;
	saver->captures = captures;
	saver->cpu_ns = cpu_ns;
	r = work_child_new(&saver->child, loop, sizeof(struct reason), SAVE_LIMIT_US, on_end, saver);
	if (r < 0)
		return r;
	*ret = steal_ptr(saver);
	return 0;
}

struct capture_saver *capture_saver_free(struct capture_saver *saver)
{
	if (!saver)
		return NULL;
	work_child_free(saver->child);
	log_once_release(&saver->problem);
	free(saver->folder);
	free(saver->id);
	free(saver);
	return NULL;
}

const char *capture_saver_folder(const struct capture_saver *saver)
{
	return saver->folder;
}

void capture_saver_turn(struct capture_saver *saver)
{
	const struct capture *capture = captures_to_save(saver->captures);
	const struct work work = { .saver = saver, .capture = capture };
	struct reason why, start;
	int r;

	if (!capture || work_child_is_busy(saver->child))
		return;
	saver->id = strdup(capture->id);
	r = saver->id ? work_child_start(saver->child, save_in_child, &work, &start) :
			reason_set(&start, -ENOMEM, "out of memory");
	if (r == 0)
		return;
	reason_set(&why, r, "captures can't be saved: %s", start.text);
	note_result(saver, capture->id, why.text);
	free(saver->id);
	saver->id = NULL;
}

void capture_saver_leave(struct capture_saver *saver)
{
	const struct capture *capture;

	/* What the child was at is written anew. */
	saver->child = work_child_free(saver->child);
	while ((capture = captures_to_save(saver->captures))) {
		const struct work work = { .saver = saver, .capture = capture };
		struct reason why = {};

		(void)save_capture(&work, &why);
		note_result(saver, capture->id, why.text);
	}
}
