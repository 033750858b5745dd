/* SPDX-License-Identifier: MIT */

#include "setup/tree.h"

#include "base/util/cleanup.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

char *tree_path(const char *root, const char *path)
{
	char *whole;

	check(asprintf(&whole, "%s/%s", root, path) >= 0, path);
	return whole;
}

/* Makes the folders that a path below root goes through, and the last one too where it ends in a slash. */
static void make_folders(char *path, size_t root_length)
{
	for (char *p = path + root_length + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(path, 0755) < 0)
			check(access(path, F_OK) == 0, path);
		*p = '/';
	}
}

void tree_folder(const char *root, const char *path)
{
	_cleanup_(freep) char *whole = NULL;

	check(asprintf(&whole, "%s/%s/", root, path) >= 0, path);
	make_folders(whole, strlen(root));
}

void tree_bytes(const char *root, const char *path, const void *bytes, size_t size)
{
	_cleanup_(freep) char *whole = tree_path(root, path);
	_cleanup_(closep) int fd = -1;

	make_folders(whole, strlen(root));
	fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	check(fd >= 0, whole);
	check(write(fd, bytes, size) == (ssize_t)size, whole);
}

void tree_text(const char *root, const char *path, const char *text)
{
	tree_bytes(root, path, text, strlen(text));
}

void tree_link(const char *root, const char *path, const char *target)
{
	_cleanup_(freep) char *whole = tree_path(root, path);

	make_folders(whole, strlen(root));
	check(symlink(target, whole) == 0, whole);
}

void tree_add(const char *root, const struct tree_file *files)
{
	for (; files && files->path; files++)
		if (files->text)
			tree_text(root, files->path, files->text);
		else
			tree_folder(root, files->path);
}

char *tree_new(const struct tree_file *files)
{
	const char *tmp = getenv("TMPDIR");
	char *root = tree_path(tmp && *tmp ? tmp : "/tmp", "perfmond-test-XXXXXX");

	check(mkdtemp(root) != NULL, root);
	tree_add(root, files);
	return root;
}

static int remove_one(const char *path, _unused_ const struct stat *st, _unused_ int flag, _unused_ struct FTW *ftw)
{
	return remove(path);
}

void tree_remove(const char *root, const char *path)
{
	_cleanup_(freep) char *whole = tree_path(root, path);

	check(nftw(whole, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, whole);
}

char *tree_free(char *root)
{
	if (root)
		tree_remove(root, "");
	free(root);
	return NULL;
}
