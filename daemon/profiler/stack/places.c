/* SPDX-License-Identifier: MIT */

#include "profiler/stack/places.h"

#include <errno.h>
#include <string.h>

/* Names that the kernel gives to mappings without a file begin so. */
static bool is_generated(const char *path)
{
	return path[0] == '[' || strncmp(path, "//", 2) == 0;
}

/* Is it the vdso that this process has too? Programs of 32 bits have another vdso; in programs of 64 bits it is above 4
 * GiB. */
static bool is_own_vdso(const struct mapping *mapping)
{
	return strcmp(mapping->module->path, MODULE_VDSO) == 0 && (sizeof(void *) == 4 || mapping->start > UINT32_MAX);
}

/* A place can't get another reason later: each reason is a place of its own. */
static struct archive_place place_unknown(enum naming naming)
{
	return (struct archive_place){ .path = ARCHIVE_UNKNOWN, .naming = naming, .offset = naming };
}

/* Memory to which a program may write code that it runs. */
static bool is_writable_code(const char *path)
{
	static const char *const beginnings[] = { "//", "[anon", "[heap]", "[stack" };

	for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++)
		if (strncmp(path, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}

/* Programs that write code through one mapping and run it in another have a file in memory for both. Such a file may
 * also be a program. */
static bool is_memory_file(const char *path)
{
	return strncmp(path, "/memfd:", strlen("/memfd:")) == 0;
}

/* False: the address is to be taken as any other. */
static bool place_of_jit(uint64_t address, const struct mapping *mapping, const struct stack_source *source,
			 struct archive_place *ret)
{
	const char *path = mapping->module->path;
	struct jit_place place;

	if (!source->jit || (!is_writable_code(path) && !is_memory_file(path)) ||
	    !jit_functions_place(source->jit, &source->program, address, &place) ||
	    (is_memory_file(path) && !place.name))
		return false;
	*ret = (struct archive_place){
		.path = ARCHIVE_JIT,
		.key = place.key,
		.offset = place.offset,
		.naming = place.name ? NAMING_NAMED : NAMING_UNTRIED,
		.name = place.name,
	};
	return true;
}

static struct archive_place place_of_user(uint64_t address, const struct stack_source *source)
{
	const struct mapping *mapping = source->mappings ? mappings_find(source->mappings, address) : NULL;
	struct archive_place place = {};

	if (!mapping)
		return place_unknown(source->unmapped);
	if (place_of_jit(address, mapping, source, &place))
		return place;
	place.path = mapping->module->path;
	place.key = &mapping->module->key;
	place.offset = address - mapping->start + mapping->offset;
	if (is_own_vdso(mapping))
		return place;
	/* In memory that a program writes code to, an offset says nothing. */
	if (is_generated(place.path)) {
		place.offset = 0;
		place.naming = NAMING_GENERATED;
		if (place.path[0] == '/')
			place.path = ARCHIVE_ANONYMOUS;
		return place;
	}
	if (!module_is_file(mapping->module))
		place.naming = NAMING_NO_IDENTITY;
	return place;
}

static struct archive_place place_of_kernel(uint64_t address, struct kernel_functions *kernel)
{
	const struct kernel_function *function;
	struct archive_place place = {
		.path = ARCHIVE_KERNEL,
		.naming = kernel_functions_find(kernel, address, &function),
		.offset = address,
	};

	if (function) {
		place.offset = function->start;
		place.name = function->name;
	} else if (place.naming != NAMING_UNTRIED && place.naming != NAMING_NO_SYMBOL) {
		/* Without a list, all code without a name is one place. */
		place.offset = 0;
	}
	return place;
}

/* Markers stand in the chain before the kernel's part, and before the process's part. */
static bool is_marker(uint64_t address)
{
	return address >= PERF_CONTEXT_MAX;
}

/* --- the chain of the kernel */

/* The default of kernel.perf_event_max_stack: a chain with so many entries may be cut. */
#define CHAIN_MAX 127
#define KERNEL_FRAMES_MAX CHAIN_MAX

struct chain {
	const struct record_array *entries;
	uint64_t at;
	uint64_t mode; /* PERF_CONTEXT_… of the entry */
	bool is_first; /* the first entry of its mode: where code was interrupted; others are return addresses */
	uint64_t address;
};

static bool chain_next(struct chain *chain)
{
	while (chain->at < chain->entries->nr) {
		uint64_t address = record_u64(chain->entries, chain->at++);

		/* No marker follows the process's part. If code has no frame pointers, any value can be in that
		 * part. */
		if (is_marker(address) && chain->mode != PERF_CONTEXT_USER) {
			chain->mode = address;
			chain->is_first = true;
			chain->address = 0;
			continue;
		}
		chain->is_first = chain->address == 0;
		chain->address = address;
		return true;
	}
	return false;
}

/* The call is the instruction before a return address. */
static uint64_t address_of(uint64_t address, bool is_return)
{
	return address - (is_return && address ? 1 : 0);
}

static size_t add_kernel(struct archive_place *places, const struct stack_source *source,
			 struct kernel_functions *kernel)
{
	struct chain chain = { .entries = &source->chain };
	size_t nr = 0;

	while (nr < KERNEL_FRAMES_MAX && chain_next(&chain))
		if (chain.mode == PERF_CONTEXT_KERNEL)
			places[nr++] = place_of_kernel(address_of(chain.address, !chain.is_first), kernel);
	return nr;
}

/* from: so many entries of the chain are left out. */
static size_t add_user(struct archive_place *places, size_t nr, const struct stack_source *source, uint64_t from)
{
	struct chain chain = { .entries = &source->chain };

	while (nr < ARCHIVE_DEPTH_MAX && chain_next(&chain))
		if (chain.mode == PERF_CONTEXT_USER && chain.at > from)
			places[nr++] = place_of_user(address_of(chain.address, !chain.is_first), source);
	return nr;
}

/* --- unwinding */

/* Finds the rule at an address, for unwinding. */
struct lookup {
	const struct mappings *mappings;
	struct frame_tables *tables;
	const struct mapping *mapping; /* the mapping with the last address */
	enum frame_tables_state state; /* … and its table */
	const struct frame_table *table;
	bool waits; /* a table that is needed is being made */
};

static void change_mapping(struct lookup *lookup, const struct mapping *mapping)
{
	lookup->mapping = mapping;
	lookup->table = NULL;
	lookup->state = FRAME_TABLES_ABSENT;
	if (is_own_vdso(mapping) || module_is_file(mapping->module))
		lookup->state = frame_tables_find(lookup->tables, mapping->module, &lookup->table);
}

static enum unwind_code find_code(void *userdata, uint64_t address, const struct frame_rule **ret)
{
	struct lookup *lookup = userdata;
	const struct mapping *mapping = lookup->mapping;

	if (!mapping || address < mapping->start || address - mapping->start >= mapping->size) {
		mapping = mappings_find(lookup->mappings, address);
		if (!mapping)
			return UNWIND_NO_CODE;
		change_mapping(lookup, mapping);
	}
	if (lookup->state == FRAME_TABLES_ASKED) {
		lookup->waits = true;
		return UNWIND_NO_CODE;
	}
	*ret = lookup->table ? frame_table_find(lookup->table, address - mapping->start + mapping->offset) : NULL;
	return *ret ? UNWIND_RULE : UNWIND_NO_RULE;
}

struct user_chain {
	uint64_t addresses[CHAIN_MAX];
	uint64_t at[CHAIN_MAX]; /* numbers of the entries in the whole chain, plus 1 */
	size_t nr;
	bool is_cut;
};

static void read_user_chain(struct user_chain *ret, const struct stack_source *source)
{
	struct chain chain = { .entries = &source->chain };
	size_t nr = 0;

	for (ret->nr = 0; chain_next(&chain); nr++) {
		if (chain.mode != PERF_CONTEXT_USER || ret->nr == CHAIN_MAX)
			continue;
		ret->addresses[ret->nr] = chain.address;
		ret->at[ret->nr++] = chain.at;
	}
	ret->is_cut = nr >= CHAIN_MAX;
}

/* Counts the last frames that are in the chain, one after the other, up to its entry `last`. */
static size_t count_equal(const struct user_chain *chain, size_t last, const struct unwind_frame *frames, size_t nr)
{
	size_t equal = 0;

	while (equal < nr && equal <= last && chain->addresses[last - equal] == frames[nr - 1 - equal].address)
		equal++;
	return equal;
}

/* The entry of the chain that is the last frame; chain->nr: there is none. The last two frames have to be in the chain.
 * In a recursion they are there many times: the right entry is the one with the most equal frames before it. */
static size_t find_last_frame(const struct user_chain *chain, const struct unwind_frame *frames, size_t nr)
{
	size_t best = chain->nr, most = 1;

	for (size_t i = 0; i < chain->nr; i++) {
		size_t equal = count_equal(chain, i, frames, nr);

		if (equal > most) {
			best = i;
			most = equal;
		}
	}
	return best;
}

/* Like find_last_frame(), for a last frame whose frame pointer leads out of the copy: the kernel has followed the
 * pointer. It has to lead to code. */
static size_t find_by_pointer(const struct user_chain *chain, const struct stack_source *source,
			      const struct unwind_frame *last)
{
	size_t steps;

	if (!unwind_pointers(source->registers, source->copy, last->pointer, &steps) || steps + 1 >= chain->nr ||
	    !mappings_find(source->mappings, chain->addresses[steps + 1]))
		return chain->nr;
	return steps;
}

static size_t add_cut(struct archive_place *places, size_t nr)
{
	if (nr == ARCHIVE_DEPTH_MAX)
		nr--;
	places[nr] = place_unknown(NAMING_NAMED);
	places[nr].name = STACK_CUT_NAME;
	return nr + 1;
}

/* Adds the rest of a stack that is longer than its copy, from the kernel's chain. */
static size_t go_on(struct archive_place *places, size_t nr, const struct stack_source *source,
		    const struct unwind_frame *frames, size_t nr_frames)
{
	struct user_chain chain;
	size_t last;

	read_user_chain(&chain, source);
	last = find_last_frame(&chain, frames, nr_frames);
	if (last == chain.nr && nr_frames)
		last = find_by_pointer(&chain, source, &frames[nr_frames - 1]);
	if (last + 1 >= chain.nr)
		return add_cut(places, nr);
	nr = add_user(places, nr, source, chain.at[last]);
	return chain.is_cut || nr == ARCHIVE_DEPTH_MAX ? add_cut(places, nr) : nr;
}

struct stack_source stack_source_of(const struct record_sample *sample, const struct process *process)
{
	struct stack_source source = { .chain = sample->callchain, .unmapped = NAMING_NO_MAPPING };

	if (process) {
		source.mappings = process->mappings;
		source.program = process->program;
	}
	if (process && process_is_locked(process))
		source.unmapped = NAMING_LOCKED;
	else if (process && process->mappings_error < 0)
		source.unmapped = NAMING_HIDDEN;
	return source;
}

/* A sample that is only in the kernel, as of a kernel thread, lacks nothing. */
static bool has_user_part(const struct stack_source *source)
{
	bool has = false;

	for (uint64_t i = 0; i < source->chain.nr; i++)
		has |= record_u64(&source->chain, i) == PERF_CONTEXT_USER;
	return has;
}

int places_of_stack(struct archive_place *places, size_t *ret_nr, enum stack_end *ret_end,
		    const struct stack_source *source, struct frame_tables *tables, struct kernel_functions *kernel,
		    bool may_wait)
{
	struct lookup lookup = { .mappings = source->mappings, .tables = tables };
	struct unwind_frame frames[UNWIND_FRAMES_MAX];
	size_t nr, nr_frames = 0;

	*ret_end = has_user_part(source) ? STACK_FRAME_POINTERS : STACK_WHOLE;
	if (source->registers)
		*ret_end = unwind(source->registers, source->copy, find_code, &lookup, frames, &nr_frames);
	if (lookup.waits && may_wait)
		return -EAGAIN;
	nr = add_kernel(places, source, kernel);
	if (!source->registers || lookup.waits) {
		*ret_end = lookup.waits ? STACK_FRAME_POINTERS : *ret_end;
		*ret_nr = add_user(places, nr, source, 0);
		return 0;
	}
	for (size_t i = 0; i < nr_frames; i++)
		places[nr++] = place_of_user(address_of(frames[i].address, frames[i].is_return), source);
	*ret_nr = *ret_end == STACK_CUT ? go_on(places, nr, source, frames, nr_frames) : nr;
	return 0;
}

void stack_ask_tables(const struct stack_source *source, struct frame_tables *tables)
{
	struct lookup lookup = { .mappings = source->mappings, .tables = tables };
	const struct frame_rule *rule;
	struct user_chain chain;

	read_user_chain(&chain, source);
	for (size_t i = 0; i < chain.nr; i++)
		(void)find_code(&lookup, chain.addresses[i], &rule);
}

_Static_assert(KERNEL_FRAMES_MAX + UNWIND_FRAMES_MAX <= ARCHIVE_DEPTH_MAX, "there is room for all frames");
