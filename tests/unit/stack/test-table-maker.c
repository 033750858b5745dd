/* SPDX-License-Identifier: MIT */

/* Tables of real files, made by the sealed child: rules that are known here, and those that binutils has; files that
 * have no table, and why. */

#include "base/elf/elf-image.h"
#include "base/util/clock.h"
#include "base/util/helper.h"
#include "profiler/stack/frame-rules.h"
#include "profiler/stack/table-maker.h"
#include "setup/made-elf.h"
#include "setup/own-file.h"
#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX ((size_t)64 << 20)

static const struct file_user nobody;

/* A key with this is none: the child crashes. */
#define MAJOR_CRASH 0xdead

#ifdef __x86_64__
#define RBP 6
#define RSP 7
#define RETURN 16

/* Each row is an instruction of one byte, in the order of the checks below. */
int function_of_rules(int n);
__asm__(".text\n"
	".globl function_of_rules\n"
	".type function_of_rules, @function\n"
	"function_of_rules:\n"
	".cfi_startproc\n"
	"push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset %rbp, -16\n"
	"nop\n"
	".cfi_def_cfa_register %rbp\n"
	"nop\n"
	/* A realigned stack: the CFA is *(rbp - 8), and rbx is at rbp - 24. */
	".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n"
	".cfi_escape 0x10, 6, 2, 0x76, 0\n"
	".cfi_escape 0x10, 3, 2, 0x76, 0x68\n"
	"nop\n"
	/* Another base than that of rbp and rbx, no multiple of a word, and a value. */
	".cfi_escape 0x10, 12, 2, 0x77, 0\n"
	".cfi_escape 0x10, 13, 2, 0x76, 4\n"
	".cfi_escape 0x16, 14, 2, 0x76, 0\n"
	"nop\n"
	/* The CFA is *(rsp + 16) + 8. */
	".cfi_escape 0x0f, 5, 0x77, 0x10, 0x06, 0x23, 0x08\n"
	"nop\n"
	/* In no form: rsp + rax. */
	".cfi_escape 0x0f, 5, 0x77, 0, 0x70, 0, 0x22\n"
	"nop\n"
	".cfi_def_cfa %r10, 0\n"
	".cfi_restore %rbp\n"
	".cfi_register %rip, %rdi\n"
	"nop\n"
	".cfi_undefined %rip\n"
	"nop\n"
	".cfi_endproc\n"
	"nop\n"
	".size function_of_rules, . - function_of_rules\n");
#endif

/* --- a maker, and the end of its child */

static void wait_for(struct table_maker *maker)
{
	uint64_t end = clock_monotonic_ns() + 120 * (uint64_t)NS_PER_S;
	struct pollfd wait = { .fd = table_maker_fd(maker), .events = POLLIN };

	assert_true(table_maker_is_busy(maker));
	while (!table_maker_finish(maker)) {
		if (clock_monotonic_ns() > end)
			fail_msg("the maker has not finished after two minutes");
		(void)poll(&wait, 1, 100);
	}
	assert_false(table_maker_is_busy(maker));
}

static enum frame_problem make_in(const char *proc, const char *path, const struct module_key *key, uint32_t pid,
				  struct frame_table **ret)
{
	const struct file_user user = { .pid = pid, .start = 0x1000, .end = 0x2000 };
	_cleanup_(table_maker_freep) struct table_maker *maker = NULL;
	enum frame_problem problem;

	assert_int_equal(table_maker_new(&maker, proc), 0);
	assert_int_equal(table_maker_start(maker, path, key, &user), 0);
	assert_int_equal(table_maker_start(maker, path, key, &user), -EBUSY);
	assert_int_equal(table_maker_take(maker, ret, MAX), FRAME_FAILED);
	assert_int_equal(table_maker_start(maker, path, key, &user), -EBUSY);
	wait_for(maker);
	assert_true(table_maker_cpu_ns(maker) > 0);
	problem = table_maker_take(maker, ret, MAX);
	assert_int_equal(table_maker_take(maker, ret, MAX), FRAME_FAILED);
	return problem;
}

