/* SPDX-License-Identifier: MIT */

#include "profiler/process/process-table.h"

#include "base/util/file.h"
#include "base/util/hash.h"
#include "base/util/pack.h"
#include "base/util/reason.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* "perfproc" as a number of this machine's byte order. */
#define MAGIC 0x636f727066726570U
/* No profiler comes near, and the next number is always higher. */
#define NUMBER_MAX (UINT64_MAX / 2)

struct head {
	uint64_t magic;
	uint64_t checksum; /* of all that follows, up to the end of the content */
	uint64_t number;
	uint64_t length; /* of the content */
	uint64_t nr_modules, nr_processes;
	struct process_table_list list;
};

/* The content is records, each with its kind in front. A module is there before the first process that has it mapped,
 * and has the number of modules before it. */
enum {
	RECORD_MODULE = 1,
	RECORD_PROCESS,
};

#define MODULE_MIN (3 * sizeof(uint64_t) + sizeof(struct module_key))
#define PROCESS_MIN (6 * sizeof(uint64_t) + PROC_COMM_SIZE)
#define MAPPING_SIZE (4 * sizeof(uint64_t))

struct numbered_module {
	const struct module *module;
	uint64_t number;
	UT_hash_handle hh;
};

/* --- writing */

void process_table_image_begin(struct process_table_image *image, size_t limit)
{
	static const struct head empty;

	*image = (struct process_table_image){ .limit = limit };
	(void)buf_reserve(&image->bytes, limit);
	buf_add(&image->bytes, (const char *)&empty, sizeof(empty));
}

void process_table_image_release(struct process_table_image *image)
{
	struct numbered_module *numbered, *next;

	HASH_ITER(hh, image->modules, numbered, next) {
		HASH_DEL(image->modules, numbered);
		free(numbered);
	}
	buf_release(&image->bytes);
}

static bool has_room(const struct process_table_image *image, size_t size)
{
	return image->bytes.len < image->limit && size <= image->limit - image->bytes.len;
}

static struct numbered_module *find_module(const struct process_table_image *image, const struct module *module)
{
	struct numbered_module *numbered;

	HASH_FIND_PTR(image->modules, &module, numbered);
	return numbered;
}

static int add_module(struct process_table_image *image, const struct module *module)
{
	struct numbered_module *numbered;

	if (find_module(image, module))
		return 0;
	if (!has_room(image, MODULE_MIN + strlen(module->path) + sizeof(uint64_t)))
		return -E2BIG;
	numbered = calloc(1, sizeof(*numbered));
	if (!numbered)
		return -ENOMEM;
	numbered->module = module;
	numbered->number = image->nr_modules;
	HASH_ADD_PTR(image->modules, module, numbered);
	if (!numbered->hh.tbl) {
		free(numbered);
		return -ENOMEM;
	}
	image->nr_modules++;
	pack_u64(&image->bytes, RECORD_MODULE);
	pack_bytes(&image->bytes, &module->key, sizeof(module->key));
	pack_text(&image->bytes, module->path);
	return 0;
}

static void add_mapping(struct process_table_image *image, const struct mapping *mapping)
{
	pack_u64(&image->bytes, mapping->start);
	pack_u64(&image->bytes, mapping->size);
	pack_u64(&image->bytes, mapping->offset);
	pack_u64(&image->bytes, find_module(image, mapping->module)->number);
}

int process_table_image_add(struct process_table_image *image, const struct saved_process *process)
{
	size_t nr = mappings_nr(process->mappings);

	/* Modules of one that then has no room are there for the others. */
	for (size_t i = 0; i < nr; i++) {
		int r = add_module(image, mappings_get(process->mappings, i)->module);

		if (r < 0)
			return r;
	}
	if (!has_room(image, PROCESS_MIN + nr * MAPPING_SIZE))
		return -E2BIG;
	pack_u64(&image->bytes, RECORD_PROCESS);
	pack_u64(&image->bytes, process->pid);
	pack_u64(&image->bytes, process->identity);
	pack_u64(&image->bytes, (uint64_t)-process->mappings_error);
	pack_bytes(&image->bytes, process->comm, sizeof(process->comm));
	pack_u64(&image->bytes, nr);
	for (size_t i = 0; i < nr; i++)
		add_mapping(image, mappings_get(process->mappings, i));
	image->nr_processes++;
	return image->bytes.failed ? -ENOMEM : 0;
}

