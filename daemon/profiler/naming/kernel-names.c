/* SPDX-License-Identifier: MIT */

#include "profiler/naming/kernel-names.h"

#include <string.h>

static bool is_hex(char c, unsigned *ret)
{
	if (c >= '0' && c <= '9')
		*ret = (unsigned)(c - '0');
	else if (c >= 'a' && c <= 'f')
		*ret = (unsigned)(c - 'a') + 10;
	else
		return false;
	return true;
}

/* The first place at or above an address, or nr. */
static size_t first_place(const struct function_place *places, size_t nr, uint64_t address)
{
	size_t low = 0, high = nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (places[middle].offset < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The symbol is for the first place above it, unless that has a nearer one. */
static void take_symbol(struct function_place *places, size_t nr, char (*room)[FUNCTION_NAME_MAX], uint64_t address,
			bool is_text, const char *name, size_t length)
{
	size_t i = first_place(places, nr, address);

	/* It is the end of what is below. */
	if (i > 0 && (!places[i - 1].end || places[i - 1].end > address))
		places[i - 1].end = address;
	if (i == nr || places[i].start >= address)
		return;
	places[i].start = address;
	places[i].naming = is_text ? NAMING_NAMED : NAMING_NO_SYMBOL;
	memcpy(room[i], name, length);
	room[i][length] = '\0';
	places[i].name = is_text ? room[i] : NULL;
}

bool kernel_names_take(struct function_place *places, size_t nr, char (*room)[FUNCTION_NAME_MAX], const char *line,
		       size_t length)
{
	uint64_t address = 0;
	size_t at = 0, end;
	unsigned digit;
	bool is_text;

	while (at < length && at < 16 && is_hex(line[at], &digit)) {
		address = address << 4 | digit;
		at++;
	}
	if (at == 0 || at + 3 >= length || line[at] != ' ' || line[at + 2] != ' ')
		return true;
	is_text = strchr("tTwW", line[at + 1]);
	at += 3;
	for (end = at; end < length && line[end] != '\t' && line[end] != ' ' && line[end] != '\n'; end++)
		;
	if (end - at >= FUNCTION_NAME_MAX)
		end = at + FUNCTION_NAME_MAX - 1;
	take_symbol(places, nr, room, address, is_text, line + at, end - at);
	return address != 0;
}

/* A symbol taken for a place holds for those above it too, unless they have a nearer one. */
void kernel_names_settle(struct function_place *places, size_t nr, char (*room)[FUNCTION_NAME_MAX])
{
	for (size_t i = nr; i-- > 1;)
		if (places[i].end && (!places[i - 1].end || places[i - 1].end > places[i].end))
			places[i - 1].end = places[i].end;
	for (size_t i = 1; i < nr; i++) {
		if (places[i].start >= places[i - 1].start)
			continue;
		places[i].start = places[i - 1].start;
		places[i].naming = places[i - 1].naming;
		places[i].name = places[i - 1].name ? room[i] : NULL;
		memcpy(room[i], room[i - 1], FUNCTION_NAME_MAX);
	}
}
