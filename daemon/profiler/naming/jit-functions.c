/* SPDX-License-Identifier: MIT */

#include "profiler/naming/jit-functions.h"

#include "base/util/clock.h"
#include "base/util/hash.h"
#include "profiler/naming/cpu-budget.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

/* Time from one look at the files of a process to the next: if places wait for it, and if the process is only
 * sampled. */
#define LOOK_NS ((uint64_t)NS_PER_S)
#define FRESH_NS (2 * (uint64_t)NS_PER_S)

/* A list names places for so long after a look has found it right. */
#define STALE_NS (5 * (uint64_t)NS_PER_S)

/* The time after a look in vain is twice as long each time, up to 16 s. */
#define VAIN_DOUBLINGS 4
/* After so many looks in vain, a process is taken to have no files: places do not wait any more. */
#define VAIN_WAITED 2

/* CPU time of the children: the same amounts as in function-lists.c. */
#define BURST_NS (10 * (int64_t)NS_PER_S)
#define SHARE 100

struct found {
	uint64_t start, end;
	uint64_t offset; /* of its place */
	char *name;
};

/* Addresses of places without a name. A look tells why they have none only if they were asked for before it began. */
#define AWAITED_MAX 256
struct awaited {
	uint64_t items[AWAITED_MAX];
	size_t nr;
	uint64_t begun;	  /* CLOCK_MONOTONIC ns: when the first was asked for */
	bool is_answered; /* the look has ended, … */
	bool is_late;	  /* … and other code may have been at the places when it began */
};

struct program {
	struct process_program is;
	struct module_key key; /* of its places without a name. inode: the program's number; major: its lists so far */
	struct function_list *list;
	enum naming naming; /* of places that are not in the list; NAMING_ASKED: there was no look yet */
	struct jit_seen seen;
	struct found *found; /* by start; none overlaps another */
	size_t nr_found, cap_found;
	uint64_t looked;    /* CLOCK_MONOTONIC ns: when the last look began; 0: never */
	uint64_t confirmed; /* … and the last look that found the list right */
	unsigned vain;	    /* looks in vain, one after the other */
	bool is_sampled;    /* since the last look */
	bool is_awaited;    /* by places, since the last look */
	/* Places that were asked for before the last look began, and since then. */
	struct awaited *before_look, *since_look;
	UT_hash_handle by_program, by_number;
	TAILQ_ENTRY(program) in_all;
};
TAILQ_HEAD(program_list, program);

struct jit_functions {
	struct list_maker *maker;
	struct function_block *block;
	struct program *by_program, *by_number;
	struct program_list all;   /* the program that was sampled last is the last */
	struct program *looked_at; /* the program that the child looks at, or NULL */
	struct cpu_budget budget;
	uint64_t taken_ns;	     /* CPU time that was taken from the budget */
	uint64_t numbers;	     /* the last number that a program got */
	uint64_t secret;	     /* for the hashes of names */
	size_t nr_found;	     /* of all programs */
	struct module_key named_key; /* of all places that have a name */
	struct jit_functions_stats stats;
};

int jit_functions_new(struct jit_functions **ret, const char *procfs)
{
	const struct list_roots roots = { .proc = procfs, .debug = "" };
	_cleanup_(jit_functions_freep) struct jit_functions *functions = calloc(1, sizeof(*functions));
	int r;

	if (!functions)
		return -ENOMEM;
	TAILQ_INIT(&functions->all);
	functions->budget = (struct cpu_budget){ .burst_ns = BURST_NS, .share = SHARE };
	/* Numbers of an earlier profiler, which places may still have, are lower. */
	functions->numbers = clock_monotonic_ns();
	if (getrandom(&functions->secret, sizeof(functions->secret), GRND_NONBLOCK) != sizeof(functions->secret))
		functions->secret = clock_realtime_ns() ^ (uintptr_t)functions;
	functions->block = calloc(1, sizeof(*functions->block));
	if (!functions->block)
		return -ENOMEM;
	r = list_maker_new(&functions->maker, &roots);
	if (r < 0)
		return r;
	*ret = steal_ptr(functions);
	return 0;
}

static void forget_found(struct jit_functions *functions, struct program *program)
{
	functions->nr_found -= program->nr_found;
	while (program->nr_found)
		free(program->found[--program->nr_found].name);
	free(program->found);
	program->found = NULL;
	program->cap_found = 0;
}

static void drop_list(struct jit_functions *functions, struct program *program)
{
	functions->block->list = NULL;
	if (program->list)
		functions->stats.bytes -= function_list_bytes(program->list);
	program->list = function_list_free(program->list);
	forget_found(functions, program);
}

