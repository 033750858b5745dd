/* SPDX-License-Identifier: MIT */

/* ELF files: whatever is in one, some answer comes of it. */

#include "fuzz.h"

#include "base/elf/elf-symbol.h"

#include <ctype.h>
#include <errno.h>
#include <sys/mman.h>

static void find(int fd, const char *name)
{
	struct elf_symbol symbol = { .offset = 42, .size = 43 };
	struct reason why = {};
	int r = elf_symbol_find(&symbol, fd, name, &why);

	CHECK(r == 0 || r == -ENOEXEC || r == -ENOENT || r == -ENOTUNIQ || r == -EOPNOTSUPP || r == -EFBIG);
	CHECK((r == 0) == !*why.text);
	for (const char *p = why.text; *p; p++)
		CHECK(!iscntrl((unsigned char)*p));
	CHECK(r == 0 || (symbol.offset == 42 && symbol.size == 43));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("elf", 0);

	CHECK(fd >= 0);
	CHECK(write(fd, data, size) == (ssize_t)size);
	find(fd, "work");
	find(fd, "chosen");
	find(fd, "wrok");
	close(fd);
	return 0;
}
