/* SPDX-License-Identifier: MIT */

#include "engine/bpf/kernel.h"

#include "engine/bpf/credit.skel.h"

#include <elf.h>
#include <string.h>

/* That the program is in here, and is an ELF file. */
bool bpf_engine_is_built_in(void)
{
	size_t size = 0;
	const void *program = credit__elf_bytes(&size);

	return size > SELFMAG && memcmp(program, ELFMAG, SELFMAG) == 0;
}
