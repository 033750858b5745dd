/* SPDX-License-Identifier: MIT */

#include "profiler/profiler.h"

#include "base/cgroup/filter.h"
#include "base/host/privilege.h"
#include "base/host/sample-rate.h"
#include "base/host/unit-folders.h"
#include "base/util/async-close.h"
#include "base/util/clock.h"
#include "base/util/file.h"
#include "base/util/log.h"
#include "base/util/memory.h"
#include "base/util/text.h"
#include "profiler/archive/archive-image.h"
#include "profiler/cgroup-names.h"
#include "profiler/namer.h"
#include "profiler/origin.h"
#include "profiler/pace.h"
#include "profiler/process/process-table.h"
#include "profiler/process/processes.h"
#include "profiler/sample/sample-attr.h"
#include "profiler/sample/sampler.h"
#include "profiler/stack/frame-rules.h"
#include "profiler/stack/unwind-sample.h"
#include "profiler/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TIDY_NS (5 * (uint64_t)NS_PER_S)
#define SAVE_NS (10 * (uint64_t)NS_PER_S)

/* For how long a process that has its mappings locked is waited for. */
#define LOOK_UP_NS (50 * (uint64_t)NS_PER_MS)

/* For so long after it a pause is told. */
#define PAUSED_NS (60 * (uint64_t)NS_PER_S)

/* A cgroup or a command. */
#define UNKNOWN "(unknown)"

struct profiler {
	struct profiler_settings settings;
	struct sampled_event *events; /* those of the settings, with the periods and rates that are asked for here */
	const char **names;	      /* of all of them, and NULL */
	struct cgroup_filter filter;
	char *raised[SAMPLER_EXTRAS]; /* names in the archive of events that are sampled for a while; NULL: none */
	struct reason problem;
	struct sample_rate rate;   /* as it was when the events were opened */
	struct sampler *sampler;   /* NULL: nothing is sampled */
	struct sampler_stats past; /* of samplers before it */
	struct async_close *closer;
	struct processes *processes;
	struct process_table *table; /* or NULL */
	struct cgroup_names *cgroups;
	struct archive *archive;
	struct namer *namer;
	struct kernel_functions kernel;
	struct stacks stacks;
	const char *procfs;	       /* borrowed */
	char *kallsyms, *process_list; /* where root saves them for a service, or NULL */
	int epoll_fd;		       /* of the sampler, and of children */
	uint64_t drained;	       /* CLOCK_MONOTONIC ns: the archive has all samples until then; 0: none yet */
	uint64_t since;		       /* … when the archive was begun */
	struct archive_gaps gaps;
	bool is_taken_up; /* the archive is of the settings that come first */

	uint64_t tidied, saved, lost_records; /* lost_records: of the sampler, then */
};

/* --- life */

static struct cgroup_filter filter_of(const struct profiler_settings *settings)
{
	return (struct cgroup_filter){
		.include = settings->include,
		.nr_include = settings->nr_include,
		.exclude = settings->exclude,
		.nr_exclude = settings->nr_exclude,
	};
}

static int watch_fd(struct profiler *profiler, int fd)
{
	struct epoll_event events = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(profiler->epoll_fd, EPOLL_CTL_ADD, fd, &events) < 0 ? -errno : 0;
}

static void add_problem(struct profiler *profiler, const char *what, const char *problem)
{
	struct reason before = profiler->problem;

	if (problem[0])
		reason_set(&profiler->problem, 0, "%s%s%s%s%s", before.text, before.text[0] ? "; " : "", what,
			   what[0] ? ": " : "", problem);
}

/* Samples of a clock stand for the time in which the kernel has paused it. Those of other events stand for none. */
static void note_pauses(struct profiler *profiler, size_t event)
{
	uint64_t paused_at = sampler_paused_at(profiler->sampler, event);
	struct reason text;

	if (!paused_at || clock_monotonic_ns() > paused_at + PAUSED_NS)
		return;
	reason_set(&text, 0,
		   "%s lacks samples: the kernel has paused it within the last minute, since they come faster than "
		   "kernel.perf_event_max_sample_rate",
		   profiler->events[event].name);
	add_problem(profiler, "", text.text);
}

