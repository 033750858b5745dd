# SPDX-License-Identifier: MIT
"""HTTP: what is asked wrongly gets a short answer that says so, and nothing a client does stops the others."""

import json
import os
import re
import socket
import threading
import time

import pytest
import requests

from harness import PATIENCE, Metrics, Stalls, until

PATHS = ["/", "/metrics", "/api/v1/snapshot", "/api/v1/events", "/api/v1/cgroups", "/api/v1/status", "/-/healthy",
         "/-/ready"]


@pytest.fixture
def daemon(perfmond):
    return perfmond("")


def address_of(daemon):
    host, _, port = daemon.url.removeprefix("http://").rpartition(":")
    return host, int(port)


def connect(daemon):
    return socket.create_connection(address_of(daemon), timeout=PATIENCE)


def raw(daemon, request, patience=PATIENCE):
    """Sends bytes as they are; all that comes back until the end, or until nothing more comes."""
    with connect(daemon) as s:
        s.settimeout(patience)
        answer = b""
        try:
            s.sendall(request)
        except OSError:
            pass  # refused before all of it was sent: an answer may be there all the same
        try:
            while part := s.recv(65536):
                answer += part
        except (ConnectionResetError, TimeoutError):
            pass
        return answer


@pytest.mark.parametrize("path", PATHS)
def test_get_and_head(daemon, path):
    get = daemon.get(path)
    assert get.status_code == 200
    assert get.text
    head = requests.head(daemon.url + path, timeout=PATIENCE)
    assert head.status_code == 200 and head.content == b""
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    wanted = {"/": "text/html", "/metrics": "text/plain", "/-/healthy": "text/plain", "/-/ready": "text/plain"}
    assert get.headers["Content-Type"].startswith(wanted.get(path, "application/json"))
    if path.startswith("/api/"):
        get.json()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(daemon, method, path):
    answer = requests.request(method, daemon.url + path, timeout=PATIENCE)
    assert answer.status_code == 405
    assert set(re.split(r",\s*", answer.headers["Allow"])) == {"GET", "HEAD"}
    assert 0 < len(answer.text) < 500


def test_a_body_is_not_read(daemon):
    """A client that wants to send a gigabyte is answered, not listened to."""
    with connect(daemon) as s:
        s.sendall(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 10000)
        assert s.recv(1000).startswith(b"HTTP/1.1 405")


@pytest.mark.parametrize("path", ["/nope", "/metrics/", "/metricsx", "//metrics", "/api", "/api/v1", "/api/v2/status",
                                  "/../etc/passwd", "/%2e%2e/etc/passwd", "/metrics%00", "/" + "a" * 5000, "/\u00fc"])
def test_unknown_paths(daemon, path):
    answer = daemon.get(path)
    assert answer.status_code in (400, 404, 414)
    assert 0 < len(answer.text) < 1000


@pytest.mark.parametrize("query", ["scope=everything", "limit=many", "limit=-1", "limit=99999999999999999999", "sort=",
                                   "sort=no_such_event", "nonsense=1", "scope=cpu&scope=cgroup", "limit", "limit=1x"])
def test_bad_queries(daemon, query):
    answer = daemon.get("/api/v1/snapshot?" + query)
    assert answer.status_code == 400, answer.text[:300]
    assert 0 < len(answer.text) < 500
    assert query.split("=")[0].split("&")[0] in answer.text


@pytest.mark.parametrize("query", ["cgroup=[", "event=***", "cgroup=%ff%fe", "event=%00", "cgroup=" + "*a" * 500])
def test_odd_globs_do_no_harm(daemon, query):
    start = time.monotonic()
    answer = daemon.get("/api/v1/snapshot?" + query)
    assert answer.status_code in (200, 400)
    assert time.monotonic() - start < 5
    assert daemon.metrics().value("perfmond_up") == 1


