/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Log lines on standard error: with sd-daemon(3)'s "<N>" priority in front if standard error is the journal
 * ($JOURNAL_STREAM names it), else as "perfmond: text". Only the rooms on top log (service, web, cli); those below
 * return their errors, with a struct reason.
 */

#include "base/util/cleanup.h"

#include <stddef.h>
#include <syslog.h>

/* Lines of a lower priority than this (LOG_ERR … LOG_DEBUG) are dropped. The default is LOG_INFO. */
void log_set_level(int priority);

/* "err", "warning", "notice", "info", "debug" or syslog(3)'s number; -EINVAL. */
int log_level_parse(const char *text, int *ret);

/* A field of the journal (systemd.journal-fields(7)), so that entries can be found by it: journalctl EVENT=cycles.
 * A name may be there several times. */
struct log_field {
	const char *name; /* in capitals */
	const char *value;
};

/* Beyond these, fields are left out. */
#define LOG_FIELDS_MAX 32

/* A line, with fields, which only the journal gets. A line with any is sent to the journal by itself: it learns the
 * unit from the process, which therefore has to live on for a moment. */
void log_fields(const struct log_field *fields, size_t nr, int priority, const char *format, ...) _printf_(4, 5);

#define log_line(priority, ...) log_fields(NULL, 0, priority, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_line(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
