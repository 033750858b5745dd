# SPDX-License-Identifier: MIT
"""Questions about profiles are answered beside everything else: by a child, one after the other."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import select
import signal
import socket
import time
from pathlib import Path

import pytest
import requests

from harness import PATIENCE, children, until
from openapi import check, check_json

CONFIG = "[profiles]\nenabled = yes\nrate = 199\n"
QUEUE = 32


def answer_child(daemon):
    """The process that works out a response, or None. Others have its file, too, until they have closed all."""
    def is_it(child):
        links = {int(file.name): os.readlink(file) for file in Path(f"/proc/{child}/fd").iterdir()}
        links = [link for fd, link in links.items() if fd > 2]
        return len(links) == 1 and "perfmond-work" in links[0]

    for child in children(daemon.profiler):
        with contextlib.suppress(OSError):
            if is_it(child):
                return child
    return None


def is_stopped(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def is_gone(pid):
    return not Path(f"/proc/{pid}").exists()


@contextlib.contextmanager
def stopped_child(daemon):
    """A daemon with a question whose child is stopped: (daemon, the child, a future of the answer, what asks). It is
    killed when the question is 30 s old."""
    until(lambda: daemon.metrics().value("perfmond_profile_samples_total") > 100, "samples")
    with concurrent.futures.ThreadPoolExecutor(QUEUE + 8) as pool:
        def ask(path="/api/v1/profile", **options):
            return pool.submit(requests.get, daemon.url + path, timeout=4 * PATIENCE, **options)

        def stop():
            """The child may be faster."""
            answer = ask()
            while not answer.done():
                child = answer_child(daemon)
                if child:
                    try:
                        os.kill(child, signal.SIGSTOP)
                    except ProcessLookupError:
                        break
                    return until(lambda: is_stopped(child) or is_gone(child), "a stop") and is_stopped(child) and \
                        (child, answer)
            return None
        child, answer = until(stop, "a child is stopped")
        yield daemon, child, answer, ask
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGCONT)


@pytest.fixture
def stopped(shared_perfmond):
    with stopped_child(shared_perfmond(CONFIG)) as made:
        yield made


@pytest.fixture
def own_stopped(perfmond):
    """Of a daemon of the test's own."""
    with stopped_child(perfmond(CONFIG)) as made:
        yield made


def send(daemon, path, source=None):
    """A question that has been sent when this returns, so that later ones come after it."""
    connection = http.client.HTTPConnection(daemon.url.rpartition("/")[2], timeout=4 * PATIENCE,
                                            source_address=source and (source, 0))
    connection.request("GET", path)
    return connection


def test_all_else_is_answered_before_a_question_that_came_earlier(shared_perfmond):
    """Scrapes, the page, and samples that come meanwhile."""
    daemon = shared_perfmond(CONFIG)

    def is_answered_later():
        """If all of this takes more than 30 s, the question is over before."""
        with stopped_child(daemon) as (_, child, first, _):
            before = daemon.metrics().value("perfmond_profile_samples_total")
            until(lambda: daemon.metrics().value("perfmond_profile_samples_total") > before, "samples meanwhile")
            for path in ("/", "/api/v1/snapshot", "/api/v1/status", "/-/healthy"):
                assert requests.get(daemon.url + path, timeout=PATIENCE).status_code == 200
            waits = not first.done()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)
            return first.result().status_code == 200 and waits
    until(is_answered_later, "a question is answered after what came later")
    until(lambda: daemon.metrics().value("perfmond_profile_answer_seconds_total") > 0, "the cost of the answer")


