/* SPDX-License-Identifier: MIT */

#include "profiler/naming/list-maker.h"

#include "base/util/file.h"
#include "base/util/helper.h"
#include "profiler/naming/debug-paths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct list_maker {
	char *proc, *debug;
	struct helper helper;

	/* The question. */
	struct list_request request;
	struct file_candidates candidates;
	char by_build_id[PATH_MAX], by_link[DEBUG_LINK_PATHS][PATH_MAX];
	bool is_linked;
	struct jit_question jit; /* pid 0: none */
	struct jit_seen *seen;	 /* shared with the child until its exec; NULL: there was no question about a process */

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
	return helper_cpu_ns(&maker->helper);
}

/* --- in the child, up to its exec; the answer is its only open file */

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
	/* The list that was made without this file stays. */
	if (maker->is_linked && files[LIST_FD_BY_LINK] < 0)
		return;
	files[LIST_FD_BY_BUILD_ID] = open_first(&maker->by_build_id, 1);
	naming = file_candidates_open(&maker->candidates, files + LIST_FD_FILES);
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
	memset(&maker->candidates, 0, sizeof(maker->candidates));
	memset(maker->by_link, 0, sizeof(maker->by_link));
	maker->by_build_id[0] = '\0';
	maker->is_linked = false;
	maker->jit.pid = 0;
	maker->request.max = max;
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
	file_candidates_set(&maker->candidates, maker->proc, question->path, question->key, &question->user);
	debug_path_by_build_id(maker->by_build_id, maker->debug, question->key);
	return start_child(maker);
}

int list_maker_start_kernel(struct list_maker *maker, const char *const *paths, size_t nr, size_t max)
{
	if (helper_is_busy(&maker->helper))
		return -EBUSY;
	begin(maker, max);
	maker->request.is_kernel = true;
	maker->candidates.is_any = true;
	for (size_t i = 0; i < nr && i < FILE_CANDIDATES; i++)
		(void)snprintf(maker->candidates.paths[i], PATH_MAX, "%s", paths[i]);
	return start_child(maker);
}

int list_maker_start_jit(struct list_maker *maker, const struct jit_question *question, size_t max)
{
	void *seen;

	if (helper_is_busy(&maker->helper))
		return -EBUSY;
	/* Not the memory of before: a child that was given up may still write into it. */
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

/* Starts another child, with the file of debug symbols that the list names. The list stays until there is a new one. */
static bool follow_link(struct list_maker *maker)
{
	if (maker->is_linked || !maker->list || !function_list_link(maker->list)[0])
		return false;
	maker->is_linked = true;
	debug_paths_by_link(maker->by_link, maker->debug, maker->candidates.paths[0], function_list_link(maker->list));
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
