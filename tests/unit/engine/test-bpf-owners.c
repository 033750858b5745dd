/* SPDX-License-Identifier: MIT */

/* engine/bpf/slot-owners: slots are given, reserved and given back, and cgroups have the slot of an ancestor. */

#include "counting/engine/bpf/slot-owners.h"
#include "setup/loaded-bpf.h"

#include <bpf/bpf.h>
#include <sched.h>

/* Is it the next one that is given? */
static bool is_next(const struct bpf_kernel *kernel, uint32_t slot)
{
	uint32_t next;

	return bpf_map_lookup_elem(kernel->fds[BPF_FILE_VACANT], NULL, &next) == 0 && next == slot;
}

static void test_slots(_unused_ void **state)
{
	static const credit_word ancestors[] = { NO_CGROUP(2), 1 };
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM);
	uint32_t slot;

	assert_int_equal(slot_find(kernel, NO_CGROUP(1)), CREDIT_ROOT_SLOT);
	slot = slot_take(kernel, NO_CGROUP(1), ancestors, ARRAY_SIZE(ancestors));
	assert_int_not_equal(slot, CREDIT_ROOT_SLOT);
	assert_in_range(slot, 1, ROOM - 1);
	assert_int_equal(slot_find(kernel, NO_CGROUP(1)), slot);
	assert_int_equal(slot_at(kernel, slot)->id, NO_CGROUP(1));
	assert_int_equal(slot_at(kernel, slot)->nr_ancestors, 2);
	assert_memory_equal(slot_at(kernel, slot)->ancestors, ancestors, sizeof(ancestors));
	/* It has one already. */
	assert_int_equal(slot_take(kernel, NO_CGROUP(1), NULL, 0), slot);
	assert_int_equal(slot_at(kernel, slot)->nr_ancestors, 2);

	slot_forget(kernel, NO_CGROUP(1));
	assert_int_equal(slot_find(kernel, NO_CGROUP(1)), CREDIT_ROOT_SLOT);
	/* The slot is not free yet: programs may use it. */
	assert_int_equal(slot_at(kernel, slot)->id, NO_CGROUP(1));
	slot_free(kernel, slot);
	/* Then it may be that of a cgroup of the machine at once. */
	assert_true(slot_at(kernel, slot)->nr_ancestors == 0 || !is_next(kernel, slot));
	assert_null(slot_known(kernel, slot)->unclaimed);
}

/* Takes all slots that there are; the last one. */
static uint32_t take_all(struct bpf_kernel *kernel, uint64_t id)
{
	uint32_t slot, last = CREDIT_ROOT_SLOT;

	for (;;) {
		slot = slot_take(kernel, id++, NULL, 0);
		if (slot == CREDIT_ROOT_SLOT)
			return last;
		last = slot;
	}
}

static void test_too_few_slots(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *none = load(1);
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM);
	uint32_t slot;

	assert_int_equal(slot_take(none, NO_CGROUP(1), NULL, 0), CREDIT_ROOT_SLOT);
	assert_int_equal(slot_find(none, NO_CGROUP(1)), CREDIT_ROOT_SLOT);
	assert_true(bpf_kernel_flush(none, 0));
	assert_int_equal(none->cpus[0].slot, CREDIT_ROOT_SLOT);

	slot = take_all(kernel, NO_CGROUP(0));
	assert_int_not_equal(slot, CREDIT_ROOT_SLOT);
	for (uint32_t i = 0; i < ROOM; i++)
		assert_int_not_equal(slot_at(kernel, i)->id, 0);
	/* One that is free goes to the next one, be it a cgroup of the machine. */
	slot_forget(kernel, slot_at(kernel, slot)->id);
	slot_free(kernel, slot);
	(void)take_all(kernel, NO_CGROUP(ROOM));
	assert_int_not_equal(slot_at(kernel, slot)->id, 0);
}

