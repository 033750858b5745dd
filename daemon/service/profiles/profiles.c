/* SPDX-License-Identifier: MIT */

#include "service/profiles/profiles.h"

#include "base/util/clock.h"
#include "base/util/log-once.h"
#include "base/util/log.h"
#include "counting/alarm/capture-rules.h"
#include "service/profiles/captures-told.h"
#include "service/profiles/profile-counts.h"
#include "service/profiles/profile-settings.h"
#include "service/profiles/profiler-link.h"
#include "service/profiles/sent-orders.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* So long the first profiler may take to open its rings. */
#define START_NS (5 * (uint64_t)NS_PER_S)

/* Bytes of a state: far more than it takes. */
#define STATE_MAX ((size_t)1 << 20)

/* Bytes of the profiler's resident memory beside samples, captures and rings. Measured with 6,000 processes: 9 MiB. A
 * message of 64 MiB, and 16 MiB of messages that wait, can come on top for a while. */
#define MEMORY_ALLOWANCE ((uint64_t)128 << 20)

struct profiles {
	sd_event *loop; /* borrowed */
	struct world *world;
	struct profiler_link *link;
	struct async_close *closer;

	/* That the profiler was told. */
	struct profiler_settings settings;
	uint64_t made;	      /* the world's generation of these; 0: there are none */
	uint64_t generation;  /* the world's, with its settings; 0: none */
	uint64_t nr_settings; /* number of the message */
	uint64_t most_memory; /* bytes: the most that this profiler was given; freed memory may stay resident */
	bool knows_cgroups;
	bool has_new_tree; /* and does not know it */
	uint64_t sampled;  /* CLOCK_MONOTONIC ns: until when samples were taken; 0: none were, or nobody misses them */

	struct log_once no_settings_sent, no_cgroups_sent;

	struct profiler_state state; /* as it was told last; no problem: never */
	struct profiler_stats past;  /* the sums of profilers before: counters alone */
	bool is_started;	     /* the first profiler has settled, or … */
	uint64_t start_by;	     /* … it is this time, CLOCK_MONOTONIC ns; 0: nobody has waited for it */

	/* The question that is asked. */
	uint64_t asked, nr_asked; /* its number, or 0; of all so far */
	web_answered_t answered;
	void *asker;
	struct counts_reader *reader; /* of its counts, before it is sent; or NULL */
	struct buf question;	      /* the message so far */
	sd_event_source *reading;

	struct capture_rules rules;
	uint64_t rules_generation; /* the world's, whose rules they are */
	const char *rules_problem; /* or NULL */
	struct capture_values_list values;
	uint64_t nr_orders; /* to this profiler, and those of them that it has not answered: */
	struct sent_orders sent;

	struct blob *samples; /* for the first profiler, or of the last one; NULL: none */
	bool is_leaving;
};

static const char no_profiles[] = "nothing is profiled: set \"enabled = yes\" in the section [profiles] of the config";

/* --- what the profiler is told */

/* Made once for each generation: events are provoked for them, which takes a while. */
static int make_settings(struct profiles *profiles, struct reason *why)
{
	const struct config *config = world_config(profiles->world);
	const struct machine *machine = world_machine(profiles->world);
	int r;

	if (profiles->made == world_generation(profiles->world))
		return 0;
	profiler_settings_release(&profiles->settings);
	profiles->made = 0;
	r = profile_settings_make(&profiles->settings, config, &machine->cpus, &machine->env, profiles->closer, why);
	if (r < 0)
		return r;
	profiles->settings.part = machine->mount.path && cgroup_mount_is_part(&machine->mount);
	profiles->made = world_generation(profiles->world);
	return 0;
}

/* r: of the sending; what has not been sent is sent again later. */
static void note_sent(struct log_once *once, const char *what, int r, const struct reason *why)
{
	struct reason text;

	if (r == 0) {
		reason_set(&text, 0, "profiles: %s can be sent again", what);
		log_once_resolved(once, text.text);
	} else if (r != -EAGAIN) {
		reason_set(&text, 0, "profiles: %s can't be sent: %s", what, why->text[0] ? why->text : strerror(-r));
		log_once_line(once, LOG_WARNING, text.text);
	}
}

