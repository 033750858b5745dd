/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/kernel.h"

#include "base/util/clock.h"
#include "counting/engine/bpf/chunks.h"
#include "counting/engine/bpf/credit.skel.h"
#include "counting/engine/bpf/slot-bits.h"
#include "counting/engine/bpf/slot-owners.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* Cgroups of which an ancestor has the counts. */
#define MAX_ALIASES 8192U

/* More than the maps of processes have. */
#define MAX_ENTRIES 2048U

/* A CPU is asked again when it was met in the middle of a program, which takes microseconds. */
#define FLUSH_TRIES 100

/* --- what libbpf says */

/* The first line of libbpf's that tells of an error, which names the program, and the verifier's last one. libbpf has
 * no other way to say it. */
static char libbpf_said[REASON_MAX / 4], verifier_said[REASON_MAX / 4];

static void keep_line(char *ret, size_t size, const char *line)
{
	(void)snprintf(ret, size, "%.*s", (int)strcspn(line, "\n"), line);
}

/* The log ends with statistics, and with libbpf's own line. */
static void note_verifier(char *log)
{
	char *statistics = strstr(log, "\nprocessed "), *end = statistics ? statistics : strstr(log, "\n-- END"), *line;

	if (!end)
		return;
	*end = '\0';
	line = strrchr(log, '\n');
	keep_line(verifier_said, sizeof(verifier_said), line ? line + 1 : log);
}

static _printf_(2, 0) int note_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	_cleanup_(freep) char *text = NULL;

	if (level != LIBBPF_WARN)
		return 0;
	if (vasprintf(&text, format, args) < 0) {
		text = NULL;
		return 0;
	}
	if (!libbpf_said[0])
		keep_line(libbpf_said, sizeof(libbpf_said), text);
	if (!verifier_said[0] && strstr(text, "BEGIN PROG LOAD LOG"))
		note_verifier(text);
	return 0;
}

static int explain(int error, struct reason *why)
{
	switch (error) {
	case -EPERM:
		return reason_set(
			why, error,
			"the kernel refuses BPF programs (EPERM): CAP_BPF is needed beside CAP_PERFMON, and a "
			"seccomp filter has to let bpf(2) pass");
	case -ENOSYS:
		return reason_set(why, error, "this kernel has no bpf(2), or a seccomp filter hides it (ENOSYS)");
	case -ENOMEM:
		return reason_set(why, error, "no memory for the maps of BPF programs (ENOMEM)");
	case -ESRCH:
		return reason_set(why, error,
				  "this kernel has no type information (CONFIG_DEBUG_INFO_BTF), or is "
				  "older than Linux 5.10");
	default:
		return reason_set(why, error, "its BPF programs can't be loaded (%s)%s%s%s%s", strerrorname_np(-error),
				  libbpf_said[0] ? ": " : "", libbpf_said, verifier_said[0] ? ": " : "", verifier_said);
	}
}

/* --- memory */

/* Of the maps that are mapped whole, and of those of chunks. */
static size_t value_size(enum bpf_file file)
{
	switch (file) {
	case BPF_FILE_SLOTS:
	case BPF_FILE_CELLS:
		return sizeof(uint32_t);
	case BPF_FILE_CONFIG:
		return sizeof(struct credit_config);
	case BPF_FILE_CPUS:
		return sizeof(struct credit_cpu);
	default:
		return sizeof(uint64_t);
	}
}

static uint32_t nr_values(const struct bpf_sizes *sizes, enum bpf_file file)
{
	switch (file) {
	case BPF_FILE_SLOTS:
		return CREDIT_CHUNKS(sizes->slots);
	case BPF_FILE_CELLS:
		return CREDIT_CHUNKS(sizes->slots) * sizes->cpus;
	case BPF_FILE_CONFIG:
		return 1;
	case BPF_FILE_CPUS:
		return sizes->cpus;
	default:
		return CREDIT_MARK_WORDS(sizes->slots) * sizes->cpus;
	}
}

