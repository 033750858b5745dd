/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The walk by family: hands all samples of one metric after the other to a writer (family.h). The order is fixed:
 * events and group times of each scope, event states, cgroup identities, the daemon's own metrics. A family without
 * samples is not begun.
 */

#include "web/expose/family.h"
#include "web/expose/walk.h"

/* -ENOMEM. */
int walk_families(const struct walk *walk, const struct family_writer *writer, void *userdata);