GARBAGE = {
    "empty lines": b"\r\n\r\n",
    "a method alone": b"GET\r\n\r\n",
    "no version": b"GET /metrics\r\n\r\n",
    "another version": b"GET /metrics HTTP/9.9\r\n\r\n",
    "no host": b"GET /metrics HTTP/1.1\r\n\r\n",
    "no slash": b"GET metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "NULs": b"\x00" * 100,
    "bytes": b"\xff" * 10000,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"A" * 200,
    "a header without a colon": b"GET /metrics HTTP/1.1\r\nHost x\r\n\r\n",
    "bad escapes": b"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a negative length": b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\nHost: localhost\r\n\r\n",
    "an unknown encoding": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: nonsense\r\n\r\n",
    "a long method": b"G" * 100000,
    "a long path": b"GET /" + b"x" * 100000,
}


@pytest.mark.parametrize("request_bytes", GARBAGE.values(), ids=GARBAGE)
def test_garbage(daemon, request_bytes):
    """An error, or silence where the request is not complete yet; others are served meanwhile."""
    answer = raw(daemon, request_bytes, patience=0.5)
    assert answer == b"" or re.match(rb"HTTP/1\.[01] [2-5]\d\d", answer)
    assert daemon.metrics().value("perfmond_up") == 1


def test_64_kb_of_headers(daemon):
    for headers in (b"X: " + b"a" * 65536 + b"\r\n", b"".join(b"X-%d: %s\r\n" % (i, b"b" * 50) for i in range(1200))):
        answer = raw(daemon, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
        assert answer == b"" or re.match(rb"HTTP/1\.1 (431|413|400)", answer), answer[:100]
    assert daemon.metrics().value("perfmond_up") == 1


def test_slow_clients_block_nobody(daemon, work):
    """Clients that send nothing, half a request, or never read their answers."""
    sockets = []
    try:
        for i in range(60):
            s = connect(daemon)
            sockets.append(s)
            if i % 3 == 1:
                s.sendall(b"GET /metrics HTTP/1.1\r\nHo")
            elif i % 3 == 2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        stalls, took = Stalls(work), []
        for _ in range(10):
            start = time.monotonic()
            assert daemon.metrics().value("perfmond_up") == 1
            took.append(time.monotonic() - start)
        assert max(took) < (3 if PATIENCE > 10 else 1) + stalls.end(), took
    finally:
        for s in sockets:
            s.close()


def test_more_clients_than_it_takes(daemon):
    """Connections beyond the limit wait; when the others have gone, all is as before."""
    sockets = []
    try:
        for _ in range(400):
            s = socket.socket()
            sockets.append(s)
            s.setblocking(False)
            s.connect_ex(address_of(daemon))
        until(lambda: daemon.fds()["socket:[]"] >= 64, "as many as may get in")
        time.sleep(0.5)
        assert daemon.fds()["socket:[]"] <= 200
        assert daemon.process.poll() is None
    finally:
        for s in sockets:
            s.close()
    reads = daemon.metrics().value("perfmond_reads_total")
    until(lambda: daemon.metrics().value("perfmond_reads_total") > reads, "it goes on counting")


def test_counting_goes_on_while_no_client_gets_in(daemon):
    """As many connections as it takes, and more: the loop reads its counters all the same."""
    before = daemon.fresh().value("perfmond_reads_total")
    sockets = []
    try:
        for _ in range(200):
            s = socket.socket()
            sockets.append(s)
            s.setblocking(False)
            s.connect_ex(address_of(daemon))
        time.sleep(3)
    finally:
        for s in sockets:
            s.close()
    assert daemon.metrics().value("perfmond_reads_total") >= before + 2


def test_many_at_once(daemon):
    """Scrapes in parallel are all whole."""
    problems = []

    def scrape():
        try:
            session = requests.Session()
            for _ in range(20):
                text = session.get(daemon.url + "/metrics", timeout=PATIENCE).text
                assert Metrics(text).value("perfmond_up") == 1
        except Exception as error:  # pylint: disable=broad-except
            problems.append(error)

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]
    assert daemon.fresh().value("perfmond_scrapes_total") >= 160


def test_requests_in_one_packet(daemon):
    """Keep-alive and pipelining, as HTTP/1.1 has them."""
    request = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert raw(daemon, request * 4 + last).count(b"HTTP/1.1 200") == 5


