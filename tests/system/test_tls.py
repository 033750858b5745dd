# SPDX-License-Identifier: MIT
"""TLS and basic authentication, with curl and requests; and both again after a reload. With a real Prometheus:
test_prometheus.py."""

import base64
import contextlib
import json
import re
import ssl
import socket
import subprocess
import sys
import time

import pytest
import requests

import harness
from credentials import Files, bcrypt
from harness import PATIENCE, Metrics, Timed, until
from openapi import check

BASIC = b"Authorization: Basic " + base64.b64encode(b"ada:engine") + b"\r\n"
BASE = "[cgroup]\ngroups =\n[daemon]\ninterval = 200ms\n[web]\nlisten = 127.0.0.1:0\n"


@pytest.fixture
def daemon(perfmond, files):
    return perfmond(BASE + files.tls + files.auth, access=files.access)


@pytest.fixture(scope="module")
def shared_files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def shared(shared_perfmond, shared_files):
    """For tests that change neither the files nor the config, and guess no passwords."""
    return shared_perfmond(BASE + shared_files.tls + shared_files.auth, access=shared_files.access)


def address_of(daemon):
    host, _, port = daemon.url.partition("://")[2].rpartition(":")
    return host, int(port)


def subject(daemon):
    """Of the certificate that a new connection is shown."""
    pem = ssl.get_server_certificate(address_of(daemon))
    done = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=pem, capture_output=True, text=True,
                          check=True)
    return done.stdout.strip()


def test_everything_needs_the_password(daemon, files):
    """At each path 401, and 429 after too many wrong ones. The log says so, without a password."""
    for path in ("/", "/metrics", "/api/v1/status", "/-/healthy", "/-/ready", "/none"):
        answer = daemon.get(path, auth=None)
        assert answer.status_code == 401
        assert path == "/none" or check(answer)
        assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
        assert daemon.get(path).status_code == (404 if path == "/none" else 200)
    for wrong in (("ada", "Engine"), ("bob", "engine"), ("ada", ""), ("", "engine"), ("ada", "engine\0")):
        answer = daemon.get("/api/v1/status", auth=wrong)
        assert answer.status_code == 401 and "password" in check(answer)["error"]
    metrics = daemon.fresh()  # what was answered above may be shared still
    assert metrics.value("perfmond_http_requests_total", code="401") == 11
    until(lambda: daemon.metrics().value("perfmond_connections") == 1, "the other connections are gone")
    daemon.wait_log(r"HTTP: a wrong name or password from 127\.0\.0\.1")
    assert "engine" not in daemon.log and files.users.read_text().split("$")[-1].strip() not in daemon.log


def test_too_many_wrong_passwords_are_refused(daemon):
    """429 from the eleventh on, or later where the address was allowed more meanwhile: one in two seconds."""
    def guess():
        answer = daemon.get("/api/v1/status", auth=("ada", "Engine"))
        codes.append(answer.status_code)
        assert answer.status_code in (401, 429)
        return [answer] if answer.status_code == 429 else None
    codes = []
    answer, = until(guess, "too many guesses")
    assert len(codes) > 10 and "too many" in check(answer)["error"] and int(answer.headers["Retry-After"]) > 0
    assert daemon.get("/api/v1/status").ok, "who is right is let in"


def test_curl_reads_over_tls(shared, shared_files):
    """And not without TLS."""
    host, port = address_of(shared)
    done = subprocess.run(["curl", "-sS", "--fail", "--cacert", shared_files.certificate, "-u", "ada:engine",
                           f"https://localhost:{port}/metrics"], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)
    assert done.returncode == 0 and "perfmond_up 1" in done.stdout, done.stderr
    done = subprocess.run(["curl", "-sS", f"http://{host}:{port}/metrics"], capture_output=True, timeout=PATIENCE,
                          check=False)
    assert done.returncode != 0, "TLS only"


def test_versions_of_tls(shared):
    """1.3 and 1.2, not 1.1."""
    for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_1):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(address_of(shared), timeout=PATIENCE) as s:
            if version != ssl.TLSVersion.TLSv1_1:
                assert context.wrap_socket(s).version() == version.name.replace("_", ".")
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    context.wrap_socket(s)


