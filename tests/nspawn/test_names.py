# SPDX-License-Identifier: MIT
"""Names of containers by the service in its sandbox, which may not read the files of runtimes, or may."""

import json

from booted import CONFIG, DROP_INS, journal, metrics, until

EXAMPLES = "/usr/share/doc/perfmond/examples"
FOLDER = "/var/lib/docker/containers"
ID = "0123456789abcdef" * 4
REASON = f"names of containers can't be read: {FOLDER}: Permission denied: container-names.conf"


def is_named(machine):
    return [line for line in metrics(machine).splitlines()
            if line.startswith("perf_cgroup_info{") and f'container_id="{ID}"' in line and 'container="web"' in line]


def test_container_names(installed):
    """With container-names.conf among the examples."""
    installed.run("sh", "-c", f"mkdir -p {FOLDER}/{ID}; chmod 0710 {FOLDER}; chmod 0700 {FOLDER}/{ID}")
    installed.write(f"{FOLDER}/{ID}/config.v2.json", json.dumps({"Name": "/web", "Config": {"Image": "nginx:1"}}))
    installed.write(CONFIG, f"[cgroup]\ncontainer_files = {FOLDER}\n")
    installed.run("systemd-run", "--quiet", "--scope", f"--unit=docker-{ID}", "sh", "-c",
                  "sleep 600 </dev/null >/dev/null 2>&1 &")
    try:
        installed.run("systemctl", "start", "perfmond")
        until(lambda: REASON in journal(installed), "the reason")
        assert not is_named(installed)
        installed.run("install", "-D", "-m", "644", "-t", DROP_INS, f"{EXAMPLES}/container-names.conf")
        installed.run("systemctl", "daemon-reload")
        installed.run("systemctl", "restart", "perfmond")
        until(lambda: is_named(installed), "the name")
    finally:
        installed.run("systemctl", "stop", f"docker-{ID}.scope")
        installed.remove(FOLDER)


def test_a_runtime_that_comes_later(installed):
    """With its folder in /run, of which the unit shows nothing without the drop-in."""
    folder = "/run/runtime/containers"
    installed.write(CONFIG, f"[cgroup]\ncontainer_files = {folder}\n")
    installed.run("install", "-D", "-m", "644", "-t", DROP_INS, f"{EXAMPLES}/container-names.conf")
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "start", "perfmond")
    text = json.dumps({"Name": "/web", "Config": {"Image": "nginx:1"}})
    installed.run("sh", "-c", f"umask 077; mkdir -p {folder}/{ID}; echo '{text}' >{folder}/{ID}/config.v2.json")
    installed.run("systemd-run", "--quiet", "--scope", f"--unit=docker-{ID}", "sh", "-c",
                  "sleep 600 </dev/null >/dev/null 2>&1 &")
    try:
        until(lambda: is_named(installed), "the name")
    finally:
        installed.run("systemctl", "stop", f"docker-{ID}.scope")
        installed.run("rm", "-r", "/run/runtime")
