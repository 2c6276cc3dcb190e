"""The pipeline from a request to its answer, with a scripted model and no client."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import OutOfMemory
from lsp_server import completions, pacing
from lsp_server.asked import Asked
from lsp_server.completer import Completer
from lsp_server.completions import Completions
from lsp_server.documents import Document
from lsp_server.engine_thread import EngineThread
from lsp_server.reading import Reading
from lsp_server.settings import Settings
from lsp_server.writer import EngineWriter
from tests.lsp_server.scripted_engine import ScriptedEngine

URI = "file:///t.py"
ENDLESS = "x = 1\n" * 100


class Desk:
    """A document that is typed into at its end."""

    def __init__(self, answers, text="", uri=URI, **options):
        self.answers = answers
        self.engine = ScriptedEngine(self.script, tokens_per_cycle=1, **options)
        self.thread = EngineThread(lambda on_progress: Completer(EngineWriter(self.engine)))
        loaded = threading.Event()
        self.thread.start(lambda fraction: None, loaded.set)
        assert loaded.wait(30)
        self.failures = []
        self.completions = Completions(self.thread, self.failures.append)
        self.document = Document(text, encoding="utf-32")
        self.uri = uri
        self.right = ""  # what stands right of the cursor

    def script(self, prefix, suffix):
        fitting = [end for end in self.answers if prefix.endswith(end)]
        answer = self.answers[max(fitting, key=len)] if fitting else ""
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else answer[self.engine.asked[-1].seed % len(answer)]

    @property
    def cursor(self):
        end = self.document.cursor(len(self.document.lines), 0)
        return replace(end, character=end.character - len(self.right))

    def asked(self, invoked=False):
        return Asked(self.uri, self.document.snapshot(), self.cursor, invoked)

    async def suggest(self, invoked=False):
        return [one.text for one in await self.completions.suggest(self.asked(invoked))]

    def type(self, text, closed=""):
        """closed: what the editor puts right of the cursor of its own accord."""
        place = (self.cursor.line, self.cursor.character)
        self.document.edit(place, place, text + closed)
        self.right = closed + self.right
        self.completions.changed(self.uri, self.asked)

    def delete(self, count):
        whole = self.document.text
        self.document.replace(whole[: len(whole) - count])
        self.completions.changed(self.uri, self.asked)

    async def idle(self):
        """Until nothing is done ahead any more."""
        while not self.thread.idle or self.completions._tasks:
            await asyncio.sleep(0.001)

    @property
    def generations(self):
        """How often the model was asked to write, not only to read."""
        return sum(params.max_tokens > 0 for params in self.engine.asked)

    @property
    def readings(self):
        return len(self.engine.asked) - self.generations


def at_desk(*arguments, **options):
    """The test of an async function that is given a desk."""

    def made(test):
        @functools.wraps(test)
        def run(monkeypatch):
            async def session():
                desk = Desk(*arguments, **options)
                desk.set = monkeypatch.setattr
                try:
                    await asyncio.wait_for(test(desk), 60)
                finally:
                    desk.thread.stop(10)

            asyncio.run(session())

        del run.__wrapped__  # pytest would ask for a fixture called desk
        return run

    return made


@at_desk({"x = ": "foo(a)\n"}, "x = ")
async def test_what_was_typed_of_a_suggestion_leaves_the_rest_and_asks_no_model(desk):
    assert await desk.suggest() == ["foo(a)"]
    await desk.idle()
    asked = len(desk.engine.asked)
    for typed in range(1, 6):
        desk.type("foo(a)"[typed - 1])
        assert await desk.suggest() == ["foo(a)"[typed:]]
    desk.delete(5)
    assert await desk.suggest() == ["foo(a)"]
    assert len(desk.engine.asked) == asked


@at_desk({"x = ": "foo(a, [b])"}, "x = ")
async def test_a_bracket_that_the_editor_closed_at_once_does_not_end_it(desk):
    await desk.suggest()
    await desk.idle()
    desk.type("foo")
    desk.type("(", closed=")")
    assert await desk.suggest() == ["a, [b]"]
    desk.type("a, ")
    assert await desk.suggest() == ["[b]"]
    desk.type("[", closed="]")
    assert await desk.suggest() == ["b"]
    assert desk.generations <= 2 + 3  # the answer, and looking ahead


@at_desk({"x = ": "foo()"}, "x = ")
async def test_nothing_is_computed_ahead_before_the_answer_is_on_its_way(desk):
    """It would take the interpreter's lock, and the answer would wait for that."""
    assert await desk.suggest() == ["foo()"]
    assert desk.thread.idle
    await desk.idle()
    assert desk.generations == 2


