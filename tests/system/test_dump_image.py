# SPDX-License-Identifier: MIT
"""--dump-image shows the totals that were saved, as they were shown last, and refuses bytes that are no whole image."""

import json
import os

import pytest

from fdstore import FAULTS, MEMORY, Image, config, flip, other_boot
from harness import as_user, run

pytestmark = pytest.mark.engines


@pytest.fixture
def stopped(new_service, state, cgroups, work, cpus):
    """A daemon that has counted in a cgroup, and was stopped: the file, the cgroup, and its last page faults."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service = new_service(state=state)
    service.start(config(cgroups))
    helper.do("faults 1000")
    total = service.faults(group)
    service.stop()
    assert total >= 1000
    return state / "totals", group, total


def dump(path, **kwargs):
    done = run(f"--dump-image={path}", **kwargs)
    assert done.returncode == 0 and done.stderr == "", done
    return json.loads(done.stdout)


def faults(image, label):
    columns = [column["metric"] for column in image["plan"]["cgroup"]["columns"]]
    row, = [row for row in image["rows"] if row["cgroup"] == label]
    return row["cells"][columns.index("page_faults")]["total"]


def refused(path, says):
    done = run(f"--dump-image={path}")
    assert done.returncode == 1 and done.stdout == "", done
    assert str(path) in done.stderr and says in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_the_saved_totals_are_those_that_were_shown_last(stopped, tmp_path):
    path, group, total = stopped
    before = path.read_bytes()
    image = dump(path)
    assert faults(image, group.label) == total and "note" not in image
    assert image["boot_id"] == open("/proc/sys/kernel/random/boot_id", encoding="ascii").read().strip()
    engine, = {each["engine"] for each in image["plan"]["cgroup"]["sets"]}
    part, = [each for each in image["engines"] if each["engine"] == engine]
    assert part["bytes"] > 0 and part["files"] > 0
    assert [len(image["states"][scope]) for scope in ("cpu", "cgroup")] == [2, 2]
    # Without FILE it is the state directory's, and nobody needs a privilege who may read it.
    path.chmod(0o644)
    for folder in (path.parent, *path.parent.parents):
        if folder.is_relative_to(tmp_path.parent.parent):
            folder.chmod(folder.stat().st_mode | 0o011)
    done = run("--dump-image", prefix=as_user(65534), env={**os.environ, "STATE_DIRECTORY": str(path.parent)})
    assert done.returncode == 0 and json.loads(done.stdout) == image, done.stderr
    assert path.read_bytes() == before


def test_the_image_of_a_running_daemon_is_a_file_in_memory(service, store, cgroups, work, cpus):
    """It outlives a kill."""
    group = cgroups.make("kept")
    service.start(config(cgroups))
    work(group, cpus[0]).do("faults 1000")
    service.wait_kept()
    total = service.faults(group)
    service.kill()
    totals = [faults(dump(f"/dev/fd/{fd}", pass_fds=[fd]), group.label) for fd in map(store.fd, store.names(MEMORY))]
    assert len(totals) == 2 and max(totals) == total


def test_an_image_of_another_boot_is_shown_with_a_note(stopped):
    path, group, total = stopped
    with open(path, "r+b") as file:
        other_boot(Image(file.fileno()))
    image = dump(path)
    assert "another boot" in image["note"] and faults(image, group.label) == total


def test_damaged_images_are_refused_with_the_place(stopped, tmp_path):
    path, _, _ = stopped
    whole = path.read_bytes()
    with open(path, "r+b") as file:
        flip(Image(file.fileno()))
    refused(path, "they are damaged")
    for size in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(path, "they are damaged" if size >= 16 else "they were not written by perfmond")
    # Well written, by somebody who counts otherwise: the message tells where it makes no sense.
    path.write_bytes(whole)
    with open(path, "r+b") as file:
        image = Image(file.fileno())
        at = len(image.data) * 3 // 4
        image.data[at:] = b"\xff" * (len(image.data) - at)
        image.write()
    refused(path, "before byte ")
    path.unlink()
    refused(path, "No such file")
    refused(tmp_path, "no image is of this kind")
