/* SPDX-License-Identifier: MIT */

#include "profiler/naming/unwind-table.h"

#include <string.h>

/* Encodings of pointers, as of the LSB: a format, and the base of the value. */
#define PTR_ABSOLUTE 0x00
#define PTR_ULEB128 0x01
#define PTR_UDATA2 0x02
#define PTR_UDATA4 0x03
#define PTR_UDATA8 0x04
#define PTR_SLEB128 0x09
#define PTR_SDATA2 0x0a
#define PTR_SDATA4 0x0b
#define PTR_SDATA8 0x0c
#define PTR_FORMAT 0x0f
#define PTR_PC_RELATIVE 0x10
#define PTR_DATA_RELATIVE 0x30
#define PTR_RELATIVE 0x70
#define PTR_INDIRECT 0x80
#define PTR_NONE 0xff

/* All linkers write the table so: an entry has two numbers of 4 bytes, relative to the header. */
#define TABLE_ENCODING (PTR_DATA_RELATIVE | PTR_SDATA4)
#define TABLE_ENTRY 8

/* Bytes of a CIE's augmentation that are looked at. */
#define AUGMENTATION_MAX 16

/* Reads on from an offset of the file. */
struct cursor {
	const struct elf_image *image;
	uint64_t at;
	bool failed;
};

static uint64_t read_number(struct cursor *cursor, size_t size)
{
	uint64_t number = 0;
	unsigned char bytes[sizeof(number)] = {};

	if (!elf_image_read(cursor->image, cursor->at, bytes, size)) {
		cursor->failed = true;
		return 0;
	}
	cursor->at += size;
	for (size_t i = 0; i < size; i++)
		number |= (uint64_t)bytes[__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? i : size - 1 - i] << 8 * i;
	return number;
}

static uint64_t read_signed(struct cursor *cursor, size_t size)
{
	uint64_t number = read_number(cursor, size), sign = UINT64_C(1) << (8 * size - 1);

	return (number ^ sign) - sign;
}

/* A number of at most ten bytes, as unsigned: no caller needs a sign. */
static uint64_t read_leb128(struct cursor *cursor)
{
	uint64_t number = 0;

	for (unsigned shift = 0; shift < 70 && !cursor->failed; shift += 7) {
		uint64_t byte = read_number(cursor, 1);

		if (shift < 64)
			number |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return number;
	}
	cursor->failed = true;
	return 0;
}

/* A number in a pointer's format, without its base. */
static uint64_t read_format(struct cursor *cursor, unsigned encoding)
{
	switch (encoding & PTR_FORMAT) {
	case PTR_ABSOLUTE:
		return read_number(cursor, sizeof(void *));
	case PTR_UDATA2:
		return read_number(cursor, 2);
	case PTR_UDATA4:
		return read_number(cursor, 4);
	case PTR_UDATA8:
	case PTR_SDATA8:
		return read_number(cursor, 8);
	case PTR_SDATA2:
		return read_signed(cursor, 2);
	case PTR_SDATA4:
		return read_signed(cursor, 4);
	case PTR_ULEB128:
		return read_leb128(cursor);
	default:
		cursor->failed = true;
		return 0;
	}
}

/* base: the address of the image's offset 0; data: the base of PTR_DATA_RELATIVE. */
static uint64_t read_pointer(struct cursor *cursor, unsigned encoding, uint64_t base, uint64_t data)
{
	uint64_t here = base + cursor->at, value = read_format(cursor, encoding);

	switch (encoding & (PTR_RELATIVE | PTR_INDIRECT)) {
	case PTR_ABSOLUTE:
		return value;
	case PTR_PC_RELATIVE:
		return here + value;
	case PTR_DATA_RELATIVE:
		return data + value;
	default:
		cursor->failed = true;
		return 0;
	}
}

/* --- a function's entry (FDE), and the part that it shares with others (CIE) */

/* The length of the rest of a record. is_wide: it is a number of 64 bits. */
static uint64_t read_length(struct cursor *cursor, bool *ret_is_wide)
{
	uint64_t length = read_number(cursor, 4);

	*ret_is_wide = length == UINT32_MAX;
	if (*ret_is_wide)
		length = read_number(cursor, 8);
	cursor->failed |= length == 0 || length > cursor->image->bytes.size;
	return length;
}

static void skip_in_augmentation(struct cursor *cursor, char what, unsigned *encoding)
{
	switch (what) {
	case 'R':
		*encoding = (unsigned)read_number(cursor, 1);
		break;
	case 'P': {
		unsigned of_personality = (unsigned)read_number(cursor, 1);

		(void)read_format(cursor, of_personality);
		break;
	}
	case 'L':
		(void)read_number(cursor, 1);
		break;
	case 'S': /* of signals */
	case 'B': /* of signed return addresses */
	case 'G': /* of tagged memory */
		break;
	default:
		cursor->failed = true;
		break;
	}
}

/* The id of a record is 0 in a CIE of .eh_frame, and all ones in one of .debug_frame. */
static uint64_t read_id(struct cursor *cursor, bool is_debug, bool is_wide)
{
	uint64_t id = read_number(cursor, is_debug && is_wide ? 8 : 4);

	return is_debug && id == (is_wide ? UINT64_MAX : UINT32_MAX) ? 0 : id + is_debug;
}

