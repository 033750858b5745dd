/* SPDX-License-Identifier: MIT */

#include "profiler/naming/kernel-list.h"

#include "base/util/buf.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096

/* More symbols of a list are not read. */
#define SYMBOLS_MAX ((size_t)2 << 20)

/* --- reading */

struct symbol {
	uint64_t address;
	uint32_t name; /* where it is in the texts */
	uint32_t module;
};

struct reading {
	struct symbol *symbols;
	size_t nr, cap;
	struct buf texts; /* each with its NUL */
	uint32_t module;  /* of the last symbol */
	bool shown;	  /* there is an address other than 0 */
	bool failed;
};

static void reading_release(struct reading *reading)
{
	free(reading->symbols);
	buf_release(&reading->texts);
}

static bool make_room(struct reading *reading)
{
	size_t cap = reading->cap ? reading->cap * 2 : 1024;
	struct symbol *symbols;

	if (reading->nr < reading->cap)
		return true;
	symbols = reallocarray(reading->symbols, cap, sizeof(*symbols));
	if (!symbols)
		return false;
	reading->symbols = symbols;
	reading->cap = cap;
	return true;
}

static uint32_t add_text(struct reading *reading, const char *text, size_t length)
{
	size_t at = reading->texts.len;

	buf_add(&reading->texts, text, length);
	buf_add(&reading->texts, "", 1);
	return (uint32_t)at;
}

/* The name of a module is stored once for neighbours, which are mostly of one module. */
static uint32_t add_module(struct reading *reading, const char *module)
{
	size_t length = strcspn(module, " \t\n");
	const char *last = reading->texts.data + reading->module;

	if (strncmp(last, module, length) || last[length])
		reading->module = add_text(reading, module, length);
	return reading->module;
}

static void take_line(void *userdata, const struct kallsyms_line *line)
{
	struct reading *reading = userdata;
	size_t length = kallsyms_is_code(line) ? line->name_length : 0;
	struct symbol *symbol;

	reading->shown |= line->address != 0;
	if (!line->address || reading->nr >= SYMBOLS_MAX || length >= KALLSYMS_NAME_MAX)
		return;
	if (!make_room(reading) || reading->texts.failed) {
		reading->failed = true;
		return;
	}
	symbol = &reading->symbols[reading->nr++];
	symbol->address = line->address;
	symbol->module = add_module(reading, line->module);
	symbol->name = add_text(reading, line->name, length);
}

/* Of several names for one address the first one of the list goes first. */
static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* The latest end of a module's last function, which begins at the address. */
static uint64_t end_of_module(uint64_t address)
{
	return (address / PAGE + 2) * PAGE;
}

static void list_symbols(struct reading *reading, struct function_list_writer *writer)
{
	const char *texts = reading->texts.data;

	if (reading->nr)
		qsort(reading->symbols, reading->nr, sizeof(*reading->symbols), compare_symbols);
	for (size_t i = 0; i < reading->nr; i++) {
		const struct symbol *symbol = &reading->symbols[i], *next = symbol + 1;
		bool is_last = i + 1 == reading->nr;
		uint64_t end = end_of_module(symbol->address);

		if (i == 0 || symbol[-1].address != symbol->address)
			function_list_add(writer, symbol->address, texts + symbol->name, FUNCTION_NONE);
		if (is_last || (strcmp(texts + symbol->module, texts + next->module) && end < next->address))
			function_list_add(writer, end, NULL, FUNCTION_NONE);
	}
}

/* NAMING_UNTRIED: the file can't be read. */
static enum naming write_file(struct function_list_writer *writer, FILE *file, int fd)
{
	_cleanup_(reading_release) struct reading reading = {};

	buf_add(&reading.texts, "", 1);
	if (!file || kallsyms_each_of(file, take_line, &reading) < 0)
		return NAMING_UNTRIED;
	if (!reading.shown)
		return NAMING_KERNEL;
	if (reading.failed || reading.texts.failed)
		return NAMING_FAILED;
	list_symbols(&reading, writer);
	return function_list_write(writer, fd, NAMING_NO_SYMBOL, false, NULL) < 0 ? NAMING_FAILED : NAMING_NAMED;
}

enum naming kernel_list_write(struct function_list_writer *writer, FILE *const *files, size_t nr, int fd)
{
	enum naming worst = NAMING_NO_KALLSYMS;

	for (size_t i = 0; i < nr; i++) {
		enum naming naming = write_file(writer, files[i], fd);

		if (naming == NAMING_NAMED || naming == NAMING_FAILED)
			return naming;
		if (naming == NAMING_KERNEL)
			worst = naming;
	}
	return worst;
}
