/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reading the configuration: INI files, read with libinih into one struct config by one const table of sections and
 * keys. This room knows the shape of each value (a duration, a list, a number in a range), not what a key does.
 *
 * Files are read in order, later ones on top: a plain key takes the last value; a list (listen, groups, include,
 * exclude) adds to the values given before, and an empty value empties it (as in systemd's files). The defaults are
 * those of conf/perfmond.conf, and hold for keys that no file sets; a list's default is replaced by the first value
 * given. A [group "NAME"] that is given again is one group whose keys are replaced.
 *
 * Comments begin with # or ;, at the start of a line or after a space, even one in quotes. A list, and events, may go
 * on in indented lines; an indented line that begins with a key of its section is that key.
 *
 * Any list may end up empty, if a file has emptied it.
 *
 * The files of this room, from the bottom: list (places, texts, lists), settings (the struct), keys (the table) and
 * address, value (one value of one key), parse (one text), config (defaults, files, checks of the whole).
 */

#include "base/config/address.h"
#include "base/config/settings.h"
#include "base/util/reason.h"

/* The built-in defaults alone. -ENOMEM. */
int config_new(struct config **ret);

/*
 * Reads file (a missing one is an error if must_exist, else as good as empty), and then every *.conf in the folder
 * perfmond.conf.d beside it, in name order (plain files only; the folder need not exist), and checks the whole.
 * -EINVAL for an error in a file, with "FILE:LINE: …" in why; -errno with the file's name if it can't be read.
 */
int config_load(struct config **ret, const char *file, bool must_exist, struct reason *why);

/* Reads one text as if it were a file called name, on top of config, which is unchanged on failure. The first error
 * ends it. config_load() does this for each file, and the fuzzer feeds it. */
int config_parse(struct config *config, const char *name, const char *text, size_t size, struct reason *why);

/* The checks that need the whole: each group named in a list exists, each group has events, a certificate has its key.
 * -EINVAL with the place in why. config_load() has done it. */
int config_check(const struct config *config, struct reason *why);

/* A sentence on number i of the groups that a file has and nothing uses; false after the last. */
bool config_unused_group(const struct config *config, size_t i, struct reason *ret);

/* Replaces [web] listen, as --listen does. -EINVAL if one is no address (address_check() says why), -ENOMEM;
 * config is unchanged then. */
int config_set_listen(struct config *config, char *const *listen, size_t nr);
