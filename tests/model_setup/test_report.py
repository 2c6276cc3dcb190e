"""The page: whole, alone, escaped, and understandable without seeing it."""

from __future__ import annotations

import html
import io
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from model_setup import report_words as words
from model_setup.report import page, write_report
from model_setup.report_words import duration, setting_name
from model_setup.results import Results, read_results
from model_setup.summary import summary
from tests.model_setup.made_results import guessed, plain, results

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Parsed; fails where a tag is not closed by its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


@pytest.fixture(scope="module")
def parsed() -> Page:
    return Page(page(results()))


def test_every_setting_stands_on_the_page_in_each_part(parsed):
    made = results()
    for setting in made.settings:
        assert parsed.texts.count(setting_name(setting.name)) >= 2 * len(made.kinds)


def test_the_page_needs_nothing_else():
    text = page(results())
    assert "http" not in text
    for tag, name, value in Page(text).attributes:
        assert name not in ("src", "href", "onload", "onclick"), (tag, name)
        assert value is None or "url(" not in value
    assert set(re.findall(r"url\(([^)]*)\)", text)) == {"#stripes", "#dots"}
    assert not {"script", "link", "img", "iframe", "object"} & set(Page(text).tags)
    assert "@import" not in text


def test_charts_say_in_words_what_they_are_and_tables_have_heads(parsed):
    charts = [value for tag, name, value in parsed.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(charts) == 2 * (2 + 2 + 2)
    assert all(charts)
    scopes = {value for tag, name, value in parsed.attributes if (tag, name) == ("th", "scope")}
    assert scopes == {"col", "row", "rowgroup"}
    assert parsed.tags.count("caption") == 6
    assert ("html", "lang", "en") in parsed.attributes


def test_the_origins_differ_by_more_than_colour():
    text = page(results())
    for mark, style in (("d2", "box-shadow"), ("d1", "dotted")):
        (rule,) = re.findall(rf"b\.{mark} \{{([^}}]*)\}}", text)
        assert style in rule
    assert ".draft2 { fill: url(#stripes); }" in text
    assert ".draft { fill: url(#dots); }" in text


@given(st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable() and text.strip() == text))
def test_text_of_the_repository_is_only_ever_text(text):
    hostile = f"<script>&\"'{text}</pre>{{{{ 7 * 7 }}}}"
    made = page(results(prompts=1, text=hostile, name=hostile, repository=hostile))
    assert hostile not in made
    parsed = Page(made)
    assert "script" not in parsed.tags
    assert hostile in parsed.texts
    assert any(hostile in piece for piece in parsed.texts if piece.startswith("above"))


def test_half_a_character_in_a_file_s_name_is_no_obstacle(tmp_path):
    path = write_report(results(prompts=1, name="\udce9.py"), tmp_path)
    assert "?.py" in path.read_text(encoding="utf-8")


def test_the_same_is_written_as_json_and_what_was_there_is_replaced(tmp_path):
    folder = tmp_path / "reports" / "shop"
    made = results()
    for _ in range(2):
        assert write_report(made, folder) == folder / "report.html"
    assert {path.name for path in folder.iterdir()} == {"report.html", "report.json"}
    assert read_results(folder / "report.json").to_json() == made.to_json()


@pytest.mark.parametrize("has_draft", [True, False])
def test_without_a_draft_nothing_is_said_of_one(has_draft):
    parsed = Page(page(results(has_draft=has_draft)))
    assert ("draft: the small model" in parsed.texts) == has_draft
    assert any("Tree or chain" in text for text in parsed.texts) == has_draft


def test_before_anything_was_made_the_page_says_so():
    made = results()
    settings = [one for one in made.settings if one.phase != "after"]
    for prompt in made.prompts:
        prompt.outcomes[:] = [guessed() if one.phase else prompt.outcomes[0] for one in settings]
    alone = Results({**made.facts, "table": None, "draft": None}, made.step_times, settings, made.prompts)
    text = html.unescape(page(alone))
    assert "Nothing was made for this repository yet" in text
    assert "Hollow bars" not in text


def test_what_makes_the_figures_uncertain_is_said():
    assert words.cautions(results(prompts=20)) == ""
    few = words.cautions(results(prompts=1))
    assert "Only 1 cursor could be measured" in few
    impossible = results(prompts=20)
    for prompt in impossible.prompts:
        prompt.outcomes[0] = plain(seconds=0.2)
    assert "which cannot be" in words.cautions(impossible), "3.2 times plain with two tokens a pass"
    busy = results(prompts=20)
    busy.prompts[:] = [type(one)(**{**vars(one), "others": 1.5}) for one in busy.prompts]
    assert "Other programs used 1.5 of the 4 cores" in words.cautions(busy)
    assert words.cautions(busy) in html.unescape(page(busy))


def test_a_text_that_differs_is_not_hidden():
    made = results()
    assert "token for token" in words.lede(made)
    made.prompts[0].outcomes[-1].same = False
    assert "6 of 96 staged texts differ" in words.lede(made)


def test_when_setting_up_has_paid_is_told():
    made = results()
    assert "saves nothing" in words.paid(made)
    before = made.settings.index(made.usual("before", "greedy"))
    for prompt in made.prompts:
        prompt.outcomes[before] = guessed(seconds=0.2)
    # 0.8 s before, 0.5 after, and it took 11.9
    assert "has paid for itself after 40 completions" in words.paid(made)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0035, "3.5 ms"), (0.35, "350 ms"), (12.34, "12.3 s"), (245, "4 min 5 s"), (4800, "1 h 20 min")],
)
def test_durations_are_for_people(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize("width", [80, 120])
def test_the_summary_names_every_setting(width):
    made = results(repository="[bold]shop[/bold]")
    console = Console(file=io.StringIO(), width=width)
    summary(made, console)
    printed = console.file.getvalue()
    for setting in made.settings:
        assert setting_name(setting.name) in printed
    assert "[bold]shop" in printed
    assert all(len(line) <= width for line in printed.splitlines())
