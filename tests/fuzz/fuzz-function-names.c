/* SPDX-License-Identifier: MIT */

/* ELF files: whatever is in one, each place has a name or a reason. */

#include "fuzz.h"

#include "base/util/cleanup.h"
#include "profiler/naming/function-names.h"

#include <string.h>
#include <sys/mman.h>

static void check_places(const struct function_place *places, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		CHECK(places[i].naming < _NAMING_MAX);
		CHECK((places[i].naming == NAMING_NAMED) == (places[i].name != NULL));
		CHECK(!places[i].name || strlen(places[i].name) > 0);
		CHECK(!places[i].end || (places[i].start <= places[i].offset && places[i].offset < places[i].end));
	}
}

static void fuzz_file(const uint8_t *data, size_t size)
{
	static unsigned char *room;
	struct function_place places[] = { { .offset = 0 },	{ .offset = 0x40 },   { .offset = 0x148 },
					   { .offset = 0x16a }, { .offset = 0x1000 }, { .offset = 0x1010 } };
	/* It may be its own file of debug symbols. */
	struct function_sources sources = { { data, size }, { data, size }, { data, size }, NULL };
	struct elf_image image;
	struct module_key key = {};

	if (!room)
		room = mmap(NULL, FUNCTION_NAMES_ROOM, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(room != MAP_FAILED);
	sources.room = room;
	(void)function_names_find(places, ARRAY_SIZE(places), &sources, &key);
	check_places(places, ARRAY_SIZE(places));
	if (!elf_image_open(&image, sources.file))
		return;
	key.build_id_size = (uint32_t)elf_image_build_id(&image, key.build_id);
	CHECK(key.build_id_size <= MODULE_BUILD_ID_MAX);
	(void)function_names_find(places, ARRAY_SIZE(places), &sources, &key);
	check_places(places, ARRAY_SIZE(places));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		CHECK(places[i].naming != NAMING_OTHER_FILE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_file(data, size);
	return 0;
}
