/* SPDX-License-Identifier: MIT */

#include "expose/rendering.h"

#include "util/gzip.h"

#include <errno.h>
#include <string.h>

/* What is to be written, and how. */
struct rendering {
	rendering_writer write;
	const void *userdata;
	enum snapshot_coding coding;
	const struct blob *plain; /* where somebody has asked for that; it is not kept for this */
};

static int write_as(struct buf *out, const struct rendering *rendering, const struct snapshot *snapshot, bool *written)
{
	const struct blob *plain = rendering->plain;
	_cleanup_(buf_release) struct buf text = {};
	int r;

	if (plain)
		return gzip_add(out, plain->data, plain->len);
	*written = true;
	if (rendering->coding == SNAPSHOT_PLAIN)
		return rendering->write(out, snapshot, rendering->userdata);
	r = rendering->write(&text, snapshot, rendering->userdata);
	return r < 0 ? r : gzip_add(out, text.data, text.len);
}

static int make_blob(struct blob **ret, const struct rendering *rendering, const struct snapshot *snapshot,
		     bool *written)
{
	struct buf out = {};
	int r = write_as(&out, rendering, snapshot, written);

	return r < 0 ? r : blob_new(ret, &out);
}

/* --- the whole */

static int write_whole(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	const struct expose_query all = { .now = count_now() };

	switch (*(const enum snapshot_format *)userdata) {
	case SNAPSHOT_OPENMETRICS:
		return expose_openmetrics(out, snapshot);
	case SNAPSHOT_JSON:
		return expose_json_snapshot(out, snapshot, &all);
	default:
		return expose_prometheus(out, snapshot);
	}
}

int rendering_get(struct blob **ret, struct snapshot *snapshot, enum snapshot_format format,
		  enum snapshot_coding coding, bool *written)
{
	struct blob **kept = snapshot->rendered[format];
	const struct rendering rendering = {
		.write = write_whole,
		.userdata = &format,
		.coding = coding,
		.plain = kept[SNAPSHOT_PLAIN],
	};
	int r = 0;

	*written = false;
	if (!kept[coding])
		r = make_blob(&kept[coding], &rendering, snapshot, written);
	if (r == 0)
		*ret = blob_ref(kept[coding]);
	return r;
}

/* --- parts */

static struct blob *find(const struct snapshot *snapshot, const char *question, enum snapshot_coding coding)
{
	for (size_t i = 0; i < snapshot->nr_answers; i++) {
		const struct snapshot_answer *answer = &snapshot->answers[i];

		if (answer->coding == coding && strcmp(answer->question, question) == 0)
			return answer->blob;
	}
	return NULL;
}

static void forget_oldest(struct snapshot *snapshot)
{
	struct snapshot_answer *oldest = snapshot->answers;

	free(oldest->question);
	blob_unref(oldest->blob);
	memmove(oldest, oldest + 1, --snapshot->nr_answers * sizeof(*oldest));
}

static size_t kept_bytes(const struct snapshot *snapshot)
{
	size_t bytes = 0;

	for (size_t i = 0; i < snapshot->nr_answers; i++)
		bytes += snapshot->answers[i].blob->len;
	return bytes;
}

static int keep(struct snapshot *snapshot, const char *question, enum snapshot_coding coding, struct blob *blob)
{
	char *copy = strdup(question);

	if (!copy)
		return -ENOMEM;
	while (snapshot->nr_answers == SNAPSHOT_ANSWERS ||
	       (snapshot->nr_answers > 0 && kept_bytes(snapshot) + blob->len > RENDERING_BYTES))
		forget_oldest(snapshot);
	snapshot->answers[snapshot->nr_answers++] =
		(struct snapshot_answer){ .question = copy, .coding = coding, .blob = blob_ref(blob) };
	return 0;
}

int rendering_ask(struct blob **ret, struct snapshot *snapshot, const char *question, enum snapshot_coding coding,
		  rendering_writer write, const void *userdata, bool *written)
{
	_cleanup_(blob_unrefp) struct blob *blob = find(snapshot, question, coding);
	const struct rendering rendering = {
		.write = write,
		.userdata = userdata,
		.coding = coding,
		.plain = coding == SNAPSHOT_GZIP ? find(snapshot, question, SNAPSHOT_PLAIN) : NULL,
	};
	int r = 0;

	*written = false;
	if (blob) {
		blob_ref(blob);
	} else {
		r = make_blob(&blob, &rendering, snapshot, written);
		if (r == 0)
			r = keep(snapshot, question, coding, blob);
	}
	if (r == 0)
		*ret = steal_ptr(blob);
	return r;
}
