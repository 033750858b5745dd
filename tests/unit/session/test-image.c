/* SPDX-License-Identifier: MIT */

/* What is counted as bytes, and what is made of them: the same, what came after, or a refusal. */

#include "counting/engine/perf/open.h"
#include "counting/session/session-image.h"
#include "setup/count-restart.h"
#include "setup/faults.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HEADER 32
#define ODD "odd \xff\xfe \xc3\xbc\n"

/* --- what is counted */

static const struct text_event uncore[1] = { { "reads", UNCORE_TYPE, 9 } };
static const struct text_event trace[1] = { { "sched:sched_switch", PERF_TYPE_TRACEPOINT, 300 } };

static void add_groups(struct count_world *w)
{
	struct event *event;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2)->events.events[0].attr.pinned = 1;
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CPU, "memory", false, uncore, 1)->events.events[0].attr.exclusive = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	event = add_group(w, SCOPE_CGROUP, "trace", true, trace, 1)->events.events;
	event->filter = strdup("prev_pid == 1");
	event->software = true;
}

static void pass_time(const struct count_world *w, const struct cgroup *a, uint64_t by)
{
	for (size_t i = 0; i < w->cpus.nr; i++) {
		fake_run(0, w->cpus.cpu[i], 1000, 1000, by);
		fake_run(a->identity->id, w->cpus.cpu[i], 1000, 1000, by);
	}
}

/* Where CPUs sit is kept as well: of one that is offline at the next start, nothing else can tell. */
static struct cpu_place places[] = { { 0, 1 }, { 0, 2 }, { 3, CPU_NOWHERE }, { CPU_NOWHERE, CPU_NOWHERE } };
static int dies[] = { 1, 2, 0, CPU_NOWHERE };
static const struct cpu_topology topology = { .places = places, .dies = dies, .nr = ARRAY_SIZE(places) };

static void assert_same_places(const struct cpu_topology *a, const struct cpu_topology *b)
{
	assert_int_equal(a->nr, b->nr);
	assert_memory_equal(a->places, b->places, a->nr * sizeof(*a->places));
	assert_memory_equal(a->dies, b->dies, a->nr * sizeof(*a->dies));
}

/* Some of everything: /a and an odd one are counted, /gone lingers, and CPU 5's pinned group starves. */
static struct cgroup *count_all(struct count_world *w, bool per_cpu)
{
	struct cgroup *a, *gone;

	w->options.cgroup_per_cpu = per_cpu;
	w->options.linger = 3600ULL * SECOND;
	w->options.topology = &topology;
	add_groups(w);
	make_dir(w, "a");
	make_dir(w, "gone");
	make_dir(w, ODD);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	gone = add_cgroup(w, "/gone");
	(void)add_cgroup(w, "/odd \xef\xbf\xbd"
			    "ff\xef\xbf\xbd"
			    "fe \xc3\xbc\n");
	pass_time(w, a, 10);
	fake_run(gone->identity->id, 0, 1000, 1000, 3);
	session_tick(w->session, NULL);
	session_remove_cgroup(w->session, gone, true);
	fake_find(HW, 0, 5, 0)->error = true;
	fake_perf.counters = 1;
	pass_time(w, a, 5);
	session_tick(w->session, NULL);
	return a;
}

