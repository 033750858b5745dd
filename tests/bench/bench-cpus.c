/* SPDX-License-Identifier: MIT */

/*
 * Memory of the BPF engine, and how long an image of its part takes, on a machine with many CPUs, which are played: the
 * programs are loaded for so many possible CPUs, and cgroups have cells on those of which it is said that they exist.
 *
 *   bench-cpus [POSSIBLE EXISTING MAX CGROUPS]...
 */

#include "base/util/cleanup.h"
#include "base/util/clock.h"
#include "counting/engine/bpf/bpf.h"
#include "counting/engine/bpf/chunks.h"
#include "counting/engine/bpf/slot-owners.h"
#include "counting/engine/bpf/slots-image.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* No cgroup of the machine has such an id. */
#define ID (UINT64_C(1) << 62)

#define ROUNDS 101

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench-cpus: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

/* Bytes of the kernel's memory, by the open file's fdinfo. */
static uint64_t memory_of(const char *fd)
{
	char path[300], line[256];
	uint64_t found, sum = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "memlock: %" SCNu64, &found) == 1)
			sum += found;
	if (file)
		(void)fclose(file);
	return sum;
}

static uint64_t memory_of_maps(void)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	uint64_t sum = 0;

	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			sum += memory_of(entry->d_name);
	if (folder)
		(void)closedir(folder);
	return sum;
}

static long resident(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%*s %ld", &pages) != 1)
		die("/proc/self/statm", "it can't be read");
	(void)fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* Each has run on all CPUs that exist. */
static void add_cgroups(struct bpf_kernel *kernel, uint32_t existing, uint32_t nr)
{
	const credit_word root = slot_at(kernel, CREDIT_ROOT_SLOT)->id;

	for (uint32_t cpu = 0; cpu < existing; cpu++)
		if (chunks_make_cells(kernel, cpu, nr + 1, true) < 0)
			die("cells", strerror(errno));
	if (chunks_use(kernel) < 0)
		die("chunks", strerror(errno));
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t slot = slot_take(kernel, ID + i, &root, 1);

		if (slot == CREDIT_ROOT_SLOT)
			die("slots", "there are none left");
		for (uint32_t cpu = 0; cpu < existing; cpu++) {
			slot_at(kernel, slot)->cells[cpu] = (unsigned)kernel->cpus[cpu].nr_cells++;
			cell_read(kernel, cpu, slot_cell(kernel, slot, cpu))[CREDIT_CELL_CREDITS] = 1;
		}
	}
}

/* ns of the thread's CPU time. all: each cell has been read since the last one. */
static uint64_t save(struct bpf_engine *engine, struct rewrite *rewrite, bool all)
{
	const size_t words = (size_t)engine->kernel->sizes.cpus * CREDIT_MARK_WORDS(engine->kernel->sizes.slots);
	uint64_t begin;

	if (all)
		memset(engine->kernel->unsaved, 0xff, words * sizeof(*engine->kernel->unsaved));
	begin = clock_thread_ns();
	rewrite_begin(rewrite, 0);
	bpf_save(&engine->engine, rewrite);
	if (!rewrite_end(rewrite))
		die("image", "no memory");
	return clock_thread_ns() - begin;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median_save(struct bpf_engine *engine, struct rewrite *rewrite, bool all)
{
	uint64_t took[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		took[i] = save(engine, rewrite, all);
	qsort(took, ROUNDS, sizeof(*took), by_number);
	return took[ROUNDS / 2];
}

static void bench(uint32_t possible, uint32_t existing, uint32_t max, uint32_t cgroups)
{
	/* As the engine makes them of the default events. */
	const struct bpf_sizes sizes = { .cpus = possible, .slots = max + max / 2 + 1024, .events = 16, .sets = 4 };
	struct plan plan = {};
	struct bpf_engine engine = { .engine.env.plan = &plan };
	struct rewrite rewrite = {};
	uint64_t idle, busy;
	struct reason why;

	if (bpf_kernel_load(&engine.kernel, &sizes, false, NULL, &why) < 0)
		die("programs", why.text);
	add_cgroups(engine.kernel, existing, cgroups);
	(void)save(&engine, &rewrite, true);
	idle = median_save(&engine, &rewrite, false);
	busy = median_save(&engine, &rewrite, true);
	printf("%u possible CPUs of which %u exist, max = %u, %u cgroups on each: %.1f MB of maps, %.1f MB resident, "
	       "a save %.3f ms, or %.3f ms where all have run\n",
	       possible, existing, max, cgroups, (double)memory_of_maps() / 1e6, (double)resident() / 1e6,
	       (double)idle / 1e6, (double)busy / 1e6);
	rewrite_release(&rewrite);
	bpf_kernel_unref(engine.kernel);
}

int main(int argc, char **argv)
{
	static const uint32_t cases[][4] = {
		{ 2, 2, 2000, 1000 },	 { 16, 16, 2000, 1000 }, { 16, 16, 100000, 1000 },
		{ 448, 16, 2000, 1000 }, { 448, 16, 2000, 200 },
	};
	struct reason why;

	if (bpf_is_available(0, NULL, &why) < 0)
		die("programs", why.text);
	bpf_end_trial();
	for (int i = 1; i + 3 < argc; i += 4)
		bench((uint32_t)atoi(argv[i]), (uint32_t)atoi(argv[i + 1]), (uint32_t)atoi(argv[i + 2]),
		      (uint32_t)atoi(argv[i + 3]));
	for (size_t i = 0; argc == 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		bench(cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
	return EXIT_SUCCESS;
}
