/* SPDX-License-Identifier: MIT */

#include "base/util/secret.h"

#include "base/util/file.h"
#include "base/util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int secret_path(const char *name, char **ret, struct reason *why)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	char *path;

	if (name[0] == '/') {
		path = strdup(name);
	} else if (!folder || !*folder) {
		return reason_set(why, -ENOENT,
				  "'%s' is not an absolute path, and systemd has passed no credentials "
				  "(LoadCredential=)",
				  name);
	} else if (strchr(name, '/')) {
		return reason_set(why, -ENOENT, "'%s' is neither an absolute path nor the name of a credential", name);
	} else if (asprintf(&path, "%s/%s", folder, name) < 0) {
		path = NULL; /* asprintf(3) leaves it undefined */
	}
	if (!path)
		return reason_set(why, -ENOMEM, "out of memory");
	*ret = path;
	return 0;
}

int secret_read(const char *path, char **ret, bool *ret_exposed, struct reason *why)
{
	struct stat st;
	int r = read_text_file(AT_FDCWD, path, SECRET_MAX, ret);

	if (r == -EBADMSG)
		return reason_set(why, r, "it is not a text: it contains a NUL byte");
	if (r < 0)
		return reason_set(why, r, "can't be read: %s", strerror(-r));
	(*ret)[text_unify_lines(*ret, strlen(*ret))] = '\0';
	if (ret_exposed)
		*ret_exposed = stat(path, &st) == 0 && (st.st_mode & S_IROTH);
	return 0;
}

void secret_free(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}
