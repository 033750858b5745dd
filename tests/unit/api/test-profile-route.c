/* SPDX-License-Identifier: MIT */

/* The routes of profiles: their parameters, and each format of an archive that the test has filled. */

#include "base/util/clock.h"
#include "setup/fake-source.h"
#include "web/api/route.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct module_key key = { .build_id = { 0xab, 0xcd }, .build_id_size = 20 };

/* The time is the test's own, so that no pause of this process is in it: a little passes at each look at a clock. */
#define REAL_AHEAD (1800000000 * (uint64_t)NS_PER_S)

static uint64_t time_now;

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_realtime_ns(void);
struct clock_times __wrap_clock_times_now(void);

uint64_t __wrap_clock_monotonic_ns(void)
{
	return time_now += 100 * NS_PER_US;
}

uint64_t __wrap_clock_realtime_ns(void)
{
	return REAL_AHEAD + __wrap_clock_monotonic_ns();
}

struct clock_times __wrap_clock_times_now(void)
{
	uint64_t now = __wrap_clock_monotonic_ns();

	return (struct clock_times){ now, now, REAL_AHEAD + now };
}

static void add_event(struct archive *archive, const char *event, uint64_t weight, uint64_t ago, const char *cgroup,
		      const char *command, const char *function)
{
	const struct archive_place places[] = {
		{ .key = &key,
		  .path = "/usr/bin/a;b",
		  .offset = strlen(function),
		  .name = function,
		  .naming = NAMING_NAMED },
		{ .key = &key, .path = "/usr/lib/libc.so.6", .offset = 0x1b2c40, .naming = NAMING_STRIPPED },
		{ .path = ARCHIVE_KERNEL, .offset = 0xffffffff81000123, .naming = NAMING_KERNEL },
	};
	const struct archive_sample sample = {
		.time = clock_monotonic_ns() - ago * NS_PER_S,
		.event = event,
		.cgroup = cgroup,
		.command = command,
		.weight = weight,
		.places = places,
		.nr = ARRAY_SIZE(places),
	};

	assert_int_equal(archive_add(archive, &sample), 0);
}

static void add_sample(struct archive *archive, uint64_t ago, const char *cgroup, const char *command,
		       const char *function)
{
	add_event(archive, "cpu-clock", NS_PER_S / 2, ago, cgroup, command, function);
}

static int setup(void **state)
{
	struct fake_source *fake = fake_source_new(NULL);

	time_now = 1000 * (uint64_t)NS_PER_S;
	add_sample(fake->archive, 20, "/a", "x", "hot");
	add_sample(fake->archive, 10, "/a", "x", "hot");
	add_sample(fake->archive, 5, "/b \"q\"", "y", "cold");
	add_event(fake->archive, "faults", 3, 15, "/a", "x", "touch");
	add_event(fake->archive, "faults", UINT64_C(5) << 40, 5, "/a", "x", "touch");
	*state = fake;
	return 0;
}

static int teardown(void **state)
{
	fake_source_free(*state);
	return 0;
}

static struct response get(struct fake_source *fake, const char *target, bool crowded)
{
	const struct request_head head = { .method = "GET", .target = target, .crowded = crowded };

	return respond_to(fake, NULL, &head);
}

#define STACK "[kernel];libc.so.6+0x1b2c40;"

