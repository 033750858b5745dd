# SPDX-License-Identifier: MIT
"""Clients that are slow, broken or hostile: others are answered, memory stays under a bound, and nothing is left
behind. Bad clients come from 127.0.0.x, the scrapes from 127.0.0.1.

The gate has each limit and each reason for which a connection is refused or dropped, with a few clients; thousands of
them, and how long others wait, are deep.
"""

import base64
import contextlib
import itertools
import os
import random
import re
import socket
import ssl
import struct
import time
from concurrent import futures
from pathlib import Path

import pytest
import requests

from harness import PATIENCE, SANITIZED, Metrics, Timed, until

# Others are to be answered within a second: nine of ten scrapes have to be, a busy machine's part aside, and none may
# take longer than this. How long they took is printed.
SEVERAL_SECONDS = 30 if SANITIZED else 8

# What bad clients may make the daemon grow by: 64 MiB of answers, the kernel's buffers aside, and some for connections
# and the allocator. A sanitizer keeps what was freed for a while.
GROWTH_MAX = (1024 if SANITIZED else 128) << 20

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


def storm(test):
    """It has thousands of clients, or measures how long others wait."""
    return pytest.mark.deep(pytest.mark.alone(test))


@pytest.fixture
def daemon(perfmond):
    return perfmond("[cgroup]\ngroups =\n[web]\nrequest_timeout = 3s\nanswer_timeout = 5s\n")


@pytest.fixture
def impatient(shared_perfmond):
    """A daemon with the shortest timeouts, and few places. A slow machine can make a good client too late for it."""
    return shared_perfmond("[cgroup]\ngroups =\n[web]\nrequest_timeout = 1s\nanswer_timeout = 1s\nidle_timeout = 1s\n"
                           f"max_connections = {3 * PLACES}\nmax_connections_per_address = {PLACES}\n")


PLACES = 12


def ask(daemon):
    """A scrape, when there is one."""
    def scrape():
        with contextlib.suppress(requests.ConnectionError):
            answer = daemon.get("/metrics")
            return answer.status_code == 200 and Metrics(answer.text)
        return None
    return until(scrape, "a scrape is answered")


def address_of(daemon):
    host, _, port = daemon.url.partition("://")[2].rpartition(":")
    return host, int(port)


def connect(daemon, source=2, small=False):
    s = socket.socket()
    s.settimeout(PATIENCE)
    if small:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.bind((f"127.0.0.{source}", 0))
    s.connect(address_of(daemon))
    return s


def begin(daemon, source, small=False):
    """A connection that nobody waits for."""
    s = socket.socket()
    s.setblocking(False)
    if small:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.bind((f"127.0.0.{source}", 0))
    s.connect_ex(address_of(daemon))
    return s


def send_some(s, data):
    """What of it goes; the other side may have ended it already, or not have accepted it yet."""
    try:
        return s.send(data)
    except (BlockingIOError, TimeoutError, ConnectionError, ssl.SSLError):
        return 0