def test_http_1_0(daemon):
    answer = raw(daemon, b"GET /-/healthy HTTP/1.0\r\n\r\n")
    assert re.match(rb"HTTP/1\.[01] 200", answer)


def test_a_client_that_goes_away(daemon):
    for _ in range(50):
        with connect(daemon) as s:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset
    assert daemon.metrics().value("perfmond_up") == 1


def test_filters_of_the_snapshot(perfmond, cgroups, cpus):
    for name in ("a", "b", "c"):
        cgroups.make(name)
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n")
    everything = daemon.json("/api/v1/snapshot")
    assert len(everything["cpus"]) == len(cpus) and len(everything["cgroups"]) == 3

    assert daemon.json("/api/v1/snapshot", scope="cpu")["cgroups"] == []
    assert daemon.json("/api/v1/snapshot", scope="cgroup")["cpus"] == []
    one = daemon.json("/api/v1/snapshot", cgroup=cgroups.label + "/a")
    assert [row["cgroup"] for row in one["cgroups"]] == [cgroups.label + "/a"]
    limited = daemon.json("/api/v1/snapshot", scope="cgroup", limit=2, sort="context_switches")
    assert len(limited["cgroups"]) == 2
    events = daemon.json("/api/v1/snapshot", event="page_*")
    assert all(set(row["events"]) <= {"page_faults"} for row in events["cpus"] + events["cgroups"])


def test_sorting_puts_the_busiest_first(perfmond, cgroups, work, cpus):
    for name in ("idle", "busy", "sleepy"):
        cgroups.make(name)
    daemon = perfmond(f"[daemon]\ninterval = 300ms\n[cgroup]\ninclude = {cgroups.label}/**\n")
    helper = work(cgroups_child(cgroups, "busy"), cpus[0])
    helper.begin("ticks 1000 1500")
    time.sleep(1)
    rows = daemon.json("/api/v1/snapshot", scope="cgroup", sort="context_switches", limit=1)["cgroups"]
    helper.finish()
    assert [row["cgroup"] for row in rows] == [cgroups.label + "/busy"]


def cgroups_child(top, name):
    child = object.__new__(type(top))
    child.path, child.mount = top.path / name, top.mount
    return child


def test_status(daemon, cpus):
    status = daemon.json("/api/v1/status")
    assert status["pid"] == daemon.pid
    assert status["version"] and status["engine"]
    assert status["uptime_seconds"] > 0
    assert status["privileges"]["may_count_cpus"] is True
    assert {pmu["name"] for pmu in status["pmus"]} == set(os.listdir("/sys/bus/event_source/devices"))
    assert status["files"]["events"] > 0
    assert status["cost"]["resident_bytes"] > 100000
    json.dumps(status)


def test_events(daemon):
    answer = daemon.json("/api/v1/events")
    by_key = {(event["scope"], event["text"]): event for event in answer["events"]}
    faults = by_key["cpu", "page-faults"]
    assert faults["encoding"] == {"type": 1, "config": "0x2", "config1": "0x0", "config2": "0x0"}
    assert faults["state"] == "ok" and faults["reason"] is None
    among = answer["sets"][faults["set"]["number"]]
    assert among["scope"] == "cpu" and among["group"] == faults["group"] and among["cpus"] == faults["cpus"]
    assert among["leader"] == among["members"][0] == faults["set"]["leader"]
    assert faults["event"] in among["members"]


def test_readiness(daemon):
    assert daemon.get("/-/healthy").status_code == 200
    assert daemon.get("/-/ready").status_code == 200


def test_a_unix_socket(perfmond, tmp_path):
    path = tmp_path / "http.sock"
    daemon = perfmond(f"[web]\nlisten = {path}\n", ready=False)
    daemon.wait_log("listening on unix:")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(str(path))
        s.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
        assert re.match(rb"HTTP/1\.[01] 200", s.recv(1000))
    daemon.stop()
    assert not path.exists(), "it takes its socket away"
