/* SPDX-License-Identifier: MIT */

#include "profiler/sample/sampler.h"

#include "base/host/privilege.h"
#include "profiler/sample/pause.h"
#include "profiler/sample/ring-size.h"
#include "profiler/sample/sample-attr.h"
#include "profiler/sample/turned-ring.h"
#include "profiler/sample/unsampled.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* An event on its CPUs. */
struct sampled {
	struct sampled_event what; /* while it is opened */
	uint64_t period;	   /* of each sample; 0: the sample has it */
	bool is_clock;
	uint64_t paused_at;	  /* CLOCK_MONOTONIC ns: when the kernel has paused it for the last time; 0: never */
	int cgroup;		  /* then: a directory's fd; -1: all tasks */
	enum concession conceded; /* up to this */
	size_t nr_open;
	bool absent; /* on all CPUs, for the reason in problem */
	bool slow_to_close;
	struct reason problem;
};

/* One ring and the event it belongs to. */
struct source {
	int fd; /* -1: not open */
	int cpu;
	struct sampled *sampled; /* NULL: side-band */
	struct record_format format;
	struct ring_size room;
	struct turned_ring ring;
	uint64_t lost_heard;	    /* by records, each written when there is room again */
	uint64_t lost_read;	    /* by read(2), where the kernel counts it there: exact, and of this event alone */
	uint64_t read_at;	    /* lost_heard, then */
	struct pause pause;	    /* of a clock */
	struct unsampled unsampled; /* of an event with a period that is no clock */
	uint64_t compared_at;	    /* CLOCK_MONOTONIC ns: its count was read for that */
	/* The oldest record, while rings are merged. */
	struct record record;
	size_t size;
};

struct sampler {
	int epoll_fd;
	struct async_close *closer;
	struct sampled *events; /* nr_events, and then room for those that come and go */
	size_t nr_events;
	struct source *sources; /* of a CPU: side-band, then one for each event; those that come and go are the last */
	size_t nr_sources, nr_cpus;
	struct ring_turns *turns;
	struct source **heap; /* room for all sources; the one with the oldest record is the first */
	size_t nr_heap;
	uint64_t looked; /* CLOCK_MONOTONIC ns: after the heads were read */
	struct sampler_stats stats;
	struct reason shortage, stuck;

	struct sample_lacks lacks; /* found out with the first event of all */
	bool knows_lacks;

	unsigned halvings; /* of copies of stacks (ring-size.h) */
	bool may_halve;	   /* while all rings are mapped, some with copies: they can be smaller … */
	int short_error;   /* … and have to be, for this error */
};

/* The first one stays. */
static _printf_(2, 3) void note_shortage(struct sampler *sampler, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!sampler->shortage.text[0])
		(void)vsnprintf(sampler->shortage.text, sizeof(sampler->shortage.text), format, args);
	va_end(args);
}

/* --- events */

/* Leaves out something newer, or more than it may see; false: nothing is left to be left out. */
static bool ask_for_less(struct sampler *sampler, int error)
{
	struct sample_lacks *lacks = &sampler->lacks;

	if (sampler->knows_lacks)
		return false;
	if ((error == -EACCES || error == -EPERM) && !lacks->kernel)
		return lacks->kernel = true;
	if (error != -EINVAL && error != -E2BIG)
		return false;
	if (!lacks->lost)
		return lacks->lost = true;
	if (!lacks->build_id)
		return lacks->build_id = true;
	return false;
}