static uint64_t checksum_of(const void *bytes, const struct head *head)
{
	return crc32_z(0, (const unsigned char *)bytes + offsetof(struct head, number),
		       sizeof(*head) - offsetof(struct head, number) + head->length);
}

int process_table_image_end(struct process_table_image *image, uint64_t number, const struct process_table_list *list)
{
	struct head head = {
		.magic = MAGIC,
		.number = number,
		.length = image->bytes.len - sizeof(head),
		.nr_modules = image->nr_modules,
		.nr_processes = image->nr_processes,
		.list = *list,
	};

	if (image->bytes.failed)
		return -ENOMEM;
	memcpy(image->bytes.data, &head, sizeof(head));
	head.checksum = checksum_of(image->bytes.data, &head);
	memcpy(image->bytes.data, &head, sizeof(head));
	return 0;
}

/* --- reading */

/* False: it is not whole. */
static bool read_head(const void *bytes, size_t size, struct head *ret)
{
	if (size < sizeof(*ret))
		return false;
	memcpy(ret, bytes, sizeof(*ret));
	return ret->magic == MAGIC && ret->number > 0 && ret->number <= NUMBER_MAX &&
	       ret->length <= size - sizeof(*ret) && ret->checksum == checksum_of(bytes, ret);
}

uint64_t process_table_image_number(const void *bytes, size_t size)
{
	struct head head;

	return read_head(bytes, size, &head) ? head.number : 0;
}

struct read_module {
	struct module_key key;
	char *path;
};

struct reading {
	struct read_module *modules;
	struct unpack *processes; /* where each begins, behind its kind */
	size_t nr_modules, nr_processes;
};

static void release_reading(struct reading *reading)
{
	for (size_t i = 0; i < reading->nr_modules; i++)
		free(reading->modules[i].path);
	free(reading->modules);
	free(reading->processes);
}

/* Bytes behind the build id are compared, too. */
static bool is_clean(const struct module_key *key)
{
	if (key->build_id_size > sizeof(key->build_id))
		return false;
	for (size_t i = key->build_id_size; i < sizeof(key->build_id); i++)
		if (key->build_id[i])
			return false;
	return true;
}

static void read_module(struct unpack *u, struct reading *reading)
{
	struct read_module *module = &reading->modules[reading->nr_modules];

	unpack_bytes(u, &module->key, sizeof(module->key));
	module->path = unpack_text(u);
	if (!module->path || !*module->path || !is_clean(&module->key))
		u->bad = true;
	reading->nr_modules++;
}

/* Returns the number of mappings that follow. */
static size_t read_process(struct unpack *u, struct saved_process *ret)
{
	*ret = (struct saved_process){ .pid = (uint32_t)unpack_at_most(u, INT_MAX) };
	ret->identity = unpack_u64(u);
	ret->mappings_error = -(int)unpack_at_most(u, ERRNO_MAX);
	unpack_bytes(u, ret->comm, sizeof(ret->comm));
	if (ret->pid == 0 || ret->comm[sizeof(ret->comm) - 1])
		u->bad = true;
	return unpack_nr(u, MAPPING_SIZE);
}

static void read_mapping(struct unpack *u, const struct reading *reading, struct proc_mapping *ret)
{
	uint64_t number;

	*ret = (struct proc_mapping){ .start = unpack_u64(u), .size = unpack_u64(u), .offset = unpack_u64(u) };
	number = unpack_u64(u);
	if (number >= reading->nr_modules) {
		u->bad = true;
		return;
	}
	ret->key = reading->modules[number].key;
	ret->path = reading->modules[number].path;
}

/* Nothing is told yet. */
static void check_process(struct unpack *u, struct reading *reading)
{
	struct proc_mapping mapping;
	struct saved_process process;
	size_t nr;

	reading->processes[reading->nr_processes++] = *u;
	nr = read_process(u, &process);
	for (size_t i = 0; i < nr && !u->bad; i++)
		read_mapping(u, reading, &mapping);
}

static int tell_process(const struct unpack *where, const struct reading *reading,
			const struct process_table_reader *reader)
{
	struct unpack u = *where;
	struct saved_process process;
	size_t nr = read_process(&u, &process);
	int r = reader->process(reader->userdata, &process);

	for (size_t i = 0; i < nr && r >= 0; i++) {
		struct proc_mapping mapping;

		read_mapping(&u, reading, &mapping);
		r = reader->mapping(reader->userdata, &mapping);
	}
	return r;
}

