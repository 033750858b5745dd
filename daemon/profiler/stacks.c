/* SPDX-License-Identifier: MIT */

#include "profiler/stacks.h"

#include "base/util/clock.h"
#include "base/util/log.h"
#include "profiler/stack/frame-table-child.h"

#include <errno.h>
#include <sys/epoll.h>

int stacks_init(struct stacks *stacks, const char *procfs)
{
	int r;

	*stacks = (struct stacks){};
	r = waiting_new(&stacks->waiting);
	if (r == 0)
		r = frame_tables_new(&stacks->tables, procfs);
	return r;
}

void stacks_release(struct stacks *stacks)
{
	stacks->waiting = waiting_free(stacks->waiting);
	stacks->jit = jit_functions_free(stacks->jit);
	stacks->tables = frame_tables_free(stacks->tables);
}

int stacks_use_jit(struct stacks *stacks, bool is_on, const char *procfs, int epoll_fd)
{
	_cleanup_(jit_functions_freep) struct jit_functions *jit = NULL;
	struct epoll_event events = { .events = EPOLLIN };
	int r;

	if (is_on == (stacks->jit != NULL))
		return 0;
	stacks->jit = jit_functions_free(stacks->jit);
	if (!is_on)
		return 0;
	r = jit_functions_new(&jit, procfs);
	if (r < 0)
		return r;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, jit_functions_fd(jit), &events) < 0)
		return -errno;
	stacks->jit = steal_ptr(jit);
	return 0;
}

/* -EAGAIN: it has to wait. */
static int add(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel,
	       const struct archive_sample *sample, const struct stack_source *source, bool may_wait)
{
	struct archive_place places[ARCHIVE_DEPTH_MAX];
	struct archive_sample whole = *sample;
	struct stack_source with_jit = *source;
	int r;

	with_jit.jit = stacks->jit;
	r = places_of_stack(places, &whole.nr, &whole.end, &with_jit, stacks->tables, kernel, may_wait);
	if (r < 0)
		return r;
	stacks->ended[whole.end]++;
	whole.places = places;
	(void)archive_add(archive, &whole);
	return 0;
}

void stacks_add(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel,
		const struct archive_sample *sample, const struct stack_source *source)
{
	struct stack_source plain = *source;
	struct waiting_sample waiting = {
		.time = sample->time,
		.weight = sample->weight,
		.event = (char *)sample->event,
		.cgroup = (char *)sample->cgroup,
		.command = (char *)sample->command,
		.thread = (char *)sample->thread,
		.mappings = (struct mappings *)source->mappings,
		.program = source->program,
		.chain = source->chain,
	};

	if (add(stacks, archive, kernel, sample, source, true) == 0)
		return;
	waiting.registers = source->registers;
	waiting.copy = *source->copy;
	if (waiting_put(stacks->waiting, &waiting) == 0) {
		stack_ask_tables(source, stacks->tables);
		return;
	}
	plain.registers = NULL;
	(void)add(stacks, archive, kernel, sample, &plain, false);
}

static struct archive_sample sample_of(const struct waiting_sample *waiting)
{
	return (struct archive_sample){
		.time = waiting->time,
		.event = waiting->event,
		.cgroup = waiting->cgroup,
		.command = waiting->command,
		.thread = waiting->thread,
		.weight = waiting->weight,
	};
}

static struct stack_source source_of(const struct waiting_sample *waiting)
{
	return (struct stack_source){
		.chain = waiting->chain,
		.mappings = waiting->mappings,
		.program = waiting->program,
		.unmapped = NAMING_NO_MAPPING,
		.registers = waiting->registers,
		.copy = &waiting->copy,
	};
}

/* all: tables have come. Else only those that have waited for too long are looked at. */
static void add_due(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel, bool all)
{
	uint64_t now = clock_monotonic_ns();
	struct waiting_sample *waiting = waiting_first(stacks->waiting), *next;

	for (; waiting; waiting = next) {
		const struct archive_sample sample = sample_of(waiting);
		const struct stack_source source = source_of(waiting);
		bool is_due = now > waiting->time + STACKS_WAIT_NS;

		next = TAILQ_NEXT(waiting, in_all);
		if (!all && !is_due)
			return;
		if (add(stacks, archive, kernel, &sample, &source, !is_due) == 0)
			waiting_remove(stacks->waiting, waiting);
	}
}

void stacks_turn(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel,
		 const struct processes *processes)
{
	bool changed = frame_tables_turn(stacks->tables, processes);
	const char *stuck = frame_tables_take_stuck(stacks->tables);

	if (stuck)
		log_warning("stacks that lead through %s are by frame pointers: the file %s", stuck,
			    frame_problem_text(FRAME_STUCK));
	add_due(stacks, archive, kernel, changed);
}

void stacks_add_waiting(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel)
{
	const struct waiting_sample *waiting = waiting_first(stacks->waiting);

	for (; waiting; waiting = TAILQ_NEXT(waiting, in_all)) {
		const struct archive_sample sample = sample_of(waiting);
		struct stack_source source = source_of(waiting);

		source.registers = NULL;
		(void)add(stacks, archive, kernel, &sample, &source, false);
	}
}

void stacks_forget_waiting(struct stacks *stacks)
{
	struct waiting_sample *first;

	while ((first = waiting_first(stacks->waiting)))
		waiting_remove(stacks->waiting, first);
}

void stacks_end_waiting(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel)
{
	stacks_add_waiting(stacks, archive, kernel);
	stacks_forget_waiting(stacks);
}

uint64_t stacks_drained(const struct stacks *stacks, uint64_t drained)
{
	const struct waiting_sample *first = waiting_first(stacks->waiting);

	return first && first->time <= drained ? first->time - 1 : drained;
}

void stacks_explain(const struct stacks *stacks, struct reason *ret)
{
	const struct frame_tables_stats stats = frame_tables_stats(stacks->tables);

	if (stats.stuck)
		reason_set(ret, 0, "stacks that lead through some files (%zu) are by frame pointers: these hang",
			   stats.stuck);
	else if (stats.is_short)
		reason_set(ret, 0,
			   "stacks are unwound late, or by frame pointers: the programs that run need more tables than "
			   "%zu KiB; raise [profiles] tables",
			   frame_tables_limit(stacks->tables) >> 10);
}

void stacks_add_stats(const struct stacks *stacks, struct profiler_stats *stats)
{
	const struct frame_tables_stats tables = frame_tables_stats(stacks->tables);

	stats->stacks_frame_pointers = stacks->ended[STACK_FRAME_POINTERS];
	stats->stacks_whole = stacks->ended[STACK_WHOLE];
	stats->stacks_cut = stacks->ended[STACK_CUT];
	stats->stacks_no_table = stacks->ended[STACK_NO_TABLE];
	stats->stacks_lost = stacks->ended[STACK_LOST];
	stats->table_bytes = tables.bytes;
	stats->waiting_bytes = waiting_bytes(stacks->waiting);
	stats->cpu_ns += tables.cpu_ns;
	if (stacks->jit) {
		const struct jit_functions_stats jit = jit_functions_stats(stacks->jit);

		stats->cpu_ns += jit.cpu_ns;
		stats->list_bytes += jit.bytes;
	}
}