static void test_folded(void **state)
{
	static const struct {
		const char *query, *expected;
	} cases[] = {
		{ "", "/a;x;" STACK "hot 2\n/b \"q\";y;" STACK "cold 1\n" },
		{ "&by=cgroup", "/a;" STACK "hot 2\n/b \"q\";" STACK "cold 1\n" },
		{ "&by=command,function", "x;" STACK "hot 2\ny;" STACK "cold 1\n" },
		{ "&by=", STACK "hot 2\n" STACK "cold 1\n" },
		{ "&by=&cgroup=/a*", STACK "hot 2\n" },
		{ "&by=&cgroup=/a&below=yes", STACK "hot 2\n" },
		{ "&by=&cgroup=/&below=yes", STACK "hot 2\n" STACK "cold 1\n" },
		{ "&by=&cgroup=/&below=no", "" },
		{ "&by=&cgroup=/b&below=yes", "" },
		{ "&by=&command=y", STACK "cold 1\n" },
		{ "&by=&from=-15s", STACK "hot 1\n" STACK "cold 1\n" },
		{ "&by=&to=-8s", STACK "hot 2\n" },
		{ "&by=&from=-15s&to=-8s&event=cpu-clock", STACK "hot 1\n" },
		{ "&from=-2s", "" },
		{ "&by=&from=0&to=now", STACK "hot 2\n" STACK "cold 1\n" },
		{ "&from=99999999999&to=99999999999.5", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *body = NULL;
		char target[256];

		(void)snprintf(target, sizeof(target), "/api/v1/profile?format=folded%s", cases[i].query);
		body = ask_route(*state, target, 200, "text/plain; charset=utf-8");
		if (strcmp(body ?: "", cases[i].expected))
			fail_msg("%s: %s", target, body);
	}
}

/* In a name there is neither what separates names nor what a terminal takes for a command. */
static void test_folded_names(void **state)
{
	struct fake_source *fake = *state;
	_cleanup_(freep) char *body = NULL;

	add_sample(fake->archive, 5, "/c;\x1b[1m\xc2\x9b[1m\xc3\xbc", "z\n\x7f", "hot");
	body = ask_route(fake, "/api/v1/profile?format=folded&command=z*", 200, "text/plain; charset=utf-8");
	assert_string_equal(body, "/c::[1m::[1m\xc3\xbc;z::;" STACK "hot 1\n");
}

/* A time as seconds since 1970. */
static void test_absolute_time(void **state)
{
	_cleanup_(freep) char *body = NULL;
	char target[256];

	(void)snprintf(target, sizeof(target), "/api/v1/profile?format=folded&by=&from=%.3f&to=%.3f",
		       (double)clock_realtime_ns() / NS_PER_S - 15, (double)clock_realtime_ns() / NS_PER_S - 8);
	body = ask_route(*state, target, 200, "text/plain; charset=utf-8");
	assert_string_equal(body, STACK "hot 1\n");
}

static void check_real(const json_t *object, const char *name, double expected)
{
	const json_t *value = json_object_get(object, name);

	assert_true(json_is_number(value));
	if (fabs(json_number_value(value) - expected) > 0.1)
		fail_msg("%s: %f, not %f", name, json_number_value(value), expected);
}

/* Times are those that the wall clock showed then: it was an hour ahead until the moment 988, and samples are of about
 * 980, 990 and 995. A question means the latest moment that showed its time. */
static void test_clock_was_set_back(void **state)
{
	static const struct {
		unsigned from, to; /* s after REAL_AHEAD */
		const char *expected;
	} cases[] = {
		{ 3600 + 975, 3600 + 985, STACK "hot 1\n" },
		{ 3600 + 975, 992, STACK "hot 2\n" },
		{ 989, 992, STACK "hot 1\n" },
		{ 0, 3600 + 985, STACK "hot 1\n" },
		{ 989, 5000, STACK "hot 1\n" STACK "cold 1\n" },
	};
	struct fake_source *fake = *state;
	json_t *root;

	fake->clock.items[0] = (struct clock_step){ .shown = REAL_AHEAD + 3600 * (uint64_t)NS_PER_S };
	fake->clock.items[1] = (struct clock_step){
		.after = 988 * (uint64_t)NS_PER_S,
		.seen = 988 * (uint64_t)NS_PER_S,
		.shown = REAL_AHEAD,
	};
	fake->clock.nr = 2;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *body = NULL;
		char target[256];

		(void)snprintf(target, sizeof(target), "/api/v1/profile?format=folded&by=&from=%u&to=%u",
			       1800000000 + cases[i].from, 1800000000 + cases[i].to);
		body = ask_route(fake, target, 200, "text/plain; charset=utf-8");
		assert_string_equal(body, cases[i].expected);
	}
	root = ask_route_json(fake, "/api/v1/profile?from=-1min&to=-7s");
	check_real(root, "samples", 2);
	check_real(root, "from", 1800000000 + 3600 + 980);
	check_real(root, "to", 1800000000 + 993);
	json_decref(root);
}