def resident(daemon):
    return int(Path(f"/proc/{daemon.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def files_of(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


class Left:
    """What connections leave behind: nothing, when they are gone."""

    def __init__(self, daemon):
        ask(daemon)
        self.daemon, self.files = daemon, files_of(daemon)

    def check_nothing(self):
        metrics = until(lambda: (found := ask(self.daemon)).value("perfmond_connections") == 1 and found,
                        "the other connections are gone")
        until(lambda: files_of(self.daemon) <= self.files, "their files are closed")
        assert metrics.value("perfmond_unsent_bytes") == 0


class Watch:
    """Scrapes in between: how long they took, how many were refused, and how much memory there was at most."""

    def __init__(self, daemon, work):
        self.daemon, self.timed = daemon, Timed(daemon, work)
        self.refused, self.peak = 0, 0
        daemon.metrics()
        self.files, self.resident = files_of(daemon), resident(daemon)

    def ask(self):
        """A scrape, or None where all that may be unsent is held by others."""
        with self.timed.one():
            answer = self.daemon.get("/metrics")
        assert answer.status_code in (200, 503), answer.text
        assert self.timed.took[-1] < SEVERAL_SECONDS
        self.peak = max(self.peak, resident(self.daemon))
        assert self.peak - self.resident < GROWTH_MAX
        if answer.status_code == 200:
            return Metrics(answer.text)
        self.refused += 1
        return None

    def scrape(self):
        metrics = self.ask()
        assert metrics, "it is not refused"
        return metrics

    def end(self):
        """Others had their answers within a second, and all is as it was, as soon as the connections are gone."""
        took = self.timed.end()
        late = [seconds for seconds in took if seconds > 1]
        assert len(late) <= len(took) / 10, f"{len(late)} of {len(took)} scrapes took {late}"
        until(lambda: self.scrape().value("perfmond_connections") == 1, "the connections are gone", 30)
        until(lambda: files_of(self.daemon) <= self.files, "the files are closed")
        metrics = self.scrape()
        assert metrics.value("perfmond_unsent_bytes") == 0
        took = self.timed.end()
        print(f" slowest of {len(took)} scrapes {max(took) * 1000:.0f} ms, {self.refused} refused, loop lag"
              f" {metrics.value('perfmond_loop_lag_seconds') * 1000:.0f} ms, memory {self.resident >> 20} MiB, at most"
              f" {self.peak >> 20} MiB, in the end {resident(self.daemon) >> 20} MiB", end="")
        return metrics


@pytest.fixture
def watching(work):
    return lambda daemon: Watch(daemon, work)


@pytest.fixture
def watch(daemon, watching):
    return watching(daemon)


def close_all(sockets):
    for s in sockets:
        s.close()


# --- the limits

def counts_of(daemon, reason):
    kind = "refused" if reason in ("address", "full", "failed") else "dropped"
    return ask(daemon).value(f"perfmond_connections_{kind}_total", reason=reason)


BEGUN = {"nothing": b"", "a line": b"GET / HT", "a header": b"GET / HTTP/1.1\r\nX: ",
         "idle": GET % b"/-/healthy", "the next line": GET % b"/-/healthy" + b"GET"}


@pytest.mark.parametrize("reason, text", [("request", BEGUN["a line"]), ("request", BEGUN["a header"]),
                                          ("request", BEGUN["nothing"]), ("idle", BEGUN["idle"]),
                                          ("malformed", GET[:-2] % b"/" + b"Content-Length: -1\r\n\r\n")])
def test_who_sends_no_request_is_dropped(impatient, reason, text):
    """request_timeout and idle_timeout: the connection ends, and is counted with its reason."""
    left, before = Left(impatient), counts_of(impatient, reason)

    def is_dropped():
        """On a slow machine it can be dropped before it has sent anything."""
        with connect(impatient, 2) as s:
            send_some(s, text)
            read_all(s)
        return counts_of(impatient, reason) > before
    until(is_dropped, f"it is dropped for the reason {reason}")
    left.check_nothing()


def test_who_takes_no_answer_is_dropped(impatient):
    """answer_timeout. Clients that go away in the middle of an answer, closed or reset, leave nothing behind."""
    left, before = Left(impatient), counts_of(impatient, "answer")

    def is_dropped():
        """On a slow machine all can be dropped before they have asked."""
        with contextlib.ExitStack() as sockets:
            for i in range(8):
                s = sockets.enter_context(connect(impatient, 2, small=True))
                s.setblocking(False)
                send_some(s, (GET % b"/metrics") * 2000)  # their answers are more than the kernel takes
                if i % 2:
                    reset_at_close(s)
            until(lambda: counts_of(impatient, "answer") > before or
                  ask(impatient).value("perfmond_connections") == 1, "they are dropped")
        return counts_of(impatient, "answer") > before
    until(is_dropped, "one is dropped for the reason answer")
    left.check_nothing()


def test_half_closed_connections_end(impatient):
    left = Left(impatient)
    for text in BEGUN.values():
        with connect(impatient, 2) as s:
            send_some(s, text)
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_WR)
            read_all(s)
    left.check_nothing()


@pytest.mark.parametrize("reason, addresses, most", [("address", 1, PLACES), ("full", 100, 3 * PLACES)])
def test_only_so_many_get_in(shared_perfmond, reason, addresses, most):
    """max_connections_per_address and max_connections. While they are all taken, the daemon goes on counting, and
    others are answered; then all is as before."""
    daemon = shared_perfmond(PATIENT)
    left, refused, times = Left(daemon), counts_of(daemon, reason), itertools.count(1)

    def goes_on_counting():
        """Each look is a reading, too, and more come while nobody looks: the longer the more."""
        reads = ask(daemon).value("perfmond_reads_total")
        time.sleep(next(times) * 0.3)
        return ask(daemon).value("perfmond_reads_total") - reads >= 3
    with contextlib.ExitStack() as sockets:
        for i in range(5 * most):
            sockets.enter_context(begin(daemon, 2 + i % addresses))
        until(lambda: counts_of(daemon, reason) > refused, f"one is refused for the reason {reason}")
        until(goes_on_counting, "it goes on counting")
        # With that of the scrape, and of the one before it, whose end may not be seen yet.
        assert ask(daemon).value("perfmond_connections") <= most + 2
    left.check_nothing()


PATIENT = f"""
[daemon]
interval = 100ms
[cgroup]
groups =
[web]
request_timeout = 1min
answer_timeout = 1min
idle_timeout = 1min
max_connections = {3 * PLACES}
max_connections_per_address = {PLACES}
"""


def is_answered(daemon, source):
    try:
        with connect(daemon, source) as s:
            s.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return s.recv(100).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False


@pytest.mark.parametrize("sources", [[1] * PLACES, range(10, 10 + 3 * PLACES)], ids=["one address", "many"])
def test_a_newcomer_gets_the_place_of_a_slow_client(shared_perfmond, sources):
    """Where all places are taken: by clients of its own address, and by clients with an address each."""
    daemon = shared_perfmond(PATIENT)
    left = Left(daemon)
    for text in BEGUN.values():
        with contextlib.ExitStack() as sockets:
            for source in sources:
                send_some(sockets.enter_context(connect(daemon, source)), text)
            until(lambda: is_answered(daemon, 1), f"a newcomer is answered: {text}")
        left.check_nothing()


def test_connections_that_are_closed_or_reset_leave_nothing(impatient):
    """After a request, after half of one, and after none."""
    left = Left(impatient)
    make_short_connections(impatient, 200)
    left.check_nothing()


def make_short_connections(daemon, nr, every_500=lambda: None):
    for i in range(nr):
        s = begin(daemon, 2 + i % 4)
        s.setblocking(True)
        if i % 4:
            send_some(s, (GET % b"/-/healthy")[:20 if i % 2 else None])
        if i % 3 == 0:
            reset_at_close(s)
        s.close()
        if i % 500 == 0:
            every_500()


def reset_at_close(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def read_all(s):
    """Up to the connection's end."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := s.recv(65536):
            answer += part
    return answer


# --- broken requests

# The statuses that each of them may be answered with; none: it is not answered.
BROKEN = {
    "a body on GET": ("400", b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n0123456789"),
    "a body that never comes": ("400", b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n012"),
    "two lengths": ("400",
                    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    "a length too large": ("413",
                           b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
    "chunks on GET": ("400",
                      b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    "a chunk too large": ("400", b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                          b"ffffffffffffffffff\r\n"),
    "a negative chunk": ("400", b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n"),
    "no chunk": ("400", b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"),
    "chunks and a length": ("400", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"),
    "dots": ("404", GET % b"/../../../../etc/passwd"),
    "escaped dots": ("404", GET % b"/%2e%2e/%2e%2e/etc/passwd"),
    "backslashes": ("404", GET % b"/..\\..\\etc\\passwd"),
    "a NUL in the path": ("400", GET % b"/metrics%00.html"),
    "no path": ("400", b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "an asterisk": ("404", GET % b"*"),
    "another scheme": ("404", GET % b"file:///etc/passwd"),
    "CONNECT": ("405", b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "bytes that are no UTF-8": ("400", GET % b"/api/v1/snapshot?cgroup=\xff\xfe\xc3\x28"),
    "escaped bytes that are none": ("400", GET % b"/api/v1/snapshot?cgroup=%ff%fe%c3%28"),
    "overlong UTF-8": ("400", GET % b"/api/v1/snapshot?cgroup=%c0%af%e0%80%af"),
    "surrogates": ("400", GET % b"/api/v1/snapshot?cgroup=%ed%a0%80"),
    "many parameters": ("400", GET % (b"/api/v1/snapshot?" + b"&".join(b"a%d=1" % i for i in range(500)))),
    "many headers": ("431", b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 5000 + b"\r\n"),
    "a long header": ("431", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100000 + b"\r\n\r\n"),
    "a folded header": ("400", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\tc\r\n\r\n"),
    "a long line": ("414", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "TLS": ("", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 4),
    "HTTP/2": ("505", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
    "another host": ("421", b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    "an authorization": ("200",
                         b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + b"A" * 8000 + b"\r\n\r\n"),
}

# Nothing has to be answered to these, and an answer has to be HTTP.
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


def statuses_of(answer):
    return {status.decode() for status in re.findall(rb"HTTP/1\.[01] (\d\d\d) ", answer)}


def test_broken_requests_are_refused(impatient):
    """Each is answered with a status that fits, or not at all; never with a file of the machine. All at the same time;
    the timeouts end them. A client that was too slow to ask asks once more."""
    left = Left(impatient)
    kinds = [(name, statuses.split(), text) for name, (statuses, text) in BROKEN.items()]
    kinds += [(name, None, text) for name, text in GARBAGE.items()]

    def is_answered_well(kind):
        name, statuses, text = kind
        try:
            with connect(impatient, 2 + kinds.index(kind)) as s:
                with contextlib.suppress(OSError):  # refused before all of it was sent
                    s.sendall(text)
                answer = read_all(s)
        except ConnectionError:
            return False
        assert b"root:x:" not in answer, f"{name}: a file of the machine"
        if statuses is None:
            assert answer == b"" or re.match(rb"HTTP/1\.[01] [2-5]\d\d", answer), (name, answer)
            return True
        assert statuses_of(answer) <= set(statuses), (name, answer)
        return bool(statuses_of(answer)) == bool(statuses)

    with futures.ThreadPoolExecutor(2 * PLACES) as pool:
        for kind, found in zip(kinds, pool.map(lambda kind: until(lambda: is_answered_well(kind), kind[0]), kinds)):
            assert found, kind[0]
    assert ask(impatient).value("perfmond_up") == 1
    left.check_nothing()


# --- slow ones

@storm
def test_a_thousand_slow_senders(daemon, watch):
    """From many addresses, a byte at a time. At most as many as fit have a place, and each loses it after 3 s."""
    sockets = [begin(daemon, 2 + i % 50) for i in range(1000)]
    text = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1000
    try:
        end = time.monotonic() + 5
        sent = 0
        while time.monotonic() < end:
            for s in sockets:
                send_some(s, text[sent:sent + 1])
            sent += 1
            if sent % 10 == 1:
                assert watch.scrape().value("perfmond_connections") <= 256
        until(lambda: watch.scrape().value("perfmond_connections_dropped_total", reason="request") >= 100, "dropped")
    finally:
        close_all(sockets)
    watch.end()


@storm
def test_a_thousand_slow_senders_from_one_address(daemon, watch):
    """They share what one address may have, and others get in at once."""
    sockets = [begin(daemon, 2) for _ in range(1000)]
    try:
        for s in sockets:
            send_some(s, b"GET /metrics HTTP/1.1\r\n")
        # But for those that have a place; who has had one for too long loses it.
        metrics = until(lambda: (metrics := watch.scrape()).value("perfmond_connections_refused_total",
                                                                  reason="address") +
                        metrics.value("perfmond_connections_dropped_total", reason="request") >= 1000 - 64 and
                        metrics, "refused")
        # With that of the scrape, and of the one before it, whose end may not be seen yet.
        assert metrics.value("perfmond_connections") <= 64 + 2
    finally:
        close_all(sockets)
    watch.end()


@storm
def test_a_thousand_slow_readers(perfmond, cgroups, watching):
    """Each asks for a large answer and hardly takes it."""
    for i in range(300):
        cgroups.make("a-cgroup-with-a-name-that-makes-answers-long-" * 3 + str(i))
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n[web]\nanswer_timeout = 5s\nmax_unsent_bytes = 16MiB\n")
    watch = watching(daemon)
    sockets = [begin(daemon, 2 + i % 50, small=True) for i in range(1000)]
    try:
        end, unasked = time.monotonic() + 8, sockets

        def read_slowly():
            nonlocal unasked
            # For more than the kernel takes in their place; some may not have been connected before.
            unasked = [s for s in unasked if not send_some(s, (GET % b"/api/v1/snapshot") * 100)]
            for s in sockets[::10]:
                try:
                    s.recv(10)
                except (BlockingIOError, ConnectionError):
                    pass
            metrics = watch.ask()
            return metrics and metrics.value("perfmond_connections_dropped_total", reason="answer") > 0 and \
                time.monotonic() > end

        until(read_slowly, "their time is up", 8 + PATIENCE)
    finally:
        close_all(sockets)
    # Slow ones can hold all that may be unsent for a second; then they make room.
    assert watch.refused <= len(watch.timed.took) / 10
    metrics = watch.end()
    assert metrics.value("perfmond_connections_refused_total", reason="full") > 0


@storm
def test_half_open_connections(daemon, watch):
    """Nothing ever comes, and some shut their side down."""
    sockets = [begin(daemon, 2 + i % 10) for i in range(500)]
    try:
        for s in sockets[::3]:
            try:
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        end = time.monotonic() + 5
        while time.monotonic() < end:
            watch.scrape()
            time.sleep(0.1)
        until(lambda: watch.scrape().value("perfmond_connections") <= 2, "their time is up, though they are open")
    finally:
        close_all(sockets)
    watch.end()


# --- many, one after the other

@storm
def test_ten_thousand_connections(daemon, watch):
    """One after the other: with a request, with half of one, with none; closed and reset."""
    make_short_connections(daemon, 1000 if SANITIZED else 10000, watch.scrape)
    watch.end()
    assert resident(daemon) - watch.resident < GROWTH_MAX / 4


# --- broken ones

@storm
def test_gone_in_the_middle_of_a_large_answer(perfmond, cgroups, cpus, watching):
    name = "a-cgroup-with-a-name-that-makes-answers-long-" * 5
    parent = cgroups.make(name)
    for i in range(2000 // len(cpus)):
        parent.make(name + str(i))
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\nper_cpu = yes\ngroups = many\n[group \"many\"]\n"
                      "events = page-faults, minor-faults, major-faults, context-switches, cpu-migrations, task-clock,"
                      " cpu-clock, alignment-faults, emulation-faults\n")
    watch = watching(daemon)
    size = len(daemon.get("/metrics").content)
    assert size >= 10_000_000, "it is large enough to be taken in pieces"
    for i in range(20):
        with connect(daemon, small=True) as s:
            s.sendall(GET % b"/metrics")
            assert s.recv(1000).startswith(b"HTTP/1.1 200")
            if i % 2:
                reset_at_close(s)
        watch.scrape()
    print(f" of {size >> 20} MiB:", end="")
    watch.end()


@pytest.mark.parametrize("nr", [60, pytest.param(300, marks=(pytest.mark.deep, pytest.mark.alone))])
def test_tls_garbage_leaves_nothing(perfmond, files, watching, nr):
    """Handshakes with bytes that are changed, half of one, noise, and HTTP."""
    daemon = perfmond("[cgroup]\ngroups =\n[web]\nlisten = 127.0.0.1:0\nrequest_timeout = 3s\n" + files.tls,
                      access={"verify": str(files.certificate)})
    ask(daemon)
    left, watch = Left(daemon), watching(daemon) if nr == 300 else None
    noise = random.Random(1)
    hello = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl._create_unverified_context().wrap_bio(*hello)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    first = hello[1].read()
    sockets = []
    for i in range(nr):
        s = begin(daemon, 2 + i % 20)
        sockets.append(s)
        s.setblocking(True)
        data = bytearray(first)
        for _ in range(i % 7):
            data[noise.randrange(len(data))] = noise.randrange(256)
        send_some(s, (bytes(data), bytes(data[:50]), noise.randbytes(500), GET % b"/metrics")[i % 4])
        if i % 20 == 0:
            watch.scrape() if watch else ask(daemon)
    close_all(sockets)
    left.check_nothing()
    if watch:
        watch.end()


# --- how long others wait

# What takes a place for longer is slow: 1 s.
SOON = 5


@storm
@pytest.mark.parametrize("text", BEGUN.values(), ids=BEGUN)
@pytest.mark.parametrize("sources", [[1] * 64, range(10, 10 + 2 * 64)], ids=["one address", "many"])
def test_a_newcomer_waits_for_seconds_at_most(perfmond, work, text, sources):
    """Where all places are taken by slow clients of its own address, and by slow clients with an address each."""
    daemon = perfmond(PATIENT.replace(f" {3 * PLACES}\n", " 128\n").replace(f" {PLACES}\n", " 64\n"))
    sockets = [connect(daemon, source) for source in sources]
    for s in sockets:
        s.sendall(text)
    timed = Timed(daemon, work)
    with timed.one():
        until(lambda: is_answered(daemon, 1), "a newcomer is answered")
    took, = timed.end()
    print(f" after {took:.1f} s", end="")
    assert took < SOON
    close_all(sockets)


@storm
def test_others_are_answered_between_those_who_come_again(perfmond):
    """They are back as soon as they were dropped, for as long as it takes."""
    daemon = perfmond(PATIENT)
    sockets = [connect(daemon, 10 + i) for i in range(3 * PLACES)]
    for s in sockets:
        s.sendall(b"GET / HT")
    end, answered = time.monotonic() + 8, 0
    while time.monotonic() < end:
        for i, s in enumerate(sockets):
            try:
                s.setblocking(False)
                gone = not s.recv(1)
            except BlockingIOError:
                gone = False
            except ConnectionError:
                gone = True
            if gone:
                s.close()
                sockets[i] = connect(daemon, 10 + i)
                try:
                    sockets[i].sendall(b"GET / HT")
                except ConnectionError:
                    pass
        answered += is_answered(daemon, 1)
        time.sleep(0.05)
    print(f" {answered} times", end="")
    assert answered >= 3
    close_all(sockets)


@storm
def test_slow_clients_block_nobody(perfmond, work):
    """Clients that send nothing, half a request, or never read their answers: a scrape takes a second at most."""
    daemon = perfmond("[cgroup]\ngroups =\n")
    sockets = []
    try:
        for i in range(60):
            s = connect(daemon, 1)
            sockets.append(s)
            if i % 3 == 1:
                s.sendall(b"GET /metrics HTTP/1.1\r\nHo")
            elif i % 3 == 2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        timed = Timed(daemon, work)
        for _ in range(10):
            with timed.one():
                answer = daemon.get("/metrics")
            assert Metrics(answer.text).value("perfmond_up") == 1
        took = timed.end()
        assert max(took) < (3 if SANITIZED else 1), took
    finally:
        close_all(sockets)


# --- at random

# Of the user, of another, of one who is wrong, and of none.
SECRETS = [b"Basic " + base64.b64encode(pair) + b"\r\n" for pair in (b"ada:engine", b"bob:builder", b"ada:Engine")]
SECRETS += [b"Basic YTpi", b"Basic YTpiOg\r\n", b"Basic " + b"=" * 50 + b"\r\n", b"Basic\r\n", b"Bearer x\r\n",
            b"basic   " + base64.b64encode(b"a" * 3000 + b":" + b"\0" * 300) + b"\r\n"]

PIECES = [b"GET", b"HEAD", b"POST", b"OPTIONS", b" ", b"/", b"/metrics", b"/api/v1/snapshot", b"/api/v1/events", b"?",
          b"&", b"=", b"scope=cpu", b"cgroup=/**", b"event=*", b"sort=page_faults", b"limit=3", b"%", b"%41", b"%ff",
          b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"Host: localhost\r\n", b"Host: x\r\n", b"Connection: close\r\n",
          b"Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5,*/*;q=0.1\r\n",
          b"Accept-Encoding: gzip, deflate;q=0\r\n", b"Accept: ;;q=\r\n", b"Content-Length: 5\r\n", b"12345",
          b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"Authorization: ", *SECRETS,
          b"Origin: http://a\r\n", b"Expect: 100-continue\r\n", b"\r\n", b"\r\n\r\n", b"\n", b"\0", b"\xff", b":",
          b"a" * 300]

PATHS = [b"/", b"/metrics", b"/api/v1/snapshot?limit=2", b"/api/v1/status", b"/none"]


def choose_secret(dice):
    """Mostly the right one: it lets requests through to all else."""
    return SECRETS[0] if dice.random() < 0.5 else dice.choice(SECRETS)


def request_of(secret, path):
    return GET.replace(b"\r\n\r\n", b"\r\nAuthorization: " + secret + b"\r\n") % path


def make_request(dice):
    """Whole ones with some bytes changed, or pieces put together."""
    if dice.random() < 0.4:
        return b"".join(dice.choices(PIECES, k=dice.randrange(1, 25)))
    data = bytearray(b"".join(request_of(choose_secret(dice), dice.choice(PATHS)) for _ in range(dice.randrange(1, 4))))
    for _ in range(dice.randrange(6)):
        at = dice.randrange(len(data))
        change = dice.randrange(3)
        if change == 0:
            data[at] = dice.randrange(256)
        elif change == 1:
            del data[at:at + dice.randrange(1, 10)]
        else:
            data[at:at] = dice.choice(PIECES)
        data = data or bytearray(b"x")
    return bytes(data)


@storm
def test_requests_at_random(perfmond, cgroups, files, watching):
    """Seeded: a failure names its seed. A sanitizer has its say at the daemon's end."""
    seed = int(os.environ.get("ABUSE_SEED", time.time_ns() % 1000000))
    dice = random.Random(seed)
    for i in range(10):
        cgroups.make(f"a{i}")
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n[web]\nlisten = 127.0.0.1:0\n"
                      "cors_origin = http://a\nrequest_timeout = 2s\n" + files.auth, access={"auth": ("ada", "engine")})
    watch = watching(daemon)
    print(f" seed {seed}", end="")
    before = {labels["code"]: value for labels, value in watch.scrape().all("perfmond_http_requests_total")}
    sockets, nr, end = [], 0, time.monotonic() + 15
    while time.monotonic() < end or nr <= 200:
        s = begin(daemon, 2 + nr % 30)
        sockets.append(s)
        s.settimeout(1)
        data = make_request(dice)
        at = dice.randrange(len(data) + 1) if dice.random() < 0.3 else len(data)
        send_some(s, data[:at])
        send_some(s, data[at:])
        nr += 1
        if len(sockets) > 60:
            close_all([sockets.pop(dice.randrange(len(sockets))) for _ in range(30)])
        if nr % 100 == 0:
            watch.scrape()
    close_all(sockets)
    print(f", {nr} requests,", end="")
    # And one of each kind that is sure.
    until(lambda: watch.scrape().value("perfmond_connections") == 1, "the connections are gone")
    for code, data in ((b"404", request_of(SECRETS[0], b"/none")), (b"400", BROKEN["no path"][1])):
        with connect(daemon, 41) as s:
            s.sendall(data)
            assert s.recv(100).startswith(b"HTTP/1.1 " + code)
    # An address may be wrong ten times, and once in two seconds from then on.
    for _ in range(20):
        with begin(daemon, 40) as s:
            s.settimeout(PATIENCE)
            s.sendall(request_of(SECRETS[1], b"/metrics"))
            s.recv(100)
    metrics = watch.end()
    answered = {code: metrics.value("perfmond_http_requests_total", code=code) - was for code, was in before.items()}
    print(f" {answered}", end="")
    assert all(answered[code] > 0 for code in ("200", "400", "401", "404", "429")), answered
