/* SPDX-License-Identifier: MIT */

/*
 * Compares callers that the profiler finds with those that libdw finds: against-libdw [--record FILE] NR PROGRAM
 * [ARGUMENT...]
 *
 * Runs the program, samples it up to NR times with registers and copies of its stack, as the profiler does, and stops
 * it. Then each copy is unwound twice: by unwind.h with the project's tables, and by libdwfl, which gets the same
 * registers, and no memory but the copy. The return addresses have to be the same, in their order, up to the end.
 *
 * Where a file has no call-frame information for some code, libdw can only guess; the profiler may know that code by
 * its bytes (known-code.h). Up to there, the frames have to be the same.
 *
 * Prints a line of JSON with the numbers, and on standard error stacks that differ. With --record, copies are smaller,
 * and one stack of each kind is written to a file (setup/recorded-stacks.h). The tables are made by this
 * program, executed anew: against-libdw --make-frame-table.
 */

#include "base/host/proc-maps.h"
#include "base/util/cleanup.h"
#include "profiler/sample/ring.h"
#include "profiler/sample/sample-attr.h"
#include "profiler/stack/frame-builder.h"
#include "profiler/stack/table-maker.h"
#include "profiler/stack/unwind-sample.h"
#include "setup/recorded-stacks.h"

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define RATE 499 /* Hz */
#define RING_PAGES 1024
#define COPY 32768
#define COPY_RECORDED 8192 /* less to keep */
#define ALIKE_MAX 1	   /* recorded of those that differ in nothing but their innermost frame */
#define FILES_MAX 256
#define TABLE_MAX ((size_t)64 << 20)
#define SHOWN_MAX 5 /* stacks that differ */

struct event {
	int fd;
	struct ring ring;
};

struct comparison {
	pid_t pid;
	/* The samples, and all that is mapped. */
	struct recorded_stacks found;
	char *paths[FILES_MAX];
	unsigned char *used[FILES_MAX]; /* of each row of a table: it is needed for what is recorded */
	bool notes;			/* that rows are used */
	/* libdw's: the stack that is unwound, and its frames. */
	Dwfl *dwfl;
	const struct recorded_stack *stack;
	uint64_t frames[UNWIND_FRAMES_MAX];
	size_t nr;
	bool lacks_rule; /* of the last frame */
	/* The result. */
	size_t equal, short_equal, differ;
	size_t ends[_STACK_END_MAX];
	size_t depth; /* frames of all */
};

_Noreturn static void fail(const char *what, int error)
{
	(void)fprintf(stderr, "against-libdw: %s: %s\n", what, error < 0 ? strerror(-error) : "failed");
	exit(1);
}

static void *allocate(size_t nr, size_t size)
{
	void *memory = calloc(nr ? nr : 1, size);

	if (!memory)
		fail("memory", -ENOMEM);
	return memory;
}

/* --- sampling */

/* It begins when there is something to read, without an environment: that would be in the copies. */
static pid_t start_program(char **argv, int *ret_go)
{
	int ends[2];
	pid_t pid;
	char byte;

	if (pipe2(ends, O_CLOEXEC) < 0)
		fail("pipe", -errno);
	pid = fork();
	if (pid < 0)
		fail("fork", -errno);
	if (pid == 0) {
		if (read(ends[0], &byte, 1) == 1 && clearenv() == 0)
			(void)execv(argv[0], argv);
		_exit(127);
	}
	close(ends[0]);
	*ret_go = ends[1];
	return pid;
}

/* On one CPU: an event of all CPUs can't both have a ring and be inherited by threads. */
static int open_event(struct event *ret, struct record_format *ret_format, pid_t pid, int cpu, size_t copy)
{
	struct sampled_variant variant = {
		.attr.attr = { .type = PERF_TYPE_SOFTWARE,
			       .size = sizeof(struct perf_event_attr),
			       .config = PERF_COUNT_SW_CPU_CLOCK },
	};
	const struct sampled_event event = { .variants = &variant, .nr = 1, .rate = RATE };
	const struct sample_request request = { .lacks.lost = true, .copy = copy, .watermark = 1 };
	union event_attr attr;
	int r;

	sample_attr_event(&attr, &event, &variant, &request);
	attr.attr.inherit = attr.attr.enable_on_exec = 1;
	*ret_format = sample_attr_format(&attr);
	ret->fd = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ret->fd < 0)
		return -errno;
	r = ring_map(&ret->ring, ret->fd, RING_PAGES);
	return r < 0 ? r : 0;
}