static void note_problems(struct profiler *profiler)
{
	struct reason text;

	profiler->problem.text[0] = '\0';
	for (size_t i = 0; i < profiler->settings.nr_events; i++) {
		const struct sampled_event *wanted = &profiler->settings.events[i], *now = &profiler->events[i];

		reason_set(&text, 0, "[profile \"%s\"]", wanted->name);
		add_problem(profiler, text.text, sampler_problem(profiler->sampler, i));
		reason_set(&text, 0, "%s is sampled at %" PRIu64 " Hz: kernel.perf_event_max_sample_rate", wanted->name,
			   sample_rate_limit(&profiler->rate));
		if (now->rate < wanted->rate || now->period > wanted->period)
			add_problem(profiler, "", text.text);
		note_pauses(profiler, i);
	}
	add_problem(profiler, "", sampler_shortage(profiler->sampler));
	add_problem(profiler, "", sampler_stuck(profiler->sampler));
	text.text[0] = '\0';
	stacks_explain(&profiler->stacks, &text);
	add_problem(profiler, "", text.text);
}

static void set_paces(struct profiler *profiler)
{
	sample_rate_read(&profiler->rate, profiler->procfs);
	for (size_t i = 0; i < profiler->settings.nr_events; i++)
		(void)pace_set(&profiler->events[i], &profiler->settings.events[i], sample_rate_limit(&profiler->rate));
}

static void explain_refusal(const struct profiler *profiler, int error, struct reason *why)
{
	struct privilege privilege;

	privilege_read(&privilege, profiler->procfs);
	if (privilege_may_count_cpus(&privilege))
		return;
	privilege_explain(&privilege, why);
	reason_prefix(why, 0, "not permitted (%s)", strerrorname_np(-error));
}

static int start_sampler(struct profiler *profiler, struct reason *why)
{
	int r;

	set_paces(profiler);
	r = sample_rate_check(&profiler->rate, why);
	if (r == 0)
		r = sampler_new(&profiler->sampler, profiler->events, profiler->settings.nr_events,
				&profiler->settings.cpus, profiler->closer, why);
	if (r == -EACCES || r == -EPERM)
		explain_refusal(profiler, r, why);
	if (r < 0)
		return r;
	r = watch_fd(profiler, sampler_fd(profiler->sampler));
	if (r == 0)
		return 0;
	profiler->sampler = sampler_free(profiler->sampler);
	return reason_set(why, r, "rings can't be polled: %s", strerror(-r));
}

const char *profiler_problem(const struct profiler *profiler)
{
	return profiler->problem.text;
}

const struct profiler_settings *profiler_settings(const struct profiler *profiler)
{
	return &profiler->settings;
}

bool profiler_is_on(const struct profiler *profiler)
{
	return profiler->sampler;
}

const char *profiler_event_problem(const struct profiler *profiler, size_t event)
{
	return profiler->sampler ? sampler_problem(profiler->sampler, event) : profiler->problem.text;
}

/* Up to now. */
static void note_gap(struct profiler *profiler, uint64_t from)
{
	profiler->drained = clock_monotonic_ns();
	archive_gaps_note(&profiler->gaps, from, profiler->drained);
}

static int make_parts(struct profiler *profiler)
{
	int r = archive_new(&profiler->archive, 0);

	if (unit_saved_path("kallsyms", &profiler->kallsyms) == -ENOMEM ||
	    unit_saved_path("processes", &profiler->process_list) == -ENOMEM)
		return -ENOMEM;
	if (r == 0)
		r = async_close_new(&profiler->closer);
	if (r == 0)
		r = processes_new(&profiler->processes, profiler->procfs, profiler->process_list, LOOK_UP_NS);
	if (r == 0)
		r = cgroup_names_new(&profiler->cgroups);
	if (r == 0)
		r = namer_new(&profiler->namer, profiler->procfs);
	if (r == 0)
		r = watch_fd(profiler, namer_fd(profiler->namer));
	if (r == 0)
		r = kernel_functions_init(&profiler->kernel, profiler->epoll_fd);
	if (r == 0)
		r = stacks_init(&profiler->stacks, profiler->procfs);
	if (r == 0)
		r = watch_fd(profiler, frame_tables_fd(profiler->stacks.tables));
	return r;
}