static size_t take_all_that_are_free(const struct bpf_kernel *kernel)
{
	size_t nr = 0;
	uint32_t slot;

	while (bpf_map_lookup_and_delete_elem(kernel->fds[BPF_FILE_VACANT], NULL, &slot) == 0)
		nr++;
	return nr;
}

/* Reserved slots are not the programs'. */
static void test_reserved(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(8);
	uint32_t slots[5];

	assert_int_equal(slot_supply(kernel, 1, ARRAY_SIZE(slots)), 0);
	assert_int_equal(take_all_that_are_free(kernel), 8 - 1 - ARRAY_SIZE(slots));
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		slots[i] = slot_take(kernel, NO_CGROUP(i), NULL, 0);
		assert_in_range(slots[i], 1, 7);
		/* Once. */
		assert_int_equal(slot_take(kernel, NO_CGROUP(i), NULL, 0), slots[i]);
	}
	assert_int_equal(slot_take(kernel, NO_CGROUP(9), NULL, 0), CREDIT_ROOT_SLOT);
	assert_int_equal(kernel->config->nr_reserved, 0);

	/* Of three that become free, two are reserved. */
	for (size_t i = 0; i < 3; i++) {
		assert_true(slot_forget(kernel, NO_CGROUP(i)));
		slot_free(kernel, slots[i]);
	}
	assert_int_equal(slot_supply(kernel, 1, 2), 0);
	assert_int_equal(kernel->config->nr_reserved, 2);
	assert_int_equal(take_all_that_are_free(kernel), 1);
	assert_int_equal(slot_supply(kernel, 1, 3), 0);
	assert_int_equal(kernel->config->nr_reserved, 2);
	assert_int_equal(slot_supply(kernel, 1, 1), 0);
	assert_int_equal(kernel->config->nr_reserved, 1);
	assert_int_equal(take_all_that_are_free(kernel), 1);
	assert_int_not_equal(slot_take(kernel, NO_CGROUP(9), NULL, 0), CREDIT_ROOT_SLOT);
	assert_int_equal(slot_take(kernel, NO_CGROUP(8), NULL, 0), CREDIT_ROOT_SLOT);
}

/* The slot that the programs find for the cgroup of this process. */
static uint32_t own_slot(struct bpf_kernel *kernel)
{
	assert_true(bpf_kernel_flush(kernel, 0));
	return (uint32_t)kernel->cpus[0].slot;
}

/* Of the process's own cgroup, since programs are what looks for aliases. */
static void test_aliases(_unused_ void **state)
{
	_cleanup_(bpf_kernel_unrefp) struct bpf_kernel *kernel = load(ROOM);
	uint32_t parent = slot_take(kernel, NO_CGROUP(1), NULL, 0), first, second;
	uint32_t other = slot_take(kernel, NO_CGROUP(2), NULL, 0);
	uint64_t id;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	assert_int_equal(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	first = own_slot(kernel);
	id = kernel->cpus[0].cgroup;
	assert_int_equal(slot_find(kernel, id), first);

	assert_true(slot_alias(kernel, id, parent));
	/* No slot of its own any more. */
	assert_int_equal(slot_find(kernel, id), CREDIT_ROOT_SLOT);
	assert_int_equal(own_slot(kernel), parent);
	slot_end_aliases(kernel, other);
	assert_int_equal(own_slot(kernel), parent);
	slot_end_aliases(kernel, parent);
	second = own_slot(kernel);
	assert_int_not_equal(second, parent);
	assert_int_equal(slot_find(kernel, id), second);
	assert_int_equal(slot_find(kernel, NO_CGROUP(1)), parent);

	/* Another time, and of the slot's next generation. */
	assert_true(slot_alias(kernel, id, parent));
	assert_int_equal(own_slot(kernel), parent);
	/* It is forgotten, as it is when the cgroup becomes a target. */
	slot_unalias(kernel, id);
	assert_int_not_equal(own_slot(kernel), parent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_too_few_slots),
		cmocka_unit_test(test_reserved),
		cmocka_unit_test(test_aliases),
	};

	return cmocka_run_group_tests_name("bpf-owners", tests, NULL, NULL);
}