static void take_sample(struct comparison *comparison, const struct record_sample *sample)
{
	struct recorded_stack *stack = &comparison->found.stacks[comparison->found.nr];
	unsigned char *bytes;

	if (!unwind_sample(sample, UNWIND_OWN, &stack->registers, &stack->copy) || !stack->copy.size)
		return;
	bytes = allocate(1, stack->copy.size);
	memcpy(bytes, stack->copy.bytes, stack->copy.size);
	stack->copy.bytes = bytes;
	comparison->found.nr++;
}

static void take_samples(struct comparison *comparison, struct ring *ring, const struct record_format *format,
			 size_t max)
{
	struct record record;
	const void *data;
	size_t size;

	ring_look(ring);
	while (comparison->found.nr < max && (data = ring_peek(ring, &size))) {
		if (record_parse(&record, format, data, size) == 0 && record.type == PERF_RECORD_SAMPLE)
			take_sample(comparison, &record.sample);
		ring_take(ring, size);
	}
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == pid;
}

/* The program is stopped then. */
static void sample_program(struct comparison *comparison, char **argv, size_t max, size_t copy)
{
	int nr_cpus = (int)sysconf(_SC_NPROCESSORS_CONF), go, status;
	struct event *events = allocate((size_t)nr_cpus, sizeof(*events));
	struct pollfd *polls = allocate((size_t)nr_cpus, sizeof(*polls));
	struct record_format format = {};

	comparison->found.stacks = allocate(max, sizeof(*comparison->found.stacks));
	comparison->pid = start_program(argv, &go);
	for (int cpu = 0; cpu < nr_cpus; cpu++) {
		int r = open_event(&events[cpu], &format, comparison->pid, cpu, copy);

		if (r < 0 && r != -ENODEV)
			fail("perf_event_open", r);
		polls[cpu] = (struct pollfd){ .fd = events[cpu].fd, .events = POLLIN };
	}
	if (write(go, "x", 1) != 1)
		fail("write", -errno);
	while (comparison->found.nr < max) {
		if (poll(polls, (nfds_t)nr_cpus, 100) < 0 || has_ended(comparison->pid))
			fail(argv[0], 0);
		for (int cpu = 0; cpu < nr_cpus; cpu++)
			if (events[cpu].ring.page)
				take_samples(comparison, &events[cpu].ring, &format, max);
	}
	(void)kill(comparison->pid, SIGSTOP);
	if (waitpid(comparison->pid, &status, WUNTRACED) != comparison->pid || !WIFSTOPPED(status))
		fail(argv[0], 0);
	for (int cpu = 0; cpu < nr_cpus; cpu++) {
		if (events[cpu].ring.page)
			ring_unmap(&events[cpu].ring);
		safe_close(events[cpu].fd);
	}
	close(go);
	free(polls);
	free(events);
}

/* --- tables */

static struct frame_table *make_table(const char *path, const struct module_key *key, pid_t user)
{
	const struct file_user of = { .pid = (uint32_t)user };
	struct frame_table *table = NULL;
	struct table_maker *maker;
	int r = table_maker_new(&maker, "/proc");

	if (r == 0)
		r = table_maker_start(maker, path, key, &of);
	if (r < 0)
		fail("table_maker_start", r);
	while (!table_maker_finish(maker)) {
		struct pollfd wait = { .fd = table_maker_fd(maker), .events = POLLIN };

		(void)poll(&wait, 1, 100);
	}
	(void)table_maker_take(maker, &table, TABLE_MAX);
	table_maker_free(maker);
	return table;
}

/* The number of a file, whose table is made when it is first met. */
static size_t number_of(struct comparison *comparison, const struct proc_mapping *mapping)
{
	struct recorded_stacks *found = &comparison->found;
	struct frame_table *table = NULL;

	for (size_t i = 0; i < found->nr_files; i++)
		if (strcmp(comparison->paths[i], mapping->path) == 0)
			return i;
	if (found->nr_files == FILES_MAX)
		fail("too many files", 0);
	if (mapping->path[0] == '/' || strcmp(mapping->path, MODULE_VDSO) == 0)
		table = make_table(mapping->path, &mapping->key, comparison->pid);
	comparison->paths[found->nr_files] = strdup(mapping->path);
	if (!comparison->paths[found->nr_files])
		fail("memory", -ENOMEM);
	comparison->used[found->nr_files] = allocate(table ? table->nr_rows : 0, 1);
	found->tables[found->nr_files] = table;
	return found->nr_files++;
}