@at_desk({"x = ": "foo()", "x = foo()": "\ny = bar()", "x = foo()\ny = bar()": ""}, "x = ")
async def test_what_follows_an_accepted_suggestion_is_there_already(desk):
    assert await desk.suggest() == ["foo()"]
    await desk.idle()
    asked = len(desk.engine.asked)
    desk.type("foo()")
    assert await desk.suggest() == ["\ny = bar()"]
    assert len(desk.engine.asked) == asked
    await desk.idle()
    assert len(desk.engine.asked) == asked + 1  # one look ahead for each answer, and no more


@at_desk({"x = ": "foo()", "x = foo()": "\ny = bar()"}, "x = ", delay=0.02)
async def test_whoever_accepts_while_what_follows_is_computed_waits_for_that(desk):
    assert await desk.suggest() == ["foo()"]
    while desk.generations < 2:
        await asyncio.sleep(0.001)
    desk.type("foo()")
    await asyncio.sleep(2 * completions.PAUSE)
    assert await desk.suggest() == ["\ny = bar()"]
    assert desk.generations == 2


@at_desk({"x = ": "foo()", "x = foo()": ENDLESS, "z": "!"}, "x = ", delay=0.02)
async def test_whoever_types_on_while_what_follows_is_computed_does_not_wait_for_it(desk):
    await desk.suggest()
    while desk.generations < 2:
        await asyncio.sleep(0.001)
    emitted = desk.engine.emitted
    desk.type("foo()")
    accepted = asyncio.ensure_future(desk.suggest())
    await asyncio.sleep(0.05)
    desk.type("z")
    assert await desk.suggest() == ["!"]
    assert await accepted == []
    await desk.idle()
    assert desk.engine.emitted - emitted < 64


@at_desk({"x = ": "foo()", "x = foo()": ENDLESS}, "x = ", delay=0.05)
async def test_what_was_ready_ahead_when_the_time_is_up_is_shown(desk):
    desk.completions.use(Settings(time_limit=500))
    await desk.suggest()
    while desk.generations < 2:
        await asyncio.sleep(0.001)
    desk.type("foo()")
    (text,) = await desk.suggest()
    assert 0 < len(text) < 64
    assert ENDLESS.startswith(text)


@at_desk({"x = ": "foo()", "x = foo()": ENDLESS}, "x = ", delay=0.02)
async def test_a_request_that_is_cancelled_while_it_waits_for_a_look_ahead_leaves_the_model_idle(desk):
    await desk.suggest()
    while desk.generations < 2:
        await asyncio.sleep(0.001)
    emitted = desk.engine.emitted
    desk.type("foo()")
    accepted = asyncio.ensure_future(desk.suggest())
    await asyncio.sleep(0.05)
    accepted.cancel()
    await desk.idle()
    assert desk.engine.emitted - emitted < 64


@at_desk({"x = ": "foo()"}, "y = 1\n" * 400 + "x = ")
async def test_a_prompt_that_was_shortened_is_read_whole_once_nobody_waits(desk):
    desk.thread.worker.writer._reading = Reading(1.0)  # a second a token: nothing can be read in time
    assert await desk.suggest() == ["foo()"]
    await desk.idle()
    asked, read = desk.engine.prompts[0], desk.engine.prompts[-1]
    assert desk.engine.asked[-1].max_tokens == 0
    assert len(read) > 2 * len(asked)
    assert await desk.suggest() == ["foo()"]


