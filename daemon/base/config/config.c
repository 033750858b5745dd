/* SPDX-License-Identifier: MIT */

#include "base/config/config.h"

#include "base/config/keys.h"
#include "base/config/parse.h"
#include "base/util/buf.h"
#include "base/util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

/* conf/perfmond.conf shows the same. */
/* clang-format off */
static const char default_text[] =
	"[daemon]\n"
	"interval = 1s\n"
	"switch_budget = 1%\n"
	"history_memory = 32MiB\n"
	"procfs = /proc\n"
	"sysfs = /sys\n"
	"[web]\n"
	"listen = 127.0.0.1:9753\n"
	"created = no\n"
	"peaks = no\n"
	"tls_certificate =\n"
	"tls_key =\n"
	"tls_client_ca =\n"
	"tls_client_crl =\n"
	"tls_client_names =\n"
	"tls_client_required = yes\n"
	"users =\n"
	"web_config =\n"
	"cors_origin =\n"
	"max_connections = 256\n"
	"max_connections_per_address = 64\n"
	"max_header_bytes = 16KiB\n"
	"request_timeout = 10s\n"
	"answer_timeout = 1min\n"
	"idle_timeout = 2min\n"
	"max_unsent_bytes = 64MiB\n"
	"[cpu]\n"
	"groups = core software\n"
	"aggregate = no\n"
	"exclude =\n"
	"[cgroup]\n"
	"groups = core tasks\n"
	"include = **\n"
	"exclude =\n"
	"engine = auto\n"
	"mount =\n"
	"max = 2000\n"
	"per_cpu = no\n"
	"linger = 1min\n"
	"container_files = /var/lib/docker/containers"
	" /run/containerd/io.containerd.runtime.v2.task /run/k3s/containerd/io.containerd.runtime.v2.task"
	" /run/containers/storage/overlay-containers /var/lib/containers/storage/overlay-containers\n"
	"[profiles]\n"
	"enabled = yes\n"
	"rate = 19\n"
	"memory = 8MiB\n"
	"capture_memory = 8MiB\n"
	"stack_bytes = 32KiB\n"
	"tables = 32MiB\n"
	"jit = no\n"
	"include = **\n"
	"exclude =\n"
	"[group \"core\"]\n"
	"events = cycles, instructions, cache-misses, branch-misses\n"
	"[group \"software\"]\n"
	"events = context-switches, cpu-migrations, page-faults, major-faults\n"
	"[group \"tasks\"]\n"
	"events = task-clock, context-switches, cpu-migrations, page-faults, major-faults\n";
/* clang-format on */

/* The place of what stands above. */
static const char default_name[] = "built-in defaults";

/* How long to wait for the next bytes of a pipe that is given as a file. */
#define PIPE_PATIENCE_MS 1000

int config_new(struct config **ret)
{
	_cleanup_(config_freep) struct config *config = calloc(1, sizeof(*config));
	int r;

	if (!config)
		return -ENOMEM;
	r = config_apply(config, default_name, default_text, sizeof(default_text) - 1, true, NULL);
	if (r < 0)
		return r;
	*ret = steal_ptr(config);
	return 0;
}

int config_parse(struct config *config, const char *name, const char *text, size_t size, struct reason *why)
{
	_cleanup_(config_release) struct config new = {}, old = {};
	int r;

	r = config_copy(&new, config);
	if (r < 0)
		return reason_set(why, r, "%s: out of memory", name);
	r = config_apply(&new, name, text, size, false, why);
	if (r < 0)
		return r;

	old = *config;
	*config = steal_struct(new);
	return 0;
}

/* --- files */

/* A pipe is opened without blocking, so that a writer that never comes does not hang the daemon; one that is slow gets
 * this long. */
static int wait_for_pipe(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	int r = poll(&wait, 1, PIPE_PATIENCE_MS);

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	return r == 0 ? -ETIMEDOUT : 0;
}

static int read_to_end(int fd, struct buf *b)
{
	for (;;) {
		ssize_t n;

		if (!buf_reserve(b, 4096))
			return -ENOMEM;
		n = read(fd, b->data + b->len, b->cap - b->len);
		if (n == 0)
			return 0;
		if (n < 0 && errno == EAGAIN) {
			int r = wait_for_pipe(fd);

			if (r < 0)
				return r;
		} else if (n < 0 && errno != EINTR) {
			return -errno;
		} else if (n > 0) {
			b->len += (size_t)n;
		}
		if (b->len > CONFIG_MAX_SIZE)
			return -EFBIG;
	}
}

static int load_file(struct config *config, const char *path, struct reason *why)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_(buf_release) struct buf text = {};
	int r;

	r = fd < 0 ? -errno : read_to_end(fd, &text);
	if (r < 0)
		return reason_set(why, r, "can't read %s: %s", path, strerror(-r));
	return config_parse(config, path, text.data, text_unify_lines(text.data, text.len), why);
}

