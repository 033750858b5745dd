# SPDX-License-Identifier: MIT
"""What is kept for the next start: that it is little, and that nothing goes wrong where it is damaged, missing, or
somebody else's."""

import os
import resource
import shutil
import socket
import struct
import zlib
from pathlib import Path

import pytest

from fdstore import EVENTS, FAULTS, MEMORY, WENT_ON, config
from harness import free_port, until

# Of an image: magic, version, size, checksum of all that follows.
HEADER = struct.Struct("=4Q")
FD_PARCEL_MAX = 253
ANEW = r"totals restart at zero, the saved ones can't be used: "


class Image:
    """A memory file, or a state file, by its fd."""

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


def cut(image):
    del image.data[len(image.data) // 2:]
    image.write(sign=False)


def empty(image):
    image.data.clear()
    image.write(sign=False)


def foreign(image):
    image.data[:] = b"what somebody else has written\n" * 100
    image.write(sign=False)


def later_format(image):
    """Later than both formats that are read: the next one is that of several engines."""
    struct.pack_into("=Q", image.data, 8, HEADER.unpack_from(image.data)[1] + 2)
    image.write()


def other_boot(image):
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip().encode()
    at = image.data.index(boot_id)
    image.data[at:at + 8] = b"00000000" if boot_id[:8] != b"00000000" else b"11111111"
    image.write()


def nonsense(image):
    """Well written, by somebody who counts otherwise."""
    image.data[HEADER.size + 64:] = b"\xff" * (len(image.data) - HEADER.size - 64)
    image.write()


DAMAGES = pytest.mark.parametrize("damage, says", [
    (flip, "they are damaged"), (cut, "they are damaged"), (foreign, "they were not written by perfmond"),
    (later_format, "another format"), (other_boot, "before the machine was started"), (nonsense, "they make no sense")])


def images(store):
    """The newer one first."""
    return sorted((Image(store.fd(name)) for name in store.names(MEMORY)), key=lambda image: -image.saved_at)


@pytest.fixture
def kept(service, cgroups, work, cpus):
    """A service that has counted something, and been stopped: the cgroup, who works in it, and the total."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    helper.do("faults 5000")
    service.start(config(cgroups))
    helper.do("faults 5000")
    service.wait_kept()
    total = service.faults(group)
    service.stop()
    assert len(service.store.names(MEMORY)) == 2 and total >= 5000
    return group, helper, total


# --- damages

@pytest.mark.engines
@pytest.mark.parametrize("damage", [flip, cut, empty, foreign, later_format, nonsense])
def test_the_newer_image_is_damaged(service, store, kept, damage):
    """As by a kill while it was being written. The other one is as good: perf events know what happened since."""
    group, helper, total = kept
    damage(images(store)[0])
    helper.do("faults 100")
    service.start()
    service.daemon.wait_log(WENT_ON)
    assert service.faults(group) == total + 100
    service.kill()
    helper.do("faults 10")
    service.start()
    assert service.faults(group) == total + 110


@pytest.mark.engines
@DAMAGES
def test_both_images_are_damaged(service, store, kept, damage, says):
    """It counts anew, says why, and what it keeps from then on is good."""
    group, helper, _ = kept
    for image in images(store):
        damage(image)
    service.forget("")
    service.start()
    service.daemon.wait_log(ANEW + ".*" + says)
    before = service.faults(group)
    assert before < 5000
    helper.do("faults 100")
    service.wait_kept()
    assert len(store.names()) == 3, "nothing of what was there before is left"
    service.kill()
    helper.do("faults 10")
    service.start()
    service.daemon.wait_log(WENT_ON)
    assert service.faults(group) == before + 110


def test_only_perf_events_are_left(service, store, kept):
    for name in store.names(MEMORY):
        store.remove(name)
    service.forget("")
    service.start()
    service.daemon.wait_log(r"totals restart at zero: found \d+ perf events but no usable image")
    service.wait_kept()
    assert len(store.names()) == 3


def test_somebody_else_s_files(service, store, kept, tmp_path):
    """Files of other names, or of other kinds, are nothing to it."""
    group, helper, total = kept
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    reading, writing = os.pipe()
    store.entries += [("other", other), (EVENTS + "999", reading), (MEMORY + "7", writing),
                      (EVENTS + "x", os.dup(other)), (EVENTS + "1000", os.open("/dev/null", os.O_RDONLY))]
    helper.do("faults 100")
    service.start()
    assert service.faults(group) == total + 100
    service.wait_kept()
    assert len(store.names(MEMORY)) == 2 and "other" not in store.names()


@pytest.mark.engines
def test_names_that_are_there_twice(service, store, kept):
    """As where instances were started that were not given what the ones before them had left."""
    group, helper, total = kept
    for name, fd in list(store.entries):
        if name.startswith(MEMORY):
            store.entries.append((name, os.memfd_create("other")))
            continue
        with socket.socket(fileno=os.dup(fd)) as parcel:
            # Not recv_fds(), which forgets its flags.
            _, control, _, _ = parcel.recvmsg(1, socket.CMSG_LEN(FD_PARCEL_MAX * 4), socket.MSG_PEEK)
        fds = list(struct.unpack(f"={len(control[0][2]) // 4}i", control[0][2]))
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with one:
            socket.send_fds(one, [b"x"], fds[::2])
        store.entries.append((name, other.detach()))
        for copy in fds:
            os.close(copy)
    # The later ones, which know less, behind the others.
    store.shuffled = lambda: list(store.entries)
    for turn in range(1, 4):
        helper.do("faults 100")
        service.start()
        service.daemon.wait_log(WENT_ON)
        assert service.faults(group) == total + 100 * turn
        service.wait_kept()
        until(lambda: len(store.names(MEMORY)) == 2, "both are there again")
        assert len(store.names(EVENTS)) == 1
        service.kill()


# --- perf events that are missing

@pytest.fixture
def many(cgroups, work, cpus):
    """A hundred cgroups, with work in some: four perf events each, so that there are more than one parcel of them."""
    groups = [cgroups.make(f"many{i}") for i in range(100)]
    return groups, {i: work(groups[i], cpus[0]) for i in range(0, 100, 10)}


def wait_many(service, groups):
    until(lambda: service.daemon.metrics().value("perfmond_cgroups", state="counted") == len(groups), "all are counted")
    service.wait_kept()


def rises(service, groups, before):
    after = service.fresh()
    return {i: after.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label)
            for i, group in enumerate(groups)}


def test_a_chunk_is_missing(service, store, cgroups, many):
    """Those whose perf events were in it go on from their totals; the others lose nothing."""
    groups, helpers = many
    service.start(config(cgroups, more="engine = perf"))
    wait_many(service, groups)
    before = service.fresh()
    service.stop()
    for helper in helpers.values():
        helper.do("faults 100")
    parcels = store.names(EVENTS)
    assert len(parcels) == 2
    store.remove(parcels[0])
    service.start()
    found = service.daemon.wait_log(r"of (\d+) perf events (\d+) were not kept, and their counts since then")
    assert 400 <= int(found[1]) <= 500 and int(found[2]) == FD_PARCEL_MAX
    rise = rises(service, groups, before)
    assert {rise[i] for i in helpers} == {0, 100}, "all or nothing"
    for helper in helpers.values():
        helper.do("faults 10")
    again = rises(service, groups, before)
    assert all(again[i] == rise[i] + 10 for i in helpers)


def test_the_fd_store_is_too_small(new_store, new_service, cgroups, cpus, many):
    """What does not fit is closed in silence; the next start tells. What was kept before stays kept."""
    groups, helpers = many
    # Room for an image and two parcels, or two images and one, of three parcels.
    nr = 2 * FD_PARCEL_MAX // (2 * len(cpus)) + 1
    groups = groups + [cgroups.make(f"more{i}") for i in range(nr - len(groups))]
    store = new_store(maximum=3)
    service = new_service(store)
    service.start(config(cgroups, more="engine = perf"))
    wait_many(service, groups)
    before = service.fresh()
    service.kill()
    for group in groups:
        group.add(helpers[0].process.pid)
        helpers[0].do("faults 100")
    service.start()
    found = service.daemon.wait_log(r"of (\d+) perf events (\d+) were not kept")
    assert 0 < int(found[2]) < int(found[1])
    assert set(rises(service, groups, before).values()) == {0, 100}
    service.stop()
    assert store.most == 3


def test_fewer_files_may_be_open(service, store, cgroups, many):
    """Those that can't be had any more are not kept in the fd store either."""
    groups, helpers = many
    service.start(config(cgroups, more="engine = perf"))
    wait_many(service, groups)
    before = service.fresh()
    service.stop()
    for helper in helpers.values():
        helper.do("faults 100")
    service.limits = [(resource.RLIMIT_NOFILE, (320, 320))]
    service.start()
    service.daemon.wait_log(r"perf events \d+ were not kept")
    metrics = service.fresh()
    known = [group for group in groups if metrics.get(FAULTS, cgroup=group.label) is not None]
    assert 0 < metrics.value("perfmond_open_events") < 320
    for group in known:
        assert metrics.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label) in (0, 100)
    service.wait_kept()
    for helper in helpers.values():
        helper.stop()
    for group in groups:
        group.remove()
    wait_dead(cgroups)