static void assert_same_row(const struct totals *totals, const struct totals_row *a, const struct totals_row *b)
{
	const struct scope_plan *plan = &totals->plan->scope[a->scope];

	assert_string_equal(a->target, b->target);
	assert_int_equal(a->cpu, b->cpu);
	assert_int_equal(a->since, b->since);
	/* b is restored: its rows began before anything that is counted now, whatever the wall clock said. */
	assert_int_equal(b->began, 0);
	assert_int_equal(a->gone_at, b->gone_at);
	assert_int_equal(!a->identity, !b->identity);
	if (a->identity) {
		assert_int_equal(a->identity->id, b->identity->id);
		assert_string_equal(a->identity->label, b->identity->label);
	}
	for (size_t i = 0; i < plan->nr_columns; i++) {
		assert_int_equal(a->cells[i].total, b->cells[i].total);
		assert_int_equal(a->rates[i].at_tick, b->rates[i].at_tick);
		assert_int_equal(a->cells[i].measured, b->cells[i].measured);
		assert_true(isnan(b->rates[i].rate));
	}
	for (size_t i = 0; i < plan->nr_sets; i++)
		assert_memory_equal(&a->times[i], &b->times[i], offsetof(struct totals_times, share));
}

static size_t nr_rows(const struct totals *totals)
{
	return totals->nr_rows[SCOPE_CPU] + totals->nr_rows[SCOPE_CGROUP];
}

/* A count that was made again is what it was made from, to the last byte of another image, but for its times. */
static void assert_same(const struct session *a, const struct session *b)
{
	const struct totals *x = session_totals(a), *y = session_totals(b);
	const struct totals_row *row, *other;

	assert_same_places(session_topology(b), &topology);
	assert_int_equal(nr_rows(x), nr_rows(y));
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		TAILQ_FOREACH(row, &x->rows[scope], in_totals) {
			other = totals_find(y, row->cpu, row->identity);
			assert_non_null(other);
			assert_same_row(x, row, other);
		}
	other = TAILQ_FIRST(&y->gone);
	TAILQ_FOREACH(row, &x->gone, in_gone) {
		assert_string_equal(row->target, other->target);
		other = TAILQ_NEXT(other, in_gone);
	}
	assert_null(other);
}

static void check_round_trip(struct count_world *w, bool per_cpu)
{
	struct session *original, *restored;
	struct saved saved = {};
	struct stored_pool pool = { .max = SIZE_MAX };
	struct reason why;

	(void)count_all(w, per_cpu);
	original = w->session;
	session_set_sampled(original, 12345);
	assert_true(save_image(original, &saved.image));
	session_each_stored(original, keep_fd, &saved);
	fill_pool(&pool, &saved, NONE_MISSING);
	assert_int_equal(
		session_restore(&restored, saved.image.data, saved.image.len, BOOT, &w->privilege, &pool, &why), 0);
	assert_int_equal(pool.nr, 0);
	assert_int_equal(pool.nr_missed, 0);
	assert_int_equal(session_stats(restored).fds, session_stats(original).fds);
	assert_int_equal(session_stats(restored).lingering, 1);
	assert_same(original, restored);
	assert_int_equal(session_sampled(restored), 12345);
	session_free(restored);
	buf_release(&saved.image);
}

/* An image that is written over the one before it is as one of its own, but for the header and the time. */
static void assert_as_new(const struct count_world *w, struct rewrite *again)
{
	size_t text = HEADER + 8 + (strlen(BOOT) + 7) / 8 * 8, rest = text + 8;
	_cleanup_(buf_release) struct buf image = {}, new = {};

	assert_true(session_save(w->session, BOOT, again));
	buf_add(&image, again->buf.data, again->buf.len);
	/* By the same writer, which keeps nothing. */
	again->before = 0;
	assert_true(session_save(w->session, BOOT, again));
	buf_add(&new, again->buf.data, again->buf.len);
	assert_int_equal(image.len, new.len);
	assert_memory_equal(image.data + HEADER, new.data + HEADER, text - HEADER);
	assert_memory_equal(image.data + rest, new.data + rest, new.len - rest);
	assert_int_equal(again->checksum, crc32_z(0, (const unsigned char *)new.data + HEADER, new.len - HEADER));
}

