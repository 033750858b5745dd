/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The child process of a container finder (container-finder.h): it looks for the files of some containers in the
 * folders of their runtimes.
 *
 * In each folder it tries the layouts of all runtimes that are known: ID/config.v2.json (docker),
 * ID/userdata/config.json (podman, CRI-O), NAMESPACE/ID/config.json (containerd), containers.json and
 * volatile-containers.json (the storage of podman and CRI-O). It opens regular files alone, follows no links below the
 * folder, and reads files of some MB at most. When all are open it is sealed (base/util/helper.h), and parses them in
 * memory of a fixed size.
 *
 * A folder tells of containers of its owner alone: other users could copy an id, and with it the names.
 */

#include "base/cgroup/container-names.h"
#include "base/util/helper.h"

#define CONTAINER_ID_SIZE 65

/* Containers of a question, and folders. */
#define CONTAINER_BATCH 32
#define CONTAINER_FOLDERS 32

#define CONTAINER_FILE_MAX ((size_t)4 << 20)

struct container_question {
	const char *folders[CONTAINER_FOLDERS];
	size_t nr_folders;
	char ids[CONTAINER_BATCH][CONTAINER_ID_SIZE];
	uint32_t owners[CONTAINER_BATCH]; /* user ids */
	size_t nr;
};

enum container_found {
	CONTAINER_UNTRIED,
	CONTAINER_NAMED,
	CONTAINER_NO_FILE, /* or files without names */
	CONTAINER_NO_JSON,
	CONTAINER_TOO_LARGE,
	CONTAINER_UNREADABLE,
	CONTAINER_UNSAFE, /* a link, or no regular file */
	_CONTAINER_FOUND_MAX,
};

struct container_answer {
	uint32_t found;	 /* enum container_found; of several files, the last that says something else than NO_FILE */
	uint32_t folder; /* its number */
	struct container_texts texts;
};

/* Shared by the two: the child writes, the daemon reads when the child has ended. */
struct container_answers {
	uint32_t at;			   /* the container that it works on; the number of them: all */
	int32_t errors[CONTAINER_FOLDERS]; /* why something there can't be looked at: errno, but for ENOENT */
	struct container_answer answers[CONTAINER_BATCH];
};

/* For helper_start(). */
struct container_work {
	const struct container_question *question;
	struct container_answers *answers;
};
void container_child_run(void *work);
