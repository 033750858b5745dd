/* SPDX-License-Identifier: MIT */

#include "service/cli/counting.h"

#include "base/util/clock.h"
#include "base/util/log.h"
#include "service/profiles/profile-settings.h"

#include <errno.h>
#include <time.h>

/* Cgroups are followed so often: one that is removed is read before it is gone. */
#define FOLLOW_NS 200000000U

int counting_start(struct world **ret, const struct options *options)
{
	_cleanup_(config_freep) struct config *config = NULL;
	_cleanup_(world_freep) struct world *world = NULL;
	struct reason why;
	int r = options_load_config(&config, options, &why);

	/* Nobody asks for profiles, but --check tells whether they can be had. */
	if (r >= 0) {
		if (options->command != COMMAND_CHECK)
			config_disable_profiles(config);
		r = world_new(&world, config, NULL, &why);
	}
	if (r >= 0) {
		r = profile_settings_check(config, &world_machine(world)->env, &why);
		config = NULL; /* taken over */
	}
	if (r >= 0) {
		r = world_start(world, &why);
	}
	if (r < 0) {
		log_error("%s", why.text);
		return r;
	}

	if (why.text[0])
		log_warning("%s", why.text);

	(void)world_admit(world, UINT64_MAX);
	world_tick(world);
	*ret = steal_ptr(world);
	return 0;
}

/* False: one of the signals came. */
static bool sleep_ns(uint64_t ns, const sigset_t *signals)
{
	const struct timespec ts = timespec_of_ns(ns);

	if (signals)
		return sigtimedwait(signals, NULL, &ts) < 0;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	return true;
}

bool counting_wait(struct world *world, uint64_t until, const sigset_t *signals)
{
	struct reason why;
	uint64_t now;

	while ((now = clock_monotonic_ns()) < until) {
		if (!sleep_ns(until - now < FOLLOW_NS ? until - now : FOLLOW_NS, signals))
			return false;
		(void)world_follow_cgroups(world, FOLLOW_NS, &why);
		(void)world_admit(world, UINT64_MAX);
	}
	return true;
}