static void test_again(void **state)
{
	struct count_world *w = *state;
	_cleanup_(rewrite_release) struct rewrite again = {};

	(void)count_all(w, false);
	for (unsigned i = 0; i < 12; i++) {
		if (i == 4 || i == 9)
			pass_time(w, find_cgroup(w, "/a"), 5);
		if (i == 7)
			session_remove_cgroup(w->session, find_cgroup(w, "/a"), true);
		if (i % 3)
			session_tick(w->session, NULL);
		else
			session_read(w->session);
		assert_as_new(w, &again);
	}
}

static void test_round_trip(void **state)
{
	check_round_trip(*state, false);
}

static void test_round_trip_per_cpu(void **state)
{
	check_round_trip(*state, true);
}

static void assert_same_event(const struct event *a, const struct event *b)
{
	assert_true(event_equal(a, b));
	assert_string_equal(a->text, b->text);
	assert_int_equal(a->unit, b->unit);
	assert_true(memcmp(&a->scale, &b->scale, sizeof(a->scale)) == 0);
	assert_int_equal(a->no_pmu, b->no_pmu);
	assert_int_equal(a->by_pmu, b->by_pmu);
	assert_int_equal(a->host_only, b->host_only);
	assert_int_equal(a->steady, b->steady);
	assert_int_equal(a->uncore, b->uncore);
	assert_int_equal(a->software, b->software);
	assert_true(cpulist_equal(&a->cpus, &b->cpus));
}

/* Each field of an event has a value of its own. */
static void fill_event(struct event *event, unsigned bit)
{
	bool *const flags[] = { &event->no_pmu, &event->by_pmu, &event->host_only,
				&event->steady, &event->uncore, &event->software };

	event->scale = 0x1p-32;
	event->unit = (enum event_unit)(_EVENT_UNIT_MAX - 1);
	event->config3 = 3;
	event->attr.config1 = 1;
	event->attr.exclude_kernel = 1;
	if (bit & 1)
		event->filter = strdup("a == \"\xff\"");
	if (bit & 2)
		event->probe = strdup("/bin/sh");
	event->probe_dev = 4;
	event->probe_ino = UINT64_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		*flags[i] = i == bit % ARRAY_SIZE(flags);
	cpulist_release(&event->cpus);
	if (bit & 4)
		assert_int_equal(cpulist_parse(&event->cpus, "0,2,65535"), 0);
}

static void test_plan(void **state)
{
	struct count_world *w = *state;
	_cleanup_(buf_release) struct buf b = {};
	_cleanup_(plan_unrefp) struct plan *again = NULL;
	struct unpack in;

	add_groups(w);
	fake_perf.counters = 1;
	make_plan(w);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < w->plan->scope[scope].nr_columns; i++) {
			struct event *event = &w->plan->groups[scope].groups[0].events.events[0];

			event = (struct event *)w->plan->scope[scope].columns[i].event;
			free(event->filter);
			event->filter = NULL;
			fill_event(event, (unsigned)(i + (size_t)scope * 3));
		}
	image_put_plan(&b, w->plan);
	in = (struct unpack){ .at = (unsigned char *)b.data, .left = b.len };
	assert_int_equal(image_get_plan(&in, &again), 0);
	assert_int_equal(in.left, 0);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *x = &w->plan->scope[scope], *y = &again->scope[scope];

		assert_int_equal(x->nr_columns, y->nr_columns);
		assert_int_equal(x->nr_sets, y->nr_sets);
		for (size_t i = 0; i < x->nr_columns; i++) {
			assert_same_event(x->columns[i].event, y->columns[i].event);
			assert_memory_equal(&x->columns[i].attr, &y->columns[i].attr, sizeof(x->columns[i].attr));
			assert_int_equal(x->columns[i].set, y->columns[i].set);
			assert_int_equal(x->columns[i].member, y->columns[i].member);
			assert_int_equal(x->columns[i].state, y->columns[i].state);
			assert_string_equal(x->columns[i].group->name, y->columns[i].group->name);
			assert_int_equal(x->columns[i].group->alone, y->columns[i].group->alone);
		}
		for (size_t i = 0; i < x->nr_sets; i++) {
			assert_true(cpulist_equal(&x->sets[i].cpus, &y->sets[i].cpus));
			assert_int_equal(x->sets[i].exact, y->sets[i].exact);
			assert_int_equal(x->sets[i].uncore, y->sets[i].uncore);
			assert_int_equal(x->sets[i].pinned, y->sets[i].pinned);
			assert_int_equal(x->sets[i].exclusive, y->sets[i].exclusive);
			assert_int_equal(set_find_equal(x, &x->sets[i], y), i);
		}
	}
}