static int is_drop_in(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return entry->d_name[0] != '.' && n > strlen(".conf") &&
	       strcmp(entry->d_name + n - strlen(".conf"), ".conf") == 0;
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_drop_in(struct config *config, const char *folder, const char *name, struct reason *why)
{
	_cleanup_(freep) char *path = NULL;
	struct stat st;

	if (asprintf(&path, "%s/%s", folder, name) < 0) {
		path = NULL; /* asprintf(3) leaves it undefined */
		return reason_set(why, -ENOMEM, "out of memory");
	}
	if (stat(path, &st) < 0)
		return reason_set(why, -errno, "can't read %s: %s", path, strerror(errno));
	return S_ISREG(st.st_mode) ? load_file(config, path, why) : 0;
}

/* "/etc/perfmond/perfmond.conf.d" of "/etc/perfmond/anything". */
static char *drop_in_folder(const char *file)
{
	const char *slash = strrchr(file, '/');
	char *folder;

	return asprintf(&folder, "%.*sperfmond.conf.d", slash ? (int)(slash - file) + 1 : 0, file) < 0 ? NULL : folder;
}

static int load_drop_ins(struct config *config, const char *file, struct reason *why)
{
	_cleanup_(freep) char *folder = drop_in_folder(file);
	struct dirent **entries;
	int n, r = 0;

	if (!folder)
		return reason_set(why, -ENOMEM, "out of memory");
	n = scandir(folder, &entries, is_drop_in, compare_entries);
	if (n < 0 && errno == ENOENT)
		return 0;
	if (n < 0)
		return reason_set(why, -errno, "can't read the folder %s: %s", folder, strerror(errno));

	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = load_drop_in(config, folder, entries[i]->d_name, why);
		free(entries[i]);
	}
	free(entries);
	return r;
}

int config_load(struct config **ret, const char *file, bool must_exist, struct reason *why)
{
	_cleanup_(config_freep) struct config *config = NULL;
	int r;

	r = config_new(&config);
	if (r < 0)
		return reason_set(why, r, "out of memory");

	r = load_file(config, file, why);
	/* Drop-ins count without the file, too. */
	if (r == 0 || (r == -ENOENT && !must_exist))
		r = load_drop_ins(config, file, why);
	/* At the end, since a later file may add the group that an earlier one names. */
	if (r == 0)
		r = config_check(config, why);
	if (r < 0)
		return r;

	*ret = steal_ptr(config);
	return 0;
}

/* --- the whole */

static int check_group_names(const struct config *config, const char *section, const struct config_list *list,
			     struct reason *why)
{
	for (size_t i = 0; i < list->nr; i++)
		if (!config_find_group(config, list->items[i]))
			return reason_set(why, -EINVAL, "%s:%u: [%s] groups names '%s', but there is no [group \"%s\"]",
					  list->places[i].file, list->places[i].line, section, list->items[i],
					  list->items[i]);
	return 0;
}

/* A key that web_config takes the place of; `other`, if set, is one that it needs. */
struct needed {
	const char *name, *missing;
	const struct config_text *text;
	const struct config_list *list; /* in place of a text */
	const struct config_text *other;
};

static const struct config_place *needed_place(const struct needed *needed)
{
	if (needed->list)
		return needed->list->nr ? &needed->list->places[0] : NULL;
	return *needed->text->text ? &needed->text->place : NULL;
}

