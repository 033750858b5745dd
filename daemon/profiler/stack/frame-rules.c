/* SPDX-License-Identifier: MIT */

#include "profiler/stack/frame-rules.h"

#include "profiler/naming/go-functions.h"
#include "profiler/naming/unwind-table.h"
#include "profiler/stack/go-rules.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <string.h>

#define WORD 8

/* Registers by DWARF's numbers, which the tables use too. */
struct machine {
	unsigned elf;	/* e_machine */
	int nr;		/* of registers */
	int stack, ret; /* the stack pointer, and the return address as frame-table.h numbers them */
};

static const struct machine machines[] = {
	{ EM_X86_64, 17, 7, 16 },
	{ EM_AARCH64, 32, 31, 30 },
};

/* Reads one section. */
struct reader {
	const struct machine *machine;
	const struct elf_image *image;
	struct frame_builder *builder;
	uint8_t flags; /* in all rules */
	struct unwind_section section;
	unsigned char *bytes; /* the memory of `elf` */
	Elf *elf;
	Dwarf *dwarf;	/* of .debug_frame */
	Dwarf_CFI *cfi; /* of .eh_frame, to be freed; or of `dwarf`, which frees it */
};

bool frame_rules_are_built_in(void)
{
	return true;
}

/* --- expressions */

/* Reads an expression that adds a number to the value of a register. */
static bool read_register(const Dwarf_Op *op, uint8_t *ret, int64_t *ret_offset)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*ret = (uint8_t)(op->atom - DW_OP_breg0);
		*ret_offset = (int64_t)op->number;
		return true;
	}
	if (op->atom != DW_OP_bregx || op->number >= FRAME_REGISTERS)
		return false;
	*ret = (uint8_t)op->number;
	*ret_offset = (int64_t)op->number2;
	return true;
}

/* Is this the expression for stubs of a procedure linkage table? Within the 16 bytes of a stub, a push moves the stack
 * pointer. */
static bool is_plt(const Dwarf_Op *ops, size_t nr)
{
	static const uint8_t shape[] = {
		DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and,  DW_OP_lit0,
		DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,	DW_OP_plus,
	};

	if (nr != ARRAY_SIZE(shape) || ops[0].number != WORD || ops[1].number != 0)
		return false;
	for (size_t i = 0; i < nr; i++)
		if (ops[i].atom != shape[i] && shape[i] != DW_OP_lit0)
			return false;
	return ops[4].atom >= DW_OP_lit0 && ops[4].atom <= DW_OP_lit15;
}

static bool set_cfa(struct frame_rule *rule, const Dwarf_Op *ops, size_t nr)
{
	bool is_loaded = nr >= 2 && ops[1].atom == DW_OP_deref;
	bool is_added = nr == 3 && ops[2].atom == DW_OP_plus_uconst && ops[2].number <= INT32_MAX;
	int64_t offset;

	if (nr == 0 || !read_register(&ops[0], &rule->reg, &offset) || offset < INT32_MIN || offset > INT32_MAX)
		return false;
	rule->offset = (int32_t)offset;
	if (nr == 1) {
		rule->kind = FRAME_CFA;
	} else if (is_loaded && (nr == 2 || is_added)) {
		rule->kind = FRAME_CFA_LOADED;
		rule->added = nr == 3 ? (int32_t)ops[2].number : 0;
	} else if (is_plt(ops, nr)) {
		rule->kind = FRAME_PLT;
		rule->offset = ops[4].atom - DW_OP_lit0;
	} else {
		return false;
	}
	return true;
}

static int16_t save_word(int64_t offset)
{
	int64_t words = offset / WORD;

	return offset % WORD || words < FRAME_SAVED_MIN || words > INT16_MAX ? FRAME_UNDEFINED : (int16_t)words;
}

/* A register that is saved at the CFA plus a number, or at a base register plus a number. A rule has room for one base
 * register. */
static int16_t save_in_memory(struct frame_rule *rule, int reg, const Dwarf_Op *ops, size_t nr)
{
	int64_t offset;
	uint8_t base;
	int16_t saved;

	if (nr == 0)
		return 0;
	if (nr == 1 && ops[0].atom == DW_OP_plus_uconst)
		return save_word((int64_t)ops[0].number);
	if (nr != 1 || !read_register(&ops[0], &base, &offset) || (rule->from_base && rule->base != base))
		return FRAME_UNDEFINED;
	saved = save_word(offset);
	if (saved == FRAME_UNDEFINED)
		return saved;
	rule->base = base;
	rule->from_base |= UINT32_C(1) << reg;
	return saved;
}

