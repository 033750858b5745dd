/* SPDX-License-Identifier: MIT */

#include "engine/engine.h"

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
