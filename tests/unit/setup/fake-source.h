/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Stands in for the service: a snapshot and a machine that never change, and switches for what can go wrong.
 *
 * Its profiler works out an answer when it is asked, and delivers it when the test has it do so.
 */

#include "profiler/capture/captures.h"
#include "web/api/response.h"
#include "web/expose/response-cache.h"
#include "web/http/web.h"

#include <jansson.h>

/* The answer that is to be delivered. */
struct fake_answer {
	web_answered_t answered; /* NULL: there is none */
	void *asker;
	int error;
	struct blob *document;
	struct reason why;
};

struct fake_source {
	struct web_source source;
	struct snapshot *snapshot;
	int snapshot_error;	 /* what asking for it returns; 0: it is there */
	struct archive *archive; /* empty, for the test to fill */
	int profile_error;	 /* what asking for a profile returns */
	int ask_error;		 /* what asking the profiler returns; 0: it is there */
	int answer_error;	 /* of its next answers; 0: they are right */
	struct fake_answer pending;
	struct captures captures;  /* none, for the test to add */
	struct told_captures told; /* nothing; borrowed */
	struct history history;	   /* empty */
	struct clock_steps clock;  /* read once */
	const char *saved;	   /* the id of a capture on disk; NULL: there is none */
	bool ready;
	unsigned nr_snapshots, nr_scraped, nr_written, nr_asked; /* calls */

	struct pmu_catalogue pmus;
	struct event_env env;
	struct privilege privilege;
	struct host_identity identity;
	struct cpulist cpus;
	struct machine_info info;
	struct web_stats stats;
};

/* Takes the snapshot over. Version "1.2.3", no PMUs, no cgroup mount; ready. */
struct fake_source *fake_source_new(struct snapshot *snapshot);
void fake_source_free(struct fake_source *fake);

/* Delivers the answer to the last question; false: none is asked. */
bool fake_source_deliver(struct fake_source *fake);

/* The response to a request, whose answer is delivered at once; to be released. cache: NULL, if the route needs
 * none. */
struct response respond_to(struct fake_source *fake, struct response_cache *cache, const struct request_head *head);
/* Its body, without an end. */
const char *body_of(const struct response *response, size_t *ret_len);

/* The body of what its route answers, as a text to be freed. The status is as expected, and the type, unless that is
 * NULL. */
char *ask_route(struct fake_source *fake, const char *target, unsigned status, const char *type);
json_t *ask_route_json(struct fake_source *fake, const char *target);
