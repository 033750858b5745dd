# SPDX-License-Identifier: MIT
"""A Prometheus server of the tests' own, and promtool."""

import subprocess

import requests

import tree
from harness import PROMETHEUS, free_port, until


class Prometheus:
    """A server on a free port of 127.0.0.1, whose files are in a folder. `jobs` is what stands below scrape_configs."""

    def __init__(self, folder, jobs, rules=(), options=()):
        self.url = f"http://127.0.0.1:{free_port()}"
        config = folder / "prometheus.yml"
        config.write_text(f"""
global:
  scrape_interval: 1s
  scrape_timeout: 1s
  evaluation_interval: 1s
rule_files: [{', '.join(map(str, rules))}]
scrape_configs:
{jobs}""")
        self.log = open(folder / "prometheus.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [PROMETHEUS / "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn", *options],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def wait_ready(self):
        until(self._ready, f"Prometheus is ready, see {self.log.name}")
        return self

    def _ready(self):
        try:
            return requests.get(f"{self.url}/-/ready", timeout=5).ok
        except requests.RequestException:
            return False

    def get(self, path, **params):
        answer = requests.get(f"{self.url}/api/v1/{path}", params=params, timeout=60).json()
        assert answer["status"] == "success", f"{params}: {answer}"
        return answer["data"]

    def query(self, expression, **params):
        """(labels, value) of each series, now or at a `time`."""
        return [(row["metric"], float(row["value"][1]))
                for row in self.get("query", query=expression, **params)["result"]]

    def samples(self, selector, **params):
        """[(time, value)] of the one series, as they were scraped; `selector` has a range."""
        result = self.get("query", query=selector, **params)["result"]
        assert len(result) <= 1, f"{selector} is ambiguous: {result}"
        return [(at, float(value)) for at, value in result[0]["values"]] if result else []

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def job(*targets, name="perfmond"):
    """A job of these URLs, as `jobs` takes it."""
    return f"""  - job_name: {name}
    static_configs:
      - targets: {[target.removeprefix("http://") for target in targets]}
"""


def promtool(*args, **kwargs):
    tree.provide("prometheus")
    return subprocess.run([PROMETHEUS / "promtool", *args], capture_output=True, text=True, timeout=120, check=False,
                          **kwargs)
