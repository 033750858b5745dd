/* SPDX-License-Identifier: MIT */

#include "setup/profiled-world.h"

#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct channel_rules rules = { PROFILER_PROTOCOL, _PROFILER_MESSAGE_MAX, PROFILER_CONTENT_MAX };

/* --- the keeper, the tree and the rules */

struct keeper_news keeper_news;

static struct cgroup_tree *tree;

static struct cgroup_changes changes;

/* In place of the keeper, which is never looked at. */
static char keeper_memory;
#define KEEPER ((struct profiler_keeper *)&keeper_memory)

struct due_rule due_rule;

bool cgroup_changes_lost;

int __wrap_profiler_keeper_fd(const struct profiler_keeper *keeper);
int __wrap_profiler_keeper_fd(const struct profiler_keeper *keeper)
{
	assert_ptr_equal(keeper, KEEPER);
	return keeper_news.fd;
}

int __wrap_profiler_keeper_receive(struct profiler_keeper *keeper, struct profiler_start *ret, struct reason *why);
int __wrap_profiler_keeper_receive(struct profiler_keeper *keeper, struct profiler_start *ret, struct reason *why)
{
	uint64_t nr;

	assert_ptr_equal(keeper, KEEPER);
	if (!keeper_news.is_there)
		return -EAGAIN;
	keeper_news.is_there = false;
	assert_int_equal(read(keeper_news.fd, &nr, sizeof(nr)), sizeof(nr));
	if (keeper_news.result < 0)
		return reason_set(why, keeper_news.result, "the keeper is gone");
	*ret = keeper_news.start;
	return 0;
}

const struct cgroup_tree *__wrap_world_tree(const struct world *world);
const struct cgroup_tree *__wrap_world_tree(const struct world *world)
{
	assert_non_null(world);
	return tree;
}

struct cgroup_changes __wrap_world_take_cgroup_changes(struct world *world);
struct cgroup_changes __wrap_world_take_cgroup_changes(struct world *world)
{
	assert_non_null(world);
	changes.lost = cgroup_changes_lost;
	cgroup_changes_lost = false;
	return steal_struct(changes);
}

void __wrap_capture_rules_tick(struct capture_rules *watched, const struct session *session, uint64_t now,
			       const char *problem, due_take_t take, void *userdata);
void __wrap_capture_rules_tick(struct capture_rules *watched, const struct session *session, uint64_t now,
			       const char *problem, due_take_t take, void *userdata)
{
	assert_non_null(session);
	assert_int_equal(watched->nr, 1);
	reason_set(&due_rule.problem, 0, "%s", problem ?: "");
	due_rule.target.now = now;
	if (due_rule.is_due && !problem)
		due_rule.answer = take(userdata, watched->items[0], &due_rule.target);
	due_rule.is_due = false;
}

static void note_change(uint64_t id, const char *path)
{
	changes.items = reallocarray(changes.items, changes.nr + 1, sizeof(*changes.items));
	assert_non_null(changes.items);
	changes.items[changes.nr++] = (struct cgroup_change){ .id = id, .path = path ? strdup(path) : NULL };
}

static void note_added(_unused_ void *userdata, struct cgroup *cgroup)
{
	note_change(cgroup->identity->id, cgroup->path);
}

static void note_removed(_unused_ void *userdata, struct cgroup *cgroup)
{
	note_change(cgroup->identity->id, NULL);
}

static void note_nothing(_unused_ void *userdata, _unused_ struct cgroup *cgroup)
{
}

/* --- the world */

static struct config *make_config(const struct profiled_world *f, const char *more)
{
	_cleanup_(buf_release) struct buf text = {};
	struct config *config = NULL;
	struct reason why = {};

	buf_printf(&text,
		   "[daemon]\nprocfs = %s/proc\nsysfs = %s/sys\n[cpu]\ngroups =\n[cgroup]\ngroups =\nmount = "
		   "/nonexistent\n%s",
		   f->scratch.path, f->scratch.path, more);
	assert_false(text.failed);
	assert_int_equal(config_new(&config), 0);
	if (config_parse(config, "f", text.data, text.len, &why) < 0)
		fail_msg("%s", why.text);
	return config;
}

static void make_tree(const struct profiled_world *f)
{
	static char *globs[] = { (char *)"**" };
	static const struct cgroup_filter all = { .include = globs, .nr_include = 1 };
	static const struct cgroup_observer observer = { note_added, note_removed, note_nothing, NULL };
	struct reason why = {};

	scratch_mkdir(&f->scratch, "cgroups/a/b");
	assert_int_equal(cgroup_tree_new(&tree, scratch_path(&f->scratch, "cgroups"), &all, &observer, &why), 0);
	assert_int_equal(cgroup_tree_start(tree, &why), 0);
	cgroup_changes_release(&changes);
}

