/* SPDX-License-Identifier: MIT */

/*
 * config: the defaults, every key, and every error with its place.
 * $srcdir/conf/perfmond.conf is compared with the built-in defaults.
 */

#include "base/util/cleanup.h"
#include "base/util/file.h"
#include "base/util/glob.h"
#include "setup/configs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static void apply_as(struct config *config, const char *name, const char *text)
{
	struct reason why;

	if (config_parse(config, name, text, strlen(text), &why) < 0)
		fail_msg("%s", why.text);
}

/* --- defaults */

static void test_defaults(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = fresh_config();
	struct reason why;

	assert_int_equal(config->interval, SECOND);
	expect_list(&config->listen, "127.0.0.1:9753");
	assert_false(config->created);
	assert_false(config->peaks);
	assert_string_equal(config->tls_certificate.text, "");
	assert_string_equal(config->tls_key.text, "");
	assert_string_equal(config->tls_client_ca.text, "");
	assert_string_equal(config->tls_client_crl.text, "");
	expect_list(&config->tls_client_names, "");
	assert_true(config->tls_client_required);
	assert_string_equal(config->users.text, "");
	assert_string_equal(config->web_config.text, "");
	assert_string_equal(config->cors_origin.text, "");
	assert_int_equal(config->history_memory, 32 * 1024 * 1024);
	assert_string_equal(config->procfs.text, "/proc");
	assert_string_equal(config->sysfs.text, "/sys");
	assert_string_equal(config->cgroup_mount.text, "");
	assert_int_equal(config->max_connections, 256);
	assert_int_equal(config->max_connections_per_address, 64);
	assert_int_equal(config->max_header_bytes, 16 * 1024);
	assert_int_equal(config->request_timeout, 10 * SECOND);
	assert_int_equal(config->answer_timeout, 60 * SECOND);
	assert_int_equal(config->idle_timeout, 120 * SECOND);
	assert_int_equal(config->max_unsent_bytes, 64 * 1024 * 1024);
	expect_list(&config->cpu_groups, "core|software");
	assert_false(config->cpu_aggregate);
	expect_list(&config->cgroup_groups, "core|tasks");
	expect_list(&config->include, "**");
	expect_list(&config->exclude, "");
	assert_int_equal(config->cgroup_engine, CONFIG_ENGINE_AUTO);
	assert_int_equal(config->cgroup_max, 2000);
	assert_false(config->cgroup_per_cpu);
	assert_int_equal(config->linger, 60 * SECOND);
	assert_int_equal(config->container_files.nr, 5);
	assert_string_equal(config->container_files.items[0], "/var/lib/docker/containers");
	assert_true(config->profiles_enabled);
	assert_int_equal(config->profiles_rate, 19);
	assert_int_equal(config->profiles_memory, 8 * 1024 * 1024);
	assert_int_equal(config->capture_memory, 8 * 1024 * 1024);
	assert_int_equal(config->profiles_stack_bytes, 32 * 1024);
	assert_false(config->profiles_jit);
	assert_int_equal(config->profiles_tables, 32 * 1024 * 1024);
	expect_list(&config->profiles_include, "**");
	expect_list(&config->profiles_exclude, "");
	assert_int_equal(config->nr_groups, 3);
	assert_string_equal(config_find_group(config, "core")->events,
			    "cycles, instructions, cache-misses, branch-misses");
	assert_string_equal(config_find_group(config, "software")->events,
			    "context-switches, cpu-migrations, page-faults, major-faults");
	assert_string_equal(config_find_group(config, "tasks")->events,
			    "task-clock, context-switches, cpu-migrations, page-faults, major-faults");
	assert_false(config_find_group(config, "core")->alone);
	assert_true(config_find_group(config, "core")->split);
	assert_null(config_find_group(config, "none"));
	assert_string_equal(config->listen.places[0].file, "built-in defaults");
	assert_string_equal(config->groups[0].events_place.file, "built-in defaults");
	if (config_check(config, &why) < 0)
		fail_msg("%s", why.text);
}

static char *read_example(void)
{
	const char *srcdir = getenv("srcdir");
	_cleanup_(freep) char *path = NULL;
	char *text = NULL;

	assert_true(asprintf(&path, "%s/conf/perfmond.conf", srcdir ? srcdir : ".") > 0);
	if (read_text_file(AT_FDCWD, path, 1 << 20, &text) < 0)
		fail_msg("can't read %s: run this from the source folder, or set srcdir", path);
	return text;
}