int profiler_new(struct profiler **ret, const char *procfs, struct reason *why)
{
	_cleanup_(profiler_freep) struct profiler *profiler = calloc(1, sizeof(*profiler));

	if (!profiler)
		return reason_set(why, -ENOMEM, "out of memory");
	profiler->procfs = procfs;
	profiler->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (profiler->epoll_fd < 0)
		return reason_set(why, -errno, "rings can't be polled: %s", strerror(errno));
	if (make_parts(profiler) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	*ret = steal_ptr(profiler);
	return 0;
}

void profiler_keep_processes(struct profiler *profiler, const int files[static PROFILER_NR_TABLES])
{
	int r = process_table_new(&profiler->table, files, PROFILER_TABLE_SIZE);

	if (r == 0)
		r = processes_take_table(profiler->processes, profiler->table);
	if (r >= 0)
		log_info("profiler: %d processes are known from the profiler before", r);
	else if (r != -ENOENT)
		log_warning("profiler: what the one before knew of processes is lost: %s", strerror(-r));
}

static void forget_raised(struct profiler *profiler)
{
	for (size_t i = 0; i < ARRAY_SIZE(profiler->raised); i++) {
		free(profiler->raised[i]);
		profiler->raised[i] = NULL;
	}
}

struct profiler *profiler_free(struct profiler *profiler)
{
	if (!profiler)
		return NULL;
	sampler_free(profiler->sampler);
	forget_raised(profiler);
	stacks_release(&profiler->stacks);
	processes_free(profiler->processes);
	process_table_free(profiler->table);
	cgroup_names_free(profiler->cgroups);
	namer_free(profiler->namer);
	kernel_functions_release(&profiler->kernel);
	free(profiler->kallsyms);
	free(profiler->process_list);
	archive_free(profiler->archive);
	async_close_free(profiler->closer);
	profiler_settings_release(&profiler->settings);
	free(profiler->events);
	free(profiler->names);
	safe_close(profiler->epoll_fd);
	free(profiler);
	return NULL;
}

/* Samples that were visible before may not be any more. */
static int follow_filter(struct profiler *profiler, const struct profiler_settings *next)
{
	const struct profiler_settings *now = &profiler->settings;
	struct archive *archive;

	cgroup_names_forget_verdicts(profiler->cgroups);
	if (profiler->is_taken_up) {
		profiler->is_taken_up = false;
		return 0;
	}
	if (next->nr_events && texts_are_equal(now->include, now->nr_include, next->include, next->nr_include) &&
	    texts_are_equal(now->exclude, now->nr_exclude, next->exclude, next->nr_exclude)) {
		archive_set_limit(profiler->archive, (size_t)next->memory);
		return 0;
	}
	if (archive_new(&archive, (size_t)next->memory) < 0)
		return -ENOMEM;
	stacks_forget_waiting(&profiler->stacks);
	archive_free(profiler->archive);
	profiler->archive = archive;
	profiler->since = 0; /* until the rings are open */
	namer_forget(profiler->namer);
	return 0;
}

static void note_past(struct profiler *profiler)
{
	struct sampler_stats stats = sampler_stats(profiler->sampler);

	profiler->past.samples += stats.samples;
	profiler->past.lost += stats.lost;
	profiler->past.lost_records += stats.lost_records;
	profiler->past.unsampled += stats.unsampled;
	profiler->past.throttled += stats.throttled;
}

const struct archive_gaps *profiler_gaps(const struct profiler *profiler)
{
	return &profiler->gaps;
}

/* The events of the settings, whose periods and rates may be changed. */
static int copy_events(struct profiler *profiler)
{
	size_t nr = profiler->settings.nr_events;

	free(profiler->events);
	free(profiler->names);
	profiler->events = calloc(nr + 1, sizeof(*profiler->events));
	profiler->names = calloc(nr + 1, sizeof(*profiler->names));
	if (!profiler->events || !profiler->names)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		profiler->events[i] = profiler->settings.events[i];
		profiler->events[i].stack_bytes *= frame_rules_are_built_in() ? 1 : 0;
		profiler->names[i] = profiler->events[i].name;
	}
	return 0;
}

