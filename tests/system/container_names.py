# SPDX-License-Identifier: MIT
"""Names of containers, as the daemon is told to find them, and as its series show them."""

CONFIG = """
[web]
listen = 127.0.0.1:0
[cpu]
groups =
[cgroup]
groups = faults
include = {cgroup} {cgroup}/**
container_files = {files}
[group "faults"]
events = page-faults
"""
KEYS = ("namespace", "pod", "container", "image", "machine")


def names_in(labels):
    return {key: labels[key] for key in KEYS if key in labels}