/* As it is installed it changes nothing; and with its commented-out settings in force, which a "#" without a
 * space marks, it says what the defaults are. */
static void test_example(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *defaults = fresh_config(), *as_is = NULL, *in_force = NULL;
	_cleanup_(freep) char *text = read_example();
	unsigned settings = 0;

	as_is = parsed(text);
	expect_same(as_is, defaults);
	assert_true(as_is->listen.is_default);

	for (char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (p[0] == '#' && (p[1] == '[' || (p[1] >= 'a' && p[1] <= 'z'))) {
			p[0] = ' ';
			settings++;
		}
	}
	/* All keys but `alone` and `split`, one of them in three lines, and the headers of the groups. */
	assert_int_equal(settings, 45 + 2 + 3 * 2);
	in_force = parsed(text);
	expect_same(in_force, defaults);
	assert_string_equal(in_force->listen.places[0].file, "f");
	assert_string_equal(in_force->include.places[0].file, "f");
	assert_string_equal(in_force->groups[2].events_place.file, "f");
}

/* --- values */

static void test_every_key(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = parsed("[daemon]\n"
							       "interval = 250ms\n"
							       "\n"
							       "[web]\n"
							       "listen = 0.0.0.0:80\n"
							       "listen = [::1]:0\n"
							       "listen = /run/perfmond/web socket\n"
							       "[cpu]\n"
							       "groups = a b\n"
							       "aggregate = yes\n"
							       "exclude = 1,3-5 isolated\n"
							       "  nohz_full 7\n"
							       "[cgroup]\n"
							       "groups = b,a\n"
							       "include = /system.slice/**\n"
							       "include = /machine.slice/** **/x\\ y\n"
							       "exclude = /user.slice/**\n"
							       "max = 17\n"
							       "per_cpu = on\n"
							       "linger = 0\n"
							       "[group \"a\"]\n"
							       "events = cycles:u, cpu/event=0x3c,umask=0/, x=y\n"
							       "alone = true\n"
							       "split = no\n"
							       "[group \"b\"]\n"
							       "events = page-faults\n"
							       "[group \"a\"]\n"
							       "alone = false\n"
							       "[profile \"faults\"]\n"
							       "period = 1\n"
							       "[profile \"cycles\"]\n"
							       "rate = 99\n"
							       "event = cycles\n"
							       "[profile \"faults\"]\n"
							       "event = page-faults:u\n"
							       "[web]\n"
							       "created = yes\n"
							       "peaks = yes\n");

	assert_int_equal(config->interval, 250 * MS);
	expect_list(&config->listen, "0.0.0.0:80|[::1]:0|/run/perfmond/web socket");
	expect_place(&config->listen.places[1], "f", 6);
	expect_list(&config->cpu_groups, "a|b");
	assert_true(config->cpu_aggregate);
	assert_true(config->created);
	assert_true(config->peaks);
	expect_list(&config->cgroup_groups, "b|a");
	expect_list(&config->cpu_exclude, "1,3-5|isolated|nohz_full|7");
	expect_place(&config->cgroup_groups.places[1], "f", 14);
	expect_list(&config->include, "/system.slice/**|/machine.slice/**|**/x\\ y");
	expect_list(&config->exclude, "/user.slice/**");
	assert_int_equal(config->cgroup_max, 17);
	assert_true(config->cgroup_per_cpu);
	assert_int_equal(config->linger, 0);
	assert_int_equal(config->nr_profiles, 2);
	assert_string_equal(config->profiles[0].name, "faults");
	assert_string_equal(config->profiles[0].event.text, "page-faults:u");
	assert_int_equal(config->profiles[0].period, 1);
	assert_int_equal(config->profiles[0].rate, 0);
	assert_string_equal(config->profiles[1].event.text, "cycles");
	assert_int_equal(config->profiles[1].rate, 99);
	assert_int_equal(config->nr_groups, 5);
	assert_string_equal(config_find_group(config, "a")->events, "cycles:u, cpu/event=0x3c,umask=0/, x=y");
	expect_place(&config_find_group(config, "a")->place, "f", 27);
	expect_place(&config_find_group(config, "a")->events_place, "f", 22);
	assert_false(config_find_group(config, "a")->alone);
	assert_false(config_find_group(config, "a")->split);
	assert_false(config_find_group(config, "b")->alone);
	assert_true(config_find_group(config, "b")->split);
	assert_int_equal(config_check(config, NULL), 0);
}