void profiler_reopen(struct profiler *profiler)
{
	struct reason why = {};
	int r;

	if (profiler->sampler)
		note_past(profiler);
	profiler->sampler = sampler_free(profiler->sampler);
	forget_raised(profiler);
	profiler->problem.text[0] = '\0';
	if (!profiler->settings.nr_events) {
		profiler->drained = profiler->since = 0; /* nobody misses samples */
		return;
	}
	r = copy_events(profiler) < 0 ? reason_set(&why, -ENOMEM, "out of memory") : start_sampler(profiler, &why);
	if (r < 0) {
		reason_set(&profiler->problem, 0, "no profiles: %s", why.text);
		return;
	}
	note_problems(profiler);
	processes_note_lost(profiler->processes); /* those of the meantime */
	note_gap(profiler, profiler->drained ? profiler->drained : UINT64_MAX);
	if (!profiler->since)
		profiler->since = archive_moment(profiler->drained); /* where the gap ends */
}

int profiler_use(struct profiler *profiler, struct profiler_settings *settings)
{
	if (follow_filter(profiler, settings) < 0 ||
	    stacks_use_jit(&profiler->stacks, settings->jit, profiler->procfs, profiler->epoll_fd) < 0)
		return -ENOMEM;
	profiler_settings_release(&profiler->settings);
	profiler->settings = steal_struct(*settings);
	profiler->filter = filter_of(&profiler->settings);
	frame_tables_set_limit(profiler->stacks.tables, (size_t)profiler->settings.tables);
	if (!profiler->drained)
		profiler->drained = profiler->settings.sampled;
	profiler_reopen(profiler);
	/* Permission to read the list may have come or gone. */
	if (profiler->settings.nr_events)
		kernel_functions_read(&profiler->kernel, profiler->procfs, profiler->kallsyms);
	else
		kernel_functions_forget(&profiler->kernel);
	return 0;
}

/* --- over a restart */

void profiler_add_waiting(struct profiler *profiler)
{
	archive_close_segment(profiler->archive);
	if (profiler->stacks.jit)
		jit_functions_forget_lists(profiler->stacks.jit);
	stacks_add_waiting(&profiler->stacks, profiler->archive, &profiler->kernel);
}

void profiler_end_waiting(struct profiler *profiler)
{
	stacks_end_waiting(&profiler->stacks, profiler->archive, &profiler->kernel);
}

int profiler_save(const struct profiler *profiler, size_t max, uint64_t deadline, struct buf *out, struct reason *why)
{
	_cleanup_(origin_release) struct origin origin = {};
	const struct sampler_stats stats = profiler->sampler ? sampler_stats(profiler->sampler) :
							       (struct sampler_stats){};
	struct archive_past past = {
		.since = profiler->since,
		.drained = profiler->drained,
		.gaps = profiler->gaps,
		.samples = profiler->past.samples + stats.samples,
		.lost = profiler->past.lost + stats.lost,
		.unfollowed = profiler->past.lost_records + stats.lost_records,
		.unsampled = profiler->past.unsampled + stats.unsampled,
		.throttled = profiler->past.throttled + stats.throttled,
	};
	int r;

	if (!profiler->since)
		return -ENODATA;
	r = origin_make(&origin, &profiler->settings);
	if (r == 0)
		r = archive_write(profiler->archive, &past, &origin.is, max, deadline, out);
	if (r == -EFBIG)
		return reason_set(why, r, "their stacks and names alone have more than %zu MiB", max >> 20);
	return r < 0 ? reason_set(why, r, "%s", r == -ETIME ? "it takes too long" : strerror(-r)) : 0;
}

int profiler_take_up(struct profiler *profiler, const struct profiler_settings *settings, const void *bytes, size_t len,
		     struct reason *why)
{
	_cleanup_(origin_release) struct origin origin = {};
	struct archive_past past;
	struct archive *archive;
	int r = origin_make(&origin, settings);