/* The encoding of pointers to code, by the CIE at an offset. False: the CIE is malformed, or not understood. */
static bool read_cie(const struct elf_image *image, uint64_t at, bool is_debug, unsigned *ret)
{
	struct cursor cursor = { .image = image, .at = at };
	char augmentation[AUGMENTATION_MAX] = "";
	uint64_t id, version;
	size_t nr = 0;
	bool is_wide;

	(void)read_length(&cursor, &is_wide);
	id = read_id(&cursor, is_debug, is_wide);
	version = read_number(&cursor, 1);
	while (nr < sizeof(augmentation) && (augmentation[nr] = (char)read_number(&cursor, 1)))
		nr++;
	if (cursor.failed || id != 0 || (version != 1 && version != 3 && version != 4) || nr == sizeof(augmentation))
		return false;
	if (version == 4) {
		uint64_t address = read_number(&cursor, 1), segment = read_number(&cursor, 1);

		if (address != sizeof(void *) || segment != 0) /* sizes */
			return false;
	}
	(void)read_leb128(&cursor); /* the code's alignment */
	(void)read_leb128(&cursor); /* the data's */
	if (version == 1)
		(void)read_number(&cursor, 1); /* the register of the return address */
	else
		(void)read_leb128(&cursor);
	*ret = PTR_ABSOLUTE;
	if (augmentation[0] != 'z')
		return !cursor.failed && !augmentation[0];
	(void)read_leb128(&cursor);
	for (size_t i = 1; i < nr && !cursor.failed; i++)
		skip_in_augmentation(&cursor, augmentation[i], ret);
	return !cursor.failed;
}

/* The FDE at the cursor. base: the address of the image's offset 0. */
static bool read_fde(struct cursor cursor, bool is_debug, uint64_t base, uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t pointer, id;
	unsigned encoding;
	bool is_wide;

	(void)read_length(&cursor, &is_wide);
	pointer = cursor.at;
	id = read_id(&cursor, is_debug, is_wide);
	if (cursor.failed || id == 0 || (!is_debug && id > pointer) ||
	    !read_cie(cursor.image, is_debug ? id - 1 : pointer - id, is_debug, &encoding))
		return false;
	*ret_start = read_pointer(&cursor, encoding, base, 0);
	*ret_end = *ret_start + read_format(&cursor, encoding);
	return !cursor.failed && *ret_end > *ret_start;
}

bool unwind_section_next(const struct unwind_section *section, uint64_t *offset, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct elf_image image = { .bytes = section->bytes };
	bool is_wide;

	for (;;) {
		struct cursor record = { .image = &image, .at = *offset }, cursor = record;
		uint64_t length = read_length(&cursor, &is_wide);

		if (cursor.failed)
			return false;
		*offset = cursor.at + length;
		if (read_fde(record, section->is_debug, section->address, ret_start, ret_end))
			return true;
	}
}

/* --- the table, by address */

struct unwind_table {
	struct cursor cursor; /* at its first entry */
	uint64_t address;     /* of the header */
	uint64_t frames;      /* the address of .eh_frame */
	uint64_t nr;
};

static bool open_table(struct unwind_table *ret, const struct elf_image *image)
{
	struct cursor cursor = { .image = image };
	unsigned version, of_frame, of_count, of_table;
	elf_segment segment;
	unsigned i = 0;

	while (elf_image_segment(image, i, &segment) && segment.p_type != PT_GNU_EH_FRAME)
		i++;
	if (!elf_image_segment(image, i, &segment))
		return false;
	cursor.at = segment.p_offset;
	version = (unsigned)read_number(&cursor, 1);
	of_frame = (unsigned)read_number(&cursor, 1);
	of_count = (unsigned)read_number(&cursor, 1);
	of_table = (unsigned)read_number(&cursor, 1);
	if (cursor.failed || version != 1 || of_count == PTR_NONE || of_table != TABLE_ENCODING)
		return false;
	ret->address = segment.p_vaddr;
	ret->frames = of_frame == PTR_NONE ?
			      0 :
			      read_pointer(&cursor, of_frame, segment.p_vaddr - segment.p_offset, segment.p_vaddr);
	ret->nr = read_format(&cursor, of_count);
	ret->cursor = cursor;
	return !cursor.failed && ret->nr <= image->bytes.size / TABLE_ENTRY;
}

/* --- the section */

/* Without section headers: from the address in .eh_frame_hdr to the end of the file. */
static bool find_by_table(const struct elf_image *image, struct unwind_section *ret)
{
	struct unwind_table table;
	uint64_t offset;

	if (!open_table(&table, image) || !table.frames || !elf_image_offset(image, table.frames, &offset) ||
	    offset >= image->bytes.size)
		return false;
	*ret = (struct unwind_section){
		.bytes = { image->bytes.data + offset, image->bytes.size - (size_t)offset },
		.address = table.frames,
	};
	return true;
}

bool unwind_section_find(const struct elf_image *image, bool is_debug, struct unwind_section *ret)
{
	elf_section section;

	if (!elf_image_find_section(image, is_debug ? ".debug_frame" : ".eh_frame", &section))
		return !is_debug && find_by_table(image, ret);
	*ret = (struct unwind_section){
		.bytes = { image->bytes.data + section.sh_offset, (size_t)section.sh_size },
		.address = section.sh_addr,
		.flags = section.sh_flags,
		.is_debug = is_debug,
	};
	return true;
}