# --- how much is kept

def dying(cgroups):
    text = (cgroups.path / "cgroup.stat").read_text()
    return int(dict(line.split() for line in text.splitlines())["nr_dying_descendants"])


def wait_dead(cgroups):
    if (cgroups.path / "cgroup.stat").exists():
        until(lambda: dying(cgroups) == 0, "no removed cgroup is kept by its perf events", 30)


@pytest.mark.engines
def test_the_fd_store_stays_small(service, store, cgroups, cpus, engine):
    """A handful of files for thousands of perf events, and fewer again when there are fewer."""
    service.start(config(cgroups))
    service.wait_kept()
    of_cgroups = 0 if engine == "bpf" else 2 * len(cpus)
    least = service.daemon.metrics().value("perfmond_kept_events")
    assert len(store.names()) == 3
    for turn in range(3):
        groups = [cgroups.make(f"churn{turn}-{i}") for i in range(300)]
        wait_many(service, groups)
        events = service.daemon.metrics().value("perfmond_kept_events")
        assert events == least + 300 * of_cgroups
        assert len(store.names()) <= 2 + events // FD_PARCEL_MAX + 2
        if turn == 1:
            service.kill()
            service.start()
        for group in groups:
            group.remove()
        wait_dead(cgroups)
        until(lambda: service.daemon.metrics().value("perfmond_cgroups", state="counted") == 0, "they are gone")
        service.wait_kept()
        assert len(store.names()) == 3


