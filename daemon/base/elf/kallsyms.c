/* SPDX-License-Identifier: MIT */

#include "base/elf/kallsyms.h"

#include "base/util/buf.h"
#include "base/util/file.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* A line has an address and a module's name besides. */
#define LINE_SIZE (2 * KALLSYMS_NAME_MAX)
#define READ_SIZE (64 << 10)

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
	return n > 0 && n < KALLSYMS_NAME_MAX && !name[n] && !isdigit((unsigned char)name[0]);
}

/* False: the line is malformed. */
static bool parse_line(const char *text, struct kallsyms_line *ret)
{
	char *end;

	*ret = (struct kallsyms_line){ .text = text, .address = strtoull(text, &end, 16) };
	if (end == text || end[0] != ' ' || !isalpha((unsigned char)end[1]) || end[2] != ' ')
		return false;
	ret->type = end[1];
	ret->name = end + strlen(" T ");
	ret->name_length = strcspn(ret->name, " \t\n");
	ret->module = ret->name + ret->name_length;
	ret->module += strspn(ret->module, " \t\n");
	return true;
}

int kallsyms_each_of(FILE *file, void (*take)(void *userdata, const struct kallsyms_line *line), void *userdata)
{
	char text[LINE_SIZE];
	bool begins = true; /* a line, rather than the rest of one that was too long */

	while (fgets(text, sizeof(text), file)) {
		bool ends = strchr(text, '\n');
		struct kallsyms_line line;

		if (begins && ends && parse_line(text, &line))
			take(userdata, &line);
		begins = ends;
	}
	return ferror(file) ? -EIO : 0;
}

int kallsyms_each(const char *path, void (*take)(void *userdata, const struct kallsyms_line *line), void *userdata)
{
	_cleanup_(closefilep) FILE *file = fopen(path, "re");

	if (!file)
		return -errno;
	(void)setvbuf(file, NULL, _IOFBF, READ_SIZE);
	return kallsyms_each_of(file, take, userdata);
}

bool kallsyms_is_code(const struct kallsyms_line *line)
{
	return strchr("tTwW", line->type);
}

/* --- finding a symbol */

static void note_address(struct symbol *symbol, const struct kallsyms_line *line)
{
	if (strncmp(symbol->name, line->name, line->name_length) || symbol->name[line->name_length])
		return;
	symbol->several |= symbol->found && symbol->address != line->address;
	symbol->found = true;
	symbol->address = line->address;
}

static void read_symbol(void *userdata, const struct kallsyms_line *line)
{
	struct search *search = userdata;

	search->any = true;
	search->shown |= line->address != 0;
	note_address(&search->sought, line);
	note_address(&search->per_cpu_start, line);
	note_address(&search->per_cpu_end, line);
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
	int r = path ? kallsyms_each(path, read_symbol, &search) : -ENOENT;

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

static void save_line(void *userdata, const struct kallsyms_line *line)
{
	struct saving *saving = userdata;

	if (!kallsyms_is_code(line))
		return;
	buf_str(&saving->list, line->text);
	saving->nr++;
	saving->shown |= line->address != 0;
}

int kallsyms_save(const char *path, const char *file, struct reason *why)
{
	_cleanup_(saving_release) struct saving saving = {};
	int r = kallsyms_each(path, save_line, &saving);

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
