/* SPDX-License-Identifier: MIT */

#include "profiler/profiler.h"

#include "base/host/unit-folders.h"
#include "base/util/clock.h"
#include "base/util/file.h"
#include "base/util/text.h"
#include "profiler/cgroup-names.h"
#include "profiler/naming/resolver.h"
#include "profiler/process/processes.h"
#include "profiler/profile-events.h"
#include "profiler/stack/places.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The resolver's CPU time: it begins with the most that it may have. */
#define NAMING_BURST_NS (2 * (int64_t)NS_PER_S)
#define NAMING_SHARE 1000

/* The kernel's list is read as a whole, so a pause of so many times the CPU time of the last reading lets more places
 * come together for the next one. */
#define NAMING_PAUSE 10

/* Those that are polled, a child's, and the loop's. */
#define OTHER_FILES 8

#define TIDY_NS (5 * (uint64_t)NS_PER_S)

/* For so much CPU time a turn takes records: one that is put off the CPU would get nothing done by the clock. It looks
 * at the time after each LOOK_AT_TIME records. */
#define TURN_NS (3 * NS_PER_MS)
#define LOOK_AT_TIME 16

/* For how long a process that has its mappings locked is waited for. */
#define LOOK_UP_NS (50 * (uint64_t)NS_PER_MS)

/* For so long after it a pause is told. */
#define PAUSED_NS (60 * (uint64_t)NS_PER_S)

/* Gaps that are remembered with their times. */
#define GAPS_MAX 64

#define CGROUP_UNKNOWN "(unknown)"
#define COMMAND_UNKNOWN "(unknown)"

/* A stretch in which nothing was sampled, CLOCK_MONOTONIC ns. */
struct gap {
	uint64_t from, to;
};

struct profiler {
	const struct config *config;
	struct cgroup_filter filter;
	struct profile_events events;
	char *raised[SAMPLER_EXTRAS]; /* names in the archive of events that are sampled for a while; NULL: none */
	struct reason problem;
	uint64_t rate_limit; /* Hz: the highest that may be asked for */
	struct sampler *sampler;
	struct sampler_stats past; /* of samplers before it */
	struct processes *processes;
	struct cgroup_names *cgroups;
	struct archive *archive;
	struct resolver *resolver;
	struct kernel_functions kernel;
	char *kallsyms, *process_list; /* where root saves them for a service, or NULL */
	int epoll_fd;		       /* of the sampler, the resolver's child, and … */
	int again_fd;		       /* … an eventfd: records were left over */
	uint64_t deadline;	       /* ns of the thread's CPU time: of this turn */
	uint64_t taken;		       /* records */
	uint64_t drained;	       /* CLOCK_MONOTONIC ns: the archive has all samples until then */
	uint64_t since;		       /* … when the archive was begun */
	struct gap gaps[GAPS_MAX];
	size_t nr_gaps; /* ever */
	uint64_t gap_ns;
	struct profiler_world world;

	struct archive_request request; /* the resolver's work, if it is busy */
	uint64_t offsets[RESOLVER_PLACES];
	bool asked_kernel;
	int64_t naming_ns;	       /* CPU time that the resolver may still take */
	uint64_t naming_credited;      /* CLOCK_MONOTONIC ns: when it was last given more */
	uint64_t kernel_due;	       /* the kernel's list is not read again before */
	uint64_t tidied, lost_records; /* lost_records: of the sampler, then */
	uint64_t cpu_ns;	       /* the daemon's, without children */
};

/* --- life */

static struct cgroup_filter filter_of_config(const struct config *config)
{
	return (struct cgroup_filter){
		.include = config->profiles_include.items,
		.nr_include = config->profiles_include.nr,
		.exclude = config->profiles_exclude.items,
		.nr_exclude = config->profiles_exclude.nr,
	};
}

static int watch_fd(struct profiler *profiler, int fd)
{
	struct epoll_event events = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(profiler->epoll_fd, EPOLL_CTL_ADD, fd, &events) < 0 ? -errno : 0;
}

int profiler_check(const struct config *config, const struct event_env *env, struct reason *why)
{
	_cleanup_(profile_events_release) struct profile_events events = {};

	return profile_events_parse(&events, config, env, UINT64_MAX, why);
}

