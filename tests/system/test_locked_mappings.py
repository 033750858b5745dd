# SPDX-License-Identifier: MIT
"""A process that has its mappings locked for seconds: whoever reads its /proc/PID/maps waits for as long."""

import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import online_cpus, until
from profiling import ask, start_daemon

LOCKED = "the process kept its mappings locked"

# mprotect(2) has the mappings locked while it changes the page tables. At idle priority that takes long on a busy CPU.
LOCKER = """
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SIZE ((size_t)384 << 20)

__attribute__((noinline, noclone)) void locks_of_test(char *memory)
{
	for (;;) {
		mprotect(memory, SIZE, PROT_READ);
		mprotect(memory, SIZE, PROT_READ | PROT_WRITE);
	}
}

int main(void)
{
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(memory, SIZE, MADV_NOHUGEPAGE);
	memset(memory, 1, SIZE);
	sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 });
	puts("ready");
	fflush(stdout);
	locks_of_test(memory);
	return 0;
}
"""


@pytest.fixture
def lockers(programs, tmp_path):
    """Several, since one of them may just have its mappings unlocked when the daemon looks at it."""
    program = programs.make(LOCKER, tmp_path / "locker-of-test")
    processes = [subprocess.Popen([program], stdout=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


class Reader(threading.Thread):
    """How long it takes at most to read the mappings."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.path, self.longest, self.ended = Path(f"/proc/{process.pid}/maps"), 0, False
        self.start()

    def run(self):
        while not self.ended:
            begun = time.monotonic()
            self.path.read_bytes()
            self.longest = max(self.longest, time.monotonic() - begun)
            time.sleep(0.01)


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.once
def test_requests_are_answered_while_mappings_are_locked(perfmond, work, lockers):
    """Requests are answered, and the samples are there without names. When the processes have got on, they have
    names."""
    hogs = [work(cpu=cpu) for cpu in online_cpus() for _ in range(4)]
    for hog in hogs:
        hog.begin("cpu 600000")
    daemon, readers, took = start_daemon(perfmond, rate=499), [Reader(process) for process in lockers], []

    def rows(since):
        parameters = {"command": "locker-of-test", "from": since}
        return ask(daemon, "/api/v1/profile/top", **parameters)["rows"]

    seen = set()

    def were_locked():
        begun = time.monotonic()
        assert daemon.get("/-/healthy").status_code == 200
        took.append(time.monotonic() - begun)
        # It has names from when it has got on, though others have not.
        seen.update(row["missing"] for row in rows("-1h"))
        return LOCKED in seen and max(reader.longest for reader in readers) > 5

    until(were_locked, "mappings were locked", 120)
    longest = max(reader.longest for reader in readers)
    assert max(took) < longest / 2, (took, longest)
    for reader in readers:
        reader.ended = True
    for hog in hogs:
        hog.stop()
    for reader in readers:
        reader.join()
    # That of locks_of_test() itself is not found: the C library's mprotect() keeps no frame pointer.
    until(lambda: {"main"} <= {row["name"] for row in rows("-3s")} and
          LOCKED not in {row["missing"] for row in rows("-3s")}, "names", 60)