/* --- who goes on */

/* What happened while no daemon ran is counted, and nothing is opened anew. */
static void test_meanwhile(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a = count_all(w, false);
	struct saved saved;

	fake_perf.counters = 0;
	stop(w, &saved);
	pass_time(w, a, 100);
	add_groups(w);
	fake_perf.nr_calls = 0;
	go_on(w, restore(w, &saved, NONE_MISSING));
	assert_cell(w, 0, NULL, 2, true, 115);
	assert_cell(w, 1, NULL, 4, true, 115);
	assert_cell(w, 5, NULL, 0, false, 10); /* it is not known to run yet */
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 345);
	assert_cell(w, ROW_ALL_CPUS, a, 2, true, 345);
	assert_cell(w, ROW_ALL_CPUS, find_cgroup(w, "/gone"), 0, true, 3);
	assert_int_equal(session_stats(w->session).lingering, 2); /* the odd one has not been added again */

	session_tick(w->session, NULL);
	pass_time(w, a, 1);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 348);
	assert_cell(w, 5, NULL, 0, true, 11);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
}

/* A group waits for the PMU when the daemon ends and when the next begins: it is known for how long. */
static void test_waits_meanwhile(void **state)
{
	static const uint64_t tick = SECOND / 10;
	struct count_world *w = *state;
	struct saved saved;
	double rate;

	add_groups(w);
	make_dir(w, "a");
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	(void)add_cgroup(w, "/a");
	for (int i = 0; i < 50; i++) {
		bool waits = i >= 5 && i < 40;

		fake_run(0, 1, tick, waits ? 0 : tick, waits ? 0 : 10);
		session_tick(w->session, NULL);
		rate = row_of(w, 1, NULL)->rates[0].rate;
		assert_int_equal(isnan(rate), waits || i == 0);
		assert_true(isnan(rate) || fabs(rate - 100) < 1);
		if (i != 20)
			continue;
		stop(w, &saved);
		add_groups(w);
		go_on(w, restore(w, &saved, NONE_MISSING));
	}
	assert_cell(w, 1, NULL, 0, true, 500);
}

/* A group of which an event is missing is opened anew, whichever it is; its total goes on. */
static void test_missing_fds(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a = count_all(w, false);
	struct saved saved;
	size_t nr;

	fake_perf.counters = 0;
	stop(w, &saved);
	nr = saved.nr - 9; /* the odd one's go */
	for (size_t missing = 0; missing < nr; missing++) {
		uint64_t total;

		add_groups(w);
		go_on(w, restore(w, &saved, missing % saved.nr));
		assert_int_equal(fake_perf.nr_open, nr);
		total = row_of(w, ROW_ALL_CPUS, a)->cells[0].total + 3;
		pass_time(w, a, 1);
		session_tick(w->session, NULL);
		pass_time(w, a, 1);
		session_tick(w->session, NULL);
		assert_cell(w, ROW_ALL_CPUS, a, 0, true, total + 3);
		for (size_t i = 0; i < 5; i++)
			assert_state(w, SCOPE_CPU, i, EVENT_OK, NULL);
		stop(w, &saved);
		assert_int_equal(saved.nr, nr);
	}
	add_groups(w);
	go_on(w, restore(w, &saved, NONE_MISSING));
}