@at_desk({"x = ": "foo()"}, "y = 1\n" * 400 + "x = ")
async def test_a_prompt_is_shortened_again_when_another_window_has_taken_its_place_in_the_cache(desk):
    await desk.suggest()
    await desk.idle()
    writer = desk.thread.worker.writer
    writer._reading._per_token = 1.0
    for displaced, short in ((0, False), (1, True), (1, False)):
        desk.engine.displaced = displaced
        desk.completions.use(Settings())  # forgets what was suggested
        desk.engine.prompts.clear()
        await desk.suggest()
        assert (len(desk.engine.prompts[0]) < 600) == short
        await desk.idle()


@at_desk({"x = ": ENDLESS, "1": ENDLESS}, "x = ", delay=0.01)
async def test_a_look_ahead_ends_with_the_next_change(desk):
    await desk.suggest()
    while desk.generations < 2:
        await asyncio.sleep(0.001)
    emitted = desk.engine.emitted
    desk.type("y")
    await desk.idle()
    assert desk.engine.emitted - emitted < 64


@at_desk({"x = ": "foo()"}, "x = ")
async def test_nothing_to_show_means_nothing_to_look_ahead_for(desk):
    desk.type("y")
    assert await desk.suggest() == []
    assert await desk.suggest() == []
    await desk.idle()
    assert desk.generations == 1


@at_desk({"19": "!"}, "x = ")
async def test_of_many_changes_close_together_only_the_last_is_answered_by_one_generation(desk):
    requests = []
    for number in range(20):
        desk.type(f" {number}")
        requests.append(asyncio.ensure_future(desk.suggest()))
        await asyncio.sleep(0)
    assert await asyncio.gather(*requests) == [[]] * 19 + [["!"]]
    await desk.idle()
    assert desk.generations == 2  # the second looks ahead; after it all is quiet


@at_desk({"x = y": "foo()"}, "x = ")
async def test_while_a_request_waits_its_prompt_is_read(desk):
    desk.type("y")
    assert await desk.suggest() == ["foo()"]
    assert [params.max_tokens > 0 for params in desk.engine.asked[:2]] == [False, True]
    assert desk.engine.prompts[0] == desk.engine.prompts[1]


def slow_to_read(engine):
    """Reading a prompt takes the engine until it is cancelled."""
    generate = engine.generate

    def reads(prompt_ids, params, cancel, *more, **named):
        yield from generate(prompt_ids, params, cancel, *more, **named)
        while params.max_tokens == 0 and not cancel.cancelled:
            time.sleep(0.001)

    engine.generate = reads


@at_desk({"19": "!"}, "x = ")
async def test_a_prompt_is_read_on_while_the_user_types(desk):
    slow_to_read(desk.engine)
    requests = []
    for number in range(20):
        for request in requests:
            request.cancel()  # as editors do
        desk.type(f" {number}")
        requests.append(asyncio.ensure_future(desk.suggest()))
        while not desk.readings:
            await asyncio.sleep(0.001)
    assert not desk.thread.idle
    assert await requests[-1] == ["!"]
    assert desk.readings == 1
    await desk.idle()


@at_desk({"x = y": "!"}, "x = ")
async def test_reading_ends_when_nobody_waits_or_types_any_more(desk):
    slow_to_read(desk.engine)
    desk.type("y")
    request = asyncio.ensure_future(desk.suggest())
    while not desk.readings:
        await asyncio.sleep(0.001)
    request.cancel()
    await desk.idle()
    assert desk.generations == 0


@at_desk({"x = y": "foo()"}, "x = ")
async def test_once_its_prompt_is_read_a_request_waits_no_longer(desk):
    desk.set(pacing, "PAUSE", 1000.0)
    desk.type("y")
    assert await desk.suggest() == ["foo()"]