static size_t mapped_size(const struct bpf_sizes *sizes, enum bpf_file file)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = value_size(file) * nr_values(sizes, file);

	return (size + page - 1) / page * page;
}

static int map_file(const struct bpf_kernel *kernel, enum bpf_file file, void **ret)
{
	*ret = mmap(NULL, mapped_size(&kernel->sizes, file), PROT_READ | PROT_WRITE, MAP_SHARED, kernel->fds[file], 0);
	if (*ret == MAP_FAILED) {
		*ret = NULL;
		return -errno;
	}
	return 0;
}

static void unmap_file(const struct bpf_kernel *kernel, enum bpf_file file, void *memory)
{
	if (memory)
		(void)munmap(memory, mapped_size(&kernel->sizes, file));
}

static size_t marks_size(const struct bpf_sizes *sizes)
{
	return nr_values(sizes, BPF_FILE_MARKS) * value_size(BPF_FILE_MARKS);
}

/* Maps what is shared, and makes room for what is known of it. */
static int kernel_open_memory(struct bpf_kernel *kernel)
{
	const struct bpf_sizes *sizes = &kernel->sizes;
	void *config, *cpus, *marks;
	int r = map_file(kernel, BPF_FILE_CONFIG, &config);

	kernel->config = config;
	if (r == 0)
		r = map_file(kernel, BPF_FILE_CPUS, &cpus);
	if (r == 0) {
		kernel->cpus = cpus;
		r = map_file(kernel, BPF_FILE_MARKS, &marks);
	}
	if (r < 0)
		return r;
	kernel->marks = marks;
	kernel->cell = calloc(bpf_cell_words(sizes), sizeof(*kernel->cell));
	kernel->looked_at = calloc(1, marks_size(sizes));
	kernel->unsaved = calloc(1, marks_size(sizes));
	kernel->taken = calloc(CREDIT_MARK_WORDS(sizes->slots), sizeof(*kernel->taken));
	kernel->unsettled = calloc(CREDIT_MARK_WORDS(sizes->slots), sizeof(*kernel->unsettled));
	kernel->cells_saved = calloc(sizes->cpus, sizeof(*kernel->cells_saved));
	kernel->errors = calloc(sizes->cpus, sizeof(*kernel->errors));
	kernel->paused = calloc(sizes->cpus, sizeof(*kernel->paused));
	if (!kernel->cell || !kernel->looked_at || !kernel->unsaved || !kernel->taken || !kernel->unsettled ||
	    !kernel->cells_saved || !kernel->errors || !kernel->paused)
		return -ENOMEM;
	return chunks_open(kernel);
}

/* --- what it takes */

/* By CPU: of the parts that this process had, and has no more. */
static struct dropped {
	struct switch_cost *costs;
	size_t nr;
} dropped;

static struct switch_cost add_costs(const struct switch_cost *a, const struct switch_cost *b)
{
	return (struct switch_cost){
		.switches = a->switches + b->switches,
		.ns = a->ns + b->ns,
		.hidden = a->hidden + b->hidden,
		.passed = a->passed + b->passed,
		.unplaced = a->unplaced + b->unplaced,
		.errors = a->errors + b->errors,
	};
}

struct switch_cost bpf_kernel_cost(const struct bpf_kernel *kernel, uint32_t cpu)
{
	const struct credit_cpu *at = &kernel->cpus[cpu];
	const struct switch_cost before = cpu < dropped.nr ? dropped.costs[cpu] : (struct switch_cost){};
	struct switch_cost sum = {
		.switches = at->switches,
		.ns = at->ns,
		.hidden = at->hidden,
		.passed = at->passed,
		.unplaced = at->unplaced,
		.errors = kernel->errors[cpu],
	};

	sum = add_costs(&sum, &before);
	sum.cpu = (int)cpu;
	return sum;
}

/* Without memory, its costs are forgotten. */
static void keep_costs(const struct bpf_kernel *kernel)
{
	struct switch_cost *more;

	if (kernel->sizes.cpus > dropped.nr) {
		more = reallocarray(dropped.costs, kernel->sizes.cpus, sizeof(*more));
		if (!more)
			return;
		memset(more + dropped.nr, 0, (kernel->sizes.cpus - dropped.nr) * sizeof(*more));
		dropped = (struct dropped){ more, kernel->sizes.cpus };
	}
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		dropped.costs[cpu] = bpf_kernel_cost(kernel, cpu);
}

