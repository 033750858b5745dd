/* SPDX-License-Identifier: MIT */

#include "base/elf/elf-image.h"

#include <string.h>
#include <sys/auxv.h>

typedef ElfW(Nhdr) elf_note;

#define NATIVE_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define NATIVE_DATA (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

/* A bound of the work on a hostile file. */
#define HEADERS_MAX 4096U

bool elf_image_read(const struct elf_image *image, uint64_t offset, void *ret, size_t n)
{
	if (offset > image->bytes.size || n > image->bytes.size - offset)
		return false;
	memcpy(ret, image->bytes.data + offset, n);
	return true;
}

bool elf_image_open(struct elf_image *ret, struct elf_bytes bytes)
{
	*ret = (struct elf_image){ .bytes = bytes };
	return elf_image_read(ret, 0, &ret->header, sizeof(ret->header)) &&
	       memcmp(ret->header.e_ident, ELFMAG, SELFMAG) == 0 && ret->header.e_ident[EI_CLASS] == NATIVE_CLASS &&
	       ret->header.e_ident[EI_DATA] == NATIVE_DATA &&
	       (ret->header.e_type == ET_EXEC || ret->header.e_type == ET_DYN);
}

bool elf_image_segment(const struct elf_image *image, unsigned i, elf_segment *ret)
{
	return i < image->header.e_phnum && i < HEADERS_MAX && image->header.e_phentsize == sizeof(*ret) &&
	       elf_image_read(image, (uint64_t)image->header.e_phoff + (uint64_t)i * sizeof(*ret), ret, sizeof(*ret));
}

bool elf_image_section(const struct elf_image *image, unsigned i, elf_section *ret)
{
	return i < image->header.e_shnum && i < HEADERS_MAX && image->header.e_shentsize == sizeof(*ret) &&
	       elf_image_read(image, (uint64_t)image->header.e_shoff + (uint64_t)i * sizeof(*ret), ret, sizeof(*ret));
}

/* The kernel maps whole pages. */
struct elf_bytes elf_vdso(void)
{
	uintptr_t at = getauxval(AT_SYSINFO_EHDR), page = getauxval(AT_PAGESZ);
	struct elf_image image;
	elf_segment segment;
	uint64_t size = 0;

	if (!at || !page || !elf_image_open(&image, (struct elf_bytes){ (const unsigned char *)at, page }))
		return (struct elf_bytes){};
	for (unsigned i = 0; elf_image_segment(&image, i, &segment); i++)
		if (segment.p_type == PT_LOAD && segment.p_offset + segment.p_filesz > size)
			size = segment.p_offset + segment.p_filesz;
	return (struct elf_bytes){ (const unsigned char *)at, (size + page - 1) & ~(page - 1) };
}

/* Is there this text, with its NUL, at an offset of a section? */
static bool has_text(const struct elf_image *image, const elf_section *section, uint64_t at, const char *text)
{
	size_t size = strlen(text) + 1;

	return at <= section->sh_size && size <= section->sh_size - at && section->sh_offset <= image->bytes.size &&
	       at <= image->bytes.size - section->sh_offset && size <= image->bytes.size - section->sh_offset - at &&
	       memcmp(image->bytes.data + section->sh_offset + at, text, size) == 0;
}

bool elf_image_find_section(const struct elf_image *image, const char *name, elf_section *ret)
{
	elf_section names, section;

	if (!elf_image_section(image, image->header.e_shstrndx, &names))
		return false;
	for (unsigned i = 0; elf_image_section(image, i, &section); i++) {
		if (section.sh_type == SHT_NOBITS || !has_text(image, &names, section.sh_name, name) ||
		    section.sh_offset > image->bytes.size || section.sh_size > image->bytes.size - section.sh_offset)
			continue;
		*ret = section;
		return true;
	}
	return false;
}