static void forget_program(struct jit_functions *functions, struct program *program)
{
	drop_list(functions, program);
	HASH_DELETE(by_program, functions->by_program, program);
	HASH_DELETE(by_number, functions->by_number, program);
	TAILQ_REMOVE(&functions->all, program, in_all);
	if (functions->looked_at == program)
		functions->looked_at = NULL;
	free(program->before_look);
	free(program->since_look);
	free(program);
}

struct jit_functions *jit_functions_free(struct jit_functions *functions)
{
	if (!functions)
		return NULL;
	while (!TAILQ_EMPTY(&functions->all))
		forget_program(functions, TAILQ_FIRST(&functions->all));
	list_maker_free(functions->maker);
	free(functions->block);
	free(functions);
	return NULL;
}

int jit_functions_fd(const struct jit_functions *functions)
{
	return list_maker_fd(functions->maker);
}

struct jit_functions_stats jit_functions_stats(const struct jit_functions *functions)
{
	struct jit_functions_stats stats = functions->stats;

	stats.processes = HASH_CNT(by_program, functions->by_program);
	stats.cpu_ns = list_maker_cpu_ns(functions->maker);
	return stats;
}

/* --- programs */

/* NULL: no memory. */
static struct program *add_program(struct jit_functions *functions, const struct process_program *is)
{
	struct program *program = calloc(1, sizeof(*program));

	if (!program)
		return NULL;
	program->is = *is;
	program->key.inode = ++functions->numbers;
	program->naming = NAMING_ASKED;
	program->before_look = calloc(1, sizeof(*program->before_look));
	program->since_look = calloc(1, sizeof(*program->since_look));
	if (program->before_look && program->since_look)
		HASH_ADD(by_program, functions->by_program, is.life, sizeof(is->life), program);
	if (program->by_program.tbl)
		HASH_ADD(by_number, functions->by_number, key.inode, sizeof(program->key.inode), program);
	if (!program->by_number.tbl) {
		if (program->by_program.tbl)
			HASH_DELETE(by_program, functions->by_program, program);
		free(program->before_look);
		free(program->since_look);
		free(program);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&functions->all, program, in_all);
	return program;
}

static struct program *find_program(struct jit_functions *functions, const struct process_program *is)
{
	struct program *program;

	HASH_FIND(by_program, functions->by_program, &is->life, sizeof(is->life), program);
	if (program) {
		TAILQ_REMOVE(&functions->all, program, in_all);
		TAILQ_INSERT_TAIL(&functions->all, program, in_all);
		return program;
	}
	return add_program(functions, is);
}

/* Only at a turn: places that were handed out are valid until then. */
static void drop_over_limits(struct jit_functions *functions)
{
	struct program *program, *next;

	while (HASH_CNT(by_program, functions->by_program) > JIT_PROCESSES_MAX)
		forget_program(functions, TAILQ_FIRST(&functions->all));
	for (program = TAILQ_FIRST(&functions->all); program && functions->stats.bytes > JIT_LISTS_LIMIT;
	     program = next) {
		next = TAILQ_NEXT(program, in_all);
		if (program->list)
			forget_program(functions, program);
	}
	if (functions->nr_found < JIT_FOUND_MAX)
		return;
	TAILQ_FOREACH(program, &functions->all, in_all)
		forget_found(functions, program);
}

/* --- places */

