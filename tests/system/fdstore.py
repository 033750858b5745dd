# SPDX-License-Identifier: MIT
"""systemd's side of sd_notify(3), as far as perfmond needs it: a socket that is told READY=1, and an fd store by
systemd's rules. Restarts can be tried fast with it, and with faults; tests/nspawn has the real one.

What is put into it without FDPOLL=0 is watched, and dropped as soon as it hangs up or fails, as perf events do at
once. A file that is there already is not put there again, and what is more than the maximum is closed in silence.
"""

import ctypes
import os
import platform
import random
import select
import re
import socket
import struct
import threading
import zlib
from pathlib import Path

import harness
from harness import passing, until, with_engine

FAULTS, SWITCHES = "perf_cgroup_page_faults_total", "perf_cgroup_context_switches_total"
WENT_ON = r"totals go on from systemd's fd store, with all of \d+ perf events"
MEMORY, EVENTS = "perfmond-memory-", "perfmond-events-"

# Of an image: magic, version, size, checksum of all that follows.
HEADER = struct.Struct("=4Q")

SCM_MAX_FD = 253
SYS_KCMP = {"x86_64": 312, "aarch64": 272}[platform.machine()]
KCMP_FILE = 0


def same_file(a, b):
    """Are these two fds one open file?"""
    return ctypes.CDLL(None).syscall(SYS_KCMP, os.getpid(), os.getpid(), KCMP_FILE, a, b) == 0


def hangs_up(fd):
    poll = select.poll()
    poll.register(fd, 0)
    return bool(poll.poll(0))


class FdStore:
    """`entries` are the files in it, as (name, fd); `said` is all else that was notified, in its order, as
    (key, value)."""

    def __init__(self, folder, maximum=4096):
        self.maximum, self.entries, self.said, self.most = maximum, [], [], 0
        self.address = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self):
        while True:
            data, fds, _, _ = socket.recv_fds(self.socket, 65536, SCM_MAX_FD)
            fields = [line.partition("=")[::2] for line in data.decode().split("\n") if line]
            if ("X_END", "1") in fields:
                return
            self._take(fields, dict(fields), fds)

    def _take(self, fields, values, fds):
        if values.get("FDSTOREREMOVE") == "1":
            self.remove(values.get("FDNAME"))
        for fd in fds:
            if values.get("FDSTORE") != "1" or not self._put(fd, values.get("FDNAME", "stored"), values.get("FDPOLL")):
                os.close(fd)
        # After what it is the end of.
        self.said += [(key, value) for key, value in fields if not key.startswith("FD")]

    def _put(self, fd, name, poll):
        if len(self.entries) >= self.maximum or any(same_file(fd, other) for _, other in self.entries) or \
                (poll != "0" and hangs_up(fd)):
            return False
        self.entries.append((name, fd))
        self.most = max(self.most, len(self.entries))
        return True

    def remove(self, name):
        for entry in [entry for entry in self.entries if entry[0] == name]:
            self.entries.remove(entry)
            os.close(entry[1])

    def empty(self):
        """As systemd does where a unit has been stopped."""
        for name in self.names():
            self.remove(name)

    def names(self, prefix=""):
        """In the order of their numbers."""
        found = [name for name, _ in self.entries if name.startswith(prefix)]
        return sorted(found, key=lambda name: (name.rstrip("0123456789"), int("0" + re.search(r"\d*$", name)[0])))

    def fd(self, name):
        return next(fd for have, fd in self.entries if have == name)

    def kinds(self):
        """Of the files in the parcels of events, each once: perf events, and maps, programs and links of BPF."""
        found = set()
        for fd in [fd for name, fd in self.entries if name.startswith(EVENTS)]:
            with socket.socket(fileno=os.dup(fd)) as parcel:
                # Not by recv_fds(), whose flags Python 3.11 forgets.
                _, ancillary, _, _ = parcel.recvmsg(1, socket.CMSG_SPACE(4 * SCM_MAX_FD), socket.MSG_PEEK)
            for file, in struct.iter_unpack("=i", b"".join(data for _, _, data in ancillary)):
                found.add(os.readlink(f"/proc/self/fd/{file}"))
                os.close(file)
        return found

    def shuffled(self):
        """What the next instance is given: all, in any order."""
        return random.sample(self.entries, len(self.entries))

    def tell(self, text):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(text.encode(), self.address)

    def settle(self):
        """All that was sent so far has been dealt with."""
        self.tell("X_SETTLED=1")
        until(lambda: ("X_SETTLED", "1") in self.said, "the fd store has read all")
        self.said.remove(("X_SETTLED", "1"))

    def close(self):
        self.tell("X_END=1")
        self.thread.join()
        self.empty()
        self.socket.close()


