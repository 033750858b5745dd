/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From the files that a config names to a struct tls. Each file is read and checked when it is loaded, so that a broken
 * one is found before anything changes; a reload reads them again.
 */

#include "web/http/tls.h"

#include <stdbool.h>

/* A file as a config names it. All is borrowed. */
struct web_file {
	const char *file; /* where the key stands, for messages */
	unsigned line;
	const char *key;
	const char *name; /* an absolute path, or the name of a credential; NULL or "": there is none */
	const char *text; /* what the file would contain, in place of a name; NULL: the name counts */
};

static inline bool web_file_is_given(const struct web_file *file)
{
	return file->text || (file->name && *file->name);
}

/* Reads it: its text, to be freed with secret_free(), and its path, to be freed, for messages ("" for a text in place
 * of a name). ret_path is also set where only reading fails. secret: it is worth a warning if everybody may read the
 * file. Negative errno with "FILE:LINE: KEY: /path: …" in why. */
int web_file_read(const struct web_file *file, bool secret, char **ret_path, char **ret, struct reason *why);
/* Puts "FILE:LINE: KEY: /path: " in front of the sentence in why. path NULL: the file's name. Returns r. */
int web_file_fail(const struct web_file *file, const char *path, int r, struct reason *why);

struct tls_settings {
	struct web_file certificate, key, client_ca, client_crl;
	bool client_required;
	char *const *client_names; /* allowed; none: any name */
	size_t nr_client_names;
	bool names_are_exact; /* plain texts, not globs */
	const char *priorities;
};

/* An expired certificate is no error, but is logged; likewise a list of revoked certificates that is out of date. As
 * above; -EINVAL for a file with wrong content. */
int tls_load(struct tls **ret, const struct tls_settings *settings, struct reason *why);
