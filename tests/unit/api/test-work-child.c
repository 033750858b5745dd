/* SPDX-License-Identifier: MIT */

/* The child that works out a response: how it ends, and what is said of that. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "web/api/work-child.h"

#include "base/util/clock.h"
#include "setup/needs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/* No child that ends takes longer, however busy the machine is. */
#define PATIENCE_US (60 * 1000000ULL)

/* Shared with the child, and with who traces it. */
struct shared {
	_Atomic pid_t child;
	_Atomic bool is_traced;
};

struct fixture {
	sd_event *loop;
	struct web_stats stats;
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
	assert_int_equal(work_child_new(&f->child, f->loop, &f->stats, limit_us, on_done, f), 0);
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

/* What work_child_take() says in the end. */
static int ask(struct fixture *f, work_child_work_t work, struct response *ret)
{
	uint64_t end = clock_monotonic_ns() + 120 * (uint64_t)NS_PER_S;

	f->nr_done = 0;
	assert_int_equal(work_child_start(f->child, work, f->shared), 0);
	while (f->nr_done == 0) {
		assert_true(sd_event_run(f->loop, 2000) >= 0);
		if (clock_monotonic_ns() > end)
			fail_msg("the child has not ended after two minutes");
	}
	return work_child_take(f->child, ret);
}

/* --- what children do */

/* Answers with its score for the OOM killer. */
static void tell_score(struct response *ret, const void *what)
{
	int fd = open("/proc/self/oom_score_adj", O_RDONLY);
	char text[16];
	ssize_t n = read(fd, text, sizeof(text));

	(void)what;
	/* No file is open but the first three and its own. */
	ret->status = fd <= STDERR_FILENO + 2 ? 200 : 500;
	ret->type = "text/plain";
	buf_add(&ret->body, text, n > 0 ? (size_t)n : 0);
}

static void answer_nothing(struct response *ret, const void *what)
{
	(void)what;
	ret->status = 200;
	ret->type = "text/plain";
}

static void run_out_of_memory(struct response *ret, const void *what)
{
	answer_nothing(ret, what);
	ret->body.failed = true;
}

static void crash(struct response *ret, const void *what)
{
	(void)ret;
	(void)what;
	(void)raise(SIGALRM);
}

static void end_badly(struct response *ret, const void *what)
{
	(void)ret;
	(void)what;
	_exit(1);
}

static void be_killed(struct response *ret, const void *what)
{
	(void)ret;
	(void)what;
	(void)raise(SIGKILL);
}

static void hang(struct response *ret, const void *what)
{
	struct shared *shared = (struct shared *)(uintptr_t)what;

	(void)ret;
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	shared->child = getpid();
	for (;;)
		(void)pause();
}

/* --- tests */

static void test_answers(void **state)
{
	struct fixture *f = *state;
	struct response response = {};

	assert_int_equal(ask(f, tell_score, &response), 0);
	assert_int_equal(response.status, 200);
	assert_int_equal(response.shared->len, strlen("1000\n"));
	assert_memory_equal(response.shared->data, "1000\n", response.shared->len);
	response_release(&response);
	assert_int_equal(ask(f, answer_nothing, &response), 0);
	assert_int_equal(response.shared->len, 0);
	response_release(&response);
}

/* Where the time is short, it may be over before a child that does nothing has had a CPU. */
static int ask_in_time(struct fixture *f, struct response *ret)
{
	int r = -ETIME;

	for (int i = 0; i < 2000 && r == -ETIME; i++)
		r = ask(f, answer_nothing, ret);
	return r;
}

static void test_ends(void **state)
{
	static const struct {
		work_child_work_t work;
		uint64_t limit_us;
		int error;
	} cases[] = {
		{ hang, 50000, -ETIME },
		{ crash, PATIENCE_US, -ECHILD },
		{ end_badly, PATIENCE_US, -ECHILD },
		{ be_killed, PATIENCE_US, -ENOMEM },
		{ run_out_of_memory, PATIENCE_US, -ENOMEM },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct response response = {};

		make_child(f, cases[i].limit_us);
		assert_int_equal(ask(f, cases[i].work, &response), cases[i].error);
		assert_false(work_child_is_busy(f->child));
		assert_int_equal(ask_in_time(f, &response), 0);
		response_release(&response);
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

	assert_int_equal(work_child_start(f->child, hang, f->shared), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_of_hanging, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
