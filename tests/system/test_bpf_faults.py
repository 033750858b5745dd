# SPDX-License-Identifier: MIT
"""The BPF engine where bpf(2) or mmap(2) fail: at the start, at a reload, while it counts, at a restart. Perf counts
then; it is said why in words, the daemon goes on, and no number is false.
"""

import errno
import random
import re
import signal

import pytest

from bpf_calls import Calls, failing, holding, in_earnest, refused
from harness import PATIENCE, leeway, run, until
from machine import needs
from test_bpf import FAULTS, config, of, rise, wait_counted

pytestmark = needs("bpf")
deep = pytest.mark.deep

VERIFIER = """0: R1=ctx(off=0,imm=0) R10=fp0
0: (79) r2 = *(u64 *)(r1 +8)
R2 invalid mem access 'scalar'
processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""

# What fails, and what is said of it.
AT_START = {
    "memory": (failing(errno.ENOMEM, "map_create"), r"no memory for the maps of BPF programs \(ENOMEM\)"),
    "privilege": (failing(errno.EPERM, "map_create", "prog_load", "btf_load"),
                  r"the kernel refuses BPF programs \(EPERM\): CAP_BPF is needed"),
    "seccomp": (failing(errno.ENOSYS, "map_create", "prog_load", "btf_load"), r"no bpf\(2\), or a seccomp filter"),
    "verifier": (refused(VERIFIER), r"its BPF programs can't be loaded \(EACCES\): libbpf: .*"
                                    r"R2 invalid mem access 'scalar'"),
    "attaching": (failing(errno.EOPNOTSUPP, "attach"), r"can't be loaded \(EOPNOTSUPP\): .*attach"),
    "mapping": (failing(errno.ENOMEM, "mmap"), r"no memory for the maps of BPF programs \(ENOMEM\)"),
    "mapping not allowed": (failing(errno.EPERM, "mmap"), r"the kernel refuses BPF programs \(EPERM\)"),
    "writing a map": (failing(errno.E2BIG, "update"), r"can't be loaded \(E2BIG\)"),
}

NOT_BY_CREDITING = "cgroups are counted by perf events of their own, and not by crediting: .*"


@pytest.fixture
def calls():
    """Made before the daemon, and closed after it has ended."""
    made = []

    def new():
        made.append(Calls())
        return made[-1]

    yield new
    for one in made:
        one.close()


def problem(daemon):
    """What is said of the engine, or ""."""
    found = [text for text in daemon.json("/api/v1/status")["problems"] if "not by crediting" in text]
    return found[0] if found else ""


def engine(daemon):
    return daemon.json("/api/v1/status")["engine"]


def assert_exact(daemon, group, helper, nr=300):
    before, at = daemon.fresh(), helper.faults()
    helper.do(f"faults {nr}")
    after = daemon.fresh()
    assert rise(before, after, group) == helper.faults() - at


def with_many(text):
    """The config with more events per cgroup than the programs are loaded for at first."""
    labels = ", ".join(f"clock{i}=task-clock" for i in range(20))
    return text.replace("groups = work", "groups = work many") + f'[group "many"]\nevents = {labels}\n'


# --- at the start

def test_programs_of_the_trial_go_on_to_count(calls, perfmond, cgroups):
    """To check the programs takes the kernel long: those of the trial go on to count. A plan with more events than they
    have numbers for has them loaded anew."""
    made, text = calls(), config(cgroups)
    daemon = perfmond(text, **made.options)
    wait_counted(daemon, cgroups.make("works"))
    attached = made.made["attach"]
    assert 0 < attached <= 3, "at switches, at moves, and at calls between CPUs"
    daemon.reload(text)
    assert made.made["attach"] == attached
    daemon.reload(with_many(text))
    assert "bpf" in engine(daemon) and made.made["attach"] == 2 * attached


def some_deep(*gate):
    """All that can fail; in the gate only these, where another test has said it in all words."""
    return [what if what in gate else pytest.param(what, marks=deep) for what in AT_START]


@pytest.mark.parametrize(("when", "what"), [("trial", what) for what in AT_START] +
                         [pytest.param("earnest", what, marks=[] if what == "memory" else deep) for what in AT_START])
def test_what_fails_at_the_start_is_said_and_perf_counts(calls, perfmond, cgroups, work, cpus, what, when):
    """It fails when the programs are tried, or after that, when they are loaded anew for a plan with more events than
    the trial had numbers for. Perf counts, and exactly."""
    rule, sentence = AT_START[what]
    group = cgroups.make("works")
    helper, made = work(group, cpus[0]), calls()
    made.rule = rule if when == "trial" else in_earnest(rule)
    text = config(cgroups, "bpf" if what == "attaching" else "auto")
    daemon = perfmond(with_many(text) if when == "earnest" else text, **made.options)
    told = until(lambda: problem(daemon), "it is said")
    assert re.fullmatch(NOT_BY_CREDITING + f"({sentence}).*", told), told
    daemon.wait_log(NOT_BY_CREDITING)
    wait_counted(daemon, group)
    assert "bpf" not in engine(daemon) and sum(made.failed.values()) > 0
    assert daemon.fresh().state("page_faults", "cgroup") == "ok"
    assert_exact(daemon, group, helper)

    # It is tried once, not by each cgroup and not at each reading.
    failed = sum(made.failed.values())
    for i in range(20):
        cgroups.make(f"more{i}")
    wait_counted(daemon, cgroups.make("last"))
    assert sum(made.failed.values()) == failed


def test_check_says_why_cgroups_are_not_credited(calls, cgroups, tmp_path):
    path, made = tmp_path / "check.conf", calls()
    path.write_text(config(cgroups, "auto"), encoding="utf-8")
    made.rule = failing(errno.ENOMEM, "map_create")
    options = made.options
    done = run("--check", f"--config={path}", prefix=options["prefix"], pass_fds=options["fds"])
    assert re.search(NOT_BY_CREDITING + "no memory for the maps", done.stdout), done.stdout
    assert re.search(r"work +page-faults +ok", done.stdout), done.stdout


# --- at a reload

@pytest.mark.parametrize("what", some_deep("verifier", "mapping"))
def test_what_fails_at_a_reload_loses_nothing(calls, perfmond, cgroups, work, cpus, what):
    """From perf to a BPF engine that can't be loaded, and when it can: totals go on, and lose nothing."""
    rule, sentence = AT_START[what]
    group = cgroups.make("works")
    helper, made = work(group, cpus[0]), calls()
    daemon = perfmond(config(cgroups, "perf"), **made.options)
    wait_counted(daemon, group)
    before, at = daemon.fresh(), helper.faults()
    made.rule = rule
    helper.do("faults 300")
    daemon.reload(config(cgroups, "auto"))
    assert re.fullmatch(NOT_BY_CREDITING + f"({sentence}).*", problem(daemon)), problem(daemon)
    helper.do("faults 300")
    made.rule = None
    # A trial that failed holds for a second.
    until(lambda: daemon.reload(config(cgroups, "auto")) and not problem(daemon), "it is tried again")
    assert "bpf" in engine(daemon)
    helper.do("faults 300")
    after = daemon.fresh()
    assert rise(before, after, group) == helper.faults() - at