size_t profiler_fds(const struct config *config, size_t cpus, uint64_t fd_limit)
{
	size_t events = config->nr_profiles + 2; /* cpu-clock, and what happens beside the samples */
	size_t fds;

	for (size_t i = 0; i < config->nr_captures; i++)
		if (config->captures[i].rate) {
			events += SAMPLER_EXTRAS;
			break;
		}
	fds = OTHER_FILES + cpus * events;

	return config->profiles_enabled && fds <= fd_limit / 4 ? fds : 0;
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
		   profiler->events.items[event].name);
	add_problem(profiler, "", text.text);
}

static void note_problems(struct profiler *profiler)
{
	const struct config *config = profiler->config;
	uint64_t rate = profiler->rate_limit;
	struct reason text;

	profiler->problem.text[0] = '\0';
	for (size_t i = 0; i < profiler->events.nr; i++) {
		const char *name = profiler->events.items[i].name;

		reason_set(&text, 0, "[profile \"%s\"]", name);
		add_problem(profiler, text.text, sampler_problem(profiler->sampler, i));
		reason_set(&text, 0, "%s is sampled at %" PRIu64 " Hz: kernel.perf_event_max_sample_rate", name, rate);
		if ((i ? config->profiles[i - 1].rate : config->profiles_rate) > rate ||
		    (i && profiler->events.items[i].what.period > config->profiles[i - 1].period))
			add_problem(profiler, "", text.text);
		note_pauses(profiler, i);
	}
	add_problem(profiler, "", sampler_memory_problem(profiler->sampler));
}

static int start_sampler(struct profiler *profiler, const struct profiler_setup *setup, struct reason *why)
{
	uint64_t rate = sample_rate_limit(setup->rate);
	_cleanup_(freep) struct sampled_event *events = NULL;
	int r;

	if (!profiler_fds(setup->config, setup->cpus->nr, setup->fd_limit))
		return reason_set(why, -EMFILE,
				  "they would take more than a quarter of the limit of open files (LimitNOFILE=)");
	r = sample_rate_check(setup->rate, why);
	if (r < 0)
		return r;
	profile_events_release(&profiler->events);
	r = profile_events_parse(&profiler->events, setup->config, setup->env, rate, why);
	if (r < 0)
		return r;
	events = calloc(profiler->events.nr, sizeof(*events));
	if (!events)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < profiler->events.nr; i++)
		events[i] = profiler->events.items[i].what;
	r = sampler_new(&profiler->sampler, events, profiler->events.nr, setup->cpus, setup->closer, why);
	if (r < 0)
		return r;
	profiler->rate_limit = rate;
	note_problems(profiler);
	r = watch_fd(profiler, sampler_fd(profiler->sampler));
	return r < 0 ? reason_set(why, r, "rings can't be polled: %s", strerror(-r)) : 0;
}

/* Its fd is readable when a child has ended. */
static int make_resolver(struct profiler *profiler)
{
	const struct resolver_roots roots = {
		.proc = profiler->config->procfs.text,
		.debug = "/usr/lib/debug",
		.kallsyms = profiler->kallsyms,
	};
	int r = resolver_new(&profiler->resolver, &roots);

	return r < 0 ? r : watch_fd(profiler, resolver_fd(profiler->resolver));
}

/* Would any event have another period or rate? True also where that can't be found out. */
static bool paces_change(const struct profiler *profiler, const struct event_env *env, uint64_t rate)
{
	_cleanup_(profile_events_release) struct profile_events next = {};
	struct reason ignored;

	if (profile_events_parse(&next, profiler->config, env, rate, &ignored) < 0 || next.nr != profiler->events.nr)
		return true;
	for (size_t i = 0; i < next.nr; i++) {
		const struct sampled_event *now = &profiler->events.items[i].what, *then = &next.items[i].what;

		if (now->period != then->period || now->rate != then->rate)
			return true;
	}
	return false;
}

bool profiler_follow_rate(struct profiler *profiler, const struct event_env *env, const struct sample_rate *rate)
{
	uint64_t limit = sample_rate_limit(rate);

	if (limit != profiler->rate_limit && paces_change(profiler, env, limit))
		return false;
	profiler->rate_limit = limit;
	note_problems(profiler);
	return true;
}