static void test_tree(void **state)
{
	json_t *root = ask_route_json(*state, "/api/v1/profile?from=-1min"), *nodes = json_object_get(root, "nodes");
	const char *name;
	size_t place = 0;
	json_t *array;

	check_real(root, "samples", 3);
	assert_string_equal(json_string_value(json_object_get(root, "unit")), "seconds");
	check_real(root, "total", 1.5);
	check_real(root, "period", 0.5);
	check_real(root, "gap_seconds", 0);
	check_real(root, "reach_seconds", 20);
	check_real(root, "from", (double)clock_realtime_ns() / NS_PER_S - 20);
	check_real(root, "unnamed_ratio", 0);
	json_object_foreach(nodes, name, array) assert_int_equal(json_array_size(array), 11);
	assert_string_equal(json_string_value(json_array_get(json_object_get(nodes, "name"), 0)), "all");
	assert_int_equal(json_integer_value(json_array_get(json_object_get(nodes, "parent"), 0)), -1);
	for (size_t i = 1; i < 11; i++)
		assert_true(json_integer_value(json_array_get(json_object_get(nodes, "parent"), i)) < (json_int_t)i);
	while (strcmp(json_string_value(json_array_get(json_object_get(nodes, "kind"), place)), "place"))
		place++;
	assert_string_equal(json_string_value(json_array_get(json_object_get(nodes, "missing"), place)),
			    "the kernel hides its symbols");
	json_decref(root);
	/* A third of it is left out. */
	root = ask_route_json(*state, "/api/v1/profile?min=0.5");
	assert_int_equal(json_array_size(json_object_get(json_object_get(root, "nodes"), "self")), 6);
	json_decref(root);
}

static double sum_of(const json_t *root, const char *name, size_t nr)
{
	const json_t *array = json_object_get(root, name), *value;
	double sum = 0;
	size_t i;

	assert_int_equal(json_array_size(array), nr);
	json_array_foreach(array, i, value) sum += json_number_value(value);
	return sum;
}

/* The names of a stack, from the outermost frame on. */
static void check_stack(const json_t *root, size_t profile, size_t sample, const char *expected)
{
	const json_t *frames = json_object_get(json_object_get(root, "shared"), "frames"), *index;
	const json_t *in = json_array_get(json_object_get(root, "profiles"), profile);
	_cleanup_(buf_release) struct buf names = {};
	size_t i;

	json_array_foreach(json_array_get(json_object_get(in, "samples"), sample), i, index)
	{
		const json_t *frame = json_array_get(frames, (size_t)json_integer_value(index));

		buf_printf(&names, "%s%s", i ? ";" : "", json_string_value(json_object_get(frame, "name")));
	}
	buf_char(&names, '\0');
	assert_string_equal(names.data, expected);
}

static void test_speedscope(void **state)
{
	json_t *root = ask_route_json(*state, "/api/v1/profile?format=speedscope"), *frames, *profiles, *in;

	frames = json_object_get(json_object_get(root, "shared"), "frames");
	profiles = json_object_get(root, "profiles");
	/* Two commands; the kernel, the library, and two functions, in one file. */
	assert_int_equal(json_array_size(frames), 6);
	assert_int_equal(json_array_size(profiles), 2);
	check_stack(root, 0, 0, "x;" STACK "hot");
	check_stack(root, 1, 0, "y;" STACK "cold");
	in = json_array_get(profiles, 0);
	assert_string_equal(json_string_value(json_object_get(in, "name")), "/a");
	assert_string_equal(json_string_value(json_object_get(in, "unit")), "seconds");
	check_real(in, "endValue", 1);
	assert_true(sum_of(in, "weights", 1) == 1);
	in = json_array_get(profiles, 1);
	assert_string_equal(json_string_value(json_object_get(in, "name")), "/b \"q\"");
	check_real(in, "endValue", 0.5);
	json_decref(root);
	/* Without cgroups there is one, and of another event it has no unit. */
	root = ask_route_json(*state, "/api/v1/profile?format=speedscope&by=&event=faults&to=-10s");
	in = json_array_get(json_object_get(root, "profiles"), 0);
	assert_int_equal(json_array_size(json_object_get(root, "profiles")), 1);
	assert_string_equal(json_string_value(json_object_get(in, "name")), "all");
	assert_string_equal(json_string_value(json_object_get(in, "unit")), "none");
	check_stack(root, 0, 0, STACK "touch");
	assert_true(sum_of(in, "weights", 1) == 3);
	json_decref(root);
	/* Without samples it is a file all the same. */
	root = ask_route_json(*state, "/api/v1/profile?format=speedscope&from=now");
	in = json_array_get(json_object_get(root, "profiles"), 0);
	assert_int_equal(json_array_size(json_object_get(in, "samples")), 0);
	assert_int_equal(json_array_size(json_object_get(in, "weights")), 0);
	json_decref(root);
}

