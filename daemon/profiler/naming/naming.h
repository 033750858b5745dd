/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The state of a place in code on its way to a function's name: named, not tried yet, or the reason why it has no name.
 */

enum naming {
	NAMING_UNTRIED,
	NAMING_ASKED, /* its list of functions is being made */
	NAMING_NAMED,
	NAMING_NO_MAPPING,  /* the address is in no mapping that is known */
	NAMING_HIDDEN,	    /* the process's mappings can't be read */
	NAMING_LOCKED,	    /* the process has them locked */
	NAMING_GENERATED,   /* code that was made at run time: there is no file */
	NAMING_NO_FILE,	    /* the file can't be opened: it is gone, in another mount namespace, or hidden */
	NAMING_OTHER_FILE,  /* another file has that path now, or here */
	NAMING_NO_IDENTITY, /* neither a build id nor an inode says which file it was */
	NAMING_MALFORMED,   /* the file is no ELF that is understood */
	NAMING_STRIPPED,    /* it has no symbols but those that it exports, and there is no file of debug symbols */
	NAMING_COMPRESSED,  /* it has compressed symbols (.gnu_debugdata), which can't be read */
	NAMING_NO_SYMBOL,   /* it has symbols, but none has this place */
	NAMING_KERNEL,	    /* the kernel hides the addresses of its symbols */
	NAMING_NO_KALLSYMS, /* no list of the kernel's symbols can be read */
	NAMING_FAILED,	    /* the child that reads the symbols failed, or took too long */
	NAMING_NO_MAP,	    /* code that was made at run time, by a process whose file of names can't be read */
	_NAMING_MAX,
};

/* A few words, for people and as a JSON value. */
const char *naming_text(enum naming naming);
