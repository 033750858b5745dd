/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Faults in a played kernel (fake-perf.h), in opening directories and in memory (no-memory.h): call number n of a kind
 * fails once, or any call at random.
 */

#include "setup/fake-perf.h"

/* Beside those of enum fake_call. */
#define FAULT_DIRECTORY _FAKE_CALL_MAX /* open(2) of a directory */
#define FAULT_MEMORY (_FAKE_CALL_MAX + 1)
#define FAULT_KINDS (_FAKE_CALL_MAX + 2)

struct faults {
	bool on;
	int kind;	 /* whose calls may fail; -1: any */
	long left;	 /* calls that still go well before the one that fails */
	int error;	 /* what it fails with: an errno, FAKE_EMPTY or FAKE_SHORT */
	unsigned one_in; /* then one call in so many fails, with an errno it can have; 0: only the one */
	uint64_t seed;
	/* Since the beginning: */
	bool has_failed;
	bool nodev; /* a CPU was told to be offline */
	size_t nr_failed[FAULT_KINDS];
};

extern struct faults faults;

/* What a call of a kind can fail with, ended by 0. */
const int *fault_errors(int kind);
const char *fault_name(int kind);

/* The call of that kind after `left` others fails. */
void faults_begin(int kind, long left, int error);
/* One call in one_in fails, whatever its kind. */
void faults_begin_random(uint64_t seed, unsigned one_in);
/* Everything works again. */
void faults_end(void);
/* A number below n, of the sequence that seed began. */
uint64_t faults_random(uint64_t *seed, uint64_t n);