const char *profiler_problem(const struct profiler *profiler)
{
	return profiler->problem.text;
}

size_t profiler_nr_lost(const struct profiler *profiler)
{
	size_t nr = 0;

	/* The first one is that of no section. */
	for (size_t i = 1; i < profiler->events.nr; i++)
		nr += sampler_problem(profiler->sampler, i)[0] != '\0';
	return nr;
}

/* Up to now. */
static void note_gap(struct profiler *profiler, uint64_t from)
{
	const struct gap gap = { .from = from, .to = clock_monotonic_ns() };

	profiler->drained = gap.to;
	if (gap.from >= gap.to)
		return;
	profiler->gaps[profiler->nr_gaps++ % GAPS_MAX] = gap;
	profiler->gap_ns += gap.to - gap.from;
}

static int make_parts(struct profiler *profiler)
{
	const struct config *config = profiler->config;
	int r = archive_new(&profiler->archive, (size_t)config->profiles_memory);

	if (unit_saved_path("kallsyms", &profiler->kallsyms) == -ENOMEM ||
	    unit_saved_path("processes", &profiler->process_list) == -ENOMEM)
		return -ENOMEM;
	if (r == 0)
		r = processes_new(&profiler->processes, config->procfs.text, profiler->process_list, LOOK_UP_NS);
	if (r == 0)
		r = cgroup_names_new(&profiler->cgroups);
	if (r == 0)
		r = make_resolver(profiler);
	return r;
}

