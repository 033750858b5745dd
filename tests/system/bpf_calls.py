# SPDX-License-Identifier: MIT
"""Faults in bpf(2) and in mmap(2) of BPF maps, of a running daemon.

A seccomp filter (seccomp_unotify(2)) asks the tests about each such call of the daemon: they let it pass, or say what
it fails with. libbpf makes most of these calls, so that a function in the place of another would not see them.
"""

import collections
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import sys
import threading
import time

# Numbers of system calls.
SECCOMP, BPF, MMAP = {"x86_64": (317, 321, 9), "aarch64": (277, 280, 222)}[platform.machine()]

# enum bpf_cmd. Programs are attached by one of the two last, as the kernel has it.
COMMANDS = {0: "map_create", 1: "lookup", 2: "update", 3: "delete", 4: "next_key", 5: "prog_load", 10: "test_run",
            15: "info", 18: "btf_load", 21: "pop", 26: "update", 17: "attach", 28: "attach"}

# SECCOMP_IOCTL_NOTIF_RECV and _SEND, and their structs.
RECEIVE, SEND = 0xC0502100, 0xC0182101
NOTICE, ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
CONTINUE = 1

# What a rule returns for a call that is to wait.
HOLD = -1

# Becomes the daemon, after it has sent the filter's file. bpf(2) asks, and mmap(2) of a file that is shared.
FILTER = f"""
import ctypes, os, socket, struct, sys
LOAD, EQUAL, SET, RETURN = 0x20, 0x15, 0x45, 0x06
ASK, ALLOW = 0x7fc00000, 0x7fff0000
code = [(LOAD, 0, 0, 0), (EQUAL, 6, 0, {BPF}), (EQUAL, 0, 4, {MMAP}), (LOAD, 0, 0, 40), (SET, 0, 2, 1),
        (LOAD, 0, 0, 48), (EQUAL, 0, 1, 0xffffffff), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ASK)]
steps = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in code))
fd = ctypes.CDLL(None).syscall({SECCOMP}, 1, 8, struct.pack("@HP", len(code), ctypes.addressof(steps)))
assert fd >= 0, "no seccomp filter that asks"
with socket.socket(fileno=int(sys.argv[1])) as port:
    socket.send_fds(port, [b"filter"], [fd])
os.close(fd)
os.execvp(sys.argv[2], sys.argv[2:])
"""

# struct bpf_attr of BPF_PROG_LOAD: how many instructions it has, and where the verifier is to write its log.
LENGTH, LENGTH_AT = struct.Struct("=I"), 4
LOG, LOG_AT = struct.Struct("=IIQ"), 24


class Call:
    """One call of the daemon, which waits for the answer."""

    def __init__(self, thread, number, args, before):
        self.thread, self.attr, self.before = thread, args[1], before
        self.name = "mmap" if number == MMAP else COMMANDS.get(args[0] & 0xFFFFFFFF, "other")

    def _memory(self):
        return open(f"/proc/{self.thread}/mem", "r+b", buffering=0)

    def _read(self, what, where):
        with self._memory() as memory:
            memory.seek(self.attr + where)
            return what.unpack(memory.read(what.size))

    def length(self):
        """Of a program, in instructions."""
        return self._read(LENGTH, LENGTH_AT)[0]

    def say(self, log):
        """What the verifier would write, where it is asked to."""
        level, size, where = self._read(LOG, LOG_AT)
        if level and where:
            with self._memory() as memory:
                memory.seek(where)
                memory.write(log.encode()[:size - 1] + b"\0")


class Calls:
    """The calls of one process. `rule` gets each Call and returns the errno that it fails with, or 0, or HOLD: the
    thread waits until release(). Without a rule, all pass. `made` counts them by name, `failed` those that failed."""

    def __init__(self):
        self.rule, self.problem = None, None
        self.made, self.failed = collections.Counter(), collections.Counter()
        self.log = []  # of those that failed, as (time, name, errno)
        self.held = []  # what lets one go on
        self.port, self.there = socket.socketpair()
        self.thread = threading.Thread(target=self._answer, daemon=True)
        self.thread.start()

    @property
    def options(self):
        """Of the Daemon that is to be asked about."""
        return {"prefix": [sys.executable, "-c", FILTER, str(self.there.fileno())], "fds": [self.there.fileno()]}

    def _answer(self):
        _, fds, _, _ = socket.recv_fds(self.port, 16, 1)
        if not fds:
            return
        poll = select.poll()
        poll.register(fds[0], select.POLLIN)
        # The file hangs up when the last process with the filter has ended.
        while poll.poll()[0][1] & select.POLLIN:
            self._answer_one(fds[0])
        os.close(fds[0])

    def _answer_one(self, fd):
        notice = bytearray(NOTICE.size)
        try:
            fcntl.ioctl(fd, RECEIVE, notice)
            number, thread, _, call, _, _, *args = NOTICE.unpack(notice)
            error = self._decide(Call(thread, call, args, self.made))
            if error == HOLD:
                self.held.append(lambda: fcntl.ioctl(fd, SEND, ANSWER.pack(number, 0, 0, CONTINUE)))
                return
            fcntl.ioctl(fd, SEND, ANSWER.pack(number, 0, -error, 0 if error else CONTINUE))
        except OSError as gone:
            # The process was killed meanwhile.
            if gone.errno != errno.ENOENT:
                raise

    def _decide(self, call):
        error = 0
        try:
            error = self.rule(call) if self.rule else 0
        except Exception as problem:  # pylint: disable=broad-except # or else the daemon waits for ever
            self.problem = problem
        self.made[call.name] += 1
        if error not in (0, HOLD):
            self.failed[call.name] += 1
            self.log.append((time.monotonic(), call.name, errno.errorcode[error]))
        return error

    def release(self):
        """From now on all calls pass, also those that are held."""
        self.rule = None
        while self.held:
            self.held.pop()()

    def close(self):
        self.there.close()
        self.port.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.port.close()
        assert self.problem is None, self.problem


def failing(error, *names):
    """A rule: all calls of these names fail."""
    return lambda call: error if call.name in names else 0


def holding(*names):
    """A rule: all calls of these names are held."""
    return lambda call: HOLD if call.name in names else 0


def refused(log):
    """A rule: the verifier refuses each program, but for the small ones with which libbpf tries the kernel out."""
    def rule(call):
        if call.name != "prog_load" or call.length() < 50:
            return 0
        call.say(log)
        return errno.EACCES

    return rule


def in_earnest(rule):
    """The rule, from when the trial at the start is over, whose last step is a test run."""
    return lambda call: rule(call) if call.before["test_run"] else 0