bool elf_image_find(const struct elf_image *image, const char *name, struct elf_bytes *ret)
{
	elf_section section;

	if (!elf_image_find_section(image, name, &section))
		return false;
	*ret = (struct elf_bytes){ image->bytes.data + section.sh_offset, (size_t)section.sh_size };
	return true;
}

bool elf_image_address(const struct elf_image *image, uint64_t offset, uint64_t *ret)
{
	elf_segment segment;

	for (unsigned i = 0; elf_image_segment(image, i, &segment); i++) {
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || offset < segment.p_offset ||
		    offset - segment.p_offset >= segment.p_filesz)
			continue;
		*ret = segment.p_vaddr + (offset - segment.p_offset);
		return true;
	}
	return false;
}

bool elf_image_offset(const struct elf_image *image, uint64_t address, uint64_t *ret)
{
	elf_segment segment;

	for (unsigned i = 0; elf_image_segment(image, i, &segment); i++) {
		if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
		    address - segment.p_vaddr >= segment.p_filesz)
			continue;
		*ret = segment.p_offset + (address - segment.p_vaddr);
		return true;
	}
	return false;
}

/* --- the build id, in a note */

static uint64_t align_note(uint64_t n)
{
	return (n + 3) & ~UINT64_C(3);
}

static size_t find_in_notes(const struct elf_image *image, const elf_segment *segment,
			    unsigned char ret[static MODULE_BUILD_ID_MAX])
{
	uint64_t at = segment->p_offset, left = segment->p_filesz;
	elf_note note;

	while (left >= sizeof(note) && elf_image_read(image, at, &note, sizeof(note))) {
		uint64_t name = at + sizeof(note), desc = name + align_note(note.n_namesz);
		uint64_t whole = sizeof(note) + align_note(note.n_namesz) + align_note(note.n_descsz);
		char owner[4];

		if (whole > left)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(owner) && note.n_descsz > 0 &&
		    note.n_descsz <= MODULE_BUILD_ID_MAX && elf_image_read(image, name, owner, sizeof(owner)) &&
		    memcmp(owner, "GNU", sizeof(owner)) == 0 && elf_image_read(image, desc, ret, note.n_descsz))
			return note.n_descsz;
		at += whole;
		left -= whole;
	}
	return 0;
}

/* A file of debug symbols keeps the segment's header, which may lead nowhere, and the section of the note. */
static bool note_segment(const struct elf_image *image, unsigned i, elf_segment *ret)
{
	elf_section section;

	if (elf_image_segment(image, i, ret))
		return true;
	if (i < image->header.e_phnum || !elf_image_section(image, i - image->header.e_phnum, &section))
		return false;
	*ret = (elf_segment){ .p_offset = section.sh_offset, .p_filesz = section.sh_size };
	ret->p_type = section.sh_type == SHT_NOTE ? PT_NOTE : PT_NULL;
	return true;
}

size_t elf_image_build_id(const struct elf_image *image, unsigned char ret[static MODULE_BUILD_ID_MAX])
{
	elf_segment segment;

	for (unsigned i = 0; note_segment(image, i, &segment); i++) {
		size_t size = segment.p_type == PT_NOTE ? find_in_notes(image, &segment, ret) : 0;

		if (size)
			return size;
	}
	return 0;
}

/* --- the debug link: a name with its NUL, padding to a multiple of 4, and the CRC */

bool elf_image_debug_link(const struct elf_image *image, const char **ret, uint32_t *ret_crc)
{
	struct elf_bytes link;
	const unsigned char *end;
	size_t at;

	if (!elf_image_find(image, ".gnu_debuglink", &link))
		return false;
	end = memchr(link.data, '\0', link.size);
	if (!end || end == link.data || memchr(link.data, '/', (size_t)(end - link.data)))
		return false;
	at = ((size_t)(end - link.data) + 1 + 3) & ~(size_t)3;
	if (at > link.size || link.size - at < sizeof(*ret_crc))
		return false;
	memcpy(ret_crc, link.data + at, sizeof(*ret_crc));
	*ret = (const char *)link.data;
	return true;
}