@at_desk({"x = y": ENDLESS, "z": "!"}, "x = ", delay=0.01)
async def test_what_was_begun_ends_when_the_user_types_on(desk):
    desk.set(pacing, "PAUSE", 0.5)
    desk.type("y")
    request = asyncio.ensure_future(desk.suggest())
    while not desk.engine.emitted:
        await asyncio.sleep(0.001)
    desk.type("z")
    emitted = desk.engine.emitted
    await asyncio.sleep(0.2)
    assert desk.engine.emitted <= emitted + 2
    assert await request == []
    assert await desk.suggest() == ["!"]


@at_desk({"x = y": "foo()"}, "x = ", delay=0.02)
async def test_a_change_elsewhere_leaves_alone_what_was_begun(desk):
    desk.type("y")
    request = asyncio.ensure_future(desk.suggest())
    while not desk.engine.emitted:
        await asyncio.sleep(0.001)
    desk.completions.changed("file:///other.log", None)
    assert await request == ["foo()"]
    assert desk.generations == 1


@at_desk({"x = y": "foo()"}, "x = ")
async def test_a_prompt_that_cannot_be_read_ahead_is_told_of_and_the_request_goes_on(desk):
    generate = desk.engine.generate

    def fails_to_read(prompt_ids, params, cancel, *more, **named):
        if params.max_tokens == 0:
            raise OutOfMemory("no memory")
        return generate(prompt_ids, params, cancel, *more, **named)

    desk.engine.generate = fails_to_read
    untold = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: untold.append(context))
    desk.type("y")
    assert await desk.suggest() == ["foo()"]
    await desk.idle()
    gc.collect()
    assert {str(failure) for failure in desk.failures} == {"no memory"}
    assert untold == []


@at_desk({"x = yz": "foo()"}, "x = ")
async def test_in_a_burst_of_typing_nothing_is_begun(desk):
    desk.set(pacing, "PAUSE", 0.5)
    desk.type("y")
    desk.type("z")
    request = asyncio.ensure_future(desk.suggest())
    await asyncio.sleep(0.2)
    assert desk.engine.asked == []
    assert await request == ["foo()"]


@at_desk({"x = y": "foo()"}, "x = ")
async def test_in_a_pause_of_the_user_s_choice_the_prompt_is_read_and_no_more(desk):
    desk.completions.use(Settings(debounce=500))
    desk.type("y")
    request = asyncio.ensure_future(desk.suggest())
    while not desk.readings or not desk.thread.idle:
        await asyncio.sleep(0.001)
    assert not request.done()
    assert desk.generations == 0
    assert await request == ["foo()"]


@at_desk({"x = ": "foo()"}, "x = ")
async def test_when_the_user_pauses_after_a_change_its_prompt_is_read_once(desk):
    await desk.suggest()
    desk.type("1 + ")
    while not desk.readings:
        await asyncio.sleep(0.001)
    await asyncio.sleep(3 * completions.PAUSE)
    assert desk.readings == 1


@at_desk({"x = ": "foo()"}, "x = ")
async def test_where_the_user_types_must_be_known_for_a_prompt_to_be_read(desk):
    """A client that sends the whole text with every change does not say."""
    await desk.suggest()
    await desk.idle()
    asked = len(desk.engine.asked)
    desk.document.replace("x = 1 + ")
    desk.completions.changed(desk.uri, None)
    await asyncio.sleep(3 * completions.PAUSE)
    assert len(desk.engine.asked) == asked


@at_desk({"x = ": "foo()"}, "x = ")
async def test_a_document_in_which_nothing_is_asked_costs_nothing(desk):
    for _ in range(3):
        desk.type("y")
        await asyncio.sleep(1.5 * completions.PAUSE)
    assert desk.engine.asked == []


@at_desk({"KEY=": "abc"}, "KEY=", uri="file:///home/me/.env")
async def test_a_file_of_secrets_is_never_read(desk):
    assert await desk.suggest() == []
    assert await desk.suggest(invoked=True) == []
    desk.type("y")
    await asyncio.sleep(1.5 * completions.PAUSE)
    assert desk.engine.asked == []