struct bpf_kernel *bpf_kernel_ref(struct bpf_kernel *kernel)
{
	assert(kernel->refs > 0);
	kernel->refs++;
	return kernel;
}

static void kernel_end_succession(struct bpf_kernel *kernel)
{
	kernel->succeed = safe_close(kernel->succeed);
	kernel->former_flush = safe_close(kernel->former_flush);
}

static struct bpf_kernel *kernel_free(struct bpf_kernel *kernel)
{
	if (!kernel)
		return NULL;
	kernel_end_succession(kernel);
	/* The links first: no program runs when its maps go. */
	for (size_t i = _BPF_FILE_MAX; i-- > 0;)
		safe_close(kernel->fds[i]);
	chunks_close(kernel);
	unmap_file(kernel, BPF_FILE_CONFIG, kernel->config);
	unmap_file(kernel, BPF_FILE_CPUS, kernel->cpus);
	unmap_file(kernel, BPF_FILE_MARKS, kernel->marks);
	free(kernel->cell);
	free(kernel->looked_at);
	free(kernel->unsaved);
	free(kernel->taken);
	free(kernel->unsettled);
	free(kernel->cells_saved);
	free(kernel->errors);
	free(kernel->paused);
	free(kernel);
	return NULL;
}

DEFINE_CLEANUP(struct bpf_kernel *, kernel_free)

struct bpf_kernel *bpf_kernel_unref(struct bpf_kernel *kernel)
{
	if (!kernel || --kernel->refs > 0)
		return NULL;
	keep_costs(kernel);
	return kernel_free(kernel);
}

static struct bpf_kernel *kernel_new(const struct bpf_sizes *sizes, bool v1)
{
	struct bpf_kernel *kernel = calloc(1, sizeof(*kernel));

	if (!kernel)
		return NULL;
	kernel->refs = 1;
	kernel->sizes = *sizes;
	kernel->v1 = v1;
	for (size_t i = 0; i < _BPF_FILE_MAX; i++)
		kernel->fds[i] = -1;
	kernel->succeed = kernel->former_flush = -1;
	return kernel;
}

/* --- loading */

static int set_sizes(struct credit *skeleton, const struct bpf_sizes *sizes)
{
	const struct {
		struct bpf_map *map;
		uint32_t nr;
	} maps[] = {
		{ skeleton->maps.cpus, sizes->cpus },
		{ skeleton->maps.events, sizes->cpus * sizes->events },
		{ skeleton->maps.ids, sizes->slots },
		{ skeleton->maps.aliases, MAX_ALIASES },
		{ skeleton->maps.vacant, sizes->slots },
		{ skeleton->maps.slots, CREDIT_CHUNKS(sizes->slots) },
		{ skeleton->maps.cells, CREDIT_CHUNKS(sizes->slots) * sizes->cpus },
		{ skeleton->maps.marks, CREDIT_MARK_WORDS(sizes->slots) * sizes->cpus },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(maps) && r == 0; i++)
		r = bpf_map__set_max_entries(maps[i].map, maps[i].nr);
	skeleton->rodata->nr_cpus = sizes->cpus;
	skeleton->rodata->max_slots = sizes->slots;
	skeleton->rodata->max_events = sizes->events;
	skeleton->rodata->max_sets = sizes->sets;
	return r;
}

/* Tells the kernel how chunks are made. The files are needed until the programs are loaded. */
static int set_chunks(struct credit *skeleton, const struct bpf_sizes *sizes, int *slots, int *cells)
{
	int r = 0;

	*slots = chunks_create_like(sizes, BPF_FILE_SLOTS);
	*cells = *slots < 0 ? *slots : chunks_create_like(sizes, BPF_FILE_CELLS);
	if (*cells >= 0)
		r = bpf_map__set_inner_map_fd(skeleton->maps.slots, *slots);
	if (*cells >= 0 && r == 0)
		r = bpf_map__set_inner_map_fd(skeleton->maps.cells, *cells);
	return *cells < 0 ? *cells : r;
}

