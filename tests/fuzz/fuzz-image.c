/* SPDX-License-Identifier: MIT */

/*
 * Images of what is counted: the input is what stands behind the beginning of one, whose boot and checksum are right.
 * It is refused, or it is something that can be read, saved, made again and succeeded. The perf events are files that
 * hold the input's end, so that what they count is nonsense as well.
 */

#include "fuzz.h"

#include "counting/session/session-image.h"
#include "counting/session/session.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define BOOT "boot"
#define NR_FILES 40
/* The first of the files' ids, as in the seeds. */
#define FIRST_ID 7012

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, ...);

static uint64_t next_id;

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	void *argument;
	va_list ap;

	va_start(ap, request);
	argument = va_arg(ap, void *);
	va_end(ap);
	if (request != PERF_EVENT_IOC_ID)
		return __real_ioctl(fd, request, argument);
	memcpy(argument, &next_id, sizeof(next_id));
	next_id++;
	return 0;
}

static void fill_pool(struct stored_pool *pool, const uint8_t *data, size_t size)
{
	next_id = FIRST_ID;
	for (int i = 0; i < NR_FILES; i++) {
		int fd = memfd_create("event", 0);
		size_t n = size < 512 ? size : 512;
		struct stored_id id;

		CHECK(fd >= 0);
		CHECK(write(fd, data + size - n, n) == (ssize_t)n);
		CHECK(lseek(fd, 0, SEEK_SET) == 0);
		CHECK(stored_pool_add(pool, fd, &id) == 0);
	}
}

static const struct privilege privilege = { .fd_limit = 1000 };

static struct session *restore(const struct buf *image, struct stored_pool *pool)
{
	struct reason why = {};
	struct session *session = NULL;
	int r = session_restore(&session, image->data, image->len, BOOT, &privilege, pool, &why);

	CHECK(r == 0 || r == -EBADMSG);
	CHECK((r == 0) == !*why.text && (r == 0) == !!session);
	for (const char *p = why.text; *p; p++)
		CHECK(!iscntrl((unsigned char)*p));
	return session;
}

/* What is made of it without its perf events counts nothing, and is the same each time. */
static void repeat(const struct buf *image)
{
	struct stored_pool pool = { .max = SIZE_MAX };
	_cleanup_(rewrite_release) struct rewrite again = {};
	_cleanup_(session_freep) struct session *first = restore(image, &pool);
	_cleanup_(session_freep) struct session *second = NULL;

	if (!first)
		return;
	CHECK(session_save(first, BOOT, &again));
	second = restore(&again.buf, &pool);
	CHECK(second);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		CHECK(session_totals(first)->nr_rows[scope] == session_totals(second)->nr_rows[scope]);
	CHECK(session_stats(first).lingering == session_stats(second).lingering);
}

static void succeed(struct session *from)
{
	const struct session_options options = { .linger = 1, .cgroup_max = 100 };
	const struct cpulist cpus = { .cpu = (int[]){ 0, 1 }, .nr = 2 };
	_cleanup_(session_freep) struct session *session = NULL;

	CHECK(session_new(&session, session_plan(from), &cpus, &privilege, &options) == 0);
	CHECK(session_takeover_begin(session, from) == 0);
	CHECK(session_takeover_end(session, from) == 0);
	session_tick(session, NULL);
}

static void take_over(const uint8_t *data, size_t size, bool names_engines)
{
	struct stored_pool pool = { .max = SIZE_MAX };
	_cleanup_(rewrite_release) struct rewrite image = {};
	_cleanup_(rewrite_release) struct rewrite again = {};
	_cleanup_(session_freep) struct session *session = NULL;

	image_begin(&image, BOOT, 0, names_engines);
	buf_add(&image.buf, (const char *)data, size);
	CHECK(image_end(&image, size));
	repeat(&image.buf);

	fill_pool(&pool, data, size);
	session = restore(&image.buf, &pool);
	stored_pool_release(&pool);
	if (!session)
		return;
	session_read(session);
	session_tick(session, NULL);
	CHECK(session_save(session, BOOT, &again));
	succeed(session);
}

/* As an image of either kind: its header tells whether it names the engines that have counted. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	take_over(data, size, false);
	take_over(data, size, true);
	return 0;
}
