/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/target.h"

#include <string.h>

struct bpf_target *bpf_target_find(const struct bpf_engine *engine, uint64_t id)
{
	struct bpf_target *target;

	HASH_FIND(hh, engine->targets, &id, sizeof(id), target);
	return target;
}

struct bpf_target *bpf_target_new(struct bpf_engine *engine, uint64_t id, struct totals_row *const *rows,
				  size_t nr_rows)
{
	size_t nr_sets = bpf_plan(engine)->nr_sets, size = sizeof(struct bpf_target);
	size_t sets_size = nr_sets * sizeof(struct bpf_target_set);
	struct bpf_target *target = calloc(1, size + nr_rows * sizeof(*rows) + sets_size);

	if (!target)
		return NULL;
	target->id = id;
	target->fed = id == CGROUP_ROOT_ID;
	target->rows = (struct totals_row **)((char *)target + size);
	target->nr_rows = nr_rows;
	memcpy(target->rows, rows, nr_rows * sizeof(*rows));
	target->sets = (struct bpf_target_set *)(target->rows + nr_rows);
	HASH_ADD(hh, engine->targets, id, sizeof(target->id), target);
	if (!target->hh.tbl) {
		free(target);
		return NULL;
	}
	bpf_note_targets(engine);
	bpf_note_given(engine, target);
	return target;
}

void bpf_target_free(struct bpf_engine *engine, struct bpf_target *target)
{
	HASH_DELETE(hh, engine->targets, target);
	if (target->given)
		DL_DELETE(engine->given, target);
	engine->nr_lacking -= target->lacks;
	bpf_note_targets(engine);
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		free(target->sets[i].pool);
	free(target);
}
