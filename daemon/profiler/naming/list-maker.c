/* SPDX-License-Identifier: MIT */

#include "profiler/naming/list-maker.h"

#include "base/elf/elf-image.h"
#include "base/util/file.h"
#include "base/util/helper.h"
#include "profiler/naming/debug-paths.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct list_maker {
	char *proc, *debug;
	struct helper helper;

	/* The question. */
	struct list_request request;
	char files[LIST_FILES][PATH_MAX]; /* "": none */
	char by_build_id[PATH_MAX], by_link[DEBUG_LINK_PATHS][PATH_MAX];
	bool is_vdso, is_linked;
	struct jit_question jit; /* pid 0: none */
	struct jit_seen *seen;	 /* shared with the child, until it is executed; NULL: there was no such question */

	int answer; /* file in memory; -1: none */
	struct function_list *list;
};

int list_maker_new(struct list_maker **ret, const struct list_roots *roots)
{
	_cleanup_(list_maker_freep) struct list_maker *maker = calloc(1, sizeof(*maker));
	int r;

	if (!maker)
		return -ENOMEM;
	maker->answer = -1;
	r = helper_init(&maker->helper);
	if (r < 0)
		return r;
	maker->proc = strdup(roots->proc);
	maker->debug = strdup(roots->debug);
	if (!maker->proc || !maker->debug)
		return -ENOMEM;
	*ret = steal_ptr(maker);
	return 0;
}

static void forget_seen(struct list_maker *maker)
{
	if (maker->seen)
		(void)munmap(maker->seen, sizeof(*maker->seen));
	maker->seen = NULL;
}

struct list_maker *list_maker_free(struct list_maker *maker)
{
	if (!maker)
		return NULL;
	helper_release(&maker->helper);
	safe_close(maker->answer);
	function_list_free(maker->list);
	forget_seen(maker);
	free(maker->proc);
	free(maker->debug);
	free(maker);
	return NULL;
}

bool list_maker_is_busy(const struct list_maker *maker)
{
	return helper_is_busy(&maker->helper);
}

int list_maker_fd(const struct list_maker *maker)
{
	return helper_fd(&maker->helper);
}

uint64_t list_maker_cpu_ns(const struct list_maker *maker)
{
	return maker->helper.cpu_ns;
}

/* --- in the child, up to its exec; the answer is its only open file */

static int copy_vdso(void)
{
	struct elf_bytes vdso = elf_vdso();
	int fd = vdso.size ? memfd_create("perfmond-vdso", MFD_CLOEXEC) : -1;

	return fd >= 0 && write_all(fd, (const char *)vdso.data, vdso.size) == 0 ? fd : -1;
}

/* By its inode, if it has no build id, which is only known when it is read. */
static enum naming open_candidates(const struct list_maker *maker, int *ret)
{
	enum naming naming = maker->is_vdso ? NAMING_GENERATED : NAMING_NO_FILE;

	for (size_t i = 0; i < LIST_FILES; i++) {
		struct stat st;
		int fd = maker->is_vdso && i == 0 ? copy_vdso() : helper_open_regular(maker->files[i], &st);

		if (fd < 0)
			continue;
		if (maker->is_vdso || maker->request.is_kernel || maker->request.key.build_id_size ||
		    module_key_is_inode(&maker->request.key, &st)) {
			ret[i] = fd;
			naming = NAMING_NAMED;
		} else if (naming != NAMING_NAMED && i < LIST_FILES_AT_PATH) {
			naming = NAMING_OTHER_FILE;
		}
	}
	return naming;
}

static int open_first(const char (*paths)[PATH_MAX], size_t nr)
{
	struct stat st;
	int fd = -1;

	for (size_t i = 0; i < nr && fd < 0; i++)
		if (paths[i][0])
			fd = helper_open_regular(paths[i], &st);
	return fd;
}

static void list_jit(const struct list_maker *maker, int *files)
{
	struct list_request request = maker->request;
	enum naming naming = jit_files_open(maker->proc, &maker->jit, files + LIST_FD_FILES, maker->seen);

	if (naming != NAMING_NAMED) {
		list_child_answer(maker->answer, naming);
		return;
	}
	request.jit_pid = maker->seen->pid;
	if (write_over(maker->answer, (const char *)&request, sizeof(request)) == 0)
		helper_execute("--list-functions", files, LIST_NR_FDS);
}

static void become_child(void *userdata)
{
	const struct list_maker *maker = userdata;
	int files[LIST_NR_FDS];
	enum naming naming;

	for (size_t i = 0; i < LIST_NR_FDS; i++)
		files[i] = -1;
	files[LIST_FD_LIST] = maker->answer;
	if (maker->jit.pid) {
		list_jit(maker, files);
		return;
	}
	files[LIST_FD_BY_LINK] = open_first(maker->by_link, DEBUG_LINK_PATHS);
	/* What is known already stays. */
	if (maker->is_linked && files[LIST_FD_BY_LINK] < 0)
		return;
	files[LIST_FD_BY_BUILD_ID] = open_first(&maker->by_build_id, 1);
	naming = open_candidates(maker, files + LIST_FD_FILES);
	if (naming == NAMING_NAMED || maker->request.is_kernel)
		helper_execute("--list-functions", files, LIST_NR_FDS);
	else
		list_child_answer(maker->answer, naming);
}

