# SPDX-License-Identifier: MIT
"""Listening sockets that systemd passes: the daemon serves on them, and they outlive it."""

import os
import re
import socket

import pytest
import requests

from harness import PATIENCE, passing, run, until


@pytest.fixture
def sockets(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "http.sock"))
        unix.listen()
        yield tcp, unix


@pytest.fixture
def passed(perfmond, sockets):
    fds = [s.fileno() for s in sockets]
    return lambda config: perfmond(config, **passing([("http", fd) for fd in fds]))


def url_of(tcp):
    return "http://127.0.0.1:%d" % tcp.getsockname()[1]


def ask(address):
    """The status of an answer on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(address)
        s.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
        return int(re.match(rb"HTTP/1\.[01] (\d+)", s.recv(1000))[1])


def test_passed_sockets_replace_the_config_s_also_after_a_reload(passed, sockets):
    tcp, unix = sockets
    daemon = passed("[web]\nlisten = 192.0.2.1:9753\n")
    assert daemon.url == url_of(tcp)
    daemon.wait_log(re.escape(f"listening on {url_of(tcp)} (systemd's socket)"))
    daemon.wait_log(re.escape(f"listening on unix:{unix.getsockname()} (systemd's socket)"))
    daemon.reload("[web]\nlisten = 192.0.2.2:9753\n")
    assert ask(unix.getsockname()) == 200
    assert daemon.metrics().value("perfmond_reloads_total") == 1
    assert sum("listening on" in line for line in daemon.lines) == 2


def test_passed_sockets_outlive_the_daemon(passed, sockets):
    """Who calls while there is no daemon waits for the next one."""
    tcp, unix = sockets
    passed("").stop()
    assert os.path.exists(unix.getsockname()), "systemd's file is left to systemd"
    with socket.create_connection(tcp.getsockname(), PATIENCE) as early:
        early.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
        daemon = passed("")
        assert re.match(rb"HTTP/1\.[01] 200", early.recv(1000))
    until(lambda: requests.get(url_of(tcp) + "/-/ready", timeout=PATIENCE).status_code == 200, "ready")
    assert daemon.process.poll() is None


def test_wrong_variables_of_passed_sockets_end_the_start():
    done = run("--listen=127.0.0.1:0", prefix=["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=many exec "$@"', "sh"])
    assert done.returncode == 1 and "LISTEN_FDS" in done.stderr