static void send_settings(struct profiles *profiles)
{
	_cleanup_(buf_release) struct buf content = {};
	struct reason why = {};
	uint64_t memory;
	int r = make_settings(profiles, &why);

	if (!world_config(profiles->world)->profiles_enabled)
		profiles->sampled = 0; /* nobody misses it */
	if (r == 0) {
		profiles->settings.sampled = profiles->sampled;
		write_settings(&content, &profiles->settings);
		r = profiler_link_send(profiles->link, PROFILER_SETTINGS, profiles->nr_settings + 1, &content, -1);
	}
	if (r == 0) {
		profiles->generation = world_generation(profiles->world);
		profiles->nr_settings++;
		memory = profiles->settings.memory + profiles->settings.capture_memory + profiles->settings.tables;
		profiles->most_memory = memory > profiles->most_memory ? memory : profiles->most_memory;
	}
	note_sent(&profiles->no_settings_sent, "the settings", r, &why);
}

/* Before its first settings. After a profiler that has crashed there are none. */
static void send_samples(struct profiles *profiles)
{
	_cleanup_(blob_unrefp) struct blob *samples = steal_ptr(profiles->samples);
	int r = -EAGAIN;

	if (!samples)
		return;
	if (world_config(profiles->world)->profiles_enabled) {
		const struct buf content = { .data = samples->data, .len = samples->len };

		r = profiler_link_send(profiles->link, PROFILER_ARCHIVE, 0, &content, -1);
	}
	if (r < 0)
		log_notice("samples of before are dropped: %s", r == -EAGAIN ? "profiles are off" : strerror(-r));
}

/* All of the tree. -ENOMEM. */
static int fill_all(struct told_cgroups *ret, const struct cgroup_tree *tree)
{
	const struct cgroup *cgroup;

	ret->is_all = true;
	ret->items = calloc(cgroup_tree_size(tree) + 1, sizeof(*ret->items));
	if (!ret->items)
		return -ENOMEM;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(tree), in_all) {
		struct told_cgroup *told = &ret->items[ret->nr++];

		told->id = cgroup->identity->id;
		told->path = strdup(cgroup->path);
		if (!told->path)
			return -ENOMEM;
	}
	return 0;
}

/* The changes' paths become the message's. -ENOMEM. */
static int fill_changes(struct told_cgroups *ret, struct cgroup_changes *changes)
{
	ret->items = calloc(changes->nr + 1, sizeof(*ret->items));
	if (!ret->items)
		return -ENOMEM;
	for (; ret->nr < changes->nr; ret->nr++) {
		struct cgroup_change *change = &changes->items[ret->nr];

		ret->items[ret->nr] = (struct told_cgroup){ .id = change->id, .path = steal_ptr(change->path) };
	}
	return 0;
}

static void send_cgroups(struct profiles *profiles)
{
	const struct cgroup_tree *tree = world_tree(profiles->world);
	_cleanup_(cgroup_changes_release) struct cgroup_changes changes = world_take_cgroup_changes(profiles->world);
	bool is_all = changes.lost || changes.is_new_tree || !profiles->knows_cgroups;
	_cleanup_(told_cgroups_release) struct told_cgroups cgroups = {};
	_cleanup_(buf_release) struct buf content = {};
	struct reason why = {};
	int r = 0;

	if (!is_all && !changes.nr)
		return;
	profiles->knows_cgroups = false; /* until it is told */
	profiles->has_new_tree |= changes.is_new_tree;
	cgroups.is_all = is_all;
	cgroups.is_new_tree = profiles->has_new_tree;
	if (!is_all)
		r = fill_changes(&cgroups, &changes);
	else if (tree)
		r = fill_all(&cgroups, tree);
	write_cgroups(&content, &cgroups);
	if (r == 0)
		r = profiler_link_send(profiles->link, PROFILER_CGROUPS, 0, &content, -1);
	note_sent(&profiles->no_cgroups_sent, "the cgroups", r, &why);
	profiles->knows_cgroups = r == 0;
	profiles->has_new_tree &= r < 0;
}

/* The rules of the config in force. */
static void use_rules(struct profiles *profiles)
{
	bool is_done = capture_rules_use(&profiles->rules, world_config(profiles->world)) == 0;

	profiles->rules_problem = is_done ? NULL : "no captures: out of memory";
	profiles->rules_generation = world_generation(profiles->world);
}

