# SPDX-License-Identifier: MIT
"""Client certificates: who is let in, what the others are told, and both again after a reload."""

import re
import socket
import ssl
import subprocess
import time

import pytest
import requests

import harness
from credentials import Authority, Files
from harness import PATIENCE, Delta, until

BASE = "[cgroup]\ngroups =\n[web]\nlisten = 127.0.0.1:0\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("fleet") / "ca")


@pytest.fixture(scope="module")
def right(fleet):
    return fleet.issue("right", san="DNS:prometheus.example,URI:spiffe://fleet/ns/monitoring,IP:127.0.0.9,"
                                    "email:ops@fleet.example")


@pytest.fixture
def start(perfmond, files, fleet, right):
    def run(more="", cert=right):
        return perfmond(BASE + files.tls + f"tls_client_ca = {fleet.ca}\n" + more,
                        access={"verify": str(files.certificate), "cert": cert})
    return run


@pytest.fixture(scope="module")
def shared_files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def shared(shared_perfmond, shared_files, fleet, right):
    """For tests that do not reload."""
    def run(more="", cert=right):
        return shared_perfmond(BASE + shared_files.tls + f"tls_client_ca = {fleet.ca}\n" + more,
                               access={"verify": str(shared_files.certificate), "cert": cert})
    return run


def try_once(context, daemon, source):
    host, _, port = daemon.url.partition("://")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE, source_address=(source, 0)) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as s:
        s.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return s.recv(10000)


def refusal(daemon, cert, version=ssl.TLSVersion.TLSv1_3, source="127.0.0.1"):
    """The alert that a client gets, or None where it is let in. In TLS 1.3 it comes after the client's handshake: who
    writes to the connection when it is closed already does not see it, and tries again."""
    context = ssl.create_default_context(cafile=daemon.access["verify"])
    context.minimum_version = context.maximum_version = version
    if cert:
        context.load_cert_chain(*cert)
    for _ in range(100):
        try:
            assert try_once(context, daemon, source).startswith(b"HTTP/1.1 200")
            return None
        except (ssl.SSLEOFError, ConnectionError):
            pass
        except ssl.SSLError as error:
            return error.reason
    raise AssertionError("never an alert")


VERSIONS = {ssl.TLSVersion.TLSv1_3: 20, ssl.TLSVersion.TLSv1_2: 40}


@pytest.fixture(scope="module")
def cases(fleet, right, tmp_path_factory):
    """(certificate, its alert, what the log says), of certificates that are let in and that are not."""
    folder = tmp_path_factory.mktemp("others")
    stranger = Authority(folder / "stranger", "stranger").issue("right")
    twin = Authority(folder / "twin", "fleet").issue("right")  # of the same name, with another key
    return [
        (right, None, None),
        (fleet.issue("nameless", san=""), None, None),
        (fleet.issue("any-purpose", purpose=""), None, None),
        (None, "", "there was none"),
        (stranger, "TLSV1_ALERT_UNKNOWN_CA", "no trusted authority has issued it"),
        (twin, "TLSV1_ALERT_UNKNOWN_CA", "no trusted authority has issued it"),
        (fleet.expired("late"), "SSLV3_ALERT_CERTIFICATE_EXPIRED", "it has expired"),
        (fleet.issue("early", "-startdate", "20490101000000Z", "-enddate", "20490102000000Z"),
         "SSLV3_ALERT_CERTIFICATE_EXPIRED", "it is not valid yet"),
        (fleet.issue("server", purpose="serverAuth"), "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
         "it is not meant for clients"),
    ]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_who_is_let_in(shared, cases, version):
    """Who is refused gets an alert that says why, and so does the log."""
    daemon = shared()
    none = "TLSV13_ALERT_CERTIFICATE_REQUIRED" if version == ssl.TLSVersion.TLSv1_3 else \
        "SSLV3_ALERT_HANDSHAKE_FAILURE"
    before = daemon.fresh()
    # Each from an address of its own: of one peer, not all is logged.
    for i, (cert, alert, sentence) in enumerate(cases):
        source = f"127.0.0.{VERSIONS[version] + i}"
        assert refusal(daemon, cert, version, source) == (none if alert == "" else alert), sentence
        if sentence:
            daemon.wait_log(f"refused the client certificate of {source}: {sentence}")
    refused = sum(alert is not None for _, alert, _ in cases)
    rose = Delta(before, daemon.fresh())
    assert rose.of("perfmond_connections_dropped_total", reason="certificate") >= refused
    assert rose.of("perfmond_connections_dropped_total", reason="malformed") == 0
    assert rose.of("perfmond_http_requests_total", code="400") == 0