@at_desk({"x = ": ["foo()", "foo()", "bar()", "", "bat()"]}, "x = ")
async def test_whoever_asks_gets_up_to_three_distinct_suggestions_the_likeliest_first(desk):
    assert await desk.suggest() == ["foo()"]
    assert await desk.suggest(invoked=True) == ["foo()", "bar()", "bat()"]
    assert [params.temperature > 0 for params in desk.engine.asked if params.seed] == [True] * 4
    asked = len(desk.engine.asked)
    assert await desk.suggest(invoked=True) == ["foo()", "bar()", "bat()"]
    desk.type("ba")
    assert await desk.suggest() == ["r()", "t()"]
    assert desk.generations <= asked + 2  # nothing but looking ahead


@at_desk({"x = ": ENDLESS}, "x = ", delay=0.05)
async def test_what_is_ready_when_the_time_is_up_is_shown(desk):
    desk.completions.use(Settings(time_limit=500))
    (text,) = await desk.suggest(invoked=True)
    assert 0 < len(text) < 64
    assert ENDLESS.startswith(text)


@at_desk({"x = ": ["foo()", "bar()"], "y = ": ENDLESS}, "x = ")
async def test_how_suggestions_are_decoded_is_the_user_s_choice_and_another_choice_asks_anew(desk):
    assert await desk.suggest() == ["foo()"]
    desk.completions.use(Settings(seed=1, temperature=0.5, max_tokens=8))
    assert await desk.suggest() == ["bar()"]
    seen = desk.engine.asked[-1]
    assert (seen.seed, seen.temperature) == (1, 0.5)
    desk.type("1\ny = ")
    (text,) = await desk.suggest()
    assert 0 < len(text) <= 8


@at_desk({"x = ": "foo()"}, "x = ")
async def test_nothing_is_computed_where_nothing_is_wanted(desk):
    wanted = []
    desk.completions = Completions(desk.thread, desk.failures.append, lambda uri, invoked: invoked in wanted)
    assert await desk.suggest() == []
    assert await desk.suggest(invoked=True) == []
    assert desk.engine.asked == []
    wanted.append(True)
    assert await desk.suggest() == []
    assert await desk.suggest(invoked=True) == ["foo()"]
    await desk.idle()
    assert await desk.suggest() == []


@at_desk({"x = ": "foo()"}, "x = ")
async def test_what_was_not_even_begun_in_time_is_computed_ahead(desk):
    desk.completions.use(Settings(time_limit=0))
    assert await desk.suggest() == []
    await desk.idle()
    asked = len(desk.engine.asked)
    assert await desk.suggest() == ["foo()"]
    assert len(desk.engine.asked) == asked


@at_desk({"x = ": "foo()"}, "x = ", delay=0.3)
async def test_who_waits_for_a_model_that_has_not_begun_in_time_waits_on_and_is_shown_what_there_is_then(
    desk,
):
    desk.completions.use(Settings(time_limit=250))
    (text,) = await desk.suggest()
    assert text
    assert "foo()".startswith(text)


@at_desk({"x = ": "foo()"}, "x = ", delay=0.2)
async def test_but_not_for_one_that_is_being_loaded_anew(desk):
    desk.completions.use(Settings(time_limit=100))
    loading = threading.Event()
    desk.thread._load = lambda on_progress: loading.wait(30)
    request = asyncio.ensure_future(desk.suggest())
    while not desk.engine.asked:
        await asyncio.sleep(0.001)
    desk.thread.restart(lambda fraction: None, lambda: None)
    assert await asyncio.wait_for(request, 10) == []
    loading.set()


