/* SPDX-License-Identifier: MIT */

/* The child that does long work: its result, how it ends, and what is said of that. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/util/work-child.h"

#include "base/util/blob.h"
#include "base/util/clock.h"
#include "setup/limits.h"
#include "setup/needs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* No child that ends takes longer, however busy the machine is. */
#define PATIENCE_US (60 * 1000000ULL)

/* Shared with the child, and with who traces it. */
struct shared {
	_Atomic pid_t child;
	_Atomic bool is_traced;
};

struct head {
	int lowest_fd; /* that is free in the child */
	const char *type;
};

struct fixture {
	sd_event *loop;
	struct work_child *child;
	struct shared *shared;
	unsigned nr_done;
};

static void on_done(void *userdata)
{
	struct fixture *f = userdata;

	f->nr_done++;
}

static void make_child(struct fixture *f, uint64_t limit_us)
{
	f->child = work_child_free(f->child);
	assert_int_equal(work_child_new(&f->child, f->loop, sizeof(struct head), limit_us, on_done, f), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(sd_event_new(&f->loop), 0);
	f->shared = mmap(NULL, sizeof(*f->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(f->shared != MAP_FAILED);
	make_child(f, PATIENCE_US);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	work_child_free(f->child);
	assert_null(sd_event_unref(f->loop));
	/* The end of one that was killed just now is waited for for a moment only. */
	(void)waitpid(-1, NULL, 0);
	assert_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	(void)munmap(f->shared, sizeof(*f->shared));
	free(f);
	return 0;
}

static void run_until_end(struct fixture *f, work_child_work_t work)
{
	uint64_t end = clock_monotonic_ns() + 120 * (uint64_t)NS_PER_S;

	f->nr_done = 0;
	assert_int_equal(work_child_start(f->child, work, f->shared, NULL), 0);
	while (f->nr_done == 0) {
		assert_true(sd_event_run(f->loop, 2000) >= 0);
		if (clock_monotonic_ns() > end)
			fail_msg("the child has not ended after two minutes");
	}
}

/* --- what children do */

/* The body is its score for the OOM killer. */
static void tell_score(struct buf *out, void *head, _unused_ const void *what)
{
	int fd = open("/proc/self/oom_score_adj", O_RDONLY);
	char text[16];
	ssize_t n = read(fd, text, sizeof(text));

	*(struct head *)head = (struct head){ .lowest_fd = fd, .type = "text/plain" };
	buf_add(out, text, n > 0 ? (size_t)n : 0);
}

static void make_nothing(_unused_ struct buf *out, _unused_ void *head, _unused_ const void *what)
{
}

static void use_cpu(_unused_ struct buf *out, _unused_ void *head, _unused_ const void *what)
{
	while (clock_thread_ns() < 20 * NS_PER_MS)
		;
}

static void run_out_of_memory(struct buf *out, _unused_ void *head, _unused_ const void *what)
{
	out->failed = true;
}

static void crash(_unused_ struct buf *out, _unused_ void *head, _unused_ const void *what)
{
	(void)raise(SIGALRM);
}

static void end_badly(_unused_ struct buf *out, _unused_ void *head, _unused_ const void *what)
{
	_exit(1);
}

static void be_killed(_unused_ struct buf *out, _unused_ void *head, _unused_ const void *what)
{
	(void)raise(SIGKILL);
}

static void hang(_unused_ struct buf *out, _unused_ void *head, const void *what)
{
	struct shared *shared = (struct shared *)(uintptr_t)what;

	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	shared->child = getpid();
	for (;;)
		(void)pause();
}

/* --- tests */

static void test_result(void **state)
{
	struct fixture *f = *state;
	struct head head = {};
	struct reason why;
	struct blob *blob;
	size_t len = 1;
	int body = -1;

	assert_int_equal(work_child_take(f->child, &head, &body, &len, &why), -EAGAIN);
	run_until_end(f, tell_score);
	assert_int_equal(work_child_start(f->child, tell_score, NULL, &why), -EBUSY);
	assert_int_equal(work_child_take(f->child, &head, &body, &len, &why), 0);
	/* No file is open but the first three and its own. */
	assert_true(head.lowest_fd <= STDERR_FILENO + 2);
	assert_string_equal(head.type, "text/plain");
	assert_int_equal(blob_new_mapped(&blob, body, len), 0);
	close(body);
	assert_int_equal(blob->len, strlen("1000\n"));
	assert_memory_equal(blob->data, "1000\n", blob->len);
	blob_unref(blob);

	run_until_end(f, make_nothing);
	assert_int_equal(work_child_take(f->child, &head, &body, &len, &why), 0);
	assert_int_equal(len, 0);
	assert_null(head.type);
	close(body);

	/* The body of one is not wanted, and nothing of the other. */
	run_until_end(f, tell_score);
	assert_int_equal(work_child_take(f->child, &head, NULL, NULL, &why), 0);
	assert_string_equal(head.type, "text/plain");
	run_until_end(f, tell_score);
	work_child_give_up(f->child);
	assert_false(work_child_is_busy(f->child));
}

static void test_cpu_time(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(work_child_cpu_ns(f->child), 0);
	run_until_end(f, use_cpu);
	assert_true(work_child_cpu_ns(f->child) >= 19 * NS_PER_MS);
}

/* Where the time is short, it may be over before a child that does nothing has had a CPU. */
static void until_in_time(struct fixture *f)
{
	struct reason why;
	struct head head;
	int r = -ETIME;

	for (int i = 0; i < 2000 && r == -ETIME; i++) {
		run_until_end(f, make_nothing);
		r = work_child_take(f->child, &head, NULL, NULL, &why);
	}
	assert_int_equal(r, 0);
}

static void test_ends(void **state)
{
	static const struct {
		work_child_work_t work;
		uint64_t limit_us;
		int error;
		const char *why;
	} cases[] = {
		{ hang, 50000, -ETIME, "took too long" },
		{ crash, PATIENCE_US, -ECHILD, "crashed: signal 14 (Alarm clock)" },
		{ end_badly, PATIENCE_US, -ECHILD, "crashed: exit status 1" },
		{ be_killed, PATIENCE_US, -ENOMEM, "took too much memory" },
		{ run_out_of_memory, PATIENCE_US, -ENOMEM, "took too much memory" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason why;
		struct head head;
		size_t len;
		int body;

		make_child(f, cases[i].limit_us);
		run_until_end(f, cases[i].work);
		assert_int_equal(work_child_take(f->child, &head, &body, &len, &why), cases[i].error);
		assert_string_equal(why.text, cases[i].why);
		assert_false(work_child_is_busy(f->child));
		until_in_time(f);
	}
}

_Noreturn static void trace(struct shared *shared)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!shared->child)
		(void)usleep(1000);
	if (ptrace(PTRACE_SEIZE, shared->child, NULL, NULL) == 0)
		shared->is_traced = true;
	for (;;)
		(void)pause();
}

/* Another process keeps the child's end to itself: nobody waits for it. */
static void test_end_of_hanging(void **state)
{
	struct fixture *f = *state;
	pid_t tracer;

	needs("ptrace");

	assert_int_equal(work_child_start(f->child, hang, f->shared, NULL), 0);
	tracer = fork();
	if (tracer == 0)
		trace(f->shared);
	for (int i = 0; i < 60000 && !f->shared->is_traced; i++)
		(void)usleep(2000);
	if (!f->shared->is_traced)
		fail_msg("the child is not traced after two minutes");
	/* A free that waits for the child ends the program. */
	(void)alarm(120);
	f->child = work_child_free(f->child);
	(void)alarm(0);
	assert_int_equal(waitpid(f->shared->child, NULL, WNOHANG), 0);
	(void)kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
	assert_int_equal(waitpid(f->shared->child, NULL, 0), f->shared->child);
}

/* The call that fails, once: none, memfd_create(2), fork(2) or pidfd_open(2). */
static enum { NOTHING_FAILS, MEMFD_FAILS, FORK_FAILS, PIDFD_FAILS } failing;

static bool is_failing(int call)
{
	if ((int)failing != call)
		return false;
	failing = NOTHING_FAILS;
	errno = EAGAIN;
	return true;
}

int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);
pid_t __wrap_fork(void);
pid_t __real_fork(void);
long __wrap_syscall(long number, long a, long b, long c, long d);
long __real_syscall(long number, ...);

int __wrap_memfd_create(const char *name, unsigned flags)
{
	return is_failing(MEMFD_FAILS) ? -1 : __real_memfd_create(name, flags);
}

pid_t __wrap_fork(void)
{
	return is_failing(FORK_FAILS) ? -1 : __real_fork();
}

long __wrap_syscall(long number, long a, long b, long c, long d)
{
	return number == SYS_pidfd_open && is_failing(PIDFD_FAILS) ? -1 : __real_syscall(number, a, b, c, d);
}

/* The sentence says which; the next child works. */
static void test_no_child(void **state)
{
	static const char *const sentences[] = {
		[MEMFD_FAILS] = "there is no memory for a file: ",
		[FORK_FAILS] = "no process can be started: ",
		[PIDFD_FAILS] = "a process can't be waited for: ",
	};
	struct fixture *f = *state;
	rlim_t next = next_file();

	for (int call = MEMFD_FAILS; call <= PIDFD_FAILS; call++) {
		struct reason why = {};
		struct head head;

		failing = call;
		assert_int_equal(work_child_start(f->child, tell_score, NULL, &why), -EAGAIN);
		assert_int_equal(failing, NOTHING_FAILS);
		assert_ptr_equal(strstr(why.text, sentences[call]), why.text);
		assert_false(work_child_is_busy(f->child));
		run_until_end(f, tell_score);
		assert_int_equal(work_child_take(f->child, &head, NULL, NULL, &why), 0);
		assert_int_equal(next_file(), next);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_result, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cpu_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_of_hanging, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_child, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