void follow_tree(void)
{
	struct reason why = {};

	do
		assert_int_equal(cgroup_tree_follow(tree, UINT64_MAX, &why), 0);
	while (cgroup_tree_has_more(tree));
}

const struct cgroup *cgroup_of(const char *path)
{
	const struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(tree), in_all)
		if (strcmp(cgroup->path, path) == 0)
			return cgroup;
	fail_msg("no cgroup %s", path);
	return NULL;
}

void reload_world(const struct profiled_world *f, const char *more)
{
	struct reload *next;
	struct reason why = {};
	uint64_t before = world_generation(f->world);

	if (world_prepare(f->world, make_config(f, more), &next, &why) < 0)
		fail_msg("%s", why.text);
	world_commit(f->world, next, &why);
	assert_int_not_equal(world_generation(f->world), before);
	profiles_follow(f->profiles);
}

static int begin(void **state, const char *more)
{
	struct profiled_world *f = calloc(1, sizeof(*f));
	struct reason why = {};

	assert_non_null(f);
	*state = f;
	memset(&keeper_news, 0, sizeof(keeper_news));
	cgroup_changes_release(&changes);
	cgroup_changes_lost = false;
	memset(&due_rule, 0, sizeof(due_rule));
	keeper_news.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(keeper_news.fd >= 0);
	scratch_make(&f->scratch);
	scratch_text(&f->scratch, "sys/devices/system/cpu/online", "0-1\n");
	scratch_text(&f->scratch, "proc/sys/kernel/perf_event_paranoid", "2\n");
	make_tree(f);
	assert_true(sd_event_new(&f->loop) >= 0);
	if (world_new(&f->world, make_config(f, more), NULL, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(world_start(f->world, &why), 0);
	assert_int_equal(profiles_new(&f->profiles, f->loop, f->world, KEEPER, 77), 0);
	return 0;
}

int profiled_setup(void **state)
{
	return begin(state, RULE);
}

int profiled_setup_off(void **state)
{
	return begin(state, "[profiles]\nenabled = no\n" RULE);
}

void run_loop(const struct profiled_world *f)
{
	while (sd_event_run(f->loop, 0) > 0)
		;
}

/* How the profiler's process ended; it was killed, or is now. */
int reap_profiler(struct profiled_world *f, bool is_killed)
{
	int status;

	if (!is_killed)
		assert_int_equal(kill(f->pid, SIGTERM), 0);
	assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
	f->pid = 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int profiled_teardown(void **state)
{
	struct profiled_world *f = *state;

	profiles_free(f->profiles);
	world_free(f->world);
	sd_event_unref(f->loop);
	channel_free(f->far);
	if (f->pid)
		(void)reap_profiler(f, false);
	tree = cgroup_tree_free(tree);
	scratch_remove(&f->scratch);
	close(keeper_news.fd);
	free(f);
	return 0;
}

/* --- the profiler */

void tell_news(const struct profiled_world *f, int result)
{
	const uint64_t one = 1;

	keeper_news.result = result;
	keeper_news.is_there = true;
	assert_int_equal(write(keeper_news.fd, &one, sizeof(one)), sizeof(one));
	run_loop(f);
}

/* The one before is gone, or there was none. */
void start_profiler(struct profiled_world *f)
{
	int fds[2];

	f->far = channel_free(f->far);
	run_loop(f);
	if (f->pid)
		(void)reap_profiler(f, false);
	/* Before there are sockets, which it would keep open. */
	f->pid = fork();
	assert_true(f->pid >= 0);
	if (!f->pid)
		for (;;)
			(void)pause();
	assert_int_equal(channel_pair(fds), 0);
	assert_int_equal(channel_new(&f->far, fds[1], &rules), 0);
	keeper_news.start = (struct profiler_start){
		.number = ++keeper_news.starts,
		.last_status = keeper_news.starts > 1 ? SIGKILL : -1,
		.socket = fds[0],
		.pidfd = (int)syscall(SYS_pidfd_open, f->pid, 0),
	};
	tell_news(f, 0);
}

/* The next message that the profiler gets, to be released. */
struct message next_message(const struct profiled_world *f, enum profiler_message kind)
{
	struct message message = MESSAGE_EMPTY;
	struct reason why = {};
	int r;

	do {
		message_release(&message);
		run_loop(f);
		r = channel_receive(f->far, &message, &why);
		if (r != 1)
			fail_msg("no message of kind %d: %d, %s", kind, r, why.text);
	} while (message.kind == PROFILER_PING);
	assert_int_equal(message.kind, kind);
	return message;
}

/* Nothing but pings. */
void expect_silence(const struct profiled_world *f)
{
	struct message message = MESSAGE_EMPTY;
	struct reason why = {};

	run_loop(f);
	while (channel_receive(f->far, &message, &why) == 1) {
		assert_int_equal(message.kind, PROFILER_PING);
		message_release(&message);
	}
}

static struct profiler_settings next_settings(const struct profiled_world *f, uint64_t number)
{
	_cleanup_(message_release) struct message message = next_message(f, PROFILER_SETTINGS);
	struct profiler_settings settings;

	assert_int_equal(message.number, number);
	assert_int_equal(read_settings(&settings, message.content, message.len), 0);
	return settings;
}

/* Its events have this rate; 0: there are none. */
void expect_settings(const struct profiled_world *f, uint64_t number, uint64_t rate, uint64_t sampled)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings = next_settings(f, number);

	assert_int_equal(settings.nr_events, rate ? 1 : 0);
	if (rate)
		assert_int_equal(settings.events[0].rate, rate);
	assert_int_equal(settings.sampled, sampled);
	assert_int_equal(settings.cpus.nr, 2);
	assert_int_equal(settings.nr_keeps, 1);
	assert_int_equal(settings.keeps[0].nr, 3);
}

/* Those that are gone are the last. */
static int compare(const void *a, const void *b)
{
	const char *x = ((const struct told_cgroup *)a)->path, *y = ((const struct told_cgroup *)b)->path;

	return x && y ? strcmp(x, y) : !x - !y;
}

/* The paths that have come, sorted, and how many have gone. */
void expect_cgroups(const struct profiled_world *f, bool is_all, const char *added, size_t nr_removed)
{
	_cleanup_(message_release) struct message message = next_message(f, PROFILER_CGROUPS);
	_cleanup_(told_cgroups_release) struct told_cgroups cgroups = {};
	_cleanup_(buf_release) struct buf paths = {};
	size_t nr = 0;

	assert_int_equal(read_cgroups(&cgroups, message.content, message.len), 0);
	assert_int_equal(cgroups.is_all, is_all);
	qsort(cgroups.items, cgroups.nr, sizeof(*cgroups.items), compare);
	for (; nr < cgroups.nr && cgroups.items[nr].path; nr++) {
		buf_printf(&paths, "%s|", cgroups.items[nr].path);
		assert_int_equal(cgroups.items[nr].id, cgroup_of(cgroups.items[nr].path)->identity->id);
	}
	assert_int_equal(cgroups.nr - nr, nr_removed);
	buf_char(&paths, '\0');
	assert_string_equal(paths.data, added);
}

/* All that a profiler is told at first. */
void expect_everything(const struct profiled_world *f, uint64_t number, uint64_t sampled)
{
	expect_settings(f, number, 19, sampled);
	expect_cgroups(f, true, ALL, 0);
	expect_silence(f);
}

void say(const struct profiled_world *f, enum profiler_message kind, uint64_t number, const struct buf *content)
{
	assert_false(content->failed);
	assert_int_equal(channel_send(f->far, kind, number, content->data, content->len, -1), 0);
	run_loop(f);
}

struct profiler_state a_state(uint64_t settings, const char *problem)
{
	return (struct profiler_state){
		.settings = settings, .is_on = !problem[0], .drained = 1234, .problem = (char *)(uintptr_t)problem
	};
}

void say_state(const struct profiled_world *f, const struct profiler_state *state)
{
	_cleanup_(buf_release) struct buf content = {};

	write_state(&content, state);
	say(f, PROFILER_STATE, 0, &content);
}

void say_refusal(const struct profiled_world *f, uint64_t number, int error, const char *why)
{
	_cleanup_(buf_release) struct buf content = {};
	struct profiler_refusal refusal = { .error = error };

	reason_set(&refusal.why, 0, "%s", why);
	write_refusal(&content, &refusal);
	say(f, PROFILER_REFUSAL, number, &content);
}

void say_answer(const struct profiled_world *f, uint64_t number, const char *document)
{
	_cleanup_(buf_release) struct buf content = {};

	buf_str(&content, document);
	say(f, PROFILER_ANSWER, number, &content);
}
