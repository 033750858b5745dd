#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes the Grafana dashboard: generate.py >perfmond.json

What is installed is the JSON; a test compares it with what this makes. A panel is one line or two here, and its
place follows from the order: a row of the grid is full when 24 columns are. All rows but the first are folded, and
Grafana asks for what is in them when they are opened.
"""

import json
import sys

# The label cluster is one that a cluster's Prometheus gives; where there is none, the variable is .*, which holds for
# series without the label, too.
SELECTED = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
MACHINE = "cluster, job, instance"
CGROUP = f"{MACHINE}, cgroup"
CGROUPS = SELECTED + ', cgroup=~"$cgroup"'
# Who tells the names of pods: perfmond, or the rules that join kube-state-metrics.
NAMED = '{__name__=~"perf_cgroup_info|instance_cgroup:perf_pod:info", '
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

# States of events, from worse to better, with their colours.
STATES = [("denied", "red"), ("failed", "semi-dark-red"), ("unsupported", "text"), ("never_scheduled", "orange"),
          ("stalled", "semi-dark-orange"), ("never_fires", "dark-orange"), ("multiplexed", "yellow"), ("ok", "green")]


# --- expressions

def cpu_rate(event, by=f"{MACHINE}, cpu"):
    return f"sum by ({by}) (rate(perf_cpu_{event}_total{{{SELECTED}}}[$__rate_interval]))"


def cgroup_rate(event, window="[$__rate_interval]", selector=CGROUPS):
    return f"sum by ({CGROUP}) (rate(perf_cgroup_{event}_total{{{selector}}}{window}))"


def ratio(rate, over, under, per=1, **kwargs):
    """Nothing, rather than a division by zero, where nothing was counted."""
    return f"{f'{per} * ' if per != 1 else ''}{rate(over, **kwargs)} / ({rate(under, **kwargs)} > 0)"


def misses(rate, what, **kwargs):
    return ratio(rate, f"{what}_misses", "instructions", per=1000, **kwargs)


def of_pods(expr):
    """Of the cgroups of the pods that are chosen: of all cgroups where none is."""
    pods = f'last_over_time({NAMED}{CGROUPS}, namespace=~"$namespace", pod=~"$pod"}}[$__range] @ end())'
    return f"{expr} and on ({CGROUP}) {pods}"


def topk(expr):
    """The largest of the cgroups that are shown: of the leaves alone, since all others hold what is below them."""
    level = f"last_over_time(perf_cgroup_descendants{{{CGROUPS}}}[$__range] @ end()) $level"
    return f"topk($top, {of_pods(expr)} and on ({CGROUP}) ({level}))"


def top(expr, event):
    """What has most of an event over the whole time shown: the same cgroups at each point."""
    return f"{expr} and {topk(cgroup_rate(event, '[$__range] @ end()'))}"


def top_peaks(event):
    return topk(f"sum by ({CGROUP}) (perf_cgroup_{event}_peak_per_second{{{CGROUPS}}})")


def running(scope, by):
    selector = SELECTED if scope == "cpu" else CGROUPS
    parts = [f"sum by ({by}) (rate(perf_{scope}_group_{what}_seconds_total{{{selector}}}[$__rate_interval]))"
             for what in ("running", "enabled")]
    return f"{parts[0]} / ({parts[1]} > 0)"


def own(metric, **labels):
    more = "".join(f', {name}=~"{value}"' for name, value in labels.items())
    return f"perfmond_{metric}{{{SELECTED}{more}}}"


def own_rate(metric):
    return f"rate(perfmond_{metric}_total{{{SELECTED}}}[$__rate_interval])"


def with_address(expr):
    """With a label for links: the instance, and with $port where that is a name without a port."""
    return f'label_replace(label_replace({expr}, "address", "$1", "instance", "(.+)"), ' \
           '"address", "$1:$port", "instance", "([^:]+|\\\\[.+\\\\])")'


def state_numbers():
    """One series an event, whose value is the place of its state among STATES."""
    return " or ".join(f'max by ({MACHINE}, scope, group, event, pmu) ({number} * perf_event_state{{{SELECTED}, '
                       f'state="{state}"}})' for number, (state, _) in enumerate(STATES))


# --- panels

def target(number, expr, legend="", instant=False, **more):
    # Without the label, Grafana shows nothing for it.
    legend = legend.replace("{{instance}}", "{{cluster}} {{instance}}")
    return {"refId": chr(ord("A") + number), "datasource": DATASOURCE, "editorMode": "code", "expr": expr,
            "legendFormat": legend, "instant": instant, "range": not instant, **more}


def panel(kind, title, targets, unit="short", width=8, height=8, description="", defaults=None, **more):
    return {
        "type": kind, "title": title, "description": description, "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height}, "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit, **(defaults or {})}, "overrides": more.pop("overrides", [])}, **more,
    }


def lines(title, *series, stacked=False, log=False, floor=0, **more):
    """A graph over time, of (expression, legend)."""
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if stacked else 8, "showPoints": "never",
              "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
              "scaleDistribution": {"type": "log", "log": 10} if log else {"type": "linear"}}
    return panel("timeseries", title, [target(i, *one) for i, one in enumerate(series)],
                 defaults={"custom": custom, **({} if floor is None else {"min": floor})},
                 options={"legend": {"displayMode": "table", "placement": "bottom", "showLegend": True,
                                     "calcs": ["mean", "max", "lastNotNull"]},
                          "tooltip": {"mode": "multi", "sort": "desc"}}, **more)


def number(title, expr, legend="", steps=(), below="green", words=None, **more):
    """One number an instance; steps are (from, colour), and words those that stand for numbers."""
    mappings = [{"type": "value", "options": {key: {"text": word} for key, word in words.items()}}] if words else []
    thresholds = [{"color": below, "value": None}] + [{"color": color, "value": value} for value, color in steps]
    return panel("stat", title, [target(0, expr, legend or "{{instance}}")], width=3, height=4,
                 defaults={"thresholds": {"mode": "absolute", "steps": thresholds}, "mappings": mappings,
                           "noValue": "not counted"},
                 options={"graphMode": "area", "colorMode": "value", "textMode": "auto",
                          "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}, **more)


def table(title, columns, order, sort, links=(), width=24, **more):
    """Columns are (title, expression, unit), a row is for a set of labels; `order` names the labels that are shown."""
    targets, names, overrides = [], {}, []
    for i, (name, expr, unit) in enumerate(columns):
        targets.append(target(i, expr, instant=True, format="table"))
        value = "Value" if len(columns) == 1 else f"Value #{targets[-1]['refId']}"
        names[value] = name
        if name:
            overrides.append({"matcher": {"id": "byName", "options": name},
                              "properties": [{"id": "unit", "value": unit}]})
    organized = {"excludeByName": {"Time": True, **{value: True for value, name in names.items() if not name}},
                 "indexByName": {name: i for i, name in enumerate([*order, *names])},
                 "renameByName": {value: name for value, name in names.items() if name}}
    return panel("table", title, targets, width=width, overrides=overrides,
                 defaults={"custom": {"filterable": True, "align": "auto"}, "links": list(links)},
                 options={"showHeader": True, "cellHeight": "sm", "sortBy": [{"displayName": sort, "desc": True}]},
                 transformations=[{"id": "merge", "options": {}}, {"id": "organize", "options": organized}],
                 **more)


def row(title, folded=True):
    return {"type": "row", "title": title, "collapsed": folded, "panels": [], "gridPos": {"w": 24, "h": 1}}


def text(content, width, height):
    return {"type": "text", "title": "", "transparent": True, "gridPos": {"w": width, "h": height},
            "options": {"mode": "markdown", "content": content}}


# --- the views

def machine():
    by = {"by": MACHINE}
    yield row("Machine", folded=False)
    yield number("Answers", f"up{{{SELECTED}}}", steps=[(1, "green")], below="red", words={"0": "no", "1": "yes"})
    yield number("CPUs", own("cpus"))
    yield number("Cgroups counted", own("cgroups", state="counted"))
    left_out = own("cgroups", state="over_max|over_fds|failed|unlisted")
    yield number("Cgroups left out", f"sum by ({MACHINE}) ({left_out})", steps=[(1, "orange")])
    yield number("Events not counted", f'count(perf_event_state{{{SELECTED}, state!~"ok|multiplexed"}}) or vector(0)',
                 "events", steps=[(1, "orange")], description="By event and scope; below, 'What is not counted'.")
    yield number("Least running share", f'min({running("cpu", f"{MACHINE}, group")})', "share", unit="percentunit",
                 steps=[(0.25, "orange"), (0.99, "green")], below="red",
                 description="The share of time in which the group with the least of it was counted.")
    yield number("Instructions per cycle", ratio(cpu_rate, "instructions", "cycles", **by))
    yield number("Loop lag", own("loop_lag_seconds"), unit="s", steps=[(0.5, "red")])
    yield lines("CPUs used by top-level cgroups",
                (cgroup_rate("task_clock_seconds", selector=SELECTED + ', cgroup=~"/[^/]+", cgroup!="/."'),
                 "{{instance}} {{cgroup}}"), stacked=True)
    yield lines("Context switches and migrations",
                (cpu_rate("context_switches", **by), "{{instance}} switches"),
                (cpu_rate("cpu_migrations", **by), "{{instance}} migrations"), unit="cps")
    yield lines("Page faults", (cpu_rate("page_faults", **by), "{{instance}} all"),
                (cpu_rate("major_faults", **by), "{{instance}} major, from disk"), unit="cps")
    yield lines("Instructions per cycle", (ratio(cpu_rate, "instructions", "cycles", **by), "{{instance}}"))
    yield lines("Cycles and instructions", (cpu_rate("cycles", **by), "{{instance}} cycles"),
                (cpu_rate("instructions", **by), "{{instance}} instructions"), unit="cps")
    yield lines("Misses per 1,000 instructions", (misses(cpu_rate, "cache", **by), "{{instance}} cache"),
                (misses(cpu_rate, "branch", **by), "{{instance}} branches"))


def cpus():
    name = "{{instance}} CPU {{cpu}}"
    yield row("CPUs")
    yield lines("Context switches", (cpu_rate("context_switches"), name), unit="cps")
    yield lines("Migrations", (cpu_rate("cpu_migrations"), name), unit="cps", description="Onto this CPU.")
    yield lines("Page faults", (cpu_rate("page_faults"), name), unit="cps")
    yield lines("Instructions per cycle", (ratio(cpu_rate, "instructions", "cycles"), name))
    yield lines("Cache misses per 1,000 instructions", (misses(cpu_rate, "cache"), name))
    yield lines("Branch misses per 1,000 instructions", (misses(cpu_rate, "branch"), name))


def cgroups():
    name = "{{instance}} {{cgroup}}"

    def graph(title, event, unit="cps", **more):
        return lines(f"{title}, top $top", (top(cgroup_rate(event), event), name), unit=unit, **more)

    def quotient(title, expr, under):
        return lines(title, (top(expr, under), name), description=f"Of the $top that have most {under}.")

    yield row("Cgroups ($cgroup)")
    yield graph("CPUs used", "task_clock_seconds", "short")
    yield graph("Context switches", "context_switches")
    yield graph("Migrations", "cpu_migrations")
    yield graph("Page faults", "page_faults")
    yield graph("Major faults", "major_faults", description="Pages that were read from disk.")
    yield graph("Cycles", "cycles")
    yield lines("Bursts: the highest rate of switches in a minute",
                (top_peaks("context_switches"), name), unit="cps", width=12,
                description="Of one interval, which a rate over a longer time hides; where `[web] peaks = yes`.")
    yield lines("Bursts: the highest rate of page faults in a minute",
                (top_peaks("page_faults"), name), unit="cps", width=12,
                description="Of one interval, which a rate over a longer time hides; where `[web] peaks = yes`.")
    yield quotient("Instructions per cycle", ratio(cgroup_rate, "instructions", "cycles"), "cycles")
    yield quotient("Cache misses per 1,000 instructions", misses(cgroup_rate, "cache"), "instructions")
    yield quotient("Branch misses per 1,000 instructions", misses(cgroup_rate, "branch"), "instructions")
    numbers = [
        ("CPUs used", cgroup_rate("task_clock_seconds"), "short"),
        ("switches", cgroup_rate("context_switches"), "cps"),
        ("migrations", cgroup_rate("cpu_migrations"), "cps"),
        ("faults", cgroup_rate("page_faults"), "cps"),
        ("major faults", cgroup_rate("major_faults"), "cps"),
        ("cycles", cgroup_rate("cycles"), "cps"),
        ("IPC", ratio(cgroup_rate, "instructions", "cycles"), "short"),
        ("least running share", f'min by ({CGROUP}) ({running("cgroup", f"{CGROUP}, group")})', "percentunit"),
    ]
    yield table("Cgroups, now", [
        ("", of_pods(f"max by ({CGROUP}, unit, container_id) (perf_cgroup_info{{{CGROUPS}}})"), "short"),
        *[(title, of_pods(f"({expr})"), unit) for title, expr, unit in numbers],
    ], ["cluster", "job", "instance", "cgroup", "unit", "container_id"], "CPUs used", height=12,
        description="Of all levels: a cgroup holds those below it. Empty cells: not counted there.")


def quality():
    mappings = [{"type": "value", "options": {str(place): {"text": state, "color": color, "index": place}
                                              for place, (state, color) in enumerate(STATES)}}]
    yield row("Quality: how well it is counted, and what is not")
    yield lines("Running share per CPU, by group", (running("cpu", f"{MACHINE}, group"), "{{instance}} {{group}}"),
                unit="percentunit",
                description="Below 100 %, more events are configured than the PMU has counters: they take turns, and "
                            "totals are estimates.")
    yield lines("Running share in cgroups, least $top",
                (f'bottomk($top, {of_pods(running("cgroup", f"{CGROUP}, group"))})',
                 "{{instance}} {{cgroup}} {{group}}"), unit="percentunit")
    yield text("**ok** counted all the time · **multiplexed** part of the time: totals are estimates · "
               "**never_scheduled** the group is too large for the PMU, or others have its counters · "
               "**stalled** it runs and does not count, as in some virtual machines · "
               "**never_fires** it was provoked and not counted · "
               "**unsupported** the machine has no such thing · **denied** a privilege is missing · "
               "**failed** anything else.\n\n"
               "All but the first two have no series. Why an event is not counted is at `/api/v1/events` of the daemon "
               "(a click on its row), and why a cgroup is left out at `/api/v1/cgroups`.", 8, 8)
    yield table("What is not counted, and its state",
                [("", with_address(f'max by ({MACHINE}, scope, group, event, pmu, state) '
                                   f'(perf_event_state{{{SELECTED}, state!~"ok|multiplexed"}})'), "short")],
                ["cluster", "job", "instance", "scope", "group", "event", "pmu", "state", "address"], "instance",
                height=9,
                links=[{"title": f"Why: /api/v1/events{by}",
                        "url": f"{scheme}://${{__data.fields.address}}/api/v1/events",
                        "targetBlank": True} for scheme, by in (("http", ""), ("https", ", by TLS"))])
    yield panel("state-timeline", "States of events",
                [target(0, state_numbers(), "{{instance}} {{scope}} {{event}} {{pmu}}")], width=16, height=12,
                defaults={"mappings": mappings, "color": {"mode": "thresholds"},
                          "custom": {"fillOpacity": 70, "lineWidth": 0}},
                options={"mergeValues": True, "showValue": "never", "rowHeight": 0.9,
                         "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}})
    yield lines("Cgroups by what is done with them", (own("cgroups"), "{{instance}} {{state}}"), height=12)


def daemon():
    yield row("perfmond itself")
    yield lines("CPU", (own_rate("cpu_seconds"), "{{instance}}"), unit="percentunit", description="Of one CPU.")
    yield lines("Memory", (own("resident_memory_bytes"), "{{instance}} resident"),
                (own("saved_bytes"), "{{instance}} saved for the next start"),
                (own("unsent_bytes"), "{{instance}} answers that clients have not taken yet"), unit="bytes")
    yield lines("Time that one reading takes",
                (f'{own_rate("read_seconds")} / ({own_rate("reads")} > 0)', "{{instance}}"),
                (own("loop_lag_seconds"), "{{instance}} loop lag"), unit="s",
                description="A reading is of all counters. Loop lag: the longest turn of the loop within a minute.")
    yield lines("Readings and scrapes", (own_rate("reads"), "{{instance}} readings"),
                (own_rate("scrapes"), "{{instance}} scrapes"),
                (own_rate("renderings"), "{{instance}} scrapes that were written anew"), unit="cps")
    yield lines("Open files", (own("open_events"), "{{instance}} perf events"),
                (own("needed_fds"), "{{instance}} wanted"), (own("max_fds"), "{{instance}} limit"),
                (own("kept_events"), "{{instance}} in the fd store"), log=True, floor=None)
    yield lines("Readings that failed", (own_rate("read_errors"), "{{instance}} errors"),
                (own_rate("readings_refused"), "{{instance}} went down: refused"), unit="cps")
    yield lines("Following the tree", (own_rate("cgroups_missed"), "{{instance}} gone before they were counted"),
                (own_rate("cgroups_pushed_out"), "{{instance}} removed and not shown to the end of linger"),
                (own_rate("cgroup_rescans"), "{{instance}} whole tree read again"),
                (own_rate("inotify_overflows"), "{{instance}} inotify overflows"), unit="cps")
    yield lines("Directories watched", (own("inotify_watches"), "{{instance}} watched"),
                (own("inotify_watches_missing"), "{{instance}} for want of watches not"))
    yield lines("Reloads, and saves for the next start",
                (f"increase(perfmond_reloads_total{{{SELECTED}}}[$__rate_interval])", "{{instance}} reloads"),
                (f"increase(perfmond_reload_failures_total{{{SELECTED}}}[$__rate_interval])", "{{instance}} refused"),
                (f"increase(perfmond_saves_total{{{SELECTED}}}[$__rate_interval])", "{{instance}} saves"))
    yield lines("Time spent on what is kept for the next start", (own_rate("save_seconds"), "{{instance}}"),
                unit="percentunit")
    yield lines("HTTP, by status", (own_rate("http_requests"), "{{instance}} {{code}}"), unit="cps")
    yield lines("Connections", (own("connections"), "{{instance}} open"),
                (own_rate("connections_refused"), "{{instance}} refused a second: {{reason}}"),
                (own_rate("connections_dropped"), "{{instance}} dropped a second: {{reason}}"))
    yield lines("CPUs", (own("cpus"), "{{instance}} counted"), (own("cpus_offline"), "{{instance}} offline"))
    yield table("Builds", [("", f"max by ({MACHINE}, version) (perfmond_build_info{{{SELECTED}}})", "short"),
                           ("started", f"perfmond_start_time_seconds{{{SELECTED}}} * 1000", "dateTimeAsIso"),
                           ("interval", own("interval_seconds"), "s")],
                ["cluster", "job", "instance", "version"], "instance", width=8)


# --- the dashboard

class Grid:
    """Gives panels their places, from left to right and from top to bottom."""

    def __init__(self, y=0):
        self.x, self.y, self.height = 0, y, 0

    def place(self, one):
        pos = one["gridPos"]
        if self.x + pos["w"] > 24:
            self.x, self.y, self.height = 0, self.y + self.height, 0
        place = {"x": self.x, "y": self.y, **pos}
        self.x, self.height = self.x + pos["w"], max(self.height, pos["h"])
        return {**one, "gridPos": place}


def placed(panels):
    """With ids and places. What is in a folded row takes no place in the grid of the others."""
    grid, inner, folded, result = Grid(), None, None, []
    for number_, one in enumerate(panels, 1):
        one = {"id": number_, **one}
        if one["type"] != "row" and folded:
            folded["panels"].append(inner.place(one))
            continue
        result.append(grid.place(one))
        folded = result[-1] if one["type"] == "row" and one["collapsed"] else None
        inner = Grid(result[-1]["gridPos"]["y"] + 1)
    return result


def variable(kind, name, label, **more):
    return {"type": kind, "name": name, "label": label, "hide": 0, "skipUrlSync": False, **more}


def label_values(name, label, query, **more):
    return variable("query", name, label, datasource=DATASOURCE, definition=query, refresh=2, sort=1,
                    query={"query": query, "refId": name}, **more)


def variables():
    several = {"includeAll": True, "multi": True, "current": {"text": ["All"], "value": ["$__all"]}}
    # All of a label that may not be there: .* holds for series without it, too.
    perhaps = {**several, "allValue": ".*"}
    pods = f"{NAMED}{SELECTED}"
    steps, levels = ["5", "10", "20", "50"], {"leaves": "== 0", "all levels": ">= 0"}
    return [
        variable("datasource", "datasource", "Prometheus", query="prometheus", refresh=1, regex="",
                 includeAll=False, multi=False, current={}),
        label_values("cluster", "Clusters", "label_values(perfmond_build_info, cluster)", **perhaps),
        label_values("job", "Jobs", 'label_values(perfmond_build_info{cluster=~"$cluster"}, job)', **several),
        label_values("instance", "Machines",
                     'label_values(perfmond_build_info{cluster=~"$cluster", job=~"$job"}, instance)', **several),
        label_values("namespace", "Namespaces", f"label_values({pods}}}, namespace)", **perhaps),
        label_values("pod", "Pods", f'label_values({pods}, namespace=~"$namespace"}}, pod)', **perhaps),
        variable("textbox", "cgroup", "Cgroups (regex)", query="/.+",
                 description="On the whole path: /.+ is all but the root, /system.slice/[^/]+ the services, "
                             ".*nginx.* what has nginx in its path.",
                 current={"text": "/.+", "value": "/.+"}, options=[{"text": "/.+", "value": "/.+", "selected": True}]),
        variable("custom", "top", "Top", query=",".join(steps), multi=False, includeAll=False,
                 current={"text": "10", "value": "10"},
                 options=[{"text": step, "value": step, "selected": step == "10"} for step in steps]),
        variable("custom", "level", "of", query=",".join(f"{text} : {value}" for text, value in levels.items()),
                 description="Leaves have no other cgroups below them; all others hold what is below them.",
                 multi=False, includeAll=False, current={"text": "leaves", "value": "== 0"},
                 options=[{"text": text_, "value": value, "selected": text_ == "leaves"}
                          for text_, value in levels.items()]),
        variable("textbox", "port", "Port", query="9753",
                 description="For links to machines whose instance is a name without a port.",
                 current={"text": "9753", "value": "9753"},
                 options=[{"text": "9753", "value": "9753", "selected": True}]),
    ]


def dashboard():
    return {
        "uid": "perfmond", "title": "perfmond", "tags": ["perf", "cgroups"], "schemaVersion": 39, "version": 1,
        "description": "perf events per CPU and per cgroup, as perfmond counts them",
        "editable": True, "graphTooltip": 1, "timezone": "", "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"}, "links": [],
        "annotations": {"list": [{
            "name": "Starts of perfmond", "enable": True, "datasource": DATASOURCE, "iconColor": "blue",
            "expr": f"perfmond_start_time_seconds{{{SELECTED}}} * 1000", "useValueForTime": True, "step": "60s",
            "titleFormat": "perfmond was started", "textFormat": "{{instance}}"}]},
        "templating": {"list": variables()},
        "panels": placed([*machine(), *cpus(), *cgroups(), *quality(), *daemon()]),
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2)
    sys.stdout.write("\n")
