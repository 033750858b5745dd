/* SPDX-License-Identifier: MIT */

#include "service/cli/record.h"

#include "base/util/clock.h"
#include "base/util/file.h"
#include "base/util/log.h"
#include "service/cli/counting.h"
#include "web/expose/past-text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the text goes. */
struct record_file {
	const char *path;
	int fd;
};

static int fail_file(const struct record_file *file, int r)
{
	log_error("--record=%s: %s", file->path, strerror(-r));
	return r;
}

/* Before anything is counted, to find at once that it can't be written. What it has stays until there is a record. */
static int record_open(struct record_file *file)
{
	file->fd = open(file->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	return file->fd < 0 ? fail_file(file, -errno) : 0;
}

static int check_config(const struct world *world, uint64_t duration)
{
	const struct config *config = world_config(world);
	uint64_t least = config->interval > NS_PER_S ? config->interval : NS_PER_S;

	if (config->history_memory == 0) {
		log_error("--record: [daemon] history_memory is 0, so that there is no memory for it");
		return -EINVAL;
	}
	if (duration < least) {
		log_error("--record: a --duration of %" PRIu64 " ms is too short: a point is of %" PRIu64
			  " ms, by [daemon] interval",
			  duration / NS_PER_MS, least / NS_PER_MS);
		return -EINVAL;
	}
	return 0;
}

/* Reads at the end of each interval, as the daemon does. */
static void record_for(struct world *world, const struct record_file *file, uint64_t ns)
{
	uint64_t start = clock_monotonic_ns(), interval = world_config(world)->interval, next = start + interval;
	bool goes_on = true;
	sigset_t signals;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &signals, NULL);
	log_info("recording in %s for %" PRIu64 " s; SIGINT ends it early", file->path, ns / NS_PER_S);
	while (goes_on && next <= start + ns) {
		goes_on = counting_wait(world, next, &signals);
		world_tick(world);
		/* Where a reading takes longer than an interval, some are left out. */
		while (next <= clock_monotonic_ns())
			next += interval;
	}
	(void)sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

static int write_piece(void *userdata, const char *data, size_t n)
{
	const struct record_file *file = userdata;

	return write_all(file->fd, data, n);
}

static int write_record(struct world *world, struct record_file *file)
{
	const struct history *history = world_history(world);
	_cleanup_(snapshot_unrefp) struct snapshot *snapshot = NULL;
	struct history_slot slots[HISTORY_SLOTS];
	struct history_stats stats;
	struct stat st;
	int r = world_snapshot(world, UINT64_MAX, NULL, &snapshot);

	stats = history_stats(history);
	if (stats.nr_rows == 0 || history_slots(history, slots) == 0) {
		log_error("--record: nothing was counted; perfmond --check says why");
		return -ENODATA;
	}
	if (stats.left_out)
		log_warning("--record: %zu CPUs and cgroups are left out: [daemon] history_memory has no room for them",
			    stats.left_out);
	/* Only a regular file has anything that would be left behind the new text. */
	if (r >= 0 && fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(file->fd, 0) < 0)
		r = -errno;
	if (r >= 0)
		r = past_text_write(history, snapshot, write_piece, file);
	return r < 0 ? fail_file(file, r) : 0;
}

int record_run(const struct options *options)
{
	struct record_file file = { options->file, -1 };
	_cleanup_(world_freep) struct world *world = NULL;
	uint64_t duration = options->duration ?: 60 * (uint64_t)NS_PER_S;
	int r = record_open(&file);

	if (r >= 0)
		r = counting_start(&world, options);
	if (r >= 0)
		r = check_config(world, duration);
	if (r >= 0) {
		record_for(world, &file, duration);
		r = write_record(world, &file);
	}
	if (file.fd >= 0 && close(file.fd) < 0 && r >= 0)
		r = fail_file(&file, -errno);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