def test_of_too_many_questions_the_last_is_refused(shared_perfmond):
    """32 wait, and the next one is told so."""
    daemon = shared_perfmond(CONFIG)

    def is_refused():
        """If all of this takes more than the 30 s that the first question has, the last one has a place."""
        with stopped_child(daemon), contextlib.ExitStack() as waiting:
            for _ in range(QUEUE):
                waiting.enter_context(contextlib.closing(send(daemon, "/api/v1/profile")))
            until(lambda: daemon.metrics().value("perfmond_connections") > QUEUE + 1, "connections")
            answer = requests.get(daemon.url + "/api/v1/profile/top", timeout=4 * PATIENCE)
            return answer.status_code == 503 and "too many questions" in check(answer)["error"]
    until(is_refused, "a question is refused")
    until(lambda: daemon.metrics().value("perfmond_connections") <= 2, "connections that end")


@pytest.mark.deep
@pytest.mark.alone
def test_questions_that_wait_are_all_answered(own_stopped):
    """Scrapes, and all else, are answered before the question that came earlier; questions after it wait, and too many
    are refused."""
    daemon, child, first, _ = own_stopped
    before = daemon.metrics().value("perfmond_profile_samples_total")
    until(lambda: daemon.metrics().value("perfmond_profile_samples_total") > before + 20, "samples meanwhile")
    for path in ("/", "/api/v1/snapshot", "/api/v1/status", "/-/healthy"):
        assert requests.get(daemon.url + path, timeout=PATIENCE).status_code == 200
    paths = ["/api/v1/profile/top", "/api/v1/profile/heat", "/debug/pprof/profile"]
    paths += ["/api/v1/profile"] * (QUEUE - len(paths))
    waiting = [send(daemon, path) for path in paths]
    until(lambda: daemon.metrics().value("perfmond_connections") > QUEUE + 1, "connections")
    refused = requests.get(daemon.url + "/api/v1/profile/top", timeout=PATIENCE)
    assert refused.status_code == 503
    assert "too many questions" in check(refused)["error"]
    assert not first.done() and not select.select([connection.sock for connection in waiting], [], [], 0)[0]
    os.kill(child, signal.SIGCONT)
    assert first.result().status_code == 200, first.result().text
    check(first.result())
    # All are read as they come, before any is looked at: who leaves one for a minute loses it ([web] answer_timeout).
    answers = [(path, answer, answer.read()) for path, connection in zip(paths, waiting)
               for answer in [connection.getresponse()]]
    for path, answer, text in answers:
        assert answer.status == 200, text
        if answer.headers["Content-Type"].startswith("application/json"):
            check_json(path, 200, json.loads(text))
    for connection in waiting:
        connection.close()
    until(lambda: daemon.metrics().value("perfmond_profile_answer_seconds_total") > 0, "the cost of the answers")


FULL = "[web]\nlisten = 127.0.0.1:0\nmax_connections = 16\n"


def test_of_full_connections_one_question_gives_way(perfmond):
    """All places are taken by questions that wait: others are answered, and one of the address with the most of them
    loses its place."""
    daemon = perfmond(CONFIG + FULL)

    def answered():
        """(status, has a body) of the questions; none if all of this took more than the time that they have."""
        until(lambda: daemon.metrics().value("perfmond_connections") <= 2, "connections that end")
        answers = []
        with stopped_child(daemon) as (_, child, first, _), contextlib.ExitStack() as opened:
            waiting = [opened.enter_context(contextlib.closing(send(
                daemon, "/api/v1/profile", f"127.0.0.{2 + i % 3}"))) for i in range(15)]
            until(lambda: daemon.metrics().value("perfmond_connections") == 16, "all connections are taken")
            for _ in range(20):
                daemon.metrics()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)
            is_first = first.result().status_code == 200
            for connection in waiting:
                with contextlib.suppress(ConnectionError):
                    answer = connection.getresponse()
                    answers.append((answer.status, len(answer.read()) > 0))
        return is_first and set(answers) == {(200, True)} and answers
    answers = until(answered, "all questions are answered that keep their place", 4 * PATIENCE)
    # The kernel may tell the daemon of a scrape's end only after the next scrape has begun.
    assert 12 <= len(answers) < 15
    metrics = daemon.metrics()
    assert metrics.value("perfmond_connections_refused_total", reason="full") == 0
    assert metrics.value("perfmond_connections_refused_total", reason="failed") == 0


