/* SPDX-License-Identifier: MIT */

#include "setup/recorded-stacks.h"

#include "base/util/cleanup.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Of each number in the file. */
#define COUNT_MAX 65536
#define TABLE_MAX ((size_t)1 << 20)

struct header {
	uint64_t magic, nr_mappings, nr_files, nr;
};

struct stack_header {
	struct unwind_registers registers;
	uint64_t start, size; /* of the copy */
	uint64_t end, nr, confirmed;
};

/* --- writing */

static bool write_table(FILE *file, int fd)
{
	struct stat st;
	uint64_t size;
	void *data;
	bool is_written;

	if (fstat(fd, &st) < 0 || st.st_size <= 0)
		return false;
	size = (uint64_t)st.st_size;
	data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return false;
	is_written = fwrite(&size, sizeof(size), 1, file) == 1 && fwrite(data, size, 1, file) == 1;
	(void)munmap(data, size);
	return is_written;
}

static bool write_stack(FILE *file, const struct recorded_stack *stack)
{
	const struct stack_header header = {
		.registers = stack->registers,
		.start = stack->copy.start,
		.size = stack->copy.size,
		.end = stack->end,
		.nr = stack->nr,
		.confirmed = stack->confirmed,
	};

	return fwrite(&header, sizeof(header), 1, file) == 1 &&
	       fwrite(stack->frames, sizeof(stack->frames[0]), stack->nr, file) == stack->nr &&
	       fwrite(stack->is_return, 1, stack->nr, file) == stack->nr &&
	       fwrite(stack->copy.bytes, 1, stack->copy.size, file) == stack->copy.size;
}

bool recorded_stacks_write(FILE *file, const struct recorded_stacks *recorded, const int *tables)
{
	const struct header header = { RECORDED_MAGIC, recorded->nr_mappings, recorded->nr_files, recorded->nr };
	bool is_written = fwrite(&header, sizeof(header), 1, file) == 1 &&
			  fwrite(recorded->mappings, sizeof(*recorded->mappings), recorded->nr_mappings, file) ==
				  recorded->nr_mappings;

	for (size_t i = 0; i < recorded->nr_files && is_written; i++)
		is_written = write_table(file, tables[i]);
	for (size_t i = 0; i < recorded->nr && is_written; i++)
		is_written = write_stack(file, &recorded->stacks[i]);
	return is_written;
}

/* --- reading */

/* size: of each; they are freed with free(3). */
static int read_array(FILE *file, void *ret, size_t nr, size_t size)
{
	void *array = calloc(nr ? nr : 1, size);

	if (!array)
		return -ENOMEM;
	*(void **)ret = array;
	return fread(array, size, nr, file) == nr ? 0 : -EBADMSG;
}

static int read_table(FILE *file, struct frame_table **ret)
{
	_cleanup_(closep) int fd = memfd_create("table", MFD_CLOEXEC);
	_cleanup_(freep) unsigned char *bytes = NULL;
	uint64_t size;
	int r;

	if (fd < 0)
		return -errno;
	if (fread(&size, sizeof(size), 1, file) != 1 || size > TABLE_MAX)
		return -EBADMSG;
	r = read_array(file, &bytes, 1, size);
	if (r < 0)
		return r;
	return write(fd, bytes, size) == (ssize_t)size ? frame_table_read(ret, fd, 2 * TABLE_MAX) : -EIO;
}

static int read_stack(FILE *file, struct recorded_stack *ret)
{
	struct stack_header header;

	if (fread(&header, sizeof(header), 1, file) != 1 || header.size > COUNT_MAX || header.nr > UNWIND_FRAMES_MAX ||
	    header.confirmed > header.nr || header.registers.machine > UNWIND_ARM64)
		return -EBADMSG;
	ret->registers = header.registers;
	ret->copy.start = header.start;
	ret->copy.size = header.size;
	ret->end = (enum stack_end)header.end;
	ret->nr = header.nr;
	ret->confirmed = header.confirmed;
	if (fread(ret->frames, sizeof(ret->frames[0]), ret->nr, file) != ret->nr ||
	    fread(ret->is_return, 1, ret->nr, file) != ret->nr)
		return -EBADMSG;
	return read_array(file, &ret->copy.bytes, 1, header.size);
}

static int read_all(FILE *file, struct recorded_stacks *recorded)
{
	struct header header;
	int r;

	if (fread(&header, sizeof(header), 1, file) != 1 || header.magic != RECORDED_MAGIC ||
	    header.nr_mappings > COUNT_MAX || header.nr_files > COUNT_MAX || header.nr > COUNT_MAX)
		return -EBADMSG;
	recorded->nr_mappings = header.nr_mappings;
	r = read_array(file, &recorded->mappings, header.nr_mappings, sizeof(*recorded->mappings));
	recorded->tables = calloc(header.nr_files + 1, sizeof(struct frame_table *));
	recorded->stacks = calloc(header.nr + 1, sizeof(*recorded->stacks));
	if (r == 0 && (!recorded->tables || !recorded->stacks))
		r = -ENOMEM;
	for (size_t i = 0; i < header.nr_files && r == 0; i++)
		r = read_table(file, &recorded->tables[recorded->nr_files++]);
	for (size_t i = 0; i < header.nr && r == 0; i++)
		r = read_stack(file, &recorded->stacks[recorded->nr++]);
	return r;
}

int recorded_stacks_read(struct recorded_stacks *ret, const char *path)
{
	_cleanup_(closefilep) FILE *file = fopen(path, "re");
	struct recorded_stacks recorded = {};
	int r;

	if (!file)
		return -errno;
	r = read_all(file, &recorded);
	if (r < 0)
		recorded_stacks_release(&recorded);
	else
		*ret = recorded;
	return r;
}

void recorded_stacks_release(struct recorded_stacks *recorded)
{
	for (size_t i = 0; i < recorded->nr_files; i++)
		frame_table_free(recorded->tables[i]);
	for (size_t i = 0; i < recorded->nr; i++)
		free((unsigned char *)recorded->stacks[i].copy.bytes);
	free(recorded->tables);
	free(recorded->stacks);
	free(recorded->mappings);
	*recorded = (struct recorded_stacks){};
}

enum unwind_code recorded_stacks_find(void *userdata, uint64_t address, const struct frame_rule **ret)
{
	const struct recorded_stacks *recorded = userdata;

	for (size_t i = 0; i < recorded->nr_mappings; i++) {
		const struct recorded_mapping *mapping = &recorded->mappings[i];

		if (address - mapping->start >= mapping->size)
			continue;
		*ret = mapping->file < recorded->nr_files && recorded->tables[mapping->file] ?
			       frame_table_find(recorded->tables[mapping->file],
						address - mapping->start + mapping->offset) :
			       NULL;
		return *ret ? UNWIND_RULE : UNWIND_NO_RULE;
	}
	return UNWIND_NO_CODE;
}
