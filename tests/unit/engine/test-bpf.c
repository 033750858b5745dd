/* SPDX-License-Identifier: MIT */

/*
 * engine/bpf/kernel: programs are loaded into the kernel that runs here, count an event, and are found again by the ids
 * of their files. The machine's own cgroups run meanwhile and take slots too; those of the test have ids that no cgroup
 * has.
 */

#include "counting/engine/bpf/bpf.h"
#include "counting/engine/bpf/slot-owners.h"
#include "counting/engine/bpf/slots-image.h"
#include "setup/loaded-bpf.h"
#include "setup/needs.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <mntent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A word of all cells of CPU 0. */
static uint64_t sum_cells(const struct bpf_kernel *kernel, size_t word)
{
	uint64_t sum = 0;

	for (uint32_t cell = 0; cell < nr_cells(kernel, 0); cell++)
		sum += cell_at(kernel, 0, cell)[word];
	return sum;
}

/* --- loading and counting */

static void test_load(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM);
	uint64_t credits = sum_cells(kernel, CREDIT_CELL_CREDITS);

	assert_non_null(engine_bpf);
	assert_string_equal(engine_bpf->name, "bpf");
	assert_int_equal(slot_find(kernel, 1), CREDIT_ROOT_SLOT);
	assert_int_equal(slot_at(kernel, CREDIT_ROOT_SLOT)->id, 1);
	assert_true(bpf_kernel_flush(kernel, 0));
	assert_true(sum_cells(kernel, CREDIT_CELL_CREDITS) > credits);
	assert_int_not_equal(kernel->cpus[0].cgroup, 0);
	assert_false(bpf_kernel_flush(kernel, UINT16_MAX));
	/* No CPU has events yet. */
	assert_true(bpf_kernel_flush_all(kernel));
}

/* Of CPU 0, and it does not count yet. */
static int open_event(enum perf_sw_ids config, uint64_t *ret_id)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = config,
		.disabled = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_ID, ret_id), 0);
	return fd;
}

/* Whatever runs meanwhile: what the event has counted between two flushes is in the cells, and nothing else. */
static void test_credit(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM);
	size_t word = CREDIT_CELL_EVENTS(kernel->sizes.sets) + 1;
	uint64_t id, counted, after, enabled;
	int fd = open_event(PERF_COUNT_SW_CPU_CLOCK, &id);

	assert_int_equal(bpf_kernel_wire(kernel, 0, 1, fd, id), 0);
	kernel->config->events[1] = (struct credit_event){ .used = CREDIT_USED, .leads = 1 };
	kernel->config->nr_events = 2;
	assert_true(bpf_kernel_flush_all(kernel));
	assert_int_equal(kernel->cpus[0].states[1], CREDIT_COUNTS);

	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	(void)usleep(20000);
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_DISABLE, 0), 0);
	kernel->config->events[1].used = CREDIT_ENDING;
	assert_true(bpf_kernel_flush_all(kernel));
	assert_int_equal(kernel->cpus[0].states[1], CREDIT_ENDED);
	assert_int_equal(read(fd, &counted, sizeof(counted)), sizeof(counted));
	assert_true(counted >= 20000000);
	assert_int_equal(sum_cells(kernel, word), counted);
	/* It stands still while the kernel switches other tools' events of cgroups. */
	assert_true(sum_cells(kernel, CREDIT_CELL_RUNNING(0)) >= 10000000);

	/* It has ended. */
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	(void)usleep(1000);
	assert_true(bpf_kernel_flush_all(kernel));
	assert_int_equal(read(fd, &after, sizeof(after)), sizeof(after));
	assert_true(after > counted);
	assert_int_equal(sum_cells(kernel, word), counted);
	/* CPUs without events are left alone. */
	for (uint32_t cpu = 1; cpu < kernel->sizes.cpus; cpu++) {
		assert_int_equal(kernel->cpus[cpu].cgroup, 0);
		assert_int_equal(kernel->cpus[cpu].switches, 0);
	}
	assert_true(kernel->cpus[0].counts);
	bpf_kernel_unwire(kernel, 0, 1);
	assert_int_equal(kernel->cpus[0].wired[1], 0);
	assert_false(kernel->cpus[0].counts);

	/* It counts again: that another task runs there now does not mean that switches are hidden. And a pause that it
	 * ended in was not that task's all the time. */
	kernel->cpus[0].task = 1;
	kernel->cpus[0].cgroup = NO_CGROUP(1);
	kernel->cpus[0].hidden = 0;
	kernel->cpus[0].pauses = 1;
	kernel->cpus[0].states[1] = CREDIT_COUNTS;
	kernel->config->events[1] = (struct credit_event){ .used = CREDIT_USED, .leads = 1, .limited = 1 };
	enabled = sum_cells(kernel, CREDIT_CELL_ENABLED(0));
	(void)usleep(1000);
	assert_int_equal(bpf_kernel_wire(kernel, 0, 1, fd, id), 0);
	assert_int_equal(sum_cells(kernel, CREDIT_CELL_ENABLED(0)), enabled);
	assert_int_not_equal(kernel->cpus[0].cgroup, NO_CGROUP(1));
	assert_int_equal(kernel->cpus[0].hidden, 0);
	safe_close(fd);
}

