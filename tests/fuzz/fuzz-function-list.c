/* SPDX-License-Identifier: MIT */

/* Lists of functions, as a sealed child leaves them: whatever is in one, a function that is found has the place in it,
 * and a name is text. The bytes are taken as they are, and as the entries of a block. */

#include "fuzz.h"

#include "base/util/text.h"
#include "profiler/naming/function-list.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#define MAX ((size_t)1 << 20)

static void check_place(const struct function_list *list, uint64_t place, struct function_block *block)
{
	struct function found;

	if (!function_list_find(list, place, block, &found))
		return;
	CHECK(found.start <= place && place < found.end);
	CHECK(!found.name || (found.name[0] && strlen(found.name) < FUNCTION_NAME_MAX && text_is_plain(found.name)));
	CHECK(!found.symbol ||
	      (found.symbol[0] && strlen(found.symbol) < FUNCTION_NAME_MAX && text_is_plain(found.symbol)));
}

static void check_bytes(const void *data, size_t size)
{
	static struct function_block block;
	_cleanup_(function_list_freep) struct function_list *list = NULL;
	_cleanup_(closep) int fd = memfd_create("list", MFD_CLOEXEC);
	int r;

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	r = function_list_read(&list, fd, MAX);
	CHECK(r == 0 || r == -EBADMSG || r == -EFBIG);
	CHECK((r == 0) == (list != NULL));
	if (!list)
		return;
	block.list = NULL;
	CHECK(function_list_naming(list) > NAMING_NAMED && function_list_naming(list) < _NAMING_MAX);
	CHECK(strlen(function_list_link(list)) <= NAME_MAX);
	for (unsigned bit = 0; bit < 64; bit++) {
		check_place(list, (uint64_t)1 << bit, &block);
		check_place(list, UINT64_MAX << bit, &block);
	}
	for (uint64_t place = 0; place < 64; place++)
		check_place(list, place, &block);
}

/* A list of one block, with these entries. */
static void check_entries(const uint8_t *data, size_t size)
{
	struct function_list_writer writer = { .max = MAX };
	_cleanup_(closep) int fd = memfd_create("list", MFD_CLOEXEC);
	unsigned char bytes[2048];
	ssize_t n;
	uLongf packed;

	function_list_add(&writer, 7, "f", 0);
	CHECK(fd >= 0 && function_list_write(&writer, fd, NAMING_NO_SYMBOL, false, NULL) == 0);
	/* The one block's size is the last number before its bytes, of which there are so many. */
	n = pread(fd, bytes, sizeof(bytes), 0);
	CHECK(n > 0);
	n -= (ssize_t)writer.data.len;
	packed = sizeof(bytes) - (size_t)n;
	if (compress2(bytes + n, &packed, data, size, 1) == Z_OK) {
		memcpy(bytes + n - sizeof(uint32_t), &(uint32_t){ (uint32_t)packed }, sizeof(uint32_t));
		check_bytes(bytes, (size_t)n + packed);
	}
	function_list_writer_release(&writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_bytes(data, size);
	check_entries(data, size);
	return 0;
}
