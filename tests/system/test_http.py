# SPDX-License-Identifier: MIT
"""HTTP: a wrong request gets a short answer that names the fault, and what a proxy could read otherwise is refused."""

import itertools
import json
import os
import re
import socket
import threading
import time

import pytest
import requests

from harness import PATIENCE, Delta, Metrics, Repeated, until

PATHS = ["/", "/metrics", "/api/v1/snapshot", "/api/v1/events", "/api/v1/cgroups", "/api/v1/status", "/-/healthy",
         "/-/ready"]


@pytest.fixture
def daemon(shared_perfmond):
    return shared_perfmond("[cgroup]\ngroups =\n")


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


def test_get_and_head_of_each_path(daemon):
    for path in PATHS:
        get = daemon.get(path)
        assert get.status_code == 200 and get.text, path
        head = requests.head(daemon.url + path, timeout=PATIENCE)
        assert head.status_code == 200 and head.content == b"", path
        assert head.headers["Content-Type"] == get.headers["Content-Type"], path
        wanted = {"/": "text/html", "/metrics": "text/plain", "/-/healthy": "text/plain", "/-/ready": "text/plain"}
        assert get.headers["Content-Type"].startswith(wanted.get(path, "application/json")), path
        if path.startswith("/api/"):
            get.json()


def test_other_methods_are_refused(daemon):
    """POST at every path: test_api.py."""
    for method, path in itertools.product(("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"), PATHS[:2]):
        answer = requests.request(method, daemon.url + path, timeout=PATIENCE)
        assert answer.status_code == 405, (method, path)
        assert set(re.split(r",\s*", answer.headers["Allow"])) == {"GET", "HEAD"}, (method, path)
        assert 0 < len(answer.text) < 500, (method, path)


def test_a_body_is_not_read(daemon):
    """A client that wants to send a gigabyte is answered, not listened to."""
    with connect(daemon) as s:
        s.sendall(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 10000)
        assert s.recv(1000).startswith(b"HTTP/1.1 405")


def test_unknown_paths_are_not_found(daemon):
    for path in ("/nope", "/metrics/", "/metricsx", "//metrics", "/api", "/api/v1", "/api/v2/status",
                 "/../etc/passwd", "/%2e%2e/etc/passwd", "/metrics%00", "/" + "a" * 5000, "/\u00fc"):
        answer = daemon.get(path)
        assert answer.status_code in (400, 404, 414), path
        assert 0 < len(answer.text) < 1000, path


def test_bad_queries_are_named(daemon):
    for query in ("scope=everything", "limit=many", "limit=-1", "limit=99999999999999999999", "sort=",
                  "sort=no_such_event", "nonsense=1", "scope=cpu&scope=cgroup", "limit", "limit=1x"):
        answer = daemon.get("/api/v1/snapshot?" + query)
        assert answer.status_code == 400, answer.text[:300]
        assert 0 < len(answer.text) < 500, query
        assert query.split("=")[0].split("&")[0] in answer.text


ODD_GLOBS = ["cgroup=[", "event=***", "cgroup=%ff%fe", "event=%00", "cgroup=" + "*a" * 500]


def test_odd_globs_do_no_harm(daemon):
    for query in ODD_GLOBS:
        assert daemon.get("/api/v1/snapshot?" + query).status_code in (200, 400), query
    assert daemon.metrics().value("perfmond_up") == 1


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.parametrize("query", ODD_GLOBS)
def test_odd_globs_are_answered_in_seconds(daemon, query):
    start = time.monotonic()
    daemon.get("/api/v1/snapshot?" + query)
    assert time.monotonic() - start < 5


HOST = b"Host: localhost\r\n"
LINE = b"GET /-/healthy HTTP/1.1\r\n"