/* reg: the register's number in the table; number: its number in DWARF. */
static int16_t save_register(const struct reader *reader, struct frame_rule *rule, int reg, int number,
			     Dwarf_Frame *frame)
{
	Dwarf_Op memory[3], *ops = NULL;
	size_t nr = 0;

	if (dwarf_frame_register(frame, number, memory, &ops, &nr) != 0)
		return FRAME_UNDEFINED;
	if (nr == 0)
		return ops ? FRAME_UNDEFINED : FRAME_SAME;
	if (nr == 1 && ops[0].atom == DW_OP_regx)
		return ops[0].number < FRAME_REGISTERS ? (int16_t)(FRAME_REGISTER_0 + (int)ops[0].number) :
							 FRAME_UNDEFINED;
	if (ops[0].atom != DW_OP_call_frame_cfa)
		return FRAME_UNDEFINED;
	/* libdw says so that the stack pointer is the CFA. A rule has no form for other computed values. */
	if (ops[nr - 1].atom == DW_OP_stack_value)
		return nr == 2 && reg == reader->machine->stack ? FRAME_SAME : FRAME_UNDEFINED;
	return save_in_memory(rule, reg, ops + 1, nr - 1);
}

/* --- rows */

static const struct frame_rule unknown = { .kind = FRAME_UNKNOWN };

/* Does the file say that there is no return address? That is so in the outermost function. */
static bool is_outermost(Dwarf_Frame *frame, int ret_number)
{
	Dwarf_Op memory[3], *ops = NULL;
	size_t nr = 0;

	return dwarf_frame_register(frame, ret_number, memory, &ops, &nr) == 0 && nr == 0 && ops;
}

static void make_rule(const struct reader *reader, struct frame_rule *ret, Dwarf_Frame *frame, int ret_number,
		      bool is_signal)
{
	const struct machine *machine = reader->machine;
	struct frame_rule rule = { .flags = reader->flags | (is_signal ? FRAME_SIGNAL : 0) };
	Dwarf_Op *ops = NULL;
	size_t nr = 0;
	bool has_cfa = dwarf_frame_cfa(frame, &ops, &nr) == 0 && set_cfa(&rule, ops, nr);

	for (int i = 0; i < FRAME_REGISTERS; i++)
		rule.saved[i] = FRAME_UNDEFINED;
	rule.saved[machine->ret] = save_register(reader, &rule, machine->ret, ret_number, frame);
	for (int i = 0; i < machine->nr; i++)
		if (i != machine->ret)
			rule.saved[i] = save_register(reader, &rule, i, i, frame);
	if (is_outermost(frame, ret_number))
		*ret = (struct frame_rule){ .kind = FRAME_OUTERMOST, .flags = rule.flags };
	else
		*ret = has_cfa && rule.saved[machine->ret] != FRAME_UNDEFINED ? rule : unknown;
}

/* The addresses are in one segment. base: an address minus its offset in the file. */
static int add_rows(const struct reader *reader, uint64_t start, uint64_t end, uint64_t base)
{
	int r = 0;

	for (uint64_t at = start, next = end; at < end && r == 0; at = next) {
		_cleanup_(freep) Dwarf_Frame *frame = NULL;
		struct frame_rule rule = unknown;
		Dwarf_Addr from, to = end;
		bool is_signal = false;
		int ret_number;

		if (dwarf_cfi_addrframe(reader->cfi, at, &frame) == 0) {
			ret_number = dwarf_frame_info(frame, &from, &to, &is_signal);
			if (ret_number >= 0)
				make_rule(reader, &rule, frame, ret_number, is_signal);
		}
		next = to > at && to < end ? to : end;
		r = frame_builder_add(reader->builder, at - base, next - base, &rule);
	}
	return r;
}

/* A function's addresses may lie anywhere. Only addresses in a segment are in the file. */
static int add_function(const struct reader *reader, uint64_t start, uint64_t end)
{
	elf_segment segment;

	for (unsigned i = 0; elf_image_segment(reader->image, i, &segment); i++) {
		uint64_t in_segment = start - segment.p_vaddr;

		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || start < segment.p_vaddr ||
		    in_segment >= segment.p_filesz)
			continue;
		if (end - start > segment.p_filesz - in_segment)
			end = start + (segment.p_filesz - in_segment);
		return add_rows(reader, start, end, segment.p_vaddr - segment.p_offset);
	}
	return 0;
}

static int add_functions(const struct reader *reader)
{
	uint64_t at = 0, start, end;
	int r = 0;

	while (r == 0 && unwind_section_next(&reader->section, &at, &start, &end))
		r = add_function(reader, start, end);
	return r;
}