/* --- the budget */

/* A cgroup of the test, with its id. */
struct own_cgroup {
	char path[PATH_MAX];
	uint64_t id;
};

/* Under the mount of cgroup v2. */
static void make_group(struct own_cgroup *group, const char *name)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *mount;
	struct stat st;

	assert_non_null(mounts);
	while ((mount = getmntent(mounts)) && strcmp(mount->mnt_type, "cgroup2") != 0)
		;
	if (!mount)
		fail_msg("no cgroup2 is mounted");
	(void)snprintf(group->path, sizeof(group->path), "%s/perfmond-unit-%d-%s", mount->mnt_dir, getpid(), name);
	(void)endmntent(mounts);
	assert_int_equal(mkdir(group->path, 0755), 0);
	assert_int_equal(stat(group->path, &st), 0);
	group->id = st.st_ino;
}

/* 0: this process. */
static bool move(const struct own_cgroup *group, pid_t pid)
{
	char path[PATH_MAX + 16];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", group->path);
	file = fopen(path, "we");
	return file && fprintf(file, "%d\n", pid) >= 0 && fclose(file) == 0;
}

/* To CPU 0. */
static bool pin(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	return sched_setaffinity(0, sizeof(cpus), &cpus) == 0;
}

/* A process in the cgroup that passes on each byte, on CPU 0. */
static pid_t start_passing(const struct own_cgroup *group, int in, int out)
{
	pid_t pid = fork();
	char byte;

	if (pid)
		return pid;
	if (!move(group, 0) || !pin())
		_exit(1);
	while (read(in, &byte, 1) == 1 && write(out, &byte, 1) == 1)
		;
	_exit(0);
}

/* Two cgroups, and what switches between them. */
struct storm {
	struct own_cgroup groups[2];
	int pipes[2][2];
	pid_t pids[2];
};

/* Nothing but switches, until storm_end(). */
static void storm_begin(struct storm *storm)
{
	assert_int_equal(pipe(storm->pipes[0]), 0);
	assert_int_equal(pipe(storm->pipes[1]), 0);
	for (size_t i = 0; i < 2; i++)
		storm->pids[i] = start_passing(&storm->groups[i], storm->pipes[i][0], storm->pipes[1 - i][1]);
	assert_int_equal(write(storm->pipes[0][1], "x", 1), 1);
}

static void storm_end(struct storm *storm)
{
	int status;

	for (size_t i = 0; i < 2; i++) {
		(void)kill(storm->pids[i], SIGKILL);
		assert_int_equal(waitpid(storm->pids[i], &status, 0), storm->pids[i]);
		assert_true(WIFSIGNALED(status));
		(void)close(storm->pipes[i][0]);
		(void)close(storm->pipes[i][1]);
		(void)rmdir(storm->groups[i].path);
	}
}

static uint64_t word_of(const struct bpf_kernel *kernel, uint64_t id, size_t word)
{
	return cell_at(kernel, 0, slot_cell(kernel, slot_find(kernel, id), 0))[word];
}

struct credited {
	uint64_t enabled, running, counted;
};

static struct credited credited_of(const struct bpf_kernel *kernel, const struct own_cgroup *group)
{
	return (struct credited){
		.enabled = word_of(kernel, group->id, CREDIT_CELL_ENABLED(0)),
		.running = word_of(kernel, group->id, CREDIT_CELL_RUNNING(0)),
		.counted = word_of(kernel, group->id, CREDIT_CELL_EVENTS(kernel->sizes.sets) + 1),
	};
}

/* Most of the time in pauses; outside of them an event that counts time has counted as much as it ran. The kernel's
 * running time stands still while it switches other tools' events. */
