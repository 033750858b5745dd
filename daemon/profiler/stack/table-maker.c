/* SPDX-License-Identifier: MIT */

#include "profiler/stack/table-maker.h"

#include "base/elf/elf-image.h"
#include "base/util/file.h"
#include "base/util/helper.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

/* Where the file may be: at its path, and at that path in the process's own tree of files. */
#define PLACES 2

struct table_maker {
	char *proc;
	struct helper helper;

	/* The question. */
	struct module_key key;
	char places[PLACES][PATH_MAX]; /* "": none */
	bool is_vdso;
	size_t place; /* that the child looks at */

	int table;		    /* file in memory; -1: none */
	enum frame_problem problem; /* of the places before */
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
	return maker->helper.cpu_ns;
}

size_t table_maker_nr_stuck(struct table_maker *maker)
{
	return helper_nr_stuck(&maker->helper);
}

/* --- in the child, up to its exec; the table is its only open file */

static int copy_vdso(void)
{
	struct elf_bytes vdso = elf_vdso();
	int fd = memfd_create("perfmond-vdso", MFD_CLOEXEC);

	return fd >= 0 && write_all(fd, (const char *)vdso.data, vdso.size) == 0 ? fd : -1;
}

static int open_file(const struct table_maker *maker)
{
	struct stat st;
	int fd = maker->is_vdso ? copy_vdso() : helper_open_regular(maker->places[maker->place], &st);
	enum frame_problem problem = FRAME_NO_PROBLEM;

	if (fd < 0)
		problem = FRAME_NO_FILE;
	else if (!maker->is_vdso && !maker->key.build_id_size && !module_key_is_inode(&maker->key, &st))
		problem = FRAME_OTHER_FILE;
	if (problem == FRAME_NO_PROBLEM)
		return fd;
	frame_problem_write(maker->table, problem);
	helper_exit();
}

static void become_maker(void *userdata)
{
	const struct table_maker *maker = userdata;
	const int files[] = { [FRAME_FD_FILE] = open_file(maker), [FRAME_FD_TABLE] = maker->table };

	helper_execute("--make-frame-table", files, ARRAY_SIZE(files));
}

/* --- in the profiler */

static int start_child(struct table_maker *maker)
{
	_cleanup_(closep) int table = memfd_create("perfmond-frames", MFD_CLOEXEC);
	int r;

	if (table < 0)
		return -errno;
	r = write_all(table, (const char *)&maker->key, sizeof(maker->key));
	if (r < 0)
		return r;
	safe_close(maker->table);
	maker->table = steal_fd(&table);
	return helper_start(&maker->helper, maker->table, become_maker, maker);
}

static void set_places(struct table_maker *maker, const char *path, uint32_t user)
{
	bool fits = path[0] == '/' && strlen(path) < PATH_MAX;
	int n;

	memset(maker->places, 0, sizeof(maker->places));
	if (fits)
		strcpy(maker->places[0], path);
	if (!fits || !user)
		return;
	n = snprintf(maker->places[1], PATH_MAX, "%s/%" PRIu32 "/root%s", maker->proc, user, path);
	if (n < 0 || n >= PATH_MAX)
		maker->places[1][0] = '\0';
}

int table_maker_start(struct table_maker *maker, const char *path, const struct module_key *key, uint32_t user)
{
	if (helper_is_busy(&maker->helper))
		return -EBUSY;
	maker->key = *key;
	maker->is_vdso = strcmp(path, MODULE_VDSO) == 0;
	maker->place = 0;
	maker->problem = FRAME_NO_FILE;
	set_places(maker, path, user);
	return start_child(maker);
}

/* What the child has said. A child that was killed has left the key. */
static enum frame_problem read_problem(const struct table_maker *maker)
{
	struct frame_table_header header = {};

	if (pread(maker->table, &header, sizeof(header), 0) != sizeof(header) || header.magic != FRAME_TABLE_MAGIC ||
	    header.problem >= _FRAME_PROBLEM_MAX)
		return FRAME_FAILED;
	return (enum frame_problem)header.problem;
}

/* Looks for the file in another place. */
static bool try_next(struct table_maker *maker)
{
	enum frame_problem problem = helper_gave_up(&maker->helper) ? FRAME_STUCK : read_problem(maker);

	/* That there was another file says more than that there was none. */
	if (problem != FRAME_NO_FILE || maker->problem == FRAME_NO_FILE)
		maker->problem = problem;
	if ((problem != FRAME_NO_FILE && problem != FRAME_OTHER_FILE) || maker->is_vdso)
		return false;
	maker->place++;
	return maker->place < PLACES && maker->places[maker->place][0] && start_child(maker) == 0;
}

bool table_maker_finish(struct table_maker *maker)
{
	return helper_has_ended(&maker->helper) && !try_next(maker);
}

enum frame_problem table_maker_take(struct table_maker *maker, struct frame_table **ret, size_t max)
{
	_cleanup_(closep) int table = helper_is_busy(&maker->helper) ? -1 : steal_fd(&maker->table);
	int r;

	if (table < 0)
		return FRAME_FAILED;
	if (maker->problem != FRAME_NO_PROBLEM)
		return maker->problem;
	r = frame_table_read(ret, table, max);
	if (r == -EFBIG)
		return FRAME_TOO_LARGE;
	return r < 0 ? FRAME_FAILED : FRAME_NO_PROBLEM;
}
