/* SPDX-License-Identifier: MIT */

/*
 * The small parsers of foreign text: paths of cgroups, mountinfo, lists of CPUs, globs, /proc/stat, lists of
 * tracepoints and of processes. The first byte chooses one, the rest is its text.
 */

#include "fuzz.h"

#include "base/cgroup/identity.h"
#include "base/host/busy.h"
#include "base/host/process-list.h"
#include "base/util/buf.h"
#include "base/util/cpulist.h"
#include "base/util/glob.h"
#include "base/util/mountinfo.h"
#include "base/util/text.h"
#include "counting/event/catalog/term.h"
#include "counting/event/catalog/tracelist.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static void check_utf8(const char *s)
{
	for (size_t n; *s; s += n)
		CHECK((n = utf8_length(s)));
}

static void check_hex(const char *s, const char *others)
{
	for (; s && *s; s++)
		CHECK((isxdigit((unsigned char)*s) && !isupper((unsigned char)*s)) || strchr(others, *s));
}

static void fuzz_identity(char *text)
{
	_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;
	char excerpt[EXCERPT_MAX];

	CHECK(cgroup_identity_new(&identity, 1, text) == 0);
	check_utf8(identity->label);
	CHECK(!identity->unit || strstr(identity->label, identity->unit));
	CHECK(!identity->slice || strstr(identity->label, identity->slice));
	CHECK(!identity->container_id || strlen(identity->container_id) == 64);
	CHECK(!identity->pod_uid || strlen(identity->pod_uid) == 36 || strlen(identity->pod_uid) == 32);
	check_hex(identity->container_id, "");
	check_hex(identity->pod_uid, "-");
	text_excerpt(excerpt, text);
	CHECK(strlen(excerpt) < EXCERPT_MAX);
	check_utf8(excerpt);
}

static int check_mount(void *userdata, const struct mountinfo *mount)
{
	(void)userdata;
	CHECK(mount->root && mount->fstype && mount->options);
	CHECK(mount->mount_point[0] == '/');
	(void)mountinfo_has_option(mount, "perf_event");
	return 0;
}

static void fuzz_mountinfo(char *text)
{
	CHECK(mountinfo_walk_text(text, check_mount, NULL) == 0);
}

static void fuzz_cpulist(char *text)
{
	_cleanup_(cpulist_release) struct cpulist list = {}, again = {};
	_cleanup_(freep) char *formatted = NULL;
	int r = cpulist_parse(&list, text);

	CHECK(r == 0 || r == -EINVAL);
	if (r < 0)
		return;
	for (size_t i = 0; i < list.nr; i++) {
		CHECK(list.cpu[i] >= 0 && list.cpu[i] <= CPULIST_MAX_CPU);
		CHECK(i == 0 || list.cpu[i - 1] < list.cpu[i]);
		CHECK(cpulist_has(&list, list.cpu[i]));
	}
	formatted = cpulist_format(&list);
	CHECK(cpulist_parse(&again, formatted) == 0);
	CHECK(cpulist_equal(&list, &again));
}

/* "glob\ntext". A text matches itself with all that is special escaped, and ** in front takes nothing away.
 */
static void fuzz_glob(char *text)
{
	char *glob = strsep(&text, "\n"), *escaped, *at, *around;
	bool match;

	if (!text || strlen(glob) + 2 > GLOB_MAX || 3 * strlen(text) > GLOB_MAX)
		return;
	match = glob_match(glob, text);
	CHECK(glob_match("**", text));
	CHECK(asprintf(&around, "**%s", glob) >= 0);
	CHECK(!match || glob_match(around, text));
	free(around);

	escaped = at = malloc(3 * strlen(text) + 1);
	CHECK(escaped);
	for (const char *p = text; *p; p++)
		at = stpcpy(at, strchr("*?[", *p) ? (char[]){ '[', *p, ']', '\0' } : (char[]){ *p, '\0' });
	*at = '\0';
	CHECK(glob_match(escaped, text));
	free(escaped);
}

/* Time that is not there is none. */
static void fuzz_stat(char *text)
{
	static int numbers[] = { 0, 2, 7, 300 };
	const struct cpulist cpus = { .cpu = numbers, .nr = ARRAY_SIZE(numbers) };
	uint64_t busy[ARRAY_SIZE(numbers)];
	int r = cpu_busy_parse(busy, &cpus, text, 100);

	CHECK(r == (strncmp(text, "cpu", 3) == 0 ? 0 : -EBADMSG));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(numbers); i++)
		CHECK(busy[i] == 0 || strpbrk(text, "123456789"));
}

/* What is taken out can be written again, and reads as the same. */
static void fuzz_tracelist(char *text)
{
	struct tracepoint tracepoint, again;
	char *cursor = text;

	while (tracelist_next(&cursor, &tracepoint)) {
		_cleanup_(buf_release) struct buf list = {};
		_cleanup_(freep) char *line = NULL;
		char *rest;

		CHECK(term_is_name(tracepoint.subsystem) && term_is_name(tracepoint.name));
		tracelist_add(&list, tracepoint.subsystem, tracepoint.name, tracepoint.id);
		rest = line = buf_steal(&list);
		CHECK(tracelist_next(&rest, &again) && again.id == tracepoint.id);
		CHECK(strcmp(again.subsystem, tracepoint.subsystem) == 0 && strcmp(again.name, tracepoint.name) == 0);
		CHECK(!tracelist_next(&rest, &again));
	}
}

static int check_process(void *userdata, uint32_t pid, const char *comm)
{
	(void)userdata;
	CHECK(pid < UINT32_MAX && !strchr(comm, '\n'));
	return 0;
}

static int check_mapping(void *userdata, const struct proc_mapping *mapping)
{
	(void)userdata;
	CHECK(mapping->key.build_id_size <= MODULE_BUILD_ID_MAX);
	CHECK(mapping->path[0] && !strchr(mapping->path, '\n'));
	return 0;
}

static void fuzz_process_list(char *text)
{
	const struct process_list_reader reader = { check_process, check_mapping, NULL };

	CHECK(process_list_read(text, &reader) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const parsers[])(char *text) = {
		fuzz_identity, fuzz_mountinfo, fuzz_cpulist, fuzz_glob, fuzz_stat, fuzz_tracelist, fuzz_process_list,
	};
	char *text;

	if (size == 0)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	CHECK(text);
	parsers[data[0] % ARRAY_SIZE(parsers)](text);
	free(text);
	return 0;
}