static bool is_credited(const struct bpf_kernel *kernel, const struct own_cgroup *group)
{
	const struct credited credited = credited_of(kernel, group);

	return slot_find(kernel, group->id) != CREDIT_ROOT_SLOT && credited.running > 0 &&
	       credited.running <= credited.enabled / 2 && credited.counted >= credited.running * 9 / 10 &&
	       credited.counted <= credited.running * 3 / 2;
}

/* It has to get CPU time for that; and where the host takes the CPU away in the middle of a program, the event goes on,
 * which is much in the few ms before the first pause, and little later. */
static void until_credited(const struct bpf_kernel *kernel, const struct storm *storm)
{
	int tenths = 0;

	do
		(void)usleep(100000);
	while (++tenths < 10 ||
	       (tenths < 600 && !(is_credited(kernel, &storm->groups[0]) && is_credited(kernel, &storm->groups[1]))));
}

/* In a pause, enabled time is credited alone; outside of pauses, an event that counts time counts as much as it runs.
 * When the storm is over, the budget fills up again. */
static void test_budget(_unused_ void **state)
{
	needs("cgroup2");
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM);
	struct storm storm = {};
	uint64_t id;
	int fd = open_event(PERF_COUNT_SW_CPU_CLOCK, &id);

	make_group(&storm.groups[0], "ping");
	make_group(&storm.groups[1], "pong");
	kernel->config->budget = 1000;
	assert_int_equal(bpf_kernel_wire(kernel, 0, 1, fd, id), 0);
	kernel->config->events[1] = (struct credit_event){ .used = CREDIT_USED, .leads = 1, .limited = 1 };
	kernel->config->nr_events = 2;
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	assert_true(bpf_kernel_flush_all(kernel));
	/* As if the machine had stood still for a minute in the middle of a program. */
	kernel->cpus[0].budget = -60000000000;

	storm_begin(&storm);
	until_credited(kernel, &storm);
	storm_end(&storm);
	for (size_t i = 0; i < 2; i++) {
		const struct credited credited = credited_of(kernel, &storm.groups[i]);

		print_message("enabled %.3f s, running %.3f s, counted %.3f s\n", (double)credited.enabled / 1e9,
			      (double)credited.running / 1e9, (double)credited.counted / 1e9);
		assert_true(is_credited(kernel, &storm.groups[i]));
	}
	assert_true(kernel->cpus[0].nr_pauses > 0);
	/* In pauses, too, when it is read. */
	assert_true(bpf_kernel_flush_all(kernel));
	assert_true(kernel->cpus[0].counted[1] > 900000000);

	/* Others' switches may use up what there is, once more. */
	kernel->config->budget = CREDIT_PPM / 10;
	for (int i = 0; i == 0 || (i < 100 && kernel->cpus[0].pauses); i++) {
		(void)usleep(10 * CREDIT_BUDGET_MAX / 1000);
		assert_true(bpf_kernel_flush_all(kernel));
	}
	assert_int_equal(kernel->cpus[0].pauses, 0);
	safe_close(fd);
}

/* --- from one part to the next */

static void wire_switches(struct bpf_kernel *kernel, int fd, uint64_t id)
{
	assert_int_equal(bpf_kernel_wire(kernel, 0, 1, fd, id), 0);
	kernel->config->events[1] = (struct credit_event){ .used = CREDIT_USED, .leads = 1, .at_switch = 1 };
	kernel->config->nr_events = 2;
}

/* Each has counted from where the one before it has ended, in the middle of nothing but switches. */
static void test_succeed(_unused_ void **state)
{
	needs("cgroup2");
	struct bpf_kernel *kernel = load(ROOM), *next;
	size_t word = CREDIT_CELL_EVENTS(kernel->sizes.sets) + 1;
	uint64_t id, counted = 0;
	int fd = open_event(PERF_COUNT_SW_CONTEXT_SWITCHES, &id);
	struct storm storm;

	make_group(&storm.groups[0], "former");
	make_group(&storm.groups[1], "next");
	storm_begin(&storm);
	wire_switches(kernel, fd, id);
	assert_true(bpf_kernel_flush_all(kernel));
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	for (int i = 0; i < 20; i++) {
		(void)usleep(1000);
		next = load_after(kernel, ROOM);
		wire_switches(next, fd, id);
		kernel->config->events[1].used = CREDIT_ENDING;
		assert_true(bpf_kernel_succeed(next, kernel));
		assert_int_equal(next->cpus[0].states[1], CREDIT_COUNTS);
		assert_int_equal(kernel->cpus[0].states[1], CREDIT_ENDED);
		counted += sum_cells(kernel, word);
		(void)bpf_kernel_unref(kernel);
		kernel = next;
	}
	kernel->config->events[1].used = CREDIT_ENDING;
	assert_true(bpf_kernel_flush_all(kernel));
	counted += sum_cells(kernel, word);
	assert_true(counted > 1000);
	assert_int_equal(counted, kernel->cpus[0].values[1]);
	storm_end(&storm);
	safe_close(fd);
	(void)bpf_kernel_unref(kernel);
}

