# SPDX-License-Identifier: MIT
"""Fixtures of the guest's tests: two kinds of guests, and daemons in them."""

import pytest

import guests as machines
from tree import build, provide


@pytest.fixture(scope="session")
def boot(tmp_path_factory):
    """Boots guests, which live as long as the tests."""
    provide("guest")
    build("arm64", "perfmond", "tests/guest/load", "tests/system/against-libdw")
    folder = tmp_path_factory.mktemp("guest")
    initramfs = machines.make_initramfs(folder)
    running = []

    def start(name, **kwargs):
        for _ in range(4):
            guest = machines.Guest(initramfs, folder / f"console-{name}", **kwargs)
            if guest.has_booted():
                running.append(guest)
                return guest
        pytest.fail(f"no guest boots here: {guest.problem}")

    yield start
    for guest in running:
        guest.stop()


@pytest.fixture(scope="session")
def exact(boot):
    """One CPU, and a PMU whose counts can be foretold."""
    return boot("exact", exact=True)


@pytest.fixture(scope="session")
def pair(boot):
    """Two CPUs, which can be taken offline."""
    return boot("pair", exact=False)


@pytest.fixture
def guest(exact):
    """The guest that `perfmond` is started in; a module may choose the other one."""
    return exact


@pytest.fixture
def perfmond(guest):
    """Starts a daemon with a config. SIGTERM has to end it with status 0."""
    running = []

    def start(config, **kwargs):
        running.append(machines.Daemon(guest, config, **kwargs))
        return running[-1]

    yield start
    for daemon in running:
        daemon.stop()
