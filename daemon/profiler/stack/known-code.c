/* SPDX-License-Identifier: MIT */

#include "profiler/stack/known-code.h"

#include <string.h>

#define BYTES_MAX 10

/* Code to which a function returns that the code has not called. */
struct trampoline {
	unsigned elf; /* e_machine */
	enum frame_kind kind;
	unsigned char bytes[BYTES_MAX];
	uint8_t size;
	uint8_t align;
	/* The rule begins so many bytes before the code. It needs 1, since the address before a return address is
	 * looked up. On arm64 it needs 5: where stretches overlap, a place belongs to the one that begins first
	 * (frame-builder.h), and the vdso's own stretch begins 4 bytes before the code. */
	uint8_t before;
};

static const struct trampoline trampolines[] = {
	/* mov $15, %rax; syscall */
	{ EM_X86_64, FRAME_SIGRETURN, { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 9, 1, 1 },
	/* mov $15, %eax; syscall */
	{ EM_X86_64, FRAME_SIGRETURN, { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 7, 1, 1 },
	/* mov x8, #139; svc #0 */
	{ EM_AARCH64, FRAME_SIGRETURN, { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 }, 8, 4, 5 },
	/* mov %rbx, %rsp; mov (%rsp), %rdi; test %rdi, %rdi: glibc's __start_context() */
	{ EM_X86_64, FRAME_OUTERMOST, { 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff }, 10, 1, 1 },
};

static int add_trampoline(struct frame_builder *builder, const struct elf_image *image, const elf_segment *segment,
			  const struct trampoline *trampoline)
{
	const struct frame_rule rule = { .kind = (uint8_t)trampoline->kind };
	const unsigned char *start = image->bytes.data + segment->p_offset, *at = start;
	size_t size = segment->p_filesz;
	int r = 0;

	while (r == 0 && (at = memmem(at, size - (size_t)(at - start), trampoline->bytes, trampoline->size))) {
		uint64_t offset = (uint64_t)(at - image->bytes.data);

		if (offset % trampoline->align == 0 && offset >= trampoline->before)
			r = frame_builder_add(builder, offset - trampoline->before, offset + trampoline->size, &rule);
		at++;
	}
	return r;
}

static int add_trampolines(struct frame_builder *builder, const struct elf_image *image)
{
	elf_segment segment;
	int r = 0;

	for (unsigned i = 0; r == 0 && elf_image_segment(image, i, &segment); i++) {
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || segment.p_offset > image->bytes.size ||
		    segment.p_filesz > image->bytes.size - segment.p_offset)
			continue;
		for (size_t j = 0; r == 0 && j < ARRAY_SIZE(trampolines); j++)
			if (trampolines[j].elf == image->header.e_machine)
				r = add_trampoline(builder, image, &segment, &trampolines[j]);
	}
	return r;
}

/* --- the beginning of the dynamic linker */

#define ENTRY_MAX 128

/* Adds the code up to the jump to the program. On arm64 the file itself has a rule for it. */
static int add_entry(struct frame_builder *builder, const struct elf_image *image)
{
	/* mov %rsp, %rdi; call …; jmp *%r12 */
	static const unsigned char first[] = { 0x48, 0x89, 0xe7, 0xe8 }, last[] = { 0x41, 0xff, 0xe4 };
	const struct frame_rule rule = { .kind = FRAME_OUTERMOST };
	const unsigned char *start, *jump;
	uint64_t offset;
	size_t size;

	if (image->header.e_machine != EM_X86_64 || !elf_image_offset(image, image->header.e_entry, &offset) ||
	    offset >= image->bytes.size)
		return 0;
	start = image->bytes.data + offset;
	size = image->bytes.size - (size_t)offset;
	if (size > ENTRY_MAX)
		size = ENTRY_MAX;
	if (size < sizeof(first) || memcmp(start, first, sizeof(first)) != 0)
		return 0;
	jump = memmem(start, size, last, sizeof(last));
	return jump ? frame_builder_add(builder, offset, offset + (uint64_t)(jump - start) + sizeof(last), &rule) : 0;
}

/* --- stubs */

#define STUB_SIZE 16

/* All registers but the return address have the values of the caller. */
static struct frame_rule make_rule(enum frame_kind kind, uint8_t stack, int32_t offset)
{
	struct frame_rule rule = { .kind = (uint8_t)kind, .reg = stack, .offset = offset };

	for (size_t i = 0; i < FRAME_REGISTERS; i++)
		rule.saved[i] = FRAME_SAME;
	return rule;
}

/* False: it is the first stub, to which the other stubs jump. */
static bool rule_x86_64(const unsigned char *stub, struct frame_rule *ret)
{
	static const unsigned char push_module[] = { 0xff, 0x35 }, jump[] = { 0xff, 0x25 };
	static const unsigned char branch_push[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x68 };

	*ret = make_rule(FRAME_CFA, 7, 8);
	if (memcmp(stub, push_module, sizeof(push_module)) == 0)
		return false;
	if (memcmp(stub, jump, sizeof(jump)) == 0 && stub[6] == 0x68)
		*ret = make_rule(FRAME_PLT, 7, 11);
	else if (memcmp(stub, branch_push, sizeof(branch_push)) == 0)
		*ret = make_rule(FRAME_PLT, 7, 9);
	ret->saved[16] = -1;
	return true;
}

static bool rule_arm64(const unsigned char *stub, struct frame_rule *ret)
{
	static const unsigned char push_x16_x30[] = { 0xf0, 0x7b, 0xbf, 0xa9 };

	*ret = make_rule(FRAME_CFA, 31, 0);
	return memcmp(stub, push_x16_x30, sizeof(push_x16_x30)) != 0;
}

static int add_stubs(struct frame_builder *builder, const struct elf_image *image, const char *name)
{
	elf_section section;
	int r = 0;

	if (!elf_image_find_section(image, name, &section) || !(section.sh_flags & SHF_EXECINSTR))
		return 0;
	for (uint64_t at = 0; r == 0 && at < section.sh_size; at += STUB_SIZE) {
		uint64_t offset = section.sh_offset + at, left = section.sh_size - at;
		size_t size = left < STUB_SIZE ? (size_t)left : STUB_SIZE;
		unsigned char stub[STUB_SIZE] = {};
		struct frame_rule rule;

		memcpy(stub, image->bytes.data + offset, size);
		if (image->header.e_machine == EM_X86_64 ? rule_x86_64(stub, &rule) : rule_arm64(stub, &rule))
			r = frame_builder_add(builder, offset, offset + size, &rule);
	}
	return r;
}

int known_code_add(struct frame_builder *builder, const struct elf_image *image)
{
	static const char *const sections[] = { ".plt", ".plt.sec", ".plt.got", ".iplt" };
	int r;

	if (image->header.e_machine != EM_X86_64 && image->header.e_machine != EM_AARCH64)
		return 0;
	r = add_trampolines(builder, image);
	if (r == 0)
		r = add_entry(builder, image);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sections); i++)
		r = add_stubs(builder, image, sections[i]);
	return r;
}
