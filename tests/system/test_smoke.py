# SPDX-License-Identifier: MIT
"""The least that works wherever anything does: the daemon starts, is scraped, shows its page, and stops."""


def test_the_daemon_starts_is_scraped_shows_its_page_and_stops(perfmond):
    daemon = perfmond("")
    assert daemon.metrics().all("perf_cpu_page_faults_total")
    assert "<title>" in daemon.get("/").text
    assert daemon.json("/api/v1/snapshot")["cpus"]
    daemon.stop()