/* CPUs come and go while no daemon runs: their rows stay, and go on when they are back. */
static void test_other_cpus(void **state)
{
	static const char *const lists[] = { "0-1", "0-1,5,7", "5,7", "0-1,5" };
	static const uint64_t totals[] = { 16, 17, 17, 18 };
	struct count_world *w = *state;
	struct cgroup *a = count_all(w, false);
	struct saved saved;

	fake_perf.counters = 0;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		stop(w, &saved);
		cpulist_release(&w->cpus);
		assert_int_equal(cpulist_parse(&w->cpus, lists[i]), 0);
		add_groups(w);
		go_on(w, restore(w, &saved, NONE_MISSING));
		pass_time(w, a, 1);
		session_tick(w->session, NULL);
		assert_cell(w, 0, NULL, 2, true, totals[i]);
		assert_int_equal(row_of(w, 5, NULL)->cells[2].total, 15 + (uint64_t)i);
		assert_true(row_of(w, 5, NULL)->cells[2].measured);
		assert_int_equal(session_stats(w->session).cpus_offline, i == 0 ? 1 : i == 2 ? 2 : i == 3 ? 1 : 0);
	}
}

/* A CPU was offline, and no successor had come yet when the daemon ended: its rows stay as they were. */
static void test_saved_while_offline(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a = count_all(w, false);
	_cleanup_(cpulist_release) struct cpulist lost = {};
	struct saved saved;
	struct session *restored;

	fake_perf.counters = 0;
	fake_take_apart(1);
	pass_time(w, a, 1);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 2, true, 15);
	stop(w, &saved);
	restored = restore(w, &saved, NONE_MISSING);
	assert_true(totals_find(session_totals(restored), 1, NULL)->cells[2].measured);
	assert_int_equal(session_find_lost(restored, &lost), 0);
	assert_int_equal(lost.nr, 1);
	assert_int_equal(lost.cpu[0], 1);
	add_groups(w);
	go_on(w, restored);
	pass_time(w, a, 1);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 2, true, 16);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 45 + 2 + 3);
}

/* Another config: what stays goes on, what is new starts at 0. */
static void test_other_config(void **state)
{
	static const struct text_event more[] = { { "cycles", HW, 0 }, { "branches", HW, 4 } };
	struct count_world *w = *state;
	struct cgroup *a = count_all(w, true);
	struct saved saved;

	fake_perf.counters = 0;
	stop(w, &saved);
	pass_time(w, a, 100);
	add_group(w, SCOPE_CPU, "core", false, more, 2)->events.events[0].attr.pinned = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	go_on(w, restore(w, &saved, NONE_MISSING));
	assert_int_equal(fake_perf.nr_open, 6 + 6);
	assert_cell(w, 0, NULL, 0, true, 115); /* read a last time */
	assert_cell(w, 0, NULL, 1, true, 0);
	assert_cell(w, 5, a, 0, true, 115);
}

static void fix_checksum(struct buf *image)
{
	uint64_t ends[2] = { image->len, crc32_z(0, (const unsigned char *)image->data + HEADER, image->len - HEADER) };

	memcpy(image->data + 16, ends, sizeof(ends));
}

/* The image as a build writes it whose perf_event_attr is longer or shorter than this one's, in what events leave 0. */
static void resize_attrs(struct buf *image, size_t size)
{
	struct buf other = {};
	struct perf_event_attr attr;
	size_t nr = 0;

	for (size_t at = 0; at < image->len; at += sizeof(uint64_t)) {
		uint64_t length;

		memcpy(&length, image->data + at, sizeof(length));
		if (length == sizeof(attr) && at + sizeof(length) + sizeof(attr) <= image->len) {
			memcpy(&attr, image->data + at + sizeof(length), sizeof(attr));
			length = attr.size == sizeof(attr) ? length : 0;
		}
		if (length != sizeof(attr)) {
			buf_add(&other, image->data + at, sizeof(uint64_t));
			continue;
		}
		attr.size = (uint32_t)size;
		pack_u64(&other, size);
		buf_add(&other, (const char *)&attr, size < sizeof(attr) ? size : sizeof(attr));
		for (size_t i = sizeof(attr); i < size; i += sizeof(uint64_t))
			pack_u64(&other, 0);
		at += sizeof(attr);
		nr++;
	}
	assert_int_equal(nr, 16); /* of each event and column */
	buf_release(image);
	*image = other;
	fix_checksum(image);
}

