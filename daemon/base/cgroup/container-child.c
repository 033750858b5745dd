/* SPDX-License-Identifier: MIT */

#include "base/cgroup/container-child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define NAMESPACES 16
#define FILES 4		   /* of one container */
#define STORAGES 2	   /* files of a folder's storage */
#define LISTED (64 * 1024) /* bytes of a folder's list: those with namespaces have few entries */
#define ROOM ((size_t)64 << 20)

struct opened {
	int fd; /* -1: none */
	enum container_file kind;
	uint32_t folder;
};

struct folder {
	int fd; /* O_PATH; -1: it can't be opened */
	uint32_t owner;
	char namespaces[NAMESPACES][NAME_MAX + 1];
	size_t nr_namespaces;
	struct opened storages[STORAGES];
};

struct child {
	const struct container_question *question;
	struct container_answers *answers;
	struct folder folders[CONTAINER_FOLDERS];
	struct opened files[CONTAINER_BATCH][FILES];
	size_t nr_files[CONTAINER_BATCH];
	char *text; /* of CONTAINER_FILE_MAX bytes, and one more */
};

/* --- memory: jansson's, in a room that can't grow; all of it is given back at once */

/* jansson has no userdata for it. */
static struct {
	char *start;
	size_t used;
	bool refused; /* since it was last empty */
} room;

static void *room_take(size_t size)
{
	void *taken = room.start + room.used;

	room.refused |= size > ROOM - room.used;
	if (room.refused)
		return NULL;
	size = (size + 15) & ~(size_t)15;
	room.used = size < ROOM - room.used ? room.used + size : ROOM;
	return taken;
}

static void room_give_back(void *taken)
{
	(void)taken;
}

static void *map_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		helper_exit();
	return memory;
}

/* --- opening */

/* Names that were found outweigh what is wrong with another file. */
static void note_answer(const struct child *child, size_t container, enum container_found found, uint32_t folder)
{
	struct container_answer *answer = &child->answers->answers[container];

	if (answer->found == CONTAINER_NAMED)
		return;
	answer->found = found;
	answer->folder = folder;
}

static void note_error(const struct child *child, uint32_t folder, int error)
{
	if (error != ENOENT && error != ENOTDIR)
		child->answers->errors[folder] = error;
}

/* What is of that type there, as O_PATH: no link is followed. -1 with errno; ELOOP for all that is unsafe. Not by
 * openat2(2), which systemd hides from services with RestrictSUIDSGID=. */
static int open_part(int folder, const char *name, mode_t type)
{
	_cleanup_(closep) int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if ((st.st_mode & S_IFMT) == type)
		return steal_fd(&fd);
	errno = S_ISLNK(st.st_mode) || type == S_IFREG ? ELOOP : ENOTDIR;
	return -1;
}

/* The name is not ".." or empty. */
static int open_name(int folder, const char *name)
{
	_cleanup_(closep) int place = open_part(folder, name, S_IFREG);
	struct stat st;
	int fd;

	if (place < 0)
		return -1;
	/* What is put in its place meanwhile does not block, and is no link. */
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		fd = safe_close(fd);
		errno = ELOOP;
	}
	return fd;
}

/* A regular file only: opening a device can do something. -1 with errno; ELOOP for all that is unsafe. */
static int open_regular(int folder, const char *path)
{
	const char *slash = strchr(path, '/');
	_cleanup_(closep) int below = -1;
	char name[NAME_MAX + 1];

	if (!slash)
		return open_name(folder, path);
	(void)snprintf(name, sizeof(name), "%.*s", (int)(slash - path), path);
	below = open_part(folder, name, S_IFDIR);
	return below < 0 ? -1 : open_regular(below, slash + 1);
}

static void open_file(struct child *child, size_t container, uint32_t folder, enum container_file kind,
		      const char *path)
{
	size_t *nr = &child->nr_files[container];
	int fd = *nr < FILES ? open_regular(child->folders[folder].fd, path) : -1;

	if (fd >= 0)
		child->files[container][(*nr)++] = (struct opened){ .fd = fd, .kind = kind, .folder = folder };
	else if (*nr < FILES && errno == ELOOP)
		note_answer(child, container, CONTAINER_UNSAFE, folder);
	else if (*nr < FILES)
		note_error(child, folder, errno);
}

static void open_in_folder(struct child *child, size_t container, uint32_t number)
{
	const struct folder *folder = &child->folders[number];
	const char *id = child->question->ids[container];
	char path[NAME_MAX + CONTAINER_ID_SIZE + 32];

	if (folder->fd < 0 || folder->owner != child->question->owners[container])
		return;
	(void)snprintf(path, sizeof(path), "%s/config.v2.json", id);
	open_file(child, container, number, CONTAINER_DOCKER, path);
	(void)snprintf(path, sizeof(path), "%s/userdata/config.json", id);
	open_file(child, container, number, CONTAINER_BUNDLE, path);
	for (size_t i = 0; i < folder->nr_namespaces; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s/config.json", folder->namespaces[i], id);
		open_file(child, container, number, CONTAINER_BUNDLE, path);
	}
}