/* The skeleton's files are closed with it. */
static int copy_fd(int fd)
{
	int copy = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return fd >= 0 && copy < 0 ? -errno : copy;
}

static int keep_fd(struct bpf_kernel *kernel, enum bpf_file file, int fd)
{
	struct stored_id id;
	int r;

	kernel->fds[file] = copy_fd(fd);
	if (kernel->fds[file] < 0)
		return kernel->fds[file];
	r = stored_identify(kernel->fds[file], &id);
	kernel->ids[file] = id.id;
	return r;
}

static int keep_maps(struct bpf_kernel *kernel, const struct credit *skeleton)
{
	const struct bpf_map *maps[] = {
		[BPF_FILE_CONFIG] = skeleton->maps.config,   [BPF_FILE_CPUS] = skeleton->maps.cpus,
		[BPF_FILE_EVENTS] = skeleton->maps.events,   [BPF_FILE_IDS] = skeleton->maps.ids,
		[BPF_FILE_ALIASES] = skeleton->maps.aliases, [BPF_FILE_VACANT] = skeleton->maps.vacant,
		[BPF_FILE_SLOTS] = skeleton->maps.slots,     [BPF_FILE_CELLS] = skeleton->maps.cells,
		[BPF_FILE_MARKS] = skeleton->maps.marks,     [BPF_FILE_HOMES] = skeleton->maps.homes,
		[BPF_FILE_HIDDEN] = skeleton->maps.hidden,
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(maps) && r == 0; i++)
		r = keep_fd(kernel, (enum bpf_file)i, bpf_map__fd(maps[i]));
	return r;
}

void bpf_kernel_set_hierarchy(struct bpf_kernel *kernel, bool v1)
{
	kernel->v1 = v1;
	kernel->config->v1 = v1;
}

static int attach(struct bpf_kernel *kernel, enum bpf_file file, const struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach(program);
	int r = link ? keep_fd(kernel, file, bpf_link__fd(link)) : -errno;

	(void)bpf_link__destroy(link);
	return r;
}

/* The root cgroup has its slot from the start, and no other one. */
static int give_root_slot(struct bpf_kernel *kernel)
{
	uint64_t root = 1;
	uint32_t slot = CREDIT_ROOT_SLOT;
	int r;

	bpf_kernel_set_hierarchy(kernel, kernel->v1);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
		kernel->cpus[cpu].budget = CREDIT_BUDGET_MAX;
		kernel->cpus[cpu].nr_cells = CREDIT_ROOT_CELL + 1;
	}
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus && (long)cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		r = chunks_make_cells(kernel, cpu, 1, true);
		if (r < 0)
			return r;
	}
	r = slot_supply(kernel, CREDIT_CHUNK, 0);
	if (r == 0)
		r = slot_supply_cells(kernel);
	if (r < 0)
		return r;
	slot_at(kernel, slot)->id = root;
	slot_note_taken(kernel, slot);
	return bpf_map_update_elem(kernel->fds[BPF_FILE_IDS], &root, &slot, BPF_ANY) < 0 ? -errno : 0;
}

/* Tracepoints of calls between CPUs, each with a program that does the same, the preferred one first. libbpf would look
 * for them in modules too, which takes CAP_SYS_ADMIN. */
static const char *const calls[] = { "btf_trace_csd_function_entry", "btf_trace_call_function_single_entry",
				     "btf_trace_ipi_entry" };

/* The number of the first that this kernel has; ARRAY_SIZE(calls): it has none; SIZE_MAX: nobody has asked yet. */
static size_t known_call = SIZE_MAX;

static size_t find_call(void)
{
	struct btf *btf;
	size_t i = 0;

	if (known_call != SIZE_MAX)
		return known_call;
	btf = btf__load_vmlinux_btf();
	while (i < ARRAY_SIZE(calls) && (!btf || btf__find_by_name_kind(btf, calls[i], BTF_KIND_TYPEDEF) < 0))
		i++;
	btf__free(btf);
	known_call = i;
	return i;
}

