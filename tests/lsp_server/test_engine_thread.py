"""One thread for the engine: jobs in turn, newer ones in place of older, and an end that does not hang."""

from __future__ import annotations

import threading

import pytest

from engine.errors import DraftlineError
from lsp_server.engine_thread import EngineThread


def started(load):
    thread, loaded = EngineThread(load), threading.Event()
    thread.start(lambda fraction: None, loaded.set)
    assert loaded.wait(30)
    return thread


@pytest.fixture
def engine():
    thread = started(lambda on_progress: "worker")
    yield thread
    thread.stop(10)


def test_a_job_is_given_what_was_loaded(engine):
    assert engine.state == "ready"
    assert engine.submit("a", lambda worker, cancel: worker).future.result(10) == "worker"


def test_all_jobs_and_the_loading_share_one_thread():
    threads = []
    engine = started(lambda on_progress: threads.append(threading.get_ident()))
    for key in "ab":
        engine.submit(key, lambda worker, cancel: threads.append(threading.get_ident())).future.result(10)
    engine.stop(10)
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_a_newer_job_cancels_the_running_one_with_its_key(engine):
    running = threading.Event()

    def until_cancelled(worker, cancel):
        running.set()
        while not cancel.cancelled:
            pass
        return "half a suggestion"

    older = engine.submit("a", until_cancelled)
    assert running.wait(10)
    newer = engine.submit("a", lambda worker, cancel: "new")
    assert older.future.result(10) is None
    assert newer.future.result(10) == "new"


def test_a_waiting_job_that_is_superseded_never_starts(engine):
    gate, ran = threading.Event(), []
    engine.submit("gate", lambda worker, cancel: gate.wait(10))
    older = [engine.submit("a", lambda worker, cancel: ran.append("older")) for _ in range(20)]
    newer = engine.submit("a", lambda worker, cancel: ran.append("newer"))
    gate.set()
    newer.future.result(10)
    assert ran == ["newer"]
    assert all(job.future.result(10) is None for job in older)


def test_jobs_with_other_keys_are_left_alone(engine):
    jobs = [engine.submit(key, lambda worker, cancel, key=key: key) for key in "abc"]
    assert [job.future.result(10) for job in jobs] == ["a", "b", "c"]


