/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Made trees of files in a temporary folder, to stand for /sys, /proc or a cgroup hierarchy. What goes
 * wrong in making one ends the program: a test on half a tree says nothing.
 */

#include <stddef.h>

/* text NULL: a folder. Folders on the way are made. */
struct tree_file {
	const char *path;
	const char *text;
};

/* Makes the files of a table, ended by an entry without path (NULL: none), in a new folder below $TMPDIR or
 * /tmp; returns the folder's path. tree_free() removes it with all that is in it and returns NULL. */
char *tree_new(const struct tree_file *files);
char *tree_free(char *root);

/* "ROOT/PATH", to be freed. */
char *tree_path(const char *root, const char *path);

void tree_add(const char *root, const struct tree_file *files);
void tree_text(const char *root, const char *path, const char *text);
void tree_bytes(const char *root, const char *path, const void *bytes, size_t size);
void tree_folder(const char *root, const char *path);
void tree_link(const char *root, const char *path, const char *target);

/* Removes a file, or a folder with all that is in it. */
void tree_remove(const char *root, const char *path);