static int open_side_band(struct sampler *sampler, struct source *source)
{
	union event_attr whole;
	int fd;

	source->room = ring_size_of(NULL, 0);
	do {
		const struct sample_request request = {
			.lacks = sampler->lacks,
			.watermark = source->room.watermark,
		};

		sample_attr_side_band(&whole, &request);
		fd = privilege_open_event(&whole.attr, -1, source->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	} while (fd < 0 && ask_for_less(sampler, fd));
	sampler->knows_lacks |= fd >= 0;
	source->format = sample_attr_format(&whole);
	return fd;
}

/* The one that the CPU has, or NULL. */
static const struct sampled_variant *variant_on(const struct sampled *sampled, int cpu)
{
	for (size_t i = 0; i < sampled->what.nr; i++) {
		const struct sampled_variant *variant = &sampled->what.variants[i];

		if (!variant->cpus.nr || cpulist_has(&variant->cpus, cpu))
			return variant;
	}
	return NULL;
}

static bool is_refused(int error)
{
	return error == -EINVAL || error == -EOPNOTSUPP || error == -ENOSYS;
}

/* With a copy of that size. */
static int try_event(const struct sampler *sampler, struct source *source, const struct sampled_variant *variant,
		     size_t copy)
{
	struct sampled *sampled = source->sampled;
	unsigned long flags = PERF_FLAG_FD_CLOEXEC | (sampled->cgroup < 0 ? 0 : PERF_FLAG_PID_CGROUP);
	enum concession before = sampled->conceded;
	union event_attr whole;
	int fd;

	source->room = ring_size_of(&sampled->what, copy);
	for (;; sampled->conceded++) {
		const struct sample_request request = {
			.lacks = sampler->lacks,
			.conceded = sampled->conceded,
			.copy = copy,
			.watermark = source->room.watermark,
		};

		sample_attr_event(&whole, &sampled->what, variant, &request);
		fd = privilege_open_event(&whole.attr, sampled->cgroup, source->cpu, -1, flags);
		if (!is_refused(fd) || sampled->conceded + 1 == _CONCEDE_MAX)
			break;
	}
	source->format = sample_attr_format(&whole);
	if (fd < 0)
		sampled->conceded = before; /* it was not for that */
	return fd;
}

/* A copy of the stack is conceded last, and on this CPU alone: others may have another PMU. */
static int open_event(struct sampler *sampler, struct source *source, const struct sampled_variant *variant)
{
	size_t copy = ring_copy(source->sampled->what.stack_bytes, sampler->halvings);
	_cleanup_(closep) int fd = try_event(sampler, source, variant, copy);
	int error = fd;

	if (copy && is_refused(error)) {
		fd = try_event(sampler, source, variant, 0);
		if (fd >= 0)
			note_shortage(
				sampler,
				"samples of %s have no copies of stacks: the kernel, or the PMU, can't take them (%s)",
				variant->text, strerrorname_np(-error));
	}
	if (fd >= 0 && variant->filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, variant->filter) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* variant: NULL for the side-band. A privilege is missing on all CPUs alike. */
static int explain_open(int error, int cpu, const struct sampled *sampled, const struct sampled_variant *variant,
			struct reason *why)
{
	const char *text = variant ? variant->text : "records of processes and their mappings";

	if (error == -EACCES || error == -EPERM)
		return reason_set(why, error, "%s%sCPUs can't be sampled (%s): give the process CAP_PERFMON%s",
				  variant ? text : "", variant ? ": " : "", strerrorname_np(-error),
				  sampled && !sampled->is_clock ? ", and for some events CAP_SYS_ADMIN" : "");
	if (error == -EOPNOTSUPP || error == -ENOENT || error == -EINVAL)
		return reason_set(why, error,
				  "CPU %d has no samples of %s (%s): the kernel, or the PMU, can't take them", cpu,
				  text, strerrorname_np(-error));
	return reason_set(why, error, "CPU %d can't be sampled: %s: %s (%s)", cpu, text, strerror(-error),
			  strerrorname_np(-error) ?: "?");
}

/* --- rings */

static void source_close(struct sampler *sampler, struct source *source)
{
	if (source->fd < 0)
		return;
	turned_ring_close(&source->ring);
	if (source->sampled && source->sampled->slow_to_close)
		async_close_submit(sampler->closer, steal_fd(&source->fd));
	else
		source->fd = safe_close(source->fd);
}

#define MORE_MEMORY "raise kernel.perf_event_mlock_kb, or LimitMEMLOCK="
#define MORE_FILES "raise LimitNOFILE="

static bool is_short_of_files(int error)
{
	return error == -EMFILE || error == -ENFILE;
}

/* Of less memory, if this user may not lock so much and no copies can be halved. */
static int map_ring(struct sampler *sampler, struct source *source, struct reason *why)
{
	size_t wanted = source->room.pages, pages = wanted;
	int r;

	do
		r = turned_ring_open(&source->ring, sampler->epoll_fd, source->fd, source->cpu, &source->room, pages);
	while (r == -EPERM && !sampler->may_halve && (pages /= 2));
	if (r < 0 && sampler->may_halve)
		sampler->short_error = r;
	if (is_short_of_files(r))
		return reason_set(why, r, "no more files can be opened (%s): " MORE_FILES, strerror(-r));
	if (r < 0)
		return reason_set(why, r, "no memory for ring buffers (%s): " MORE_MEMORY, strerror(-r));
	if (pages < wanted)
		note_shortage(sampler,
			      "ring buffers are smaller than they should be (%zu instead of %zu pages), and lose "
			      "samples sooner: this user may not lock more memory; " MORE_MEMORY,
			      pages, wanted);
	return 0;
}

/* Starts the event, whose fd is the source's already. */
static int source_start(struct sampler *sampler, struct source *source, struct reason *why)
{
	int r = map_ring(sampler, source, why);

	if (r == 0 && ioctl(source->fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		r = explain_open(-errno, source->cpu, source->sampled,
				 source->sampled ? variant_on(source->sampled, source->cpu) : NULL, why);
	if (r < 0)
		source_close(sampler, source);
	return r;
}

static int source_open(struct sampler *sampler, struct source *source, struct reason *why)
{
	const struct sampled_variant *variant = source->sampled ? variant_on(source->sampled, source->cpu) : NULL;

	if (source->sampled && !variant)
		return reason_set(why, -ENODEV, "CPU %d does not have this event", source->cpu);
	source->fd = variant ? open_event(sampler, source, variant) : open_side_band(sampler, source);
	if (is_short_of_files(source->fd))
		note_shortage(sampler, "some CPUs or events are not sampled: no more files can be opened; " MORE_FILES);
	if (source->fd < 0) {
		int r = explain_open(source->fd, source->cpu, source->sampled, variant, why);

		source->fd = -1;
		return r;
	}
	if (variant)
		source->sampled->slow_to_close = variant->is_slow_to_close;
	return source_start(sampler, source, why);
}

/* An event that can't be opened is tried on the other CPUs as well: they may be of another kind. */
static void open_events(struct sampler *sampler, struct source *sources, int cpu)
{
	for (size_t i = 0; i < sampler->nr_events; i++) {
		struct source *source = &sources[i];
		struct reason why = {};

		*source = (struct source){ .fd = -1, .cpu = cpu, .sampled = &sampler->events[i] };
		if (source->sampled->absent)
			continue;
		if (source_open(sampler, source, &why) == 0)
			source->sampled->nr_open++;
		else
			source->sampled->problem = why;
	}
}

/* Side-band first: a mapping is known before the first sample in it. */
static int cpu_open(struct sampler *sampler, int cpu, struct reason *why)
{
	struct source *sources = &sampler->sources[sampler->nr_sources];
	int r;

	sources[0] = (struct source){ .fd = -1, .cpu = cpu };
	r = source_open(sampler, &sources[0], why);
	if (r < 0)
		return r;
	open_events(sampler, &sources[1], cpu);
	if (sources[1].fd < 0) {
		*why = sampler->events[0].problem;
		for (size_t i = 0; i <= sampler->nr_events; i++)
			source_close(sampler, &sources[i]);
		return -ENODEV;
	}
	sampler->nr_sources += sampler->nr_events + 1;
	sampler->nr_cpus++;
	return 0;
}

/* Ends when there is no room for rings with such copies, too. */
static int open_cpus(struct sampler *sampler, const struct cpulist *cpus, struct reason *why)
{
	int r = reason_set(why, -ENODEV, "there is no CPU to be sampled");

	for (size_t i = 0; i < cpus->nr && !sampler->short_error; i++)
		r = cpu_open(sampler, cpus->cpu[i], why);
	if (sampler->nr_cpus == 0)
		return r;
	why->text[0] = '\0';
	for (size_t i = 0; i < sampler->nr_events; i++)
		if (sampler->events[i].nr_open)
			sampler->events[i].problem.text[0] = '\0';
	return 0;
}

static void close_sources(struct sampler *sampler)
{
	for (size_t i = 0; i < sampler->nr_sources; i++)
		source_close(sampler, &sampler->sources[i]);
	sampler->nr_sources = sampler->nr_cpus = 0;
}

/* At the beginning, and once more for each time that copies are halved. */
static void begin_events(struct sampler *sampler, const struct sampled_event *events)
{
	for (size_t i = 0; i < sampler->nr_events; i++) {
		sampler->events[i] = (struct sampled){
			.what = events[i],
			.cgroup = -1,
			.period = sampled_event_period(&events[i]),
			.absent = events[i].problem,
			.is_clock = sampled_event_is_clock(&events[i]),
		};
		reason_set(&sampler->events[i].problem, 0, "%s", events[i].problem ?: "");
	}
	sampler->may_halve = ring_copy_max(events, sampler->nr_events, sampler->halvings);
	sampler->short_error = 0;
	sampler->shortage.text[0] = '\0';
}

static const char *text_of_halvings(int error)
{
	if (!error)
		return "the ring buffers of all CPUs would take more than 64 MiB otherwise";
	if (is_short_of_files(error))
		return "no more files can be opened, and copies need three on each CPU for each event; " MORE_FILES;
	if (error == -EPERM)
		return "this user may not lock more memory; " MORE_MEMORY;
	return "the kernel has no memory for larger ring buffers";
}

/* error: for which they were not only halved to be small enough; 0: none. */
static void note_halvings(struct sampler *sampler, const struct sampled_event *events, int error)
{
	struct reason before = sampler->shortage, text = {};
	size_t copy = ring_copy_max(events, sampler->nr_events, sampler->halvings);
	size_t wanted = ring_copy_max(events, sampler->nr_events, 0);

	if (!sampler->halvings || !wanted)
		return;
	if (copy)
		reason_set(&text, 0, "copies of stacks have %zu bytes instead of %zu", copy, wanted);
	else
		reason_set(&text, 0, "samples have no copies of stacks, which should have %zu bytes", wanted);
	reason_set(&sampler->shortage, 0, "%s: %s%s%s", text.text, text_of_halvings(error), before.text[0] ? "; " : "",
		   before.text);
}

/* So many halvings leave nothing of any copy. */
#define NO_COPIES 64

static int open_all(struct sampler *sampler, const struct sampled_event *events, const struct cpulist *cpus,
		    struct reason *why)
{
	int error = 0, r;

	sampler->halvings = ring_halvings(events, sampler->nr_events, cpus->nr);
	for (;;) {
		begin_events(sampler, events);
		r = open_cpus(sampler, cpus, why);
		if (!sampler->short_error)
			break;
		error = sampler->short_error;
		close_sources(sampler);
		/* Smaller rings are as many files. */
		sampler->halvings = is_short_of_files(error) ? NO_COPIES : sampler->halvings + 1;
	}
	sampler->may_halve = false;
	for (size_t i = 0; i < sampler->nr_events; i++)
		sampler->events[i].what = (struct sampled_event){};
	if (r == 0)
		note_halvings(sampler, events, error);
	return r;
}

int sampler_new(struct sampler **ret, const struct sampled_event *events, size_t nr, const struct cpulist *cpus,
		struct async_close *closer, struct reason *why)
{
	_cleanup_(sampler_freep) struct sampler *sampler = calloc(1, sizeof(*sampler));
	size_t nr_sources = (cpus->nr + 1) * (nr + 1 + SAMPLER_EXTRAS);
	int r;

	if (!sampler)
		return reason_set(why, -ENOMEM, "out of memory");
	sampler->closer = closer;
	sampler->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (sampler->epoll_fd < 0)
		return reason_set(why, -errno, "rings can't be polled: %s", strerror(errno));
	sampler->events = calloc(nr + SAMPLER_EXTRAS, sizeof(*sampler->events));
	sampler->sources = calloc(nr_sources, sizeof(*sampler->sources));
	sampler->heap = calloc(nr_sources, sizeof(struct source *));
	if (!sampler->events || !sampler->sources || !sampler->heap || ring_turns_new(&sampler->turns, nr_sources) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	sampler->nr_events = nr;
	async_close_pause(closer);
	r = open_all(sampler, events, cpus, why);
	async_close_resume(closer);
	if (r < 0)
		return r;
	*ret = steal_ptr(sampler);
	return 0;
}

struct sampler *sampler_free(struct sampler *sampler)
{
	if (!sampler)
		return NULL;
	ring_turns_free(sampler->turns);
	close_sources(sampler);
	safe_close(sampler->epoll_fd);
	free(sampler->sources);
	free(sampler->events);
	free(sampler->heap);
	free(sampler);
	return NULL;
}

const char *sampler_problem(const struct sampler *sampler, size_t event)
{
	return sampler->events[event].problem.text;
}

uint64_t sampler_paused_at(const struct sampler *sampler, size_t event)
{
	const struct sampled *sampled = &sampler->events[event];

	return sampled->is_clock ? 0 : sampled->paused_at;
}

const char *sampler_shortage(const struct sampler *sampler)
{
	return sampler->shortage.text;
}

const char *sampler_stuck(const struct sampler *sampler)
{
	return sampler->stuck.text;
}

int sampler_fd(const struct sampler *sampler)
{
	return sampler->epoll_fd;
}

/* --- merging */

/* Makes the source's oldest record its next one; false: it has none that is due. A time after the heads were read can't
 * be true: such a record is due at once, since a ring that waits for it would stand still. */
static bool source_next(const struct sampler *sampler, struct source *source, uint64_t until)
{
	const void *data;

	while ((data = turned_ring_peek(&source->ring, &source->size))) {
		if (source->size > source->room.record_max)
			source->room.record_max = source->size;
		if (record_parse(&source->record, &source->format, data, source->size) == 0) {
			if (source->record.id.time > sampler->looked)
				source->record.id.time = until;
			if (source->record.id.time <= until)
				return true;
			turned_ring_leave(&source->ring);
			return false;
		}
		source->ring.broken++;
		turned_ring_take(&source->ring, source->size);
	}
	return false;
}

static void sift_down(struct sampler *sampler, size_t at)
{
	for (;;) {
		size_t least = at;

		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < sampler->nr_heap; child++)
			if (sampler->heap[child]->record.id.time < sampler->heap[least]->record.id.time)
				least = child;
		if (least == at)
			return;
		struct source *moved = sampler->heap[at];

		sampler->heap[at] = sampler->heap[least];
		sampler->heap[least] = moved;
		at = least;
	}
}

/* Of an event whose samples do not tell their period, it is fixed. */
static void weigh(struct source *source)
{
	const struct sampled *sampled = source->sampled;

	if (!sampled || !sampled->period)
		return;
	source->record.sample.period = sampled->period;
	if (sampled->is_clock)
		source->record.sample.period += pause_take(&source->pause, source->record.id.time, sampled->period);
}

static void note_pause(struct sampler *sampler, struct source *source, uint64_t time)
{
	sampler->stats.throttled++;
	if (source->sampled)
		source->sampled->paused_at = time;
	pause_begin(&source->pause, time);
}

static void note_record(struct sampler *sampler, struct source *source)
{
	const struct record *record = &source->record;

	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		sampler->stats.samples++;
		weigh(source);
		unsampled_sample(&source->unsampled, record->id.time);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		source->lost_heard += record->lost.lost;
		break;
	case PERF_RECORD_THROTTLE:
		note_pause(sampler, source, record->id.time);
		break;
	case PERF_RECORD_UNTHROTTLE:
		pause_end(&source->pause, record->id.time);
		break;
	default:
		break;
	}
}

/* An event that is at its end hangs up for ever, and would keep the loop awake. */
static void drop_hung_up(struct sampler *sampler)
{
	struct epoll_event events[16];
	int nr = epoll_wait(sampler->epoll_fd, events, ARRAY_SIZE(events), 0);

	for (int i = 0; i < nr; i++)
		if (events[i].events & (EPOLLHUP | EPOLLERR))
			(void)epoll_ctl(sampler->epoll_fd, EPOLL_CTL_DEL, events[i].data.fd, NULL);
}

/* Is it time to compare the event's count with its samples? */
static bool is_to_be_compared(const struct source *source, uint64_t now)
{
	return source->sampled && source->sampled->period && !source->sampled->is_clock && !source->unsampled.due_at &&
	       now > source->compared_at + NS_PER_S;
}

/* read(2) of an event returns its value, and the records lost. It interrupts the event's CPU, and so is only done when
 * something was lost, or may have been, and once a second where samples are compared with the count. */
static void read_lost(struct source *source)
{
	uint64_t values[2], now = clock_monotonic_ns();
	bool compare = is_to_be_compared(source, now);

	/* The kernel tells what it has lost in the next record that fits: after the last event of a storm that may
	 * never come. */
	if (source->read_at == source->lost_heard && !compare &&
	    !turned_ring_was_full(&source->ring, source->room.record_max))
		return;
	source->read_at = source->lost_heard;
	if (read(source->fd, values, sizeof(values)) != sizeof(values))
		return;
	source->lost_read = values[1];
	if (!compare)
		return;
	source->compared_at = now;
	unsampled_expect(&source->unsampled, values[0] / source->sampled->period,
			 values[1] + turned_ring_broken(&source->ring), clock_monotonic_ns());
}

static void look_at_rings(struct sampler *sampler)
{
	for (size_t i = 0; i < sampler->nr_sources; i++) {
		struct source *source = &sampler->sources[i];

		if (source->fd < 0)
			continue;
		turned_ring_look(&source->ring);
		if (!sampler->lacks.lost)
			read_lost(source);
	}
	sampler->looked = clock_monotonic_ns();
}

static void fill_heap(struct sampler *sampler, uint64_t until)
{
	sampler->nr_heap = 0;
	for (size_t i = 0; i < sampler->nr_sources; i++) {
		struct source *source = &sampler->sources[i];

		if (source->fd < 0)
			continue;
		if (source_next(sampler, source, until))
			sampler->heap[sampler->nr_heap++] = source;
	}
	for (size_t i = sampler->nr_heap / 2; i-- > 0;)
		sift_down(sampler, i);
}

static void note_stuck(struct sampler *sampler, int error)
{
	sampler->stuck.text[0] = '\0';
	if (error)
		reason_set(
			&sampler->stuck, 0,
			"copies of stacks stay in ring buffers for longer than a second: no empty one can take their "
			"place (%s)%s",
			strerror(-error), error == -EPERM ? ": " MORE_MEMORY : "");
}

/* Sources with copies stay where they are in the array: only those that come and go are moved. */
static void turn_rings(struct sampler *sampler)
{
	bool adds = ring_turns_begin(sampler->turns);
	int error = 0;

	for (size_t i = 0; i < sampler->nr_sources; i++) {
		struct source *source = &sampler->sources[i];

		if (source->fd < 0)
			continue;
		ring_turns_step(sampler->turns, &source->ring, sampler->looked, adds);
		error = source->ring.error ?: error;
	}
	ring_turns_end(sampler->turns);
	note_stuck(sampler, error);
}

uint64_t sampler_drain(struct sampler *sampler, sampler_take take, void *userdata)
{
	uint64_t until = clock_monotonic_ns() - SAMPLER_YOUNG_NS;

	drop_hung_up(sampler);
	look_at_rings(sampler);
	fill_heap(sampler, until);
	while (sampler->nr_heap) {
		struct source *source = sampler->heap[0];

		note_record(sampler, source);
		take(userdata, source->sampled ? (size_t)(source->sampled - sampler->events) : SAMPLER_SIDE_BAND,
		     &source->record);
		turned_ring_take(&source->ring, source->size);
		if (!source_next(sampler, source, until))
			sampler->heap[0] = sampler->heap[--sampler->nr_heap];
		sift_down(sampler, 0);
	}
	for (size_t i = 0; i < sampler->nr_sources; i++)
		unsampled_compare(&sampler->sources[i].unsampled, until);
	turn_rings(sampler);
	return until;
}

/* What the kernel counts of the source itself is exact. */
static uint64_t source_lost(const struct sampler *sampler, const struct source *source)
{
	return turned_ring_broken(&source->ring) + (sampler->lacks.lost ? source->lost_heard : source->lost_read);
}

struct sampler_stats sampler_stats(const struct sampler *sampler)
{
	struct sampler_stats stats = sampler->stats;

	for (size_t i = 0; i < sampler->nr_sources; i++) {
		const struct source *source = &sampler->sources[i];

		if (source->fd < 0)
			continue;
		stats.ring_bytes += turned_ring_bytes(&source->ring);
		*(source->sampled ? &stats.lost : &stats.lost_records) += source_lost(sampler, source);
		stats.unsampled += source->unsampled.nr;
	}
	return stats;
}

/* --- events that come and go */

/* Opens it on all CPUs that are sampled and have it, or on none. */
static int open_extra(struct sampler *sampler, struct sampled *sampled, struct reason *why)
{
	size_t nr = sampler->nr_sources;
	int r = 0;

	for (size_t i = 0; r == 0 && i < nr; i++) {
		struct source *source = &sampler->sources[sampler->nr_sources];
		int cpu = sampler->sources[i].cpu;

		if (sampler->sources[i].sampled || !variant_on(sampled, cpu))
			continue;
		*source = (struct source){ .fd = -1, .cpu = cpu, .sampled = sampled };
		r = source_open(sampler, source, why);
		sampler->nr_sources += r == 0;
		sampled->nr_open += r == 0;
	}
	if (r == 0 && !sampled->nr_open)
		r = reason_set(why, -ENODEV, "no CPU has this event");
	return r;
}

int sampler_add(struct sampler *sampler, const struct sampled_event *event, int cgroup, struct reason *why)
{
	size_t number = sampler->nr_events, end = number + SAMPLER_EXTRAS;
	int r;

	while (number < end && sampler->events[number].nr_open)
		number++;
	if (number == end)
		return reason_set(why, -EBUSY, "%d events are sampled for a while already", SAMPLER_EXTRAS);
	sampler->events[number] = (struct sampled){
		.what = *event,
		.period = sampled_event_period(event),
		.is_clock = sampled_event_is_clock(event),
		.cgroup = cgroup,
	};
	async_close_pause(sampler->closer);
	r = open_extra(sampler, &sampler->events[number], why);
	async_close_resume(sampler->closer);
	sampler->events[number].what = (struct sampled_event){};
	if (r < 0)
		sampler_remove(sampler, number);
	return r < 0 ? r : (int)number;
}

void sampler_remove(struct sampler *sampler, size_t number)
{
	struct sampled *sampled = &sampler->events[number];
	size_t i = 0;

	while (i < sampler->nr_sources) {
		struct source *source = &sampler->sources[i];

		if (source->sampled != sampled) {
			i++;
			continue;
		}
		sampler->stats.lost += source_lost(sampler, source);
		sampler->stats.unsampled += source->unsampled.nr;
		source_close(sampler, source);
		*source = sampler->sources[--sampler->nr_sources];
	}
	*sampled = (struct sampled){};
}
