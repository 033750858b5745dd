# SPDX-License-Identifier: MIT
"""The mount of the cgroups: which is taken, what a part of the tree is called, and what becomes of all that when mounts
change; and the places of procfs and sysfs. The daemon runs in a mount namespace of its own, which the tests change
beneath it.
"""

import contextlib
import itertools
import subprocess
import time
from pathlib import Path

import pytest

import machine
from harness import PATIENCE, perf_cgroup_mount, run, until

FAULTS = "perf_cgroup_page_faults_total"
CONFIG = """
[web]
listen = 127.0.0.1:0
[cpu]
groups = cpu
[cgroup]
groups = faults
include = {include}
linger = 1s
mount = {mount}
[group "cpu"]
events = context-switches
[group "faults"]
events = page-faults
"""
# In a mount namespace with one mount of cgroup2, whatever else the machine has mounted (a chroot's, a container's).
ONE_MOUNT = """
findmnt --raw --noheadings --output TARGET --types cgroup2 | while read -r path; do
    [ "$path" = "$0" ] || umount --lazy "$path"
done
exec "$@"
"""
UNSHARED = ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", ONE_MOUNT,
            str((perf_cgroup_mount() or [""])[0])]


@pytest.fixture
def mount(privileged):
    machine.require("cgroup2", "mount-namespace")
    return perf_cgroup_mount()[0]


def config(cgroups, mount=""):
    return CONFIG.format(include=f"{cgroups.label}/**", mount=mount)


# A mount is busy while the daemon looks at a cgroup that somebody else has made.
PATIENT = 'umount() { until command umount "$@"; do sleep 0.01; done; };'


def inside(daemon, script):
    """In the daemon's mount namespace."""
    subprocess.run(["nsenter", "--mount", "-t", str(daemon.pid), "sh", "-e", "-c", PATIENT + script], check=True,
                   timeout=PATIENCE)


# The daemon waits for a mount for 2 s, by the first look that missed it.
LESS_THAN_IT_WAITS = 1.5


class TooLong(Exception):
    """A mount was gone for longer than that."""


