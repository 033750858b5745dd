/* SPDX-License-Identifier: MIT */

#include "base/util/names.h"

#include "base/util/cleanup.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Room at the end of the text for " and 18446744073709551615 more". */
#define NAME_LIST_TAIL 32

void name_list_add(struct name_list *list, const char *name)
{
	size_t room = sizeof(list->text) - NAME_LIST_TAIL - list->length;

	/* Once one is left out the rest are too, so that the text is the beginning of the list. */
	if (list->left_out || strlen(name) + 2 >= room) {
		list->left_out++;
		return;
	}
	list->length += (size_t)snprintf(list->text + list->length, room, "%s%s", list->length ? ", " : "", name);
}

const char *name_list_text(struct name_list *list)
{
	size_t room = sizeof(list->text) - list->length;

	if (list->left_out && list->length)
		(void)snprintf(list->text + list->length, room, " and %zu more", list->left_out);
	else if (list->left_out)
		(void)snprintf(list->text, room, "%zu with long names", list->left_out);
	else if (!list->length)
		(void)snprintf(list->text, room, "none");
	return list->text;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Edit distance with swapped neighbours as one edit ("cylces"), letters in any case. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned row[3][NEAREST_MAX + 1];
	unsigned *above = row[0], *previous = row[1], *current = row[2];

	for (unsigned j = 0; j <= b_length; j++)
		previous[j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned *spare = above;

		current[0] = (unsigned)i;
		for (size_t j = 1; j <= b_length; j++) {
			current[j] = min3(previous[j] + 1, current[j - 1] + 1,
					  previous[j - 1] + !same_letter(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
				current[j] = min3(current[j], above[j - 2] + 1, current[j]);
		}
		above = previous;
		previous = current;
		current = spare;
	}
	return previous[b_length];
}

void nearest_init(struct nearest *nearest, const char *sought)
{
	size_t length = strlen(sought);

	/* With a third of the letters wrong it is another word; to a word of two letters every other one is near. */
	*nearest = (struct nearest){ .sought = sought };
	if (length >= 3 && length <= NEAREST_MAX)
		nearest->distance = (length < 12 ? (unsigned)length / 3 : 3) + 1;
}

void nearest_offer(struct nearest *nearest, const char *name)
{
	size_t sought_length = strlen(nearest->sought), length = strlen(name);
	size_t apart = length > sought_length ? length - sought_length : sought_length - length;
	unsigned distance;

	if (apart >= nearest->distance || length > NEAREST_MAX)
		return;
	distance = edit_distance(nearest->sought, sought_length, name, length);
	if (distance >= nearest->distance)
		return;
	nearest->distance = distance;
	memcpy(nearest->name, name, length + 1);
}
