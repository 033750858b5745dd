/* SPDX-License-Identifier: MIT */

#include "base/elf/kallsyms.h"

#include "base/util/buf.h"
#include "base/util/file.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* KSYM_NAME_LEN of Linux 6.1, with the NUL; a line has an address and a module's name besides. */
#define SYMBOL_MAX 512
#define LINE_SIZE 1024

struct symbol {
	const char *name;
	bool found, several;
	uint64_t address;
};

/* One reading of the file: the symbol, and the bounds of per-CPU data. */
struct search {
	struct symbol sought, per_cpu_start, per_cpu_end;
	bool any;   /* there is a symbol */
	bool shown; /* there is one with an address other than 0 */
};

bool kallsyms_is_name(const char *name)
{
	size_t n = 0;

	while (isalnum((unsigned char)name[n]) || (name[n] && strchr("_.$", name[n])))
		n++;
	return n > 0 && n < SYMBOL_MAX && !name[n] && !isdigit((unsigned char)name[0]);
}

/* Hands over each line. */
static int read_lines(const char *path, void (*take)(void *userdata, const char *line), void *userdata)
{
	_cleanup_(closefilep) FILE *file = fopen(path, "re");
	char line[LINE_SIZE];
	bool begins = true; /* a line, rather than the rest of one that was too long */

	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		bool ends = strchr(line, '\n');

		if (begins && ends)
			take(userdata, line);
		begins = ends;
	}
	return ferror(file) ? -EIO : 0;
}

/* Address and type of a line; returns the name, which ends before white space, or NULL: it is malformed. */
static const char *parse_line(const char *line, uint64_t *ret_address, char *ret_type)
{
	char *end;

	*ret_address = strtoull(line, &end, 16);
	if (end == line || end[0] != ' ' || !isalpha((unsigned char)end[1]) || end[2] != ' ')
		return NULL;
	*ret_type = end[1];
	return end + strlen(" T ");
}

/* --- finding a symbol */

static void note_address(struct symbol *symbol, const char *name, size_t length, uint64_t address)
{
	if (strncmp(symbol->name, name, length) || symbol->name[length])
		return;
	symbol->several |= symbol->found && symbol->address != address;
	symbol->found = true;
	symbol->address = address;
}

static void read_symbol(void *userdata, const char *line)
{
	struct search *search = userdata;
	uint64_t address;
	char type;
	const char *name = parse_line(line, &address, &type);
	size_t length;

	if (!name)
		return;
	length = strcspn(name, " \t\n");
	search->any = true;
	search->shown |= address != 0;
	note_address(&search->sought, name, length, address);
	note_address(&search->per_cpu_start, name, length, address);
	note_address(&search->per_cpu_end, name, length, address);
}

static bool is_per_cpu(const struct search *search)
{
	return search->per_cpu_start.found && search->per_cpu_end.found &&
	       search->sought.address >= search->per_cpu_start.address &&
	       search->sought.address < search->per_cpu_end.address;
}

int kallsyms_find(const char *path, const char *name, uint64_t *ret, struct reason *why)
{
	struct search search = {
		.sought.name = name,
		.per_cpu_start.name = "__per_cpu_start",
		.per_cpu_end.name = "__per_cpu_end",
	};
	int r = path ? read_lines(path, read_symbol, &search) : -ENOENT;

	if (r == -ENOMEM)
		return r;
	if (r < 0 && r != -EACCES && r != -EPERM)
		return reason_set(why, r, "symbol '%.100s': %s can't be read (%s): write the address instead", name,
				  path ? path : "/proc/kallsyms", strerror(-r));
	if (r < 0 || !search.any)
		return reason_set(why, -EACCES,
				  "symbol '%.100s': %s is hidden from this process (in a systemd service by "
				  "ProtectKernelTunables=): write the address instead",
				  name, path);
	if (!search.shown)
		return reason_set(why, -EACCES,
				  "symbol '%.100s': %s does not show this process any address: give it CAP_SYSLOG, "
				  "with the sysctl kernel.kptr_restrict at 0 or 1, or write the address instead",
				  name, path);
	if (!search.sought.found)
		return reason_set(why, -ENOENT,
				  "%s has no symbol '%.100s': a module may be missing, and most variables are there "
				  "only in a kernel with CONFIG_KALLSYMS_ALL",
				  path, name);
	if (search.sought.several)
		return reason_set(why, -ENOTUNIQ,
				  "%s has several symbols '%.100s': write the address of the one that is meant", path,
				  name);
	if (is_per_cpu(&search))
		return reason_set(why, -EOPNOTSUPP,
				  "symbol '%.100s' is per-CPU data, which is at another address on each CPU: write "
				  "the address instead",
				  name);
	*ret = search.sought.address;
	return 0;
}

/* --- saving */

struct saving {
	struct buf list;
	int nr;
	bool shown; /* there is an address other than 0 */
};

static void saving_release(struct saving *saving)
{
	buf_release(&saving->list);
}

static void save_line(void *userdata, const char *line)
{
	struct saving *saving = userdata;
	uint64_t address;
	char type;

	if (!parse_line(line, &address, &type) || !strchr("tTwW", type))
		return;
	buf_str(&saving->list, line);
	saving->nr++;
	saving->shown |= address != 0;
}

int kallsyms_save(const char *path, const char *file, struct reason *why)
{
	_cleanup_(saving_release) struct saving saving = {};
	int r = read_lines(path, save_line, &saving);

	if (r < 0)
		return reason_set(why, r, "%s: %s", path, strerror(-r));
	if (!saving.shown)
		return reason_set(why, -EACCES,
				  "%s does not show any address: that needs CAP_SYSLOG, with the sysctl "
				  "kernel.kptr_restrict at 0 or 1",
				  path);
	if (saving.list.failed)
		return reason_set(why, -ENOMEM, "out of memory");
	r = replace_private_file(file, saving.list.data, saving.list.len);
	return r < 0 ? reason_set(why, r, "%s: %s", file, strerror(-r)) : saving.nr;
}