/* An upgrade, and its reverse, between builds with headers of different kernels. */
static void test_other_headers(void **state)
{
	static const size_t sizes[] = { sizeof(struct perf_event_attr) + 8, sizeof(struct perf_event_attr) + 16,
					sizeof(struct perf_event_attr) - 8 };
	struct count_world *w = *state;
	struct cgroup *a = count_all(w, false);
	struct saved saved;

	fake_perf.counters = 0;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		stop(w, &saved);
		resize_attrs(&saved.image, sizes[i]);
		pass_time(w, a, 100);
		add_groups(w);
		go_on(w, restore(w, &saved, NONE_MISSING));
		assert_cell(w, 0, NULL, 2, true, 15 + 100 * (i + 1));
		assert_cell(w, ROW_ALL_CPUS, a, 0, true, 45 + 300 * (i + 1));
	}
}

/* --- what is refused */

static int try_image(const struct count_world *w, const void *bytes, size_t size, const char *boot, struct reason *why)
{
	struct stored_pool pool = { .max = SIZE_MAX };
	struct session *session = NULL;
	int r;

	why->text[0] = '\0';
	r = session_restore(&session, bytes, size, boot, &w->privilege, &pool, why);
	assert_true(r == 0 || ((r == -EBADMSG || r == -ESTALE) && !session));
	session_free(session);
	return r;
}

static void refuse(const struct count_world *w, const void *bytes, size_t size, const char *boot, const char *part)
{
	struct reason why;

	assert_int_equal(try_image(w, bytes, size, boot, &why), strcmp(boot, BOOT) ? -ESTALE : -EBADMSG);
	if (!strstr(why.text, part))
		fail_msg("%s", why.text);
}

static void test_not_this_one(void **state)
{
	struct count_world *w = *state;
	_cleanup_(buf_release) struct buf image = {};
	struct reason why;

	(void)count_all(w, false);
	assert_true(save_image(w->session, &image));
	assert_int_equal(try_image(w, image.data, image.len, BOOT, &why), 0);
	refuse(w, image.data, image.len, "another", "before the machine was started");
	refuse(w, image.data, image.len, "", "before the machine was started");
	refuse(w, "", 0, BOOT, "not written by perfmond");
	image.data[8] += 2;
	refuse(w, image.data, image.len, BOOT, "another format");
	image.data[8] -= 2;
	/* What follows it is no part of it. */
	buf_add(&image, "more", 4);
	assert_int_equal(try_image(w, image.data, image.len, BOOT, &why), 0);
}

static void test_damaged(void **state)
{
	struct count_world *w = *state;
	_cleanup_(buf_release) struct buf image = {};
	struct reason why;

	(void)count_all(w, false);
	assert_true(save_image(w->session, &image));
	for (size_t i = 0; i < image.len; i++) {
		image.data[i] ^= (char)(1 << i % 8);
		assert_int_equal(try_image(w, image.data, image.len, BOOT, &why), -EBADMSG);
		assert_string_not_equal(why.text, "");
		image.data[i] ^= (char)(1 << i % 8);
	}
	for (size_t n = 0; n < image.len; n++) {
		_cleanup_(freep) char *cut = malloc(n + 1); /* a buffer of its own, for the sanitizer */

		memcpy(cut, image.data, n);
		assert_int_equal(try_image(w, cut, n, BOOT, &why), -EBADMSG);
	}
}