def handshake(daemon, cipher):
    """TLS 1.2 with that one cipher; None where the server has it not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers(f"{cipher}:@SECLEVEL=0")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(address_of(daemon), timeout=PATIENCE) as s:
        try:
            return context.wrap_socket(s).cipher()[0]
        except ssl.SSLError:
            return None


def test_ciphers_of_tls_1_2(shared):
    """Those of this certificate's kind: encryption that is authenticated, with keys that nobody can find out later."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:!aNULL:!PSK:!SRP:@SECLEVEL=0")
    all_ciphers = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    taken = {cipher for cipher in all_ciphers if handshake(shared, cipher)}
    assert taken and len(all_ciphers) > len(taken)
    assert all(re.match(r"(EC)?DHE-(RSA|ECDSA)-", cipher) for cipher in taken), taken
    assert all(re.search("GCM|CHACHA20|CCM", cipher) for cipher in taken), taken
    assert not handshake(shared, "ECDHE-RSA-AES256-SHA384") and not handshake(shared, "AES256-GCM-SHA384")


def exchange(s, request):
    s.sendall(request)
    answer = b""
    while not answer.endswith(b"healthy\n"):
        answer += s.recv(10000)
    return answer


def test_a_new_certificate_by_reload(daemon, files):
    """For new connections; what is open stays, and has its answer."""
    assert "first" in subject(daemon)
    context = ssl.create_default_context(cafile=files.certificate)
    request = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n" + BASIC + b"\r\n"
    with socket.create_connection(address_of(daemon), timeout=PATIENCE) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as s:
        assert exchange(s, request).startswith(b"HTTP/1.1 200")
        files.certify("second")
        daemon.reload(BASE + files.tls + files.auth)
        assert "second" in subject(daemon)
        answer = exchange(s, request)
        assert answer.startswith(b"HTTP/1.1 200") and b"Connection: close" in answer
        assert s.recv(10) == b""
    for i in range(2):
        files.certify(f"number {i}")
        daemon.reload(BASE + files.tls + files.auth)
        assert f"number {i}" in subject(daemon) and daemon.metrics().value("perfmond_up") == 1


BROKEN = [
    (lambda files: files.certificate.write_text("nonsense"),
     r"tls_certificate: \S+cert\.pem: the file contains no complete certificate"),
    (lambda files: files.certificate.unlink(), r"tls_certificate: \S+cert\.pem: can't be read: No such file"),
    (lambda files: files.key.write_bytes(b"\0" * 10), r"tls_key: \S+key\.pem: it is not a text"),
    (lambda files: files.key.write_text(files.certificate.read_text()),
     r"tls_key: \S+key\.pem: the file contains no complete private key"),
    (lambda files: subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", files.key],
                                  check=True), r"tls_key: \S+key\.pem: the key belongs to another certificate"),
    (lambda files: files.users.write_text("ada:engine\n"), r"users: \S+users:1: the hash is not a bcrypt hash"),
    (lambda files: files.users.write_text(""), r"users: \S+users has no users in it"),
]


def test_broken_files_change_nothing(daemon, files):
    """Each is reported with its line, and what was in force stays so."""
    whole = {path: path.read_bytes() for path in (files.certificate, files.key, files.users)}
    for break_it, says in BROKEN:
        break_it(files)
        daemon.reload(BASE + files.tls + files.auth,
                      expect=r"not reloaded, the old config stays in force: \S+\.conf:\d+: " + says)
        for path, content in whole.items():
            path.write_bytes(content)
        assert "first" in subject(daemon)
        assert daemon.get("/-/healthy").ok
    assert daemon.fresh().value("perfmond_reload_failures_total") == len(BROKEN)


def test_a_key_without_a_certificate_is_refused(tmp_path, files):
    config = tmp_path / "half.conf"
    config.write_text(BASE + f"tls_key = {files.key}\n")
    done = harness.run(f"--config={config}", "--check")
    assert done.returncode == 1 and "half.conf:7: [web] has tls_key, but no tls_certificate" in done.stderr