static void test_top(void **state)
{
	json_t *root = ask_route_json(*state, "/api/v1/profile/top"), *row;

	assert_int_equal(json_integer_value(json_object_get(root, "rows_total")), 4);
	row = json_array_get(json_object_get(root, "rows"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "name")), "hot");
	assert_string_equal(json_string_value(json_object_get(row, "module")), "/usr/bin/a;b");
	check_real(row, "self", 1);
	check_real(row, "share", 0.667);
	check_real(row, "error", 0.533);
	json_decref(root);
	root = ask_route_json(*state, "/api/v1/profile/top?by=cgroup&limit=1");
	assert_int_equal(json_integer_value(json_object_get(root, "rows_total")), 2);
	assert_int_equal(json_array_size(json_object_get(root, "rows")), 1);
	row = json_array_get(json_object_get(root, "rows"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "name")), "/a");
	assert_true(json_is_null(json_object_get(row, "module")));
	json_decref(root);
	root = ask_route_json(*state, "/api/v1/profile/top?by=command&command=y");
	assert_int_equal(json_integer_value(json_object_get(root, "rows_total")), 1);
	json_decref(root);
}

static double value_at(const json_t *root, size_t i)
{
	return json_number_value(json_array_get(json_object_get(root, "values"), i));
}

static void test_heat(void **state)
{
	json_t *root = ask_route_json(*state, "/api/v1/profile/heat?from=-1min&columns=6");

	assert_string_equal(json_string_value(json_object_get(root, "unit")), "seconds");
	assert_string_equal(json_string_value(json_object_get(root, "event")), "cpu-clock");
	/* The stretch is not cut off at the oldest sample, 20 s ago, before which nothing is known. */
	check_real(root, "from", (double)clock_realtime_ns() / NS_PER_S - 60);
	check_real(root, "to", (double)clock_realtime_ns() / NS_PER_S);
	check_real(root, "since", (double)clock_realtime_ns() / NS_PER_S - 20);
	check_real(root, "columns", 6);
	check_real(root, "rows", 1);
	check_real(root, "column_seconds", 10);
	assert_null(json_object_get(root, "period"));
	assert_true(fabs(sum_of(root, "values", 6) - 1.5) < 1e-9 && sum_of(root, "samples", 6) == 3);
	assert_true(value_at(root, 3) + value_at(root, 4) == 1 && value_at(root, 5) == 0.5);
	json_decref(root);
	/* Slots of a second each. */
	root = ask_route_json(*state,
			      "/api/v1/profile/heat?event=faults&from=-1min&to=-2s&columns=2&rows=29&cgroup=/a");
	assert_true(sum_of(root, "samples", 58) == 2);
	assert_true(value_at(root, 44) + value_at(root, 45) == 3 && value_at(root, 54) + value_at(root, 55) > 3);
	json_decref(root);
	root = ask_route_json(*state, "/api/v1/profile/heat?command=y");
	assert_true(sum_of(root, "samples", 60) == 1);
	json_decref(root);
	/* A stretch without length, and one without samples. */
	root = ask_route_json(*state, "/api/v1/profile/heat?from=now&columns=1000&rows=100");
	assert_true(sum_of(root, "samples", 100000) == 0);
	check_real(root, "column_seconds", 0);
	json_decref(root);
}

/* Each event has its samples, and its unit. */
static void test_events(void **state)
{
	json_t *root = ask_route_json(*state, "/api/v1/profile/top?event=faults&from=-10s"), *row;

	assert_string_equal(json_string_value(json_object_get(root, "event")), "faults");
	assert_string_equal(json_string_value(json_object_get(root, "unit")), "count");
	assert_true(json_is_null(json_object_get(root, "period")));
	check_real(root, "samples", 1);
	/* The most that a sample can weigh. */
	check_real(root, "total", (double)((UINT64_C(1) << 41) - 1024));
	row = json_array_get(json_object_get(root, "rows"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "name")), "touch");
	json_decref(root);
	root = ask_route_json(*state, "/api/v1/profile?event=faults&to=-10s");
	check_real(root, "total", 3);
	json_decref(root);
}

/* --- pprof */

/* A message of which a part is still to be read. */
struct message {
	const unsigned char *at;
	size_t left;
};

