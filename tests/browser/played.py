# SPDX-License-Identifier: MIT
"""A daemon that is played: the real page with the real headers, and answers that a test makes, for what no test machine
has: a PMU that is multiplexed, many CPUs, and services with names that people know."""

import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def event(scope, text, group="core", unit=None, state="ok", reason=None):
    name = text.replace("-", "_").replace(":", "_")
    return {"scope": scope, "group": group, "event": name, "text": text, "pmu": "cpu", "unit": unit, "state": state,
            "reason": reason}


def value(rate, running=1, state="ok", unit=None, peak=None):
    """An event's numbers, as the API has them."""
    made = {"total": int(rate * 1000), "rate": rate, "rate_1m": rate * 0.9, "rate_5m": rate * 0.8,
            "rate_peak": rate * 2.5 if peak is None else peak, "running": running, "state": state}
    return {**made, "unit": unit} if unit else made


def status(**others):
    return {"version": "0.1.0", "pid": 1, "start_time": 1000.5, "uptime_seconds": 4000.0, "problems": [],
            "files": {"events": 508, "limit": 524288}, "cgroups": {"counted": 40},
            "cost": {"cpu_seconds": 2.5, "cpu_share": 0.0006, "resident_bytes": 9200000, "reads": 4000,
                     "read_seconds": 0.9, "loop_lag_seconds": 0.00021}, **others}


class Player:
    """`events`, `cpus`, `cgroups` and `status` are what it answers with; functions are called for each answer."""

    def __init__(self, page):
        self.events, self.cpus, self.cgroups, self.status = [], [], [], status()
        self.asked = []  # paths
        self.body, self.headers = page.content, {name: page.headers[name] for name in
                                                 ("Content-Type", "Content-Security-Policy", "X-Content-Type-Options")}
        player = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                body, headers = player.answer(self.path)
                self.send_response(200 if body else 404)
                for name, text in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path):
        def now(what):
            return what() if callable(what) else what

        self.asked.append(path)
        if path == "/":
            return self.body, self.headers
        cpus, cgroups = now(self.cpus), now(self.cgroups)
        shown = {"cpus": len(cpus), "cgroups": len(cgroups)}
        answers = {
            "/api/v1/snapshot": lambda: {"timestamp": time.time(), "age_seconds": 0.02, "interval_seconds": 1,
                                         "matched": shown, "shown": shown, "cpus": cpus, "cgroups": cgroups},
            "/api/v1/events": lambda: {"events": now(self.events), "sets": []},
            "/api/v1/status": lambda: now(self.status),
        }
        if path not in answers:
            return b"", {}
        return json.dumps(answers[path]()).encode(), {"Content-Type": "application/json"}

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


# --- a machine as one would have it: a web server, a database, containers, users

SERVICES = {
    "/system.slice/postgresql.service": 1.9, "/system.slice/nginx.service": 0.64, "/system.slice/redis.service": 0.31,
    "/system.slice/docker.service": 0.045, "/system.slice/ssh.service": 0.002, "/system.slice/cron.service": 0,
    "/system.slice/systemd-journald.service": 0.021, "/system.slice/systemd-udevd.service": 0,
    "/system.slice/systemd-networkd.service": 0.0011, "/system.slice/prometheus.service": 0.12,
    "/system.slice/perfmond.service": 0.0006, "/system.slice/node-exporter.service": 0.007,
    "/kubepods.slice/burstable/checkout": 1.12, "/kubepods.slice/burstable/search": 2.4,
    "/kubepods.slice/burstable/thumbnails": 0.77, "/kubepods.slice/besteffort/nightly-report": 0.4,
    "/user.slice/user-1000.slice/session-3.scope": 0.083, "/user.slice/user-1000.slice/user@1000.service": 0.004,
    "/init.scope": 0.0002,
}
RATES = {"cycles": 2.9e9, "instructions": 3.7e9, "cache-misses": 4.1e6, "branch-misses": 9.2e6,
         "context-switches": 3100, "cpu-migrations": 21, "page-faults": 1800, "major-faults": 0.4}
HARDWARE = ("cycles", "instructions", "cache-misses", "branch-misses")
PMU_SHARE = 0.74


def town_events():
    shared = {"state": "multiplexed"}
    events = [event(scope, text, **(shared if text in ("cache-misses", "branch-misses") else {}))
              for scope in ("cpu", "cgroup") for text in RATES]
    lost = {"group": "power", "state": "unsupported", "reason": "PMU 'power' does not have this event (ENOENT)"}
    return [*events, event("cgroup", "task-clock", unit="seconds"), event("cpu", "power/energy-gpu/", **lost)]


def noise(seed):
    """Between 0 and 1, going up and down with the time, and never twice the same way."""
    now = time.time() / 2.5
    one, two = (random.Random(f"{seed} {int(now) + k}").random() for k in (0, 1))
    return one + (two - one) * (now % 1)


def town_row(use, seed, bases=RATES):
    """The numbers of something that uses so many CPUs, more or less."""
    wave, ratio = 0.55 + 0.7 * noise(seed) ** 2 + 0.2 * noise(f"{seed}'"), 0.8 + 0.5 * noise(f"{seed}/")
    events = {}
    for text, rate in bases.items():
        # Of a thing, instructions follow cycles, and all else is as it is.
        kind = random.Random(f"{seed} {text}").uniform(0.5, 1.5) if text not in ("cycles", "instructions") else 1
        usual = rate * use * (kind * ratio if text == "instructions" else kind)
        share = PMU_SHARE if text in ("cache-misses", "branch-misses") else 1
        events[text.replace("-", "_")] = value(usual * wave, running=share, peak=usual * 1.45)
    return events


def town_cpus():
    rows = [(cpu, town_row(0.6, cpu)) for cpu in range(8)]
    return [{"cpu": cpu, "events": events, "derived": town_ratios(events)} for cpu, events in rows]


def town_ratios(events):
    cycles, clock = events["cycles"]["rate"], events.get("task_clock")
    return {**({"ipc": events["instructions"]["rate"] / cycles} if cycles else {}),
            **({"cpus_utilized": clock["rate"]} if clock else {})}


def add_up(into, events):
    parts = ("total", "rate", "rate_1m", "rate_5m", "rate_peak")
    for key, it in events.items():
        sums = into.setdefault(key, {**it, **dict.fromkeys(parts, 0)})
        for part in parts:
            sums[part] += it[part]


def town_cgroups():
    """A cgroup has what those below it have."""
    rows = {}
    for path, use in SERVICES.items():
        events = town_row(use * 0.5, path, {**RATES, "task-clock": 1})
        events["task_clock"]["unit"] = "seconds"
        while path:
            add_up(rows.setdefault(path, {}), events)
            path = path.rpartition("/")[0]
        add_up(rows.setdefault("/", {}), events)
    made = [{"cgroup": path, "id": number + 1, "events": events, "derived": town_ratios(events)}
            for number, (path, events) in enumerate(sorted(rows.items()))]
    del made[0]["derived"]["cpus_utilized"]
    return made


def play_town(player):
    player.status = status(cgroups={"counted": len(town_cgroups())})
    player.events, player.cpus, player.cgroups = town_events(), town_cpus, town_cgroups
