# SPDX-License-Identifier: MIT
"""All places are taken by clients that hardly do anything: others get one within seconds."""

import socket
import time

import pytest

from harness import PATIENCE, Timed, until

# What takes a place for longer is slow: 1 s.
SOON = 5

PLACES = 64


@pytest.fixture
def daemon(perfmond):
    return perfmond("[cgroup]\ngroups =\n[web]\nlisten = 127.0.0.1:0\nrequest_timeout = 1min\nanswer_timeout = 1min\n"
                    f"idle_timeout = 1min\nmax_connections = {2 * PLACES}\nmax_connections_per_address = {PLACES}\n")


def connect(daemon, source):
    host, _, port = daemon.url.partition("://")[2].rpartition(":")
    s = socket.socket()
    s.settimeout(PATIENCE)
    s.bind((f"127.0.0.{source}", 0))
    s.connect((host, int(port)))
    return s


def is_answered(daemon, source):
    try:
        with connect(daemon, source) as s:
            s.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return s.recv(100).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False


def crowd(daemon, sources, text):
    sockets = [connect(daemon, source) for source in sources]
    for s in sockets:
        s.sendall(text)
    return sockets


@pytest.mark.parametrize("text", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nX: ",
                                  b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                  b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\nGET"],
                         ids=["nothing", "a line", "a header", "idle", "the next line"])
@pytest.mark.parametrize("sources", [[1] * PLACES, range(10, 10 + 2 * PLACES)], ids=["one address", "many"])
def test_slow_senders(daemon, work, text, sources):
    """Where they are all of the newcomer's own address, and where each has one of its own."""
    sockets = crowd(daemon, sources, text)
    timed = Timed(daemon, work)
    with timed.one():
        until(lambda: is_answered(daemon, 1), "a newcomer is answered")
    took, = timed.end()
    print(f" after {took:.1f} s", end="")
    assert took < SOON
    for s in sockets:
        s.close()


def test_those_who_come_again(daemon):
    """They are back as soon as they were dropped, for as long as it takes; in between, others are answered."""
    sockets = crowd(daemon, range(10, 10 + 2 * PLACES), b"GET / HT")
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
    for s in sockets:
        s.close()