static enum frame_problem make(const char *path, const struct module_key *key, struct frame_table **ret)
{
	return make_in("/proc", path, key, 0, ret);
}

/* --- files */

/* The file that code of this process is in, and where. */
static uint64_t locate(const void *code, char path[static PATH_MAX], struct module_key *ret)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t start, end, offset, at = 0;
	char line[PATH_MAX + 128];
	struct stat st;

	assert_non_null(maps);
	path[0] = '\0';
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095[^\n]", &start, &end, &offset,
			   path) == 4 &&
		    start <= (uintptr_t)code && (uintptr_t)code < end) {
			at = (uintptr_t)code - start + offset;
			break;
		}
	(void)fclose(maps);
	assert_true(at && stat(path, &st) == 0);
	*ret = (struct module_key){ .major = major(st.st_dev), .minor = minor(st.st_dev), .inode = st.st_ino };
	return at;
}

static struct frame_table *make_of(const void *code, uint64_t *ret_offset)
{
	struct frame_table *table = NULL;
	struct module_key key;
	char path[PATH_MAX];

	*ret_offset = locate(code, path, &key);
	assert_int_equal(make(path, &key, &table), FRAME_NO_PROBLEM);
	return table;
}

#ifdef __x86_64__
static void assert_rule(const struct frame_rule *rule, enum frame_kind kind, int reg, int offset, int saved_rbp)
{
	assert_non_null(rule);
	assert_int_equal(rule->kind, kind);
	assert_int_equal(rule->reg, reg);
	assert_int_equal(rule->offset, offset);
	assert_int_equal(rule->saved[RETURN], -1);
	assert_int_equal(rule->saved[RBP], saved_rbp);
	assert_int_equal(rule->saved[RSP], FRAME_SAME);
	assert_int_equal(rule->flags, 0);
}

static void test_forms(void **state)
{
	uint64_t at;
	_cleanup_(frame_table_freep) struct frame_table *table = make_of((void *)function_of_rules, &at);
	const struct frame_rule *rule;

	(void)state;
	assert_rule(frame_table_find(table, at), FRAME_CFA, RSP, 8, FRAME_SAME);
	assert_rule(frame_table_find(table, at + 1), FRAME_CFA, RSP, 16, -2);
	assert_rule(frame_table_find(table, at + 2), FRAME_CFA, RBP, 16, -2);

	rule = frame_table_find(table, at + 3);
	assert_rule(rule, FRAME_CFA_LOADED, RBP, -8, 0);
	assert_int_equal(rule->added, 0);
	assert_int_equal(rule->base, RBP);
	assert_int_equal(rule->from_base, 1 << RBP | 1 << 3);
	assert_int_equal(rule->saved[3], -3);
	assert_int_equal(rule->saved[12], FRAME_SAME);
	assert_int_equal(rule->saved[0], FRAME_SAME);

	rule = frame_table_find(table, at + 4);
	assert_int_equal(rule->from_base, 1 << RBP | 1 << 3);
	for (int i = 12; i <= 14; i++)
		assert_int_equal(rule->saved[i], FRAME_UNDEFINED);

	rule = frame_table_find(table, at + 5);
	assert_rule(rule, FRAME_CFA_LOADED, RSP, 16, 0);
	assert_int_equal(rule->added, 8);

	assert_null(frame_table_find(table, at + 6));
	rule = frame_table_find(table, at + 7);
	assert_int_equal(rule->reg, 10);
	assert_int_equal(rule->saved[RETURN], FRAME_REGISTER_0 + 5);
	assert_int_equal(frame_table_find(table, at + 8)->kind, FRAME_OUTERMOST);
	assert_null(frame_table_find(table, at + 9));
}

