/* SPDX-License-Identifier: MIT */

#include "setup/configs.h"

#include "base/util/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct config *fresh_config(void)
{
	struct config *config = NULL;

	assert_int_equal(config_new(&config), 0);
	return config;
}

struct config *parsed(const char *text)
{
	struct config *config = fresh_config();
	struct reason why = {};

	if (config_parse(config, "f", text, strlen(text), &why) < 0)
		fail_msg("%s", why.text);
	return config;
}

void expect_error(const char *text, size_t size, const char *message)
{
	_cleanup_(config_freep) struct config *config = fresh_config();
	struct reason why = {};
	int r = config_parse(config, "f", text, size, &why);

	if (r == 0)
		r = config_check(config, &why);
	assert_int_equal(r, -EINVAL);
	if (strncmp(why.text, message, strlen(message)))
		fail_msg("'%s' instead of '%s'", why.text, message);
	for (const char *p = why.text; *p; p++)
		assert_true((unsigned char)*p >= 0x20);
}

void expect_list(const struct config_list *list, const char *joined)
{
	_cleanup_(buf_release) struct buf b = {};
	_cleanup_(freep) char *text = NULL;

	for (size_t i = 0; i < list->nr; i++)
		buf_printf(&b, "%s%s", i ? "|" : "", list->items[i]);
	text = buf_steal(&b);
	assert_string_equal(text, joined);
}

void expect_place(const struct config_place *place, const char *file, unsigned line)
{
	assert_string_equal(place->file, file);
	assert_int_equal(place->line, line);
}

static void expect_same_list(const struct config_list *a, const struct config_list *b)
{
	assert_int_equal(a->nr, b->nr);
	for (size_t i = 0; i < a->nr; i++)
		assert_string_equal(a->items[i], b->items[i]);
}

void expect_same(const struct config *a, const struct config *b)
{
	assert_int_equal(a->interval, b->interval);
	assert_string_equal(a->procfs.text, b->procfs.text);
	assert_string_equal(a->sysfs.text, b->sysfs.text);
	assert_string_equal(a->cgroup_mount.text, b->cgroup_mount.text);
	expect_same_list(&a->listen, &b->listen);
	assert_int_equal(a->created, b->created);
	assert_int_equal(a->peaks, b->peaks);
	assert_string_equal(a->tls_certificate.text, b->tls_certificate.text);
	assert_string_equal(a->tls_key.text, b->tls_key.text);
	assert_string_equal(a->tls_client_ca.text, b->tls_client_ca.text);
	assert_string_equal(a->tls_client_crl.text, b->tls_client_crl.text);
	expect_same_list(&a->tls_client_names, &b->tls_client_names);
	assert_int_equal(a->tls_client_required, b->tls_client_required);
	assert_string_equal(a->users.text, b->users.text);
	assert_string_equal(a->web_config.text, b->web_config.text);
	assert_string_equal(a->cors_origin.text, b->cors_origin.text);
	assert_int_equal(a->max_connections, b->max_connections);
	assert_int_equal(a->max_connections_per_address, b->max_connections_per_address);
	assert_int_equal(a->max_header_bytes, b->max_header_bytes);
	assert_int_equal(a->request_timeout, b->request_timeout);
	assert_int_equal(a->answer_timeout, b->answer_timeout);
	assert_int_equal(a->idle_timeout, b->idle_timeout);
	assert_int_equal(a->max_unsent_bytes, b->max_unsent_bytes);
	expect_same_list(&a->cpu_groups, &b->cpu_groups);
	assert_int_equal(a->cpu_aggregate, b->cpu_aggregate);
	expect_same_list(&a->cpu_exclude, &b->cpu_exclude);
	expect_same_list(&a->cgroup_groups, &b->cgroup_groups);
	expect_same_list(&a->include, &b->include);
	expect_same_list(&a->exclude, &b->exclude);
	expect_same_list(&a->container_files, &b->container_files);
	assert_int_equal(a->cgroup_engine, b->cgroup_engine);
	assert_int_equal(a->cgroup_max, b->cgroup_max);
	assert_int_equal(a->cgroup_per_cpu, b->cgroup_per_cpu);
	assert_int_equal(a->linger, b->linger);
	assert_int_equal(a->profiles_enabled, b->profiles_enabled);
	assert_int_equal(a->profiles_rate, b->profiles_rate);
	assert_int_equal(a->profiles_memory, b->profiles_memory);
	assert_int_equal(a->capture_memory, b->capture_memory);
	assert_int_equal(a->profiles_stack_bytes, b->profiles_stack_bytes);
	assert_int_equal(a->profiles_tables, b->profiles_tables);
	expect_same_list(&a->profiles_include, &b->profiles_include);
	expect_same_list(&a->profiles_exclude, &b->profiles_exclude);
	assert_int_equal(a->nr_profiles, b->nr_profiles);
	assert_int_equal(a->nr_groups, b->nr_groups);
	for (size_t i = 0; i < a->nr_groups; i++) {
		assert_string_equal(a->groups[i].name, b->groups[i].name);
		assert_string_equal(a->groups[i].events, b->groups[i].events);
		assert_int_equal(a->groups[i].alone, b->groups[i].alone);
		assert_int_equal(a->groups[i].split, b->groups[i].split);
	}
}