def test_perf_counts_where_programs_for_more_events_fail(calls, perfmond, cgroups, work, cpus):
    """More events than the numbers that were set aside: the programs are loaded anew, and can't be."""
    group = cgroups.make("works")
    helper, made = work(group, cpus[0]), calls()
    text = config(cgroups, "auto")
    daemon = perfmond(text, **made.options)
    wait_counted(daemon, group)
    assert "bpf" in engine(daemon)
    before, at = daemon.fresh(), helper.faults()
    helper.do("faults 300")
    made.rule = failing(errno.ENOMEM, "map_create")
    daemon.reload(with_many(text))
    until(lambda: "no memory for the maps" in problem(daemon), "perf counts")
    until(lambda: daemon.metrics().get("perf_cgroup_clock19_seconds_total", cgroup=group.label) is not None, "counted")
    assert_exact(daemon, group, helper)
    after = daemon.fresh()
    # Between the two engines, some may be lost; nothing is counted twice.
    assert 600 <= rise(before, after, group) <= helper.faults() - at + leeway("page_faults")


@pytest.mark.parametrize("before", ["perf", "auto"])
def test_a_load_holds_nothing_up(calls, perfmond, cgroups, work, cpus, before):
    """A reload has programs loaded in a thread. Meanwhile the old config is in force: the daemon answers, and counts
    exactly. What was written to the config meanwhile is in force after it."""
    group = cgroups.make("works")
    helper, made = work(group, cpus[0]), calls()
    daemon = perfmond(config(cgroups, before), **made.options)
    wait_counted(daemon, group)
    first, at = daemon.fresh(), helper.faults()
    made.rule = holding("prog_load")
    daemon.configure(with_many(config(cgroups)))
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: made.held, "programs are loaded")
    helper.do("faults 300")
    assert rise(first, daemon.fresh(), group) == helper.faults() - at
    assert daemon.metrics().value("perfmond_reloads_total") == 0
    assert ("bpf" in engine(daemon)) == (before == "auto")
    daemon.configure(with_many(config(cgroups)).replace("clock19", "last"))
    daemon.process.send_signal(signal.SIGHUP)
    helper.do("faults 300")
    made.release()
    until(lambda: daemon.metrics().get("perf_cgroup_last_seconds_total", cgroup=group.label) is not None, "counted")
    helper.do("faults 300")
    assert rise(first, daemon.fresh(), group) == helper.faults() - at
    assert "bpf" in engine(daemon) and daemon.metrics().value("perfmond_reload_failures_total") == 0