	if (r < 0)
		return reason_set(why, r, "out of memory");
	r = archive_read(&archive, &past, &origin.is, bytes, len, (size_t)settings->memory, why);
	if (r < 0)
		return r;
	archive_free(profiler->archive);
	profiler->archive = archive;
	profiler->is_taken_up = true;
	profiler->since = past.since;
	profiler->drained = past.drained;
	profiler->gaps = past.gaps;
	profiler->past = (struct sampler_stats){
		.samples = past.samples,
		.lost = past.lost,
		.lost_records = past.unfollowed,
		.unsampled = past.unsampled,
		.throttled = past.throttled,
	};
	return 0;
}

/* Can sampling go on as it is? */
static bool goes_on(const struct profiler *profiler, const struct sample_rate *rate)
{
	bool is_safe = sample_rate_check(rate, NULL) == 0;

	if (!profiler->sampler)
		return !is_safe || sample_rate_check(&profiler->rate, NULL) == 0;
	return is_safe && (sample_rate_limit(rate) == sample_rate_limit(&profiler->rate) ||
			   !paces_change(profiler->events, profiler->settings.events, profiler->settings.nr_events,
					 sample_rate_limit(rate)));
}

bool profiler_follow_rate(struct profiler *profiler)
{
	struct sample_rate rate;

	if (!profiler->settings.nr_events)
		return true;
	sample_rate_read(&rate, profiler->procfs);
	if (!goes_on(profiler, &rate))
		return false;
	if (profiler->sampler) {
		profiler->rate = rate;
		note_problems(profiler);
	}
	return true;
}

int profiler_fd(const struct profiler *profiler)
{
	return profiler->epoll_fd;
}

/* --- samples */

/* event: its name in the archive. */
static void take_sample(struct profiler *profiler, const char *event, const struct record *record)
{
	const struct process *process = processes_find(profiler->processes, record->id.pid);
	struct cgroup_name cgroup = { .path = UNKNOWN };
	struct archive_sample sample = {
		.time = record->id.time,
		.event = event,
		.command = process && process->comm[0] ? process->comm : UNKNOWN,
		.thread = processes_thread_name(profiler->processes, record->id.pid, record->id.tid),
		.weight = record->sample.period,
	};
	struct unwind_registers registers;
	struct unwind_copy copy;
	struct stack_source source = stack_source_of(&record->sample, process);

	/* One that is not known may be one of those that nobody is to see. */
	if (!cgroup_names_find(profiler->cgroups, &profiler->filter, record->sample.cgroup, &cgroup))
		cgroup.hidden = !cgroup_filter_admits(&profiler->filter, UNKNOWN) || profiler->filter.nr_exclude > 0;
	sample.cgroup = cgroup.path;
	if (cgroup.hidden) {
		sample.cgroup = sample.command = sample.thread = ARCHIVE_HIDDEN;
		sample.end = STACK_WHOLE; /* no caller is to be seen */
		(void)archive_add(profiler->archive, &sample);
		return;
	}
	if (process && !process->mappings_error && unwind_sample(&record->sample, UNWIND_OWN, &registers, &copy)) {
		source.registers = &registers;
		source.copy = &copy;
	}
	stacks_add(&profiler->stacks, profiler->archive, &profiler->kernel, &sample, &source);
}

/* Code that the kernel makes or loads while it runs, as BPF programs. */
static void take_kernel_symbol(struct profiler *profiler, const struct record *record)
{
	uint64_t start = record->ksymbol.address, end = start + record->ksymbol.size;

	if (record->ksymbol.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER)
		kernel_functions_remove(&profiler->kernel, start, end);
	else if (end > start)
		kernel_functions_put(&profiler->kernel, start, end, record->ksymbol.name);
}

static void take_record(void *userdata, size_t event, const struct record *record)
{
	struct profiler *profiler = userdata;

	if (record->type == PERF_RECORD_SAMPLE)
		take_sample(profiler,
			    event < profiler->settings.nr_events ?
				    profiler->events[event].key :
				    profiler->raised[event - profiler->settings.nr_events],
			    record);
	else if (record->type == PERF_RECORD_CGROUP && !profiler->settings.part)
		cgroup_names_note(profiler->cgroups, record->cgroup.id, record->cgroup.path);
	else if (record->type == PERF_RECORD_KSYMBOL)
		take_kernel_symbol(profiler, record);
	else if (event == SAMPLER_SIDE_BAND)
		processes_take(profiler->processes, record);
}

