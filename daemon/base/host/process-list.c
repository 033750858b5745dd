/* SPDX-License-Identifier: MIT */

#include "base/host/process-list.h"

#include "base/host/maps-reader.h"
#include "base/util/buf.h"
#include "base/util/clock.h"
#include "base/util/file.h"
#include "base/util/text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* For how long a process that has its mappings locked is waited for. */
#define PATIENCE_NS NS_PER_S

/* --- saving */

static void add_text(struct buf *list, const char *text)
{
	for (; *text; text++)
		buf_char(list, (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
	buf_char(list, '\n');
}

static int add_mapping(void *userdata, const struct proc_mapping *mapping)
{
	const struct module_key *key = &mapping->key;
	struct buf *list = userdata;

	buf_printf(list, "m %" PRIx64 " %" PRIx64 " %" PRIx64 " ", mapping->start, mapping->size, mapping->offset);
	for (uint32_t i = 0; i < key->build_id_size; i++)
		buf_printf(list, "%02x", key->build_id[i]);
	if (!key->build_id_size)
		buf_printf(list, "%" PRIx32 ":%" PRIx32 ":%" PRIx64, key->major, key->minor, key->inode);
	buf_char(list, ' ');
	add_text(list, mapping->path);
	return list->failed || list->len > PROCESS_LIST_MAX ? -E2BIG : 0;
}

/* One that ends meanwhile is left out, or has only some of its mappings; one that has them locked has none. */
static bool add_process(struct buf *list, const char *procroot, struct maps_reader *reader, uint32_t pid)
{
	char comm[PROC_COMM_SIZE] = "";

	if (proc_comm_read(procroot, pid, comm) < 0)
		return false;
	buf_printf(list, "p %" PRIu32 " ", pid);
	add_text(list, comm);
	(void)maps_reader_read(reader, pid, add_mapping, list);
	return true;
}

int process_list_save(const char *procroot, const char *file, struct reason *why)
{
	_cleanup_(closedirp) DIR *dir = opendir(procroot);
	_cleanup_(maps_reader_freep) struct maps_reader *reader = NULL;
	_cleanup_(buf_release) struct buf list = {};
	const struct dirent *entry;
	int nr = 0, r;

	if (!dir)
		return reason_set(why, -errno, "%s: %s", procroot, strerror(errno));
	if (maps_reader_new(&reader, procroot, PATIENCE_NS) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	while ((entry = readdir(dir)) && list.len <= PROCESS_LIST_MAX) {
		uint64_t pid;

		if (parse_u64(entry->d_name, &pid) == 0 && pid < UINT32_MAX)
			nr += add_process(&list, procroot, reader, (uint32_t)pid);
	}
	if (list.failed)
		return reason_set(why, -ENOMEM, "out of memory");
	if (nr == 0)
		return reason_set(why, -ENOENT, "%s: there are no processes", procroot);
	r = replace_private_file(file, list.data, list.len);
	return r < 0 ? reason_set(why, r, "%s: %s", file, strerror(-r)) : nr;
}

/* --- reading */

static bool parse_build_id(const char *text, struct module_key *ret)
{
	size_t size = strlen(text) / 2;

	if (strlen(text) % 2 || size == 0 || size > sizeof(ret->build_id) ||
	    strspn(text, "0123456789abcdef") != 2 * size)
		return false;
	for (size_t i = 0; i < size; i++) {
		const char digits[] = { text[2 * i], text[2 * i + 1], '\0' };

		ret->build_id[i] = (unsigned char)strtoul(digits, NULL, 16);
	}
	ret->build_id_size = (uint32_t)size;
	return true;
}

static bool parse_mapping(const char *line, struct proc_mapping *ret)
{
	struct proc_mapping mapping = {};
	struct module_key *key = &mapping.key;
	char file[64] = "";
	int n = 0;

	if (sscanf(line, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %63s%n", &mapping.start, &mapping.size, &mapping.offset,
		   file, &n) != 4 ||
	    line[n] != ' ' || !line[n + 1])
		return false;
	if (!parse_build_id(file, key) &&
	    sscanf(file, "%" SCNx32 ":%" SCNx32 ":%" SCNx64, &key->major, &key->minor, &key->inode) != 3)
		return false;
	mapping.path = line + n + 1;
	*ret = mapping;
	return true;
}

static bool parse_process(char *line, uint32_t *ret_pid, const char **ret_comm)
{
	const char *number = strsep(&line, " ");
	uint64_t pid;

	if (!line || parse_u64(number, &pid) < 0 || pid >= UINT32_MAX)
		return false;
	*ret_pid = (uint32_t)pid;
	*ret_comm = line;
	return true;
}

int process_list_read(char *text, const struct process_list_reader *reader)
{
	bool any = false;
	char *line;
	int r = 0;

	while (r >= 0 && (line = strsep(&text, "\n"))) {
		struct proc_mapping mapping;
		const char *comm;
		uint32_t pid;

		if (strncmp(line, "p ", 2) == 0) {
			any = parse_process(line + 2, &pid, &comm);
			r = any ? reader->process(reader->userdata, pid, comm) : 0;
		} else if (any && strncmp(line, "m ", 2) == 0 && parse_mapping(line + 2, &mapping)) {
			r = reader->mapping(reader->userdata, &mapping);
		}
	}
	return r;
}