static uint64_t read_varint(struct message *message)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		assert_true(message->left > 0 && shift < 64);
		value |= (uint64_t)(*message->at & 0x7f) << shift;
		message->left--;
		if (!(*message->at++ & 0x80))
			return value;
	}
}

/* How often each field is there, the table of strings (field 6), and the samples (field 2) without a location. */
struct decoded {
	unsigned nr[16], nowhere;
	struct message strings[64];
};

static bool has_text(const struct decoded *decoded, const char *text)
{
	for (unsigned i = 0; i < decoded->nr[6]; i++)
		if (decoded->strings[i].left == strlen(text) && memcmp(decoded->strings[i].at, text, strlen(text)) == 0)
			return true;
	return false;
}

static void decode(struct decoded *ret, const unsigned char *bytes, size_t size)
{
	struct message message = { .at = bytes, .left = size };

	*ret = (struct decoded){};
	while (message.left) {
		uint64_t tag = read_varint(&message), n = read_varint(&message);

		assert_true(tag >> 3 > 0 && tag >> 3 < 16);
		ret->nr[tag >> 3]++;
		if ((tag & 7) == 0)
			continue;
		assert_int_equal(tag & 7, 2);
		assert_true(n <= message.left && ret->nr[6] < ARRAY_SIZE(ret->strings));
		if (tag >> 3 == 6)
			ret->strings[ret->nr[6] - 1] = (struct message){ message.at, n };
		/* Its locations come first, packed. */
		ret->nowhere += tag >> 3 == 2 && (message.at[0] != (1 << 3 | 2) || message.at[1] == 0);
		message.at += n;
		message.left -= n;
	}
}

static void ask_pprof(struct fake_source *fake, const char *target, struct decoded *ret)
{
	struct response response = get(fake, target, false);
	static unsigned char plain[65536];
	size_t len;
	z_stream stream = { .next_out = plain, .avail_out = sizeof(plain) };

	assert_int_equal(response.status, 200);
	assert_string_equal(response.type, "application/octet-stream");
	assert_null(response.encoding);
	stream.next_in = (unsigned char *)(uintptr_t)body_of(&response, &len);
	stream.avail_in = (unsigned)len;
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	decode(ret, plain, stream.total_out);
	(void)inflateEnd(&stream);
	response_release(&response);
}

static void test_pprof(void **state)
{
	struct decoded decoded;

	ask_pprof(*state, "/debug/pprof/profile", &decoded);
	assert_int_equal(decoded.nr[1], 2); /* types of values */
	assert_int_equal(decoded.nr[2], 2); /* samples: a stack each */
	assert_int_equal(decoded.nr[3], 3); /* mappings */
	assert_int_equal(decoded.nr[4], 4); /* locations */
	assert_int_equal(decoded.nr[5], 4); /* functions */
	assert_int_equal(decoded.nr[9], 1);
	assert_int_equal(decoded.nr[10], 1);
	assert_int_equal(decoded.nr[12], 1);
	assert_true(has_text(&decoded, "hot") && has_text(&decoded, "/b \"q\""));
	assert_true(has_text(&decoded, "abcd000000000000000000000000000000000000"));
	ask_pprof(*state, "/debug/pprof/profile?seconds=8&cgroup=/**", &decoded);
	assert_int_equal(decoded.nr[2], 1);
	assert_false(has_text(&decoded, "hot"));
	ask_pprof(*state, "/debug/pprof/cpu-clock", &decoded);
	assert_true(has_text(&decoded, "hot"));
	ask_pprof(*state, "/debug/pprof/faults", &decoded);
	assert_int_equal(decoded.nr[2], 1);
	assert_int_equal(decoded.nr[12], 0); /* no period */
	assert_false(has_text(&decoded, "hot"));
	ask_pprof(*state, "/api/v1/profile?format=pprof&by=", &decoded);
	assert_true(has_text(&decoded, "/b \"q\""));
	/* Without a sample it is valid all the same. */
	ask_pprof(*state, "/debug/pprof/profile?seconds=1", &decoded);
	assert_int_equal(decoded.nr[2], 0);
	assert_int_equal(decoded.nr[1], 2);
}

static void add_bare(struct archive *archive, const char *cgroup, const char *command)
{
	const struct archive_sample sample = {
		.time = clock_monotonic_ns() - NS_PER_S,
		.event = "page-faults",
		.cgroup = cgroup,
		.command = command,
		.weight = 1,
	};

	assert_int_equal(archive_add(archive, &sample), 0);
}

