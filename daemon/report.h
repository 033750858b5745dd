/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the log and systemd have been told of the events' states, so that they are told what has changed and nothing
 * else. An event is told of when it begins or ends to be counted; those with one reason share a line.
 */

#include "monitor.h"

struct report {
	struct plan *plan;		    /* a reference: the plan of which … */
	enum event_state *said[_SCOPE_MAX]; /* … the log knows the columns' states */
	char *status;			    /* the last STATUS= sent, without "Counting "; or NULL */
	bool idle;			    /* nothing is counted, as that says */
};

void report_release(struct report *report);

/* Logs what has changed since the last time, and sends STATUS= where it has. */
void report_states(struct report *report, const struct monitor *monitor);

/* The states of all events, or the status, are told again, as if nothing of it had been. */
void report_forget_states(struct report *report);
void report_forget_status(struct report *report);