def test_a_stop_waits_for_a_load(calls, perfmond, cgroups):
    made = calls()
    daemon = perfmond(config(cgroups, "perf"), **made.options)
    made.rule = holding("prog_load")
    daemon.configure(config(cgroups, "auto"))
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: made.held, "programs are loaded")
    daemon.process.send_signal(signal.SIGTERM)
    daemon.wait_log("stopping on")
    made.release()
    assert daemon.process.wait(PATIENCE) == 0


# --- while it counts

IN_SERVICE = ["lookup", "update", "delete", "next_key", "pop", "test_run", "info"]


def rises(before, after, groups):
    return [rise(before, after, group) for group in groups]


@pytest.mark.parametrize(("name", "turns"), [(name, 2) for name in ("lookup", "update", "test_run")] +
                         [pytest.param(name, 8, marks=deep) for name in IN_SERVICE])
def test_what_fails_while_it_counts_makes_no_count_too_high(calls, perfmond, cgroups, work, cpus, name, turns):
    """Calls of a kind fail for a while, and cgroups come, run and go. No cgroup has more than its tasks did, a parent
    has at least what its children have; when all is well again, all is exact again."""
    parent = cgroups.make("parent")
    stays = [parent.make(f"stays{i}") for i in range(2)]
    made = calls()
    daemon = perfmond(config(cgroups, more="linger = 0s"), **made.options)
    wait_counted(daemon, parent, *stays)
    helpers = [work(group, cpus[i % len(cpus)]) for i, group in enumerate(stays)]
    before, at = daemon.fresh(), [helper.faults() for helper in helpers]
    made.rule = failing(errno.EBUSY, name)
    for turn in range(turns):
        brief = parent.make(f"brief{turn}")
        helper = work(brief, cpus[0])
        for busy in (helper, *helpers):
            busy.do("faults 50")
        daemon.fresh()
        helper.stop()
        brief.remove()
        middle = daemon.fresh()
        own = rises(before, middle, stays)
        most = leeway("page_faults")
        assert all(mine <= helper.faults() - was + most for mine, helper, was in zip(own, helpers, at)), (name, own)
        assert rise(before, middle, parent) >= sum(own)
    made.rule = None
    after = daemon.fresh()
    if name in ("lookup", "delete", "next_key", "info"):
        assert rises(before, after, stays) == [helper.faults() - was for helper, was in zip(helpers, at)]
    for group, helper in zip(stays, helpers):
        assert_exact(daemon, group, helper)
    late = parent.make("late")
    helper = work(late, cpus[0])
    wait_counted(daemon, late)
    assert_exact(daemon, late, helper)
    # Of the others there may be none in so short a time.
    assert made.failed[name] > 0 or name in ("next_key", "pop", "info", "update"), made.made


def test_a_cpu_that_can_not_be_asked_keeps_what_was_credited(calls, perfmond, cgroups, work, cpus):
    """What has been credited at switches is there, and the rest comes when it can be asked again."""
    group = cgroups.make("works")
    made = calls()
    daemon = perfmond(config(cgroups), **made.options)
    wait_counted(daemon, group)
    helper = work(group, cpus[0])
    made.rule = failing(errno.EINVAL, "test_run")
    before, at = daemon.fresh(), helper.faults()
    for _ in range(5):
        helper.do("faults 100")
        helper.wait_asleep()
    after = daemon.fresh()
    assert 500 <= rise(before, after, group) <= helper.faults() - at + leeway("page_faults")
    made.rule = None
    assert_exact(daemon, group, helper)