def test_the_child_of_a_client_that_has_gone_is_ended(stopped):
    """And the next question has its turn."""
    daemon, child, first, ask = stopped
    os.kill(child, signal.SIGCONT)
    assert first.result().status_code == 200, first.result().text
    address = daemon.url.rpartition("/")[2].split(":")
    for _ in range(50):
        with socket.create_connection((address[0], int(address[1]))) as connection:
            connection.sendall(b"GET /api/v1/profile HTTP/1.1\r\nHost: localhost\r\n\r\n")
    # For a moment they may still fill the queue.
    until(lambda: ask().result().status_code == 200, "an answer")
    until(lambda: daemon.metrics().value("perfmond_connections") <= 2, "connections that end")
    until(lambda: answer_child(daemon) is None, "children that end")


def test_a_reload_begins_the_question_anew(own_stopped):
    """Without profiles it is answered by that."""
    daemon, child, first, _ = own_stopped
    daemon.reload(daemon.config_path.read_text(encoding="utf-8").replace("enabled = yes", "enabled = no"))
    assert first.result().status_code == 503 and "enabled = yes" in check(first.result())["error"]
    until(lambda: is_gone(child), "a child that ends")
    assert requests.get(daemon.url + "/-/healthy", timeout=PATIENCE).status_code == 200


def stop_daemon(stopped):
    """It leaves no child behind; how long it took, in seconds."""
    daemon, child, first, _ = stopped
    begin = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(4 * PATIENCE) == 0
    took = time.monotonic() - begin
    until(lambda: is_gone(child), "the child's end")
    with pytest.raises(requests.exceptions.ConnectionError):
        pytest.fail(f"it was answered: {first.result().status_code} {first.result().text[:1000]}")
    return took


def test_a_stop_leaves_no_question_and_no_child(own_stopped):
    stop_daemon(own_stopped)


@pytest.mark.deep
@pytest.mark.alone
def test_a_stop_does_not_wait_for_the_child(own_stopped):
    """Which would be killed after 30 s."""
    assert stop_daemon(own_stopped) < 20


def test_a_killed_child_is_an_error_for_one_client(stopped):
    """A child that is killed, as for lack of memory, is an error for one client, and nothing else."""
    daemon, child, first, ask = stopped
    os.kill(child, signal.SIGKILL)
    assert first.result().status_code == 503 and "too much memory" in check(first.result())["error"]
    answer = ask().result()
    assert answer.status_code == 200, answer.text
    assert daemon.process.poll() is None


def test_a_child_that_crashes_is_told_and_logged(stopped):
    """The client is told, and the log has the signal."""
    daemon, child, first, ask = stopped
    after = len(daemon.lines)
    os.kill(child, signal.SIGALRM)
    os.kill(child, signal.SIGCONT)
    assert first.result().status_code == 503 and "crashed" in check(first.result())["error"]
    daemon.wait_log(r"the process for an answer crashed: signal 14 \(Alarm clock\)", after=after)
    assert ask().result().status_code == 200


def test_without_memory_the_kernel_takes_the_child(stopped):
    """The kernel would take the child, then the profiler, and the daemon last."""
    daemon, child, _, ask = stopped

    def score(pid):
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii"))

    def is_another_offered():
        """The next one, seen before its end."""
        answer = ask()
        while not answer.done():
            try:
                other = answer_child(daemon)
                if other not in (None, child) and score(other) == 1000:
                    return True
            except OSError:
                pass  # it has ended
        return False
    # It may have been stopped a moment before. When it goes on, it may end before anybody looks.
    if score(child) != 1000:
        os.kill(child, signal.SIGCONT)
        until(is_another_offered, "a child is offered")
    assert score(daemon.pid) < score(daemon.profiler) < 1000