@pytest.mark.engines
def test_a_removed_cgroup_dies(service, cgroups):
    """The fd store lets go of its perf events as the daemon does."""
    for turn in range(5):
        group = cgroups.make(f"brief{turn}")
        if turn == 0:
            service.start(config(cgroups))
        until(lambda: service.scrape().get(FAULTS, cgroup=group.label) is not None, "it is counted")
        service.wait_kept()
        group.remove()
        wait_dead(cgroups)


def test_systemd_does_not_listen(service, store, cgroups, work, cpus, tmp_path):
    """For a while: it says so once, counts on, and says when all is well again."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    (tmp_path / "notify").rename(tmp_path / "away")
    service.start(config(cgroups, interval="50ms"))
    service.daemon.wait_log("not everything can be kept for the next start: No such file")
    before = service.faults(group)
    (tmp_path / "away").rename(tmp_path / "notify")
    service.daemon.wait_log("again, everything can be kept for the next start")
    service.wait_kept()
    assert service.daemon.log.count("kept for the next start") == 2
    service.kill()
    helper.do("faults 100")
    service.start()
    service.daemon.wait_log(WENT_ON)
    assert service.faults(group) == before + 100


# --- the state directory

@pytest.fixture
def stateful(new_service, state):
    return new_service(None, state)


def test_a_stop_in_peace(stateful, state, cgroups, work, cpus):
    """Totals go on; what happens in between is missing. The file is used once."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    stateful.start(config(cgroups))
    for _ in range(3):
        helper.do("faults 1000")
        total = stateful.faults(group)
        stateful.stop()
        assert os.listdir(state) == ["totals"] and (state / "totals").stat().st_mode & 0o777 == 0o600
        helper.do("faults 100")
        stateful.start()
        stateful.daemon.wait_log(r"totals go on from .*/state/totals, saved [0-9.]+ s ago; "
                                 r"counts since then are missing")
        assert os.listdir(state) == ["running"]
        assert stateful.faults(group) == total
    helper.do("faults 10")
    assert stateful.faults(group) == total + 10
    stateful.kill()
    stateful.forget("")
    stateful.start()
    assert stateful.faults(group) == 0, "what was used once is gone"


