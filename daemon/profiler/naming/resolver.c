/* SPDX-License-Identifier: MIT */

#include "profiler/naming/resolver.h"

#include "base/util/helper.h"
#include "base/util/text.h"
#include "profiler/naming/debug-paths.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(NAMING_LINK_FILES == DEBUG_LINK_PATHS, "the child is given all of them");

struct resolver {
	char *proc, *debug;
	struct helper helper;
	struct naming_answers *answers;

	/* The question. */
	struct naming_files files;
	struct module_key key;
	uint64_t offsets[RESOLVER_PLACES];
	size_t nr;
};

int resolver_new(struct resolver **ret, const struct resolver_roots *roots)
{
	_cleanup_(resolver_freep) struct resolver *resolver = calloc(1, sizeof(*resolver));
	void *memory;
	int r;

	if (!resolver)
		return -ENOMEM;
	r = helper_init(&resolver->helper);
	if (r < 0)
		return r;
	resolver->proc = strdup(roots->proc);
	resolver->debug = strdup(roots->debug);
	memory = mmap(NULL, sizeof(*resolver->answers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory != MAP_FAILED)
		resolver->answers = memory;
	if (!resolver->answers || !resolver->proc || !resolver->debug)
		return -ENOMEM;
	*ret = steal_ptr(resolver);
	return 0;
}

struct resolver *resolver_free(struct resolver *resolver)
{
	if (!resolver)
		return NULL;
	helper_release(&resolver->helper);
	if (resolver->answers)
		(void)munmap(resolver->answers, sizeof(*resolver->answers));
	free(resolver->proc);
	free(resolver->debug);
	free(resolver);
	return NULL;
}

bool resolver_is_busy(const struct resolver *resolver)
{
	return helper_is_busy(&resolver->helper);
}

int resolver_fd(const struct resolver *resolver)
{
	return helper_fd(&resolver->helper);
}

void resolver_forget(struct resolver *resolver)
{
	if (madvise(resolver->answers, sizeof(*resolver->answers), MADV_REMOVE) < 0)
		memset(resolver->answers, 0, sizeof(*resolver->answers));
}

/* --- the question */

_printf_(2, 3) static void set_path(char path[static PATH_MAX], const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(path, PATH_MAX, format, args);
	va_end(args);
	if (n < 0 || n >= PATH_MAX)
		path[0] = '\0';
}

static void find_files(struct resolver *resolver, const char *path, uint32_t user)
{
	struct naming_files *files = &resolver->files;

	memset(files, 0, sizeof(*files));
	files->vdso = strcmp(path, MODULE_VDSO) == 0;
	set_path(files->files[0], "%s", path);
	if (user && path[0] == '/')
		set_path(files->files[1], "%s/%" PRIu32 "/root%s", resolver->proc, user, path);
	debug_path_by_build_id(files->by_build_id, resolver->debug, &resolver->key);
}

static void run_child(void *userdata)
{
	const struct resolver *resolver = userdata;

	naming_child_run(resolver->answers, &resolver->files, &resolver->key, resolver->offsets, resolver->nr);
}

static int start_child(struct resolver *resolver)
{
	resolver->answers->link[0] = '\0';
	return helper_start(&resolver->helper, -1, run_child, resolver);
}

int resolver_start(struct resolver *resolver, const char *path, const struct module_key *key, uint32_t user,
		   const uint64_t *offsets, size_t nr)
{
	if (helper_is_busy(&resolver->helper))
		return -EBUSY;
	resolver->nr = nr < RESOLVER_PLACES ? nr : RESOLVER_PLACES;
	memcpy(resolver->offsets, offsets, resolver->nr * sizeof(*offsets));
	resolver->key = *key;
	find_files(resolver, path, user);
	resolver_forget(resolver);
	/* As a child that dies leaves it. */
	for (size_t i = 0; i < resolver->nr; i++)
		resolver->answers->naming[i] = NAMING_FAILED;
	return start_child(resolver);
}

/* Begins anew, with the file of debug symbols that the child has asked for. What it has found stays until then. */
static bool follow_link(struct resolver *resolver)
{
	struct naming_files *files = &resolver->files;
	char link[sizeof(resolver->answers->link)];

	memcpy(link, resolver->answers->link, sizeof(link));
	link[sizeof(link) - 1] = '\0';
	if (!link[0] || files->linked || files->vdso)
		return false;
	files->linked = true;
	debug_paths_by_link(files->by_link, resolver->debug, files->files[0], link);
	return start_child(resolver) == 0;
}

bool resolver_finish(struct resolver *resolver)
{
	return helper_has_ended(&resolver->helper) && !follow_link(resolver);
}

uint64_t resolver_cpu_ns(const struct resolver *resolver)
{
	return resolver->helper.cpu_ns;
}

/* --- the answer */

static bool is_printable(const char *name)
{
	return *name && memchr(name, '\0', FUNCTION_NAME_MAX) && text_is_plain(name);
}

enum naming resolver_answer(const struct resolver *resolver, size_t index, struct resolver_answer *ret)
{
	const struct naming_answers *answers = resolver->answers;
	uint32_t naming = answers->naming[index];
	uint64_t offset = resolver->offsets[index];
	bool bounded = answers->start[index] <= offset && answers->end[index] > offset;

	*ret = (struct resolver_answer){};
	if (naming >= _NAMING_MAX || naming < NAMING_NAMED)
		return NAMING_FAILED;
	if (naming == NAMING_NAMED && (!is_printable(answers->names[index]) || !bounded))
		return NAMING_MALFORMED;
	if (bounded) {
		ret->start = answers->start[index];
		ret->end = answers->end[index];
	}
	if (naming == NAMING_NAMED)
		ret->name = answers->names[index];
	return naming;
}