static void test_libc(void **state)
{
	uint64_t at, start;
	_cleanup_(frame_table_freep) struct frame_table *table = make_of((void *)lfind, &at);
	struct module_key key;
	char path[PATH_MAX];
	bool has_plt = false;

	(void)state;
	assert_rule(frame_table_find(table, at), FRAME_CFA, RSP, 8, FRAME_SAME);
	for (uint32_t i = 0; i < table->nr_rows; i++) {
		const struct frame_rule *rule = frame_table_find(table, table->offsets[i]);

		has_plt |= rule && rule->kind == FRAME_PLT && rule->reg == RSP && rule->offset > 0;
	}
	assert_true(has_plt);
	/* By its inode, it is not itself in another place. */
	start = locate((void *)lfind, path, &key);
	assert_int_equal(start, at);
	key.inode++;
	assert_int_equal(make(path, &key, &table), FRAME_OTHER_FILE);
}

static void ignore_signal(int number)
{
	(void)number;
}

/* The kernel's struct sigaction, not libc's. */
static void test_signal_frame(void **state)
{
	struct {
		void (*handler)(int number);
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} action;
	_cleanup_(frame_table_freep) struct frame_table *table = NULL;
	const struct frame_rule *rule;
	uint64_t at;

	(void)state;
	assert_true(signal(SIGUSR1, ignore_signal) != SIG_ERR);
	assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, sizeof(action.mask)), 0);
	table = make_of(action.restorer, &at);
	rule = frame_table_find(table, at);
	assert_non_null(rule);
	assert_int_equal(rule->kind, FRAME_CFA_LOADED);
	assert_int_equal(rule->flags, FRAME_SIGNAL);
	assert_int_equal(rule->reg, RSP);
	assert_int_equal(rule->base, RSP);
	/* All registers are in the frame that the kernel has made (struct ucontext). */
	for (int i = 0; i <= RETURN; i++)
		assert_true(rule->from_base >> i & 1);
	assert_int_equal(rule->saved[RETURN] - rule->saved[RSP], 1);
	assert_int_equal(rule->offset, 8 * rule->saved[RSP]);
}

/* --- what binutils has */

/* A row of `readelf --debug-dump=frames-interp`: its address, the CFA, registers and the return address. */
static bool check_row(const char *line, const struct frame_table *table, const struct elf_image *image)
{
	static const char *const names[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
					     "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };
	const struct frame_rule *rule;
	uint64_t address, at;
	char name[8] = "";
	int offset, length;

	if (sscanf(line, "%16" SCNx64 " %n%3[a-z0-9]%d", &address, &length, name, &offset) != 3 || length != 17 ||
	    address == 0 || !elf_image_offset(image, address, &at))
		return false;
	rule = frame_table_find(table, at);
	if (!rule || (rule->kind == FRAME_OUTERMOST && !strstr(line, " u ")))
		fail_msg("no rule: %s", line);
	if (rule->kind == FRAME_CFA && (strcmp(names[rule->reg], name) != 0 || rule->offset != offset))
		fail_msg("register %d, offset %d: %s", rule->reg, rule->offset, line);
	if (strstr(line, " c-8 ") && rule->saved[RETURN] != -1)
		fail_msg("the return address is %d: %s", rule->saved[RETURN], line);
	return true;
}

static unsigned check_rows(const char *path, const struct frame_table *table)
{
	char command[PATH_MAX + 64], line[512];
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_image image;
	struct stat st;
	unsigned nr = 0;
	FILE *output;
	void *data;

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(data != MAP_FAILED && elf_image_open(&image, (struct elf_bytes){ data, (size_t)st.st_size }));
	(void)snprintf(command, sizeof(command), "readelf --wide --debug-dump=frames-interp '%s' 2>/dev/null", path);
	output = popen(command, "r");
	assert_non_null(output);
	while (fgets(line, sizeof(line), output))
		nr += check_row(line, table, &image);
	(void)pclose(output);
	munmap(data, (size_t)st.st_size);
	return nr;
}

static void test_rows(void **state)
{
	static const char *const files[] = { "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6",
					     "/usr/bin/bash" };
	unsigned nr = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_(frame_table_freep) struct frame_table *table = NULL;
		struct module_key key = {};
		struct stat st;

		if (stat(files[i], &st) < 0)
			continue;
		key = (struct module_key){ .major = major(st.st_dev), .minor = minor(st.st_dev), .inode = st.st_ino };
		assert_int_equal(make(files[i], &key, &table), FRAME_NO_PROBLEM);
		nr += check_rows(files[i], table);
	}
	assert_true(nr > 1000);
}
#endif

