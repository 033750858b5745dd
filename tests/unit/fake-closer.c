/* SPDX-License-Identifier: MIT */

#include "fake-closer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct closer slow;

void __wrap_closer_close(struct closer *closer, int fd);
size_t __wrap_closer_pending(const struct closer *closer);
void __wrap_closer_pause(struct closer *closer);
void __wrap_closer_resume(struct closer *closer);

void __wrap_closer_close(struct closer *closer, int fd)
{
	if (!closer) {
		safe_close(fd);
	} else if (fd >= 0) {
		assert_true(closer->nr < ARRAY_SIZE(closer->fds));
		closer->fds[closer->nr++] = fd;
	}
}

size_t __wrap_closer_pending(const struct closer *closer)
{
	return closer ? closer->nr : 0;
}

void __wrap_closer_pause(struct closer *closer)
{
	if (!closer)
		return;
	closer->paused++;
	closer->nr_pauses++;
}

void __wrap_closer_resume(struct closer *closer)
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