@contextlib.contextmanager
def for_a_moment(daemon, away, back):
    """Mounts are changed in the daemon's mount namespace, and changed back by the same shell: on a busy machine it
    takes long to start one."""
    clock = "read -r {} _ </proc/uptime;"
    script = f'{clock.format("begin")} {away}; echo; read -r _; {back}; {clock.format("end")} echo "$begin $end"'
    with subprocess.Popen(["nsenter", "--mount", "-t", str(daemon.pid), "sh", "-e", "-c", PATIENT + script],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout.readline() == "\n"
        try:
            yield
        finally:
            shell.stdin.write("\n")
            shell.stdin.flush()
            begin, end = map(float, shell.stdout.readline().split())
            if end - begin > LESS_THAN_IT_WAITS:
                raise TooLong(f"{end - begin} s")


def in_time(story, cgroups):
    """Told again with other cgroups, and another daemon, where the machine was too busy for a moment."""
    turns = itertools.count()

    def told():
        with contextlib.suppress(TooLong):
            return [story(cgroups.make(f"turn{next(turns)}"))]
        return None
    return until(told, f"a mount is gone for less than {LESS_THAN_IT_WAITS} s", 4 * PATIENCE)[0]


def status(daemon):
    return daemon.json("/api/v1/status")


def faults(daemon, cgroup):
    return daemon.fresh().value(FAULTS, cgroup=cgroup.label)


class Measured:
    """A helper in a cgroup, and what the daemon says of it. Page faults are exact."""

    def __init__(self, daemon, work, cgroup, cpu=None):
        self.daemon, self.cgroup, self.done = daemon, cgroup, 0
        self.helper = work(cgroup, cpu)
        until(lambda: daemon.metrics().get(FAULTS, cgroup=cgroup.label) is not None, "counted")
        self.start = faults(daemon, cgroup)

    def work(self, n=1000):
        self.helper.do(f"faults {n}")
        self.done += n

    def check(self):
        assert faults(self.daemon, self.cgroup) - self.start == self.done


def test_a_moved_mount_loses_nothing(mount, perfmond, cgroups, work, tmp_path):
    daemon = perfmond(config(cgroups), prefix=UNSHARED)
    measured = Measured(daemon, work, cgroups.make("a"))
    measured.work()
    there = tmp_path / "there"
    there.mkdir()
    # Not told first is the umount: the daemon never sees a moment without it.
    inside(daemon, f"mount --bind {mount} {there}")
    measured.work()
    inside(daemon, f"umount {mount}")
    measured.work()
    daemon.wait_log(rf"mounts have changed: the cgroup tree is at {there} now")
    assert status(daemon)["cgroups"]["mount"] == {"path": str(there), "version": 2, "whole": True}
    # What comes there is found at once, and what goes.
    other = Measured(daemon, work, cgroups.make("b"))
    other.work()
    other.check()
    measured.work()
    measured.check()
    other.helper.stop()
    other.cgroup.remove()
    until(lambda: daemon.metrics().get(FAULTS, cgroup=other.cgroup.label) is None, "gone")
    # And back, by the mount itself.
    inside(daemon, f"mount --move {there} {mount}")
    measured.work()
    daemon.wait_log(rf"the cgroup tree is at {mount} now")
    Measured(daemon, work, cgroups.make("c")).check()
    measured.work()
    measured.check()
    # Its inotify has not been made anew, so that nothing can have been missed.
    assert daemon.metrics().value("perfmond_cgroups_missed_total") == 0


def test_a_mount_that_is_gone_for_less_than_two_seconds_loses_nothing(mount, perfmond, cgroups, work):
    def story(top):
        daemon = perfmond(config(cgroups), prefix=UNSHARED)
        measured = Measured(daemon, work, top.make("a"))
        with for_a_moment(daemon, f"umount {mount}", f"mount -t cgroup2 cgroup2 {mount}"):
            measured.work()
            # Made while nobody can see it, and removed.
            top.make("b")
            top.make("c").remove()
            measured.check()
        measured.work()
        measured.check()
        until(lambda: daemon.metrics().get(FAULTS, cgroup=top.label + "/b") is not None, "found after all")
        assert "no cgroups" not in daemon.log

    in_time(story, cgroups)


@pytest.mark.parametrize("linger", [pytest.param("1s", marks=pytest.mark.deep), "0s"])
def test_totals_go_on_when_the_mount_is_back(mount, perfmond, cgroups, work, linger):
    daemon = perfmond(config(cgroups).replace("linger = 1s", f"linger = {linger}"), prefix=UNSHARED)
    measured = Measured(daemon, work, cgroups.make("a"))
    measured.work()
    inside(daemon, f"umount {mount}")
    daemon.wait_log("mounts have changed: no cgroups: no cgroup hierarchy is mounted")
    daemon.wait_log("per cgroup, unsupported: page-faults: no cgroup hierarchy is mounted")
    metrics = daemon.fresh()
    # Nothing stands still as if it were counted, and what is not of cgroups goes on.
    assert not metrics.all(FAULTS) and not metrics.all("perf_cgroup_info")
    assert metrics.state("page_faults", "cgroup") == "unsupported"
    assert metrics.state("context_switches") == "ok"
    before = sum(value for _, value in metrics.all("perf_cpu_context_switches_total"))
    until(lambda: sum(value for _, value in daemon.fresh().all("perf_cpu_context_switches_total")) > before, "goes on")
    told = status(daemon)
    assert told["cgroups"]["mount"] is None
    assert any("no cgroup hierarchy is mounted" in problem for problem in told["problems"])
    # For longer than removed ones linger; and a reload does not forget them.
    daemon.reload(daemon.config_path.read_text())
    time.sleep(1.5 if linger == "1s" else 0)
    inside(daemon, f"mount -t cgroup2 cgroup2 {mount}")
    daemon.wait_log(rf"mounts have changed: cgroups are counted at {mount} \(version 2\)")
    until(lambda: daemon.metrics().get(FAULTS, cgroup=measured.cgroup.label) is not None, "counted again")
    measured.work()
    measured.check()
    Measured(daemon, work, cgroups.make("b")).check()
    daemon.wait_log("per cgroup, ok: page-faults")

    # Hidden by a mount above it, the tree is gone too.
    after = len(daemon.lines)
    inside(daemon, f"mount -t tmpfs none {mount.parent}")
    daemon.wait_log("mounts have changed: no cgroups", after=after)
    inside(daemon, f"umount {mount.parent}")
    daemon.wait_log(rf"cgroups are counted at {mount}", after=after)
    until(lambda: daemon.metrics().get(FAULTS, cgroup=measured.cgroup.label) is not None, "counted again")
    measured.work()
    measured.check()


@pytest.mark.deep
def test_totals_outlive_a_restart_while_the_mount_is_gone(mount, perfmond, cgroups, work, tmp_path):
    """Totals that no cgroup can be shown for are kept with the others."""
    state = {"STATE_DIRECTORY": str(tmp_path)}
    daemon = perfmond(config(cgroups), prefix=UNSHARED, env=state)
    measured = Measured(daemon, work, cgroups.make("a"))
    measured.work()
    inside(daemon, f"umount {mount}")
    daemon.wait_log("mounts have changed: no cgroups")
    daemon.stop()
    # The next one never sees the mount at its start.
    daemon = perfmond(config(cgroups), prefix=[*UNSHARED, "sh", "-e", "-c", f'umount {mount}; exec "$@"', "sh"],
                      env=state)
    assert not daemon.fresh().all(FAULTS) and not daemon.fresh().all("perf_cgroup_info")
    time.sleep(2)
    inside(daemon, f"mount -t cgroup2 cgroup2 {mount}")
    until(lambda: daemon.metrics().get(FAULTS, cgroup=measured.cgroup.label) is not None, "counted again")
    measured.daemon = daemon
    measured.work()
    measured.check()


# --- a part of the tree

PART = """
echo $$ >{cgroup}/cgroup.procs
exec unshare --cgroup --mount --propagation private sh -e -c '{mounts}
exec "$@"' sh "$@"
"""


def in_part(cgroup, mounts):
    """What stands in front of a command that is to see its own part as the tree, and other mounts."""
    return [*UNSHARED, "sh", "-e", "-c", PART.format(cgroup=cgroup.path, mounts=mounts), "sh"]


@pytest.fixture
def part(mount, cgroups):
    """A cgroup with another in it, to be a container's."""
    own = cgroups.make("container")
    own.make("service")
    return own


def either(part):
    """What to include: the part, whether it is seen as the tree or in the host's."""
    return f"/ /. /service {part.label} {part.label}/**"


def test_a_daemon_that_sees_only_its_part_of_the_tree_says_so(mount, part, perfmond, tmp_path):
    prefix = in_part(part, f"umount {mount}; mount -t cgroup2 none {mount}")
    daemon = perfmond(CONFIG.format(include="**", mount=""), prefix=prefix)
    sentence = "sees only its own part of the cgroup tree"
    daemon.wait_log(sentence)
    told = status(daemon)
    assert told["cgroups"]["mount"] == {"path": str(mount), "version": 2, "whole": False}
    assert any(sentence in problem for problem in told["problems"])
    metrics = daemon.fresh()
    assert {labels["cgroup"] for labels, _ in metrics.all(FAULTS)} == {"/.", "/service"}
    assert metrics.get("perf_cgroup_info", cgroup="/.", id=str(part.path.stat().st_ino)) == 1
    assert {row["cgroup"] for row in daemon.json("/api/v1/snapshot", cgroup="/.")["cgroups"]} == {"/."}
    daemon.stop()

    path = tmp_path / "check.conf"
    path.write_text(CONFIG.format(include="**", mount=""))
    done = run("--check", f"--config={path}", prefix=prefix)
    assert done.returncode == 0 and sentence in done.stdout and str(part.path.stat().st_ino) in done.stdout
    assert "[cgroup] mount =" in done.stdout


def test_the_machines_tree_is_preferred_unless_the_config_names_another(mount, part, perfmond, tmp_path):
    host = tmp_path / "host"
    host.mkdir()
    prefix = in_part(part, f"mount --bind {mount} {host}; umount {mount}; mount -t cgroup2 none {mount}")
    daemon = perfmond(CONFIG.format(include=either(part), mount=""), prefix=prefix)
    assert status(daemon)["cgroups"]["mount"] == {"path": str(host), "version": 2, "whole": True}
    metrics = daemon.fresh()
    assert metrics.get(FAULTS, cgroup="/") is not None and metrics.get(FAULTS, cgroup=part.label) is not None
    assert metrics.get("perf_cgroup_info", cgroup="/", id="1") == 1
    daemon.reload(CONFIG.format(include=either(part), mount=mount))
    until(lambda: {labels["cgroup"] for labels, _ in daemon.metrics().all(FAULTS)} >= {"/.", "/service"},
          "its own part")
    assert status(daemon)["cgroups"]["mount"]["whole"] is False
    daemon.reload(CONFIG.format(include=either(part), mount=host))
    until(lambda: daemon.metrics().get(FAULTS, cgroup=part.label) is not None, "the host's")
    # The host's goes away beneath it: what is left is its own part.
    daemon.reload(CONFIG.format(include=either(part), mount=""))
    inside(daemon, f"umount {host}")
    daemon.wait_log(rf"mounts have changed: cgroups are counted at {mount}")
    assert status(daemon)["cgroups"]["mount"]["whole"] is False


def test_a_hidden_tree_of_the_machine_keeps_its_totals(mount, part, perfmond, work, tmp_path):
    """That its own part is mounted, too, is no reason to take that at once; nor, later, to forget the host's totals."""
    host = tmp_path / "host"
    host.mkdir()
    prefix = in_part(part, f"mount --bind {mount} {host}; umount {mount}; mount -t cgroup2 none {mount}")

    def story(inner):
        daemon = perfmond(CONFIG.format(include=either(part), mount=""), prefix=prefix)
        measured = Measured(daemon, work, inner)
        with for_a_moment(daemon, f"mount -t tmpfs none {host}", f"umount {host}"):
            measured.work()
            measured.check()
        measured.work()
        measured.check()
        assert "mounts have changed" not in daemon.log
        return daemon, measured

    daemon, measured = in_time(story, part)
    inside(daemon, f"mount -t tmpfs none {host}")
    daemon.wait_log(rf"mounts have changed: cgroups are counted at {mount}")
    until(lambda: daemon.metrics().get(FAULTS, cgroup="/service") is not None, "its own part")
    assert daemon.fresh().get(FAULTS, cgroup=measured.cgroup.label) is None
    time.sleep(1.5)  # for longer than removed ones linger
    inside(daemon, f"umount {host}")
    until(lambda: daemon.metrics().get(FAULTS, cgroup=measured.cgroup.label) is not None, "the host's")
    measured.work()
    measured.check()


# --- what the config names

def test_a_configured_mount_is_taken_as_soon_as_it_is_there(mount, perfmond, cgroups, work, tmp_path):
    named = tmp_path / "named"
    named.mkdir()
    daemon = perfmond(config(cgroups, named), prefix=UNSHARED)
    daemon.wait_log(rf"no cgroups: \[cgroup\] mount names {named}, which is no cgroup hierarchy")
    metrics = daemon.fresh()
    assert metrics.state("context_switches") == "ok" and metrics.state("page_faults", "cgroup") == "unsupported"
    assert any("no cgroup hierarchy" in problem for problem in status(daemon)["problems"])
    # It is taken as soon as it is there.
    inside(daemon, f"mount -t cgroup2 none {named}")
    measured = Measured(daemon, work, cgroups.make("a"))
    measured.work()
    measured.check()
    assert status(daemon)["cgroups"]["mount"]["path"] == str(named)


def test_check_tells_why_a_configured_mount_is_none(privileged, tmp_path):
    path = tmp_path / "check.conf"
    for named, sentence in (("/nonexistent", "No such file"), ("/dev/null", "Not a directory"),
                            ("/proc", "which is no cgroup hierarchy")):
        path.write_text(CONFIG.format(include="**", mount=named))
        done = run("--check", f"--config={path}")
        assert done.returncode == 2, done.stderr
        assert f"cgroups: [cgroup] mount names {named}" in done.stdout and sentence in done.stdout


# --- /proc and /sys

ROOTS = """
[daemon]
procfs = {procfs}
sysfs = {sysfs}
[web]
listen = 127.0.0.1:0
[cpu]
groups = cpu
[cgroup]
groups =
[group "cpu"]
events = context-switches
"""


def test_procfs_and_sysfs_can_be_elsewhere(mount, perfmond, tmp_path):
    """Mounted elsewhere, and hidden where they usually are, but for what is the process's own."""
    for name in ("proc", "sys"):
        (tmp_path / name).mkdir()
    script = f'mount --rbind /proc {tmp_path}/proc; mount --rbind /sys {tmp_path}/sys; ' \
             'mount -t tmpfs none /sys; exec "$@"'
    prefix = [*UNSHARED, "sh", "-e", "-c", script, "sh"]
    daemon = perfmond(ROOTS.format(procfs=tmp_path / "proc", sysfs=tmp_path / "sys"), prefix=prefix)
    told = status(daemon)
    assert "software" in {pmu["name"] for pmu in told["pmus"]}
    assert told["privileges"]["perf_event_paranoid"] is not None
    assert not any("CPUs" in problem for problem in told["problems"])
    done = run("--list-events=context-switches", f"--config={daemon.config_path}", prefix=prefix)
    assert "context-switches" in done.stdout and not done.stderr.count("event_source"), done.stderr


def test_files_that_procfs_and_sysfs_lack_are_problems(privileged, perfmond, tmp_path, cpus):
    for name in ("proc", "sys"):
        (tmp_path / name).mkdir()
    (tmp_path / "proc" / "stat").write_text("cpu  1 2 3\n" + "".join(f"cpu{cpu} 1 2 3\n" for cpu in cpus[:1]))
    daemon = perfmond(ROOTS.format(procfs=tmp_path / "proc", sysfs=tmp_path / "sys"))
    lacks = f"can't read a list of CPUs from {tmp_path}/sys/devices/system/cpu/online: No such file"
    daemon.wait_log(f"{lacks}.*the CPUs of procfs")
    told = status(daemon)
    assert told["cpus"] == str(cpus[0])
    assert any(lacks in problem for problem in told["problems"])
    assert any(f"{tmp_path}/sys/bus/event_source/devices" in problem for problem in told["problems"])
    assert told["privileges"]["perf_event_paranoid"] is None
    metrics = daemon.fresh()
    assert metrics.state("context_switches") == "ok"
    until(lambda: daemon.fresh().get("perf_cpu_context_switches_total", cpu=str(cpus[0])) > 0, "it counts")
    # Nothing at all: the C library still knows how many CPUs there are.
    (tmp_path / "proc" / "stat").unlink()
    done = run("--check", f"--config={daemon.config_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"problem: {lacks}" in done.stdout and "C library" in done.stdout


def test_a_procfs_or_sysfs_that_is_not_there_is_an_error(privileged, perfmond, tmp_path):
    path = tmp_path / "wrong.conf"
    path.write_text(ROOTS.format(procfs="/proc", sysfs="/nonexistent"))
    for option in ("--check", "--once"):
        done = run(option, f"--config={path}")
        assert done.returncode == 1
        assert f"{path}:4: sysfs: /nonexistent: No such file or directory" in done.stderr
    done = run("--list-events=context-switches", f"--config={path}")
    assert done.returncode == 1 and "sysfs: /nonexistent" in done.stderr
    # Where the text is wrong, those of the machine can be listed all the same.
    path.write_text("[daemon]\nsysfs = nowhere\n")
    done = run("--list-events=context-switches", f"--config={path}")
    assert done.returncode == 0 and "context-switches" in done.stdout and "not an absolute path" in done.stderr

    daemon = perfmond(ROOTS.format(procfs="/proc", sysfs="/sys"))
    daemon.reload(ROOTS.format(procfs=tmp_path / "none", sysfs="/sys"),
                  r"not reloaded, the old config stays in force: \S+:3: procfs: \S+/none: No such file")
    assert daemon.fresh().state("context_switches") == "ok"


# --- CPUs and kernel.perf_event_paranoid: files of the test, in the daemon's mount namespace

IN_PLACE = 'mount --bind "$1/online" /sys/devices/system/cpu/online; ' \
           'mount --bind "$1/paranoid" /proc/sys/kernel/perf_event_paranoid; shift; exec "$@"'
RETRIED = r"kernel.perf_event_paranoid is now {}: retried the events that were denied"


@pytest.fixture
def followed(mount, perfmond, cpus, tmp_path):
    """A daemon that sees the first CPU only, at level 2, and the text of all CPUs."""
    machine.require("two-cpus")
    everything = Path("/sys/devices/system/cpu/online").read_text()

    def start(text):
        (tmp_path / "online").write_text(f"{cpus[0]}\n")
        (tmp_path / "paranoid").write_text("2\n")
        return perfmond(text, prefix=[*UNSHARED, "sh", "-e", "-c", IN_PLACE, "sh", str(tmp_path)])

    return start, everything


@pytest.mark.parametrize("change", ["cpus", "sysctl"])
def test_a_change_while_the_mount_is_gone_waits_for_it(followed, mount, cgroups, work, cpus, tmp_path, change):
    """It is applied when the mount is back: reopening before would close the cgroups' events."""
    start, everything = followed
    file, text, expect = {"cpus": ("online", everything, f"CPUs have come or gone: counted now: {everything.strip()}"),
                          "sysctl": ("paranoid", "1\n", RETRIED.format(1))}[change]

    def story(top):
        daemon = start(config(cgroups))
        measured = Measured(daemon, work, top.make("a"), cpus[0])
        with for_a_moment(daemon, f"umount {mount}", f"mount -t cgroup2 cgroup2 {mount}"):
            (tmp_path / file).write_text(text)
            measured.work()
            # The daemon checks every 50 ms while it waits for a mount.
            time.sleep(0.3)
            assert expect not in daemon.log
        daemon.wait_log(expect)
        measured.work()
        measured.check()
        assert "no cgroups" not in daemon.log

    in_time(story, cgroups)


@pytest.mark.deep
def test_a_reload_while_a_change_is_applied(followed, cgroups, tmp_path):
    """The change moves cgroups in steps: the reload does not wait for them, and nothing stops."""
    start, _ = followed
    for i in range(1000):
        cgroups.make(f"c{i}")
    daemon = start(f"[cgroup]\ninclude = {cgroups.label}/*\nengine = perf\ngroups = one\nmax = 1000\n"
                   "[group \"one\"]\nevents = page-faults\n")
    until(lambda: daemon.metrics().get("perfmond_cgroups", state="counted") == 1000, "all are counted")
    for level in (1, 2, 1):
        after = len(daemon.lines)
        (tmp_path / "paranoid").write_text(f"{level}\n")
        daemon.wait_log(RETRIED.format(level), after=after)
        daemon.reload(daemon.config_path.read_text())
        assert daemon.fresh().get("perfmond_cgroups", state="counted") == 1000


@pytest.mark.deep
@pytest.mark.parametrize("change", ["cpus", "sysctl"])
def test_changes_while_the_mount_is_gone_for_good_are_applied(followed, mount, cgroups, work, cpus, tmp_path, change):
    """It is applied when the daemon has stopped waiting."""
    start, everything = followed
    daemon = start(config(cgroups))
    measured = Measured(daemon, work, cgroups.make("a"), cpus[0])
    inside(daemon, f"umount {mount}")
    if change == "cpus":
        (tmp_path / "online").write_text(everything)
    else:
        (tmp_path / "paranoid").write_text("1\n")
    daemon.wait_log("mounts have changed: no cgroups: no cgroup hierarchy is mounted")
    seen = (everything.strip(), 2) if change == "cpus" else (str(cpus[0]), 1)
    until(lambda: (status(daemon)["cpus"], status(daemon)["privileges"]["perf_event_paranoid"]) == seen, "applied")
    assert status(daemon)["cgroups"]["mount"] is None
    # The CPUs are still counted, and the cgroups' totals are held.
    assert daemon.fresh().state("context_switches") == "ok"
    inside(daemon, f"mount -t cgroup2 cgroup2 {mount}")
    until(lambda: daemon.metrics().get(FAULTS, cgroup=measured.cgroup.label) is not None, "counted again")
    measured.work()
    measured.check()


@pytest.mark.deep
def test_a_sysctl_that_cannot_be_applied(mount, perfmond, cgroups, work, tmp_path):
    """Open events go on counting. It is retried after a while, and the failure is logged once."""
    for name in ("proc", "sys"):
        (tmp_path / name).mkdir()
    (tmp_path / "paranoid").write_text("2\n")
    script = 'mount --rbind /proc "$1/proc"; mount --rbind /sys "$1/sys"; ' \
             'mount --bind "$1/paranoid" "$1/proc/sys/kernel/perf_event_paranoid"; shift; exec "$@"'
    text = config(cgroups) + f"[daemon]\nprocfs = {tmp_path}/proc\nsysfs = {tmp_path}/sys\n"
    daemon = perfmond(text, prefix=[*UNSHARED, "sh", "-e", "-c", script, "sh", str(tmp_path)])
    measured = Measured(daemon, work, cgroups.make("a"))
    # The config names a folder that no longer exists.
    inside(daemon, f"umount -l {tmp_path}/sys; rmdir {tmp_path}/sys")
    (tmp_path / "paranoid").write_text("1\n")
    daemon.wait_log(r"kernel.perf_event_paranoid has changed, but the config can't be applied again: "
                    rf"\S+:\d+: sysfs: {tmp_path}/sys: No such file or directory")
    measured.work()
    measured.check()
    assert status(daemon)["privileges"]["perf_event_paranoid"] == 2
    inside(daemon, f"mkdir {tmp_path}/sys; mount --rbind /sys {tmp_path}/sys")
    daemon.wait_log(RETRIED.format(1))
    measured.work()
    measured.check()
    assert daemon.log.count("can't be applied again") == 1