void profiles_follow(struct profiles *profiles)
{
	if (profiles->rules_generation != world_generation(profiles->world))
		use_rules(profiles);
	if (!world_config(profiles->world)->profiles_enabled || profiler_link_is_up(profiles->link))
		send_samples(profiles);
	if (!profiler_link_is_up(profiles->link))
		return;
	if (profiles->generation != world_generation(profiles->world))
		send_settings(profiles);
	if (profiles->generation)
		send_cgroups(profiles);
}

/* --- messages from the profiler */

static void follow_rules(struct profiles *profiles);

static void end_reading(struct profiles *profiles)
{
	profiles->reading = sd_event_source_disable_unref(profiles->reading);
	profiles->reader = counts_reader_free(profiles->reader);
	buf_release(&profiles->question);
}

static void give_answer(struct profiles *profiles, int error, struct blob *document, const char *why)
{
	profiles->asked = 0;
	end_reading(profiles);
	profiles->answered(profiles->asker, error, document, why);
}

static void on_begun(void *userdata)
{
	profiles_follow(userdata);
}

/* Counters of profilers that have ended stay. */
static void add_counters(struct profiler_stats *sum, const struct profiler_stats *stats)
{
	sum->samples += stats->samples;
	sum->lost += stats->lost;
	sum->unfollowed += stats->unfollowed;
	sum->unsampled += stats->unsampled;
	sum->throttled += stats->throttled;
	sum->dropped += stats->dropped;
	sum->gap_ns += stats->gap_ns;
	sum->cpu_ns += stats->cpu_ns;
	sum->answer_ns += stats->answer_ns;
	sum->captures_dropped += stats->captures_dropped;
	sum->stacks_frame_pointers += stats->stacks_frame_pointers;
	sum->stacks_whole += stats->stacks_whole;
	sum->stacks_cut += stats->stacks_cut;
	sum->stacks_no_table += stats->stacks_no_table;
	sum->stacks_lost += stats->stacks_lost;
}

/* Orders of which it has not told are passed over. */
static void note_lost_captures(struct profiles *profiles)
{
	uint64_t nr = profiles->state.nr_captures;

	if ((!nr && !profiles->sent.nr) || profiles->is_leaving)
		return;
	profiles->past.captures_dropped += nr;
	log_warning("captures are lost with the profiler: %" PRIu64 " in memory, %zu ordered; saved ones stay on disk",
		    nr, profiles->sent.nr);
}

static void on_ended(void *userdata)
{
	struct profiles *profiles = userdata;

	note_lost_captures(profiles);
	add_counters(&profiles->past, &profiles->state.stats);
	profiles->generation = 0;
	profiles->knows_cgroups = false;
	profiles->nr_orders = profiles->most_memory = 0;
	profiler_state_release(&profiles->state);
	sent_orders_judge(&profiles->sent, UINT64_MAX, &profiles->state, &profiles->rules);
	if (profiles->asked)
		give_answer(profiles, -EAGAIN, NULL,
			    "the profiler has ended while it was at the answer; it is being started again");
}

/* By the memory that the profiler tells. One that grows without a pause tells nothing, and is killed as one that hangs.
 * Children that work out answers are not in it: the kernel takes them first. */
static int check_memory(const struct profiles *profiles, const struct profiler_stats *stats, struct reason *why)
{
	uint64_t bound = profiles->most_memory + stats->ring_bytes + MEMORY_ALLOWANCE;

	if (stats->memory <= bound)
		return 0;
	return reason_set(why, -E2BIG, "it was too large: %" PRIu64 " MiB, bound %" PRIu64 " MiB", stats->memory >> 20,
			  bound >> 20);
}

