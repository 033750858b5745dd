# SPDX-License-Identifier: MIT
"""Certificate, key and users by systemd's LoadCredential=: root's files, for a daemon that could not read them."""

import ctypes
import subprocess

import pytest

from booted import CONFIG, DROP_INS, journal, show, until

FOLDER = "/etc/perfmond/private"
WEB = "[web]\nlisten = 127.0.0.1:9753\ntls_certificate = cert.pem\ntls_key = key.pem\nusers = users\n"


def write_users(machine, **users):
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    machine.write(f"{FOLDER}/users", "".join(
        f"{name}:{crypt(password.encode(), b'$2b$05$abcdefghijklmnopqrstuu').decode()}\n"
        for name, password in users.items()))
    (machine.root / FOLDER.lstrip("/") / "users").chmod(0o600)


@pytest.fixture
def secured(installed):
    folder = installed.root / FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    write_users(installed, ada="engine")
    installed.write(CONFIG, WEB)
    installed.write(f"{DROP_INS}/credentials.conf", "[Service]\n" + "".join(
        f"LoadCredential={name}:{FOLDER}/{name}\n" for name in ("cert.pem", "key.pem", "users")))
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "start", "perfmond")
    yield installed
    installed.remove(FOLDER)


def status(machine, password):
    done = machine.run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", f"{FOLDER}/cert.pem",
                       "-u", f"ada:{password}", "https://localhost:9753/metrics")
    return int(done.stdout)


def test_credentials(secured):
    assert show(secured, "ActiveState") == "active"
    assert status(secured, "engine") == 200 and status(secured, "wrong") == 401
    log = journal(secured)
    assert "listening on https://127.0.0.1:9753" in log and "everybody on this machine" not in log


def test_a_reload_and_a_restart(secured):
    """A reload goes on with the credentials of the start, a restart has the new ones."""
    assert status(secured, "engine") == 200
    secured.run("systemctl", "reload", "perfmond")
    until(lambda: status(secured, "engine") == 200, "it goes on")
    write_users(secured, ada="difference")
    secured.run("systemctl", "restart", "perfmond")
    assert status(secured, "difference") == 200 and status(secured, "engine") == 401