@at_desk({"x = ": ENDLESS, "y": "ok"}, "x = ", delay=0.01)
async def test_a_change_ends_the_generation_and_its_request_is_answered(desk):
    request = asyncio.ensure_future(desk.suggest())
    while not desk.engine.emitted:
        await asyncio.sleep(0.001)
    desk.type("y")
    assert await request == []
    assert desk.engine.emitted < 64
    assert await desk.suggest() == ["ok"]


@at_desk({"x = ": "foo()"}, "x = ")
async def test_an_answer_that_is_ready_when_the_text_changes_is_not_given(desk):
    request = asyncio.ensure_future(desk.suggest())
    await asyncio.sleep(0)
    desk.thread._newest[URI].future.result(10)
    desk.thread.submit("file:///u.py", lambda completer, cancel: None)
    desk.completions.closed(URI)
    assert await request == []
    assert desk.completions.last == {}


@at_desk({"x = ": ENDLESS}, "x = ", delay=0.01)
async def test_a_request_that_is_cancelled_while_it_waits_leaves_the_model_idle(desk):
    desk.type("y")
    request = asyncio.ensure_future(desk.suggest())
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    await desk.idle()
    assert desk.generations == 0


@at_desk({"x = ": OutOfMemory("Full."), "y": "ok"}, "x = ")
async def test_a_failure_is_told_the_answer_is_empty_and_the_next_one_is_not(desk):
    assert await desk.suggest() == []
    assert [str(error) for error in desk.failures] == ["Full."]
    desk.type("y")
    assert await desk.suggest() == ["ok"]


@pytest.mark.parametrize("text", ["1", "f()\n", "\r\n    a", "\n", ""])
@pytest.mark.parametrize(
    "lines", [["x = |"], ["a\n", "x = |)\n", "b\n", ""], ["|\r\n", "c"], ["a\r", "|b\n"]]
)
def test_a_text_is_accepted_where_the_cursor_is(lines, text):
    marked = "".join(lines)
    before, _, after = marked.partition("|")
    document = Document(before + after, encoding="utf-32")
    above = Document(before).lines
    asked = Asked(URI, document.snapshot(), document.cursor(len(above) - 1, len(above[-1])), True)
    accepted = asked.accepting(text)
    whole = Document(before + text + after, encoding="utf-32")
    assert "".join(accepted.lines) == whole.text
    assert list(accepted.lines) == whole.lines
    above = Document(before + text).lines
    assert (accepted.cursor.line, accepted.cursor.character) == (len(above) - 1, len(above[-1]))


STORY = "import os\n\ndef f(a):\n    return os.path.join(a, 'b')\n\nx = f(1)\ny = f(f(x))\n"


def as_in_the_story(prefix, suffix):
    return STORY[len(prefix) :].split("\n\n")[0] if STORY.startswith(prefix) else ""


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(1, 9),  # so many characters of the story are typed
            st.integers(-9, -1),  # or deleted
            st.sampled_from(["ask", "ask more", "ask and go on", "wrong", "pause"]),
        ),
        max_size=25,
    )
)
def test_whatever_is_typed_and_deleted_each_request_is_answered_and_rightly(steps):
    async def session():
        desk = Desk({})
        desk.engine._script = as_in_the_story
        answers = []

        async def ask(invoked=False):
            text = desk.document.text
            for answer in await desk.suggest(invoked):
                answers.append(text + answer)

        going_on = []
        for step in steps:
            text = desk.document.text
            if isinstance(step, int) and step < 0:
                desk.delete(min(-step, len(text)))
            elif isinstance(step, int):
                desk.type(STORY[len(text) :][:step])
            elif step == "wrong":
                desk.type("?")
            elif step == "pause":
                await desk.idle()
            elif step == "ask and go on":
                going_on.append(asyncio.ensure_future(ask()))
                await asyncio.sleep(0)
            else:
                await ask(invoked=step == "ask more")
        await asyncio.wait_for(asyncio.gather(*going_on), 60)
        desk.thread.stop(10)
        assert desk.failures == []
        assert all(STORY.startswith(answer) for answer in answers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing, "PAUSE", 0.001)
        asyncio.run(session())
