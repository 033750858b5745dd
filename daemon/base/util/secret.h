/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files that hold secrets, or belong to one: a key, a certificate, password hashes.
 *
 * An absolute name is a path. Any other is the name of one of systemd's credentials (LoadCredential=), which are files
 * in $CREDENTIALS_DIRECTORY.
 */

#include "base/util/reason.h"

#include <stdbool.h>

/* Bytes: no certificate with its chain comes near. */
#define SECRET_MAX (1024 * 1024)

/* The path of a file as configured, to be freed. -ENOENT with the sentence in why; -ENOMEM. */
int secret_path(const char *name, char **ret, struct reason *why);

/* Its text, with the lines as text_unify_lines() has them, to be freed with secret_free(). *ret_exposed (or NULL): may
 * everybody on this machine read it? Negative errno with the sentence, which does not name the file, in why. */
int secret_read(const char *path, char **ret, bool *ret_exposed, struct reason *why);

/* Wipes the text before it is freed. */
void secret_free(char *text);

static inline void secret_freep(char **text)
{
	secret_free(*text);
}