def test_a_job_that_fails_leaves_the_thread_working(engine):
    failing = engine.submit("a", lambda worker, cancel: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing.future.result(10)
    assert engine.submit("a", lambda worker, cancel: "fine").future.result(10) == "fine"


@pytest.mark.parametrize(
    ("error", "told"),
    [(DraftlineError("Fetch it."), "Fetch it."), (RuntimeError("x"), "an error in draftline")],
)
def test_a_failure_to_load_is_kept_as_a_sentence(error, told):
    def load(on_progress):
        raise error

    engine = started(load)
    assert engine.state == "failed"
    assert told in engine.failure


def test_jobs_for_what_cannot_be_loaded_end_with_nothing():
    gate, loaded = threading.Event(), threading.Event()

    def load(on_progress):
        gate.wait(10)
        raise DraftlineError("Fetch it.")

    engine = EngineThread(load)
    engine.start(lambda fraction: None, loaded.set)
    early = engine.submit("a", lambda worker, cancel: "a suggestion")
    gate.set()
    assert loaded.wait(10)
    late = engine.submit("b", lambda worker, cancel: "a suggestion")
    assert early.future.result(10) is late.future.result(10) is None
    assert engine.idle
    engine.stop(10)


def test_stopping_cancels_what_runs():
    running = threading.Event()

    def until_cancelled(worker, cancel):
        running.set()
        while not cancel.cancelled:
            pass

    engine = started(lambda on_progress: None)
    job = engine.submit("a", until_cancelled)
    assert running.wait(10)
    engine.stop(30)
    assert job.future.done()


def until_cancelled(running):
    def run(worker, cancel):
        running.set()
        while not cancel.cancelled:
            pass

    return run


def test_what_is_done_ahead_gives_way_to_any_job(engine):
    running = threading.Event()
    ahead = engine.submit_ahead(until_cancelled(running))
    assert running.wait(10)
    assert engine.submit("a", lambda worker, cancel: "needed").future.result(10) == "needed"
    assert ahead.future.result(10) is None


def test_what_was_to_be_done_ahead_gives_way_before_it_has_begun(engine):
    gate, ran = threading.Event(), []
    engine.submit("gate", lambda worker, cancel: gate.wait(10))
    engine.submit_ahead(lambda worker, cancel: ran.append("ahead"))
    engine.submit_ahead(lambda worker, cancel: ran.append("ahead instead"))
    job = engine.submit("a", lambda worker, cancel: ran.append("needed"))
    gate.set()
    job.future.result(10)
    engine.submit_ahead(lambda worker, cancel: ran.append("ahead again")).future.result(10)
    assert ran == ["needed", "ahead again"]


def test_idle_is_when_nobody_wants_what_is_being_done(engine):
    assert engine.idle
    running = threading.Event()
    engine.submit("a", until_cancelled(running))
    assert running.wait(10)
    assert not engine.idle
    engine.cancel("a")
    assert engine.idle
    engine.submit("a", lambda worker, cancel: None).future.result(10)
    assert engine.idle


@pytest.mark.parametrize("first", ["fails", "loads"])
def test_a_load_that_another_was_asked_for_in_place_of_changes_nothing_when_it_ends(first):
    gate, again, ended, ready = (threading.Event() for _ in range(4))

    def load(on_progress):
        if again.is_set():
            gate.wait(10)
            return "second"
        again.wait(10)
        if first == "fails":
            raise DraftlineError("There is no such model.")
        return "first"

    engine = EngineThread(load)
    engine.start(lambda fraction: None, ended.set)
    engine.restart(lambda fraction: None, ready.set)
    job = engine.submit("a", lambda worker, cancel: worker)
    again.set()
    assert ended.wait(10)
    assert (engine.state, engine.worker, engine.failure) == ("loading", None, "")
    gate.set()
    assert ready.wait(10)
    assert (engine.state, engine.worker) == ("ready", "second")
    assert job.future.result(10) == "second"
    engine.stop(10)


def test_of_the_loads_that_are_asked_for_while_one_is_under_way_only_the_last_is_made():
    gate, ready, loads = threading.Event(), threading.Event(), []

    def load(on_progress):
        loads.append(len(loads))
        gate.wait(10)
        return loads[-1]

    engine = EngineThread(load)
    engine.start(lambda fraction: None, lambda: None)
    passed_over = []
    for _ in range(3):
        engine.restart(lambda fraction: None, lambda: None)
        passed_over.append(engine.submit("a", lambda worker, cancel: worker))
    engine.restart(lambda fraction: None, ready.set)
    last = engine.submit("a", lambda worker, cancel: worker)
    gate.set()
    assert ready.wait(10)
    assert last.future.result(10) == 1
    assert loads == [0, 1]
    assert [job.future.result(10) for job in passed_over] == [None] * 3
    engine.stop(10)


def test_a_restart_loads_anew_when_the_jobs_before_it_have_ended():
    loaded = iter(["first", "second"])
    gate, ready = threading.Event(), threading.Event()
    engine = started(lambda on_progress: next(loaded))
    before = engine.submit("a", lambda worker, cancel: gate.wait(10) and worker)
    engine.restart(lambda fraction: None, ready.set)
    assert engine.state == "loading"
    after = engine.submit("b", lambda worker, cancel: worker)
    gate.set()
    assert before.future.result(10) == "first"
    assert ready.wait(10)
    assert after.future.result(10) == "second"
    engine.stop(10)


@pytest.mark.parametrize("give_up", ["stop", "restart"])
def test_what_is_given_up_is_closed_on_its_own_thread_after_its_last_job(give_up):
    events = []

    def note(what):
        events.append((what, threading.current_thread()))

    engine = EngineThread(lambda on_progress: note("loaded"), lambda worker: note("closed"))
    first_loaded, loaded_anew = threading.Event(), threading.Event()
    engine.start(lambda fraction: None, first_loaded.set)
    assert first_loaded.wait(30)
    engine.submit("a", lambda worker, cancel: note("done")).future.result(10)
    if give_up == "restart":
        engine.restart(lambda fraction: None, loaded_anew.set)
        assert loaded_anew.wait(30)
    engine.stop(10)
    first = events[0][1]
    assert [what for what, thread in events if thread is first] == ["loaded", "done", "closed"]