/* The first function that ends behind the address. */
static size_t find_at(const struct program *program, uint64_t address)
{
	size_t low = 0, high = program->nr_found;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (program->found[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* FNV-1a with a secret start: a program chooses its names, but must not find one that has the hash of another's
 * name. */
static uint64_t hash_name(uint64_t secret, const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ secret;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return hash ^ (hash >> 31) ^ secret;
}

/* False: no memory. */
static bool add_found(struct jit_functions *functions, struct program *program, const struct function *function)
{
	size_t at = find_at(program, function->start), cap = program->cap_found ? program->cap_found * 2 : 64;
	struct found *items = program->found;
	char *name = strdup(function->name);

	if (name && program->nr_found == program->cap_found) {
		items = reallocarray(items, cap, sizeof(*items));
		if (items) {
			program->found = items;
			program->cap_found = cap;
		}
	}
	if (!name || !items) {
		free(name);
		return false;
	}
	memmove(&items[at + 1], &items[at], (program->nr_found - at) * sizeof(*items));
	items[at] = (struct found){ function->start, function->end, hash_name(functions->secret, name), name };
	program->nr_found++;
	functions->nr_found++;
	return true;
}

static const struct found *find_known(const struct program *program, uint64_t address)
{
	size_t at = find_at(program, address);

	return at < program->nr_found && program->found[at].start <= address ? &program->found[at] : NULL;
}

/* By now, other code may be at the addresses of an older list. */
static bool is_fresh(const struct program *program)
{
	return program->confirmed && clock_monotonic_ns() - program->confirmed <= STALE_NS;
}

static const struct found *find_function(struct jit_functions *functions, struct program *program, uint64_t address)
{
	const struct found *known = is_fresh(program) ? find_known(program, address) : NULL;
	struct function function;

	if (known || !program->list || !is_fresh(program) || functions->nr_found >= JIT_FOUND_MAX ||
	    !function_list_find(program->list, address, functions->block, &function) || !function.name ||
	    !add_found(functions, program, &function))
		return known;
	return find_known(program, address);
}

bool jit_functions_place(struct jit_functions *functions, const struct process_program *is, uint64_t address,
			 struct jit_place *ret)
{
	struct program *program = find_program(functions, is);
	const struct found *found = program ? find_function(functions, program, address) : NULL;

	if (!program)
		return false;
	program->is_sampled = true;
	if (found)
		*ret = (struct jit_place){ &functions->named_key, found->offset, found->name };
	else
		*ret = (struct jit_place){ &program->key, address, NULL };
	return true;
}

static bool has_awaited(const struct awaited *awaited, uint64_t address)
{
	for (size_t i = 0; i < awaited->nr; i++)
		if (awaited->items[i] == address)
			return true;
	return false;
}

/* Does the place wait for a look? Its name may have been written since the last one. */
static bool waits(struct program *program, uint64_t address, bool is_new)
{
	bool is_since_look = has_awaited(program->since_look, address);

	if (is_new && !is_since_look && program->vain <= VAIN_WAITED && program->since_look->nr < AWAITED_MAX) {
		if (!program->since_look->nr)
			program->since_look->begun = clock_monotonic_ns();
		program->since_look->items[program->since_look->nr++] = address;
		is_since_look = true;
	}
	program->is_awaited |= is_since_look || program->naming == NAMING_ASKED;
	return is_since_look || program->naming == NAMING_ASKED ||
	       (!program->before_look->is_answered && has_awaited(program->before_look, address));
}

enum naming jit_functions_name(struct jit_functions *functions, const struct module_key *key, uint64_t address,
			       bool is_new, const char **ret_name)
{
	struct program *program;
	struct function function;

	HASH_FIND(by_number, functions->by_number, &key->inode, sizeof(key->inode), program);
	if (!program)
		return NAMING_GENERATED;
	if (program->before_look->is_answered && program->before_look->is_late &&
	    has_awaited(program->before_look, address))
		return NAMING_FAILED;
	if (program->list && is_fresh(program) &&
	    function_list_find(program->list, address, functions->block, &function) && function.name) {
		*ret_name = function.name;
		return NAMING_NAMED;
	}
	return waits(program, address, is_new) ? NAMING_ASKED : program->naming;
}

void jit_functions_forget_lists(struct jit_functions *functions)
{
	struct program *program;

	TAILQ_FOREACH(program, &functions->all, in_all)
		program->list = NULL;
}

/* --- looking */

static void use_list(struct jit_functions *functions, struct program *program, struct function_list *list)
{
	drop_list(functions, program);
	program->list = list;
	program->confirmed = program->looked;
	program->key.major++;
	program->seen = *list_maker_seen(functions->maker);
	functions->stats.bytes += function_list_bytes(list);
	functions->stats.lists_made++;
}

/* The list stays if the program has ended, and if its files could not be read, since they are being written. */
static void take_look(struct jit_functions *functions, struct program *program)
{
	_cleanup_(function_list_freep) struct function_list *list = list_maker_take(functions->maker);
	const struct jit_seen *seen = list_maker_seen(functions->maker);
	enum naming naming = list ? function_list_naming(list) : NAMING_FAILED;

	functions->stats.looks++;
	program->before_look->is_answered = true;
	if (seen->is_same) {
		program->before_look->is_late = false;
		program->confirmed = program->looked;
		program->vain = 0;
		return;
	}
	program->vain++;
	if (program->seen.started && !seen->started)
		return;
	if (program->seen.started && naming == NAMING_FAILED) {
		program->naming = naming;
		return;
	}
	/* The pid may be another process's by now. */
	if (program->seen.started && program->seen.started != seen->started)
		return;
	program->naming = naming;
	if (naming == NAMING_NO_SYMBOL) {
		program->vain = 0;
		use_list(functions, program, steal_ptr(list));
		return;
	}
	if (program->list)
		program->key.major++;
	program->seen = (struct jit_seen){};
	drop_list(functions, program);
}

/* Has the process executed another program, or does another process have its pid? */
static bool has_ended(const struct program *program, const struct processes *processes)
{
	const struct process *process = processes_known(processes, program->is.pid);

	return process && process->program.life != program->is.life;
}

/* The files are another program's now, and are not looked at for this one any more. */
static void end_program(struct program *program)
{
	program->is_sampled = program->is_awaited = false;
	program->before_look->nr = program->since_look->nr = 0;
	if (program->naming == NAMING_ASKED)
		program->naming = NAMING_NO_MAP;
}

static bool take_made(struct jit_functions *functions, const struct processes *processes)
{
	uint64_t cpu_ns;

	if (!list_maker_finish(functions->maker))
		return false;
	cpu_ns = list_maker_cpu_ns(functions->maker);
	cpu_budget_take(&functions->budget, cpu_ns - functions->taken_ns);
	functions->taken_ns = cpu_ns;
	if (functions->looked_at && has_ended(functions->looked_at, processes))
		end_program(functions->looked_at);
	else if (functions->looked_at)
		take_look(functions, functions->looked_at);
	functions->looked_at = NULL;
	return true;
}

static uint64_t due_at(const struct program *program)
{
	unsigned doublings = program->vain < VAIN_DOUBLINGS ? program->vain : VAIN_DOUBLINGS;

	if (!program->is_sampled && !program->is_awaited)
		return UINT64_MAX;
	if (!program->looked)
		return 0;
	if (program->vain)
		return program->looked + (LOOK_NS << doublings);
	return program->looked + (program->is_awaited ? LOOK_NS : FRESH_NS);
}

static struct program *find_due(const struct jit_functions *functions, uint64_t now)
{
	struct program *program, *first = NULL;

	TAILQ_FOREACH(program, &functions->all, in_all)
		if (due_at(program) <= now && (!first || due_at(program) < due_at(first)))
			first = program;
	return first;
}

/* Does the path have the name of a jitdump? */
static bool is_dump(const char *path)
{
	const char *base = strrchr(path, '/');
	size_t length = base ? strlen(base) : 0;

	return path[0] == '/' && length > strlen("/jit-.dump") && strncmp(base, "/jit-", strlen("/jit-")) == 0 &&
	       strcmp(base + length - strlen(".dump"), ".dump") == 0;
}

/* From the lowest address on: mmap(2) goes down, so that dumps of ancestors are mostly above the process's own. */
static void find_dumps(struct jit_question *question, const struct processes *processes)
{
	const struct process *process = processes_known(processes, question->pid);
	size_t nr = process ? mappings_nr(process->mappings) : 0, nr_dumps = 0;

	for (size_t i = 0; i < nr && nr_dumps < JIT_DUMPS_MAX; i++) {
		const char *path = mappings_get(process->mappings, i)->module->path;

		if (is_dump(path) && strlen(path) < PATH_MAX)
			(void)snprintf(question->dumps[nr_dumps++], PATH_MAX, "%s", path);
	}
}

static bool look_at(struct jit_functions *functions, struct program *program, const struct processes *processes,
		    uint64_t now)
{
	struct jit_question question = {
		.pid = program->is.pid,
		.executed_at = program->is.executed_at,
		.seen = program->seen,
	};

	find_dumps(&question, processes);
	if (list_maker_start_jit(functions->maker, &question, JIT_LISTS_LIMIT / 2) < 0)
		return false;
	program->looked = now;
	program->is_sampled = program->is_awaited = false;
	*program->before_look = *program->since_look;
	program->before_look->is_late = program->before_look->nr && now - program->before_look->begun > STALE_NS;
	program->since_look->nr = 0;
	return true;
}

bool jit_functions_turn(struct jit_functions *functions, const struct processes *processes)
{
	bool changed = take_made(functions, processes);
	uint64_t now = clock_monotonic_ns();
	struct program *next;

	drop_over_limits(functions);
	if (list_maker_is_busy(functions->maker) || !cpu_budget_has_some(&functions->budget, now))
		return changed;
	next = find_due(functions, now);
	if (next && has_ended(next, processes))
		end_program(next);
	else if (next && look_at(functions, next, processes, now))
		functions->looked_at = next;
	return changed;
}