static int check_tls(const struct config *config, struct reason *why)
{
	const struct needed keys[] = {
		{ "tls_certificate", "tls_key", &config->tls_certificate, NULL, &config->tls_key },
		{ "tls_key", "tls_certificate", &config->tls_key, NULL, &config->tls_certificate },
		{ "tls_client_ca", "tls_certificate", &config->tls_client_ca, NULL, &config->tls_certificate },
		{ "tls_client_crl", "tls_client_ca", &config->tls_client_crl, NULL, &config->tls_client_ca },
		{ "tls_client_names", "tls_client_ca", NULL, &config->tls_client_names, &config->tls_client_ca },
		{ "users", NULL, &config->users, NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct config_place *place = needed_place(&keys[i]);

		if (place && *config->web_config.text)
			return reason_set(why, -EINVAL,
					  "%s:%u: [web] has %s, and web_config in %s:%u, whose file takes its place",
					  place->file, place->line, keys[i].name, config->web_config.place.file,
					  config->web_config.place.line);
		if (place && keys[i].other && !*keys[i].other->text)
			return reason_set(why, -EINVAL, "%s:%u: [web] has %s, but no %s", place->file, place->line,
					  keys[i].name, keys[i].missing);
	}
	return 0;
}

static int check_profile(const struct config_profile *profile, struct reason *why)
{
	const struct config_place *place = &profile->place;
	const char *wrong =
		!profile->event.text || !*profile->event.text ? "has no event; add event = …" :
		profile->rate && profile->period   ? "has both a rate and a period; one of them says how often" :
		!profile->rate && !profile->period ? "has neither rate = nor period =; add one of them" :
						     NULL;

	/* Names of what is sampled anyway, and of its route. */
	if (strcmp(profile->name, "cpu-clock") == 0 || strcmp(profile->name, "profile") == 0)
		wrong = "has a name that is taken; cpu-clock is always sampled, as [profiles] rate says";
	/* Tools would take numbers of samples for its weights. */
	if (strcmp(profile->name, "samples") == 0)
		wrong = "has a name that is taken: in profiles for pprof it is that of the numbers of samples";
	return wrong ? reason_set(why, -EINVAL, "%s:%u: [profile \"%s\"] %s", place->file, place->line, profile->name,
				  wrong) :
		       0;
}

/* The profile that it is about; NULL: cpu-clock, or there is none of that name. */
static const struct config_profile *profile_of(const struct config *config, const char *name)
{
	for (size_t i = 0; name && i < config->nr_profiles; i++)
		if (strcmp(config->profiles[i].name, name) == 0)
			return &config->profiles[i];
	return NULL;
}

static int check_capture(const struct config *config, const struct config_capture *capture, struct reason *why)
{
	const char *event = capture->event.text && *capture->event.text ? capture->event.text : NULL;
	const struct config_profile *profile = profile_of(config, event);
	const struct config_place *place = &capture->place;
	char excerpt[EXCERPT_MAX];

	if (!capture->when.text)
		return reason_set(why, -EINVAL, "%s:%u: [capture \"%s\"] has no rule; add when = …", place->file,
				  place->line, capture->name);
	if (event && !profile && strcmp(event, "cpu-clock") != 0)
		return reason_set(why, -EINVAL,
				  "%s:%u: event: '%s' is neither cpu-clock nor the name of a [profile \"NAME\"]",
				  capture->event.place.file, capture->event.place.line, text_excerpt(excerpt, event));
	if (profile && profile->period && capture->rate)
		return reason_set(why, -EINVAL,
				  "%s:%u: [capture \"%s\"] has a rate, but [profile \"%s\"] has samples by its period",
				  place->file, place->line, capture->name, event);
	return 0;
}

int config_check(const struct config *config, struct reason *why)
{
	int r = check_tls(config, why);

	if (r == 0)
		r = check_group_names(config, config_sections[SECTION_CPU], &config->cpu_groups, why);
	if (r == 0)
		r = check_group_names(config, config_sections[SECTION_CGROUP], &config->cgroup_groups, why);
	for (size_t i = 0; r == 0 && i < config->nr_profiles; i++)
		r = check_profile(&config->profiles[i], why);
	for (size_t i = 0; r == 0 && i < config->nr_captures; i++)
		r = check_capture(config, &config->captures[i], why);
	if (r < 0)
		return r;

	for (size_t i = 0; i < config->nr_groups; i++) {
		const struct config_group *group = &config->groups[i];
		const struct config_place *place = group->events_place.file ? &group->events_place : &group->place;

		if (!*group->events)
			return reason_set(why, -EINVAL, "%s:%u: [group \"%s\"] has no events; add events = …",
					  place->file, place->line, group->name);
	}
	return 0;
}

static bool is_unused(const struct config *config, const struct config_group *group)
{
	size_t n = strlen(group->name);

	return strcmp(group->place.file, default_name) != 0 && !config_list_has(&config->cpu_groups, group->name, n) &&
	       !config_list_has(&config->cgroup_groups, group->name, n);
}

bool config_unused_group(const struct config *config, size_t i, struct reason *ret)
{
	for (size_t k = 0; k < config->nr_groups; k++) {
		const struct config_group *group = &config->groups[k];

		if (!is_unused(config, group) || i-- > 0)
			continue;
		reason_set(ret, 0, "%s:%u: group '%s' is not used: neither [cpu] groups nor [cgroup] groups names it",
			   group->place.file, group->place.line, group->name);
		return true;
	}
	return false;
}

int config_set_listen(struct config *config, char *const *listen, size_t nr)
{
	_cleanup_(config_list_release) struct config_list list = {};
	const struct config_place place = { .file = (char *)"command line" };

	for (size_t i = 0; i < nr; i++) {
		int r = address_check(listen[i], NULL);

		if (r == 0 && !config_list_has(&list, listen[i], strlen(listen[i])))
			r = config_list_add(&list, listen[i], strlen(listen[i]), &place);
		if (r < 0)
			return r == -E2BIG ? -EINVAL : r;
	}

	config_list_release(&config->listen);
	config->listen = steal_struct(list);
	return 0;
}
