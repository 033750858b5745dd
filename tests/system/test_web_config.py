# SPDX-License-Identifier: MIT
"""[web] web_config: the file that Prometheus's own exporters share. promtool says that what is taken here is one."""

import re

import pytest

import harness
from credentials import Authority, bcrypt
from prometheus import promtool
from test_mutual_tls import refusal

BASE = "[cgroup]\ngroups =\n[web]\nlisten = 127.0.0.1:0\n"

TEXT = """
tls_server_config:
  cert_file: cert.pem
  key_file: key.pem
  client_ca_file: ca/ca.pem
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [ prometheus.example ]
  min_version: TLS13
  curve_preferences: [ CurveP256 ]
http_server_config:
  headers:
    Strict-Transport-Security: max-age=31536000
    X-Frame-Options: deny
basic_auth_users:
  ada: {hash}
"""


@pytest.fixture
def fleet(tmp_path):
    return Authority(tmp_path / "ca")


@pytest.fixture
def path(files, fleet, tmp_path):
    """Beside the certificates that it names."""
    assert files.certificate.parent == fleet.folder.parent == tmp_path
    return tmp_path / "web.yml"


def write(path, text):
    path.write_text(text.replace("{hash}", bcrypt("engine")), encoding="utf-8")
    path.chmod(0o600)
    return BASE + f"web_config = {path}\n"


def test_all_that_a_web_config_can_have(perfmond, files, fleet, path):
    right = fleet.issue("right")
    daemon = perfmond(write(path, TEXT), access={**files.access, "cert": right})
    older = path.with_name("older.yml")  # which Debian 12's promtool knows
    older.write_text(re.sub(".*client_allowed_sans.*\n", "", path.read_text()))
    assert promtool("check", "web-config", older).returncode == 0
    answer = daemon.get("/metrics")
    assert answer.ok and answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert answer.headers["X-Frame-Options"] == "deny" and "script-src" in answer.headers["Content-Security-Policy"]
    assert daemon.get("/metrics", auth=None).status_code == 401
    assert refusal(daemon, None) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert refusal(daemon, fleet.issue("other", san="DNS:other.example")) == "TLSV1_ALERT_ACCESS_DENIED"
    assert refusal(daemon, fleet.issue("sub", san="DNS:sub.prometheus.example")) == "TLSV1_ALERT_ACCESS_DENIED"


def test_a_web_config_without_certificates(perfmond, path):
    """Without certificates and users it asks for none, as exporters do."""
    daemon = perfmond(write(path, "http_server_config: { http2: true }\n"))
    assert daemon.url.startswith("http:") and daemon.get("/metrics").ok
    daemon.wait_log("web.yml: http2 is allowed, and not used: perfmond speaks HTTP/1.1")
    daemon.reload(write(path, "basic_auth_users:\n  ada: {hash}\n"))
    assert daemon.get("/metrics").status_code == 401 and daemon.get("/metrics", auth=("ada", "engine")).ok


def test_a_certificate_inside_the_web_config(perfmond, files, path):
    def indented(file):
        return file.read_text().replace("\n", "\n    ")
    daemon = perfmond(write(path, f"tls_server_config:\n  cert: |\n    {indented(files.certificate)}\n"
                                  f"  key: |\n    {indented(files.key)}\n"), access=files.access)
    assert daemon.get("/metrics").ok


def test_cipher_suites_of_a_web_config(perfmond, files, path):
    """The certificate is of the kind ECDSA."""
    daemon = perfmond(write(path, "tls_server_config: { cert_file: cert.pem, key_file: key.pem, max_version: TLS12, "
                                  "cipher_suites: [ TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 ] }\n"),
                      access=files.access)
    from test_tls import handshake  # pylint: disable=import-outside-toplevel
    assert handshake(daemon, "ECDHE-ECDSA-AES256-GCM-SHA384")
    assert not handshake(daemon, "ECDHE-ECDSA-AES128-GCM-SHA256")


def test_a_broken_file_changes_nothing(perfmond, files, path):
    """Each is reported with file and line, and what was in force stays so."""
    good = write(path, "tls_server_config: { cert_file: cert.pem, key_file: key.pem }\n")
    daemon = perfmond(good, access=files.access)
    cases = [
        ("tls_server_config:\n  cert_file: none.pem\n  key_file: key.pem\n",
         r"web\.yml:2: cert_file: \S+/none\.pem: can't be read: No such file"),
        ("tls_server_config:\n  cert_file: cert.pem\n  key_file: cert.pem\n",
         r"web\.yml:3: key_file: \S+/cert\.pem: the file contains no complete private key"),
        ("tls_server_config:\n  cert: no\n  key: no\n", r"web\.yml:2: cert: the file contains no complete certificate"),
        ("tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  client_ca_file: key.pem\n"
         "  client_auth_type: VerifyClientCertIfGiven\n",
         r"web\.yml:4: client_ca_file: \S+/key\.pem: the file contains no complete certificate"),
        ("tls_server_config\n", r"web\.yml:1: keys and values are expected here"),
        ("rate_limit: { interval: 1s }\n", r"web\.yml:1: rate_limit is not kept here"),
        ("a: [\n", r"web\.yml:2: the file is not YAML"),
        ("a: \0\n", r"web\.yml: it is not a text: it contains a NUL byte"),
    ]
    for text, says in cases:
        daemon.reload(write(path, text), expect=r"not reloaded, .*\.conf:5: web_config: \S*" + says)
        assert daemon.get("/metrics").ok
    path.unlink()
    daemon.reload(good, expect=r"not reloaded, .*web_config: \S+web\.yml: can't be read")
    assert daemon.get("/metrics").ok


def test_a_web_config_beside_the_keys_that_it_replaces_is_refused(files, path, tmp_path):
    config = tmp_path / "both.conf"
    config.write_text(write(path, "") + files.auth)
    done = harness.run(f"--config={config}", "--check")
    assert done.returncode == 1
    assert re.search(r"both\.conf:6: \[web\] has users, and web_config in \S+:5, whose file takes", done.stderr)


@pytest.mark.parametrize("form", [
    lambda text: "\ufeff" + text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text.rstrip("\n"),
    lambda text: "\ufeff" + text.rstrip("\n").replace("\n", "\r\n"),
], ids=["byte order mark", "CRLF", "no last newline", "all"])
def test_each_file_is_read_as_editors_save_it(perfmond, files, fleet, path, form):
    """The config, a drop-in, the users, certificates, keys, lists of revoked ones, and a web_config."""
    files.write_users(ada="engine", bob="pass word")
    own = path.with_name("client")
    own.write_bytes(files.certificate.read_bytes())
    access = {"verify": str(own), "cert": fleet.issue("right")}
    write(path, TEXT)
    drop_in = path.with_name("perfmond.conf.d") / "tls.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(f"[web]\n{files.tls}{files.auth}tls_client_ca = {fleet.ca}\ntls_client_crl = {fleet.crl}\n")
    for file in (files.certificate, files.key, files.users, fleet.ca, fleet.crl, path, drop_in):
        file.write_text(form(file.read_text(encoding="utf-8")), encoding="utf-8", newline="")
    daemon = perfmond(form(BASE), access={**access, "auth": ("ada", "engine")})
    assert daemon.get("/-/ready", auth=("bob", "pass word")).ok
    drop_in.unlink()
    perfmond(form(f"{BASE}web_config = {path}\n"), access={**access, "auth": ("ada", "engine")})