/* The program that is loaded, or NULL. */
static struct bpf_program *choose_call(const struct credit *skeleton)
{
	struct bpf_program *const programs[ARRAY_SIZE(calls)] = {
		skeleton->progs.on_csd,
		skeleton->progs.on_x86_call,
		skeleton->progs.on_arm_call,
	};
	size_t call = find_call();

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		(void)bpf_program__set_autoload(programs[i], i == call);
	return call < ARRAY_SIZE(programs) ? programs[call] : NULL;
}

static int kernel_open_files(struct bpf_kernel *kernel, const struct credit *skeleton,
			     const struct bpf_program *on_call)
{
	int r = keep_maps(kernel, skeleton);

	if (r == 0)
		r = keep_fd(kernel, BPF_FILE_FLUSH, bpf_program__fd(skeleton->progs.flush));
	if (r == 0)
		r = kernel_open_memory(kernel);
	if (r == 0)
		r = give_root_slot(kernel);
	if (r == 0)
		r = attach(kernel, BPF_FILE_ON_SWITCH, skeleton->progs.on_switch);
	if (r == 0)
		r = attach(kernel, BPF_FILE_ON_ATTACH, skeleton->progs.on_attach);
	if (r == 0 && on_call)
		r = attach(kernel, BPF_FILE_ON_CALL, on_call);
	return r;
}

/* Entries by process. What this part has found out by itself is newer. */
static void copy_entries(const struct bpf_kernel *from, struct bpf_kernel *to, enum bpf_file file)
{
	uint32_t process, *after = NULL;
	uint64_t value;

	/* An entry that goes meanwhile has its reader begin anew. */
	for (uint32_t i = 0; i < MAX_ENTRIES && bpf_map_get_next_key(from->fds[file], after, &process) == 0; i++) {
		if (bpf_map_lookup_elem(from->fds[file], &process, &value) == 0)
			(void)bpf_map_update_elem(to->fds[file], &process, &value, BPF_NOEXIST);
		after = &process;
	}
}

/* What is known of processes does not depend on sizes. Without it, the counts of one that moves itself, to which the
 * switch was hidden, would go to its parent's cgroup. */
void bpf_kernel_learn(struct bpf_kernel *kernel, const struct bpf_kernel *former)
{
	if (former->v1 != kernel->v1)
		return;
	copy_entries(former, kernel, BPF_FILE_HOMES);
	copy_entries(former, kernel, BPF_FILE_HIDDEN);
	kernel->config->hides |= former->config->hides;
}

static int set_former(struct credit *skeleton, const struct bpf_kernel *former)
{
	if (!former)
		return bpf_program__set_autoload(skeleton->progs.succeed, false);
	return bpf_map__reuse_fd(skeleton->maps.former_cpus, former->fds[BPF_FILE_CPUS]);
}

/* Where it fails, both parts count for some microseconds. */
static void open_succession(struct bpf_kernel *kernel, const struct credit *skeleton, const struct bpf_kernel *former)
{
	uint32_t first = 0;

	if (!former)
		return;
	kernel->former = former->ids[BPF_FILE_FLUSH];
	kernel->succeed = copy_fd(bpf_program__fd(skeleton->progs.succeed));
	kernel->former_flush = copy_fd(bpf_map__fd(skeleton->maps.former_flush));
	if (kernel->former_flush < 0 ||
	    bpf_map_update_elem(kernel->former_flush, &first, &former->fds[BPF_FILE_FLUSH], BPF_ANY) < 0)
		kernel_end_succession(kernel);
}

int bpf_kernel_load(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, const struct bpf_kernel *former,
		    struct reason *why)
{
	_cleanup_(kernel_freep) struct bpf_kernel *kernel = kernel_new(sizes, v1);
	_cleanup_(closep) int slots = -1, cells = -1;
	struct bpf_program *on_call;
	struct credit *skeleton;
	int r;

