/* SPDX-License-Identifier: MIT */

/*
 * Images of samples: the input is what stands behind the beginning of one, whose origin and checksum are right. It is
 * refused, or it is an archive that can be asked, written, read again and emptied.
 */

#include "fuzz.h"

#include "base/util/clock.h"
#include "profiler/answer/query.h"
#include "profiler/archive/archive-image.h"
#include "profiler/archive/archive-internal.h"

#include <ctype.h>
#include <errno.h>
#include <zlib.h>

#define HEADER (4 * sizeof(uint64_t))
/* The texts of the origin, each with its length. */
#define BEGINNING (HEADER + 4 * sizeof(uint64_t))
#define LIMIT (1 << 20)

static const struct archive_origin origin = { .boot_id = "boot", .visible = "all\n" };

static void begin_image(struct buf *ret)
{
	const struct archive_past past = {};
	struct archive *empty;

	CHECK(archive_new(&empty, LIMIT) == 0);
	CHECK(archive_write(empty, &past, &origin, LIMIT, UINT64_MAX, ret) == 0);
	archive_free(empty);
	ret->len = BEGINNING;
}

static void end_image(struct buf *image)
{
	uint64_t ends[2] = { image->len, crc32_z(0, (void *)(image->data + HEADER), image->len - HEADER) };

	memcpy(image->data + 2 * sizeof(uint64_t), ends, sizeof(ends));
}

static void ask(const struct archive *archive, const char *event)
{
	const struct profile_query query = { .to = UINT64_MAX / 2,
					     .event = event,
					     .by = PROFILE_BY_CGROUP | PROFILE_BY_COMMAND };
	struct profile *profile;

	CHECK(profile_new(&profile, archive, &query) == 0);
	profile_free(profile);
}

/* Without the time, and in more memory, nothing is left out. */
static void repeat(const struct archive *archive, const struct archive_past *past)
{
	_cleanup_(buf_release) struct buf image = {};
	_cleanup_(archive_freep) struct archive *again = NULL;
	struct archive_past past_again;
	struct reason why = {};

	CHECK(archive_write(archive, past, &origin, (size_t)64 << 20, UINT64_MAX, &image) == 0);
	CHECK(archive_read(&again, &past_again, &origin, image.data, image.len, 64 * LIMIT, &why) == 0);
	CHECK(archive_stats(again).nr == archive_stats(archive).nr);
	CHECK(memcmp(past, &past_again, sizeof(*past)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(archive_freep) struct archive *archive = NULL;
	_cleanup_(buf_release) struct buf image = {};
	struct archive_past past;
	struct reason why = {};
	struct archive_nameless found[16];
	uint32_t at = 0;
	int r;

	begin_image(&image);
	buf_add(&image, (const char *)data, size);
	end_image(&image);
	r = archive_read(&archive, &past, &origin, image.data, image.len, LIMIT, &why);
	CHECK(r == 0 || r == -EPROTO);
	CHECK((r == 0) == !*why.text && (r == 0) == !!archive);
	for (const char *p = why.text; *p; p++)
		CHECK(!iscntrl((unsigned char)*p));
	if (!archive)
		return 0;
	ask(archive, "clock");
	repeat(archive, &past);
	while (archive_next_nameless(archive, &at, found, ARRAY_SIZE(found)) == ARRAY_SIZE(found))
		;
	while (archive_drop_oldest(archive))
		ask(archive, "clock");
	return 0;
}