int profiler_new(struct profiler **ret, const struct profiler_setup *setup, struct reason *why)
{
	_cleanup_(profiler_freep) struct profiler *profiler = calloc(1, sizeof(*profiler));
	int r;

	if (!profiler)
		return reason_set(why, -ENOMEM, "out of memory");
	profiler->config = setup->config;
	profiler->filter = filter_of_config(setup->config);
	profiler->naming_ns = NAMING_BURST_NS;
	profiler->naming_credited = clock_monotonic_ns();
	profiler->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	profiler->again_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (profiler->epoll_fd < 0 || profiler->again_fd < 0 || watch_fd(profiler, profiler->again_fd) < 0)
		return reason_set(why, -errno, "rings can't be polled: %s", strerror(errno));
	if (make_parts(profiler) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	r = start_sampler(profiler, setup, why);
	if (r < 0)
		return r;
	profiler->drained = clock_monotonic_ns();
	if (setup->sampled)
		note_gap(profiler, setup->sampled);
	profiler->since = archive_moment(profiler->drained); /* where the gap ends */
	*ret = steal_ptr(profiler);
	return 0;
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
	processes_free(profiler->processes);
	cgroup_names_free(profiler->cgroups);
	resolver_free(profiler->resolver);
	kernel_functions_forget(&profiler->kernel);
	free(profiler->kallsyms);
	free(profiler->process_list);
	archive_free(profiler->archive);
	profile_events_release(&profiler->events);
	safe_close(profiler->epoll_fd);
	safe_close(profiler->again_fd);
	free(profiler);
	return NULL;
}

/* What was visible before may not be any more. */
static int follow_filter(struct profiler *profiler, const struct config *config)
{
	const struct config *before = profiler->config;
	struct archive *archive;
	int r;

	cgroup_names_forget(profiler->cgroups);
	if (config_list_equal(&before->profiles_include, &config->profiles_include) &&
	    config_list_equal(&before->profiles_exclude, &config->profiles_exclude))
		return 0;
	r = archive_new(&archive, (size_t)config->profiles_memory);
	if (r < 0)
		return r;
	archive_free(profiler->archive);
	profiler->archive = archive;
	profiler->since = archive_moment(clock_monotonic_ns());
	profiler->request.nr = 0; /* its answers are of the other's */
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

uint64_t profiler_gaps(const struct profiler *profiler, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < profiler->nr_gaps && i < GAPS_MAX; i++) {
		const struct gap *gap = &profiler->gaps[i];
		uint64_t begin = gap->from > from ? gap->from : from, end = gap->to < to ? gap->to : to;

		sum += end > begin ? end - begin : 0;
	}
	return sum;
}

int profiler_use(struct profiler *profiler, const struct profiler_setup *setup, struct reason *why)
{
	int r;

	if (follow_filter(profiler, setup->config) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	profiler->config = setup->config;
	profiler->filter = filter_of_config(setup->config);
	kernel_functions_forget(&profiler->kernel); /* modules may be others, and what is hidden too */
	archive_set_limit(profiler->archive, (size_t)setup->config->profiles_memory);
	/* Events of a CPU that was offline for a moment are dead: all are opened anew. */
	note_past(profiler);
	profiler->sampler = sampler_free(profiler->sampler);
	forget_raised(profiler);
	r = start_sampler(profiler, setup, why);
	processes_note_lost(profiler->processes); /* those of the meantime */
	if (r == 0)
		note_gap(profiler, profiler->drained);
	return r;
}

int profiler_fd(const struct profiler *profiler)
{
	return profiler->epoll_fd;
}

/* --- samples */

/* event: its name in the archive. */
static void take_sample(struct profiler *profiler, const char *event, const struct record *record)
{
	struct archive_place places[ARCHIVE_DEPTH_MAX];
	const struct process *process = processes_find(profiler->processes, record->id.pid);
	struct cgroup_name cgroup = { .path = CGROUP_UNKNOWN };
	struct archive_sample sample = {
		.time = record->id.time,
		.event = event,
		.command = process && process->comm[0] ? process->comm : COMMAND_UNKNOWN,
		.weight = record->sample.period,
		.places = places,
	};

	/* One that is not known may be one of those that nobody is to see. */
	if (!cgroup_names_find(profiler->cgroups, profiler->world.tree, &profiler->filter, record->sample.cgroup,
			       &cgroup))
		cgroup.hidden = !cgroup_filter_admits(&profiler->filter, CGROUP_UNKNOWN) ||
				profiler->filter.nr_exclude > 0;
	sample.cgroup = cgroup.path;
	if (cgroup.hidden)
		sample.cgroup = sample.command = ARCHIVE_HIDDEN;
	else
		sample.nr = places_of_sample(places, &record->sample, process, &profiler->kernel);
	(void)archive_add(profiler->archive, &sample);
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

static bool take_record(void *userdata, size_t event, const struct record *record)
{
	struct profiler *profiler = userdata;

	if (record->type == PERF_RECORD_SAMPLE)
		take_sample(profiler,
			    event < profiler->events.nr ? profiler->events.items[event].key :
							  profiler->raised[event - profiler->events.nr],
			    record);
	else if (record->type == PERF_RECORD_CGROUP && !profiler->world.part)
		cgroup_names_note(profiler->cgroups, record->cgroup.id, record->cgroup.path);
	else if (record->type == PERF_RECORD_KSYMBOL)
		take_kernel_symbol(profiler, record);
	else if (event == SAMPLER_SIDE_BAND)
		processes_take(profiler->processes, record);
	return ++profiler->taken % LOOK_AT_TIME != 0 || clock_thread_ns() < profiler->deadline;
}

/* --- names */

static void credit_naming(struct profiler *profiler, uint64_t now)
{
	profiler->naming_ns += (int64_t)((now - profiler->naming_credited) / NAMING_SHARE);
	profiler->naming_credited = now;
	if (profiler->naming_ns > NAMING_BURST_NS)
		profiler->naming_ns = NAMING_BURST_NS;
}

static void take_answers(struct profiler *profiler)
{
	for (size_t i = 0; i < profiler->request.nr; i++) {
		struct resolver_answer answer;
		enum naming naming = resolver_answer(profiler->resolver, i, &answer);

		archive_answer(profiler->archive, &profiler->request, profiler->offsets[i], naming, answer.name,
			       answer.end ? profiler->offsets[i] - answer.start : 0);
		if (profiler->asked_kernel && answer.name)
			kernel_functions_put(&profiler->kernel, answer.start, answer.end, answer.name);
		if (naming == NAMING_KERNEL || naming == NAMING_NO_KALLSYMS)
			profiler->kernel.hidden = naming;
	}
	profiler->request.nr = 0;
	resolver_forget(profiler->resolver);
}

static int compare_offsets(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void ask_next(struct profiler *profiler, uint64_t now)
{
	struct archive_request *request = &profiler->request;
	const struct archive_module *module;
	const char *path;
	uint32_t user;
	int r;

	request->offsets = profiler->offsets;
	if (!archive_ask(profiler->archive, request, RESOLVER_PLACES, now >= profiler->kernel_due))
		return;
	qsort(profiler->offsets, request->nr, sizeof(*profiler->offsets), compare_offsets);
	module = table_at(&profiler->archive->modules, request->module);
	path = archive_text(profiler->archive, module->path);
	profiler->asked_kernel = strcmp(path, ARCHIVE_KERNEL) == 0;
	user = profiler->asked_kernel ? 0 : processes_user_of(profiler->processes, &module->key, path);
	r = resolver_start(profiler->resolver, path, profiler->asked_kernel ? NULL : &module->key, user,
			   profiler->offsets, request->nr);
	for (size_t i = 0; r < 0 && i < request->nr; i++)
		archive_answer(profiler->archive, request, profiler->offsets[i], NAMING_FAILED, NULL, 0);
}

static void name_functions(struct profiler *profiler)
{
	uint64_t before = resolver_cpu_ns(profiler->resolver), now = clock_monotonic_ns(), cost, begun;

	credit_naming(profiler, now);
	if (resolver_finish(profiler->resolver)) {
		cost = resolver_cpu_ns(profiler->resolver) - before;
		profiler->naming_ns -= (int64_t)cost;
		if (profiler->asked_kernel)
			profiler->kernel_due = now + cost * NAMING_PAUSE;
		take_answers(profiler);
	}
	if (resolver_is_busy(profiler->resolver) || profiler->naming_ns <= 0)
		return;
	/* To make a child takes time, too: the more, the more memory the daemon has. */
	begun = clock_thread_ns();
	ask_next(profiler, now);
	profiler->naming_ns -= (int64_t)(clock_thread_ns() - begun);
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
	profiler->tidied = now;
}

void profiler_turn(struct profiler *profiler, const struct profiler_world *world)
{
	uint64_t begun = clock_thread_ns(), now = clock_monotonic_ns(), until;
	eventfd_t times;

	profiler->world = *world;
	processes_follow_list(profiler->processes);
	profiler->deadline = begun + TURN_NS;
	(void)eventfd_read(profiler->again_fd, &times);
	if (!sampler_drain(profiler->sampler, take_record, profiler, &until))
		(void)eventfd_write(profiler->again_fd, 1);
	if (until > profiler->drained)
		profiler->drained = until;
	name_functions(profiler);
	if (now - profiler->tidied > TIDY_NS)
		tidy(profiler, now);
	profiler->world = (struct profiler_world){};
	profiler->cpu_ns += clock_thread_ns() - begun;
}

static int explain_unknown(const struct profiler *profiler, const char *name, struct reason *why)
{
	char excerpt[EXCERPT_MAX];
	struct reason known = {};

	for (size_t i = 0; i < profiler->events.nr; i++) {
		struct reason before = known;

		reason_set(&known, 0, "%s%s%s", before.text, i ? ", " : "", profiler->events.items[i].name);
	}
	return reason_set(why, -ENOENT, "no event '%s' is sampled; known: %s", text_excerpt(excerpt, name), known.text);
}

static void fill_measure(struct profile_measure *ret, const struct profiler *profiler,
			 const struct profile_event *event)
{
	const struct event *first = &event->events.events[0];
	const char *unit = event_unit_name(first->unit);

	*ret = (struct profile_measure){
		.event = event->name,
		.events = profiler->events.names,
		.unit = unit[0] ? unit : "count",
		.scale = first->scale,
		.period = sampled_event_period(&event->what),
		.since = profiler->since,
		.problem = profiler->problem.text,
	};
}

/* The number of the event of that name; negative errno with the sentence in why. */
static int find_event(const struct profiler *profiler, const char *name, struct reason *why)
{
	size_t number = profile_events_find(&profiler->events, name);

	if (number == SIZE_MAX)
		return explain_unknown(profiler, name, why);
	if (sampler_problem(profiler->sampler, number)[0])
		return reason_set(why, -EOPNOTSUPP, "[profile \"%s\"]: %s", name,
				  sampler_problem(profiler->sampler, number));
	return (int)number;
}

const struct profile_event *profiler_event(const struct profiler *profiler, const char *name)
{
	size_t number = profile_events_find(&profiler->events, name);

	if (number == SIZE_MAX || sampler_problem(profiler->sampler, number)[0])
		return NULL;
	return &profiler->events.items[number];
}

int profiler_ask(const struct profiler *profiler, const char *event, const struct profile_query *query,
		 struct profile **ret, struct profile_measure *ret_measure, struct reason *why)
{
	struct profile_query whole = *query;
	/* Whole milliseconds: rounding the end of the stretch to the nearest must not put it later. */
	uint64_t drained = profiler->drained - profiler->drained % NS_PER_MS;
	int r, number = find_event(profiler, event, why);

	if (number < 0)
		return number;
	fill_measure(ret_measure, profiler, &profiler->events.items[number]);
	whole.event = profiler->events.items[number].key;
	whole.since = profiler->since;
	/* What is later may lack samples that are in the rings. Slots keep the width that was asked for. */
	if (whole.to > drained && !query->nr_slots)
		whole.to = whole.from > drained ? whole.from : drained;
	r = profile_new(ret, profiler->archive, &whole);
	if (r < 0)
		return r;
	/* Where the stretch reaches back to the beginning, what was before is told as well. */
	ret_measure->gaps =
		profiler_gaps(profiler, (*ret)->from > profiler->since ? (*ret)->from : query->from, (*ret)->to);
	return 0;
}

void profiler_stats(const struct profiler *profiler, struct profiler_stats *ret)
{
	struct sampler_stats sampler = sampler_stats(profiler->sampler);
	uint64_t oldest = archive_oldest(profiler->archive), now = clock_monotonic_ns();

	*ret = (struct profiler_stats){
		.samples = profiler->past.samples + sampler.samples,
		.lost = profiler->past.lost + sampler.lost,
		.unfollowed = profiler->past.lost_records + sampler.lost_records,
		.unsampled = profiler->past.unsampled + sampler.unsampled,
		.throttled = profiler->past.throttled + sampler.throttled,
		.dropped = profiler->archive->dropped,
		.bytes = archive_bytes(profiler->archive),
		.ring_bytes = sampler.ring_bytes,
		.gap_ns = profiler->gap_ns,
		.reach = oldest && now > oldest ? now - oldest : 0,
		.cpu_ns = profiler->cpu_ns + resolver_cpu_ns(profiler->resolver),
		.processes = processes_stats(profiler->processes).processes,
	};
}

/* --- for captures */

int profiler_describe(const struct profiler *profiler, const char *event, struct profile_measure *ret,
		      const char **ret_key, struct reason *why)
{
	int number = find_event(profiler, event, why);

	if (number < 0)
		return number;
	fill_measure(ret, profiler, &profiler->events.items[number]);
	*ret_key = profiler->events.items[number].key;
	return 0;
}

const struct archive *profiler_archive(const struct profiler *profiler)
{
	return profiler->archive;
}

uint64_t profiler_drained(const struct profiler *profiler)
{
	return profiler->drained;
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
	what = profiler->events.items[number].what;
	/* Far from where the kernel would pause it. */
	if (rate > profiler->rate_limit / 2)
		rate = profiler->rate_limit / 2;
	if (what.period || what.rate >= rate)
		return reason_set(why, -EALREADY, "%s is sampled as often anyway, or may not be any more often", event);
	what.rate = rate;
	number = sampler_add(profiler->sampler, &what, cgroup, why);
	if (number >= 0)
		profiler->raised[(size_t)number - profiler->events.nr] = steal_ptr(copy);
	return number;
}

void profiler_lower(struct profiler *profiler, int number)
{
	char **key = &profiler->raised[(size_t)number - profiler->events.nr];

	sampler_remove(profiler->sampler, (size_t)number);
	free(*key);
	*key = NULL;
}