@deep
@pytest.mark.parametrize("seed", range(3))
def test_any_call_at_any_time(calls, perfmond, cgroups, work, cpus, seed):
    """One call in eight fails, with any error, while cgroups come and go and the config is reloaded from engine to
    engine."""
    dice = random.Random(seed)
    errors = [errno.ENOMEM, errno.EPERM, errno.EBUSY, errno.EINVAL, errno.E2BIG, errno.EAGAIN, errno.EIO]
    # A map's ENOENT is no failure: the key is not there.
    of_programs = [*errors, errno.ENOENT]
    made, stays = calls(), cgroups.make("stays")
    daemon = perfmond(config(cgroups, "auto"), **made.options)
    helper = work(stays, cpus[0])
    wait_counted(daemon, stays)
    seen, at, begun = daemon.fresh(), helper.faults(), daemon.fresh()

    def rule(call):
        about_keys = call.name in ("lookup", "update", "delete", "next_key", "pop")
        return dice.choice(errors if about_keys else of_programs) if dice.random() < 1 / 8 else 0
    made.rule = rule
    for turn in range(12):
        brief = cgroups.make(f"brief{turn}")
        other = work(brief, cpus[-1])
        for busy in (helper, other):
            busy.do("faults 50")
        if turn % 3 == 2:
            daemon.reload(config(cgroups, dice.choice(["auto", "perf", "bpf"])))
        other.stop()
        brief.remove()
        now = daemon.fresh()
        for key, value in seen.samples.items():
            if key[0] == FAULTS:
                assert now.samples.get(key, value) >= value, key
        seen = now
        more = (now.get(FAULTS, cgroup=stays.label) or 0) - of(begun, FAULTS, stays)
        assert more <= helper.faults() - at + leeway("page_faults"), (turn, made.log, daemon.log)
    made.rule = None
    until(lambda: daemon.reload(config(cgroups, "perf")) and daemon.fresh().get(FAULTS, cgroup=stays.label) is not None,
          "counted")
    assert_exact(daemon, stays, helper)
    assert sum(made.failed.values()) > 0


# --- at a restart

def test_a_restart_loads_nothing(calls, service, cgroups, work, cpus):
    """Programs that run need no trial."""
    group = cgroups.make("kept")
    helper, made = work(group, cpus[0]), calls()
    service.start(config(cgroups))
    service.wait_kept()
    wait_counted(service.daemon, group)
    service.stop()
    service.options = made.options
    service.start()
    assert_exact(service.daemon, group, helper)
    assert made.made["attach"] == 0 and made.made["test_run"] > 0


@pytest.mark.parametrize(("name", "error"), [
    ("info", errno.ENOMEM), ("mmap", errno.EPERM),
    pytest.param("info", errno.EPERM, marks=deep), pytest.param("mmap", errno.ENOMEM, marks=deep)])
def test_no_total_falls_where_programs_are_not_taken_over(calls, service, cgroups, work, cpus, name, error):
    """What the fd store has fails at a restart: no total falls, and counting begins anew. Where memory can't be
    mapped, perf does it."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service.start(config(cgroups, "auto"))
    service.wait_kept()
    wait_counted(service.daemon, group)
    helper.do("faults 300")
    service.fresh()
    service.stop()
    made = calls()
    made.rule = failing(error, name)
    service.options = made.options
    service.start()
    until(lambda: service.scrape().get(FAULTS, cgroup=group.label) is not None, "counted", 3 * PATIENCE)
    assert ("bpf" in engine(service.daemon)) == (name == "info")
    assert ("not by crediting" in problem(service.daemon)) == (name == "mmap")
    assert_exact(service.daemon, group, helper)
    service.fresh()
    made.rule = None
    service.stop()
    service.options = {}
    # The next one counts by crediting again.
    service.start()
    until(lambda: service.scrape().get(FAULTS, cgroup=group.label) is not None, "counted")
    assert "bpf" in engine(service.daemon)
    assert_exact(service.daemon, group, helper)