/* Where it can't be done at once, both count for a moment: nothing is lost. */
static void test_succeed_apart(_unused_ void **state)
{
	struct bpf_kernel *kernel = load(ROOM), *next;
	uint64_t id;
	int fd = open_event(PERF_COUNT_SW_CONTEXT_SWITCHES, &id);

	wire_switches(kernel, fd, id);
	assert_true(bpf_kernel_flush_all(kernel));
	next = load_after(kernel, ROOM);
	wire_switches(next, fd, id);
	next->succeed = safe_close(next->succeed);
	kernel->config->events[1].used = CREDIT_ENDING;
	assert_false(bpf_kernel_succeed(next, kernel));
	assert_int_equal(next->cpus[0].states[1], CREDIT_COUNTS);
	assert_int_equal(kernel->cpus[0].states[1], CREDIT_ENDED);
	assert_true(next->cpus[0].values[1] <= kernel->cpus[0].values[1]);
	(void)bpf_kernel_unref(kernel);
	(void)bpf_kernel_unref(next);
	safe_close(fd);
}

/* --- over a restart */

struct kept {
	struct stored_pool pool;
	size_t nr, left_out; /* files; which one is not in the pool */
};

/* Files of a part, with its chunks. */
static size_t nr_files(const struct bpf_kernel *kernel)
{
	size_t nr = _BPF_FILE_MAX + CREDIT_CHUNKS(kernel->config->nr_slots);

	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		nr += kernel->cpus[cpu].max_cells / CREDIT_CHUNK;
	return nr;
}

static void keep(void *userdata, int fd, struct stored_id id)
{
	struct kept *kept = userdata;
	struct stored_id found;
	int copy;

	if (kept->nr++ == kept->left_out)
		return;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	assert_true(copy >= 0);
	assert_int_equal(stored_pool_add(&kept->pool, copy, &found), 0);
	assert_int_equal(stored_id_compare(found, id), 0);
}

static struct kept kept_of(const struct bpf_kernel *kernel, size_t left_out)
{
	struct kept kept = { .pool = { .max = nr_files(kernel) }, .left_out = left_out };

	bpf_kernel_each_stored(kernel, keep, &kept);
	assert_int_equal(kept.nr, nr_files(kernel));
	return kept;
}

static int restore(struct bpf_kernel **ret, const struct bpf_kernel *kernel, const struct bpf_sizes *sizes,
		   struct kept *kept)
{
	_cleanup_(buf_release) struct buf image = {};
	struct unpack in;

	bpf_kernel_save(kernel, &image);
	in = (struct unpack){ .at = (const unsigned char *)image.data, .left = image.len };
	return bpf_kernel_restore(ret, sizes, false, &in, &kept->pool);
}

static void test_identify(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM);
	static const struct {
		enum bpf_file file;
		enum stored_kind kind;
	} table[] = {
		{ BPF_FILE_CONFIG, STORED_BPF_MAP },	 { BPF_FILE_CELLS, STORED_BPF_MAP },
		{ BPF_FILE_EVENTS, STORED_BPF_MAP },	 { BPF_FILE_FLUSH, STORED_BPF_PROGRAM },
		{ BPF_FILE_ON_SWITCH, STORED_BPF_LINK }, { BPF_FILE_ON_ATTACH, STORED_BPF_LINK },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct stored_id id = {};

		assert_int_equal(stored_identify(kernel->fds[table[i].file], &id), 0);
		assert_int_equal(id.kind, table[i].kind);
		assert_int_equal(id.id, kernel->ids[table[i].file]);
		assert_int_not_equal(id.id, 0);
	}
}