/* --- all of it */

/* What is lost last of all, no record tells. */
static void tidy(struct profiler *profiler, uint64_t now)
{
	uint64_t lost = sampler_stats(profiler->sampler).lost_records;

	if (lost != profiler->lost_records)
		processes_note_lost(profiler->processes);
	profiler->lost_records = lost;
	processes_tidy(profiler->processes, now);
	kernel_functions_follow(&profiler->kernel, profiler->procfs, profiler->kallsyms);
	profiler->tidied = now;
}

/* One that could not be written is written the next time; the one before counts until then. */
static void save_processes(struct profiler *profiler, uint64_t now)
{
	if (profiler->table)
		(void)processes_save_table(profiler->processes, profiler->table);
	profiler->saved = now;
}

/* Values of registers are on the stack while stacks are unwound. Children that are forked later do not get them. */
static __attribute__((noinline)) void take_samples(struct profiler *profiler)
{
	uint64_t until;

	processes_follow_list(profiler->processes);
	until = sampler_drain(profiler->sampler, take_record, profiler);
	if (until > profiler->drained)
		profiler->drained = until;
}

void profiler_turn(struct profiler *profiler)
{
	uint64_t now = clock_monotonic_ns();

	if (profiler->sampler)
		take_samples(profiler);
	memory_erase_stack();
	stacks_turn(&profiler->stacks, profiler->archive, &profiler->kernel, profiler->processes);
	memory_erase_stack();
	namer_turn(profiler->namer, profiler->archive, profiler->processes, &profiler->kernel, profiler->stacks.jit);
	if (profiler->sampler && now - profiler->tidied > TIDY_NS)
		tidy(profiler, now);
	if (profiler->sampler && now - profiler->saved > SAVE_NS)
		save_processes(profiler, now);
}

void profiler_note_cgroup(struct profiler *profiler, uint64_t id, const char *path)
{
	if (path)
		cgroup_names_put(profiler->cgroups, id, path);
	else
		cgroup_names_end(profiler->cgroups, id);
}

void profiler_end_cgroups(struct profiler *profiler, bool is_new_tree)
{
	if (is_new_tree)
		cgroup_names_forget(profiler->cgroups);
	else
		cgroup_names_end_all(profiler->cgroups);
}

static int explain_unknown(const struct profiler *profiler, const char *name, struct reason *why)
{
	char excerpt[EXCERPT_MAX];
	struct reason known = {};

	for (size_t i = 0; i < profiler->settings.nr_events; i++) {
		struct reason before = known;

		reason_set(&known, 0, "%s%s%s", before.text, i ? ", " : "", profiler->events[i].name);
	}
	return reason_set(why, -ENOENT, "no event '%s' is sampled; known: %s", text_excerpt(excerpt, name), known.text);
}

static void fill_measure(struct profile_measure *ret, const struct profiler *profiler,
			 const struct sampled_event *event)
{
	*ret = (struct profile_measure){
		.event = event->name,
		.events = profiler->names,
		.unit = event->unit,
		.scale = event->scale,
		.period = sampled_event_period(event),
		.since = profiler->since,
		.problem = profiler->problem.text,
	};
}

/* The number of the event of that name; negative errno with the sentence in why. */
static int find_event(const struct profiler *profiler, const char *name, struct reason *why)
{
	for (size_t i = 0; i < profiler->settings.nr_events; i++) {
		const char *problem = profiler_event_problem(profiler, i);

		if (strcmp(profiler->settings.events[i].name, name))
			continue;
		if (!profiler->sampler)
			return reason_set(why, -EOPNOTSUPP, "%s", problem);
		return problem[0] ? reason_set(why, -EOPNOTSUPP, "[profile \"%s\"]: %s", name, problem) : (int)i;
	}
	return explain_unknown(profiler, name, why);
}

int profiler_ask(const struct profiler *profiler, const char *event, const struct profile_query *query,
		 struct profile **ret, struct profile_measure *ret_measure, struct reason *why)
{
	struct profile_query whole = *query;
	/* Whole milliseconds: rounding the end of the stretch to the nearest must not put it later. */
	uint64_t drained = profiler->drained - profiler->drained % NS_PER_MS, from, to;
	int r, number = find_event(profiler, event, why);

