# SPDX-License-Identifier: MIT
"""Totals are saved for the next start, in systemd's fd store and in the state directory: little is saved, and nothing
goes wrong where it is damaged, missing, or somebody else's."""

import os
import resource
import shutil
import socket
import struct

import pytest

from fdstore import EVENTS, FAULTS, HEADER, MEMORY, WENT_ON, Image, config, flip, other_boot, saved
from harness import free_port, until

FD_PARCEL_MAX = 253
ANEW = r"totals restart at zero, the saved ones can't be used: "


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


def nonsense(image):
    """Well written, by somebody who counts otherwise."""
    image.data[HEADER.size + 64:] = b"\xff" * (len(image.data) - HEADER.size - 64)
    image.write()


DAMAGES = {flip: "they are damaged", cut: "they are damaged", foreign: "they were not written by perfmond",
           later_format: "another format", other_boot: "before the machine was started", nonsense: "they make no sense"}


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

def go_on_from_the_older(service, store, kept, damages):
    group, helper, total = kept
    for damage in damages:
        damage(images(store)[0])
        helper.do("faults 100")
        service.start()
        service.daemon.wait_log(WENT_ON)
        total += 100
        assert service.faults(group) == total, damage.__name__
        service.wait_kept()
        until(lambda: len(store.names(MEMORY)) == 2, "both images are there again")
        service.kill()


@pytest.mark.engines
def test_a_damaged_image_loses_nothing(service, store, kept):
    """As by a kill while it was being written: the other image is as good, since perf events know what has happened
    meanwhile."""
    go_on_from_the_older(service, store, kept, [flip])


@pytest.mark.deep
@pytest.mark.engines
def test_an_image_damaged_in_other_ways_loses_nothing(service, store, kept):
    go_on_from_the_older(service, store, kept, [cut, empty, foreign, later_format, nonsense])


def count_anew(service, store, kept, damages):
    group, helper, _ = kept
    for damage in damages:
        for image in images(store):
            damage(image)
        service.forget("")
        service.start()
        service.daemon.wait_log(ANEW + ".*" + DAMAGES[damage])
        before = service.faults(group)
        assert before < 5000, damage.__name__
        helper.do("faults 100")
        service.wait_kept()
        assert len(store.names()) == 3, "nothing of what was there before is left"
        service.kill()
        helper.do("faults 10")
        service.start()
        service.daemon.wait_log(WENT_ON)
        assert service.faults(group) == before + 110, damage.__name__
        service.wait_kept()
        service.stop()


@pytest.mark.engines
@pytest.mark.one_engine
def test_with_two_damaged_images_totals_begin_anew(service, store, kept):
    """It says why; what it saves from then on is good."""
    count_anew(service, store, kept, [flip, later_format])


@pytest.mark.deep
@pytest.mark.engines
def test_with_images_damaged_in_other_ways_totals_begin_anew(service, store, kept):
    count_anew(service, store, kept, [cut, foreign, other_boot, nonsense])


def test_without_an_image_totals_begin_anew(service, store, kept):
    for name in store.names(MEMORY):
        store.remove(name)
    service.forget("")
    service.start()
    service.daemon.wait_log(r"totals restart at zero: found \d+ perf events but no usable image")
    service.wait_kept()
    assert len(store.names()) == 3


