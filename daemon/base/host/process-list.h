/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A list of processes that run, with their commands and executable mappings: root saves it for a daemon that may not
 * see other users' processes in /proc, after the daemon has begun to follow those that start.
 *
 * A process is a line "p PID COMMAND", its mappings follow as lines "m START SIZE OFFSET FILE PATH": numbers in hex but
 * for the pid, and FILE is a build id, or else MAJOR:MINOR:INODE in hex. In commands and paths control characters are
 * '?'.
 */

#include "base/host/proc-maps.h"
#include "base/util/reason.h"

/* Bytes of a list. Thousands of processes with dozens of mappings each have some MB. */
#define PROCESS_LIST_MAX ((size_t)64 << 20)

/*
 * Saves a list of all processes below procroot ("/proc") in a file that only the owner of its folder can read: it has
 * addresses. An older one is replaced. Returns the number of processes; negative errno with the sentence in why.
 */
int process_list_save(const char *procroot, const char *file, struct reason *why);

/* The reader of a list. An error of these ends the reading, and is returned. */
struct process_list_reader {
	int (*process)(void *userdata, uint32_t pid, const char *comm);
	int (*mapping)(void *userdata, const struct proc_mapping *mapping); /* of the last process */
	void *userdata;
};

/* Reads a list's text, which is cut up in place. Malformed lines are skipped. */
int process_list_read(char *text, const struct process_list_reader *reader);
