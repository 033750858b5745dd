/* SPDX-License-Identifier: MIT */

#include "setup/fake-async-close.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct async_close slow;

void __wrap_async_close_submit(struct async_close *closer, int fd);
size_t __wrap_async_close_pending(const struct async_close *closer);
void __wrap_async_close_pause(struct async_close *closer);
void __wrap_async_close_resume(struct async_close *closer);

void __wrap_async_close_submit(struct async_close *closer, int fd)
{
	if (!closer) {
		safe_close(fd);
	} else if (fd >= 0) {
		assert_true(closer->nr < ARRAY_SIZE(closer->fds));
		closer->fds[closer->nr++] = fd;
	}
}

size_t __wrap_async_close_pending(const struct async_close *closer)
{
	return closer ? closer->nr : 0;
}

void __wrap_async_close_pause(struct async_close *closer)
{
	if (!closer)
		return;
	closer->paused++;
	closer->nr_pauses++;
}

void __wrap_async_close_resume(struct async_close *closer)
{
	if (!closer)
		return;
	assert_true(closer->paused > 0);
	closer->paused--;
}

void close_slow(void)
{
	assert_int_equal(slow.paused, 0);
	while (slow.nr)
		safe_close(slow.fds[--slow.nr]);
}
