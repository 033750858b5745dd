# SPDX-License-Identifier: MIT
"""Answers are written in a thread: whatever that is at, the loop answers others and reads the counters."""

import ctypes
import os
import socket
from urllib.parse import urlsplit

import pytest

from harness import PATIENCE, Metrics, until
from machine import needs
from openapi import check

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # also threads

pytestmark = needs("ptrace")


class Writer:
    """The thread that writes answers, which can be stopped, alone."""

    def __init__(self, daemon):
        self.daemon = daemon
        before = self._tasks()
        assert daemon.get("/metrics").status_code == 200
        [self.task] = self._tasks() - before
        self.is_stopped = False
        self.libc = ctypes.CDLL(None, use_errno=True)

    def _tasks(self):
        return {int(name) for name in os.listdir(f"/proc/{self.daemon.pid}/task")}

    def _trace(self, request):
        result = self.libc.ptrace(request, self.task, None, None)
        assert result == 0, os.strerror(ctypes.get_errno())

    def stop(self):
        self._trace(PTRACE_SEIZE)
        self._trace(PTRACE_INTERRUPT)
        os.waitpid(self.task, WALL)
        self.is_stopped = True

    def go_on(self):
        if self.is_stopped:
            self._trace(PTRACE_DETACH)
        self.is_stopped = False


CONFIG = "[daemon]\ninterval = 100ms\n[web]\nlisten = 127.0.0.1:0\n"


@pytest.fixture
def daemon(perfmond):
    return perfmond(CONFIG)


@pytest.fixture
def writer(daemon):
    """It is at work for as long as it is stopped."""
    writer = Writer(daemon)
    writer.stop()
    yield writer
    writer.go_on()


def ask(daemon, path="/metrics", source="127.0.0.1"):
    """A connection with a request that has come to the daemon."""
    url = urlsplit(daemon.url)
    client = socket.create_connection((url.hostname, url.port), timeout=PATIENCE, source_address=(source, 0))
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return client


def answer(client):
    with client, client.makefile("rb") as stream:
        return stream.read().decode()


def waits(client):
    client.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.recv(1)
    client.settimeout(PATIENCE)
    return True


def reads(daemon):
    return daemon.json("/api/v1/status")["cost"]["reads"]


API = {"snapshot": '"matched":{', "events": '{"events":[', "cgroups": '{"cgroups":[', "history": '"times":['}


def test_the_loop_goes_on_while_an_answer_is_written(daemon, writer):
    clients = [ask(daemon, path) for path in ("/metrics", *(f"/api/v1/{name}" for name in API))]
    before = reads(daemon)
    until(lambda: reads(daemon) > before + 3, "the counters are read")
    assert daemon.get("/-/healthy").text == "healthy\n"
    assert daemon.get("/").status_code == 200
    assert all(waits(client) for client in clients)
    writer.go_on()
    for client, has in zip(clients, ("perfmond_up 1\n", *API.values())):
        text = answer(client)
        assert text.startswith("HTTP/1.1 200 ") and has in text


def test_a_client_that_goes_away_leaves_nothing_behind(daemon, writer):
    clients = [ask(daemon, f"/metrics?event={i}") for i in range(10)]
    last = ask(daemon, "/api/v1/events")
    before = reads(daemon)
    for client in clients:
        client.close()
    until(lambda: reads(daemon) > before, "the counters are read")
    assert waits(last)
    writer.go_on()
    assert '{"events":[' in answer(last)
    until(lambda: daemon.metrics().value("perfmond_connections") == 1, "no other connection is left")


def test_a_reload_while_an_answer_is_written(daemon, writer):
    """Who has asked before it is in force may get the last reading before it."""
    before = [ask(daemon), ask(daemon, "/api/v1/events")]
    daemon.reload(f"{CONFIG}[cgroup]\ngroups =\n")
    after = [ask(daemon), ask(daemon, "/api/v1/events")]
    assert all(waits(client) for client in before + after)
    writer.go_on()
    assert "perfmond_up 1\n" in answer(before[0])
    assert '{"events":[' in answer(before[1])
    assert 'perfmond_reloads_total 1\n' in answer(after[0])
    assert '"scope":"cgroup"' not in answer(after[1])


def test_a_stop_waits_for_the_answer_that_is_written(daemon, writer):
    clients = [ask(daemon), ask(daemon, "/api/v1/events")]
    assert all(waits(client) for client in clients)
    daemon.process.terminate()
    daemon.wait_log("stopping")
    writer.go_on()
    assert daemon.end() == 0
    for client in clients:
        client.close()


def test_one_address_does_not_keep_others_waiting(daemon, writer):
    many = [ask(daemon, f"/metrics?event={i}") for i in range(20)]
    other = ask(daemon, "/api/v1/events", source="127.0.0.2")
    assert waits(other)
    writer.go_on()
    assert '{"events":[' in answer(other)
    assert all("perfmond_up 1\n" in answer(client) for client in many)


# Series have the path of their cgroup. Of so many with so long paths, /metrics would be longer than 16 MiB.
LEVELS, LONG = 14, 700


@pytest.mark.alone
def test_an_answer_that_would_be_too_long_is_refused(perfmond, own_cgroup):
    top = own_cgroup
    for _ in range(LEVELS):
        top = top.make("x" * 240)
    for i in range(LONG):
        top.make(str(i))
    daemon = perfmond(f"[cgroup]\ninclude = {own_cgroup.label}/**\nmax = {2 * LONG}\n")
    for headers in ({}, {"Accept-Encoding": "gzip"}, {"Accept": "application/openmetrics-text"}):
        answer = check(daemon.get("/metrics", headers=headers))
        assert answer.startswith("the answer would be longer than 16 MiB; ask for a part of it")
        assert daemon.get("/metrics", headers=headers).status_code == 413
    name = "perfmond_http_requests_total"
    until(lambda: Metrics(check(daemon.get("/metrics?scope=self"))).value(name, code="413") == 6, "all are counted")
    assert daemon.get("/metrics?event=page_faults").status_code == 200
    assert len(daemon.json("/api/v1/snapshot")["cgroups"]) == LEVELS + LONG