def test_curl_says_why_it_is_refused(shared, shared_files, right):
    daemon = shared()
    port = daemon.url.rpartition(":")[2]
    command = ["curl", "-sS", "--cacert", shared_files.certificate, f"https://localhost:{port}/-/healthy"]

    def refused():
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode != 0
        return "certificate required" in done.stderr

    until(refused, "it says so")
    done = subprocess.run([*command, "--cert", right[0], "--key", right[1]], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.stdout == "healthy\n", done.stderr


def test_only_allowed_names_are_let_in(start, fleet, right):
    """By the subject alternative names, of all kinds; the common name does not count. They are exchanged while it
    runs."""
    daemon, nameless = start(), fleet.issue("prometheus.example", san="")
    config = daemon.config_path.read_text()
    for names in ("prometheus.example", "*.example", "other.example prometheus.example", "127.0.0.9",
                  "spiffe://fleet/ns/*", "spiffe://fleet/**", "ops@fleet.example"):
        daemon.reload(config + f"[web]\ntls_client_names = {names}\n")
        assert refusal(daemon, right) is None, names
        assert refusal(daemon, nameless) == "TLSV1_ALERT_ACCESS_DENIED", names
    daemon.wait_log("it has no subject alternative name, and only some names are allowed")
    # From another address: of one peer, not all is logged.
    for names in ("prometheus", "right", "spiffe://fleet/*", "127.0.0.*.1", "?"):
        daemon.reload(config + f"[web]\ntls_client_names = {names}\n")
        assert refusal(daemon, right, source="127.0.0.2") == "TLSV1_ALERT_ACCESS_DENIED", names
    daemon.wait_log("its name 'prometheus.example' is not allowed")
    daemon.reload(config)
    assert refusal(daemon, right) is None


def test_revoked_by_reload(start, fleet):
    """A connection that is open stays; new ones are refused, at once after the reload."""
    victim, other = fleet.issue("victim"), fleet.issue("bystander")
    daemon = start(f"tls_client_crl = {fleet.crl}\n")
    config = daemon.config_path.read_text()
    session = requests.Session()
    get = {"verify": daemon.access["verify"], "cert": victim, "timeout": PATIENCE}
    assert session.get(daemon.url + "/-/healthy", **get).ok
    fleet.revoke(victim)
    assert refusal(daemon, victim) is None, "not read before it is told"
    daemon.reload(config)
    answer = session.get(daemon.url + "/-/healthy", **get)
    assert answer.ok and answer.headers["Connection"] == "close"
    assert refusal(daemon, victim) == "SSLV3_ALERT_CERTIFICATE_REVOKED" and refusal(daemon, other) is None
    daemon.wait_log("it is revoked")
    fleet.list_revoked("-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200102000000Z")
    daemon.reload(config, expect=r"crl\.pem: a list of revoked certificates is out of date")
    assert refusal(daemon, other) == "SSLV3_ALERT_CERTIFICATE_UNKNOWN"
    fleet.list_revoked()
    daemon.reload(config)
    assert refusal(daemon, other) is None


def test_two_lists_of_one_authority(perfmond, files, tmp_path):
    """Who is on either of them is revoked."""
    authority = Authority(tmp_path / "twice", "twice")
    victim, other = authority.issue("victim"), authority.issue("bystander")
    empty = authority.crl.read_text()
    authority.revoke(victim)
    full = authority.crl.read_text()
    both = tmp_path / "both.pem"
    both.write_text(full + empty)
    daemon = perfmond(BASE + files.tls + f"tls_client_ca = {authority.ca}\ntls_client_crl = {both}\n",
                      access={"verify": str(files.certificate), "cert": other})
    for lists in (full + empty, empty + full):
        both.write_text(lists)
        daemon.reload(daemon.config_path.read_text())
        assert refusal(daemon, victim) == "SSLV3_ALERT_CERTIFICATE_REVOKED" and refusal(daemon, other) is None


def test_another_authority_by_reload(start, files, fleet, right, tmp_path):
    other = Authority(tmp_path / "other", "other")
    theirs, daemon = other.issue("theirs"), start()
    assert refusal(daemon, right) is None and refusal(daemon, theirs) == "TLSV1_ALERT_UNKNOWN_CA"
    both = tmp_path / "both.pem"
    both.write_text(fleet.ca.read_text() + other.ca.read_text())
    daemon.reload(BASE + files.tls + f"tls_client_ca = {both}\n")
    assert refusal(daemon, right) is None and refusal(daemon, theirs) is None
    daemon.reload(BASE + files.tls + f"tls_client_ca = {other.ca}\n")
    assert refusal(daemon, right) == "TLSV1_ALERT_UNKNOWN_CA" and refusal(daemon, theirs) is None
    daemon.reload(BASE + files.tls)
    assert refusal(daemon, None) is None, "nobody is asked any more"


def test_optional_certificates(shared, cases):
    """Who shows none is let in; who shows a wrong one is not."""
    daemon, stranger = shared("tls_client_required = no\n", cert=None), cases[4][0]
    for version in VERSIONS:
        assert refusal(daemon, None, version) is None
        assert refusal(daemon, stranger, version) == "TLSV1_ALERT_UNKNOWN_CA"


def test_a_certificate_and_a_password_are_both_needed(start, files, right):
    daemon = start(cert=right)
    daemon.reload(daemon.config_path.read_text() + "[web]\n" + files.auth)
    assert daemon.get("/-/healthy").status_code == 401
    assert daemon.get("/-/healthy", auth=("ada", "engine")).ok
    assert refusal(daemon, None)


def test_a_chain_of_certificates_is_let_in(shared, fleet, tmp_path):
    """A certificate whose chain leads to the authority."""
    middle = Authority(tmp_path / "middle", "middle")
    (fleet.folder / "ext").write_text("basicConstraints=critical,CA:true\n")
    subprocess.run(["openssl", "req", "-new", "-key", middle.folder / "ca.key", "-subj", "/CN=middle", "-out",
                    middle.folder / "ca.csr"], check=True, capture_output=True)
    subprocess.run(["openssl", "ca", "-batch", "-notext", "-config", fleet.config, "-in", middle.folder / "ca.csr",
                    "-out", middle.ca, "-extfile", fleet.folder / "ext"], check=True, capture_output=True)
    certificate, key = middle.issue("leaf")
    alone = refusal(daemon := shared(), (certificate, key))
    assert alone == "TLSV1_ALERT_UNKNOWN_CA"
    chain = tmp_path / "chain.pem"
    chain.write_text(open(certificate, encoding="ascii").read() + middle.ca.read_text())
    assert refusal(daemon, (str(chain), key)) is None


WRONG = [
    ("tls_client_ca = {ca}\n", r"\[web\] has tls_client_ca, but no tls_certificate"),
    ("{tls}tls_client_crl = {crl}\n", r"\[web\] has tls_client_crl, but no tls_client_ca"),
    ("{tls}tls_client_names = a b\n", r"\[web\] has tls_client_names, but no tls_client_ca"),
    ("{tls}tls_client_ca = {key}\n", r"tls_client_ca: \S+ca\.key: the file contains no complete certificate in PEM"),
    ("{tls}tls_client_ca = /none\n", r"tls_client_ca: /none: can't be read: No such file"),
    ("{tls}tls_client_ca = {ca}\ntls_client_crl = {ca}\n",
     r"tls_client_crl: \S+ca\.pem: the file contains no complete list of revoked certificates"),
    ("{tls}tls_client_ca = {ca}\ntls_client_crl = {other}\n",
     r"tls_client_crl: \S+crl\.pem: no trusted authority has signed this list"),
    ("{tls}tls_client_ca = {ca}\ntls_client_required = maybe\n", "tls_client_required: 'maybe' is neither yes nor no"),
]


def test_wrong_files_are_named(files, fleet, tmp_path):
    """By --check, with the line of the config."""
    other, config = Authority(tmp_path / "other", "other"), tmp_path / "wrong.conf"
    for text, says in WRONG:
        config.write_text(BASE + text.format(tls=files.tls, ca=fleet.ca, key=fleet.folder / "ca.key", crl=fleet.crl,
                                             other=other.crl))
        done = harness.run(f"--config={config}", "--check")
        assert done.returncode == 1, text
        assert re.search(r"wrong\.conf:\d+: " + says, done.stderr), done.stderr


def test_broken_files_change_nothing(start, fleet, right, tmp_path):
    daemon = start()
    broken = tmp_path / "broken.pem"
    broken.write_text(fleet.ca.read_text()[:200])
    config = daemon.config_path.read_text()
    daemon.reload(config.replace(str(fleet.ca), str(broken)), expect="not reloaded, .*tls_client_ca: ")
    assert refusal(daemon, right) is None and refusal(daemon, None)


def test_a_crowd_without_certificates_does_not_fill_the_log(start, right):
    """They cost a handshake each, the log is not filled, and who has one is let in meanwhile."""
    daemon, begin = start(), time.monotonic()
    for _ in range(30):
        assert refusal(daemon, None)
    assert refusal(daemon, right) is None
    lines = sum("refused the client certificate" in line for line in daemon.lines)
    # A few at once, and one in two seconds from then on.
    assert lines <= 11 + (time.monotonic() - begin) / 2


@pytest.mark.once
def test_prometheus_with_a_certificate(start, files, right, prometheus):
    """And one without: its target says what is missing."""
    daemon = start("tls_client_names = prometheus.example\n")
    target = daemon.url.removeprefix("https://")
    server = prometheus(f"""  - job_name: right
    scheme: https
    tls_config: {{ ca_file: {files.certificate}, cert_file: {right[0]}, key_file: {right[1]} }}
    static_configs: [{{ targets: ['{target}'] }}]
  - job_name: without
    scheme: https
    tls_config: {{ ca_file: {files.certificate} }}
    static_configs: [{{ targets: ['{target}'] }}]
""")
    until(lambda: server.query('up{job="right"} == 1') and server.query('up{job="without"} == 0'), "both scrapes")
    until(lambda: server.query('perfmond_connections_dropped_total{reason="certificate"} > 0'), "it is seen")

    def errors():
        return {target["labels"]["job"]: target["lastError"] for target in server.get("targets")["activeTargets"]}

    until(lambda: "certificate required" in errors()["without"], "it says why")
    until(lambda: errors()["right"] == "", "its last scrape was a good one")