static void test_roots(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = parsed("[daemon]\n"
							       "procfs = /host/proc\n"
							       "sysfs = /host/my sys\n"
							       "[cgroup]\n"
							       "mount = /a\n"
							       "mount =\n"
							       "mount = /host/cgroup\n");

	assert_string_equal(config->procfs.text, "/host/proc");
	expect_place(&config->procfs.place, "f", 2);
	assert_string_equal(config->sysfs.text, "/host/my sys");
	assert_string_equal(config->cgroup_mount.text, "/host/cgroup");
	expect_place(&config->cgroup_mount.place, "f", 7);
}

static void test_engines(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = parsed("[cgroup]\nengine = auto\n");

	assert_int_equal(config->cgroup_engine, CONFIG_ENGINE_AUTO);
	apply_as(config, "g", "[cgroup]\nengine = bpf\n");
	assert_int_equal(config->cgroup_engine, CONFIG_ENGINE_BPF);
	apply_as(config, "h", "[cgroup]\nengine = auto\nengine = perf\n");
	assert_int_equal(config->cgroup_engine, CONFIG_ENGINE_PERF);
}

static void test_web_keys(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = parsed("[web]\n"
							       "tls_certificate = /etc/perfmond/cert.pem\n"
							       "tls_key = key.pem\n"
							       "users = /a\n"
							       "users = web users\n"
							       "tls_client_ca = /ca.pem\n"
							       "tls_client_crl = crl.pem\n"
							       "tls_client_names = *.a b.c\n"
							       "  spiffe://d/**\n"
							       "tls_client_required = no\n"
							       "cors_origin = https://grafana.example:3000\n"
							       "max_connections = 10000\n"
							       "max_connections_per_address = 1\n"
							       "max_header_bytes = 2048\n"
							       "request_timeout = 1s\n"
							       "answer_timeout = 1h\n"
							       "idle_timeout = 5min\n"
							       "max_unsent_bytes = 1 GiB\n"
							       "[daemon]\n"
							       "history_memory = 0\n");

	assert_string_equal(config->tls_certificate.text, "/etc/perfmond/cert.pem");
	expect_place(&config->tls_certificate.place, "f", 2);
	assert_string_equal(config->tls_key.text, "key.pem");
	assert_string_equal(config->users.text, "web users");
	expect_place(&config->users.place, "f", 5);
	assert_string_equal(config->tls_client_ca.text, "/ca.pem");
	assert_string_equal(config->tls_client_crl.text, "crl.pem");
	expect_list(&config->tls_client_names, "*.a|b.c|spiffe://d/**");
	assert_false(config->tls_client_required);
	assert_string_equal(config->cors_origin.text, "https://grafana.example:3000");
	assert_int_equal(config->max_connections, 10000);
	assert_int_equal(config->max_connections_per_address, 1);
	assert_int_equal(config->max_header_bytes, 2048);
	assert_int_equal(config->request_timeout, SECOND);
	assert_int_equal(config->answer_timeout, 3600 * SECOND);
	assert_int_equal(config->idle_timeout, 300 * SECOND);
	assert_int_equal(config->max_unsent_bytes, 1024 * 1024 * 1024);
	assert_int_equal(config->history_memory, 0);
	assert_int_equal(config_check(config, NULL), 0);
	apply_as(config, "g", "[web]\nusers =\n");
	assert_string_equal(config->users.text, "");
}

/* Keys of [web] that are of no use without another one, or beside another one. */
static void test_halves_of_a_pair(_unused_ void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "tls_certificate = /a\n", "f:2: [web] has tls_certificate, but no tls_key" },
		{ "\ntls_key = /a\n", "f:3: [web] has tls_key, but no tls_certificate" },
		{ "tls_client_ca = /a\n", "f:2: [web] has tls_client_ca, but no tls_certificate" },
		{ "tls_client_crl = /a\n", "f:2: [web] has tls_client_crl, but no tls_client_ca" },
		{ "tls_client_names = a\n", "f:2: [web] has tls_client_names, but no tls_client_ca" },
		{ "tls_client_required = no\n", NULL },
		{ "web_config = /w\n", NULL },
		{ "web_config = /w\nusers = /u\n",
		  "f:3: [web] has users, and web_config in f:2, whose file takes its place" },
		{ "tls_client_names = a\nweb_config = /w\n",
		  "f:2: [web] has tls_client_names, and web_config in f:3, whose file takes its place" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(config_freep) struct config *config = parsed("[web]\n");
		_cleanup_(freep) char *text = NULL;
		struct reason why = {};

		assert_true(asprintf(&text, "[web]\n%s", cases[i].text) > 0);
		apply_as(config, "f", text);
		assert_int_equal(config_check(config, &why), cases[i].says ? -EINVAL : 0);
		assert_string_equal(why.text, cases[i].says ?: "");
	}
}