/* Changes a few numbers or bytes behind the header. */
static void change(struct buf *image, uint64_t *seed)
{
	static const uint64_t numbers[] = { 0, 1, 2, 7, 1000, UINT32_MAX, INT64_MAX, UINT64_MAX - 1, UINT64_MAX };

	for (uint64_t n = 1 + faults_random(seed, 4); n; n--) {
		size_t words = (image->len - HEADER) / 8, at = HEADER + 8 * faults_random(seed, words);
		size_t from = HEADER + 8 * faults_random(seed, words);

		switch (faults_random(seed, 4)) {
		case 0:
			memcpy(image->data + at, &numbers[faults_random(seed, ARRAY_SIZE(numbers))], 8);
			break;
		case 1:
			image->data[at + faults_random(seed, 8)] ^= (char)(1 << faults_random(seed, 8));
			break;
		case 2:
			memmove(image->data + at, image->data + from, 8);
			break;
		default:
			image->len = at > HEADER + 64 && faults_random(seed, 8) == 0 ? at : image->len;
			image->data[at]++;
		}
	}
}

/* Goes through all that is done with what was restored. */
static void use_nonsense(struct count_world *w, struct session *session)
{
	_cleanup_(buf_release) struct buf image = {};
	struct session *next;

	session_read(session);
	fake_perf.clock += SECOND;
	session_tick(session, NULL);
	assert_true(save_image(session, &image));
	assert_int_equal(session_new(&next, session_plan(session), &w->cpus, &w->privilege, &w->options), 0);
	assert_int_equal(session_takeover_begin(next, session), 0);
	assert_int_equal(session_add_cpus(next), 0);
	(void)session_add_cgroup(next, w->tree, find_cgroup(w, "/a"), &(struct reason){});
	assert_int_equal(session_takeover_end(next, session), 0);
	session_tick(next, NULL);
	session_free(session);
	session_free(next);
}

/* An image that is refused at its end has asked for perf events: what is missing for the next one is told of that. */
static void test_after_another(void **state)
{
	static const uint64_t too_many = UINT64_MAX;
	struct count_world *w = *state;
	_cleanup_(buf_release) struct buf image = {};
	struct stored_pool pool = { .max = SIZE_MAX };
	_cleanup_(session_freep) struct session *session = NULL;
	struct reason why = {};
	size_t nr;

	(void)count_all(w, false);
	nr = session_stats(w->session).fds;
	assert_true(save_image(w->session, &image));
	/* The last number of the last canary, before the time that is kept with the session. */
	memcpy(image.data + image.len - 2 * sizeof(too_many), &too_many, sizeof(too_many));
	fix_checksum(&image);
	assert_int_equal(session_restore(&session, image.data, image.len, BOOT, &w->privilege, &pool, &why), -EBADMSG);
	assert_int_equal(pool.nr_missed, nr);
	buf_release(&image);
	assert_true(save_image(w->session, &image));
	assert_int_equal(session_restore(&session, image.data, image.len, BOOT, &w->privilege, &pool, &why), 0);
	assert_int_equal(pool.nr_missed, nr);
}