/* Where readers drop a sample without a function, one of its own says that there is none: shares are of all samples. */
static void test_samples_without_a_stack(void **state)
{
	struct fake_source *fake = *state;
	struct decoded decoded;
	json_t *root;

	add_event(fake->archive, "page-faults", 1, 5, "/a", "x", "touch");
	add_bare(fake->archive, "/a", "x");
	add_bare(fake->archive, "/b", "y");
	add_bare(fake->archive, ARCHIVE_HIDDEN, ARCHIVE_HIDDEN);
	ask_pprof(fake, "/debug/pprof/page-faults", &decoded);
	assert_int_equal(decoded.nr[2], 4);
	assert_int_equal(decoded.nowhere, 0);
	/* The kernel, the library, and the function; both of what has none; these have no mapping. */
	assert_int_equal(decoded.nr[4], 5);
	assert_int_equal(decoded.nr[5], 5);
	assert_int_equal(decoded.nr[3], 3);
	assert_true(has_text(&decoded, "(hidden)") && has_text(&decoded, "(no function)"));

	root = ask_route_json(fake, "/api/v1/profile?format=speedscope&event=page-faults&by=cgroup");
	check_stack(root, 0, 0, "(no function)");
	check_stack(root, 0, 1, STACK "touch");
	check_stack(root, 1, 0, "(no function)");
	check_stack(root, 2, 0, "(hidden)");
	json_decref(root);
}

/* Pyroscope refuses a profile with a '-' in the type of its samples. */
static void test_types_have_no_dash(void **state)
{
	struct fake_source *fake = *state;
	struct decoded decoded;

	add_bare(fake->archive, "/a", "x");
	ask_pprof(fake, "/debug/pprof/page-faults", &decoded);
	assert_true(has_text(&decoded, "page_faults"));
	assert_false(has_text(&decoded, "page-faults"));
	ask_pprof(fake, "/debug/pprof/cpu-clock", &decoded);
	assert_true(has_text(&decoded, "cpu"));
}

/* A stretch that has ended before there were samples ends where it was to end, and does not begin after that. */
static void test_before_all(void **state)
{
	static const char *const paths[] = { "/api/v1/profile/top", "/api/v1/profile" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char target[128];
		json_t *root;
		double from, to;

		(void)snprintf(target, sizeof(target), "%s?from=-65s&to=-60s", paths[i]);
		root = ask_route_json(*state, target);
		from = json_number_value(json_object_get(root, "from"));
		to = json_number_value(json_object_get(root, "to"));
		assert_true(from > 0 && fabs(to - from) < 1e-6);
		json_decref(root);
	}
}

