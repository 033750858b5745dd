/* SPDX-License-Identifier: MIT */

#include "base/config/keys.h"

#include "base/config/settings.h"
#include "base/util/clock.h"
#include "base/util/text.h"

#include <ctype.h>
#include <string.h>

#define MINUTE (UINT64_C(60) * NS_PER_S)
#define HOUR (60 * MINUTE)
#define KIB UINT64_C(1024)

const char *const config_sections[_SECTION_MAX] = {
	[SECTION_DAEMON] = "daemon",   [SECTION_WEB] = "web",		[SECTION_CPU] = "cpu",
	[SECTION_CGROUP] = "cgroup",   [SECTION_PROFILES] = "profiles", [SECTION_GROUP] = "group",
	[SECTION_PROFILE] = "profile", [SECTION_CAPTURE] = "capture",
};

/* clang-format off */
const struct config_key config_keys[] = {
	{ .section = SECTION_DAEMON, .name = "interval", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, interval), .min = 10 * NS_PER_MS, .max = HOUR, .bounds = "10ms to 1h" },
	{ .section = SECTION_DAEMON, .name = "switch_budget", .type = VALUE_SHARE,
	  .offset = offsetof(struct config, switch_budget), .min = 100, .max = PPM, .bounds = "0.01% to 100%" },
	{ .section = SECTION_DAEMON, .name = "history_memory", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, history_memory), .min = 0, .max = 16 * KIB * KIB * KIB,
	  .bounds = "0 to 16GiB" },
	{ .section = SECTION_DAEMON, .name = "procfs", .type = VALUE_PATH,
	  .offset = offsetof(struct config, procfs), .min = 1 },
	{ .section = SECTION_DAEMON, .name = "sysfs", .type = VALUE_PATH,
	  .offset = offsetof(struct config, sysfs), .min = 1 },

	{ .section = SECTION_WEB, .name = "listen", .type = VALUE_ADDRESS,
	  .offset = offsetof(struct config, listen) },
	{ .section = SECTION_WEB, .name = "created", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, created) },
	{ .section = SECTION_WEB, .name = "peaks", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, peaks) },
	{ .section = SECTION_WEB, .name = "tls_certificate", .type = VALUE_FILE,
	  .offset = offsetof(struct config, tls_certificate) },
	{ .section = SECTION_WEB, .name = "tls_key", .type = VALUE_FILE,
	  .offset = offsetof(struct config, tls_key) },
	{ .section = SECTION_WEB, .name = "tls_client_ca", .type = VALUE_FILE,
	  .offset = offsetof(struct config, tls_client_ca) },
	{ .section = SECTION_WEB, .name = "tls_client_crl", .type = VALUE_FILE,
	  .offset = offsetof(struct config, tls_client_crl) },
	{ .section = SECTION_WEB, .name = "tls_client_names", .type = VALUE_NAMES,
	  .offset = offsetof(struct config, tls_client_names) },
	{ .section = SECTION_WEB, .name = "tls_client_required", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, tls_client_required) },
	{ .section = SECTION_WEB, .name = "users", .type = VALUE_FILE,
	  .offset = offsetof(struct config, users) },
	{ .section = SECTION_WEB, .name = "web_config", .type = VALUE_FILE,
	  .offset = offsetof(struct config, web_config) },
	{ .section = SECTION_WEB, .name = "cors_origin", .type = VALUE_ORIGIN,
	  .offset = offsetof(struct config, cors_origin) },
	{ .section = SECTION_WEB, .name = "max_connections", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config, max_connections), .min = 1, .max = 10000, .bounds = "1 to 10000" },
	{ .section = SECTION_WEB, .name = "max_connections_per_address", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config, max_connections_per_address), .min = 1, .max = 10000,
	  .bounds = "1 to 10000" },
	{ .section = SECTION_WEB, .name = "max_header_bytes", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, max_header_bytes), .min = KIB, .max = KIB * KIB,
	  .bounds = "1KiB to 1MiB" },
	{ .section = SECTION_WEB, .name = "request_timeout", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, request_timeout), .min = NS_PER_S, .max = HOUR, .bounds = "1s to 1h" },
	{ .section = SECTION_WEB, .name = "answer_timeout", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, answer_timeout), .min = NS_PER_S, .max = HOUR, .bounds = "1s to 1h" },
	{ .section = SECTION_WEB, .name = "idle_timeout", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, idle_timeout), .min = NS_PER_S, .max = HOUR, .bounds = "1s to 1h" },
	{ .section = SECTION_WEB, .name = "max_unsent_bytes", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, max_unsent_bytes), .min = KIB * KIB, .max = 16 * KIB * KIB * KIB,
	  .bounds = "1MiB to 16GiB" },

	{ .section = SECTION_CPU, .name = "groups", .type = VALUE_GROUPS,
	  .offset = offsetof(struct config, cpu_groups) },
	{ .section = SECTION_CPU, .name = "aggregate", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, cpu_aggregate) },
	{ .section = SECTION_CPU, .name = "exclude", .type = VALUE_CPUS,
	  .offset = offsetof(struct config, cpu_exclude) },

	{ .section = SECTION_CGROUP, .name = "groups", .type = VALUE_GROUPS,
	  .offset = offsetof(struct config, cgroup_groups) },
	{ .section = SECTION_CGROUP, .name = "include", .type = VALUE_GLOBS,
	  .offset = offsetof(struct config, include) },
	{ .section = SECTION_CGROUP, .name = "exclude", .type = VALUE_GLOBS,
	  .offset = offsetof(struct config, exclude) },
	{ .section = SECTION_CGROUP, .name = "engine", .type = VALUE_ENGINE,
	  .offset = offsetof(struct config, cgroup_engine) },
	{ .section = SECTION_CGROUP, .name = "mount", .type = VALUE_PATH,
	  .offset = offsetof(struct config, cgroup_mount) },
	{ .section = SECTION_CGROUP, .name = "max", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config, cgroup_max), .min = 0, .max = 1000000, .bounds = "0 to 1000000" },
	{ .section = SECTION_CGROUP, .name = "per_cpu", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, cgroup_per_cpu) },
	{ .section = SECTION_CGROUP, .name = "linger", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, linger), .min = 0, .max = 24 * HOUR, .bounds = "0s to 24h" },
	{ .section = SECTION_CGROUP, .name = "container_files", .type = VALUE_PATHS,
	  .offset = offsetof(struct config, container_files), .max = 32 },

	{ .section = SECTION_PROFILES, .name = "enabled", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, profiles_enabled) },
	{ .section = SECTION_PROFILES, .name = "rate", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config, profiles_rate), .min = 1, .max = 1000, .bounds = "1 to 1000" },
	{ .section = SECTION_PROFILES, .name = "memory", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, profiles_memory), .min = KIB * KIB, .max = 64 * KIB * KIB * KIB,
	  .bounds = "1MiB to 64GiB" },
	{ .section = SECTION_PROFILES, .name = "capture_memory", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, capture_memory), .min = 2 * KIB * KIB, .max = 64 * KIB * KIB * KIB,
	  .bounds = "2MiB to 64GiB" },
	{ .section = SECTION_PROFILES, .name = "stack_bytes", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, profiles_stack_bytes), .min = 0, .max = CONFIG_MAX_STACK_BYTES,
	  .bounds = "0 to 62KiB", .step = 8 },
	{ .section = SECTION_PROFILES, .name = "tables", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, profiles_tables), .min = KIB * KIB, .max = 64 * KIB * KIB * KIB,
	  .bounds = "1MiB to 64GiB" },
	{ .section = SECTION_PROFILES, .name = "jit", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, profiles_jit) },
	{ .section = SECTION_PROFILES, .name = "include", .type = VALUE_GLOBS,
	  .offset = offsetof(struct config, profiles_include) },
	{ .section = SECTION_PROFILES, .name = "exclude", .type = VALUE_GLOBS,
	  .offset = offsetof(struct config, profiles_exclude) },

	{ .section = SECTION_GROUP, .name = "events", .type = VALUE_EVENTS },
	{ .section = SECTION_GROUP, .name = "alone", .type = VALUE_BOOL,
	  .offset = offsetof(struct config_group, alone) },
	{ .section = SECTION_GROUP, .name = "split", .type = VALUE_BOOL,
	  .offset = offsetof(struct config_group, split) },

	{ .section = SECTION_PROFILE, .name = "event", .type = VALUE_TEXT,
	  .offset = offsetof(struct config_profile, event) },
	{ .section = SECTION_PROFILE, .name = "rate", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config_profile, rate), .min = 1, .max = 1000, .bounds = "1 to 1000" },
	{ .section = SECTION_PROFILE, .name = "period", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config_profile, period), .min = 1, .max = UINT64_C(1000000000000),
	  .bounds = "1 to 1000000000000" },
	{ .section = SECTION_PROFILE, .name = "stack_bytes", .type = VALUE_SIZE,
	  .offset = offsetof(struct config_profile, stack_bytes), .min = 0, .max = CONFIG_MAX_STACK_BYTES,
	  .bounds = "0 to 62KiB", .step = 8 },

	{ .section = SECTION_CAPTURE, .name = "when", .type = VALUE_RULE,
	  .offset = offsetof(struct config_capture, when) },
	{ .section = SECTION_CAPTURE, .name = "before", .type = VALUE_DURATION,
	  .offset = offsetof(struct config_capture, before), .min = 0, .max = 10 * MINUTE, .bounds = "0s to 10min" },
	{ .section = SECTION_CAPTURE, .name = "after", .type = VALUE_DURATION,
	  .offset = offsetof(struct config_capture, after), .min = NS_PER_S, .max = 10 * MINUTE,
	  .bounds = "1s to 10min" },
	{ .section = SECTION_CAPTURE, .name = "event", .type = VALUE_TEXT,
	  .offset = offsetof(struct config_capture, event) },
	{ .section = SECTION_CAPTURE, .name = "rate", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config_capture, rate), .min = 0, .max = 1000, .bounds = "0 to 1000" },
	{ .section = SECTION_CAPTURE, .name = "every", .type = VALUE_DURATION,
	  .offset = offsetof(struct config_capture, every), .min = NS_PER_S, .max = 24 * HOUR, .bounds = "1s to 24h" },
	{ .section = SECTION_CAPTURE, .name = "keep", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config_capture, keep), .min = 1, .max = 1000, .bounds = "1 to 1000" },
	{ .section = SECTION_CAPTURE, .name = "save", .type = VALUE_BOOL,
	  .offset = offsetof(struct config_capture, save) },
};
/* clang-format on */
const size_t config_nr_keys = ARRAY_SIZE(config_keys);

bool config_key_goes_on(const struct config_key *key)
{
	return key->type == VALUE_GROUPS || key->type == VALUE_GLOBS || key->type == VALUE_NAMES ||
	       key->type == VALUE_ADDRESS || key->type == VALUE_CPUS || key->type == VALUE_PATHS ||
	       key->type == VALUE_EVENTS;
}

bool config_is_named(enum config_section section)
{
	return section == SECTION_GROUP || section == SECTION_PROFILE || section == SECTION_CAPTURE;
}

bool config_is_group_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
			return false;
	return n > 0 && n <= CONFIG_GROUP_NAME_MAX;
}

const struct config_key *config_key_find(enum config_section section, const char *name, size_t n)
{
	for (size_t i = 0; i < config_nr_keys; i++)
		if (config_keys[i].section == section && strncmp(config_keys[i].name, name, n) == 0 &&
		    !config_keys[i].name[n])
			return &config_keys[i];
	return NULL;
}
