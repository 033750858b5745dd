# SPDX-License-Identifier: MIT
"""A PMU whose events are opened on one CPU of each package or die, and are labelled with it.

No such PMU counts in a virtual machine. The msr PMU is dressed up as one, in a mount namespace: with a cpumask, and
CPUs on two dies of one socket. The kernel counts its TSC all the same, and it is known how fast that grows.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import PERFMOND, SANITIZER_REPORT, Metrics, until
from machine import needs

pytestmark = needs("msr", "two-cpus", "mount-namespace")

PMUS = Path("/sys/bus/event_source/devices")
CPUS = Path("/sys/devices/system/cpu")

CONFIG = """
[cpu]
groups = box
aggregate = {aggregate}
[cgroup]
groups =
[group "box"]
events = msr/tsc/, context-switches
alone = yes
"""

# The namespace, and the mounts with it, are gone with the daemon.
IN_NAMESPACE = 'mount --bind "$1/pmus" "$2" && mount --bind "$1/cpus" "$3" && shift 3 && exec "$@"'


@pytest.fixture
def sockets(privileged, tmp_path):
    for name in ("type", "format/event", "events/tsc"):
        (tmp_path / "pmus/msr" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PMUS / "msr" / name, tmp_path / "pmus/msr" / name)
    (tmp_path / "pmus/msr/cpumask").write_text("0-1\n")
    for cpu in range(2):
        topology = tmp_path / f"cpus/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("3\n")
        (topology / "die_id").write_text(f"{cpu}\n")
    (tmp_path / "cpus/online").write_text("0-1\n")

    def once(output, aggregate="no"):
        config = tmp_path / "perfmond.conf"
        config.write_text(CONFIG.format(aggregate=aggregate))
        done = subprocess.run(["unshare", "--mount", "sh", "-c", IN_NAMESPACE, "sh", tmp_path, PMUS, CPUS, PERFMOND,
                               f"--config={config}", f"--once={output}", "--duration=500ms"],
                              capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0 and not SANITIZER_REPORT.search(done.stderr), done.stderr
        return done.stdout

    return once


def test_metrics_have_the_package_and_the_die(sockets):
    """Of events of that PMU, and of no others. Each die has the ticks of its own CPU."""
    def alike():
        metrics = Metrics(sockets("prometheus"))
        ticks = [metrics.value("perf_cpu_msr_tsc_total", cpu=str(cpu), package="3", die=str(cpu)) for cpu in range(2)]
        for labels, _ in metrics.all("perf_cpu_context_switches_total"):
            assert set(labels) == {"cpu"}
        assert min(ticks) > 1e8
        return ticks[1] == pytest.approx(ticks[0], rel=0.5)

    until(alike, "the ticks of two CPUs that were read shortly after each other")


def test_json_has_the_package_and_the_die(sockets):
    cpus = json.loads(sockets("json"))["cpus"]
    for cpu in cpus:
        tsc = cpu["events"]["msr_tsc"]
        assert (tsc["package"], tsc["die"]) == (3, cpu["cpu"]) and tsc["total"] > 0
        assert "package" not in cpu["events"]["context_switches"]
    assert len(cpus) == 2


def test_the_sum_of_the_dies_has_no_labels(sockets):
    samples = Metrics(sockets("prometheus", aggregate="yes")).all("perf_cpu_msr_tsc_total")
    assert [labels for labels, _ in samples] == [{}]
    assert samples[0][1] > 2e8


def test_the_series_of_a_cpu_that_goes_offline_stay(sockets, perfmond, tmp_path):
    """The kernel takes its topology away, and out of the PMU's cpumask. The series that are kept, and those that go on,
    are the same ones: also over a reload, and over a restart that has not seen the CPU."""
    config = CONFIG.format(aggregate="no") + "[daemon]\ninterval = 100ms\n[web]\nlisten = 127.0.0.1:0\n"
    state = tmp_path / "state"
    state.mkdir()

    def start():
        return perfmond(config, env={"STATE_DIRECTORY": str(state)},
                        prefix=["unshare", "--mount", "sh", "-c", IN_NAMESPACE, "sh", tmp_path, PMUS, CPUS])

    def ticks(daemon):
        return {tuple(sorted(labels.items())): value
                for labels, value in daemon.fresh().all("perf_cpu_msr_tsc_total")}

    daemon = start()
    before = ticks(daemon)
    assert set(before) == {(("cpu", str(cpu)), ("die", str(cpu)), ("package", "3")) for cpu in range(2)}

    shutil.rmtree(tmp_path / "cpus/cpu1")
    (tmp_path / "pmus/msr/cpumask").write_text("0\n")
    (tmp_path / "cpus/online").write_text("0\n")
    daemon.wait_log("CPUs have come or gone: counted now: 0")
    after = ticks(daemon)
    assert set(after) == set(before) and all(after[key] >= before[key] for key in before)
    one = (("cpu", "0"), ("die", "0"), ("package", "3"))
    assert after[one] > before[one]

    daemon.reload(config)
    assert set(ticks(daemon)) == set(before)
    daemon.stop()
    daemon = start()
    again = ticks(daemon)
    assert set(again) == set(before) and all(again[key] >= after[key] for key in before)


def test_an_excluded_cpu_shows_its_die(sockets, perfmond, tmp_path):
    """Whether the other die's CPU is counted is no matter of this one's labels."""
    daemon = perfmond(CONFIG.format(aggregate="no\nexclude = 1"),
                      prefix=["unshare", "--mount", "sh", "-c", IN_NAMESPACE, "sh", tmp_path, PMUS, CPUS])
    assert [labels for labels, _ in daemon.fresh().all("perf_cpu_msr_tsc_total")] == \
        [{"cpu": "0", "die": "0", "package": "3"}]
