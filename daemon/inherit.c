/* SPDX-License-Identifier: MIT */

#include "inherit.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

void inherited_release(struct inherited *inherited)
{
	for (size_t i = 0; i < inherited->nr; i++) {
		safe_close(inherited->fds[i].fd);
		free(inherited->fds[i].name);
	}
	free(inherited->fds);
	*inherited = (struct inherited){};
}

/* Takes the names over, but not the array they stand in. */
static int keep(struct inherited *ret, char **names, size_t nr)
{
	struct inherited_fd *fds = calloc(nr, sizeof(*fds));

	for (size_t i = 0; i < nr; i++) {
		if (fds)
			fds[i] = (struct inherited_fd){ .fd = SD_LISTEN_FDS_START + (int)i, .name = names[i] };
		else
			free(names[i]);
	}
	*ret = (struct inherited){ .fds = fds, .nr = fds ? nr : 0 };
	return fds ? 0 : -ENOMEM;
}

int inherited_read(struct inherited *ret, struct reason *why)
{
	_cleanup_(freep) char **names = NULL;
	/* It makes all of them close-on-exec. */
	int r = sd_listen_fds_with_names(true, &names);

	if (r > 0)
		r = keep(ret, names, (size_t)r);
	else if (r == 0)
		*ret = (struct inherited){};
	return r < 0 ? reason_set(why, r, "what LISTEN_FDS says was passed can't be taken over: %s", strerror(-r)) : 0;
}

bool inherited_is_listening(const struct inherited_fd *file)
{
	return file->fd >= 0 && sd_is_socket(file->fd, AF_UNSPEC, SOCK_STREAM, true) > 0;
}

size_t inherited_listening(const struct inherited *inherited, int *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < inherited->nr; i++)
		if (inherited_is_listening(&inherited->fds[i]))
			ret[nr++] = inherited->fds[i].fd;
	return nr;
}