static int take_mapping(void *userdata, const struct proc_mapping *mapping)
{
	struct comparison *comparison = userdata;
	struct recorded_stacks *found = &comparison->found;

	found->mappings[found->nr_mappings++] = (struct recorded_mapping){ mapping->start, mapping->size,
									   mapping->offset,
									   number_of(comparison, mapping) };
	return 0;
}

static void read_mappings(struct comparison *comparison)
{
	int r;

	comparison->found.tables = allocate(FILES_MAX, sizeof(struct frame_table *));
	comparison->found.mappings = allocate(MAPPINGS_MAX, sizeof(struct recorded_mapping));
	r = proc_maps_read("/proc", (uint32_t)comparison->pid, MAPPINGS_MAX, take_mapping, comparison);
	if (r < 0)
		fail("proc_maps_read", r);
}

/* --- by the profiler */

/* The row that a rule is of, at an address that has one. */
static void note_row(struct comparison *comparison, uint64_t address)
{
	for (size_t i = 0; i < comparison->found.nr_mappings; i++) {
		const struct recorded_mapping *mapping = &comparison->found.mappings[i];
		const struct frame_table *table = comparison->found.tables[mapping->file];
		uint64_t offset = address - mapping->start + mapping->offset;
		uint32_t row = 0;

		if (address - mapping->start >= mapping->size)
			continue;
		while (row + 1 < table->nr_rows && table->offsets[row + 1] <= offset)
			row++;
		comparison->used[mapping->file][row] = 1;
		return;
	}
}

static enum unwind_code find_rule(void *userdata, uint64_t address, const struct frame_rule **ret)
{
	struct comparison *comparison = userdata;
	enum unwind_code code = recorded_stacks_find(&comparison->found, address, ret);

	if (code == UNWIND_RULE && comparison->notes)
		note_row(comparison, address);
	return code;
}

static void unwind_by_tables(struct comparison *comparison, struct recorded_stack *stack)
{
	struct unwind_frame frames[UNWIND_FRAMES_MAX];

	stack->end = unwind(&stack->registers, &stack->copy, find_rule, comparison, frames, &stack->nr);
	for (size_t i = 0; i < stack->nr; i++) {
		stack->frames[i] = frames[i].address;
		stack->is_return[i] = frames[i].is_return;
	}
}

/* --- by libdw */

static pid_t next_thread(_unused_ Dwfl *dwfl, void *userdata, void **thread)
{
	struct comparison *comparison = userdata;

	if (*thread)
		return 0;
	*thread = userdata;
	return comparison->pid;
}

static bool read_memory(_unused_ Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *userdata)
{
	const struct comparison *comparison = userdata;
	const struct unwind_copy *copy = &comparison->stack->copy;

	if (address < copy->start || copy->size < sizeof(*ret) || address - copy->start > copy->size - sizeof(*ret))
		return false;
	memcpy(ret, copy->bytes + (address - copy->start), sizeof(*ret));
	return true;
}

/* Its numbers are those of DWARF, as ours. */
static bool set_registers(Dwfl_Thread *thread, void *userdata)
{
	const struct comparison *comparison = userdata;
	const struct unwind_registers *registers = &comparison->stack->registers;

	for (int i = 0; i < FRAME_REGISTERS; i++) {
		Dwarf_Word value = registers->values[i];

		if (registers->known >> i & 1 && !dwfl_thread_state_registers(thread, i, 1, &value))
			return false;
	}
#ifdef __x86_64__
	Dwarf_Word address = registers->address;

	if (!dwfl_thread_state_registers(thread, 16, 1, &address))
		return false;
#endif
	dwfl_thread_state_register_pc(thread, registers->address);
	return true;
}

static bool cfi_has(Dwarf_CFI *cfi, Dwarf_Addr address)
{
	Dwarf_Frame *frame;

	if (!cfi || dwarf_cfi_addrframe(cfi, address, &frame) != 0)
		return false;
	free(frame);
	return true;
}

static bool has_rule(Dwfl_Module *module, Dwarf_Addr address)
{
	Dwarf_Addr by_exceptions = 0, by_debuggers = 0;
	Dwarf_CFI *cfi = dwfl_module_eh_cfi(module, &by_exceptions);

	return cfi_has(cfi, address - by_exceptions) ||
	       cfi_has(dwfl_module_dwarf_cfi(module, &by_debuggers), address - by_debuggers);
}