static void test_restore(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM), *restored = NULL;
	uint32_t slot = slot_take(kernel, NO_CGROUP(1), NULL, 0);
	struct kept kept = kept_of(kernel, SIZE_MAX);
	uint64_t credits;

	assert_int_equal(restore(&restored, kernel, &kernel->sizes, &kept), 0);
	assert_int_equal(kept.pool.nr, 0);
	assert_int_equal(kept.pool.nr_missed, 0);
	kernel = bpf_kernel_unref(kernel);

	/* The programs and their memory are still there. */
	assert_int_equal(slot_find(restored, NO_CGROUP(1)), slot);
	assert_int_equal(slot_at(restored, slot)->id, NO_CGROUP(1));
	credits = sum_cells(restored, CREDIT_CELL_CREDITS);
	assert_true(bpf_kernel_flush(restored, 0));
	assert_true(sum_cells(restored, CREDIT_CELL_CREDITS) > credits);
	stored_pool_release(&kept.pool);
}

/* The image says of two slots that they are spent: one has been freed since, and its cgroup has it again. */
static void test_restore_spent(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM), *restored = NULL;
	_cleanup_(rewrite_release) struct rewrite image = {};
	struct plan plan = {};
	struct bpf_engine engine = { .engine.env.plan = &plan, .kernel = kernel };
	struct unpack in;
	struct kept kept;
	uint32_t slots[2];

	for (size_t i = 0; i < 2; i++) {
		slots[i] = slot_take(kernel, NO_CGROUP(i), NULL, 0);
		*slot_known(kernel, slots[i]) = (struct bpf_slot){ .seen_at = 1, .retired = true, .spent = true };
	}
	assert_true(slot_forget(kernel, NO_CGROUP(1)));
	kept = kept_of(kernel, SIZE_MAX);
	bpf_save(&engine.engine, &image);
	in = (struct unpack){ .at = (const unsigned char *)image.buf.data, .left = image.buf.len };
	engine.kernel = NULL;
	assert_int_equal(bpf_restore(&engine.engine, &in, NULL, 0, &kept.pool), 0);
	restored = engine.kernel;
	assert_non_null(restored);
	assert_false(slot_known(restored, slots[0])->spent);
	assert_true(slot_known(restored, slots[1])->spent);
	free(engine.conservations);
	stored_pool_release(&kept.pool);
}

static void test_restore_fails(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM);
	struct bpf_kernel *restored = NULL;
	struct bpf_sizes others = kernel->sizes;
	struct kept kept;

	for (size_t i = 0; i < nr_files(kernel); i++) {
		kept = kept_of(kernel, i);
		assert_int_equal(restore(&restored, kernel, &kernel->sizes, &kept), -ENOENT);
		assert_int_equal(kept.pool.nr_missed, 1);
		stored_pool_release(&kept.pool);
	}
	/* Of another layout. */
	others.slots++;
	kept = kept_of(kernel, SIZE_MAX);
	assert_int_equal(restore(&restored, kernel, &others, &kept), -ENOENT);
	stored_pool_release(&kept.pool);
	assert_null(restored);
	assert_true(bpf_kernel_flush(kernel, 0));
}

/* --- what is known of processes */

/* The id of the cgroup that the process has moved to; 0: it is not known. */
static uint64_t home_of(const struct bpf_kernel *kernel, pid_t pid)
{
	uint64_t home;

	return bpf_map_lookup_elem(kernel->fds[BPF_FILE_HOMES], &pid, &home) == 0 ? home : 0;
}

static bool hides(const struct bpf_kernel *kernel, pid_t pid)
{
	uint8_t yes = 0;

	return kernel->config->hides && bpf_map_lookup_elem(kernel->fds[BPF_FILE_HIDDEN], &pid, &yes) == 0 && yes;
}

enum mover_step {
	MOVER_NONE,
	MOVER_WAITS,
	MOVER_GOES,
	MOVER_HAS_MOVED,
};

/* A process that is in the first cgroup, and when it is told to go, has page faults and moves itself to the second. */
struct mover {
	struct own_cgroup groups[2];
	pid_t pid, bystander;
	volatile enum mover_step *step; /* shared */
};

#define NR_FAULTS 100

static void move_itself(const struct mover *mover)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	volatile char *pages = mmap(NULL, NR_FAULTS * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || !pin() || !move(&mover->groups[0], 0))
		_exit(1);
	*mover->step = MOVER_WAITS;
	while (*mover->step != MOVER_GOES)
		;
	for (size_t i = 0; i < NR_FAULTS; i++)
		pages[i * page] = 1;
	if (!move(&mover->groups[1], 0))
		_exit(1);
	*mover->step = MOVER_HAS_MOVED;
}