/* What getdents64(2) writes. */
struct entry {
	uint64_t inode;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* Folders of containers are no namespaces. */
static bool is_namespace(const struct entry *entry)
{
	size_t n = strlen(entry->name);

	return (entry->type == DT_DIR || entry->type == DT_UNKNOWN) && entry->name[0] != '.' && n <= NAME_MAX &&
	       n != CONTAINER_ID_SIZE - 1;
}

static void add_namespaces(struct folder *folder, const char *list, size_t size)
{
	for (size_t at = 0; at < size;) {
		const struct entry *entry = (const struct entry *)(const void *)(list + at);

		if (is_namespace(entry) && folder->nr_namespaces < NAMESPACES)
			strcpy(folder->namespaces[folder->nr_namespaces++], entry->name);
		at += entry->length;
	}
}

static void list_namespaces(struct child *child, uint32_t number)
{
	_Alignas(struct entry) char list[4096];
	struct folder *folder = &child->folders[number];
	_cleanup_(closep) int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n = 0;

	if (fd < 0)
		note_error(child, number, errno);
	for (size_t read = 0; fd >= 0 && read < LISTED; read += (size_t)n) {
		n = syscall(SYS_getdents64, fd, list, sizeof(list));
		if (n <= 0)
			return;
		add_namespaces(folder, list, (size_t)n);
	}
}

static void open_folder(struct child *child, uint32_t number)
{
	static const char *const storages[STORAGES] = { "containers.json", "volatile-containers.json" };
	struct folder *folder = &child->folders[number];
	struct stat st;

	for (size_t i = 0; i < STORAGES; i++)
		folder->storages[i] = (struct opened){ .fd = -1, .kind = CONTAINER_STORAGE, .folder = number };
	folder->fd = open(child->question->folders[number], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder->fd < 0 || fstat(folder->fd, &st) < 0) {
		note_error(child, number, errno);
		return;
	}
	folder->owner = st.st_uid;
	list_namespaces(child, number);
	for (size_t i = 0; i < STORAGES; i++) {
		folder->storages[i].fd = open_regular(folder->fd, storages[i]);
		/* A link is not followed; that permits nothing. */
		if (folder->storages[i].fd < 0 && errno != ELOOP)
			note_error(child, number, errno);
	}
}

static void open_all(struct child *child)
{
	const struct container_question *question = child->question;

	for (uint32_t i = 0; i < question->nr_folders; i++)
		open_folder(child, i);
	for (size_t i = 0; i < question->nr; i++) {
		child->answers->at = (uint32_t)i;
		for (uint32_t k = 0; k < question->nr_folders; k++)
			open_in_folder(child, i, k);
	}
}

/* --- reading, which is sealed */

/* Its length, up to one byte more than it may have; -1: it can't be read. */
static ssize_t read_text(const struct child *child, int fd)
{
	size_t length = 0;
	ssize_t n;

	while ((n = read(fd, child->text + length, CONTAINER_FILE_MAX + 1 - length)) > 0)
		length += (size_t)n;
	return n < 0 ? -1 : (ssize_t)length;
}

/* NULL, with the reason in ret. What was parsed before is gone. */
static const json_t *parse_file(const struct child *child, int fd, enum container_found *ret)
{
	ssize_t length = read_text(child, fd);
	json_t *root;

	*ret = length < 0 ? CONTAINER_UNREADABLE : CONTAINER_TOO_LARGE;
	if (length < 0 || (size_t)length > CONTAINER_FILE_MAX)
		return NULL;
	room.used = 0;
	room.refused = false;
	root = container_file_parse(child->text, (size_t)length);
	if (!root && !room.refused)
		*ret = CONTAINER_NO_JSON;
	return root;
}

static void find_names(const struct child *child, size_t container, const json_t *root, const struct opened *file)
{
	struct container_answer *answer = &child->answers->answers[container];

	container_file_find(&answer->texts, root, file->kind, child->question->ids[container]);
	for (int i = 0; i < _CONTAINER_NAME_MAX; i++)
		if (answer->texts.text[i][0])
			note_answer(child, container, CONTAINER_NAMED, file->folder);
}

static void read_container(const struct child *child, size_t container)
{
	for (size_t i = 0; i < child->nr_files[container]; i++) {
		const struct opened *file = &child->files[container][i];
		enum container_found why;
		const json_t *root = parse_file(child, file->fd, &why);

		if (root)
			find_names(child, container, root, file);
		else
			note_answer(child, container, why, file->folder);
	}
}

/* The storage's file tells of all containers of the folder's owner; one that can't be read tells of none. */
static void read_storage(const struct child *child, const struct opened *file, uint32_t owner)
{
	enum container_found why;
	const json_t *root = file->fd < 0 ? NULL : parse_file(child, file->fd, &why);

	for (size_t i = 0; file->fd >= 0 && i < child->question->nr; i++) {
		if (child->question->owners[i] != owner)
			continue;
		if (root)
			find_names(child, i, root, file);
		else if (child->answers->answers[i].found == CONTAINER_UNTRIED)
			note_answer(child, i, why, file->folder);
	}
}

static void read_all(const struct child *child)
{
	const struct container_question *question = child->question;

	for (size_t i = 0; i < question->nr; i++) {
		child->answers->at = (uint32_t)i;
		read_container(child, i);
	}
	child->answers->at = (uint32_t)question->nr;
	for (size_t i = 0; i < question->nr_folders; i++)
		for (size_t k = 0; k < STORAGES; k++)
			read_storage(child, &child->folders[i].storages[k], child->folders[i].owner);
	for (size_t i = 0; i < question->nr; i++)
		if (child->answers->answers[i].found == CONTAINER_UNTRIED)
			child->answers->answers[i].found = CONTAINER_NO_FILE;
}

void container_child_run(void *userdata)
{
	const struct container_work *work = userdata;
	struct child *child = map_memory(sizeof(*child));

	child->question = work->question;
	child->answers = work->answers;
	child->text = map_memory(CONTAINER_FILE_MAX + 1);
	room.start = map_memory(ROOM);
	json_set_alloc_funcs(room_take, room_give_back);
	open_all(child);
	helper_seal();
	read_all(child);
	helper_exit();
}
