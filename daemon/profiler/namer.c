/* SPDX-License-Identifier: MIT */

#include "profiler/namer.h"

#include "base/util/clock.h"
#include "profiler/naming/cpu-budget.h"
#include "profiler/naming/resolver.h"

#include <errno.h>
#include <string.h>

/* The children's CPU time: it begins with the most that they may have. */
#define NAMING_BURST_NS (2 * (int64_t)NS_PER_S)
#define NAMING_SHARE 1000

struct namer {
	struct resolver *resolver;
	struct archive_request request; /* the resolver's work; one that is not busy could not begin, and tries again */
	uint64_t offsets[RESOLVER_PLACES];
	struct cpu_budget budget;
};

int namer_new(struct namer **ret, const char *procfs)
{
	const struct resolver_roots roots = { .proc = procfs, .debug = "/usr/lib/debug" };
	_cleanup_(namer_freep) struct namer *namer = calloc(1, sizeof(*namer));
	int r;

	if (!namer)
		return -ENOMEM;
	r = resolver_new(&namer->resolver, &roots);
	if (r < 0)
		return r;
	namer->budget = (struct cpu_budget){ .burst_ns = NAMING_BURST_NS, .share = NAMING_SHARE };
	*ret = steal_ptr(namer);
	return 0;
}

struct namer *namer_free(struct namer *namer)
{
	if (namer)
		resolver_free(namer->resolver);
	free(namer);
	return NULL;
}

int namer_fd(const struct namer *namer)
{
	return resolver_fd(namer->resolver);
}

void namer_forget(struct namer *namer)
{
	namer->request.nr = 0;
}

uint64_t namer_cpu_ns(const struct namer *namer)
{
	return resolver_cpu_ns(namer->resolver);
}

static void take_answers(struct namer *namer, struct archive *archive)
{
	for (size_t i = 0; i < namer->request.nr; i++) {
		struct resolver_answer answer;
		enum naming naming = resolver_answer(namer->resolver, i, &answer);

		archive_answer(archive, &namer->request, namer->offsets[i], naming, answer.name,
			       answer.end ? namer->offsets[i] - answer.start : 0);
	}
	namer->request.nr = 0;
	resolver_forget(namer->resolver);
}

static int compare_offsets(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Those of samples are named when they are taken (profiler/stack/places.h). Others come with the samples over a
 * restart. */
static void name_in_kernel(struct namer *namer, struct archive *archive, struct kernel_functions *kernel)
{
	for (size_t i = 0; i < namer->request.nr; i++) {
		uint64_t address = namer->offsets[i];
		const struct kernel_function *function = kernel_functions_find(kernel, address);

		if (function)
			archive_answer(archive, &namer->request, address, NAMING_NAMED, function->name,
				       address - function->start);
		else
			archive_answer(archive, &namer->request, address,
				       kernel->list ? NAMING_NO_SYMBOL : kernel->hidden, NULL, 0);
	}
	namer->request.nr = 0;
}

static void ask_next(struct namer *namer, struct archive *archive, const struct processes *processes,
		     struct kernel_functions *kernel)
{
	struct archive_request *request = &namer->request;
	const struct archive_module *module;
	const char *path;

	request->offsets = namer->offsets;
	if (!request->nr && !archive_ask(archive, request, RESOLVER_PLACES))
		return;
	qsort(namer->offsets, request->nr, sizeof(*namer->offsets), compare_offsets);
	module = table_at(&archive->modules, request->module);
	path = archive_text(archive, module->path);
	if (strcmp(path, ARCHIVE_KERNEL) == 0) {
		name_in_kernel(namer, archive, kernel);
		return;
	}
	/* Without a process for it now, the next turn tries again. */
	(void)resolver_start(namer->resolver, path, &module->key, processes_user_of(processes, &module->key, path),
			     namer->offsets, request->nr);
}

void namer_turn(struct namer *namer, struct archive *archive, const struct processes *processes,
		struct kernel_functions *kernel)
{
	uint64_t before = resolver_cpu_ns(namer->resolver), begun;

	if (resolver_finish(namer->resolver)) {
		cpu_budget_take(&namer->budget, resolver_cpu_ns(namer->resolver) - before);
		take_answers(namer, archive);
	}
	if (resolver_is_busy(namer->resolver) || !cpu_budget_has_some(&namer->budget, clock_monotonic_ns()))
		return;
	/* To make a child takes time, too: the more, the more memory this process has. */
	begun = clock_thread_ns();
	ask_next(namer, archive, processes, kernel);
	cpu_budget_take(&namer->budget, clock_thread_ns() - begun);
}
