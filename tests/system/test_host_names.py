# SPDX-License-Identifier: MIT
"""Under which names the daemon answers on this machine: its own ones, and any with TLS, where a name has to be in the
certificate."""

import subprocess

import pytest

from machine import needs

pytestmark = needs("curl")
BASE = "[cgroup]\ngroups =\n[web]\nlisten = 127.0.0.1:0\n"


@pytest.fixture
def certificate(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=host.example",
                    "-addext", "subjectAltName=DNS:host.example,IP:127.0.0.1"], check=True, capture_output=True)
    return key, certificate


def ask(url, *options):
    """curl's answer: the status, and what it says is wrong."""
    run = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *options, url + "/-/healthy"],
                         capture_output=True, text=True)
    return run.stdout, run.stderr


@needs("openssl")
def test_over_tls_the_name_has_to_be_the_certificates(perfmond, certificate):
    """As /etc/hosts has it on Debian: the machine's name is an address of loopback."""
    key, path = certificate
    options = ["--cacert", path, "--resolve"]
    daemon = perfmond(f"{BASE}tls_certificate = {path}\ntls_key = {key}\n", access={"verify": str(path)})
    port = daemon.url.rpartition(":")[2]
    assert ask(f"https://host.example:{port}", *options, f"host.example:{port}:127.0.0.1") == ("200", "")
    # What would be the rebinding: a page's own name.
    status, wrong = ask(f"https://evil.example:{port}", *options, f"evil.example:{port}:127.0.0.1")
    assert status == "000" and "evil.example" in wrong


def test_without_tls_only_own_names_are_answered(perfmond):
    daemon = perfmond(BASE)
    port = daemon.url.rpartition(":")[2]
    assert ask(f"http://localhost:{port}") == ("200", "")
    assert ask(f"http://host.example:{port}", "--resolve", f"host.example:{port}:127.0.0.1") == ("421", "")


def test_on_a_unix_socket_only_own_names_are_answered(perfmond, tmp_path):
    """A listener on loopback may stand before it, and a page whose name points there before that."""
    path = tmp_path / "http.sock"
    perfmond(f"[cgroup]\ngroups =\n[web]\nlisten = 127.0.0.1:0\nlisten = {path}\n")
    assert ask("http://localhost", "--unix-socket", path) == ("200", "")
    assert ask("http://127.0.0.1:9754", "--unix-socket", path) == ("200", "")
    assert ask("http://evil.example", "--unix-socket", path) == ("421", "")
