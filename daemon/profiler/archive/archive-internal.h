/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The tables and segments of an archive (archive.h), and functions that put entries into them. For this room alone.
 */

#include "profiler/archive/table.h"

#include <sys/queue.h>

/* An entry of a table, like those in archive.h. */
struct archive_text {
	uint32_t last;
	uint32_t size;	  /* with its NUL */
	uint64_t hash[2]; /* keyed: no two texts have the same */
	char *text;	  /* valid UTF-8 */
	uint32_t symbol_size;
	char *symbol; /* of a function's name, behind the text; NULL: the same, or none, or there are several */
};

struct segment {
	uint32_t age;
	uint64_t base; /* CLOCK_MONOTONIC ns, whole ms; as are the times of the first and the last sample */
	uint64_t first, last;
	uint32_t nr, cap;
	bool is_closed;		       /* it takes no more, although there is room */
	struct stored_sample *samples; /* whole pages; a child that answers a question shares them */
	TAILQ_ENTRY(segment) in_all;
};
TAILQ_HEAD(segment_list, segment);

struct archive {
	size_t limit;		      /* bytes */
	struct segment_list segments; /* oldest first; the last one is open */
	uint32_t nr_segments, age;
	struct table texts, modules, frames, nodes, contexts;
	size_t text_bytes, sample_bytes;
	uint64_t keys[2];    /* of the texts' hashes */
	uint32_t nr_untried; /* frames that were added since all were looked through */
	uint64_t sweeps;     /* times that numbers of entries were given up */
	uint64_t samples;    /* ever added */
	uint64_t dropped;    /* never added: no memory */
};

/* The number of that text, which is valid UTF-8, or 0. */
uint32_t archive_find_text(const struct archive *archive, const char *text);

/* Room for a sample of that time, and the bytes by which the tables may grow: entries that are put from then on are
 * kept for as long as the sample. -ENOSPC: archive_drop_oldest() makes room; -ENOMEM. */
int archive_prepare(struct archive *archive, uint64_t time, size_t *ret_budget);
/* A text that is valid UTF-8. Errors as of table_put(). */
int archive_put_text(struct archive *archive, const char *text, size_t *budget, uint32_t *ret);
/* The same, of a function's name with its symbol, or NULL. */
int archive_put_name(struct archive *archive, const char *name, const char *symbol, size_t *budget, uint32_t *ret);
/* Adds the sample for which there is room. */
void archive_put_sample(struct archive *archive, uint64_t time, uint32_t context, uint32_t node, uint64_t weight);
/* False: there was nothing left to drop. */
bool archive_drop_oldest(struct archive *archive);