# What a server behind a proxy must not read otherwise than the proxy, and what is no HTTP.
REFUSED = {
    "no Host": LINE + b"X: a\r\n\r\n",
    "two Hosts": LINE + HOST + HOST + b"\r\n",
    "a body": LINE + HOST + b"Content-Length: 5\r\n\r\nhello",
    "a body of HEAD": b"HEAD / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello",
    "two lengths": LINE + HOST + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
    "two lengths, the first 0": LINE + HOST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "two equal lengths": LINE + HOST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "a length and chunks": LINE + HOST + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks": LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": LINE + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity": LINE + HOST + b"Transfer-Encoding: identity\r\n\r\n",
    "POST with two lengths": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "a NUL as the path": b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a NUL in the path": b"GET /-/healthy\0.html HTTP/1.1\r\n" + HOST + b"\r\n",
    "a NUL in the method": b"GE\0T /-/healthy HTTP/1.1\r\n" + HOST + b"\r\n",
    "a NUL in a name": LINE + HOST + b"Content-Length\0: 5\r\n\r\nhello",
    "a NUL in a value": LINE + HOST + b"X: a\0b\r\n\r\n",
    "a control character in the path": b"GET /-/healthy\x01 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a space in the path": b"GET /-/healthy x HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces": b"GET  /-/healthy HTTP/1.1\r\n" + HOST + b"\r\n",
    "a space before the colon": LINE + HOST + b"X : a\r\n\r\n",
    "a tab before the colon": LINE + HOST + b"Content-Length\t: 5\r\n\r\nhello",
    "a space in a name": LINE + HOST + b"X Y: a\r\n\r\n",
    "an empty name": LINE + HOST + b": a\r\n\r\n",
    "a folded line": LINE + HOST + b"X: a\r\n b\r\n\r\n",
    "a folded first line": LINE + b" X: a\r\n" + HOST + b"\r\n",
    "bare LFs": b"GET /-/healthy HTTP/1.1\nHost: localhost\n\n",
    "a bare LF after the request line": b"GET /-/healthy HTTP/1.1\nHost: localhost\r\n\r\n",
    "a bare LF after a header": LINE + b"X: a\nHost: localhost\r\n\r\n",
    "a bare LF after the last header": LINE + b"Host: localhost\n\r\n",
    "a bare LF at the end": LINE + HOST + b"\n",
    "a bare CR in a value": LINE + HOST + b"X: a\rContent-Length: 5\r\n\r\nhello",
}

# These libmicrohttpd refuses by itself; up to 0.9.75 it sends the head of its response twice.
REFUSED_BEFORE = {
    "a negative length": LINE + HOST + b"Content-Length: -1\r\n\r\n",
    "a length with a sign": LINE + HOST + b"Content-Length: +5\r\n\r\nhello",
    "a list of lengths": LINE + HOST + b"Content-Length: 5, 5\r\n\r\nhello",
    "an empty length": LINE + HOST + b"Content-Length:\r\n\r\n",
    "no colon": LINE + HOST + b"X a\r\n\r\n",
}

# Odd, and no two readers understand them differently.
TAKEN = {
    "no space after the colon": LINE + b"Host:localhost\r\nX:\r\n\r\n",
    "blanks around values": LINE + b"Host: localhost\r\nX: \t a b \t\r\n\r\n",
    "an empty body": LINE + HOST + b"Content-Length: 0\r\n\r\n",
    "cookies": LINE + HOST + b"Cookie: a=b; c=d\r\nCookie: e\r\n\r\n",
    "a name with all characters": LINE + HOST + b"!#$%&'*+-.^_`|~09azAZ: a\r\n\r\n",
    "parameters": b"GET /-/healthy?a=%41&b&c=d+e HTTP/1.1\r\n" + HOST + b"\r\n",
    "an escaped space": b"GET /-/healthy?%20 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a whole URL": b"GET http://localhost/-/healthy HTTP/1.1\r\n" + HOST + b"\r\n",
    "no Host in HTTP/1.0": b"GET /-/healthy HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "an empty line before": b"\r\n" + LINE + HOST + b"\r\n",
}

# What a client tries to send behind the proxy's back.
NEXT = b"GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"


def statuses(answer):
    return re.findall(rb"HTTP/1\.[01] (\d\d\d)", answer)


def test_what_could_be_smuggled_is_refused(daemon):
    """Once, and the connection ends: what follows is no request."""
    before = daemon.fresh()
    for name, head in REFUSED.items():
        answer = raw(daemon, head + NEXT)
        assert statuses(answer) == [b"400"] and b"\nready\n" not in answer, (name, answer)
        assert b"\r\nConnection: close\r\n" in answer, (name, answer)
    for name, head in REFUSED_BEFORE.items():
        answer = raw(daemon, head + NEXT)
        assert set(statuses(answer)) == {b"400"} and b"\nready\n" not in answer, (name, answer)
    assert Delta(before, daemon.fresh()).of("perfmond_http_requests_total", code="400") > 0
    assert Delta(before, daemon.metrics()).of("perfmond_http_requests_total", code="200") <= 2, "a scrape or two"