/* dwfl_addrmodule() also tells the one before an address that is in none. */
static bool is_in(Dwfl_Module *module, Dwarf_Addr address)
{
	Dwarf_Addr start, end;

	(void)dwfl_module_info(module, NULL, &start, &end, NULL, NULL, NULL, NULL);
	return address >= start && address < end;
}

/* A frame that is in no file is none: while an exception is thrown, and in other places, no rule is right. */
static int take_frame(Dwfl_Frame *frame, void *userdata)
{
	struct comparison *comparison = userdata;
	Dwarf_Addr address, call;
	Dwfl_Module *module;
	bool is_activation;

	if (!dwfl_frame_pc(frame, &address, &is_activation))
		return DWARF_CB_ABORT;
	call = address - !is_activation;
	module = dwfl_addrmodule(comparison->dwfl, call);
	if (!module || !is_in(module, call))
		return DWARF_CB_ABORT;
	comparison->frames[comparison->nr++] = address;
	comparison->lacks_rule = !has_rule(module, call);
	return comparison->lacks_rule || comparison->nr == UNWIND_FRAMES_MAX ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static void open_libdw(struct comparison *comparison)
{
	static const Dwfl_Callbacks files = { .find_elf = dwfl_linux_proc_find_elf,
					      .find_debuginfo = dwfl_standard_find_debuginfo };
	static const Dwfl_Thread_Callbacks threads = { .next_thread = next_thread,
						       .memory_read = read_memory,
						       .set_initial_registers = set_registers };

	/* It asks no server for debug symbols. */
	(void)unsetenv("DEBUGINFOD_URLS");
	comparison->dwfl = dwfl_begin(&files);
	if (!comparison->dwfl || dwfl_linux_proc_report(comparison->dwfl, comparison->pid) != 0 ||
	    dwfl_report_end(comparison->dwfl, NULL, NULL) != 0 ||
	    !dwfl_attach_state(comparison->dwfl, NULL, comparison->pid, &threads, comparison))
		fail(dwfl_errmsg(-1), 0);
}

static void unwind_by_libdw(struct comparison *comparison, const struct recorded_stack *stack)
{
	comparison->stack = stack;
	comparison->nr = 0;
	comparison->lacks_rule = false;
	/* An error is an end as any other: the copy does. */
	(void)dwfl_getthread_frames(comparison->dwfl, comparison->pid, take_frame, comparison);
}

/* --- both */

static void show_frame(struct comparison *comparison, size_t i, uint64_t address, const char *who)
{
	Dwfl_Module *module = dwfl_addrmodule(comparison->dwfl, address);
	const char *file = "?", *name = NULL;
	Dwarf_Addr start = 0;

	if (module) {
		file = dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
		name = dwfl_module_addrname(module, address);
	}
	(void)fprintf(stderr, "  %s %zu: %#" PRIx64 " %s, %s+%#" PRIx64 "\n", who, i, address, name ? name : "?", file,
		      address - start);
}

/* From a frame before the first that differs. */
static void show(struct comparison *comparison, const struct recorded_stack *stack, size_t same)
{
	size_t from = same ? same - 1 : 0;

	(void)fprintf(stderr, "different after %zu of %zu and %zu frames, end %d, copy of %zu bytes:\n", same,
		      stack->nr, comparison->nr, stack->end, stack->copy.size);
	for (size_t i = from; i < stack->nr && i < same + 3; i++)
		show_frame(comparison, i, stack->frames[i], "ours ");
	for (size_t i = from; i < comparison->nr && i < same + 3; i++)
		show_frame(comparison, i, comparison->frames[i], "libdw");
}

static void compare(struct comparison *comparison, struct recorded_stack *stack)
{
	size_t same = 0;

	unwind_by_tables(comparison, stack);
	unwind_by_libdw(comparison, stack);
	while (same < stack->nr && same < comparison->nr && stack->frames[same] == comparison->frames[same])
		same++;
	stack->confirmed = same;
	comparison->ends[stack->end]++;
	comparison->depth += stack->nr;
	if (same == comparison->nr && same == stack->nr)
		comparison->equal++;
	else if (same == comparison->nr && comparison->lacks_rule)
		comparison->short_equal++;
	else if (++comparison->differ <= SHOWN_MAX)
		show(comparison, stack, same);
}

static void print_result(const struct comparison *comparison)
{
	printf("{\"compared\": %zu, \"equal\": %zu, \"equal_to_code_without_rules\": %zu, \"differ\": %zu, "
	       "\"whole\": %zu, \"cut\": %zu, \"frames\": %zu}\n",
	       comparison->found.nr, comparison->equal, comparison->short_equal, comparison->differ,
	       comparison->ends[STACK_WHOLE], comparison->ends[STACK_CUT], comparison->depth);
}

/* --- the recording */

/* Do they differ in nothing but the innermost frame? */
static bool is_alike(const struct recorded_stack *a, const struct recorded_stack *b)
{
	return a->nr == b->nr && memcmp(a->frames + 1, b->frames + 1, (a->nr - 1) * sizeof(a->frames[0])) == 0;
}

static bool is_wanted(const struct recorded_stacks *chosen, const struct recorded_stack *stack)
{
	unsigned nr = 0;

	for (size_t i = 0; i < chosen->nr; i++)
		nr += is_alike(&chosen->stacks[i], stack);
	return nr < ALIKE_MAX && (stack->end == STACK_WHOLE || stack->end == STACK_CUT);
}

/* A table with the rows that are used; -1: none is. */
static int write_rows(const struct frame_table *table, const unsigned char *used)
{
	struct frame_builder *builder;
	int fd = memfd_create("table", MFD_CLOEXEC), r = frame_builder_new(&builder);

	if (fd < 0 || r < 0)
		fail("frame_builder_new", r);
	for (uint32_t i = 0; table && i < table->nr_rows && r == 0; i++)
		if (used[i])
			r = frame_builder_add(builder, table->offsets[i],
					      i + 1 < table->nr_rows ? table->offsets[i + 1] : table->offsets[i] + 1,
					      &table->rules[table->numbers[i]]);
	if (r == 0)
		r = frame_builder_write(builder, fd);
	frame_builder_free(builder);
	if (r < 0 && r != -ENODATA)
		fail("frame_builder_write", r);
	return r < 0 ? safe_close(fd) : fd;
}

/* Files get new numbers, of those that are needed. */
static void record_stacks(struct comparison *comparison, const char *path)
{
	struct recorded_stacks *found = &comparison->found, chosen = *found;
	int tables[FILES_MAX];
	FILE *file = fopen(path, "we");

	chosen.stacks = allocate(found->nr, sizeof(*chosen.stacks));
	chosen.nr = chosen.nr_files = 0;
	comparison->notes = true;
	for (size_t i = 0; i < found->nr; i++)
		if (is_wanted(&chosen, &found->stacks[i])) {
			unwind_by_tables(comparison, &found->stacks[i]);
			chosen.stacks[chosen.nr++] = found->stacks[i];
		}
	for (size_t i = 0; i < found->nr_files; i++) {
		int fd = write_rows(found->tables[i], comparison->used[i]);

		for (size_t j = 0; j < found->nr_mappings; j++)
			if (chosen.mappings[j].file == i)
				chosen.mappings[j].file = fd < 0 ? UINT64_MAX : chosen.nr_files;
		if (fd >= 0)
			tables[chosen.nr_files++] = fd;
	}
	if (!file || !recorded_stacks_write(file, &chosen, tables) || fclose(file) != 0)
		fail(path, -errno);
	free(chosen.stacks);
}

int main(int argc, char **argv)
{
	struct comparison comparison = {};
	const char *record = NULL;
	long nr;

	if (argc == 2 && strcmp(argv[1], "--make-frame-table") == 0)
		frame_table_child_run();
	if (argc > 2 && strcmp(argv[1], "--record") == 0) {
		record = argv[2];
		argv += 2;
		argc -= 2;
	}
	nr = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
	if (nr <= 0) {
		(void)fprintf(stderr, "usage: against-libdw [--record FILE] NR PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	sample_program(&comparison, argv + 2, (size_t)nr, record ? COPY_RECORDED : COPY);
	read_mappings(&comparison);
	open_libdw(&comparison);
	for (size_t i = 0; i < comparison.found.nr; i++)
		compare(&comparison, &comparison.found.stacks[i]);
	print_result(&comparison);
	if (record)
		record_stacks(&comparison, record);
	(void)kill(comparison.pid, SIGKILL);
	(void)waitpid(comparison.pid, NULL, 0);
	return 0;
}