static void test_bounds(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *low = parsed("[daemon]\ninterval=10ms\n[cgroup]\nmax=0\nlinger=0s");
	_cleanup_(config_freep) struct config *high =
		parsed("[daemon]\ninterval=1h\n[cgroup]\nmax=1000000\nlinger=24h");

	assert_int_equal(low->interval, 10 * MS);
	assert_int_equal(low->cgroup_max, 0);
	assert_int_equal(high->interval, 3600 * SECOND);
	assert_int_equal(high->cgroup_max, 1000000);
	assert_int_equal(high->linger, 24 * 3600 * SECOND);
}

/* cpu-clock has a default; a section has to ask. */
static void test_stack_bytes(_unused_ void **state)
{
	static const char sections[] = "[profile \"a\"]\nevent=cycles\nrate=99\n"
				       "[profile \"b\"]\nevent=cycles\nrate=99\nstack_bytes=62KiB\n";
	_cleanup_(config_freep) struct config *config = parsed(sections);
	_cleanup_(config_freep) struct config *off = parsed("[profiles]\nstack_bytes=0");

	assert_int_equal(config->profiles_stack_bytes, 32768);
	assert_int_equal(config->profiles[0].stack_bytes, 0);
	assert_int_equal(config->profiles[1].stack_bytes, 63488);
	assert_int_equal(off->profiles_stack_bytes, 0);
}

static void test_comments(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config =
		parsed("# one\n"
		       "   # another\n"
		       "[daemon] ; the daemon\n"
		       "interval = 2s            ; how often all counters are read\n"
		       "[web]#x\n"
		       "listen = /a;b#c # a comment ; in a comment\n"
		       "[cgroup]\n"
		       "\tinclude = /x;y   \n"
		       "[group \"core\"]\n"
		       "events = cycles   ; scheduled together");

	assert_int_equal(config->interval, 2 * SECOND);
	expect_list(&config->listen, "/a;b#c");
	expect_list(&config->include, "/x;y");
	assert_string_equal(config_find_group(config, "core")->events, "cycles");
}

static void test_lines_that_go_on(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = parsed("[group \"core\"]\n"
							       "events = cycles,\n"
							       "    instructions,   ; two\n"
							       "\n"
							       "  # a comment between\n"
							       "\tcpu/event=0x3c/:u\n"
							       "[cgroup]\n"
							       "include =\n"
							       "  /a\n"
							       "  /b /c\n"
							       "groups = core\n"
							       "  software,\n"
							       "  tasks\n");

	assert_string_equal(config_find_group(config, "core")->events, "cycles, instructions, cpu/event=0x3c/:u");
	expect_place(&config_find_group(config, "core")->events_place, "f", 2);
	expect_list(&config->include, "/a|/b|/c");
	expect_place(&config->include.places[2], "f", 10);
	expect_list(&config->cgroup_groups, "core|software|tasks");
}

/* Many indent the keys of a section. */
static void test_indented_keys(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = parsed("[cgroup]\n"
							       "  include = /a\n"
							       "  max = 5\n"
							       "  per_cpu: yes\n"
							       "  [group \"core\"]\n"
							       "  events = x\n"
							       "     y\n"
							       "  alone = yes\n"
							       "  [web]\n"
							       "  listen = 1.2.3.4:5\n"
							       "    [::1]:6\n");

	expect_list(&config->include, "/a");
	assert_int_equal(config->cgroup_max, 5);
	assert_true(config->cgroup_per_cpu);
	assert_int_equal(config->nr_groups, 3);
	assert_string_equal(config_find_group(config, "core")->events, "x y");
	assert_true(config_find_group(config, "core")->alone);
	expect_list(&config->listen, "1.2.3.4:5|[::1]:6");
}

