/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/loader.h"

#include "base/util/job-thread.h"
#include "service/lifecycle/schedule.h"

#include <assert.h>
#include <errno.h>

struct loader {
	loader_done_t done;
	void *userdata;
	struct job_thread *thread;
	struct bpf_load *load; /* the thread's; NULL: there is nothing to do */
};

/* In the thread. */
static void run_load(void *userdata)
{
	const struct loader *loader = userdata;

	bpf_load_run(loader->load);
}

static void on_done(void *userdata)
{
	struct loader *loader = userdata;

	loader->done(loader->userdata, steal_ptr(loader->load));
}

int loader_new(struct loader **ret, sd_event *loop, loader_done_t done, void *userdata)
{
	_cleanup_(loader_freep) struct loader *loader = calloc(1, sizeof(*loader));
	int r;

	if (!loader)
		return -ENOMEM;
	loader->done = done;
	loader->userdata = userdata;
	r = job_thread_new(&loader->thread, loop, PRIORITY_SIGNAL, run_load, on_done, loader);
	if (r < 0)
		return r;
	*ret = steal_ptr(loader);
	return 0;
}

struct loader *loader_free(struct loader *loader)
{
	if (!loader)
		return NULL;
	job_thread_free(loader->thread);
	bpf_load_free(loader->load);
	free(loader);
	return NULL;
}

bool loader_start(struct loader *loader, struct bpf_load *load)
{
	assert(!loader->load);
	loader->load = load;
	if (job_thread_start(loader->thread))
		return true;
	loader->load = bpf_load_free(load);
	return false;
}

bool loader_is_busy(const struct loader *loader)
{
	return loader->load;
}
