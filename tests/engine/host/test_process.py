"""A host and its clients, each host a real process; only the models are scripted."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from engine.errors import DraftlineError, OutOfMemory
from engine.host import remote, wire
from engine.host.line import Gone, dial
from engine.host.process import MOST_JOBS
from engine.host.remote import Guesses, Left, RemoteEngine
from engine.host.start import Unreachable, find, reach
from engine.request import CancelToken, Cycle, SamplingParams
from tests.engine.host.hosts import Desk, generations, loads, text, until
from tests.engine.host.scripted_host import ENDLESS

ANY = SamplingParams(600)


def standing(desk: Desk) -> wire.Standing:
    line = find(desk.place)
    assert line is not None
    line.send(wire.pack(wire.Ask()))
    answer = wire.for_client(line.receive())
    line.close()
    assert isinstance(answer, wire.Standing)
    return answer


def cycles_of(engine: RemoteEngine, prompt: str, cancel: CancelToken | None = None) -> Iterator[Cycle]:
    return engine.generate(engine.tokenizer.encode(prompt), ANY, cancel)


def test_what_the_host_writes_is_what_was_asked_for(desk):
    model = desk.model(answers={"return ": "a + b", "😀": "é"})
    progress: list[float] = []
    engine = desk.open(model)
    assert (engine.name, engine.device, engine.eos_ids, engine.max_context) == ("model", "auto", (256,), 4096)
    assert [text(engine, prompt) for prompt in ("return ", "😀", "nothing")] == ["a + b", "é", ""]
    assert text(engine, "return ", max_tokens=3) == "a +"
    assert progress == sorted(progress)


def test_a_model_is_loaded_once_for_all_windows(desk):
    model = desk.model(answers={"a": "1"}, load_seconds=0.3)
    with ThreadPoolExecutor(4) as pool:
        engines = list(pool.map(lambda _: desk.open(model), range(4)))
    assert [text(engine, "a") for engine in engines] == ["1"] * 4
    assert len(loads(model)) == 1
    now = standing(desk)
    assert (now.clients, [loaded.clients for loaded in now.models]) == (4, [4])


def test_the_last_window_to_ask_says_on_how_many_threads_a_model_computes_that_is_there_already(desk):
    model = desk.model(answers={"a": "THREADS"})
    first = desk.open(model, threads=3)
    assert text(first, "a") == "3"
    second = desk.open(model, threads=2)
    assert text(first, "a") == text(second, "a") == "2"
    desk.open(model)
    assert text(first, "a") == "None"
    assert len(loads(model)) == 1


def test_a_model_opened_again_has_the_tokenizer_that_was_read_before_until_its_file_changes(desk):
    model = desk.model(answers={"a": "1"})
    first, second = desk.open(model), desk.open(model)
    assert second.tokenizer is first.tokenizer
    (model / "tokenizer.json").unlink()
    desk.model(answers={"a": "1"})
    third = desk.open(model)
    assert third.tokenizer is not first.tokenizer
    assert text(third, "a") == "1"


def test_windows_that_want_other_models_share_the_host(desk):
    small, large = (desk.model(name, answers={"a": name}) for name in ("small", "large"))
    engines = [desk.open(small), desk.open(large), desk.open(large)]
    assert [text(engine, "a") for engine in engines] == ["small", "large", "large"]
    assert len(set(loads(small) + loads(large))) == 1
    assert sorted(loaded.clients for loaded in standing(desk).models) == [1, 2]


def test_a_request_says_what_its_guesses_come_from(desk):
    model = desk.model(answers={"a": "1"})
    engines = [desk.open(model) for _ in range(2)]
    engines[0].guesses = lambda: Guesses(desk.home / "draft", (desk.home / "own", desk.home / "general"))
    for engine in engines:
        assert text(engine, "a") == "1"
    until(lambda: len(generations(model)) == 2)
    assert [guesses for *_, guesses in generations(model)] == ["draft own general", ""]


def test_a_cancelled_request_ends_here_at_once_and_there_at_the_next_pass(desk):
    model = desk.model(answers={"a": ENDLESS, "b": "ok"}, delay=0.05)
    engine, cancel = desk.open(model), CancelToken()
    cycles = cycles_of(engine, "a", cancel)
    next(cycles)
    cancel.cancel()
    assert list(cycles) == []
    assert text(engine, "b") == "ok"
    assert generations(model)[0][1] < 20


def test_a_request_that_nobody_reads_on_is_cancelled(desk):
    model = desk.model(answers={"a": ENDLESS, "b": "ok"}, delay=0.05)
    engine = desk.open(model)
    for _ in cycles_of(engine, "a"):
        break
    assert text(engine, "b") == "ok"
    assert generations(model)[0][1] < 20


def test_cancelling_in_one_window_leaves_the_others_alone(desk):
    model = desk.model(answers={"a": ENDLESS, "b": "all of it, to its very end"}, delay=0.01)
    one, other = desk.open(model), desk.open(model)
    with ThreadPoolExecutor(1) as pool:
        whole = pool.submit(text, other, "b")
        for _ in range(10):
            cancel = CancelToken()
            cycles = cycles_of(one, "a", cancel)
            threading.Timer(0.02, cancel.cancel).start()
            list(cycles)
        assert whole.result(60) == "all of it, to its very end"


def test_the_window_being_typed_in_interrupts_what_is_done_ahead_elsewhere(desk):
    model = desk.model(answers={"a": ENDLESS, "b": "now"}, delay=0.02)
    patient, typing = desk.open(model), desk.open(model)
    ahead = CancelToken(ahead=True)
    cycles = cycles_of(patient, "a", ahead)
    next(cycles)
    assert text(typing, "b") == "now"
    assert len(list(cycles)) < 300
    assert ahead.cancelled
    assert [prompt for prompt, *_ in generations(model)] == ["a", "b"]


def test_a_window_is_told_when_anothers_prompt_takes_the_place_of_its_own(desk):
    model = desk.model(answers={"a": "1"})
    one, other, third = desk.open(model), desk.open(model), desk.open(model)
    for engine in (one, one, other, third, one):
        assert text(engine, "a") == "1"
    until(lambda: other.displaced and third.displaced)
    assert [engine.displaced for engine in (one, other, third)] == [1, 1, 1]


def test_what_somebody_waits_for_is_not_interrupted(desk):
    model = desk.model(answers={"a": "x" * 40, "b": "now"}, delay=0.01)
    first, second = desk.open(model), desk.open(model)
    cycles = cycles_of(first, "a")
    next(cycles)
    assert text(second, "b") == "now"
    assert len(list(cycles)) >= 39


def test_a_request_that_fails_is_one_sentence_and_the_next_one_works(desk):
    model = desk.model(answers={"a": "CRASH", "b": "FULL", "c": "ok"})
    engine = desk.open(model)
    with pytest.raises(DraftlineError, match="an error in draftline"):
        text(engine, "a")
    with pytest.raises(OutOfMemory):
        text(engine, "b")
    assert text(engine, "c") == "ok"


def test_a_full_gpu_is_given_up_by_all_who_move_to_the_cpu(desk):
    model = desk.model(answers={"a": "FULL", "b": "ok"})
    engines = [desk.open(model) for _ in range(2)]
    for engine in engines:
        with pytest.raises(OutOfMemory):
            text(engine, "a")
        engine.close()
    moved = desk.open(model, device="cpu")
    until(lambda: [loaded.device for loaded in standing(desk).models] == ["cpu"])
    assert text(moved, "b") == "ok"


def test_a_model_that_cannot_be_loaded_is_one_sentence_for_each_who_asks(desk):
    model = desk.model(load="It is damaged; fetch it again.")
    for _ in range(2):
        with pytest.raises(DraftlineError, match="It is damaged; fetch it again"):
            desk.open(model)
    desk.model(answers={"a": "1"})
    assert text(desk.open(model), "a") == "1"
    assert len(set(loads(model))) == 1


# Idle, and leaving


def left(engine: RemoteEngine) -> list[str]:
    reasons: list[str] = []
    engine.when_left(reasons.append)
    until(lambda: reasons)
    return reasons


def test_an_idle_model_is_unloaded_with_the_host_and_loaded_anew_when_it_is_asked_for(desk):
    model = desk.model(answers={"a": "1"})
    engine = desk.open(model, idle=0.5)
    process = desk.process
    assert text(engine, "a") == "1"
    assert left(engine) == ["idle"]
    with pytest.raises(Left, match="idle"):
        text(engine, "a")
    until(lambda: not psutil.pid_exists(process))
    assert text(desk.open(model, idle=60), "a") == "1"
    assert len(set(loads(model))) == 2


def test_the_last_window_to_ask_says_how_long_a_model_may_be_idle(desk):
    model = desk.model()
    first = desk.open(model, idle=60)
    second = desk.open(model, idle=0.3)
    assert left(first) == left(second) == ["idle"]


def test_of_two_models_only_the_idle_one_is_unloaded(desk):
    short, long = desk.model("short"), desk.model("long", answers={"a": "1"})
    used, unused = desk.open(long), desk.open(short, idle=0.3)
    assert left(unused) == ["idle"]
    assert text(used, "a") == "1"
    assert [loaded.name for loaded in standing(desk).models] == ["long"]


def test_requests_keep_a_model_from_being_idle(desk):
    model = desk.model(answers={"a": "x" * 30}, delay=0.1)
    engine = desk.open(model, idle=1.0)
    assert text(engine, "a") == "x" * 30


def test_the_host_leaves_when_the_last_client_has_been_gone_for_a_while(desk):
    desk.command[-1] = "0.3"
    engine = desk.open(desk.model())
    process = desk.process
    engine.close()
    until(lambda: not psutil.pid_exists(process))
    assert not Path(desk.place.address).exists()
    assert desk.process is None


def test_stopping_tells_the_clients_even_in_the_middle_of_a_request(desk):
    engine = desk.open(desk.model(answers={"a": ENDLESS}, delay=0.05))
    cycles = cycles_of(engine, "a")
    next(cycles)
    line = reach(desk.place, desk.command)
    line.send(wire.pack(wire.Stop()))
    assert left(engine) == ["stopped"]
    until(lambda: desk.process is None)


def test_a_host_that_is_loading_is_not_waited_for_when_it_is_stopped(desk):
    model = desk.model(load_seconds=1000)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(desk.open, model)
        until(lambda: loads(model))
        process = desk.process
        desk.command[:] = ["-c", "import sys; sys.exit('no more')"]
        line = find(desk.place)
        assert line is not None
        line.send(wire.pack(wire.Stop()))
        until(lambda: not psutil.pid_exists(process))
        with pytest.raises(Unreachable):
            opening.result(60)


@pytest.mark.skipif(sys.platform == "win32", reason="what is in use cannot be deleted there")
@pytest.mark.parametrize("deleted", ["folder", "key", "socket"])
def test_a_host_that_nobody_finds_any_more_leaves_and_takes_nothing_from_its_successor(desk, deleted):
    model = desk.model(answers={"a": "1"})
    first = desk.open(model)
    what = {"folder": desk.place.folder, "key": desk.place.folder / "key", "socket": Path(desk.place.address)}
    shutil.rmtree(what[deleted]) if deleted == "folder" else what[deleted].unlink()
    if deleted == "folder":
        second = desk.open(model)
    with suppress(Left):  # it may have seen it already
        text(first, "a")
    assert left(first) == ["stopped"]
    if deleted != "folder":
        second = desk.open(model)
    assert text(second, "a") == "1"
    assert (standing(desk).process, standing(desk).clients) == (desk.process, 1)


# Crashes


def test_when_the_host_dies_its_clients_know_and_the_next_request_has_a_new_one(desk):
    model = desk.model(answers={"a": ENDLESS, "b": "ok"}, delay=0.02)
    engine = desk.open(model)
    for _ in range(3):
        cycles = cycles_of(engine, "a")
        next(cycles)
        desk.kill()
        with pytest.raises(Left, match="lost"):
            list(cycles)
        assert left(engine) == ["lost"]
        engine = desk.open(model)
        assert text(engine, "b") == "ok"


def test_a_host_that_keeps_dying_is_started_three_times_more_within_a_minute(desk):
    model = desk.model(answers={"a": "DIE"})
    for _ in range(4):
        with pytest.raises(Left, match="lost"):
            text(desk.open(model), "a")
    with pytest.raises(Unreachable, match="ended 4 times within a minute"):
        desk.open(model)
    assert len(set(loads(model))) == 4


def test_a_model_that_kills_the_host_is_refused_until_its_files_change(desk):
    model, other = desk.model(load="die"), desk.model("other", answers={"a": "1"})
    with pytest.raises(DraftlineError, match="ended 2 times while it was loading"):
        desk.open(model)
    assert text(desk.open(other), "a") == "1"
    with pytest.raises(DraftlineError, match="ended 2 times"):
        desk.open(model)
    assert len(loads(model)) == 2
    desk.model(answers={"a": "2"})
    assert text(desk.open(model), "a") == "2"


def test_a_host_that_cannot_write_its_notes_says_so(desk):
    engine = desk.open(desk.model(answers={"a": "1"}))
    (desk.place.folder / "loading.json").unlink()
    (desk.place.folder / "loading.json").mkdir()
    with pytest.raises(DraftlineError, match=r"cannot write in .*DRAFTLINE_HOME") as raised:
        desk.open(desk.model("other"))
    assert str(desk.place.folder) in str(raised.value)
    assert text(engine, "a") == "1"


def test_a_host_that_cannot_start_is_one_sentence(desk):
    desk.command = ["-c", "import sys; sys.exit('no room')"]
    with pytest.raises(Unreachable, match="could not be started") as raised:
        desk.open(desk.model())
    assert str(desk.place.folder) in str(raised.value)
    assert "no room" in (desk.place.folder / "errors.txt").read_text("utf-8")


def test_a_home_beside_the_working_folder_is_the_host_s_home_too(desk, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAFTLINE_HOME", "home")
    desk.command = ["-c", "import os, sys; sys.exit(os.environ['DRAFTLINE_HOME'])"]
    with pytest.raises(Unreachable):
        desk.open(desk.model())
    assert (desk.place.folder / "errors.txt").read_text("utf-8").strip() == str(tmp_path / "home")


# Hanging

posix = pytest.mark.skipif(sys.platform == "win32", reason="no process can be halted there")


@posix
def test_a_host_that_hangs_is_given_up_before_long(desk, monkeypatch):
    engine = desk.open(desk.model(answers={"a": "1"}))
    assert text(engine, "a") == "1"
    monkeypatch.setattr(remote, "_QUIET", 0.1)
    monkeypatch.setattr(remote, "_DEAD", 0.3)
    os.kill(desk.process, signal.SIGSTOP)
    with pytest.raises(Left, match="lost"):
        text(engine, "a")
    assert left(engine) == ["lost"]


@posix
def test_nobody_waits_for_ever_for_a_host_that_reads_nothing(desk, monkeypatch):
    monkeypatch.setattr("engine.host.line._SEND_SECONDS", 1)
    engine = desk.open(desk.model())
    os.kill(desk.process, signal.SIGSTOP)
    given_up = CancelToken()
    given_up.cancel()
    requests = (cycle for _ in range(1000) for cycle in engine.generate([1] * 4000, ANY, given_up))
    with pytest.raises(Left, match="lost"):
        list(requests)
    assert left(engine) == ["lost"]


def test_whoever_types_on_while_another_window_s_model_is_loaded_is_served_afterwards(desk):
    engine = desk.open(desk.model(answers={"a": "1"}))
    other = desk.model("other", load_seconds=1)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(desk.open, other)
        until(lambda: loads(other))
        for _ in range(2 * MOST_JOBS):
            given_up = CancelToken()
            given_up.cancel()
            assert list(engine.generate([97], ANY, given_up)) == []
        assert text(engine, "a") == "1"
        opening.result(60)
    assert [asked for asked, *_ in generations(desk.home / "model")] == ["a"]


def test_a_host_that_is_busy_with_another_window_s_model_is_not_given_up(desk, monkeypatch):
    monkeypatch.setattr(remote, "_QUIET", 0.1)
    monkeypatch.setattr(remote, "_DEAD", 0.6)
    engine = desk.open(desk.model(answers={"a": "1"}))
    other = desk.model("other", load_seconds=1.2)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(desk.open, other)
        until(lambda: loads(other))
        assert text(engine, "a") == "1"
        opening.result(60)


# Who may speak


@pytest.mark.skipif(sys.platform == "win32", reason="a user's folders are closed to others there")
def test_only_the_user_can_open_the_folder_the_socket_and_the_key(desk):
    desk.open(desk.model())
    modes = {
        name: stat.S_IMODE(path.stat().st_mode)
        for name, path in {
            "folder": desk.place.folder,
            "socket": Path(desk.place.address),
            "socket's folder": Path(desk.place.address).parent,
            "key": desk.place.folder / "key",
        }.items()
    }
    assert modes == {"folder": 0o700, "socket": 0o600, "socket's folder": 0o700, "key": 0o600}


def test_who_has_another_key_is_turned_away_and_the_others_are_served(desk):
    engine = desk.open(desk.model(answers={"a": "1"}))
    with pytest.raises(Gone):
        dial(desk.place.address, b"k" * 32)
    assert text(engine, "a") == "1"
    until(lambda: "does not know the key" in desk.log())


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"type":"Generate"}',
        b'{"type":"Cancel","request":"1"}',
        b'{"type":"Open","oracle":7,"device":"auto","weights":"auto","idle_seconds":1}',
        wire.pack(wire.Generate(1, [1], None, SamplingParams(), "", False, None, [])),
        wire.pack(wire.Open("m", "auto", "auto", 1.0)) * 2,
        b'{"type":"Ask"}' + b" " * wire.LONGEST,
    ],
)
def test_who_says_what_he_may_not_is_dropped_and_the_others_are_served(desk, packet):
    engine = desk.open(desk.model(answers={"a": "1"}))
    line = reach(desk.place, desk.command)
    with suppress(Gone):
        line.send(packet)
    with pytest.raises(Gone):
        line.receive()
    line.close()
    assert text(engine, "a") == "1"


def test_a_client_that_asks_for_ever_more_is_dropped(desk):
    model = desk.model(answers={"a": ENDLESS}, delay=0.05)
    line = reach(desk.place, desk.command)
    line.send(wire.pack(wire.Open(str(model), "auto", "auto", 60.0)))
    while not isinstance(wire.for_client(line.receive()), wire.Opened):
        pass
    with suppress(Gone):
        for number in range(100):
            line.send(wire.pack(wire.Generate(number, [97], None, SamplingParams(), "", False, None, [])))
    with suppress(Gone):
        for _ in range(100_000):
            line.receive()
    with pytest.raises(Gone):
        line.receive()


def test_a_socket_that_a_dead_host_left_is_taken_over(desk):
    model = desk.model(answers={"a": "1"})
    desk.open(model)
    desk.kill()
    until(lambda: desk.process is None)
    assert sys.platform == "win32" or Path(desk.place.address).exists()
    assert text(desk.open(model), "a") == "1"
