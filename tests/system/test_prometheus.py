# SPDX-License-Identifier: MIT
"""A real Prometheus server scrapes the daemon."""

import http.server
import json
import re
import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
import requests

import metric_families
from counter import Counter, Recorder
from harness import FRESH, PATIENCE, Repeated, free_port, until
from machine import needs
from prometheus import job, promtool

pytestmark = pytest.mark.once


# The server may date a scrape by so much earlier or later, so that all are a second apart.
ALIGNED = 0.003


def assert_as_recorded(samples, took, recorder):
    """Between any two scrapes a total rises by what was counted meanwhile. What a scrape shows was read while it was
    answered, or up to 100 ms before."""
    bounds = [recorder.between("context_switches", at - ALIGNED - FRESH, at + ALIGNED + took[at]) for at, _ in samples]
    for i, (low, high) in enumerate(bounds):
        for k, (other_low, other_high) in enumerate(bounds[:i]):
            assert low - other_high <= samples[i][1] - samples[k][1] <= high - other_low, (samples, bounds)


@pytest.mark.deep
@pytest.mark.alone
def test_the_rate_of_a_known_load(perfmond, cgroups, work, cpus, prometheus, recorder):
    """Some 400 sleeps a second in a cgroup: each scrape has what was counted until then, and rate() is made of it."""
    group, cpu = cgroups.make("load"), cpus[-1]
    helper = work(group, cpu)
    recorders = recorder(folder=group.path), recorder(cpus=[cpu])
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n")
    server = prometheus(job(daemon.url))
    ticks = Repeated(helper, "ticks 400 500")
    selectors = (f'perf_cgroup_context_switches_total{{cgroup="{group.label}"}}',
                 f'perf_cpu_context_switches_total{{cpu="{cpu}"}}')

    def window():
        """A moment right after a scrape, with ten seconds before it in which none was left out."""
        now = server.samples(selectors[0] + "[1m]")
        return now[-1][0] if len(now) > 13 and now[-1][0] - now[-11][0] < 10.1 else None

    # The server takes a few seconds from being ready to its first scrape.
    at = until(window, "scrapes for ten seconds", 4 * PATIENCE)
    took = dict(server.samples("scrape_duration_seconds[10s]", time=at))
    time.sleep(0.5)  # the recorders have gone on
    ticks.end()
    for selector, counted in zip(selectors, recorders):
        samples = server.samples(selector + "[10s]", time=at)
        assert len(samples) >= 10
        assert_as_recorded(samples, took, counted)
        rise, seconds = samples[-1][1] - samples[0][1], samples[-1][0] - samples[0][0]
        assert rise > 400, "there is something to be seen"
        rates = server.query(f"rate({selector}[10s])", time=at)
        assert len(rates) == 1 and rates[0][1] == pytest.approx(rise / seconds, rel=0.01)
        if selector == selectors[0]:
            joined = server.query(f"rate({selector}[10s]) * on (cgroup) group_left (id) perf_cgroup_info", time=at)
            assert joined[0][0]["id"] and joined[0][1] == rates[0][1]
            assert rates[0][0]["cgroup"] == group.label
    assert server.query("up", time=at)[0][1] == 1
    assert server.query("resets(perfmond_reads_total[10s])", time=at)[0][1] == 0
    assert server.query("max(scrape_samples_scraped)", time=at)[0][1] > 20


@pytest.fixture
def recorder():
    started = []

    def start(**kwargs):
        started.append(Recorder(Counter(**kwargs)))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def listener():
    """Stands between the server and a daemon: passes each scrape on as it came, and keeps what was said. With TLS it
    has the daemon's own certificate."""
    running = []

    def start(daemon, files=None):
        heard = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                answer = requests.get(daemon.url + self.path, headers=dict(self.headers), stream=True, timeout=60,
                                      verify=daemon.access.get("verify", True))
                body = answer.raw.read(decode_content=False)
                heard.append((dict(self.headers), answer))
                self.send_response(answer.status_code)
                for name in ("Content-Type", "Content-Encoding"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):  # pylint: disable=arguments-differ
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if files:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.certificate, files.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        running.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"{'https' if files else 'http'}://127.0.0.1:{server.server_port}", heard

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def test_a_server_takes_openmetrics_with_gzip(perfmond, cgroups, prometheus, listener):
    """By itself it asks for OpenMetrics with gzip, gets both, and takes all of it in."""
    cgroups.make("a")
    daemon = perfmond(f"[web]\nlisten = 127.0.0.1:0\ncreated = yes\npeaks = yes\n"
                      f"[cgroup]\ninclude = {cgroups.label}/**\n")
    target, heard = listener(daemon)
    query = prometheus(job(target)).query
    label = f'{{cgroup="{cgroups.label}/a"}}'
    wanted = [name + label for name in ("perf_cgroup_context_switches_total", "perf_cgroup_context_switches_created",
                                        "perf_cgroup_info")]
    wanted += ["up == 1", "perf_cgroup_context_switches_peak_per_second"]

    def taken():
        # After a scrape that came too late nothing is there until the next one.
        found = [query(expression) for expression in wanted]
        return found if all(found) else None

    _, created, info, *_ = until(taken, "a scrape, and a peak", 2 * PATIENCE)
    headers, answer = heard[-1]
    assert "application/openmetrics-text" in headers["Accept"] and headers["Accept-Encoding"] == "gzip"
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert created[0][1] > time.time() - 3600
    assert info[0][0]["id"]