static void test_repeated_keys(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = parsed("[daemon]\n"
							       "interval = 2s\n"
							       "interval = 3s\n"
							       "[cgroup]\n"
							       "include = /a\n"
							       "include = /b\n"
							       "include = /a\n"
							       "groups = x x y\n"
							       "exclude = /c\n"
							       "exclude =\n"
							       "exclude = /d\n"
							       "[group \"core\"]\n"
							       "events = one\n"
							       "[web]\n"
							       "listen =\n"
							       "[group \"core\"]\n"
							       "events = two\n");

	assert_int_equal(config->interval, 3 * SECOND);
	/* The default gives way, and nothing is in a list twice. */
	expect_list(&config->include, "/a|/b");
	expect_list(&config->cgroup_groups, "x|y");
	expect_list(&config->exclude, "/d");
	expect_list(&config->listen, "");
	assert_int_equal(config->nr_groups, 3);
	assert_string_equal(config_find_group(config, "core")->events, "two");
}

/* Later texts come on top of earlier ones. */
static void test_texts_in_order(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = fresh_config();

	apply_as(config, "1", "[daemon]\ninterval=2s\n[cgroup]\nmax=5\ninclude=/a\n[group \"n\"]\nevents=x\nalone=1");
	apply_as(config, "2", "[daemon]\ninterval=3s\n[cgroup]\ninclude=/b\n[group \"n\"]\nevents=y");
	apply_as(config, "3", "[web]\nlisten=\n[cpu]\ngroups=");
	apply_as(config, "4", "");

	assert_int_equal(config->interval, 3 * SECOND);
	assert_int_equal(config->cgroup_max, 5);
	expect_list(&config->include, "/a|/b");
	expect_place(&config->include.places[0], "1", 5);
	expect_place(&config->include.places[1], "2", 4);
	assert_string_equal(config_find_group(config, "n")->events, "y");
	assert_true(config_find_group(config, "n")->alone);
	expect_list(&config->listen, "");
	expect_list(&config->cpu_groups, "");
	/* No file has said anything about these. */
	expect_list(&config->cgroup_groups, "core|tasks");
	assert_true(config->cgroup_groups.is_default);
}

static void test_set_listen(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = fresh_config();
	char *good[] = { (char *)"[::1]:0", (char *)"/run/x", (char *)"[::1]:0" };
	char *bad[] = { (char *)"127.0.0.1:80", (char *)"nowhere" };

	assert_int_equal(config_set_listen(config, bad, 2), -EINVAL);
	expect_list(&config->listen, "127.0.0.1:9753");
	assert_int_equal(config_set_listen(config, good, 3), 0);
	expect_list(&config->listen, "[::1]:0|/run/x");
	expect_place(&config->listen.places[0], "command line", 0);
}

/* --- errors */

