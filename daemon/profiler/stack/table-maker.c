/* SPDX-License-Identifier: MIT */

#include "profiler/stack/table-maker.h"

#include "base/util/file.h"
#include "base/util/helper.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct table_maker {
	char *proc;
	struct helper helper;

	struct file_candidates candidates;
	int table; /* file in memory; -1: none */
};

int table_maker_new(struct table_maker **ret, const char *proc)
{
	_cleanup_(table_maker_freep) struct table_maker *maker = calloc(1, sizeof(*maker));
	int r;

	if (!maker)
		return -ENOMEM;
	maker->table = -1;
	r = helper_init(&maker->helper);
	if (r < 0)
		return r;
	maker->proc = strdup(proc);
	if (!maker->proc)
		return -ENOMEM;
	*ret = steal_ptr(maker);
	return 0;
}

struct table_maker *table_maker_free(struct table_maker *maker)
{
	if (!maker)
		return NULL;
	helper_release(&maker->helper);
	safe_close(maker->table);
	free(maker->proc);
	free(maker);
	return NULL;
}

bool table_maker_is_busy(const struct table_maker *maker)
{
	return helper_is_busy(&maker->helper);
}

int table_maker_fd(const struct table_maker *maker)
{
	return helper_fd(&maker->helper);
}

uint64_t table_maker_cpu_ns(const struct table_maker *maker)
{
	return helper_cpu_ns(&maker->helper);
}

size_t table_maker_nr_stuck(struct table_maker *maker)
{
	return helper_nr_stuck(&maker->helper);
}

/* --- in the child, up to its exec; the table is its only open file */

static void become_maker(void *userdata)
{
	const struct table_maker *maker = userdata;
	int files[FRAME_NR_FDS] = { [FRAME_FD_TABLE] = maker->table };
	enum naming naming = file_candidates_open(&maker->candidates, files + FRAME_FD_FILES);

	if (naming == NAMING_NAMED)
		helper_execute("--make-frame-table", files, FRAME_NR_FDS);
	else
		frame_problem_write(maker->table, naming == NAMING_OTHER_FILE ? FRAME_OTHER_FILE : FRAME_NO_FILE);
}

/* --- in the profiler */

static int start_child(struct table_maker *maker)
{
	_cleanup_(closep) int table = memfd_create("perfmond-frames", MFD_CLOEXEC);
	int r;

	if (table < 0)
		return -errno;
	r = write_all(table, (const char *)&maker->candidates.key, sizeof(maker->candidates.key));
	if (r < 0)
		return r;
	safe_close(maker->table);
	maker->table = steal_fd(&table);
	return helper_start(&maker->helper, maker->table, become_maker, maker);
}

int table_maker_start(struct table_maker *maker, const char *path, const struct module_key *key,
		      const struct file_user *user)
{
	if (helper_is_busy(&maker->helper))
		return -EBUSY;
	file_candidates_set(&maker->candidates, maker->proc, path, key, user);
	return start_child(maker);
}

/* The problem that the last child has written. A child that was killed has left the key. */
static enum frame_problem read_problem(const struct table_maker *maker)
{
	struct frame_table_header header = {};

	if (helper_gave_up(&maker->helper))
		return FRAME_STUCK;
	if (pread(maker->table, &header, sizeof(header), 0) != sizeof(header) || header.magic != FRAME_TABLE_MAGIC ||
	    header.problem >= _FRAME_PROBLEM_MAX)
		return FRAME_FAILED;
	return (enum frame_problem)header.problem;
}

bool table_maker_finish(struct table_maker *maker)
{
	return helper_has_ended(&maker->helper);
}

enum frame_problem table_maker_take(struct table_maker *maker, struct frame_table **ret, size_t max)
{
	enum frame_problem problem;
	int r;

	if (helper_is_busy(&maker->helper) || maker->table < 0)
		return FRAME_FAILED;
	problem = read_problem(maker);
	r = problem == FRAME_NO_PROBLEM ? frame_table_read(ret, maker->table, max) : 0;
	maker->table = safe_close(maker->table);
	if (r == -EFBIG)
		return FRAME_TOO_LARGE;
	return r < 0 ? FRAME_FAILED : problem;
}
