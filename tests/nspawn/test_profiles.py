# SPDX-License-Identifier: MIT
"""Profiles by the service in its sandbox, which sees neither other processes nor the kernel's symbols: root's lists."""

import json
import re
import shutil
import subprocess

import pytest

from booted import CONFIG, DROP_INS, journal, show, until

EXAMPLES = "/usr/share/doc/perfmond/examples"
PROGRAM = "/opt/profiled"
SERVICE = "profiled.service"
CGROUP = f"/system.slice/{SERVICE}"

# Half in a function of its own, half in the kernel.
SOURCE = r"""
#include <fcntl.h>
#include <unistd.h>

static volatile unsigned long sink;
static char page[1 << 20];

__attribute__((noinline, noclone)) void function_of_service(void)
{
	for (int i = 0; i < 1000000; i++)
		sink += 1;
}

__attribute__((noinline, noclone)) void kernel_of_service(int fd)
{
	for (int i = 0; i < 20; i++)
		sink += (unsigned long)read(fd, page, sizeof(page));
}

int main(void)
{
	int fd = open("/dev/zero", O_RDONLY);

	for (;;) {
		function_of_service();
		kernel_of_service(fd);
	}
}
"""


@pytest.fixture
def profiled(installed, tmp_path):
    """A service that runs before the daemon does: start(properties)."""
    source = tmp_path / "profiled.c"
    source.write_text(SOURCE, encoding="utf-8")
    (installed.root / "opt").mkdir(exist_ok=True)
    subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", "-o", installed.root / PROGRAM[1:], source], check=True)
    installed.write(CONFIG, "[profiles]\nenabled = yes\nrate = 199\n")

    def start(*properties, program=PROGRAM):
        installed.run("systemd-run", "--quiet", f"--unit={SERVICE}", *(f"--property={text}" for text in properties),
                      "sh", "-c", f"exec {program}")
    yield start
    installed.run("systemctl", "stop", SERVICE, check=False)
    installed.remove(PROGRAM)


@pytest.fixture
def kallsyms(machine):
    """The kernel's list, with addresses."""
    begin = machine.run("head", "-c", "65536", "/proc/kallsyms").stdout
    if not re.search(r"^[0-9a-f]*[1-9a-f][0-9a-f]* t ", begin, re.M):
        pytest.skip("the kernel shows root no addresses here")


@pytest.fixture
def no_kallsyms(machine):
    """Its list is empty, as many containers have it."""
    machine.run("mount", "--bind", "/dev/null", "/proc/kallsyms")
    yield
    machine.run("umount", "/proc/kallsyms")


def ask(machine, path="/api/v1/profile", **parameters):
    query = "&".join(f"{name}={value}" for name, value in {"cgroup": CGROUP, "from": "-1h", **parameters}.items())
    return machine.run("curl", "-sf", f"http://127.0.0.1:9753{path}?{query}").stdout


def functions(machine):
    """Those of the service that are the innermost of a stack: (name, module's base name, reason why it has none)."""
    rows = json.loads(ask(machine, "/api/v1/profile/top", limit=100))["rows"]
    return {(row["name"], row["module"].rpartition("/")[2], row["missing"]) for row in rows}


def is_named(machine, name):
    return any(found == name and not missing for found, _, missing in functions(machine))


def test_names_in_the_sandbox(installed, profiled, kallsyms):
    """A program that ran before has its command and its functions' names, and so has the kernel; with the unit as it
    is."""
    profiled()
    installed.run("systemctl", "start", "perfmond")
    until(lambda: is_named(installed, "function_of_service"), "the program's function")
    listed = set(re.findall(r"^[0-9a-f]+ . (\S+)", installed.run("cat", "/run/perfmond/kallsyms").stdout, re.M))
    until(lambda: {name for name, module, missing in functions(installed) if module == "[kernel]" and not missing} &
          listed, "a function of the kernel")
    halves = [rf"^{re.escape(CGROUP)};profiled;.*;{end} \d+$" for end in ("function_of_service", "vfs_read;.*")]
    # Not each sample in the kernel is in its half: interrupts come in the other one, too.
    folded = until(lambda: (text := ask(installed, format="folded")) and
                   all(re.search(half, text, re.M) for half in halves) and text, "stacks of both halves")
    user = installed.run("stat", "--format=%U", "/run/perfmond/").stdout
    for name in ("kallsyms", "processes"):
        assert installed.run("stat", "--format=%a %U", f"/run/perfmond/{name}").stdout == f"400 {user}"
    assert user.strip() != "root" and show(installed, "ProtectProc") == "invisible"
    assert not re.search(r"ffffffff[0-9a-f]{8}", folded)

    # After a reload they are still there, and what was known stays.
    installed.run("systemctl", "reload", "perfmond")
    assert is_named(installed, "function_of_service")


def test_programs_elsewhere(installed, profiled):
    """In a folder at the top that the unit does not name: as doc/security.md says."""
    program = installed.root / "other/elsewhere"
    program.parent.mkdir()
    shutil.copy(installed.root / PROGRAM[1:], program)
    try:
        profiled(program="/other/elsewhere")
        installed.run("systemctl", "start", "perfmond")

        def reasons():
            return {missing for _, module, missing in functions(installed) if module == "elsewhere"} - \
                {"not looked up yet", "being looked up"}
        assert until(reasons, "the program") == {"the file can't be opened"}
        installed.write(f"{DROP_INS}/folders.conf", "[Service]\nBindReadOnlyPaths=-/other\n")
        installed.run("systemctl", "daemon-reload")
        installed.run("systemctl", "restart", "perfmond")
        until(lambda: is_named(installed, "function_of_service"), "the program's function")
    finally:
        installed.run("systemctl", "stop", SERVICE)
        installed.remove("/other")


def test_without_kernel_symbols(installed, profiled, no_kallsyms):
    """It is said, and all else has its names."""
    profiled()
    installed.run("systemctl", "start", "perfmond")
    assert "no kernel symbols are saved: /proc/kallsyms" in journal(installed)
    until(lambda: is_named(installed, "function_of_service"), "the program's function")
    until(lambda: any(module == "[kernel]" and missing == "the list of the kernel's symbols can't be read"
                      for _, module, missing in functions(installed)), "the reason")


def test_files_of_containers(installed, profiled):
    """A program that only its own mount namespace has: named with container-files.conf among the examples."""
    profiled(f"BindReadOnlyPaths={PROGRAM}:/srv/inside", "TemporaryFileSystem=/opt", program="/srv/inside")
    installed.run("systemctl", "start", "perfmond")

    def reasons():
        return {missing for _, module, missing in functions(installed) if module == "inside"} - \
            {"not looked up yet", "being looked up"}
    assert until(reasons, "the program") == {"the file can't be opened"}
    installed.run("install", "-D", "-m", "644", "-t", DROP_INS, f"{EXAMPLES}/container-files.conf")
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "restart", "perfmond")
    until(lambda: is_named(installed, "function_of_service"), "the program's function")
