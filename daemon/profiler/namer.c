/* SPDX-License-Identifier: MIT */

#include "profiler/namer.h"

#include "base/util/clock.h"
#include "profiler/naming/resolver.h"

#include <errno.h>
#include <string.h>

/* The children's CPU time: it begins with the most that they may have. */
#define NAMING_BURST_NS (2 * (int64_t)NS_PER_S)
#define NAMING_SHARE 1000

/* The kernel's list is read as a whole, so a pause of so many times the CPU time of the last reading lets more places
 * come together for the next one. */
#define NAMING_PAUSE 10

struct namer {
	struct resolver *resolver;
	struct archive_request request; /* the resolver's work, if it is busy */
	uint64_t offsets[RESOLVER_PLACES];
	bool asked_kernel;
	int64_t left_ns;     /* CPU time that may still be taken */
	uint64_t credited;   /* CLOCK_MONOTONIC ns: when it was last given more */
	uint64_t kernel_due; /* the kernel's list is not read again before */
};

int namer_new(struct namer **ret, const char *procfs, const char *kallsyms)
{
	const struct resolver_roots roots = { .proc = procfs, .debug = "/usr/lib/debug", .kallsyms = kallsyms };
	_cleanup_(namer_freep) struct namer *namer = calloc(1, sizeof(*namer));
	int r;

	if (!namer)
		return -ENOMEM;
	r = resolver_new(&namer->resolver, &roots);
	if (r < 0)
		return r;
	namer->left_ns = NAMING_BURST_NS;
	namer->credited = clock_monotonic_ns();
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

static void credit_naming(struct namer *namer, uint64_t now)
{
	namer->left_ns += (int64_t)((now - namer->credited) / NAMING_SHARE);
	namer->credited = now;
	if (namer->left_ns > NAMING_BURST_NS)
		namer->left_ns = NAMING_BURST_NS;
}

static void take_answers(struct namer *namer, struct archive *archive, struct kernel_functions *kernel)
{
	for (size_t i = 0; i < namer->request.nr; i++) {
		struct resolver_answer answer;
		enum naming naming = resolver_answer(namer->resolver, i, &answer);

		archive_answer(archive, &namer->request, namer->offsets[i], naming, answer.name,
			       answer.end ? namer->offsets[i] - answer.start : 0);
		if (namer->asked_kernel && answer.name)
			kernel_functions_put(kernel, answer.start, answer.end, answer.name);
		if (naming == NAMING_KERNEL || naming == NAMING_NO_KALLSYMS)
			kernel->hidden = naming;
	}
	namer->request.nr = 0;
	resolver_forget(namer->resolver);
}

static int compare_offsets(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void ask_next(struct namer *namer, struct archive *archive, const struct processes *processes, uint64_t now)
{
	struct archive_request *request = &namer->request;
	const struct archive_module *module;
	const char *path;
	uint32_t user;
	int r;

	request->offsets = namer->offsets;
	if (!archive_ask(archive, request, RESOLVER_PLACES, now >= namer->kernel_due))
		return;
	qsort(namer->offsets, request->nr, sizeof(*namer->offsets), compare_offsets);
	module = table_at(&archive->modules, request->module);
	path = archive_text(archive, module->path);
	namer->asked_kernel = strcmp(path, ARCHIVE_KERNEL) == 0;
	user = namer->asked_kernel ? 0 : processes_user_of(processes, &module->key, path);
	r = resolver_start(namer->resolver, path, namer->asked_kernel ? NULL : &module->key, user, namer->offsets,
			   request->nr);
	for (size_t i = 0; r < 0 && i < request->nr; i++)
		archive_answer(archive, request, namer->offsets[i], NAMING_FAILED, NULL, 0);
}

void namer_turn(struct namer *namer, struct archive *archive, const struct processes *processes,
		struct kernel_functions *kernel)
{
	uint64_t before = resolver_cpu_ns(namer->resolver), now = clock_monotonic_ns(), cost, begun;

	credit_naming(namer, now);
	if (resolver_finish(namer->resolver)) {
		cost = resolver_cpu_ns(namer->resolver) - before;
		namer->left_ns -= (int64_t)cost;
		if (namer->asked_kernel)
			namer->kernel_due = now + cost * NAMING_PAUSE;
		take_answers(namer, archive, kernel);
	}
	if (resolver_is_busy(namer->resolver) || namer->left_ns <= 0)
		return;
	/* To make a child takes time, too: the more, the more memory this process has. */
	begun = clock_thread_ns();
	ask_next(namer, archive, processes, now);
	namer->left_ns -= (int64_t)(clock_thread_ns() - begun);
}