static int take_state(struct profiles *profiles, const struct message *message, struct reason *why)
{
	struct profiler_state state;
	uint64_t unheard;
	int r = message->len <= STATE_MAX ? read_state(&state, message->content, message->len) : -EPROTO;

	if (r == 0 && (state.settings > profiles->nr_settings || state.orders > profiles->nr_orders)) {
		/* It has what it was never sent. */
		profiler_state_release(&state);
		r = -EPROTO;
	}
	if (r < 0)
		return r;
	profiler_state_release(&profiles->state);
	profiles->state = state;
	sent_orders_judge(&profiles->sent, state.orders, &profiles->state, &profiles->rules);
	/* Orders on their way take room, too. */
	unheard = profiles->nr_orders - state.orders;
	profiles->state.room = state.room > unheard ? state.room - unheard : 0;
	if (state.is_on && state.settings == profiles->nr_settings)
		profiles->sampled = state.drained;
	follow_rules(profiles);
	return check_memory(profiles, &profiles->state.stats, why);
}

static void on_missed(void *userdata, const char *why)
{
	struct profiles *profiles = userdata;
	struct reason sentence;

	if (!profiles->asked)
		return;
	reason_set(&sentence, 0, "the answer can't be taken: %s", why);
	give_answer(profiles, -EBUSY, NULL, sentence.text);
}

static int take_refusal(struct profiles *profiles, const struct message *message)
{
	struct profiler_refusal refusal;
	int r = read_refusal(&refusal, message->content, message->len);

	if (r == 0 && message->number == profiles->asked && profiles->asked)
		give_answer(profiles, refusal.error, NULL, refusal.why.text);
	return r;
}

static int take_samples(struct profiles *profiles, struct message *message)
{
	if (!profiles->is_leaving || profiles->samples)
		return -EPROTO;
	profiles->samples = steal_ptr(message->blob);
	return 0;
}

static int on_message(void *userdata, struct message *message, struct reason *why)
{
	struct profiles *profiles = userdata;

	switch ((enum profiler_message)message->kind) {
	case PROFILER_STATE:
		return take_state(profiles, message, why);
	case PROFILER_ANSWER:
		if (message->number == profiles->asked && profiles->asked)
			give_answer(profiles, 0, message->blob, NULL);
		return 0;
	case PROFILER_REFUSAL:
		return take_refusal(profiles, message);
	case PROFILER_ARCHIVE:
		return take_samples(profiles, message);
	default:
		return -EPROTO;
	}
}

/* --- questions */

static int send_question(struct profiles *profiles, uint64_t number, const struct buf *content, struct reason *why)
{
	int r = profiler_link_send(profiles->link, PROFILER_QUESTION, number, content, -1);

	if (r == -EAGAIN)
		return reason_set(why, r, "%s", profiler_link_problem(profiles->link));
	return r < 0 ? reason_set(why, r, "the profiler can't be asked: %s", strerror(-r)) : 0;
}

