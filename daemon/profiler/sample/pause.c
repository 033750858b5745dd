/* SPDX-License-Identifier: MIT */

#include "profiler/sample/pause.h"

void pause_begin(struct pause *pause, uint64_t time)
{
	pause->begun = time;
}

/* The record of its beginning can have been lost. */
void pause_end(struct pause *pause, uint64_t time)
{
	if (pause->begun && time > pause->begun)
		pause->ns += time - pause->begun;
	pause->begun = 0;
	pause->ended = time;
}

uint64_t pause_take(struct pause *pause, uint64_t time, uint64_t period)
{
	uint64_t ns = pause->ns;

	/* The sample at which it is paused may come after the record of that. */
	if (!pause->ended || time <= pause->ended)
		return 0;
	if (time - pause->ended > period + period / 2)
		ns = 0;
	pause->ns = pause->ended = 0;
	return ns;
}