static int read_content(struct unpack *u, const struct head *head, struct reading *reading)
{
	if (head->nr_modules > u->left / MODULE_MIN || head->nr_processes > u->left / PROCESS_MIN)
		return -EBADMSG;
	reading->modules = calloc(head->nr_modules + 1, sizeof(*reading->modules));
	reading->processes = calloc(head->nr_processes + 1, sizeof(*reading->processes));
	if (!reading->modules || !reading->processes)
		return -ENOMEM;
	while (u->left && !u->bad) {
		uint64_t kind = unpack_u64(u);

		if (kind == RECORD_MODULE && reading->nr_modules < head->nr_modules)
			read_module(u, reading);
		else if (kind == RECORD_PROCESS && reading->nr_processes < head->nr_processes)
			check_process(u, reading);
		else
			return -EBADMSG;
	}
	return u->bad ? -EBADMSG : 0;
}

int process_table_image_read(const void *bytes, size_t size, const struct process_table_reader *reader,
			     struct process_table_list *ret)
{
	_cleanup_(release_reading) struct reading reading = {};
	struct head head;
	struct unpack u;
	int r;

	if (!read_head(bytes, size, &head))
		return -EBADMSG;
	u = (struct unpack){ .at = (const unsigned char *)bytes + sizeof(head), .left = head.length };
	r = read_content(&u, &head, &reading);
	for (size_t i = reading.nr_processes; i > 0 && r >= 0; i--)
		r = tell_process(&reading.processes[i - 1], &reading, reader);
	if (r < 0)
		return r;
	*ret = head.list;
	return 0;
}

/* --- the files */

struct process_table {
	int files[PROCESS_TABLE_FILES];
	size_t size;	 /* of each */
	uint64_t number; /* of the newest */
	size_t next;	 /* the file that is written next */
};

static bool is_table(int fd, size_t size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW) && fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_size == size && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

int process_table_new(struct process_table **ret, const int files[static PROCESS_TABLE_FILES], size_t size)
{
	_cleanup_(process_table_freep) struct process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->size = size;
	for (size_t i = 0; i < PROCESS_TABLE_FILES; i++) {
		if (!is_table(files[i], size))
			return -EBADF;
		table->files[i] = files[i];
	}
	*ret = steal_ptr(table);
	return 0;
}

struct process_table *process_table_free(struct process_table *table)
{
	free(table);
	return NULL;
}

size_t process_table_size(const struct process_table *table)
{
	return table->size;
}

int process_table_save(struct process_table *table, struct process_table_image *image,
		       const struct process_table_list *list)
{
	int r = process_table_image_end(image, table->number + 1, list);

	if (r == 0)
		r = write_over(table->files[table->next], image->bytes.data, image->bytes.len);
	if (r < 0)
		return r;
	table->number++;
	table->next = (table->next + 1) % PROCESS_TABLE_FILES;
	return 0;
}

/* The bytes of a whole one, to be freed. NULL: it is not whole, or there is no memory. */
static char *read_file(int fd, size_t size, size_t *ret, uint64_t *ret_number)
{
	_cleanup_(freep) char *bytes = NULL;
	struct head head;
	size_t length;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || head.magic != MAGIC ||
	    head.length > size - sizeof(head))
		return NULL;
	length = sizeof(head) + head.length;
	bytes = malloc(length);
	if (!bytes || pread(fd, bytes, length, 0) != (ssize_t)length)
		return NULL;
	*ret = length;
	*ret_number = process_table_image_number(bytes, length);
	return *ret_number ? steal_ptr(bytes) : NULL;
}

int process_table_load(struct process_table *table, const struct process_table_reader *reader,
		       struct process_table_list *ret)
{
	_cleanup_(freep) char *newest = NULL;
	size_t size = 0;

	table->number = 0;
	for (size_t i = 0; i < PROCESS_TABLE_FILES; i++) {
		uint64_t number;
		size_t length;
		char *bytes = read_file(table->files[i], table->size, &length, &number);

		if (!bytes || number <= table->number) {
			free(bytes);
			continue;
		}
		free(newest);
		newest = bytes;
		size = length;
		table->number = number;
		table->next = (i + 1) % PROCESS_TABLE_FILES;
	}
	return newest ? process_table_image_read(newest, size, reader, ret) : -ENOENT;
}
