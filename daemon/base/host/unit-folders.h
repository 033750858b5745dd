/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The folders that systemd makes for a service, and names in its environment (systemd.exec(5), "StateDirectory="). Of
 * several it is the first.
 */

/* StateDirectory=, to be freed; NULL: there is none. -ENOMEM. */
int unit_state_folder(char **ret);

/* The path, to be freed, of what root saves by that name in RuntimeDirectory=, before the daemon starts or later.
 * -ENOENT: this is no service; -ENOMEM. */
int unit_saved_path(const char *name, char **ret);