def test_files_of_others_in_the_fd_store_are_ignored(service, store, kept, tmp_path):
    """Files of other names, or of other kinds."""
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
@pytest.mark.one_engine
def test_names_that_are_in_the_fd_store_twice_lose_nothing(service, store, kept):
    """As where instances were started that were not given what the ones before them had left."""
    group, helper, total = kept
    for name, fd in list(store.entries):
        if not name.startswith(EVENTS):
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
    """Cgroups with some 400 perf events, so that there are more than one parcel of them; with work in every tenth of
    them, and in the last. On two CPUs there are a hundred, of four perf events each."""
    groups = [cgroups.make(f"many{i}") for i in range(max(4, 400 // (2 * len(cpus))))]
    return groups, {i: work(groups[i], cpus[0]) for i in {*range(0, len(groups), 10), len(groups) - 1}}


def wait_many(service, groups):
    until(lambda: service.daemon.metrics().value("perfmond_cgroups", state="counted") == len(groups), "all are counted")
    service.wait_kept()


def rises(service, groups, before):
    after = service.fresh()
    return {i: after.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label)
            for i, group in enumerate(groups)}


def test_a_cgroup_whose_perf_events_are_missing_keeps_its_total(service, store, cgroups, many):
    """Those whose perf events were in it go on from their totals; the others lose nothing."""
    groups, helpers = many
    service.start(config(cgroups, more="engine = perf"))
    wait_many(service, groups)
    before = service.fresh()
    service.stop()
    for helper in helpers.values():
        helper.do("faults 100")
    store.remove(store.names(EVENTS)[0])
    service.start()
    found = service.daemon.wait_log(r"of (\d+) perf events (\d+) were not kept, and their counts since then")
    assert FD_PARCEL_MAX == int(found[2]) < int(found[1]) <= before.value("perfmond_kept_events")
    rise = rises(service, groups, before)
    assert {rise[i] for i in helpers} == {0, 100}, "all or nothing"
    for helper in helpers.values():
        helper.do("faults 10")
    again = rises(service, groups, before)
    assert all(again[i] == rise[i] + 10 for i in helpers)


def test_with_an_fd_store_that_is_too_small_the_next_start_tells(new_store, new_service, cgroups, cpus, many):
    """What does not fit is closed in silence. What was kept before stays kept."""
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


@pytest.mark.deep
def test_perf_events_above_a_lower_limit_of_files_leave_the_fd_store(service, cgroups, many):
    """So the cgroups die when they are removed."""
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

def wait_dead(cgroups):
    until(lambda: cgroups.dying() == 0, "no removed cgroup is kept by its perf events")


def check_small(service, store, cgroups, cpus, engine, number, turns):
    """A handful of files for many perf events, and fewer again when there are fewer."""
    service.start(config(cgroups))
    service.wait_kept()
    of_cgroups = 0 if engine == "bpf" else 2 * len(cpus)
    least = service.daemon.metrics().value("perfmond_kept_events")
    assert len(store.names()) == 3
    for turn in range(turns):
        groups = [cgroups.make(f"churn{turn}-{i}") for i in range(number)]
        wait_many(service, groups)
        events = service.daemon.metrics().value("perfmond_kept_events")
        assert events == least + number * of_cgroups
        assert len(store.names()) <= 2 + events // FD_PARCEL_MAX + 2
        if turn == turns // 2:
            service.kill()
            service.start()
        for group in groups:
            group.remove()
        wait_dead(cgroups)
        until(lambda: service.daemon.metrics().value("perfmond_cgroups", state="counted") == 0, "they are gone")
        service.wait_kept()
        assert len(store.names()) == 3


@pytest.mark.engines
def test_the_fd_store_stays_small_and_lets_removed_cgroups_die(service, store, cgroups, cpus, engine):
    check_small(service, store, cgroups, cpus, engine, 256 // (2 * len(cpus)) + 1, 1)


@pytest.mark.deep
@pytest.mark.engines
def test_the_fd_store_stays_small_with_thousands_of_perf_events(service, store, cgroups, cpus, engine):
    check_small(service, store, cgroups, cpus, engine, 300, 3)


def test_while_systemd_does_not_listen_it_counts_on(service, cgroups, work, cpus, tmp_path):
    """It says so once, and says when all is well again."""
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


def test_totals_go_on_from_the_state_directory(stateful, state, cgroups, work, cpus):
    """After an ordered stop; what happens in between is missing. The file is used once."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    stateful.start(config(cgroups))
    for _ in range(2):
        helper.do("faults 1000")
        total = stateful.faults(group)
        stateful.stop()
        assert saved(state) == ["totals"] and (state / "totals").stat().st_mode & 0o777 == 0o600
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


def test_with_a_damaged_state_file_totals_begin_anew(stateful, state, cgroups, work, cpus):
    """In each way that it can be damaged; the log says which."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    stateful.start(config(cgroups))
    for damage, says in DAMAGES.items():
        helper.do("faults 100")
        assert stateful.faults(group) == 100
        stateful.stop()
        assert saved(state) == ["totals"]
        fd = os.open(state / "totals", os.O_RDWR)
        damage(Image(fd))
        os.close(fd)
        stateful.forget("")
        stateful.start()
        stateful.daemon.wait_log(ANEW + ".*" + says)
        assert stateful.faults(group) == 0 and os.listdir(state) == ["running"], damage.__name__


def test_a_state_file_that_cannot_be_opened_removed_or_written(stateful, state, cgroups):
    """It says so, counts, and ends as it should."""
    (state / "totals").symlink_to("/etc/hostname")
    stateful.start(config(cgroups))
    stateful.daemon.wait_log(ANEW + ".*/state/totals: Too many levels of symbolic links")
    stateful.stop()
    assert not (state / "totals").is_symlink()
    with open(state / "totals", "rb") as file:
        assert Image(file.fileno()).data
    (state / "totals").unlink()
    (state / "totals").mkdir()
    stateful.forget("")
    stateful.start()
    stateful.daemon.wait_log("cannot remove the totals saved at the last stop")
    shutil.rmtree(state)
    stateful.stop()
    assert "totals could not be saved in" in stateful.daemon.log


def test_the_fd_store_goes_before_the_state_directory(new_service, store, state, cgroups, work, cpus):
    """As after systemctl restart, which has both."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service = new_service(store, state)
    service.start(config(cgroups))
    total = service.faults(group)
    service.stop()
    assert saved(state) == ["totals"]
    helper.do("faults 100")
    service.start()
    service.daemon.wait_log(WENT_ON)
    assert service.faults(group) == total + 100
    assert os.listdir(state) == ["running"]


def test_without_the_fd_store_totals_go_on_from_the_state_directory(new_service, store, state, cgroups, work, cpus):
    """As after systemctl stop and start; a kill right after the start takes nothing back."""
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