/* --- files, and what is none */

static void test_vdso(void **state)
{
	_cleanup_(frame_table_freep) struct frame_table *table = NULL;
	const struct module_key key = {};

	(void)state;
	assert_int_equal(make(MODULE_VDSO, &key, &table), FRAME_NO_PROBLEM);
	assert_true(table->nr_rows > 2);
}

static void test_other_files(void **state)
{
	struct frame_table *table = NULL;
	struct module_key key;
	struct own_file own;

	(void)state;
	own_file_open(&own);
	key = own.key;
	assert_true(key.build_id_size > 0);
	assert_int_equal(make(own.path, &own.key, &table), FRAME_NO_PROBLEM);
	table = frame_table_free(table);
	key.build_id[0]++;
	assert_int_equal(make(own.path, &key, &table), FRAME_OTHER_FILE);
	key = own.key;
	key.build_id_size = MODULE_BUILD_ID_MAX + 1;
	assert_int_equal(make(own.path, &key, &table), FRAME_FAILED);
	key = own.inode;
	key.minor++;
	assert_int_equal(make(own.path, &key, &table), FRAME_OTHER_FILE);
	assert_null(table);
	own_file_close(&own);
}

/* In the tree of files of a process, also where another file is at that path. */
static void test_places(void **state)
{
	_cleanup_(frame_table_freep) struct frame_table *table = NULL;
	const char *path = "/bin/program";
	struct scratch scratch;
	struct own_file own;

	(void)state;
	own_file_open(&own);
	scratch_make(&scratch);
	scratch_write(&scratch, "42/root/bin/program", (const char *)own.bytes, own.size);
	scratch_text(&scratch, "43/root/bin/program", "#!/bin/sh\n");
	assert_int_equal(make_in(scratch.path, path, &own.key, 0, &table), FRAME_NO_FILE);
	assert_int_equal(make_in(scratch.path, path, &own.key, 41, &table), FRAME_NO_FILE);
	assert_int_equal(make_in(scratch.path, path, &own.key, 43, &table), FRAME_MALFORMED);
	assert_int_equal(make_in(scratch.path, "bin/program", &own.key, 42, &table), FRAME_NO_FILE);
	assert_int_equal(make_in(scratch.path, "/bin/sh", &own.key, 41, &table), FRAME_OTHER_FILE);
	assert_int_equal(make_in(scratch.path, path, &own.key, 42, &table), FRAME_NO_PROBLEM);
	scratch_remove(&scratch);
	own_file_close(&own);
}

/* Deleted or replaced: as a process has it mapped, and as it executes it; never what has its path now. */
static void test_processes(void **state)
{
	static const char *const links[] = { "exe", "map_files/1000-2000" };
	const char *path = "/bin/program";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		for (int is_replaced = 0; is_replaced < 2; is_replaced++)
			for (int by_inode = 0; by_inode < 2; by_inode++) {
				struct frame_table *table = NULL;
				struct scratch scratch;
				struct own_file own;
				char link[64];

				own_file_open(&own);
				scratch_make(&scratch);
				scratch_text(&scratch, "42/map_files/other", "");
				scratch_text(&scratch, is_replaced ? "42/root/bin/program" : "42/root/other",
					     "#!/bin/sh\n");
				(void)snprintf(link, sizeof(link), "42/%s", links[i]);
				assert_int_equal(symlink(own.path, scratch_path(&scratch, link)), 0);
				assert_int_equal(
					make_in(scratch.path, path, by_inode ? &own.inode : &own.key, 42, &table),
					FRAME_NO_PROBLEM);
				table = frame_table_free(table);
				/* It is another file by now. */
				own.key.build_id[0]++;
				own.inode.inode++;
				assert_true(make_in(scratch.path, path, by_inode ? &own.inode : &own.key, 42, &table) !=
					    FRAME_NO_PROBLEM);
				assert_null(table);
				scratch_remove(&scratch);
				own_file_close(&own);
			}
}