/* Made up, with a checksum that is right: refused as a whole, or something that can be worked with. */
static void test_nonsense(void **state)
{
	struct count_world *w = *state;
	struct saved saved;
	size_t nr_used = 0;

	(void)count_all(w, false);
	stop(w, &saved);
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		_cleanup_(buf_release) struct buf image = {};
		struct stored_pool pool = { .max = SIZE_MAX };
		struct session *session = NULL;
		struct reason why = {};
		uint64_t sequence = seed;
		struct stored_id id;
		int nr = fake_perf.nr;

		buf_add(&image, saved.image.data, saved.image.len);
		change(&image, &sequence);
		fix_checksum(&image);
		for (size_t i = 0; i < saved.nr; i++) {
			fake_hold(saved.fds[i]);
			assert_int_equal(stored_pool_add(&pool, saved.fds[i], &id), 0);
		}
		if (session_restore(&session, image.data, image.len, BOOT, &w->privilege, &pool, &why) == 0) {
			stored_pool_release(&pool);
			use_nonsense(w, session);
			nr_used++;
		} else if (!why.text[0]) {
			fail_msg("seed %llu: no reason", (unsigned long long)seed);
		}
		stored_pool_release(&pool);
		if (fake_perf.nr_open != (int)saved.nr)
			fail_msg("seed %llu: %d are open", (unsigned long long)seed, fake_perf.nr_open);
		fake_perf.nr = nr;
	}
	/* It is not always refused, or the checksum was in the way. */
	assert_true(nr_used > 400);
	assert_true(nr_used < 3600);
	for (size_t i = 0; i < saved.nr; i++)
		safe_close(saved.fds[i]);
	buf_release(&saved.image);
}

/* --- the pool */

static int open_one(uint64_t config)
{
	const struct event event = { .text = (char *)"x", .scale = 1 };
	const struct perf_event_attr attr = { .type = SW, .size = sizeof(attr), .config = config };
	int fd = perf_open(&event, &attr, 0, -1, -1);

	assert_true(fd >= 0);
	return fd;
}

static void test_pool(_unused_ void **state)
{
	struct stored_pool pool = { .max = SIZE_MAX };
	struct stored_id ids[3], id;
	int fds[3];

	for (size_t i = 0; i < 3; i++) {
		fds[i] = open_one(i);
		assert_int_equal(stored_pool_add(&pool, fds[i], &ids[i]), 0);
	}
	assert_int_equal(pool.nr, 3);
	/* The same event by another file: that one stays the caller's, as all do that are refused. */
	fake_hold(fds[0]);
	assert_int_equal(stored_pool_add(&pool, fds[0], &id), -EEXIST);
	safe_close(fds[0]);
	assert_int_equal(fake_perf.nr_open, 3);

	assert_int_equal(stored_pool_take(&pool, STORED_PERF_EVENT, ids[1].id), fds[1]);
	assert_int_equal(stored_pool_take(&pool, STORED_PERF_EVENT, ids[1].id), -1);
	assert_int_equal(stored_pool_take(&pool, STORED_PERF_EVENT, 1), -1);
	assert_int_equal(pool.nr_missed, 2);
	assert_int_equal(pool.nr, 2);
	safe_close(fds[1]);
	assert_int_equal(fake_perf.nr_open, 2);
	stored_pool_release(&pool);
	assert_int_equal(fake_perf.nr_open, 0);
	assert_int_equal(pool.nr, 0);

	/* A file that is no perf event. */
	assert_int_equal(stored_pool_add(&pool, 0, &id), -ENOTTY);
	for (long n = 0, r = -ENOMEM; r == -ENOMEM; n++) {
		fds[0] = open_one(0);
		faults_begin(FAULT_MEMORY, n, ENOMEM);
		r = stored_pool_add(&pool, fds[0], &id);
		faults_end();
		assert_int_equal(r, faults.has_failed ? -ENOMEM : 0);
		assert_int_equal(fake_perf.nr_open, 1);
		if (r < 0)
			safe_close(fds[0]);
	}
	stored_pool_release(&pool);
	assert_int_equal(fake_perf.nr_open, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_again),	 TEST(test_round_trip),	   TEST(test_round_trip_per_cpu),
		TEST(test_plan),	 TEST(test_meanwhile),	   TEST(test_waits_meanwhile),
		TEST(test_missing_fds),	 TEST(test_other_cpus),	   TEST(test_saved_while_offline),
		TEST(test_other_config), TEST(test_other_headers), TEST(test_not_this_one),
		TEST(test_damaged),	 TEST(test_after_another), TEST(test_nonsense),
		TEST(test_pool),
	};

	return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
