# SPDX-License-Identifier: MIT
"""CPUs that the kernel keeps for others: counted like any, unless the config leaves them alone."""

import pytest

from guests import config


@pytest.fixture(scope="module")
def guest(boot):
    """CPU 1 gets no work that does not ask for it, and CPU 0 has the ticks."""
    guest = boot("isolated", exact=False, options="isolcpus=1 nohz_full=1")
    for word in ("isolated", "nohz_full"):
        assert guest.read(f"/sys/devices/system/cpu/{word}").strip() == "1"
    return guest


def counted_cpus(metrics, prefix):
    return {dict(labels)["cpu"] for name, labels in metrics.samples
            if name.startswith(prefix) and name.endswith("_total") and "cpu" in dict(labels)}


def settings(exclude=""):
    text = config("events = cycles, context-switches", scope="cpu cgroup", per_cpu="yes", interval="100ms")
    return text.replace("[cpu]", f"[cpu]\nexclude = {exclude}")


def test_counted_by_default(guest, perfmond):
    daemon = perfmond(settings())
    guest.load("pin:1 join:a cpu:100 leave")
    metrics = daemon.fresh()
    assert counted_cpus(metrics, "perf_cpu_") == counted_cpus(metrics, "perf_cgroup_") == {"0", "1"}
    assert metrics.value("perf_cpu_cycles_total", cpu="1") > 0
    assert metrics.value("perf_cgroup_cycles_total", cgroup="/a", cpu="1") > 0


@pytest.mark.parametrize("exclude", ["isolated", "nohz_full", "nohz_full isolated"])
def test_left_alone_where_the_config_says_so(guest, perfmond, exclude):
    """No perf event is opened there, and a reload with another list opens them."""
    daemon = perfmond(settings(exclude))
    guest.load("pin:1 join:a cpu:100 leave", "pin:0 join:b cpu:100 leave")
    metrics = daemon.fresh()
    assert counted_cpus(metrics, "perf_cpu_") == counted_cpus(metrics, "perf_cgroup_") == {"0"}
    assert metrics.value("perfmond_cpus") == 1 and metrics.value("perfmond_cpus_offline") == 0
    assert metrics.value("perf_cgroup_cycles_total", cgroup="/a", cpu="0") == 0
    assert metrics.value("perf_cgroup_cycles_total", cgroup="/b", cpu="0") > 0
    opened = metrics.value("perfmond_open_events")

    daemon.reload(settings())
    both = daemon.fresh()
    assert both.value("perfmond_open_events") == 2 * opened
    assert counted_cpus(both, "perf_cpu_") == {"0", "1"}
