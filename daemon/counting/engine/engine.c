/* SPDX-License-Identifier: MIT */

#include "counting/engine/engine.h"

void engine_init(struct engine *engine, const struct engine_ops *ops, const struct engine_env *env)
{
	engine->ops = ops;
	engine->env = *env;
	plan_ref(env->plan);
}

void engine_release(struct engine *engine)
{
	engine->env.plan = plan_unref(engine->env.plan);
}

void engine_defer(struct engine *engine, bool defers)
{
	engine->defers = defers;
}

const char *engine_name_of(const struct set *set)
{
	return set->engine ? set->engine->name : NULL;
}

void engine_note_credited(struct plan *plan)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_sets; i++) {
			struct set *set = &plan->scope[scope].sets[i];

			set->credited = set->engine && set->engine->credits;
		}
}