static void test_no_files(void **state)
{
	const struct module_key key = { .build_id = "abcd", .build_id_size = 4 };
	struct frame_table *table = NULL;
	struct scratch scratch;
	char path[PATH_MAX];

	(void)state;
	scratch_make(&scratch);
	assert_int_equal(make(scratch.path, &key, &table), FRAME_NO_FILE);
	assert_int_equal(make("/dev/zero", &key, &table), FRAME_NO_FILE);
	assert_int_equal(make("", &key, &table), FRAME_NO_FILE);
	memset(path, '/', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(make(path, &key, &table), FRAME_NO_FILE);
	(void)snprintf(path, sizeof(path), "%s/fifo", scratch.path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(make(path, &key, &table), FRAME_NO_FILE);
	scratch_text(&scratch, "empty", "");
	assert_int_equal(make(scratch_path(&scratch, "empty"), &key, &table), FRAME_MALFORMED);
	scratch_text(&scratch, "script", "#!/bin/sh\n");
	assert_int_equal(make(scratch_path(&scratch, "script"), &key, &table), FRAME_MALFORMED);
	assert_null(table);
	scratch_remove(&scratch);
}

/* Its code has no call-frame information, and no machine that is known. */
static void test_no_rules(void **state)
{
	const struct made_elf made = {};
	struct frame_table *table = NULL;
	struct module_key key;
	struct scratch scratch;
	const char *path;
	struct stat st;

	(void)state;
	scratch_make(&scratch);
	path = scratch_path(&scratch, "made");
	made_elf_write(path, &made);
	assert_int_equal(stat(path, &st), 0);
	key = (struct module_key){ .major = major(st.st_dev), .minor = minor(st.st_dev), .inode = st.st_ino };
	assert_int_equal(make(path, &key, &table), FRAME_NO_RULES);
	scratch_remove(&scratch);
}

/* A program whose call-frame information is damaged has a table of some kind, or none. */
static void test_broken(void **state)
{
	struct elf_bytes part;
	struct elf_image image;
	struct scratch scratch;
	struct own_file own;
	unsigned seed = 7;

	(void)state;
	own_file_open(&own);
	scratch_make(&scratch);
	assert_true(elf_image_open(&image, (struct elf_bytes){ own.bytes, own.size }));
	assert_true(elf_image_find(&image, ".eh_frame", &part));
	for (int round = 0; round < 20; round++) {
		struct frame_table *table = NULL;
		enum frame_problem problem;

		for (int i = 0; i < 50; i++)
			own.bytes[part.data - own.bytes + rand_r(&seed) % (long)part.size] =
				(unsigned char)rand_r(&seed);
		scratch_write(&scratch, "broken", (const char *)own.bytes, own.size);
		problem = make(scratch_path(&scratch, "broken"), &own.key, &table);
		assert_true((problem == FRAME_NO_PROBLEM) == (table != NULL));
		frame_table_free(table);
	}
	scratch_remove(&scratch);
	own_file_close(&own);
}

/* --- limits */

static void test_too_large(void **state)
{
	_cleanup_(table_maker_freep) struct table_maker *maker = NULL;
	struct frame_table *table = NULL;
	struct own_file own;

	(void)state;
	own_file_open(&own);
	assert_int_equal(table_maker_new(&maker, "/proc"), 0);
	assert_int_equal(table_maker_start(maker, own.path, &own.key, &nobody), 0);
	wait_for(maker);
	assert_int_equal(table_maker_take(maker, &table, 100), FRAME_TOO_LARGE);
	/* One that is not taken, and one that is not waited for. */
	assert_int_equal(table_maker_start(maker, own.path, &own.key, &nobody), 0);
	wait_for(maker);
	assert_int_equal(table_maker_start(maker, own.path, &own.key, &nobody), 0);
	assert_null(table);
	own_file_close(&own);
}

static void test_crash(void **state)
{
	struct frame_table *table = NULL;
	struct own_file own;

	(void)state;
	own_file_open(&own);
	own.key.major = MAJOR_CRASH;
	assert_int_equal(make(own.path, &own.key, &table), FRAME_FAILED);
	assert_null(table);
	own_file_close(&own);
}

static void allocate(void)
{
	char *memory = malloc(1 << 20);

	if (!memory)
		abort();
	memset(memory, 1, 1 << 20);
	memory = realloc(memory, 8 << 20);
	if (!memory || memory[1000] != 1)
		abort();
	free(memory);
}

static void map_code(void)
{
	(void)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void map_shared(void)
{
	(void)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void protect(void)
{
	(void)mprotect(NULL, 4096, PROT_READ | PROT_EXEC);
}

static void open_any(void)
{
	(void)open("/dev/null", O_RDONLY);
}

static void follow_link(void)
{
	char text[8];

	if (readlink("/proc/self/exe", text, sizeof(text)) >= 0 || errno != EACCES)
		abort();
}

/* A system call that is not allowed kills the process, and no other. */
static void test_seal(void **state)
{
	static const struct {
		void (*run)(void);
		bool survives;
	} cases[] = { { allocate, true },    { follow_link, true }, { map_code, false },
		      { map_shared, false }, { protect, false },    { open_any, false } };
	const struct rlimit none = {};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int status, ends[2];
		char byte = 0;
		pid_t pid;

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		pid = fork();
		if (pid == 0) {
			(void)setrlimit(RLIMIT_CORE, &none);
			helper_seal_with_memory();
			cases[i].run();
			(void)!write(ends[1], "x", 1);
			helper_exit();
		}
		close(ends[1]);
		assert_int_equal(read(ends[0], &byte, 1), cases[i].survives);
		close(ends[0]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!cases[i].survives && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS))
			fail_msg("%zu: status %d", i, status);
	}
}

static void test_texts(void **state)
{
	(void)state;
	for (int i = 0; i < _FRAME_PROBLEM_MAX; i++)
		assert_true(strlen(frame_problem_text(i)) > 0);
}

/* Without libdw. */
static void test_none(void **state)
{
	struct frame_table *table = NULL;
	struct own_file own;

	(void)state;
	own_file_open(&own);
	assert_int_equal(make(own.path, &own.key, &table), FRAME_NO_LIBDW);
	own_file_close(&own);
}

/* A maker executes this program anew. */
static void run_child(void)
{
	struct module_key key;

	if (pread(FRAME_FD_TABLE, &key, sizeof(key), 0) == sizeof(key) && key.major == MAJOR_CRASH)
		(void)raise(SIGKILL);
	frame_table_child_run();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_forms),	     cmocka_unit_test(test_libc),
		cmocka_unit_test(test_signal_frame), cmocka_unit_test(test_rows),
#endif
		cmocka_unit_test(test_vdso),	     cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_places),	     cmocka_unit_test(test_processes),
		cmocka_unit_test(test_no_files),     cmocka_unit_test(test_no_rules),
		cmocka_unit_test(test_broken),	     cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_crash),	     cmocka_unit_test(test_seal),
		cmocka_unit_test(test_texts),
	};
	const struct CMUnitTest without[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_seal),
		cmocka_unit_test(test_texts),
	};

	if (argc == 2 && strcmp(argv[1], "--make-frame-table") == 0)
		run_child();
	return frame_rules_are_built_in() ? cmocka_run_group_tests(tests, NULL, NULL) :
					    cmocka_run_group_tests(without, NULL, NULL);
}