@DAMAGES
def test_the_state_file_is_damaged(stateful, state, cgroups, work, cpus, damage, says):
    group = cgroups.make("kept")
    stateful.start(config(cgroups))
    work(group, cpus[0]).do("faults 100")
    stateful.scrape()
    stateful.stop()
    fd = os.open(state / "totals", os.O_RDWR)
    damage(Image(fd))
    os.close(fd)
    stateful.forget("")
    stateful.start()
    stateful.daemon.wait_log(ANEW + ".*" + says)
    assert stateful.faults(group) == 0 and os.listdir(state) == ["running"]
    stateful.stop()
    assert os.listdir(state) == ["totals"]


def test_the_state_file_can_t_be_opened(stateful, state, cgroups):
    (state / "totals").symlink_to("/etc/hostname")
    stateful.start(config(cgroups))
    stateful.daemon.wait_log(ANEW + ".*/state/totals: Too many levels of symbolic links")
    stateful.stop()
    assert not (state / "totals").is_symlink() and Image(os.open(state / "totals", os.O_RDONLY)).data


def test_nothing_can_be_written(stateful, state, cgroups):
    """It says so, and ends as it should."""
    stateful.start(config(cgroups))
    shutil.rmtree(state)
    stateful.stop()
    assert "totals could not be saved in" in stateful.daemon.log


def test_what_was_used_can_t_be_removed(stateful, state, cgroups):
    (state / "totals").mkdir()
    stateful.start(config(cgroups))
    stateful.daemon.wait_log("cannot remove the totals saved at the last stop")


def test_the_fd_store_is_better_than_the_state_directory(new_service, store, state, cgroups, work, cpus):
    """As after systemctl restart, which has both."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service = new_service(store, state)
    service.start(config(cgroups))
    total = service.faults(group)
    service.stop()
    assert os.listdir(state) == ["totals"]
    helper.do("faults 100")
    service.start()
    service.daemon.wait_log(WENT_ON)
    assert service.faults(group) == total + 100
    assert os.listdir(state) == ["running"]


def test_the_state_directory_alone_is_left(new_service, store, state, cgroups, work, cpus):
    """As after systemctl stop; a kill right after the start takes nothing back."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service = new_service(store, state)
    port = free_port()
    service.start(config(cgroups, interval="1h", listen=f"127.0.0.1:{port}"))
    helper.do("faults 1000")
    total = service.faults(group)
    service.stop()
    store.empty()
    service.fail("[daemon]\nnonsense = 1\n", ":2: ")
    service.start(config(cgroups, interval="1h"), ready=False)
    until(lambda: os.listdir(state) == ["running"], "it has been used")
    service.kill()
    assert "totals go on from" in service.daemon.log and "/state/totals" in service.daemon.log
    service.start()
    assert total <= service.faults(group) < total + 100
