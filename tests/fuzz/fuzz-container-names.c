/* SPDX-License-Identifier: MIT */

/* Files of the runtimes of containers: the first byte says of which kind the others are. */

#include "fuzz.h"

#include "base/cgroup/container-names.h"
#include "base/util/text.h"

#include <stdint.h>
#include <string.h>

static void check_name(const char *text)
{
	CHECK(strlen(text) < CONTAINER_NAME_SIZE);
	for (size_t n; *text; text += n) {
		n = utf8_length(text);
		CHECK(n && (unsigned char)*text >= ' ' && *text != 0x7f);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(container_names_unrefp) struct container_names *names = NULL;
	struct container_texts texts = {};
	bool any = false;
	json_t *root;

	if (size == 0)
		return 0;
	root = container_file_parse((const char *)data + 1, size - 1);
	if (!root)
		return 0;
	container_file_find(&texts, root, (enum container_file)(data[0] % 3), "a");
	json_decref(root);
	for (int i = 0; i < _CONTAINER_NAME_MAX; i++) {
		check_name(texts.text[i]);
		any |= *texts.text[i] != '\0';
	}
	CHECK((container_names_new(&names, &texts) == 0) == any);
	return 0;
}