static const struct wrong {
	const char *text, *message; /* which begins with this */
	const char *also;	    /* and has this in it */
} wrongs[] = {
	/* lines */
	{ "noise\n", "f:1: this line is neither", NULL },
	{ "[daemon]\n\n\ninterval\n", "f:4: this line is neither", NULL },
	{ "interval = 1s\n", "f:1: 'interval' stands before the first [section]", NULL },
	{ "= x\n", "f:1: '' stands before", NULL },
	{ "[daemon]\n= x\n", "f:2: [daemon] has no key ''", NULL },
	{ "[daemon]\ninterval = 1s\n  and more\n", "f:3: an indented line adds to", "'interval'" },
	{ "[cgroup]\nmax = 1\n\n  include=/a\n  max = x\n", "f:5: max: 'x' is not a whole number", NULL },

	/* sections */
	{ "\n[deamon]\n", "f:2: there is no section 'deamon'; did you mean 'daemon'?", NULL },
	{ "[Daemon]\n", "f:1: there is no section 'Daemon'; did you mean 'daemon'?", NULL },
	{ "[xyzzy]\n",
	  "f:1: there is no section 'xyzzy'; known: daemon, web, cpu, cgroup, profiles, group, profile, capture",
	  NULL },
	{ "[]\n", "f:1: there is no section ''", NULL },
	{ "[daemon\n", "f:1: this section has no ']'", NULL },
	{ "[\n", "f:1: this section has no ']'", NULL },
	{ "[daemon] interval = 1s\n", "f:1: there is text after the section", NULL },
	{ "[daemon]]\n", "f:1: there is text after the section", NULL },
	{ "[daemon\xff]\n", "f:1: there is no section 'daemon?'; did you mean 'daemon'?", NULL },
	{ "[group]\n", "f:1: a group of events begins with [group \"NAME\"]", NULL },
	{ "[group core]\n", "f:1: a group of events begins with", NULL },
	{ "[group \"\"]\n", "f:1: a group of events begins with", NULL },
	{ "[group \"]\n", "f:1: a group of events begins with", NULL },
	{ "[group \"a b\"]\n", "f:1: a group of events begins with", NULL },
	{ "[group \"a/b\"]\n", "f:1: a group of events begins with", NULL },
	{ "[group \"12345678901234567890123456789012345678901\"]\n", "f:1: a group of events begins with",
	  "at most 40" },
	{ "[profile]\n", "f:1: a profile begins with [profile \"NAME\"]; a name has letters", NULL },
	{ "[profile \"a b\"]\n", "f:1: a profile begins with", NULL },
	{ "[profiles \"a\"]\n", "f:1: there is no section", NULL },
	/* libinih alone would take the first 49 characters for the section. */
	{ "[daemondaemondaemondaemondaemondaemondaemondaemondaemon]\n", "f:1: there is no section", NULL },

	/* keys */
	{ "[daemon]\nintervall = 1s\n", "f:2: [daemon] has no key 'intervall'; did you mean 'interval'?", NULL },
	{ "[daemon]\nINTERVAL = 1s\n", "f:2: [daemon] has no key 'INTERVAL'; did you mean 'interval'?", NULL },
	{ "[web]\ninterval = 1s\n", "f:2: [web] has no key 'interval'; known: listen", NULL },
	{ "[cgroup]\npercpu = yes\n", "f:2: [cgroup] has no key 'percpu'; did you mean 'per_cpu'?", NULL },
	{ "[cpu]\nxyzzy = 1\n", "f:2: [cpu] has no key 'xyzzy'; known: groups, aggregate", NULL },
	{ "[group \"a\"]\nevent = x\n", "f:2: [group \"…\"] has no key 'event'; did you mean 'events'?", NULL },
	{ "[profile \"a\"]\nevents = x\n", "f:2: [profile \"…\"] has no key 'events'; did you mean 'event'?", NULL },
	{ "[cgroup]\nincludeincludeincludeincludeincludeincludeincludeinclude = /a\n", "f:2: [cgroup] has no key",
	  "known: groups, include" },

	/* values */
	{ "[daemon]\ninterval = \n", "f:2: interval: '' is not a duration; write for example 250ms", NULL },
	{ "[daemon]\ninterval = 5 parsecs\n", "f:2: interval: '5 parsecs' is not a duration", NULL },
	{ "[daemon]\ninterval = -1s\n", "f:2: interval: '-1s' is not a duration", NULL },
	{ "[daemon]\ninterval = 9ms\n", "f:2: interval: 9ms is out of bounds; 10ms to 1h is allowed", NULL },
	{ "[daemon]\ninterval = 61min\n", "f:2: interval: 61min is out of bounds", NULL },
	{ "[daemon]\ninterval = 999999999999d\n", "f:2: interval: 999999999999d is out of bounds", NULL },
	{ "[profiles]\nstack_bytes = 65536\n", "f:2: stack_bytes: 65536 is out of bounds; 0 to 62KiB", NULL },
	{ "[profiles]\nstack_bytes = 4100\n", "f:2: stack_bytes: 4100 is not a multiple of 8", NULL },
	{ "[profile \"a\"]\nstack_bytes = 7\n", "f:2: stack_bytes: 7 is not a multiple of 8", NULL },
	{ "[daemon]\nhistory_memory = 17GiB\n", "f:2: history_memory: 17GiB is out of bounds; 0 to 16GiB", NULL },
	{ "[web]\nmax_header_bytes = 1TiB\n", "f:2: max_header_bytes: '1TiB' is not a size; write for example", NULL },
	{ "[web]\nmax_header_bytes = 1023\n", "f:2: max_header_bytes: 1023 is out of bounds; 1KiB to 1MiB", NULL },
	{ "[web]\nmax_unsent_bytes = 99999999999999G\n", "f:2: max_unsent_bytes: 99999999999999G is out of", NULL },
	{ "[web]\nmax_connections = 0\n", "f:2: max_connections: 0 is out of bounds; 1 to 10000", NULL },
	{ "[web]\nrequest_timeout = 0\n", "f:2: request_timeout: 0 is out of bounds; 1s to 1h", NULL },
	{ "[daemon]\nprocfs = proc\n", "f:2: procfs: 'proc' is not an absolute path", NULL },
	{ "[daemon]\nprocfs =\n", "f:2: procfs: a path is missing", NULL },
	{ "[daemon]\nsysfs = ./sys\n", "f:2: sysfs: './sys' is not an absolute path", NULL },
	{ "[cgroup]\nmount = sys/fs/cgroup\n", "f:2: mount: 'sys/fs/cgroup' is not an absolute path", NULL },
	{ "[cgroup]\ncontainer_files = /a b\n", "f:2: container_files: 'b' is not an absolute path", NULL },
	{ "[web]\ncors_origin = *\n", "f:2: cors_origin: '*' is not an origin; write https://", NULL },
	{ "[web]\ncors_origin = https://a/\n", "f:2: cors_origin: 'https://a/' is not an origin", NULL },
	{ "[web]\ncors_origin = ftp://a\n", "f:2: cors_origin: 'ftp://a' is not an origin", NULL },
	{ "[web]\ntls_key = /a\n  /b\n", "f:3: an indented line adds to the value above it", NULL },
	{ "[cgroup]\nlinger = 25h\n", "f:2: linger: 25h is out of bounds; 0s to 24h is allowed", NULL },
	{ "[cgroup]\nmax = many\n", "f:2: max: 'many' is not a whole number", NULL },
	{ "[cgroup]\nmax = -1\n", "f:2: max: '-1' is not a whole number", NULL },
	{ "[cgroup]\nmax = 1000001\n", "f:2: max: 1000001 is out of bounds", NULL },
	{ "[cgroup]\nmax = 99999999999999999999\n", "f:2: max: 99999999999999999999 is out of bounds", NULL },
	{ "[cpu]\naggregate = maybe\n", "f:2: aggregate: 'maybe' is neither yes nor no", NULL },
	{ "[cgroup]\n\nengine = ebpf\n", "f:3: engine: 'ebpf' is no engine; write auto, bpf or perf", NULL },
	{ "[cgroup]\nengine =\n", "f:2: engine: '' is no engine; write auto, bpf or perf", NULL },
	{ "[cgroup]\nengine = BPF\n", "f:2: engine: 'BPF' is no engine", NULL },
	{ "[cgroup]\nper_cpu =\n", "f:2: per_cpu: '' is neither yes nor no", NULL },
	{ "[profile \"a\"]\nrate = 1001\n", "f:2: rate: 1001 is out of bounds; 1 to 1000 is allowed", NULL },
	{ "[profile \"a\"]\nperiod = 0\n", "f:2: period: 0 is out of bounds", NULL },
	{ "[profile \"a\"]\nevent = x\n  y\n", "f:3: an indented line adds to the value above it", NULL },
	{ "[group \"a\"]\nalone = 2\n", "f:2: alone: '2' is neither yes nor no", NULL },
	{ "[cpu]\ngroups = core s\xc3\xb6"
	  "ftware\n",
	  "f:2: groups: 's\xc3\xb6"
	  "ftware' is not the name of a group",
	  NULL },
	{ "[cpu]\ngroups = \"core\"\n", "f:2: groups: '\"core\"' is not the name of a group", NULL },
	{ "[cgroup]\ninclude = user.slice/**\n", "f:2: include: 'user.slice/**' matches nothing", "'/user.slice/**'" },
	{ "[cpu]\nexclude = 1 3-\n", "f:2: exclude: '3-' is neither a list of CPUs", NULL },
	{ "[cpu]\nexclude = idle\n", "f:2: exclude: 'idle' is neither a list of CPUs", NULL },
	{ "[cgroup]\nexclude = /a\n  b\n", "f:3: exclude: 'b' matches nothing", NULL },
	{ "[web]\nlisten = localhost:80\n", "f:2: listen: 'localhost:80' has no numeric address", NULL },
	{ "[web]\nlisten = 127.0.0.1:65536\n", "f:2: listen: '127.0.0.1:65536' has a port", NULL },
	{ "[web]\nlisten = 1.2.3.4:5, 6.7.8.9:10\n", "f:2: listen: '1.2.3.4:5, 6.7.8.9:10' is not an address", NULL },
};

