/* SPDX-License-Identifier: MIT */

#include "profiler/namer.h"

#include "base/util/clock.h"
#include "profiler/naming/function-lists.h"

#include <errno.h>
#include <string.h>

/* Bytes of all lists: those of some hundred thousand functions take 2 to 4 MiB. */
#define LISTS_LIMIT ((size_t)16 << 20)

/* CPU time of a turn: rings are not read meanwhile. */
#define TURN_NS (20 * (uint64_t)NS_PER_MS)

/* Places that are looked up at once, in their order. */
#define BATCH 512

struct namer {
	struct function_lists *function_lists;
	struct function_block *block;
	struct archive_nameless batch[BATCH];
	uint32_t at;	 /* the next frame that is gone through; 0: all were */
	bool again;	 /* from the first one on, once all were */
	uint64_t sweeps; /* of the archive, when lists were last tidied */
};

int namer_new(struct namer **ret, const char *procfs)
{
	const struct list_roots roots = { .proc = procfs, .debug = "/usr/lib/debug" };
	_cleanup_(namer_freep) struct namer *namer = calloc(1, sizeof(*namer));
	int r;

	if (!namer)
		return -ENOMEM;
	namer->block = calloc(1, sizeof(*namer->block));
	if (!namer->block)
		return -ENOMEM;
	r = function_lists_new(&namer->function_lists, &roots, LISTS_LIMIT);
	if (r < 0)
		return r;
	*ret = steal_ptr(namer);
	return 0;
}

struct namer *namer_free(struct namer *namer)
{
	if (!namer)
		return NULL;
	function_lists_free(namer->function_lists);
	free(namer->block);
	free(namer);
	return NULL;
}

int namer_fd(const struct namer *namer)
{
	return function_lists_fd(namer->function_lists);
}

void namer_forget(struct namer *namer)
{
	namer->at = 0;
	namer->again = true;
	namer->sweeps = UINT64_MAX;
}

uint64_t namer_cpu_ns(const struct namer *namer)
{
	return function_lists_stats(namer->function_lists).cpu_ns;
}

size_t namer_list_bytes(const struct namer *namer)
{
	return function_lists_stats(namer->function_lists).bytes;
}

/* Only for places that were sampled before the list was there: others have names already (profiler/stack/places.h). */
static void name_in_kernel(struct archive *archive, const struct archive_nameless *place,
			   struct kernel_functions *kernel)
{
	const struct kernel_function *function;
	enum naming naming = kernel_functions_find(kernel, place->offset, &function);

	if (naming != NAMING_UNTRIED)
		archive_name(archive, place->frame, naming, function ? function->name : NULL, NULL, 0);
}

static void name_in_file(struct namer *namer, struct archive *archive, const struct archive_nameless *place,
			 const struct archive_module *module, const char *path)
{
	const struct function_list *list =
		function_lists_find(namer->function_lists, &module->key, path, place->offset);
	struct function function;

	if (!list)
		return;
	if (!function_list_find(list, place->offset, namer->block, &function))
		archive_name(archive, place->frame, function_list_naming(list), NULL, NULL, 0);
	else if (function.name)
		archive_name(archive, place->frame, NAMING_NAMED, function.name, function.symbol, 0);
	else
		archive_name(archive, place->frame, function_list_naming(list), NULL, NULL,
			     place->offset - function.start);
}

static void name_in_jit(struct archive *archive, const struct archive_nameless *place,
			const struct archive_module *module, struct jit_functions *jit)
{
	const char *name = NULL;
	enum naming naming = NAMING_GENERATED;

	if (jit)
		naming = jit_functions_name(jit, &module->key, place->offset, place->is_new, &name);
	if (naming != NAMING_ASKED)
		archive_name(archive, place->frame, naming, name, NULL, 0);
}

static int compare_places(const void *a, const void *b)
{
	const struct archive_nameless *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void name_batch(struct namer *namer, struct archive *archive, size_t nr, struct kernel_functions *kernel,
		       struct jit_functions *jit)
{
	qsort(namer->batch, nr, sizeof(*namer->batch), compare_places);
	for (size_t i = 0; i < nr; i++) {
		const struct archive_module *module = archive_module(archive, namer->batch[i].module);
		const char *path = archive_text(archive, module->path);

		if (strcmp(path, ARCHIVE_KERNEL) == 0)
			name_in_kernel(archive, &namer->batch[i], kernel);
		else if (strcmp(path, ARCHIVE_JIT) == 0)
			name_in_jit(archive, &namer->batch[i], module, jit);
		else
			name_in_file(namer, archive, &namer->batch[i], module, path);
	}
}

/* Those that wait for a list are gone through again when there is another one. */
static void name_all(struct namer *namer, struct archive *archive, struct kernel_functions *kernel,
		     struct jit_functions *jit)
{
	uint64_t end = clock_thread_ns() + TURN_NS;
	size_t nr;

	do {
		nr = archive_next_nameless(archive, &namer->at, namer->batch, BATCH);
		name_batch(namer, archive, nr, kernel, jit);
		if (nr < BATCH)
			namer->at = 0;
	} while (namer->at && clock_thread_ns() < end);
}

static bool has_module(const void *userdata, const struct module_key *key, const char *path)
{
	return archive_has_module(userdata, key, path);
}

static void tidy(struct namer *namer, const struct archive *archive)
{
	uint64_t sweeps = archive_stats(archive).sweeps;

	if (namer->sweeps != sweeps)
		function_lists_tidy(namer->function_lists, has_module, archive);
	namer->sweeps = sweeps;
}

void namer_turn(struct namer *namer, struct archive *archive, const struct processes *processes,
		struct kernel_functions *kernel, struct jit_functions *jit)
{
	namer->again |= kernel_functions_turn(kernel);
	namer->again |= function_lists_turn(namer->function_lists, processes);
	namer->again |= jit && jit_functions_turn(jit, processes);
	tidy(namer, archive);
	/* Lists may have gone since the last turn. */
	namer->block->list = NULL;
	if (!namer->at && !namer->again && !archive_has_untried(archive))
		return;
	namer->again &= namer->at != 0;
	name_all(namer, archive, kernel, jit);
	/* The first question of a file need not wait for the next turn. */
	namer->again |= function_lists_turn(namer->function_lists, processes);
}