class Image:
    """Totals or samples that a daemon has kept for the next one, by their fd."""

    def __init__(self, fd):
        self.fd = fd
        data = os.pread(fd, os.fstat(fd).st_size, 0)
        self.data = bytearray(data[:HEADER.unpack_from(data)[2]])

    @property
    def saved_at(self):
        length = struct.unpack_from("=Q", self.data, HEADER.size)[0]
        return struct.unpack_from("=Q", self.data, HEADER.size + 8 + (length + 7) // 8 * 8)[0]

    def write(self, sign=True):
        if sign:
            struct.pack_into("=Q", self.data, 24, zlib.crc32(self.data[HEADER.size:]))
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, self.data, 0)


def flip(image):
    image.data[len(image.data) // 2] ^= 1
    image.write(sign=False)


def other_boot(image):
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip().encode()
    at = image.data.index(boot_id)
    image.data[at:at + 8] = b"00000000" if boot_id[:8] != b"00000000" else b"11111111"
    image.write()


def saved(state):
    """The files in a state directory, but for samples, of which there may be none yet."""
    return sorted(set(os.listdir(state)) - {"samples"})


def config(top, events="page-faults, context-switches", more="", cpu="", interval="1s", listen="127.0.0.1:0"):
    return f"""
[daemon]
interval = {interval}
[web]
listen = {listen}
[cpu]
groups = work
{cpu}
[cgroup]
groups = work
include = {top.label}/**
{more}
[group "work"]
events = {events}
"""


class Service:
    """perfmond as systemd would run it: what an instance leaves in the fd store, the next one is given. Between any
    two scrapes, of whichever instance, no total may fall."""

    def __init__(self, folder, store=None, state=None):
        self.path = folder / "perfmond.conf"
        self.store, self.daemon, self.seen = store, None, {}
        self.limits, self.options = None, {}
        self.env = {"NOTIFY_SOCKET": store.address} if store else {}
        if state:
            self.env["STATE_DIRECTORY"] = str(state)

    def start(self, text=None, ready=True):
        if text is not None:
            self.path.write_text(with_engine(text), encoding="utf-8")
        files = self.store.shuffled() if self.store else []
        passed = passing(files) if files else {}
        both = {key: [*self.options.get(key, ()), *passed.get(key, ())] for key in ("prefix", "fds")}
        self.daemon = harness.Daemon(self.path, env=self.env, limits=self.limits, **both)
        return self.daemon.wait_ready() if ready else self.daemon

    def _gone(self):
        if self.store:
            self.store.settle()

    def stop(self):
        self.daemon.stop()
        self._gone()

    def kill(self):
        self.daemon.process.kill()
        self.daemon.end()
        self._gone()

    def forget(self, what):
        """These series may begin anew, or go."""
        self.seen = {key: value for key, value in self.seen.items() if what not in key[0]}

    def check(self, metrics):
        """No total is lower than it was; those that are not there are left to the test."""
        for key, value in metrics.samples.items():
            if key[0].startswith(("perf_cpu_", "perf_cgroup_")) and key[0].endswith("_total"):
                assert value >= self.seen.get(key, 0), f"{key}: {self.seen[key]}, then {value}\n{self.daemon.log}"
                self.seen[key] = value
        return metrics

    def scrape(self):
        return self.check(self.daemon.metrics())

    def fresh(self):
        return self.check(self.daemon.fresh())

    def faults(self, cgroup, **labels):
        return self.fresh().value(FAULTS, cgroup=cgroup.label, **labels)

    def wait_kept(self):
        """All perf events that are open are in the fd store."""
        until(lambda: (m := self.daemon.fresh()).value("perfmond_kept_events") == m.value("perfmond_open_events"),
              "all is kept")
        self._gone()

    def wait_bpf_kept(self):
        """As long as a cgroup is counted by BPF, so are its maps, programs and links, which no metric counts. They
        come a moment after the programs are loaded."""
        until(lambda: {"bpf-map", "bpf-prog", "bpf_link"} <= {kind.rpartition(":")[2] for kind in self.store.kinds()},
              "the files of BPF are in the fd store")

    def fail(self, text, says):
        """A start that does not succeed."""
        self.start(text, ready=False)
        assert self.daemon.end() == 1 and re.search(says, self.daemon.log), self.daemon.log
        self._gone()
