/* SPDX-License-Identifier: MIT */

#include "profiler/stack/unwind.h"

#include <string.h>

/* Bit 55 tells the kernel's half from the processes'; a signature is in the bits above 48 (Arm ARM, "Pointer
 * authentication"). */
#define ARM64_ADDRESS_BITS 48

/* The usual limit of a stack: most are not larger. */
#define STACK_BYTES ((uint64_t)8 << 20)

/* An architecture. Registers have DWARF's numbers. */
struct machine {
	uint8_t stack, frame, back; /* registers: the stack pointer, the frame pointer, the return address */
	bool may_stand;		    /* a function that calls no other may have nothing on the stack */
	bool is_signed;
	bool has_beginnings; /* glibc's contexts return to the beginning of a function */
	/* Where registers are in the signal frame, in words from the stack pointer of its trampoline on; 0: not there.
	 * x86-64: struct ucontext (asm/ucontext.h). arm64: siginfo_t, and then struct ucontext. */
	uint8_t saved[FRAME_REGISTERS];
	uint8_t saved_address;
};

static const struct machine machines[] = {
	[UNWIND_X86_64] = { .stack = 7,
			    .frame = 6,
			    .back = 16,
			    .saved = { 18, 17, 19, 16, 14, 13, 15, 20, 5, 6, 7, 8, 9, 10, 11, 12 },
			    .saved_address = 21 },
	[UNWIND_ARM64] = { .stack = 31,
			   .frame = 29,
			   .back = 30,
			   .may_stand = true,
			   .is_signed = true,
			   .has_beginnings = true,
			   .saved = { 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54,
				      55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70 },
			   .saved_address = 71 },
};

struct walk {
	const struct machine *machine;
	const struct unwind_copy *copy;
	struct unwind_registers now;
	bool is_return;
	bool is_beginning; /* a function returned to the beginning of this one, which nothing has called */
	bool is_elsewhere; /* a signal has interrupted code on another stack */
};

/* A step to the caller: it is known, or how the stack ends there. */
enum step {
	STEP_ON,
	STEP_WHOLE,
	STEP_CUT,
	STEP_LOST,
};

static bool is_known(const struct unwind_registers *registers, unsigned number)
{
	return registers->known >> number & 1;
}

static void set_register(struct unwind_registers *registers, unsigned number, uint64_t value)
{
	registers->values[number] = value;
	registers->known |= UINT64_C(1) << number;
}

static void forget_register(struct unwind_registers *registers, unsigned number)
{
	registers->known &= ~(UINT64_C(1) << number);
}

/* A word of the copy. */
static enum step read_word(const struct unwind_copy *copy, uint64_t address, uint64_t *ret)
{
	if (address < copy->start)
		return STEP_LOST;
	if (copy->size < sizeof(*ret) || address - copy->start > copy->size - sizeof(*ret))
		return STEP_CUT;
	memcpy(ret, copy->bytes + (address - copy->start), sizeof(*ret));
	return STEP_ON;
}

static bool is_in_copy(const struct unwind_copy *copy, uint64_t address)
{
	return address >= copy->start && address - copy->start <= copy->size;
}

/* --- by a rule */

static enum step find_cfa(const struct walk *walk, const struct frame_rule *rule, uint64_t *ret)
{
	const struct unwind_registers *now = &walk->now;
	unsigned reg = rule->kind == FRAME_PLT ? walk->machine->stack : rule->reg;
	uint64_t value = now->values[reg];
	enum step step;

	if (!is_known(now, reg))
		return STEP_LOST;
	if (rule->kind == FRAME_PLT) {
		*ret = value + 8 + ((int64_t)(now->address & 15) >= rule->offset ? 8 : 0);
		return STEP_ON;
	}
	value += (uint64_t)(int64_t)rule->offset;
	if (rule->kind == FRAME_CFA_LOADED && (step = read_word(walk->copy, value, &value)) != STEP_ON)
		return step;
	*ret = value + (uint64_t)(int64_t)rule->added;
	return STEP_ON;
}

static enum step restore_register(const struct walk *walk, const struct frame_rule *rule, uint64_t cfa, unsigned number,
				  struct unwind_registers *caller)
{
	bool from_base = rule->from_base >> number & 1;
	uint64_t base = from_base ? walk->now.values[rule->base] : cfa, value;
	int16_t saved = rule->saved[number];
	enum step step = STEP_LOST;