def test_a_server_takes_protobuf(perfmond, cgroups, prometheus, listener):
    """With native histograms it asks for the protobuf format, gets it with gzip, and takes all of it in."""
    group = cgroups.make('odd "name')
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n")
    target, heard = listener(daemon)
    query = prometheus(job(target), options=["--enable-feature=native-histograms"]).query
    taken = until(lambda: query('perf_cgroup_info{cgroup=~".*odd.*"}') and query("scrape_samples_scraped"), "a scrape",
                  2 * PATIENCE)
    headers, answer = heard[-1]
    assert headers["Accept"].startswith(metric_families.ACCEPT) and headers["Accept-Encoding"] == "gzip"
    assert answer.headers["Content-Type"].startswith("application/vnd.google.protobuf; proto=io.prometheus")
    assert answer.headers["Content-Encoding"] == "gzip"
    body = requests.get(daemon.url + "/metrics", headers={"Accept": metric_families.ACCEPT}, timeout=PATIENCE).content
    assert taken[0][1] == sum(len(family.samples) for family in metric_families.families(body))
    assert query('perf_cgroup_info{cgroup=~".*odd.*"}')[0][0]["cgroup"] == group.label
    assert query("up")[0][1] == 1


def test_promtool_finds_nothing_to_complain_about(perfmond, cgroups):
    cgroups.make("a")
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n")
    done = promtool("check", "metrics", input=daemon.fresh().text)
    assert done.returncode == 0 and done.stdout + done.stderr == "", done.stdout + done.stderr


def test_the_job_with_tls_and_a_password(perfmond, files, tmp_path, prometheus, listener):
    """The job that conf/prometheus/scrape.yml has for it; what it is sent is compressed as well."""
    text = (Path(__file__).parents[2] / "conf/prometheus/scrape.yml").read_text(encoding="utf-8")
    files.write_users(prometheus="secret")
    shutil.copy(files.certificate, tmp_path / "perfmond-ca.pem")
    (tmp_path / "perfmond-password").write_text("secret")
    daemon = perfmond("[web]\nlisten = 127.0.0.1:0\n" + files.tls + files.auth,
                      access={"verify": str(files.certificate), "auth": ("prometheus", "secret")})
    target, heard = listener(daemon, files)

    block = re.search(r"^#  - job_name: perfmond-tls\n(?:#  .*\n)+", text, re.M)[0]
    jobs = re.sub(r"targets: \[.*\]", f"targets: ['{target.removeprefix('https://')}']",
                  re.sub(r"^#", "", block, flags=re.M).replace("/etc/prometheus", str(tmp_path)))
    jobs = jobs.replace("scrape_interval: 15s", "scrape_interval: 1s")
    server = prometheus(jobs)
    # After a scrape that came too late nothing is there until the next one.
    until(lambda: server.query('up{job="perfmond-tls"} == 1') and server.query("perfmond_up"), "a scrape", 2 * PATIENCE)
    headers, answer = heard[-1]
    assert headers["Authorization"].startswith("Basic ") and headers["Accept-Encoding"] == "gzip"
    assert answer.status_code == 200 and answer.headers["Content-Encoding"] == "gzip"
    assert requests.get(f"{daemon.url}/metrics", verify=str(files.certificate), timeout=60).status_code == 401


@needs("systemd-socket-activate", "/lib/systemd/systemd-socket-proxyd")
def test_a_listener_in_front_of_a_unix_socket(perfmond, tmp_path):
    """The listener that conf/prometheus/scrape.yml puts in front of one."""
    text = (Path(__file__).parents[2] / "conf/prometheus/scrape.yml").read_text(encoding="utf-8")
    program, *args = re.search(r"^# (systemd-socket-activate .*)$", text, re.M)[1].split()
    assert (program, args[2]) == ("systemd-socket-activate", "/lib/systemd/systemd-socket-proxyd")
    address, path = f"127.0.0.1:{free_port()}", tmp_path / "perfmond.sock"
    perfmond(f"[web]\nlisten = 127.0.0.1:0\nlisten = {path}\n")
    with subprocess.Popen([program, args[0], address, args[2], path], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as proxy:
        try:
            assert "Listening" in proxy.stderr.readline()
            assert "perfmond_up 1" in requests.get(f"http://{address}/metrics", timeout=60).text
        finally:
            proxy.terminate()


@pytest.mark.parametrize("document", ["doc/prometheus.md", "doc/metrics.md"])
def test_the_queries_in_the_documents_are_promql(document, tmp_path):
    text = (Path(__file__).parents[2] / document).read_text(encoding="utf-8")
    block = "".join(re.findall(r"```promql\n(.*?)```", text, re.S))
    queries = [" ".join(query.split()) for query in re.split(r"^#.*\n", block, flags=re.M) if query.strip()]
    rules = [{"record": f"q{i}", "expr": query} for i, query in enumerate(queries)]
    path = tmp_path / "rules.json"  # which is YAML, too
    path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    done = promtool("check", "rules", path)
    assert done.returncode == 0 and f"{len(queries)} rules found" in done.stdout, done.stdout + done.stderr
    assert len(queries) >= 3