	if (number < 0)
		return number;
	fill_measure(ret_measure, profiler, &profiler->events[number]);
	whole.event = profiler->events[number].key;
	whole.since = profiler->since;
	/* What is later may lack samples that are in the rings. Slots keep the width that was asked for. */
	if (whole.to > drained && !query->nr_slots)
		whole.to = whole.from > drained ? whole.from : drained;
	r = profile_new(ret, profiler->archive, &whole);
	if (r < 0)
		return r;
	/* Where the stretch reaches back to the beginning, what was before is told as well. */
	profile_stretch(*ret, &from, &to);
	ret_measure->gaps = archive_gaps_between(&profiler->gaps, from > profiler->since ? from : query->from, to);
	return 0;
}

void profiler_stats(const struct profiler *profiler, struct profiler_stats *ret)
{
	struct sampler_stats sampler = profiler->sampler ? sampler_stats(profiler->sampler) : (struct sampler_stats){};
	const struct kernel_functions_stats kernel = kernel_functions_stats(&profiler->kernel);
	uint64_t oldest = archive_oldest(profiler->archive), now = clock_monotonic_ns();

	*ret = (struct profiler_stats){
		.samples = profiler->past.samples + sampler.samples,
		.lost = profiler->past.lost + sampler.lost,
		.unfollowed = profiler->past.lost_records + sampler.lost_records,
		.unsampled = profiler->past.unsampled + sampler.unsampled,
		.throttled = profiler->past.throttled + sampler.throttled,
		.dropped = archive_stats(profiler->archive).dropped,
		.bytes = archive_bytes(profiler->archive),
		.ring_bytes = sampler.ring_bytes,
		.gap_ns = profiler->gaps.ns,
		.reach = oldest && now > oldest ? now - oldest : 0,
		.cpu_ns = namer_cpu_ns(profiler->namer) + kernel.cpu_ns,
		.processes = processes_stats(profiler->processes).processes,
		.list_bytes = namer_list_bytes(profiler->namer) + kernel.bytes,
	};
	stacks_add_stats(&profiler->stacks, ret);
}

/* --- for captures */

int profiler_describe(const struct profiler *profiler, const char *event, struct profile_measure *ret,
		      const char **ret_key, struct reason *why)
{
	int number = find_event(profiler, event, why);

	if (number < 0)
		return number;
	fill_measure(ret, profiler, &profiler->events[number]);
	*ret_key = profiler->events[number].key;
	return 0;
}

const struct archive *profiler_archive(const struct profiler *profiler)
{
	return profiler->archive;
}

uint64_t profiler_drained(const struct profiler *profiler)
{
	return stacks_drained(&profiler->stacks, profiler->drained);
}

bool profiler_admits(const struct profiler *profiler, const char *label)
{
	return cgroup_filter_admits(&profiler->filter, label);
}

int profiler_raise(struct profiler *profiler, const char *event, uint64_t rate, int cgroup, const char *key,
		   struct reason *why)
{
	_cleanup_(freep) char *copy = strdup(key);
	struct sampled_event what;
	int number = find_event(profiler, event, why);

	if (number < 0)
		return number;
	if (!copy)
		return reason_set(why, -ENOMEM, "out of memory");
	what = profiler->events[number];
	/* Far from where the kernel would pause it. */
	if (rate > sample_rate_limit(&profiler->rate) / 2)
		rate = sample_rate_limit(&profiler->rate) / 2;
	if (what.period || what.rate >= rate)
		return reason_set(why, -EALREADY, "%s is sampled as often anyway, or may not be any more often", event);
	what.rate = rate;
	what.stack_bytes = 0;
	number = sampler_add(profiler->sampler, &what, cgroup, why);
	if (number >= 0)
		profiler->raised[(size_t)number - profiler->settings.nr_events] = steal_ptr(copy);
	return number;
}

void profiler_lower(struct profiler *profiler, int number)
{
	char **key = &profiler->raised[(size_t)number - profiler->settings.nr_events];

	sampler_remove(profiler->sampler, (size_t)number);
	free(*key);
	*key = NULL;
}