	if (saved == FRAME_SAME)
		return STEP_ON;
	if (saved == FRAME_UNDEFINED) {
		forget_register(caller, number);
		return STEP_LOST;
	}
	if (saved < FRAME_SAVED_MIN) {
		unsigned other = (unsigned)(saved - FRAME_REGISTER_0);

		value = walk->now.values[other];
		step = is_known(&walk->now, other) ? STEP_ON : STEP_LOST;
	} else if (!from_base || is_known(&walk->now, rule->base)) {
		step = read_word(walk->copy, base + (uint64_t)(saved * INT64_C(8)), &value);
	}
	if (step == STEP_ON)
		set_register(caller, number, value);
	else
		forget_register(caller, number);
	return step;
}

/* Makes the caller the current frame; it goes on at `address`. The stack ends if the address is 0, and if a function
 * would return to its own beginning: on arm64 the rule of glibc's __startcontext(), to which the function of
 * makecontext(3) returns, makes it its own caller. */
static enum step go_to(struct walk *walk, const struct unwind_registers *caller, uint64_t address, bool is_return)
{
	const struct machine *machine = walk->machine;

	if (machine->is_signed && !(address >> 55 & 1))
		address &= (UINT64_C(1) << ARM64_ADDRESS_BITS) - 1;
	if (!address || (walk->is_beginning && is_return && address == walk->now.address))
		return STEP_WHOLE;
	walk->now = *caller;
	walk->now.address = address;
	walk->is_return = is_return;
	if (!is_return)
		walk->is_elsewhere = !is_in_copy(walk->copy, caller->values[machine->stack]);
	return STEP_ON;
}

/* The stack pointer of the caller has to be higher. After a signal it may be on another stack. */
static bool moves_up(const struct walk *walk, uint64_t stack, bool is_signal)
{
	uint64_t before = walk->now.values[walk->machine->stack];

	if (!is_known(&walk->now, walk->machine->stack) || stack % 8)
		return false;
	return stack > before || is_signal || (stack == before && walk->machine->may_stand && !walk->is_return);
}

/* All registers that the kernel has saved, at once. */
static enum step step_by_signal_frame(struct walk *walk)
{
	const struct machine *machine = walk->machine;
	struct unwind_registers caller = { .machine = walk->now.machine };
	uint64_t frame = walk->now.values[machine->stack], value;
	enum step step;

	if (!is_known(&walk->now, machine->stack))
		return STEP_LOST;
	for (unsigned i = 0; i < FRAME_REGISTERS; i++) {
		step = machine->saved[i] ? read_word(walk->copy, frame + machine->saved[i] * 8U, &value) : STEP_LOST;
		if (step == STEP_ON)
			set_register(&caller, i, value);
	}
	step = read_word(walk->copy, frame + machine->saved_address * 8U, &value);
	if (step == STEP_ON && caller.values[machine->stack] % 8)
		step = STEP_LOST;
	return step == STEP_ON ? go_to(walk, &caller, value, false) : step;
}

static enum step step_by_rule(struct walk *walk, const struct frame_rule *rule)
{
	const struct machine *machine = walk->machine;
	struct unwind_registers caller = walk->now;
	bool is_signal = rule->flags & FRAME_SIGNAL;
	enum step step;
	uint64_t cfa;

	if (rule->kind == FRAME_OUTERMOST)
		return STEP_WHOLE;
	if (rule->kind == FRAME_SIGRETURN)
		return step_by_signal_frame(walk);
	step = find_cfa(walk, rule, &cfa);
	if (step != STEP_ON)
		return step;
	if (!moves_up(walk, cfa, is_signal))
		return STEP_LOST;
	for (unsigned i = 0; i < FRAME_REGISTERS; i++) {
		enum step restored = restore_register(walk, rule, cfa, i, &caller);

		if (i == machine->back)
			step = restored;
	}
	if (step == STEP_ON && !is_known(&caller, machine->back))
		step = STEP_LOST;
	if (step != STEP_ON)
		return step;
	if (rule->saved[machine->stack] == FRAME_SAME)
		set_register(&caller, machine->stack, cfa);
	return go_to(walk, &caller, caller.values[machine->back], !is_signal);
}

/* --- by the frame pointer */

/* Does the frame pointer lead to a part of this stack that is not copied? Or to another stack, as in Go's code that
 * runs on the stack of its thread? Code without rules may have anything in the register, as an address of the heap. */
static bool leads_out(const struct walk *walk, bool keeps_pointers)
{
	uint64_t at = walk->now.values[walk->machine->frame], end = walk->copy->start + walk->copy->size;

	if (!is_known(&walk->now, walk->machine->frame) || !at || at % 8 || is_in_copy(walk->copy, at))
		return false;
	return keeps_pointers || (at > end && at - end < STACK_BYTES);
}

/* The frame pointer points to the caller's frame pointer, and the return address follows. Other registers of the caller
 * are not known. */
