/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The profiler's process, perfmond --profiler, which the keeper starts (service/profiles/profiler-keeper.h). It speaks
 * with the daemon alone (protocol.h), and ends when that does.
 *
 * Its loop reads the rings five times a second, and whatever takes longer than that is done by children: names of
 * functions, answers, captures that are saved. So a question waits for the one before it, and samples for none.
 */

/* socket: of the channel; taken over. Returns the exit status: 0 where the daemon has ended or asked for the end. */
int profiler_main(int socket);
