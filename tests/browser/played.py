# SPDX-License-Identifier: MIT
"""A daemon that is played: the real page with the real headers, and answers that a test makes, for what no test machine
has: a PMU that is multiplexed, many CPUs, and services with names that people know."""

import json
import math
import random
import threading
import time
import urllib.parse
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
            "machine": {"hostname": "alder", "kernel": "6.18.1", "architecture": "x86_64", "cpu_model": "Fast One",
                        "cpus": 8},
            "cost": {"cpu_seconds": 2.5, "cpu_share": 0.0006, "resident_bytes": 9200000, "reads": 4000,
                     "read_seconds": 0.9, "loop_lag_seconds": 0.00021}, **others}


class Refusal(Exception):
    """What an answer's function raises: an error, with its status."""

    def __init__(self, status, words):
        super().__init__(words)
        self.status = status


class Player:
    """`events`, `cpus`, `cgroups` and `status` are what it answers with; functions are called for each answer, those
    of cpus and cgroups with the snapshot's time: what they tell is of one moment."""

    def __init__(self, page):
        self.events, self.cpus, self.cgroups, self.status = [], [], [], status()
        self.interval = 1
        self.history = {"timestamp": time.time(), "times": [], "seconds": [], "cpus": [], "cgroups": []}
        self.profile = self.heat = None  # functions of the query; None: 404
        self.asked = []  # paths
        self.ahead = 0  # seconds that the clock was set forward
        self.below = ""  # the path that a proxy in front would have it at
        self.body, self.headers = page.content, {name: page.headers[name] for name in
                                                 ("Content-Type", "Content-Security-Policy", "X-Content-Type-Options")}
        player = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                body, headers, *error = player.answer(self.path)
                self.send_response(error[0] if error else 200 if body else 404)
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
        def made(what, *args):
            return what(*args) if callable(what) else what

        def snapshot():
            now = time.time()
            cpus, cgroups = made(self.cpus, now), made(self.cgroups, now)
            shown = {"cpus": len(cpus), "cgroups": len(cgroups)}
            return {"timestamp": now + self.ahead, "monotonic_seconds": time.monotonic(), "age_seconds": 0.02,
                    "interval_seconds": self.interval, "matched": shown, "shown": shown, "cpus": cpus,
                    "cgroups": cgroups}

        self.asked.append(path)
        if path in (self.below, f"{self.below}/"):
            return self.body, self.headers
        if not path.startswith(f"{self.below}/"):
            return b"", {}
        path = path.removeprefix(self.below)
        answers = {
            "/api/v1/snapshot": snapshot,
            "/api/v1/history": lambda: made(self.history),
            "/api/v1/events": lambda: {"events": made(self.events), "sets": []},
            "/api/v1/status": lambda: made(self.status),
        }
        path, _, query = path.partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        if self.profile:
            answers["/api/v1/profile"] = lambda: self.profile(asked)
        if self.heat:
            answers["/api/v1/profile/heat"] = lambda: self.heat(asked)
        if path not in answers:
            return b"", {}
        try:
            return json.dumps(answers[path]()).encode(), {"Content-Type": "application/json"}
        except Refusal as refusal:
            return json.dumps({"error": str(refusal)}).encode(), {"Content-Type": "application/json"}, refusal.status

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


def noise(seed, now):
    """Between 0 and 1, going up and down with the time, and never twice the same way."""
    now /= 2.5
    one, two = (random.Random(f"{seed} {int(now) + k}").random() for k in (0, 1))
    return one + (two - one) * (now % 1)


def town_row(now, use, seed, bases=RATES):
    """The numbers of something that uses so many CPUs, more or less."""
    wave = 0.55 + 0.7 * noise(seed, now) ** 2 + 0.2 * noise(f"{seed}'", now)
    ratio = 0.8 + 0.5 * noise(f"{seed}/", now)
    events = {}
    for text, rate in bases.items():
        # Of a thing, instructions follow cycles, and all else is as it is.
        kind = random.Random(f"{seed} {text}").uniform(0.5, 1.5) if text not in ("cycles", "instructions") else 1
        usual = rate * use * (kind * ratio if text == "instructions" else kind)
        share = PMU_SHARE if text in ("cache-misses", "branch-misses") else 1
        events[text.replace("-", "_")] = value(usual * wave, running=share, peak=usual * 1.45)
    return events


def busy_seconds(now, cpu):
    """Of a CPU of the town: it uses a share that swings, CPU 6 nearly all of its time."""
    passed = now % 1e6
    return round(passed * (0.85 if cpu == 6 else 0.15 + cpu / 25) + 0.7 * math.sin(passed / 6 + cpu), 2)


def town_cpus(now):
    rows = [(cpu, town_row(now, 0.6, cpu)) for cpu in range(8)]
    return [{"cpu": cpu, "busy_seconds": busy_seconds(now, cpu), "events": events, "derived": town_ratios(events)}
            for cpu, events in rows]


def many_cpus(nr):
    """A function that gives so many CPUs; the higher its number, the busier a CPU is, up to all of the time."""
    begin = time.time()

    def rows(now):
        passed = now - begin
        made = []
        for cpu in range(nr):
            events = town_row(now, cpu / nr, cpu)
            made.append({"cpu": cpu, "busy_seconds": round(1000 + passed * (cpu + 1) / nr, 2), "events": events,
                         "derived": town_ratios(events)})
        return made

    return rows


def past_of(path, nr=60):
    """The last seconds of a cgroup, as /api/v1/history has them."""
    now = time.time()
    rates = {text.replace("-", "_"): [rate * noise(f"{text} {i}", now) for i in range(nr)]
             for text, rate in {**RATES, "task-clock": 0.5}.items()}
    return {"timestamp": now, "times": [now - nr + i + 1 for i in range(nr)], "seconds": [1] * nr, "cpus": [],
            "cgroups": [{"cgroup": path, "events": rates}]}


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


def town_cgroups(now):
    """A cgroup has what those below it have."""
    rows = {}
    for path, use in SERVICES.items():
        events = town_row(now, use * 0.5, path, {**RATES, "task-clock": 1})
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
    player.status = status(cgroups={"counted": len(town_cgroups(time.time()))})
    player.events, player.cpus, player.cgroups = town_events(), town_cpus, town_cgroups
