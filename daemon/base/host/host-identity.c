/* SPDX-License-Identifier: MIT */

#include "base/host/host-identity.h"

#include "base/util/cleanup.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Bytes of cpuinfo that are read: those of the first CPU. All of them would be a megabyte on a large machine. */
#define CPUINFO_BYTES 4096

/* The lines that name the model, by preference: x86, loongarch; mips; 32-bit arm; powerpc; riscv. */
static const char *const model_keys[] = { "model name", "Model Name", "cpu model", "Processor", "cpu", "uarch" };

/* The value of the first line "KEY \t: VALUE"; NULL: there is none. */
static const char *find_value(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (; text; text = strchr(text, '\n')) {
		const char *value;

		text += *text == '\n';
		if (strncmp(text, key, n) != 0)
			continue;
		value = text + n + strspn(text + n, " \t");
		if (*value == ':')
			return value + 1;
	}
	return NULL;
}

/* One line, with blanks in a row as one, and none around. */
static void copy_line(char *ret, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text && *text != '\n' && n + 1 < size; text++) {
		bool blank = *text == ' ' || *text == '\t' || *text == '\r';

		if (!blank)
			ret[n++] = *text;
		else if (n && ret[n - 1] != ' ')
			ret[n++] = ' ';
	}
	if (n && ret[n - 1] == ' ')
		n--;
	ret[n] = '\0';
}

void cpu_model_parse(char *ret, size_t size, const char *cpuinfo)
{
	const char *value = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(model_keys) && !value; i++)
		value = find_value(cpuinfo, model_keys[i]);
	copy_line(ret, size, value ?: "");
}

/* The beginning of a file, as a string: "" if it can't be read. */
static void read_beginning(char *ret, size_t size, const char *root, const char *path)
{
	_cleanup_(closep) int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closep) int fd = dir < 0 ? -1 : openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
}

void host_identity_read(struct host_identity *ret, const char *procroot, const char *sysroot)
{
	char text[CPUINFO_BYTES];

	*ret = (struct host_identity){};
	(void)uname(&ret->system);
	read_beginning(text, sizeof(text), procroot, "cpuinfo");
	cpu_model_parse(ret->cpu_model, sizeof(ret->cpu_model), text);
	if (ret->cpu_model[0])
		return;
	/* The name of the board, where there is no model of the CPU. */
	read_beginning(text, sizeof(text), sysroot, "firmware/devicetree/base/model");
	copy_line(ret->cpu_model, sizeof(ret->cpu_model), text);
}
