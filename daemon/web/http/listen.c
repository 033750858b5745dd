/* SPDX-License-Identifier: MIT */

#include "web/http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

/* Connections that may be queued in the kernel, which bounds this by net.core.somaxconn. */
#define BACKLOG 4096

static int listen_failure(int error, const struct address *address, const char *text, struct reason *why)
{
	bool local = address->any.sa_family == AF_UNIX;

	switch (error) {
	case -EADDRINUSE:
		return reason_set(why, error,
				  "cannot listen on %s: address already in use (is another perfmond running?)", text);
	case -EACCES:
		return reason_set(why, error, "cannot listen on %s: permission denied (%s)", text,
				  local ? "is the directory writable for this user?" :
					  "a port below 1024 needs CAP_NET_BIND_SERVICE");
	case -EADDRNOTAVAIL:
		return reason_set(why, error, "cannot listen on %s: no network interface has this address", text);
	case -ENODEV:
		return reason_set(why, error, "cannot listen on %s: this machine has no such network interface", text);
	case -EAFNOSUPPORT:
		return reason_set(why, error,
				  "cannot listen on %s: this machine or the sandbox does not support such sockets",
				  text);
	case -ENOENT:
		return reason_set(why, error, "cannot listen on %s: there is no such directory", text);
	default:
		return reason_set(why, error, "cannot listen on %s: %s", text, strerror(-error));
	}
}

/* Does a process listen on this Unix socket? A connection is refused at once if not; otherwise it is queued. */
static bool has_listener(const struct address *address)
{
	_cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 || connect(fd, &address->any, address->size) == 0 || errno != ECONNREFUSED;
}

/* Removes the file at the path of a Unix socket, if it is a socket on which nobody listens. */
static int clear_path(const struct address *address, const char *text, struct reason *why)
{
	struct stat st;

	if (lstat(address->local.sun_path, &st) < 0)
		return errno == ENOENT ? 0 : listen_failure(-errno, address, text, why);
	if (!S_ISSOCK(st.st_mode))
		return reason_set(why, -EADDRINUSE, "cannot listen on %s: the file exists and is no socket", text);
	if (has_listener(address))
		return listen_failure(-EADDRINUSE, address, text, why);
	return unlink(address->local.sun_path) < 0 && errno != ENOENT ? listen_failure(-errno, address, text, why) : 0;
}

static int set_options(int fd, int family)
{
	const int on = 1;

	if (family == AF_UNIX)
		return 0;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	/* Without it [::] would include 0.0.0.0: they are two addresses, which can be configured side by side. */
	if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -errno;
	return 0;
}

static int bind_and_listen(int fd, const struct address *address)
{
	int r = set_options(fd, address->any.sa_family);

	if (r < 0)
		return r;
	return bind(fd, &address->any, address->size) < 0 || listen(fd, BACKLOG) < 0 ? -errno : 0;
}

/* Asks the socket for its address. An interface has its name in the socket's network namespace, which need not be that
 * of this process. */
static int read_address(struct address *ret, int fd)
{
	struct address address = { .size = sizeof(address.storage) };
	struct ifreq interface = {};

	if (getsockname(fd, &address.any, &address.size) < 0)
		return -errno;
	if (address.any.sa_family == AF_INET6 && address.v6.sin6_scope_id) {
		interface.ifr_ifindex = (int)address.v6.sin6_scope_id;
		if (ioctl(fd, SIOCGIFNAME, &interface) == 0)
			memcpy(address.zone, interface.ifr_name, sizeof(address.zone));
	}
	*ret = address;
	return 0;
}

int listening_open(struct listening *ret, const struct address *address, const char *text, struct reason *why)
{
	int family = address->any.sa_family;
	_cleanup_(closep) int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct listening listening = { .address = *address };
	int r;

	if (fd < 0)
		return listen_failure(-errno, address, text, why);
	if (family == AF_UNIX) {
		r = clear_path(address, text, why);
		if (r < 0)
			return r;
	}
	r = bind_and_listen(fd, address);
	if (r < 0)
		return listen_failure(r, address, text, why);
	if (family == AF_UNIX)
		(void)lstat(address->local.sun_path, &listening.file);
	else
		r = read_address(&listening.address, fd);
	if (r < 0)
		return listen_failure(r, address, text, why);

	listening.fd = steal_fd(&fd);
	*ret = listening;
	return 0;
}

int listening_share(struct listening *ret, int fd, struct reason *why)
{
	_cleanup_(closep) int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct listening listening = {};
	int flags = copy < 0 ? -1 : fcntl(copy, F_GETFL);
	int r = flags < 0 || fcntl(copy, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;

	if (r == 0)
		r = read_address(&listening.address, copy);
	if (r < 0)
		return reason_set(why, r, "cannot listen on the socket that was passed: %s", strerror(-r));
	switch (listening.address.any.sa_family) {
	case AF_INET:
	case AF_INET6:
	case AF_UNIX:
		listening.fd = steal_fd(&copy);
		*ret = listening;
		return 0;
	default:
		return reason_set(why, -EAFNOSUPPORT,
				  "cannot listen on the socket that was passed: it is no TCP or Unix socket");
	}
}

static void remove_file(const struct listening *listening)
{
	const char *path = listening->address.local.sun_path;
	struct stat st;

	if (listening->address.any.sa_family != AF_UNIX || lstat(path, &st) < 0)
		return;
	if (st.st_dev == listening->file.st_dev && st.st_ino == listening->file.st_ino)
		(void)unlink(path);
}

void listening_close(struct listening *listening)
{
	remove_file(listening);
	listening->fd = safe_close(listening->fd);
}
