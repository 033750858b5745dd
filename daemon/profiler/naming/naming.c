/* SPDX-License-Identifier: MIT */

#include "profiler/naming/naming.h"

static const char *const texts[_NAMING_MAX] = {
	[NAMING_UNTRIED] = "not looked up yet",
	[NAMING_ASKED] = "being looked up",
	[NAMING_NAMED] = "named",
	[NAMING_NO_MAPPING] = "in no known mapping of the process",
	[NAMING_HIDDEN] = "the mappings of the process can't be read",
	[NAMING_LOCKED] = "the process kept its mappings locked",
	[NAMING_GENERATED] = "code without a file",
	[NAMING_NO_FILE] = "the file can't be opened",
	[NAMING_OTHER_FILE] = "another file has that path",
	[NAMING_NO_IDENTITY] = "the file can't be told from others",
	[NAMING_MALFORMED] = "the file is no ELF that is understood",
	[NAMING_STRIPPED] = "the file is stripped, and has no debug symbols here",
	[NAMING_COMPRESSED] = "the file's compressed symbols can't be read",
	[NAMING_NO_SYMBOL] = "no symbol is there",
	[NAMING_KERNEL] = "the kernel hides its symbols",
	[NAMING_NO_KALLSYMS] = "the list of the kernel's symbols can't be read",
	[NAMING_FAILED] = "the symbols could not be read",
	[NAMING_NO_MAP] = "the process has no file of names for code that it makes, or none that can be read",
};

const char *naming_text(enum naming naming)
{
	return texts[naming];
}
