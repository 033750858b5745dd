# SPDX-License-Identifier: MIT
"""How true the estimates of the engine are that credits the CPUs' events to cgroups, when its budget is used up.

Each storm of switches is run once without pauses, which counts it to the last instruction, and then within budgets. The
guest's PMU counts instructions, and its load does the same work each time: the two differ by the estimates alone. After
a storm each cgroup works a little without switches: the end of the storm is scaled with that. A line of JSON for each
case has the errors in percent of the cgroups that are shown.

To read counters takes instructions of the kernel, and the exact run has most of these readings. So with the kernel's,
the common parent is compared with what the CPU has counted in the same run, less what others took in the exact one:
they do the same in both. Where they do more than the storm, it is compared with the exact run, which then has few
readings.
"""

import json

import pytest

import guests as machines
from harness import FRESH, Metrics

ROOT = "/sys/fs/cgroup"
CGROUPS = ["/n1", "/n1/a", "/n1/b", "/n1/p", "/n1/p/c"]
USER, ALL = (f"perf_cgroup_instructions{which}_total" for which in ("_user", ""))

# By budget: the error of /n1, in percent. The worst in five rounds was 1.7, 4.0 and 5.3. Where pauses are not scaled,
# the storm `equal` is 25, 80 and 95 % too low; where what readings count is scaled too, 3.5, 11 and 14 % too high.
BOUNDS = {"20%": 3, "5%": 6, "1%": 8}

# Of any cgroup that is shown. In the storm `one-rare`, 13 of 500 turns are observed of one of them within 1 %: it is
# absent, and was up to 37 % off when it was shown all the same.
BOUND_OF_ANY = 20

# 4 ms without a switch, when the budget has filled up.
PLAIN = "sleep 0.5; load join:{} instructions:250000 leave"


def at_once(*loads):
    """Starts them."""
    return "".join(f"load {load} &\n" for load in loads)


def jobs(nr):
    """One after the other, each in a cgroup of its own."""
    return f"""
        for i in $(seq {nr}); do
            mkdir {ROOT}/n1/p/job$i
            load join:n1/p/job$i instructions:200000 leave
            rmdir {ROOT}/n1/p/job$i
        done
        """


STORMS = {
    "equal": at_once("join:n1/a yield:20000 leave", "join:n1/p/c yield:20000 leave"),
    "unequal": at_once("join:n1/a yield:30000:500 leave", "join:n1/p/c yield:15000:4000 leave"),
    # The nice one takes about as long for its turns as the others for theirs.
    "one-rare": at_once("join:n1/a yield:20000 leave", "join:n1/b yield:20000 leave",
                        "nice:16 join:n1/p/c yield:500 leave"),
    "calls": at_once("join:n1/a yield:8000 getsid:20000 yield:8000:500 leave",
                     "join:n1/b yield:6000:500 getsid:10000 yield:6000:6000 leave",
                     "join:n1/p/c yield:4000 getsid:4000 yield:4000 getsid:4000 yield:4000 leave"),
    "moves": at_once("join:n1/a yield:7000 join:n1/p/c yield:7000:500 join:n1/b yield:7000 leave",
                     "join:n1/p/c yield:7000:4000 join:n1/a yield:7000 join:n1/p yield:7000 leave"),
    "jobs": jobs(300),
    "jobs beside a storm": at_once("join:n1/a yield:30000 leave", "join:n1/b yield:30000:1000 leave") + jobs(100),
}


class Run:
    """A storm under a daemon: what each cgroup has counted of it, and the part of its time that was observed."""

    def __init__(self, guest, script, budget):
        daemon = machines.Daemon(guest, machines.config("events = instructions, instructions:u", scope="cpu cgroup",
                                                        include="/ /**", interval="1s", engine="bpf", budget=budget))
        fresh = f"sleep {FRESH}; {daemon.wget('/metrics')}; echo; echo ====="
        worked = [cgroup for cgroup in CGROUPS if f"join:{cgroup[1:]} " in script]
        plain = "\n".join(PLAIN.format(cgroup[1:]) for cgroup in worked)
        try:
            assert "bpf" in daemon.json("/api/v1/status")["engine"]
            # In one script: between two there is no telling how much time passes in the guest.
            texts = guest.run(f"{fresh}\n{script}wait\n{fresh}\n{plain}\n{fresh}").split("=====\n")
        finally:
            daemon.stop()
        self.before, self.storm, self.after = map(Metrics, texts[:3])
        self.counts = {cgroup: self.of(USER, cgroup=cgroup) for cgroup in CGROUPS}
        self.all = self.of(ALL, cgroup="/n1")
        self.cpu = self.of("perf_cpu_instructions_total", cpu="0")

    def of(self, name, after=None, **labels):
        return ((after or self.after).get(name, **labels) or 0) - (self.before.get(name, **labels) or 0)

    def observed(self, cgroup):
        enabled, running = (self.of(f"perf_cgroup_group_{what}_seconds_total", self.storm, group="g0", cgroup=cgroup)
                            for what in ("enabled", "running"))
        return round(running / enabled, 4) if enabled else None

    def shows(self, cgroup):
        return self.after.get(USER, cgroup=cgroup) is not None

    def fell(self):
        """Cgroups with less than before."""
        return [cgroup for cgroup in CGROUPS if self.shows(cgroup) and
                not 0 <= self.of(USER, self.storm, cgroup=cgroup) <= self.counts[cgroup]]

    def zeros(self, exact):
        """Cgroups that have worked and are shown with 0; to show nothing is no lie."""
        return [cgroup for cgroup in CGROUPS for when in (self.storm, self.after)
                if when.get(USER, cgroup=cgroup) == 0 and exact.counts[cgroup] > 0]


def true_all(run, exact):
    """The instructions of /n1 in the run, with the kernel's."""
    others = exact.cpu - exact.all
    return run.cpu - others if others < exact.all else exact.all


def percent(count, true):
    return round(100 * (count / true - 1), 2)


@pytest.fixture(scope="module", params=STORMS)
def storm(exact, request):
    """The name of a storm, and its exact run."""
    folders = [ROOT + cgroup for cgroup in CGROUPS]
    exact.run(f"mkdir -p {' '.join(folders)}")
    run = Run(exact, STORMS[request.param], "100%")
    assert run.observed("/n1") == pytest.approx(1, abs=0.001)
    yield request.param, run
    exact.run(f"sleep 0.1; rmdir {' '.join(folders[::-1])}")


@pytest.mark.parametrize("budget", BOUNDS)
def test_storm(guest, storm, budget):
    name, exact = storm
    run = Run(guest, STORMS[name], budget)
    worked = [cgroup for cgroup in CGROUPS if exact.counts[cgroup]]
    user = {cgroup: percent(run.counts[cgroup], exact.counts[cgroup]) for cgroup in worked if run.shows(cgroup)}
    everything = percent(run.all, true_all(run, exact))
    print(json.dumps({"storm": name, "budget": budget, "observed": {cgroup: run.observed(cgroup) for cgroup in worked},
                      "user": user, "all": everything}))
    assert not run.zeros(exact) and not run.fell()
    assert max(abs(user["/n1"]), abs(everything)) <= BOUNDS[budget]
    assert max(map(abs, user.values())) <= BOUND_OF_ANY