static int ask_now(struct profiles *profiles, const struct profile_question *question, struct reason *why)
{
	_cleanup_(captures_told_release) struct told_captures told = {};
	_cleanup_(buf_release) struct buf content = {};
	struct profile_question whole = *question;

	if (question->form == PROFILE_FORM_CAPTURES &&
	    captures_told_make(&told, &profiles->rules, &profiles->values) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	whole.told = told;
	write_question(&content, &whole);
	return send_question(profiles, profiles->nr_asked + 1, &content, why);
}

/* Reads counts for the question, a few ms at each turn of the loop, and sends it. */
static int on_reading(_unused_ sd_event_source *source, void *userdata)
{
	struct profiles *profiles = userdata;
	struct reason why;
	int r = counts_reader_step(profiles->reader);

	if (r > 0)
		return 0;
	if (r == 0)
		r = send_question(profiles, profiles->asked, &profiles->question, &why);
	else
		reason_set(&why, r, "out of memory");
	end_reading(profiles);
	if (r < 0)
		give_answer(profiles, r, NULL, why.text);
	return 0;
}

/* With the counts that weights are to fit. */
static int begin_reading(struct profiles *profiles, const struct profile_question *question, struct reason *why)
{
	_cleanup_(event_list_release) struct event_list events = {};
	const struct event_env *env = &world_machine(profiles->world)->env;
	int r = profile_settings_events(&events, world_config(profiles->world), env, question->event, why);

	if (r == 0 && !events.nr)
		return ask_now(profiles, question, why);
	if (r == 0)
		r = counts_reader_new(&profiles->reader, &profiles->question, world_history(profiles->world), &events,
				      question, why);
	if (r < 0)
		return r;
	r = sd_event_add_defer(profiles->loop, &profiles->reading, on_reading, profiles);
	if (r >= 0)
		r = sd_event_source_set_enabled(profiles->reading, SD_EVENT_ON);
	if (r < 0)
		end_reading(profiles);
	return r < 0 ? reason_set(why, r, "the counters can't be read: %s", strerror(-r)) : 0;
}

int profiles_ask(struct profiles *profiles, const struct profile_question *question, web_answered_t answered,
		 void *asker, struct reason *why)
{
	int r;

	if (!world_config(profiles->world)->profiles_enabled && question->form != PROFILE_FORM_CAPTURES &&
	    !question->capture)
		return reason_set(why, -EOPNOTSUPP, "%s", no_profiles);
	if (!profiler_link_is_up(profiles->link))
		return reason_set(why, -EAGAIN, "%s", profiler_link_problem(profiles->link));
	r = question->counted ? begin_reading(profiles, question, why) : ask_now(profiles, question, why);
	if (r < 0)
		return r;
	profiles->asked = ++profiles->nr_asked;
	profiles->answered = answered;
	profiles->asker = asker;
	return 0;
}

void profiles_cancel(struct profiles *profiles)
{
	static const struct buf empty = {};

	if (profiles->asked && !profiles->reader)
		(void)profiler_link_send(profiles->link, PROFILER_CANCEL, profiles->asked, &empty, -1);
	end_reading(profiles);
	profiles->asked = 0;
}

/* --- captures */

static const char *sampled_event_of(const struct config_capture *config)
{
	return config->event.text && *config->event.text ? config->event.text : PROFILE_CPU_CLOCK;
}

/* Why captures can't be made; NULL: they can. */
static const char *why_no_captures(const struct profiles *profiles)
{
	if (!world_config(profiles->world)->profiles_enabled)
		return no_profiles;
	if (profiles->rules_problem)
		return profiles->rules_problem;
	if (!profiles->state.problem)
		return profiler_link_problem(profiles->link);
	return profiles->state.is_on ? NULL : profiles->state.problem;
}

/* Notes which of the rules' events are not sampled. */
static void follow_rules(struct profiles *profiles)
{
	const struct config *config = world_config(profiles->world);
	const struct profiler_state *state = &profiles->state;

	struct watched_rule *rule;

	for (size_t i = 0; (rule = capture_rules_at(&profiles->rules, i)); i++) {
		const char *event = sampled_event_of(rule->config), *problem = NULL;

		for (size_t k = 0; k <= config->nr_profiles && state->settings == profiles->nr_settings; k++)
			if (k < state->nr_problems &&
			    strcmp(event, k ? config->profiles[k - 1].name : PROFILE_CPU_CLOCK) == 0)
				problem = state->problems[k];
		if (problem && problem[0])
			reason_set(&rule->not_sampled, 0, "[profile \"%s\"]: %s", event, problem);
		else
			rule->not_sampled.text[0] = '\0';
	}
}

/* The values of the capture's counter come from the history, which the profiler does not know. Without memory for them,
 * the capture has none. */
static void begin_values(struct profiles *profiles, const struct capture_order *order)
{
	const struct capture_values capture = {
		.id = order->id,
		.cgroup = order->cgroup,
		.counter = order->counter,
		.from = order->time > order->before ? order->time - order->before : 0,
		.to = order->time + order->after,
	};

	(void)capture_values_add(&profiles->values, &capture);
}

/* Opens the directory of a cgroup, of which samples are to be taken at a higher rate. -1 with the reason: it can't be
 * opened. */
static int open_directory(const struct world *world, const struct cgroup_identity *identity, const char **ret_problem)
{
	const struct cgroup_tree *tree = world_tree(world);
	const struct cgroup *cgroup = tree ? cgroup_tree_find(tree, identity->id) : NULL;
	int fd = cgroup ? cgroup_open(tree, cgroup) : -ENOENT;

	if (fd >= 0)
		return fd;
	*ret_problem = strerror(-fd);
	return -1;
}

static int send_order(struct profiles *profiles, const struct capture_order *order)
{
	_cleanup_(buf_release) struct buf content = {};
	uint64_t number = profiles->nr_orders + 1;
	int r = sent_orders_add(&profiles->sent, number, order);

	if (r < 0)
		return r;
	write_order(&content, order);
	r = profiler_link_send(profiles->link, PROFILER_KEEP, number, &content, order->cgroup_fd);
	if (r < 0) {
		sent_orders_take_back(&profiles->sent);
		return r;
	}
	profiles->nr_orders++;
	profiles->state.room--;
	begin_values(profiles, order);
	return 0;
}

/* May samples of the cgroup be seen? */
static bool is_visible(const struct config *config, const struct cgroup_identity *identity)
{
	const struct cgroup_filter filter = {
		.include = config->profiles_include.items,
		.nr_include = config->profiles_include.nr,
		.exclude = config->profiles_exclude.items,
		.nr_exclude = config->profiles_exclude.nr,
	};

	return !identity || cgroup_filter_admits(&filter, identity->label);
}

/* Has the samples of a target kept. */
static enum due_answer order_capture(void *userdata, const struct watched_rule *rule, const struct due_target *target)
{
	struct profiles *profiles = userdata;
	const struct config_capture *config = rule->config;
	const struct clock_steps *clock = world_clock(profiles->world);
	const char *unit = event_unit_name(target->event->unit);
	uint64_t shown = clock_steps_shown(clock, clock_steps_moment(clock, target->now));
	_cleanup_(freep) char *id = capture_values_new_id(&profiles->values, rule->name, shown);
	_cleanup_(closep) int fd = -1;
	struct reason reason;
	struct capture_order order = {
		.id = id,
		.rule = rule->name,
		.when = rule->when,
		.cgroup = target->identity ? target->identity->label : NULL,
		.counter = rule->rule.event,
		.unit = unit[0] ? unit : "count",
		.reason = reason.text,
		.value = target->value,
		.threshold = rule->rule.threshold,
		.time = target->now,
		.before = config->before,
		.after = config->after,
		.clock = *clock,
		.event = sampled_event_of(config),
		.rate = config->rate,
		.keep = config->keep,
		.save = config->save,
	};

	if (!is_visible(world_config(profiles->world), target->identity))
		return DUE_IGNORED;
	if (!id || !profiles->state.room)
		return DUE_NOT_NOW;
	capture_rule_explain(&reason, rule, target);
	if (config->rate && target->identity)
		fd = open_directory(profiles->world, target->identity, &order.cgroup_problem);
	order.cgroup_fd = fd;
	return send_order(profiles, &order) == 0 ? DUE_TAKEN : DUE_NOT_NOW;
}

bool profiles_have_started(struct profiles *profiles)
{
	uint64_t now = clock_monotonic_ns();

	if (!profiles->start_by)
		profiles->start_by = now + START_NS;
	profiles->is_started |= profiles_are_in_force(profiles) || now >= profiles->start_by;
	return profiles->is_started;
}

void profiles_tick(struct profiles *profiles)
{
	if (profiles->state.problem && profiles->state.orders == profiles->nr_orders)
		capture_values_trim(&profiles->values, state_has_capture, &profiles->state);
	/* The first moments of each start are not told of each rule. */
	if (capture_rules_at(&profiles->rules, 0) && profiles_have_started(profiles))
		capture_rules_tick(&profiles->rules, world_session(profiles->world), clock_monotonic_ns(),
				   why_no_captures(profiles), order_capture, profiles);
	capture_values_take(&profiles->values, world_history(profiles->world));
	world_set_sampled(profiles->world, profiles->sampled);
}

bool profiles_rule(const struct profiles *profiles, size_t i, struct capture_rule_info *ret)
{
	return capture_rules_info(&profiles->rules, i, ret);
}

/* --- how it is */

bool profiles_are_in_force(const struct profiles *profiles)
{
	if (!world_config(profiles->world)->profiles_enabled)
		return true;
	return profiles->nr_settings && profiles->state.settings == profiles->nr_settings;
}

bool profiles_are_on(const struct profiles *profiles)
{
	return profiles->state.is_on;
}

const char *profiles_problem(const struct profiles *profiles)
{
	if (!world_config(profiles->world)->profiles_enabled)
		return "";
	if (profiles->rules_problem)
		return profiles->rules_problem;
	return profiles->state.problem ?: profiler_link_problem(profiles->link);
}

size_t profiles_nr_lost(const struct profiles *profiles)
{
	const struct profiler_state *state = &profiles->state;
	size_t nr = 0;

	if (!world_config(profiles->world)->profiles_enabled)
		return 0;
	if (!state->is_on)
		return world_config(profiles->world)->nr_profiles;
	/* The first one is that of no section. */
	for (size_t i = 1; i < state->nr_problems; i++)
		nr += state->problems[i][0] != '\0';
	return nr;
}

void profiles_stats(const struct profiles *profiles, struct profile_stats *ret)
{
	struct profiler_stats stats = profiles->state.stats;

	add_counters(&stats, &profiles->past);
	*ret = (struct profile_stats){
		.up = profiler_link_is_up(profiles->link),
		.restarts = profiler_link_restarts(profiles->link),
		.memory = stats.memory,
		.samples = stats.samples,
		.lost = stats.lost,
		.unfollowed = stats.unfollowed,
		.unsampled = stats.unsampled,
		.throttled = stats.throttled,
		.dropped = stats.dropped,
		.bytes = stats.bytes,
		.ring_bytes = stats.ring_bytes,
		.gap_ns = stats.gap_ns,
		.reach = stats.reach,
		.cpu_ns = stats.cpu_ns,
		.answer_ns = stats.answer_ns,
		.processes = stats.processes,
		.captures = stats.captures,
		.capture_bytes = stats.capture_bytes,
		.captures_dropped = stats.captures_dropped,
		.stacks_frame_pointers = stats.stacks_frame_pointers,
		.stacks_whole = stats.stacks_whole,
		.stacks_cut = stats.stacks_cut,
		.stacks_no_table = stats.stacks_no_table,
		.stacks_lost = stats.stacks_lost,
		.table_bytes = stats.table_bytes,
		.waiting_bytes = stats.waiting_bytes,
		.list_bytes = stats.list_bytes,
	};
}

/* --- life */

int profiles_new(struct profiles **ret, sd_event *loop, struct world *world, struct profiler_keeper *keeper,
		 uint64_t sampled)
{
	_cleanup_(profiles_freep) struct profiles *profiles = calloc(1, sizeof(*profiles));
	const struct profiler_link_user user = {
		.begun = on_begun,
		.ended = on_ended,
		.take = on_message,
		.missed = on_missed,
		.userdata = profiles,
	};
	int r;

	if (!profiles)
		return -ENOMEM;
	profiles->loop = loop;
	profiles->world = world;
	profiles->sampled = sampled;
	r = async_close_new(&profiles->closer);
	if (r == 0)
		r = profiler_link_new(&profiles->link, loop, keeper, &user);
	if (r < 0)
		return r;
	use_rules(profiles);
	world_show_rules(world, &profiles->rules);
	*ret = steal_ptr(profiles);
	return 0;
}

struct profiles *profiles_free(struct profiles *profiles)
{
	if (!profiles)
		return NULL;
	if (profiles->world)
		world_show_rules(profiles->world, NULL);
	end_reading(profiles);
	profiler_link_free(profiles->link);
	async_close_free(profiles->closer);
	profiler_settings_release(&profiles->settings);
	log_once_release(&profiles->no_settings_sent);
	log_once_release(&profiles->no_cgroups_sent);
	profiler_state_release(&profiles->state);
	sent_orders_judge(&profiles->sent, UINT64_MAX, &profiles->state, &profiles->rules);
	capture_rules_release(&profiles->rules);
	capture_values_release(&profiles->values);
	blob_unref(profiles->samples);
	free(profiles);
	return NULL;
}

void profiles_go_on(struct profiles *profiles, struct blob *samples)
{
	profiles->samples = samples;
}

struct blob *profiles_leave(struct profiles *profiles, uint64_t ns)
{
	static const struct buf empty = {};

	profiles->samples = blob_unref(profiles->samples);
	profiles->is_leaving = true;
	profiles_cancel(profiles);
	if (profiler_link_send(profiles->link, PROFILER_STOP, 0, &empty, -1) == 0)
		profiler_link_wait(profiles->link, ns);
	world_set_sampled(profiles->world, profiles->sampled);
	return steal_ptr(profiles->samples);
}