static void test_errors(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = fresh_config(), *untouched = fresh_config();

	for (size_t i = 0; i < ARRAY_SIZE(wrongs); i++) {
		const struct wrong *w = &wrongs[i];
		struct reason why = {};

		if (config_parse(config, "f", w->text, strlen(w->text), &why) != -EINVAL)
			fail_msg("taken: %s", w->text);
		if (strncmp(why.text, w->message, strlen(w->message)) || (w->also && !strstr(why.text, w->also)))
			fail_msg("%s: '%s' instead of '%s'", w->text, why.text, w->message);
		assert_int_equal(config_parse(config, "f", w->text, strlen(w->text), NULL), -EINVAL);
	}
	expect_same(config, untouched);
}

static void test_long_globs(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = fresh_config();
	struct reason why = {};
	char text[GLOB_MAX + 64];
	int n;

	memset(text, 'a', sizeof(text));
	n = sprintf(text, "[cgroup]\ninclude = /");
	text[n] = 'a';
	strcpy(text + n + GLOB_MAX - 1, "\n");
	assert_int_equal(config_parse(config, "f", text, strlen(text), &why), 0);
	strcpy(text + n + GLOB_MAX - 1, "a\n");
	assert_int_equal(config_parse(config, "f", text, strlen(text), &why), -EINVAL);
	assert_non_null(strstr(why.text, "f:2: include: '/aaa"));
	assert_non_null(strstr(why.text, "' is longer than 1024 bytes"));
}

