/* SPDX-License-Identifier: MIT */

#include "setup/fake-source.h"

static int fake_snapshot(void *userdata, struct snapshot **ret)
{
	struct fake_source *fake = userdata;

	fake->nr_snapshots++;
	if (fake->snapshot_error)
		return fake->snapshot_error;
	*ret = snapshot_ref(fake->snapshot);
	return 0;
}

static bool fake_ready(void *userdata, struct reason *why)
{
	struct fake_source *fake = userdata;

	if (!fake->ready)
		reason_set(why, 0, "5 cgroups are still to be opened");
	return fake->ready;
}

static void fake_scraped(void *userdata, bool written)
{
	struct fake_source *fake = userdata;

	fake->nr_scraped++;
	fake->nr_written += written;
}

struct fake_source *fake_source_new(struct snapshot *snapshot)
{
	struct fake_source *fake = calloc(1, sizeof(*fake));

	if (!fake)
		abort();
	fake->snapshot = snapshot;
	fake->ready = true;
	fake->env.pmus = &fake->pmus;
	fake->info = (struct machine_info){
		.version = "1.2.3",
		.engine = "perf-cgroup",
		.privilege = &fake->privilege,
		.env = &fake->env,
		.no_cgroups = "no cgroup file system is mounted",
		.cpus = &fake->cpus,
	};
	fake->source = (struct web_source){
		.snapshot = fake_snapshot,
		.ready = fake_ready,
		.scraped = fake_scraped,
		.info = &fake->info,
		.stats = &fake->stats,
		.userdata = fake,
	};
	return fake;
}

void fake_source_free(struct fake_source *fake)
{
	snapshot_unref(fake->snapshot);
	free(fake);
}