static enum step step_by_frame_pointer(struct walk *walk)
{
	const struct machine *machine = walk->machine;
	uint64_t stack = walk->now.values[machine->stack], at = walk->now.values[machine->frame], next, back;
	struct unwind_registers caller = { .machine = walk->now.machine };
	enum step step;

	if (leads_out(walk, false))
		return STEP_CUT;
	if (!is_known(&walk->now, machine->stack) || !is_known(&walk->now, machine->frame) || at < stack || at % 8)
		return STEP_LOST;
	step = read_word(walk->copy, at, &next);
	if (step == STEP_ON)
		step = read_word(walk->copy, at + 8, &back);
	if (step != STEP_ON)
		return step;
	set_register(&caller, machine->stack, at + 16);
	set_register(&caller, machine->frame, next);
	return go_to(walk, &caller, back, true);
}

/* --- all of it */

/* The call is before a return address. If there is a rule at the address, but none before it, nothing was called: the
 * address is the beginning of a function, which was put there as the place to return to (Go's systemstack_switch();
 * arm64's start of a context). */
static enum unwind_code look_up(struct walk *walk, unwind_find find, void *userdata, const struct frame_rule **ret)
{
	enum unwind_code code = find(userdata, walk->now.address - (walk->is_return ? 1 : 0), ret), beginning;

	walk->is_beginning = false;
	if (code != UNWIND_NO_RULE || !walk->is_return)
		return code;
	beginning = find(userdata, walk->now.address, ret);
	/* Other code without rules may end in a call that does not return, and the next function of C follows it. */
	walk->is_beginning = beginning == UNWIND_RULE &&
			     ((*ret)->flags & FRAME_POINTERS || walk->machine->has_beginnings);
	walk->is_return = !walk->is_beginning;
	return walk->is_return ? code : beginning;
}

/* Writes the frame, and steps to its caller. */
static enum step take_frame(struct walk *walk, struct unwind_frame *frame, const struct frame_rule *rule)
{
	bool keeps_pointers = rule && rule->flags & FRAME_POINTERS;
	/* A signal handler returns to the first byte of a trampoline. */
	bool is_call = walk->is_return && !(rule && rule->kind == FRAME_SIGRETURN);
	enum step step;

	*frame = (struct unwind_frame){ .address = walk->now.address, .is_return = is_call };
	if (walk->is_elsewhere)
		return STEP_CUT;
	if ((!rule || keeps_pointers) && leads_out(walk, keeps_pointers))
		frame->pointer = walk->now.values[walk->machine->frame];
	step = rule ? step_by_rule(walk, rule) : step_by_frame_pointer(walk);
	return step == STEP_LOST && frame->pointer ? STEP_CUT : step;
}

enum stack_end unwind(const struct unwind_registers *registers, const struct unwind_copy *copy, unwind_find find,
		      void *userdata, struct unwind_frame frames[static UNWIND_FRAMES_MAX], size_t *ret_nr)
{
	struct walk walk = { .machine = &machines[registers->machine], .copy = copy, .now = *registers };
	bool by_rule = true; /* the last step was by a rule, so that its address is believed */

	for (*ret_nr = 0; *ret_nr < UNWIND_FRAMES_MAX;) {
		const struct frame_rule *rule = NULL;
		enum unwind_code code = look_up(&walk, find, userdata, &rule);
		enum step step;

		if (code == UNWIND_NO_CODE && *ret_nr && frames[*ret_nr - 1].pointer)
			return STACK_CUT;
		if (code == UNWIND_NO_CODE && *ret_nr)
			return by_rule ? STACK_LOST : STACK_NO_TABLE;
		by_rule = code == UNWIND_RULE;
		step = take_frame(&walk, &frames[(*ret_nr)++], by_rule ? rule : NULL);
		if (code == UNWIND_NO_CODE)
			return STACK_LOST;
		if (step == STEP_WHOLE)
			return STACK_WHOLE;
		if (step == STEP_CUT)
			return STACK_CUT;
		if (step == STEP_LOST)
			return by_rule ? STACK_LOST : STACK_NO_TABLE;
	}
	return STACK_CUT;
}

bool unwind_pointers(const struct unwind_registers *registers, const struct unwind_copy *copy, uint64_t pointer,
		     size_t *ret)
{
	unsigned frame = machines[registers->machine].frame;
	uint64_t at = registers->values[frame];

	for (*ret = 0; pointer && is_known(registers, frame) && *ret < UNWIND_FRAMES_MAX; (*ret)++) {
		if (at == pointer)
			return true;
		if (read_word(copy, at, &at) != STEP_ON)
			return false;
	}
	return false;
}
