/* SPDX-License-Identifier: MIT */

/* cgroup/container-finder, with real children: which files they read, which they refuse, and what becomes of it. */

#include "base/cgroup/container-child.h"
#include "base/cgroup/container-finder.h"
#include "base/util/clock.h"
#include "setup/needs.h"
#include "setup/watched.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define ID DIGITS "1"
#define ID2 DIGITS "2"
#define POD "12345678-1234-1234-1234-123456789abc"
#define TURN_MS 20
#define DOCKER "{\"Name\":\"/web\",\"Config\":{\"Image\":\"nginx:1\"}}"
#define BUNDLE                                                                                                         \
	"{\"annotations\":{\"io.kubernetes.pod.name\":\"shop-0\",\"io.kubernetes.pod.namespace\":\"retail\","          \
	"\"io.kubernetes.container.name\":\"cart\"}}"

/* A tree of cgroups, and the files of runtimes in a folder. */
struct world {
	struct watched watched;
	struct scratch files;
	struct container_finder *finder;
	char *folder;
};

static void set_up(struct world *world)
{
	*world = (struct world){};
	watched_make(&world->watched);
	scratch_make(&world->files);
	world->folder = world->files.path;
	assert_int_equal(container_finder_new(&world->finder), 0);
	container_finder_use(world->finder, &world->folder, 1);
}

static void tear_down(struct world *world)
{
	container_finder_free(world->finder);
	scratch_remove(&world->files);
	watched_free(&world->watched);
}

static const struct cgroup_identity *identity_of(struct world *world, const char *path)
{
	return watched_find(&world->watched, path)->identity;
}

uint64_t __wrap_clock_monotonic_ns(void);

/* The finder's time goes on by turns: where this process has to wait, no try is over. */
static uint64_t turns;

uint64_t __wrap_clock_monotonic_ns(void)
{
	return (1000 + turns) * TURN_MS * NS_PER_MS;
}

static void turn_once(struct world *world)
{
	struct pollfd wait = { .fd = container_finder_fd(world->finder), .events = POLLIN };

	(void)container_finder_turn(world->finder, world->watched.tree);
	(void)poll(&wait, 1, TURN_MS);
	turns++;
}

/* Turns until the cgroup has names, or there is a problem: what is tried again takes seconds. */
static void turn(struct world *world, const char *path)
{
	for (uint64_t begin = turns; turns < begin + 120000 / TURN_MS; turn_once(world))
		if (identity_of(world, path)->names || container_finder_problem(world->finder)[0])
			return;
	fail_msg("%s: neither names nor a problem after two minutes", path);
}

static void expect_names(struct world *world, const char *path, const char *expected)
{
	const struct container_names *names = identity_of(world, path)->names;
	char text[1024] = "";

	if (!names) {
		if (expected)
			fail_msg("%s: no names: %s", path, container_finder_problem(world->finder));
		return;
	}
	for (int i = 0; i < _CONTAINER_NAME_MAX; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "|" : "",
			       container_names_text(names, (enum container_name)i) ?: "");
	assert_string_equal(text, expected);
}

static void expect_problem(struct world *world, const char *part)
{
	if (!strstr(container_finder_problem(world->finder), part))
		fail_msg("'%s' lacks '%s'", container_finder_problem(world->finder), part);
}

/* A container of docker's, whose file has this text, is looked for. */
static void look_for(struct world *world, const char *file, const char *text, size_t size)
{
	watched_mkdir(&world->watched, "docker/" ID);
	if (file)
		scratch_write(&world->files, file, text, size);
	watched_start(&world->watched);
	turn(world, "/docker/" ID);
}

