/* SPDX-License-Identifier: MIT */

#include "service/persist/listen-fds.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

void listen_fds_release(struct listen_fds *passed)
{
	for (size_t i = 0; i < passed->nr; i++) {
		safe_close(passed->fds[i].fd);
		free(passed->fds[i].name);
	}
	free(passed->fds);
	*passed = (struct listen_fds){};
}

static void free_names(char **names, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		free(names[i]);
	free(names);
}

/* Takes the names over, on success only; the array they stand in stays the caller's. */
static int make_list(struct listen_fds *ret, char **names, size_t nr)
{
	struct listen_fd *fds = calloc(nr + 1, sizeof(*fds));

	if (!fds)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		fds[i] = (struct listen_fd){ .fd = SD_LISTEN_FDS_START + (int)i, .name = names[i] };
	*ret = (struct listen_fds){ .fds = fds, .nr = nr };
	return 0;
}

int listen_fds_read(struct listen_fds *ret, struct reason *why)
{
	char **names = NULL;
	/* Makes the files close-on-exec. */
	int nr = sd_listen_fds_with_names(true, &names), r;

	if (nr < 0)
		return reason_set(why, nr, "the files that LISTEN_FDS announces can't be taken over: %s",
				  strerror(-nr));
	if (nr == 0) {
		*ret = (struct listen_fds){};
		return 0;
	}
	r = make_list(ret, names, (size_t)nr);
	if (r < 0) {
		free_names(names, (size_t)nr);
		return reason_set(why, r, "out of memory");
	}
	free(names);
	return 0;
}

bool listen_fd_is_listening(const struct listen_fd *file)
{
	return file->fd >= 0 && sd_is_socket(file->fd, AF_UNSPEC, SOCK_STREAM, true) > 0;
}

size_t listen_fds_listening(const struct listen_fds *passed, int *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < passed->nr; i++)
		if (listen_fd_is_listening(&passed->fds[i]))
			ret[nr++] = passed->fds[i].fd;
	return nr;
}