static void test_errors(void **state)
{
	static const struct {
		const char *target, *says;
	} cases[] = {
		{ "/api/v1/profile?nothing=1", "unknown query parameter 'nothing'" },
		{ "/api/v1/profile?limit=1", "unknown query parameter 'limit'" },
		{ "/api/v1/profile/top?format=json", "unknown query parameter 'format'" },
		{ "/api/v1/profile?from=", "from ''" },
		{ "/api/v1/profile?from=tomorrow", "from 'tomorrow'" },
		{ "/api/v1/profile?from=-5apples", "from '-5apples'" },
		{ "/api/v1/profile?to=nan", "to 'nan'" },
		{ "/api/v1/profile?from=now&to=-5min", "from is later than to" },
		{ "/api/v1/profile?cgroup=", "cgroup is empty" },
		{ "/api/v1/profile?cgroup=/a&below=", "below '' is neither yes nor no" },
		{ "/api/v1/profile?command=", "command is empty" },
		{ "/api/v1/profile?event=cycles", "no event 'cycles'" },
		{ "/api/v1/profile?event=", "event is empty" },
		{ "/api/v1/profile?by=pid", "by 'pid'" },
		{ "/api/v1/profile/top?by=cgroup,command", "by 'cgroup,command'" },
		{ "/api/v1/profile?format=svg", "format 'svg'" },
		{ "/api/v1/profile?min=2", "min '2'" },
		{ "/api/v1/profile?min=-1", "min '-1'" },
		{ "/api/v1/profile/top?limit=0", "limit '0'" },
		{ "/api/v1/profile/heat?columns=0", "columns '0' is not a number from 1 to 1000" },
		{ "/api/v1/profile/heat?columns=1001", "columns '1001'" },
		{ "/api/v1/profile/heat?columns=0x10", "columns '0x10'" },
		{ "/api/v1/profile/heat?columns=", "columns ''" },
		{ "/api/v1/profile/heat?rows=101", "rows '101' is not a number from 1 to 100" },
		{ "/api/v1/profile/heat?rows=-1", "rows '-1'" },
		{ "/api/v1/profile/heat?by=cgroup", "unknown query parameter 'by'" },
		{ "/api/v1/profile/heat?event=cycles", "no event 'cycles'" },
		{ "/api/v1/profile/heat?from=now&to=-5min", "from is later than to" },
		{ "/api/v1/profile?columns=1", "unknown query parameter 'columns'" },
		{ "/api/v1/profile?a=%", "percent-encoded" },
		{ "/debug/pprof/profile?seconds=0", "seconds '0'" },
		{ "/debug/pprof/profile?seconds=99999999", "seconds '99999999'" },
		{ "/debug/pprof/profile?debug=1", "unknown query parameter 'debug'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool json = strncmp(cases[i].target, "/api/", 5) == 0;
		_cleanup_(freep) char *body = NULL;

		body = ask_route(*state, cases[i].target, 400, json ? "application/json" : "text/plain; charset=utf-8");
		if (!strstr(body, cases[i].says) || (json && !strstr(body, "{\"error\":\"")))
			fail_msg("%s: %s", cases[i].target, body);
	}
}

/* Of pprof's routes, one for each event. */
static void test_no_route(void **state)
{
	static const char *const targets[] = { "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/faults/x",
					       "/debug/pprof" };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		free(ask_route(*state, targets[i], 404, "text/plain; charset=utf-8"));
}

static void test_unavailable(void **state)
{
	struct fake_source *fake = *state;
	struct response response = get(fake, "/api/v1/profile", true);
	_cleanup_(freep) char *body = NULL;

	assert_int_equal(response.status, 503);
	assert_int_equal(fake->nr_asked, 0);
	response_release(&response);
	fake->profile_error = -EOPNOTSUPP;
	body = ask_route(fake, "/api/v1/profile/top", 503, "application/json");
	assert_string_equal(body, "{\"error\":\"nothing is profiled\"}\n");
}

static void check_compressed(struct fake_source *fake, const char *target)
{
	struct request_head head = { .method = "GET", .target = target };
	_cleanup_(response_release) struct response plain = respond_to(fake, NULL, &head), compressed = {};
	static unsigned char text[65536];
	z_stream stream = { .next_out = text, .avail_out = sizeof(text) };
	const char *body;
	size_t len;

	assert_null(plain.encoding);
	head.accept_encoding = "gzip";
	compressed = respond_to(fake, NULL, &head);
	assert_string_equal(compressed.encoding, "gzip");
	assert_string_equal(compressed.type, plain.type);
	assert_string_equal(compressed.vary, plain.vary);
	stream.next_in = (unsigned char *)(uintptr_t)body_of(&compressed, &len);
	stream.avail_in = (unsigned)len;
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	body = body_of(&plain, &len);
	assert_int_equal(stream.total_out, len);
	assert_memory_equal(text, body, len);
	(void)inflateEnd(&stream);
}

/* Errors are not. */
static void test_compressed(void **state)
{
	static const struct request_head wrong = {
		.method = "GET",
		.target = "/api/v1/profile?event=other",
		.accept_encoding = "gzip",
	};
	_cleanup_(response_release) struct response error = respond_to(*state, NULL, &wrong);

	check_compressed(*state, "/api/v1/profile?format=folded");
	check_compressed(*state, "/api/v1/captures");
	assert_int_equal(error.status, 400);
	assert_null(error.encoding);
	assert_null(error.vary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_folded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_folded_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_absolute_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_was_set_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tree, setup, teardown),
		cmocka_unit_test_setup_teardown(test_speedscope, setup, teardown),
		cmocka_unit_test_setup_teardown(test_top, setup, teardown),
		cmocka_unit_test_setup_teardown(test_heat, setup, teardown),
		cmocka_unit_test_setup_teardown(test_events, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_route, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pprof, setup, teardown),
		cmocka_unit_test_setup_teardown(test_compressed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_samples_without_a_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_types_have_no_dash, setup, teardown),
		cmocka_unit_test_setup_teardown(test_before_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unavailable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
