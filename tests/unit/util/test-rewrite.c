/* SPDX-License-Identifier: MIT */

/* Bytes that are written again, with parts kept and patched: they are as if all were new, and so are their copies. */

#include "base/util/rewrite.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HEADER 32
#define THINGS 700
#define WORDS 5

struct played {
	struct rewrite rewrite;
	uint64_t things[THINGS][WORDS];
	bool changed[THINGS];
	size_t nr;
	struct rewrite_place place;
	int files[2];
	uint64_t copied[2];
	uint64_t random;
	size_t kept;
};

static uint64_t draw(struct played *p, uint64_t below)
{
	p->random = p->random * 6364136223846793005U + 1442695040888963407U;
	return (p->random >> 33) % below;
}

static void change(struct played *p, size_t thing)
{
	p->things[thing][draw(p, WORDS)]++;
	p->changed[thing] = true;
}

static void write_all_things(struct played *p, bool moved)
{
	struct rewrite *rewrite = &p->rewrite;
	uint64_t header[HEADER / 8] = { rewrite->times }, before[3] = { draw(p, 2), 7, draw(p, 2) };
	size_t at, end;

	rewrite_begin(rewrite, HEADER);
	buf_add(&rewrite->buf, (const char *)header, sizeof(header));
	rewrite_add(rewrite, before, sizeof(before));
	at = rewrite->buf.len;
	if (!moved && rewrite_is_same(rewrite, &p->place)) {
		p->kept++;
		rewrite_keep(rewrite, p->place.length);
		for (size_t i = 0; i < p->nr; i++) {
			if (!p->changed[i])
				continue;
			end = rewrite_begin_patch(rewrite, at + i * sizeof(*p->things));
			buf_add(&rewrite->buf, (const char *)p->things[i], sizeof(*p->things));
			rewrite_end_patch(rewrite, at + i * sizeof(*p->things), end);
		}
	} else {
		buf_add(&rewrite->buf, (const char *)p->things, p->nr * sizeof(*p->things));
	}
	rewrite_note_place(rewrite, &p->place, at);
	memset(p->changed, 0, sizeof(p->changed));
	rewrite_add(rewrite, before, sizeof(*before) * draw(p, 2));
	assert_true(rewrite_end(rewrite));
}

static void check(struct played *p, unsigned which)
{
	const struct buf *buf = &p->rewrite.buf;
	size_t size = buf->len - HEADER;
	char *copy = malloc(buf->len);

	assert_non_null(copy);
	assert_memory_equal(buf->data + HEADER + 24, p->things, p->nr * sizeof(*p->things));
	assert_int_equal(p->rewrite.checksum, crc32_z(0, (const unsigned char *)buf->data + HEADER, size));
	assert_int_equal(rewrite_copy(&p->rewrite, p->files[which], p->copied[which]), 0);
	p->copied[which] = p->rewrite.times;
	assert_int_equal(pread(p->files[which], copy, buf->len, 0), buf->len);
	assert_memory_equal(copy, buf->data, buf->len);
	free(copy);
}

static void test_again(void **state)
{
	struct played *p = calloc(1, sizeof(*p));

	(void)state;
	assert_non_null(p);
	p->random = 1;
	p->nr = THINGS / 2;
	for (unsigned i = 0; i < 2; i++)
		p->files[i] = memfd_create("copy", MFD_CLOEXEC);
	for (unsigned round = 0; round < 3000; round++) {
		bool moved = draw(p, 20) == 0;

		for (size_t i = draw(p, 20); i-- > 0;)
			change(p, draw(p, p->nr));
		if (moved)
			p->nr = 1 + draw(p, THINGS);
		write_all_things(p, moved);
		check(p, draw(p, 5) ? round % 2 : 0);
	}
	assert_true(p->kept > 2000 / 4);
	for (unsigned i = 0; i < 2; i++)
		(void)close(p->files[i]);
	rewrite_release(&p->rewrite);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests_name("rewrite", tests, NULL, NULL);
}