	if (!kernel)
		return reason_set(why, -ENOMEM, "out of memory");
	libbpf_said[0] = verifier_said[0] = '\0';
	(void)libbpf_set_print(note_libbpf);
	skeleton = credit__open();
	if (!skeleton)
		return explain(-errno, why);
	on_call = choose_call(skeleton);
	r = set_sizes(skeleton, sizes);
	if (r == 0)
		r = set_chunks(skeleton, sizes, &slots, &cells);
	if (r == 0)
		r = set_former(skeleton, former);
	if (r == 0)
		r = credit__load(skeleton);
	if (r == 0)
		r = kernel_open_files(kernel, skeleton, on_call);
	if (r == 0)
		open_succession(kernel, skeleton, former);
	credit__destroy(skeleton);
	if (r < 0)
		return explain(r, why);
	*ret = steal_ptr(kernel);
	return 0;
}

bool bpf_kernel_follows(const struct bpf_kernel *kernel, const struct bpf_kernel *former)
{
	return kernel->former == (former ? former->ids[BPF_FILE_FLUSH] : 0);
}

/* --- over a restart */

static enum stored_kind kind_of(enum bpf_file file)
{
	if (file == BPF_FILE_FLUSH)
		return STORED_BPF_PROGRAM;
	return file > BPF_FILE_FLUSH ? STORED_BPF_LINK : STORED_BPF_MAP;
}

void bpf_kernel_each_stored(const struct bpf_kernel *kernel, stored_visitor each, void *userdata)
{
	for (size_t i = 0; i < _BPF_FILE_MAX; i++)
		if (kernel->fds[i] >= 0)
			each(userdata, kernel->fds[i], (struct stored_id){ kind_of((enum bpf_file)i), kernel->ids[i] });
	chunks_each_stored(kernel, each, userdata);
}

/* Is the map as large as what is going to be read of it? */
static bool has_size(const struct bpf_kernel *kernel, enum bpf_file file)
{
	struct bpf_map_info info = {};
	uint32_t length = sizeof(info);

	return bpf_obj_get_info_by_fd(kernel->fds[file], &info, &length) == 0 && info.value_size == value_size(file) &&
	       info.max_entries == nr_values(&kernel->sizes, file);
}

void bpf_kernel_save(const struct bpf_kernel *kernel, struct buf *out)
{
	for (size_t i = 0; i < _BPF_FILE_MAX; i++)
		pack_u64(out, kernel->ids[i]);
	chunks_save(kernel, out);
}

/* False: not all are there. */
static bool take_files(struct bpf_kernel *kernel, struct unpack *in, struct stored_pool *stored)
{
	bool whole = true;

	for (size_t i = 0; i < _BPF_FILE_MAX; i++) {
		kernel->ids[i] = unpack_u64(in);
		if (i == BPF_FILE_ON_CALL && !kernel->ids[i])
			continue;
		kernel->fds[i] = stored_pool_take(stored, kind_of((enum bpf_file)i), kernel->ids[i]);
		whole = whole && kernel->fds[i] >= 0;
	}
	return whole;
}

int bpf_kernel_restore(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, struct unpack *in,
		       struct stored_pool *stored)
{
	_cleanup_(kernel_freep) struct bpf_kernel *kernel = kernel_new(sizes, v1);
	bool whole;
	int r;

	if (!kernel)
		return -ENOMEM;
	whole = take_files(kernel, in, stored);
	if (in->bad)
		return -EBADMSG;
	if (!whole || !has_size(kernel, BPF_FILE_CONFIG) || !has_size(kernel, BPF_FILE_CPUS) ||
	    !has_size(kernel, BPF_FILE_MARKS) || !has_size(kernel, BPF_FILE_SLOTS) || !has_size(kernel, BPF_FILE_CELLS))
		return -ENOENT;
	r = kernel_open_memory(kernel);
	if (r == 0)
		r = chunks_restore(kernel, in, stored);
	if (r < 0)
		return r;
	/* Its marks may have been removed for a reading that the image does not know of. */
	memset(kernel->looked_at, 0xff, marks_size(sizes));
	/* The one that it is restored from. */
	kernel->nr_images = 1;
	*ret = steal_ptr(kernel);
	return 0;
}