/* --- the section, in a file of its own: libdw reads the whole file's sections first, which may be GiB */

static const char section_names[] = "\0.eh_frame\0.debug_frame\0.shstrtab";

#define NAME_EH_FRAME 1
#define NAME_DEBUG_FRAME 11
#define NAME_NAMES 24

static bool make_file(struct reader *reader)
{
	const struct unwind_section *section = &reader->section;
	size_t names = sizeof(elf_header) + ((section->bytes.size + WORD - 1) & ~(size_t)(WORD - 1));
	size_t headers = (names + sizeof(section_names) + WORD - 1) & ~(size_t)(WORD - 1);
	elf_header header = reader->image->header;
	elf_section sections[3] = {};

	sections[1] = (elf_section){ .sh_name = section->is_debug ? NAME_DEBUG_FRAME : NAME_EH_FRAME,
				     .sh_type = SHT_PROGBITS,
				     .sh_flags = section->flags & SHF_COMPRESSED,
				     .sh_addr = section->address,
				     .sh_offset = sizeof(header),
				     .sh_size = section->bytes.size,
				     .sh_addralign = WORD };
	sections[2] = (elf_section){ .sh_name = NAME_NAMES,
				     .sh_type = SHT_STRTAB,
				     .sh_offset = names,
				     .sh_size = sizeof(section_names),
				     .sh_addralign = 1 };
	header.e_phoff = header.e_phnum = header.e_phentsize = 0;
	header.e_ehsize = sizeof(header);
	header.e_shoff = headers;
	header.e_shnum = ARRAY_SIZE(sections);
	header.e_shentsize = sizeof(sections[0]);
	header.e_shstrndx = 2;
	reader->bytes = calloc(1, headers + sizeof(sections));
	if (!reader->bytes)
		return false;
	memcpy(reader->bytes, &header, sizeof(header));
	memcpy(reader->bytes + sizeof(header), section->bytes.data, section->bytes.size);
	memcpy(reader->bytes + names, section_names, sizeof(section_names));
	memcpy(reader->bytes + headers, sections, sizeof(sections));
	reader->elf = elf_memory((char *)reader->bytes, headers + sizeof(sections));
	return reader->elf != NULL;
}

/* dwarf_begin_elf() has decompressed the section. */
static bool take_decompressed(struct reader *reader)
{
	Elf_Scn *section = elf_getscn(reader->elf, 1);
	const Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;

	if (!data || !data->d_buf)
		return false;
	reader->section.bytes = (struct elf_bytes){ data->d_buf, data->d_size };
	return true;
}

static bool open_section(struct reader *reader)
{
	if (!make_file(reader))
		return false;
	if (!reader->section.is_debug) {
		reader->cfi = dwarf_getcfi_elf(reader->elf);
		return reader->cfi != NULL;
	}
	reader->dwarf = dwarf_begin_elf(reader->elf, DWARF_C_READ, NULL);
	reader->cfi = reader->dwarf ? dwarf_getcfi(reader->dwarf) : NULL;
	return reader->cfi && take_decompressed(reader);
}

static void close_section(struct reader *reader)
{
	if (reader->cfi && !reader->dwarf)
		(void)dwarf_cfi_end(reader->cfi);
	if (reader->dwarf)
		(void)dwarf_end(reader->dwarf);
	if (reader->elf)
		(void)elf_end(reader->elf);
	free(reader->bytes);
}

static int add_section(struct reader reader, bool is_debug)
{
	_cleanup_(close_section) struct reader own = reader;

	if (!unwind_section_find(own.image, is_debug, &own.section) || !open_section(&own))
		return -ENODATA;
	return add_functions(&own);
}

int frame_rules_add(struct frame_builder *builder, const struct elf_image *image)
{
	struct reader reader = {
		.image = image,
		.builder = builder,
		/* Go keeps frame pointers on all architectures that are known here; C code in the program may have
		 * none. */
		.flags = go_table_is_there(image) ? FRAME_POINTERS : 0,
	};
	int by_exceptions, others;

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].elf == image->header.e_machine)
			reader.machine = &machines[i];
	if (!reader.machine || elf_version(EV_CURRENT) == EV_NONE)
		return -ENODATA;
	by_exceptions = add_section(reader, false);
	if (by_exceptions < 0 && by_exceptions != -ENODATA)
		return by_exceptions;
	/* The table of Go's runtime says as much as Go's .debug_frame, is in stripped programs too, and tells where
	 * stacks of threads end. */
	others = go_rules_add(builder, image);
	if (others == -ENODATA)
		others = add_section(reader, true);
	return others == -ENODATA ? by_exceptions : others;
}