/* --- in the profiler */

static int start_child(struct list_maker *maker)
{
	_cleanup_(closep) int answer = memfd_create("perfmond-functions", MFD_CLOEXEC);
	int r;

	if (answer < 0)
		return -errno;
	r = write_all(answer, (const char *)&maker->request, sizeof(maker->request));
	if (r < 0)
		return r;
	safe_close(maker->answer);
	maker->answer = steal_fd(&answer);
	return helper_start(&maker->helper, maker->answer, become_child, maker);
}

static int compare_places(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void begin(struct list_maker *maker, size_t max)
{
	maker->list = function_list_free(maker->list);
	memset(&maker->request, 0, sizeof(maker->request));
	memset(maker->files, 0, sizeof(maker->files));
	memset(maker->by_link, 0, sizeof(maker->by_link));
	maker->by_build_id[0] = '\0';
	maker->is_vdso = maker->is_linked = false;
	maker->jit.pid = 0;
	maker->request.max = max;
}

_printf_(2, 3) static void set_path(char path[static PATH_MAX], const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(path, PATH_MAX, format, args);
	va_end(args);
	if (n < 0 || n >= PATH_MAX)
		path[0] = '\0';
}

/* What the process has mapped or executed is the file that it was, whatever has its path now. */
static void set_user_paths(struct list_maker *maker, const struct list_question *question)
{
	const struct file_user *user = &question->user;

	set_path(maker->files[1], "%s/%" PRIu32 "/root%s", maker->proc, user->pid, question->path);
	set_path(maker->files[2], "%s/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, maker->proc, user->pid, user->start,
		 user->end);
	set_path(maker->files[3], "%s/%" PRIu32 "/exe", maker->proc, user->pid);
}

int list_maker_start(struct list_maker *maker, const struct list_question *question)
{
	size_t nr = question->nr < LIST_PLACES ? question->nr : LIST_PLACES;

	if (helper_is_busy(&maker->helper))
		return -EBUSY;
	begin(maker, question->max);
	maker->request.key = *question->key;
	maker->request.is_part = question->is_part;
	maker->request.nr = nr;
	if (nr) {
		qsort(question->places, nr, sizeof(*question->places), compare_places);
		memcpy(maker->request.places, question->places, nr * sizeof(*question->places));
	}
	maker->is_vdso = strcmp(question->path, MODULE_VDSO) == 0;
	if (question->path[0] == '/')
		set_path(maker->files[0], "%s", question->path);
	if (question->path[0] == '/' && question->user.pid)
		set_user_paths(maker, question);
	debug_path_by_build_id(maker->by_build_id, maker->debug, question->key);
	return start_child(maker);
}

int list_maker_start_kernel(struct list_maker *maker, const char *const *paths, size_t nr, size_t max)
{
	if (helper_is_busy(&maker->helper))
		return -EBUSY;
	begin(maker, max);
	maker->request.is_kernel = true;
	for (size_t i = 0; i < nr && i < LIST_FILES; i++)
		set_path(maker->files[i], "%s", paths[i]);
	return start_child(maker);
}

int list_maker_start_jit(struct list_maker *maker, const struct jit_question *question, size_t max)
{
	void *seen;

	if (helper_is_busy(&maker->helper))
		return -EBUSY;
	/* A child that was given up may still write into the one before. */
	seen = mmap(NULL, sizeof(*maker->seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		return -ENOMEM;
	forget_seen(maker);
	begin(maker, max);
	maker->seen = seen;
	maker->jit = *question;
	return start_child(maker);
}

const struct jit_seen *list_maker_seen(const struct list_maker *maker)
{
	return maker->seen;
}

/* Begins anew, with the file of debug symbols that the list names. The list stays until then. */
static bool follow_link(struct list_maker *maker)
{
	if (maker->is_linked || !maker->list || !function_list_link(maker->list)[0])
		return false;
	maker->is_linked = true;
	debug_paths_by_link(maker->by_link, maker->debug, maker->files[0], function_list_link(maker->list));
	return start_child(maker) == 0;
}

static void take_answer(struct list_maker *maker)
{
	_cleanup_(closep) int answer = steal_fd(&maker->answer);
	struct function_list *list = NULL;

	/* A child that was killed or given up has left the question, or nothing. */
	if (helper_gave_up(&maker->helper) || answer < 0 ||
	    function_list_read(&list, answer, (size_t)maker->request.max) < 0)
		list = maker->list ? NULL : function_list_empty(NAMING_FAILED);
	if (!list)
		return;
	function_list_free(maker->list);
	maker->list = list;
}

bool list_maker_finish(struct list_maker *maker)
{
	if (!helper_has_ended(&maker->helper))
		return false;
	take_answer(maker);
	return !follow_link(maker);
}

struct function_list *list_maker_take(struct list_maker *maker)
{
	return helper_is_busy(&maker->helper) ? NULL : steal_ptr(maker->list);
}