/* A process that a test which has failed does not leave behind. */
static pid_t start(void (*run)(const struct mover *mover), const struct mover *mover)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (run)
		run(mover);
	for (;;)
		(void)pause();
}

static void mover_begin(struct mover *mover)
{
	mover->step = mmap(NULL, sizeof(*mover->step), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mover->step, MAP_FAILED);
	mover->pid = start(move_itself, mover);
	mover->bystander = start(NULL, mover);
}

static void mover_end(struct mover *mover)
{
	(void)kill(mover->pid, SIGKILL);
	(void)kill(mover->bystander, SIGKILL);
	assert_int_equal(waitpid(mover->pid, NULL, 0), mover->pid);
	assert_int_equal(waitpid(mover->bystander, NULL, 0), mover->bystander);
	for (size_t i = 0; i < 2; i++)
		(void)rmdir(mover->groups[i].path);
}

static void mover_until(const struct mover *mover, enum mover_step step)
{
	for (int i = 0; i < 600 && *mover->step != step; i++)
		(void)usleep(100000);
	assert_int_equal(*mover->step, step);
}

/* It goes, as if process 1 had been the last to come there. A move waits for readers of the kernel's lock, which is a
 * switch, but not right after another one. */
static void mover_go(const struct mover *mover, struct credit_cpu *cpu)
{
	assert_true(move(&mover->groups[1], mover->bystander));
	cpu->slot = CREDIT_ROOT_SLOT;
	cpu->cgroup = 1;
	cpu->task = cpu->process = 1;
	*mover->step = MOVER_GOES;
	mover_until(mover, MOVER_HAS_MOVED);
}

/* A part that is loaded knows from the former one where processes have been moved and which have hidden switches: the
 * switch to one that moves itself is hidden, and what it has counted is its former cgroup's. */
static void test_hidden(_unused_ void **state)
{
	needs("cgroup2");
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM), *restored = NULL, *next = NULL, *v1 = NULL;
	const struct bpf_sizes sizes = kernel->sizes;
	struct mover mover = {};
	const uint8_t yes = 1;
	struct reason why;
	struct kept kept;
	uint64_t id;
	int fd = open_event(PERF_COUNT_SW_PAGE_FAULTS, &id);

	make_group(&mover.groups[0], "from");
	make_group(&mover.groups[1], "to");
	mover_begin(&mover);
	mover_until(&mover, MOVER_WAITS);
	assert_int_equal(bpf_map_update_elem(kernel->fds[BPF_FILE_HIDDEN], &mover.pid, &yes, BPF_ANY), 0);
	kernel->config->hides = 1;
	kept = kept_of(kernel, SIZE_MAX);
	assert_int_equal(restore(&restored, kernel, &sizes, &kept), 0);
	next = load_after(restored, 2 * ROOM);
	assert_int_equal(home_of(next, mover.pid), mover.groups[0].id);
	assert_true(hides(next, mover.pid));
	/* In another hierarchy, ids are other cgroups'. */
	assert_int_equal(bpf_kernel_load(&v1, &sizes, true, next, &why), 0);
	bpf_kernel_learn(v1, next);
	assert_int_equal(home_of(v1, mover.pid), 0);
	assert_false(hides(v1, mover.pid));

	assert_int_equal(bpf_kernel_wire(next, 0, 1, fd, id), 0);
	next->config->events[1] = (struct credit_event){ .used = CREDIT_USED, .leads = 1 };
	next->config->nr_events = 2;
	assert_true(bpf_kernel_flush_all(next));
	assert_int_equal(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	mover_go(&mover, &next->cpus[0]);
	assert_true(bpf_kernel_flush_all(next));
	assert_true(credited_of(next, &mover.groups[0]).counted >= NR_FAULTS);
	mover_end(&mover);
	stored_pool_release(&kept.pool);
	safe_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load),	      cmocka_unit_test(test_credit),
		cmocka_unit_test(test_budget),	      cmocka_unit_test(test_identify),
		cmocka_unit_test(test_restore),	      cmocka_unit_test(test_restore_fails),
		cmocka_unit_test(test_restore_spent), cmocka_unit_test(test_succeed),
		cmocka_unit_test(test_succeed_apart), cmocka_unit_test(test_hidden),
	};

	return cmocka_run_group_tests_name("bpf", tests, NULL, NULL);
}
