/* SPDX-License-Identifier: MIT */

/*
 * The slowest glob: whatever a client asks for and whatever cgroups are called, matching takes no more steps than
 * base/util/glob.h says. Steps are counted, so that no clock is needed. An input that takes more of them than all
 * before is new to the fuzzer, which goes on from there.
 *
 * "glob\nname\nname…"; the names are matched again and again, as those of many cgroups are.
 */

#include "fuzz.h"

#include "base/util/cleanup.h"
#include "base/util/glob.h"

#include <stdint.h>
#include <string.h>

/* Of names, in one run. */
#define BYTES 20000

/* libFuzzer takes these for counters of code that is reached. */
#define EXTRA __attribute__((section("__libfuzzer_extra_counters"), used))
static EXTRA uint8_t by_byte[4 * GLOB_STEPS_PER_BYTE + 1];
static EXTRA uint8_t by_glob[GLOB_STEPS_ONCE / 1000 + 1];

/* How many names match. */
static size_t match_all(struct glob *glob, char *names, size_t size)
{
	size_t nr = 0;

	for (char *name = names; name < names + size; name += strlen(name) + 1)
		nr += glob_matches(glob, name);
	return nr;
}

static void look_for_slowness(const char *text, char *names, size_t size)
{
	struct glob glob;
	uint64_t once, bytes, rest;
	size_t nr;

	glob_init(&glob, text);
	CHECK(glob.steps <= GLOB_STEPS_ONCE);
	nr = match_all(&glob, names, size);
	/* What is kept in the glob changes nothing of what matches. */
	for (size_t done = size; done < BYTES; done += size)
		CHECK(match_all(&glob, names, size) == nr);
	CHECK(glob.steps <= GLOB_STEPS_ONCE + GLOB_STEPS_PER_BYTE * glob.bytes);

	/* With all that is done once behind it. */
	once = glob.steps;
	bytes = glob.bytes;
	(void)match_all(&glob, names, size);
	rest = glob.bytes > bytes ? 4 * (glob.steps - once) / (glob.bytes - bytes) : 0;
	by_byte[rest < sizeof(by_byte) ? rest : sizeof(by_byte) - 1] = 1;
	by_glob[once / 1000 < sizeof(by_glob) ? once / 1000 : sizeof(by_glob) - 1] = 1;
	glob_release(&glob);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = strndup((const char *)data, size);
	char *names;

	CHECK(text);
	size = strlen(text);
	names = strchr(text, '\n');
	if (!names || names == text + size - 1)
		return 0;
	*names++ = '\0';
	size = strlen(names) + 1;
	for (char *p = names; *p; p++)
		if (*p == '\n')
			*p = '\0';
	look_for_slowness(text, names, size);
	return 0;
}