/* --- events */

static bool has_events(const struct bpf_kernel *kernel, uint32_t cpu)
{
	for (uint32_t i = 0; i < kernel->sizes.events; i++)
		if (kernel->cpus[cpu].wired[i])
			return true;
	return false;
}

void bpf_kernel_unwire(struct bpf_kernel *kernel, uint32_t cpu, uint32_t number)
{
	uint32_t key = cpu * kernel->sizes.events + number;

	if (!kernel->cpus[cpu].wired[number])
		return;
	kernel->cpus[cpu].wired[number] = 0;
	kernel->cpus[cpu].counts = has_events(kernel, cpu);
	(void)bpf_map_delete_elem(kernel->fds[BPF_FILE_EVENTS], &key);
}

/* Before a program credits anything on the CPU. */
static int give_cells(struct bpf_kernel *kernel, uint32_t cpu)
{
	int r = kernel->cpus[cpu].max_cells > 0 ? 0 : chunks_make_cells(kernel, cpu, 1, true);

	return r < 0 || kernel->cpus[cpu].max_cells > 0 ? r : slot_supply_cells(kernel);
}

int bpf_kernel_wire(struct bpf_kernel *kernel, uint32_t cpu, uint32_t number, int fd, uint64_t id)
{
	uint32_t key = cpu * kernel->sizes.events + number;
	int r;

	bpf_kernel_unwire(kernel, cpu, number);
	/* Nobody has seen who came here meanwhile: all that time is nobody's. */
	if (!kernel->cpus[cpu].counts) {
		kernel->cpus[cpu].cgroup = 0;
		kernel->cpus[cpu].since = 0;
	}
	r = give_cells(kernel, cpu);
	if (r < 0)
		return r;
	kernel->cpus[cpu].counts = 1;
	/* A program that is reading the former event there has come to its end. It is known who runs there. */
	(void)bpf_kernel_flush(kernel, cpu);
	kernel->cpus[cpu].states[number] = CREDIT_NEW;
	/* With another event, readings take another time. */
	memset(kernel->cpus[cpu].again, 0, sizeof(kernel->cpus[cpu].again));
	memset(kernel->cpus[cpu].repeated, 0, sizeof(kernel->cpus[cpu].repeated));
	if (bpf_map_update_elem(kernel->fds[BPF_FILE_EVENTS], &key, &fd, BPF_ANY) < 0)
		return -errno;
	kernel->cpus[cpu].wired[number] = id;
	return 0;
}

/* Until it meets no other program there. False: it could not be run, or has said no. */
static bool run_on_cpu(int program, uint32_t cpu)
{
	for (int i = 0; i < FLUSH_TRIES; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, options, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu);

		/* -ENXIO: it is offline. */
		if (bpf_prog_test_run_opts(program, &options) < 0)
			return false;
		if (options.retval != 1)
			return options.retval == 0;
	}
	return false;
}

bool bpf_kernel_flush(struct bpf_kernel *kernel, uint32_t cpu)
{
	return cpu < kernel->sizes.cpus && give_cells(kernel, cpu) == 0 && run_on_cpu(kernel->fds[BPF_FILE_FLUSH], cpu);
}

bool bpf_kernel_flush_all(struct bpf_kernel *kernel)
{
	bool all = true;

	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		if (has_events(kernel, cpu))
			all = bpf_kernel_flush(kernel, cpu) && all;
	return all;
}

bool bpf_kernel_succeed(struct bpf_kernel *kernel, struct bpf_kernel *former)
{
	bool all = true;

	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus && cpu < former->sizes.cpus; cpu++)
		if ((has_events(kernel, cpu) || has_events(former, cpu)) && !run_on_cpu(kernel->succeed, cpu)) {
			(void)bpf_kernel_flush(kernel, cpu);
			(void)bpf_kernel_flush(former, cpu);
			all = false;
		}
	kernel_end_succession(kernel);
	return all;
}