def test_check_looks_at_certificates_and_users(tmp_path, files):
    config = tmp_path / "check.conf"
    config.write_text(BASE + files.tls + files.auth)
    files.key.chmod(0o644)
    done = harness.run(f"--config={config}", "--check")
    assert "key.pem: everybody on this machine may read it" in done.stderr
    assert "cert.pem" not in done.stderr and "/users" not in done.stderr
    files.users.write_text("ada\n")
    done = harness.run(f"--config={config}", "--check")
    assert done.returncode == 1 and f"check.conf:9: users: {files.users}:1: this line is not" in done.stderr


def test_users_change_by_reload(daemon, files):
    assert daemon.get("/-/healthy").ok
    files.write_users(bob="builder")
    daemon.reload(BASE + files.tls + files.auth)
    assert daemon.get("/-/healthy").status_code == 401
    assert daemon.get("/-/healthy", auth=("bob", "builder")).ok
    daemon.reload(BASE + files.tls)
    assert daemon.get("/-/healthy", auth=None).ok


def test_tls_comes_and_goes_by_reload(daemon, files):
    """On the same port, and the log says the new address."""
    found = daemon.reload(BASE, expect=r"listening on (http://\S+)")
    assert requests.get(found[1] + "/-/healthy", timeout=PATIENCE).ok
    found = daemon.reload(BASE + files.tls, expect=r"listening on (https://\S+)")
    assert found[1] == daemon.url and daemon.get("/-/healthy").ok


def test_credentials_of_systemd(perfmond, files, tmp_path):
    """As systemd's LoadCredential= passes them: by name."""
    config = BASE + "tls_certificate = cert.pem\ntls_key = key.pem\nusers = users\n"
    daemon = perfmond(config, access=files.access, env={"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert daemon.get("/-/healthy").ok and daemon.get("/-/healthy", auth=None).status_code == 401


def test_credentials_that_were_not_passed_are_named(tmp_path):
    config = tmp_path / "none.conf"
    config.write_text(BASE + "users = users\n")
    done = harness.run(f"--config={config}", env={"PATH": "/usr/bin"})
    assert done.returncode == 1
    assert ("none.conf:7: users: users: 'users' is not an absolute path, and systemd has passed no credentials"
            in done.stderr)


# Guesses from 20 threads until its input ends, and says how many answers there were of each status.
GUESSERS = """
import collections, json, sys, threading, requests
url, codes, ended = sys.argv[1], [], threading.Event()

def guess(number):
    while not ended.is_set():
        codes.append(requests.get(url, auth=("ada", f"{number}-{len(codes)}"), timeout=60).status_code)

threads = [threading.Thread(target=guess, args=(i,)) for i in range(20)]
for thread in threads:
    thread.start()
sys.stdin.read()
ended.set()
for thread in threads:
    thread.join()
print(json.dumps(collections.Counter(codes)))
"""


@pytest.mark.parametrize("timed", [False, pytest.param(True, marks=(pytest.mark.deep, pytest.mark.alone))])
def test_guessing_stops_nobody(perfmond, files, work, timed):
    """Passwords of a cost that takes long: the loop goes on, and who was let in before is let in; timed: within a
    second."""
    files.users.write_text(f"ada:{bcrypt('engine', 11 if timed else 9)}\n")
    files.users.chmod(0o600)
    daemon = perfmond(BASE + files.auth, access={"auth": ("ada", "engine")})
    assert daemon.metrics().value("perfmond_up") == 1
    with subprocess.Popen([sys.executable, "-c", GUESSERS, daemon.url + "/metrics"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as guessers:
        until(lambda: daemon.metrics().value("perfmond_http_requests_total", code="429") > 0, "they have begun")
        clock = Timed(daemon, work) if timed else None
        for _ in range(30 if timed else 5):
            with clock.one() if clock else contextlib.nullcontext():
                answer = daemon.get("/metrics")
            assert answer.ok, answer.text
            time.sleep(0.1)
        took = clock.end() if clock else [0]
        codes = {int(code): nr for code, nr in json.loads(guessers.communicate(timeout=PATIENCE)[0]).items()}
    print(f"{codes}; the slowest scrape meanwhile: {max(took):.3f} s;"
          f" loop lag {Metrics(answer.text).value('perfmond_loop_lag_seconds'):.3f} s")
    assert codes.keys() <= {401, 429, 503} and codes[429] > 0 and codes[401] > 0
    if timed:
        assert codes[429] > codes[401]
        assert sum(seconds < 1 for seconds in took) >= 0.9 * len(took), took