static void test_layouts(_unused_ void **state)
{
	static const struct {
		const char *file, *text, *names;
	} table[] = {
		{ ID "/config.v2.json", DOCKER, "||web|nginx:1" },
		{ ID "/userdata/config.json", BUNDLE, "retail|shop-0|cart|" },
		{ "k8s.io/" ID "/config.json", BUNDLE, "retail|shop-0|cart|" },
		{ "containers.json", "[{\"id\":\"" ID "\",\"names\":[\"a\"]}]", "||a|" },
		{ "volatile-containers.json", "[{\"id\":\"" ID "\",\"names\":[\"a\"]}]", "||a|" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct world world;

		set_up(&world);
		look_for(&world, table[i].file, table[i].text, strlen(table[i].text));
		expect_names(&world, "/docker/" ID, table[i].names);
		assert_string_equal(container_finder_problem(world.finder), "");
		tear_down(&world);
	}
}

/* The pod's cgroup, and cgroups in the container. */
static void test_around(_unused_ void **state)
{
	static const char pod[] = "/kubepods/burstable/pod" POD;
	struct world world;
	char path[256];

	set_up(&world);
	watched_mkdir(&world.watched, "kubepods/burstable/pod" POD "/" ID "/inside");
	scratch_text(&world.files, "k8s.io/" ID "/config.json", BUNDLE);
	watched_start(&world.watched);
	(void)snprintf(path, sizeof(path), "%s/" ID "/inside", pod);
	turn(&world, path);
	expect_names(&world, path, "retail|shop-0|cart|");
	expect_names(&world, pod, "retail|shop-0||");
	expect_names(&world, "/kubepods/burstable", NULL);
	tear_down(&world);
}

/* A file that is written a moment later is found; a new cgroup of a known container gets names at once. */
static void test_later(_unused_ void **state)
{
	struct world world;

	set_up(&world);
	watched_mkdir(&world.watched, "docker/" ID);
	watched_start(&world.watched);
	for (int i = 0; i < 10; i++)
		turn_once(&world);
	expect_names(&world, "/docker/" ID, NULL);
	assert_string_equal(container_finder_problem(world.finder), "");
	scratch_text(&world.files, ID "/config.v2.json", DOCKER);
	turn(&world, "/docker/" ID);
	expect_names(&world, "/docker/" ID, "||web|nginx:1");

	watched_mkdir(&world.watched, "docker/" ID "/inside");
	watched_rescan(&world.watched);
	container_finder_note(world.finder);
	turn(&world, "/docker/" ID "/inside");
	expect_names(&world, "/docker/" ID "/inside", "||web|nginx:1");
	tear_down(&world);
}

static void test_many(_unused_ void **state)
{
	struct world world;
	char path[128];

	set_up(&world);
	for (int i = 0; i < 3 * CONTAINER_BATCH; i++) {
		(void)snprintf(path, sizeof(path), "docker/%064x", i);
		watched_mkdir(&world.watched, path);
		(void)snprintf(path, sizeof(path), "%064x/config.v2.json", i);
		scratch_text(&world.files, path, DOCKER);
	}
	watched_start(&world.watched);
	for (int i = 0; i < 3 * CONTAINER_BATCH; i++) {
		(void)snprintf(path, sizeof(path), "/docker/%064x", i);
		turn(&world, path);
		expect_names(&world, path, "||web|nginx:1");
	}
	tear_down(&world);
}

static void test_hostile(_unused_ void **state)
{
	_cleanup_(freep) char *large = calloc(1, CONTAINER_FILE_MAX + 2);
	_cleanup_(freep) char *lists = malloc(CONTAINER_FILE_MAX);
	static const char latin[] = "{\"Name\":\"/b\xfc\"}";
	const struct {
		const char *text;
		size_t size;
		const char *problem;
	} table[] = {
		{ "{", 1, "container 0123456789ab has no names: " },
		{ "{", 1, ": its file is not JSON in UTF-8" },
		{ latin, strlen(latin), "not JSON in UTF-8" },
		{ "", 0, "not JSON in UTF-8" },
		{ large, CONTAINER_FILE_MAX + 1, "its file is too large" },
		/* Within the limit, but not within the child's memory: two million objects. */
		{ lists, CONTAINER_FILE_MAX, "its file is too large" },
	};

	assert_non_null(large);
	assert_non_null(lists);
	memset(large, ' ', CONTAINER_FILE_MAX + 1);
	memset(lists, ' ', CONTAINER_FILE_MAX);
	lists[0] = '[';
	for (size_t i = 1; i + 6 < CONTAINER_FILE_MAX; i += 3)
		memcpy(lists + i, "{},", 3);
	memcpy(lists + CONTAINER_FILE_MAX - 2, "1]", 2);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct world world;

		set_up(&world);
		look_for(&world, ID "/config.v2.json", table[i].text, table[i].size);
		expect_names(&world, "/docker/" ID, NULL);
		expect_problem(&world, table[i].problem);
		tear_down(&world);
	}
}

