/* SPDX-License-Identifier: MIT */

#include "web/page.h"

#include "expose/escape.h"

#include <errno.h>
#include <inttypes.h>

static const char head[] =
	"<!DOCTYPE html>\n"
	"<html lang=\"en\">\n"
	"<head>\n"
	"<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<meta name=\"color-scheme\" content=\"light dark\">\n"
	"<title>perfmond</title>\n"
	"<style>\n"
	":root { --text: #1c2024; --faint: #60646c; --line: #d9d9e0;\n"
	"--link: #0b62c4; --good: #18794e; --bad: #b4460b; }\n"
	"@media (prefers-color-scheme: dark) {\n"
	":root { --text: #edeef0; --faint: #b0b4ba; --line: #363a3f;\n"
	"--link: #70b8ff; --good: #3dd68c; --bad: #ffa057; }\n"
	"}\n"
	"body { color: var(--text); font: 16px/1.5 system-ui, sans-serif;\n"
	"max-width: 60em; margin: 2em auto; padding: 0 1em; }\n"
	"h1, h2 { line-height: 1.2; font-weight: 600; }\n"
	"h1 small { color: var(--faint); font-size: .6em; font-weight: 400; }\n"
	"a { color: var(--link); }\n"
	"dl { display: grid; grid-template-columns: max-content auto; gap: .2em 1.5em; }\n"
	"dd { margin: 0; }\n"
	"table { border-collapse: collapse; width: 100%; }\n"
	"th, td { text-align: left; vertical-align: top;\n"
	"padding: .3em .8em .3em 0; border-bottom: 1px solid var(--line); }\n"
	"th, dd, .why { color: var(--faint); font-weight: 400; }\n"
	".good { color: var(--good); } .bad { color: var(--bad); }\n"
	"</style>\n"
	"</head>\n"
	"<body>\n";

static const char tail[] = "</body>\n</html>\n";

static const struct {
	const char *path, *what;
} links[] = {
	{ "/metrics", "everything, for Prometheus" },
	{ "/api/v1/snapshot", "everything, as JSON; filters: scope, cgroup, event, sort, limit" },
	{ "/api/v1/events", "the events: how each is encoded, where it is counted, and why not" },
	{ "/api/v1/cgroups", "the cgroups, counted or not, and why not" },
	{ "/api/v1/status", "the daemon: what it may do, what it found, what it costs" },
	{ "/-/healthy", "for probes: is it up?" },
	{ "/-/ready", "for probes: does it count all it should?" },
};

static bool is_counting(enum event_state state)
{
	return state == EVENT_OK || state == EVENT_MULTIPLEXED;
}

static size_t count_events(const struct snapshot_table *table)
{
	size_t nr = 0;

	for (size_t i = 0; i < table->nr_columns; i++)
		nr += is_counting(table->columns[i].state);
	return nr;
}

static void add_summary(struct buf *out, const struct snapshot *snapshot)
{
	const struct snapshot_table *cpus = &snapshot->table[SCOPE_CPU], *cgroups = &snapshot->table[SCOPE_CGROUP];
	const struct self *self = &snapshot->self;

	buf_printf(out, "<p>Counting %zu of %zu events on %" PRIu64 " CPUs, and %zu of %zu events in %" PRIu64
			" of %zu cgroups, read every ",
		   count_events(cpus), cpus->nr_columns, self->cpus, count_events(cgroups), cgroups->nr_columns,
		   self->cgroups_counted, snapshot->nr_cgroups);
	buf_double(out, (double)self->interval / 1e9);
	buf_str(out, " s.</p>\n");
}

static void add_links(struct buf *out)
{
	buf_str(out, "<dl>\n");
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		buf_printf(out, "<dt><a href=\"%s\">%s</a></dt><dd>%s</dd>\n", links[i].path, links[i].path,
			   links[i].what);
	buf_str(out, "</dl>\n");
}

static void add_cell(struct buf *out, const char *text)
{
	buf_str(out, "<td>");
	escape_html(out, text);
	buf_str(out, "</td>");
}

static void add_event(struct buf *out, const struct snapshot_column *column)
{
	const struct event *event = column->column->event;

	buf_str(out, "<tr>");
	add_cell(out, column->column->group->name);
	buf_str(out, "<td>");
	escape_html(out, event->text);
	if (event->by_pmu) {
		buf_str(out, " <span class=\"why\">");
		escape_html(out, event->pmu);
		buf_str(out, "</span>");
	}
	buf_printf(out, "</td><td class=\"%s\">%s</td><td class=\"why\">", is_counting(column->state) ? "good" : "bad",
		   event_state_name(column->state));
	escape_html(out, column->why ? column->why : "");
	buf_str(out, "</td></tr>\n");
}

static void add_events(struct buf *out, const struct snapshot_table *table, const char *title)
{
	buf_printf(out, "<h2>%s</h2>\n", title);
	if (table->nr_columns == 0) {
		buf_str(out, "<p>No events are configured.</p>\n");
		return;
	}
	buf_str(out, "<table>\n<tr><th>group</th><th>event</th><th>state</th><th>why</th></tr>\n");
	for (size_t i = 0; i < table->nr_columns; i++)
		add_event(out, &table->columns[i]);
	buf_str(out, "</table>\n");
}

int page_write(struct buf *out, const struct snapshot *snapshot, const struct about *about)
{
	buf_str(out, head);
	buf_str(out, "<h1>perfmond <small>");
	escape_html(out, about->version);
	buf_str(out, "</small></h1>\n");
	add_summary(out, snapshot);
	add_links(out);
	add_events(out, &snapshot->table[SCOPE_CPU], "Events per CPU");
	add_events(out, &snapshot->table[SCOPE_CGROUP], "Events per cgroup");
	buf_str(out, tail);
	if (!out->failed)
		return 0;
	buf_release(out);
	return -ENOMEM;
}