def test_what_is_only_odd_is_answered(daemon):
    last = NEXT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    for name, head in TAKEN.items():
        answer = raw(daemon, head + last)
        assert statuses(answer) == [b"200", b"200"] and b"ready\n" in answer, (name, answer)


def test_64_kb_of_headers_are_refused(daemon):
    for headers in (b"X: " + b"a" * 65536 + b"\r\n", b"".join(b"X-%d: %s\r\n" % (i, b"b" * 50) for i in range(1200))):
        answer = raw(daemon, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
        assert answer == b"" or re.match(rb"HTTP/1\.1 (431|413|400)", answer), answer[:100]
    assert daemon.metrics().value("perfmond_up") == 1


def test_scrapes_in_parallel_are_all_whole(daemon):
    before, problems = daemon.fresh(), []

    def scrape():
        try:
            session = requests.Session()
            for _ in range(5):
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
    assert Delta(before, daemon.fresh()).of("perfmond_scrapes_total") >= 40


def test_requests_in_one_packet_are_all_answered(daemon):
    """Keep-alive and pipelining, as HTTP/1.1 has them."""
    request = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = raw(daemon, request * 500 + last)
    assert answer.count(b"HTTP/1.1 200") == 500 and answer.count(b"HTTP/1.1 404") == 1


def test_http_1_0_is_answered(daemon):
    answer = raw(daemon, b"GET /-/healthy HTTP/1.0\r\n\r\n")
    assert re.match(rb"HTTP/1\.[01] 200", answer)


@pytest.fixture
def groups(cgroups):
    return {name: cgroups.make(name) for name in ("an-idle-one", "busy", "sleepy")}


def test_filters_and_order_of_the_snapshot(perfmond, cgroups, groups, work, cpus):
    """Parts of it; and sorted, the busiest is the first."""
    daemon = perfmond(f"[daemon]\ninterval = 200ms\n[cgroup]\ninclude = {cgroups.label}/**\n")
    everything = daemon.json("/api/v1/snapshot")
    assert len(everything["cpus"]) == len(cpus) and len(everything["cgroups"]) == 3
    assert daemon.json("/api/v1/snapshot", scope="cpu")["cgroups"] == []
    assert daemon.json("/api/v1/snapshot", scope="cgroup")["cpus"] == []
    one = daemon.json("/api/v1/snapshot", cgroup=groups["sleepy"].label)
    assert [row["cgroup"] for row in one["cgroups"]] == [groups["sleepy"].label]
    limited = daemon.json("/api/v1/snapshot", scope="cgroup", limit=2, sort="context_switches")
    assert len(limited["cgroups"]) == 2
    events = daemon.json("/api/v1/snapshot", event="page_*")
    assert all(set(row["events"]) <= {"page_faults"} for row in events["cpus"] + events["cgroups"])

    load = Repeated(work(groups["busy"], cpus[0]), "ticks 500 300")

    def first():
        return [row["cgroup"] for row in daemon.json(
            "/api/v1/snapshot", scope="cgroup", sort="context_switches", limit=1)["cgroups"]]
    try:
        until(lambda: first() == [groups["busy"].label], "the busy one is the first")
    finally:
        load.end()


def test_status_of_machine_and_daemon(daemon, cpus):
    status = daemon.json("/api/v1/status")
    assert status["pid"] == daemon.pid
    assert status["version"] and status["engine"]
    system = os.uname()
    machine = {"hostname": system.nodename, "kernel": system.release, "architecture": system.machine,
               "cpus": len(cpus)}
    assert machine.items() <= status["machine"].items()
    assert status["uptime_seconds"] > 0
    assert status["privileges"]["may_count_cpus"] is True
    assert {pmu["name"] for pmu in status["pmus"]} == set(os.listdir("/sys/bus/event_source/devices"))
    assert status["files"]["events"] > 0
    assert status["cost"]["resident_bytes"] > 100000
    json.dumps(status)


def test_events_with_their_sets(daemon):
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


def test_a_unix_socket_is_served_and_removed(perfmond, tmp_path):
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