static void test_unsafe(_unused_ void **state)
{
	for (int kind = 0; kind < 4; kind++) {
		struct world world;
		const char *file;

		set_up(&world);
		scratch_text(&world.files, "elsewhere/config.v2.json", DOCKER);
		scratch_mkdir(&world.files, kind == 3 ? "other" : ID);
		file = scratch_path(&world.files, kind == 3 ? ID : ID "/config.v2.json");
		if (kind == 0)
			assert_int_equal(symlink("../elsewhere/config.v2.json", file), 0);
		else if (kind == 1)
			assert_int_equal(mkfifo(file, 0600), 0);
		else if (kind == 2)
			assert_int_equal(mkdir(file, 0700), 0);
		else
			assert_int_equal(symlink("elsewhere", file), 0);
		look_for(&world, NULL, NULL, 0);
		expect_names(&world, "/docker/" ID, NULL);
		expect_problem(&world, "its file is a link, or no regular file");
		tear_down(&world);
	}
}

/* A hostile file keeps no other container from its names. */
static void test_beside(_unused_ void **state)
{
	struct world world;

	set_up(&world);
	watched_mkdir(&world.watched, "docker/" ID2);
	scratch_text(&world.files, ID2 "/config.v2.json", DOCKER);
	look_for(&world, ID "/config.v2.json", "[", 1);
	turn(&world, "/docker/" ID2);
	expect_names(&world, "/docker/" ID2, "||web|nginx:1");
	tear_down(&world);
}

/* A user's own slice gets no names from the folders of others, and the folder of a user tells of that slice alone. */
static void test_owners(_unused_ void **state)
{
	static const char own[] = "user.slice/user-4711.slice/user@4711.service/docker/" ID;
	struct world world;
	char path[256];

	needs("root");
	set_up(&world);
	watched_mkdir(&world.watched, own);
	watched_mkdir(&world.watched, "docker/" ID2);
	scratch_text(&world.files, ID "/config.v2.json", DOCKER);
	scratch_text(&world.files, ID2 "/config.v2.json", DOCKER);
	watched_start(&world.watched);
	(void)snprintf(path, sizeof(path), "/%s", own);
	turn(&world, "/docker/" ID2);
	expect_names(&world, path, NULL);
	tear_down(&world);

	set_up(&world);
	assert_int_equal(chown(world.files.path, 4711, 4711), 0);
	watched_mkdir(&world.watched, own);
	watched_mkdir(&world.watched, "docker/" ID2);
	scratch_text(&world.files, ID "/config.v2.json", DOCKER);
	scratch_text(&world.files, ID2 "/config.v2.json", DOCKER);
	watched_start(&world.watched);
	turn(&world, path);
	expect_names(&world, path, "||web|nginx:1");
	expect_names(&world, "/docker/" ID2, NULL);
	tear_down(&world);
}

/* The reason once, and another try with other folders. */
static void test_denied(_unused_ void **state)
{
	struct world world;
	char *none[1] = {};

	needs("root");
	set_up(&world);
	scratch_text(&world.files, ID "/config.v2.json", DOCKER);
	assert_int_equal(chmod(scratch_path(&world.files, ID), 0700), 0);
	assert_int_equal(chmod(world.files.path, 0711), 0);
	watched_mkdir(&world.watched, "docker/" ID);
	watched_start(&world.watched);
	assert_int_equal(seteuid(65534), 0);
	turn(&world, "/docker/" ID);
	assert_int_equal(seteuid(0), 0);
	expect_problem(&world, "names of containers can't be read: ");
	expect_problem(&world, ": Permission denied: container-names.conf");

	container_finder_use(world.finder, none, 0);
	assert_string_equal(container_finder_problem(world.finder), "");
	assert_false(container_finder_turn(world.finder, world.watched.tree));
	container_finder_use(world.finder, &world.folder, 1);
	turn(&world, "/docker/" ID);
	expect_names(&world, "/docker/" ID, "||web|nginx:1");
	tear_down(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts), cmocka_unit_test(test_around),	cmocka_unit_test(test_later),
		cmocka_unit_test(test_many),	cmocka_unit_test(test_hostile), cmocka_unit_test(test_unsafe),
		cmocka_unit_test(test_beside),	cmocka_unit_test(test_owners),	cmocka_unit_test(test_denied),
	};

	watched_set_budget(UINT64_MAX);
	return cmocka_run_group_tests_name("container-finder", tests, NULL, NULL);
}