/* What stood before the error in the same text is not in force either. */
static void test_untouched_on_failure(_unused_ void **state)
{
	static const char text[] =
		"[daemon]\ninterval=9s\n[web]\nlisten=1.2.3.4:5\n[cgroup]\nmax=1\nexclude=/a\n"
		"[group \"core\"]\nevents=x\n[group \"new\"]\nevents=x\n[cpu]\ngroups=new\nwrong=1\n";
	_cleanup_(config_freep) struct config *config = fresh_config(), *untouched = fresh_config();

	assert_int_equal(config_parse(config, "f", text, strlen(text), NULL), -EINVAL);
	expect_same(config, untouched);
}

static void check_fails(const char *text, const char *message)
{
	_cleanup_(config_freep) struct config *config = parsed(text);
	struct reason why = {};

	assert_int_equal(config_check(config, &why), -EINVAL);
	assert_string_equal(why.text, message);
	assert_int_equal(config_check(config, NULL), -EINVAL);
}

static void test_check(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *unused = parsed("[group \"unused\"]\nevents = x\n");

	assert_int_equal(config_check(unused, NULL), 0);
	check_fails("[cpu]\ngroups = core\n  none\n",
		    "f:3: [cpu] groups names 'none', but there is no [group \"none\"]");
	check_fails("[cgroup]\ngroups = core none\n",
		    "f:2: [cgroup] groups names 'none', but there is no [group \"none\"]");
	check_fails("\n[group \"empty\"]\nalone = yes\n", "f:2: [group \"empty\"] has no events; add events = …");
	check_fails("[profile \"a\"]\nperiod = 1\n", "f:1: [profile \"a\"] has no event; add event = …");
	check_fails("[profile \"a\"]\nevent = x\n",
		    "f:1: [profile \"a\"] has neither rate = nor period =; add one of them");
	check_fails("[profile \"a\"]\nevent = x\nrate = 1\n\n[profile \"a\"]\nperiod = 1\n",
		    "f:5: [profile \"a\"] has both a rate and a period; one of them says how often");
	check_fails(
		"[profile \"profile\"]\nevent = x\nrate = 1\n",
		"f:1: [profile \"profile\"] has a name that is taken; cpu-clock is always sampled, as [profiles] rate "
		"says");
	check_fails("[profile \"samples\"]\nevent = x\nrate = 1\n",
		    "f:1: [profile \"samples\"] has a name that is taken: in profiles for pprof it is that of the "
		    "numbers of "
		    "samples");
	check_fails("[group \"core\"]\nevents = ; none\n", "f:2: [group \"core\"] has no events; add events = …");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_example),
		cmocka_unit_test(test_every_key),
		cmocka_unit_test(test_roots),
		cmocka_unit_test(test_engines),
		cmocka_unit_test(test_web_keys),
		cmocka_unit_test(test_halves_of_a_pair),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_stack_bytes),
		cmocka_unit_test(test_comments),
		cmocka_unit_test(test_lines_that_go_on),
		cmocka_unit_test(test_indented_keys),
		cmocka_unit_test(test_repeated_keys),
		cmocka_unit_test(test_texts_in_order),
		cmocka_unit_test(test_set_listen),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_long_globs),
		cmocka_unit_test(test_untouched_on_failure),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
