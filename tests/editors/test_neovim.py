"""Suggestions in Neovim: keys go in, the screen and the file come out."""

from __future__ import annotations

import pytest


def test_a_suggestion_appears_while_typing_and_tab_takes_it(start):
    editor = start({"def f": "(x):\n    return x"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x):", "    return x", "~")
    assert editor.text() == ["def f"]
    editor.keys("<Tab>")
    editor.wait_for_text("def f(x):", "    return x")
    assert editor.cursor() == (2, 12)
    editor.keys("<Esc>:w<CR>")
    assert editor.file.read_bytes() == b"def f(x):\n    return x\n"


def test_what_is_typed_right_after_tab_stands_behind_the_suggestion(start):
    editor = start({"def f": "(x)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("<Tab>:")
    editor.wait_for_text("def f(x):")


def test_dismissing_leaves_the_text_alone(start):
    editor = start({"def f": "(x)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("<C-]>")
    editor.wait_for_screen("def f")
    editor.keys("<Tab><Esc>")
    editor.wait_for_text("def f\t")


def test_leaving_insert_mode_hides_the_suggestion(start):
    editor = start({"def f": "(x)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("<Esc>")
    editor.wait_for_screen("def f")


def test_what_is_typed_of_a_suggestion_is_taken_off_it(start):
    editor = start({"def f": "(x, y)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x, y)")
    editor.settled()
    before = editor.generations()  # what would follow it is computed ahead
    for typed in "(x,":
        editor.keys(typed)
        assert editor.screen()[0] == "def f(x, y)"
    editor.settled()
    assert editor.generations() == before
    editor.keys(" <Tab>")  # at once: no character twice
    editor.wait_for_text("def f(x, y)")


def test_typing_along_asks_the_server_nothing(start, own):
    editor = start({"def f": "(x, y):\n\treturn x"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x, y):", "        return x")
    editor.settled()
    asked = editor.requests()
    editor.keys("(x, y):<CR>")
    editor.wait_for_screen("def f(x, y):", "        return x")
    editor.keys("<BS><BS><BS>:")
    editor.wait_for_screen("def f(x, y):", "        return x")
    editor.settled()
    assert editor.requests() == asked


def test_typing_something_else_drops_the_suggestion(start):
    editor = start({"def f": "(x)", "def fg": "(y)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("g")
    editor.wait_for_screen("def fg(y)")
    editor.keys("<Tab>")
    editor.wait_for_text("def fg(y)")


def test_what_does_not_fit_any_more_leaves_the_screen_at_once(start):
    editor = start({"def f": "(x)", "def fq": "uite another that takes seconds"}, delay=0.2)
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.settled()
    before = editor.generations()
    editor.keys("q")
    editor.wait_for_screen("def fq")
    assert editor.generations() == before  # what fits instead is not known yet


def test_accepting_word_by_word(start):
    editor = start({"for ": "item in items:", "item": " in items:", "in": " items:"})
    editor.keys("ifor ")
    editor.wait_for_screen("for item in items:")
    for text in ("for item", "for item in"):
        editor.keys("<M-Right>")
        editor.wait_for_text(text)
        editor.wait_for_screen("for item in items:")
    editor.keys("<Tab>")
    editor.wait_for_text("for item in items:")


def test_accepting_line_by_line(start):
    rest = "\n    a = 1\n    b = 2"
    editor = start({"def f": "():" + rest, "():": rest, "a = 1": "\n    b = 2"})
    editor.keys("idef f")
    editor.wait_for_screen("def f():", "    a = 1", "    b = 2")
    editor.keys("<M-Down>")
    editor.wait_for_text("def f():")
    editor.wait_for_screen("def f():", "    a = 1", "    b = 2")
    editor.keys("<M-Down>")
    editor.wait_for_text("def f():", "    a = 1")
    assert editor.cursor() == (2, 9)


def test_one_undo_takes_a_suggestion_back(start):
    editor = start({"def f": "(x):\n    return x"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x):")
    editor.keys("<Tab>")
    editor.wait_for_text("def f(x):", "    return x")
    editor.keys("  # ok<Esc>u")
    editor.wait_for_text("def f(x):", "    return x")
    editor.keys("u")
    editor.wait_for_text("def f")
    editor.keys("u")
    editor.wait_for_text("")


@pytest.mark.parametrize(
    ("left", "suggested"),
    [
        ('s = "😀" + ', "x"),
        ('s = "привет" + ', 'str("漢字")'),
        ("名前 = 関数", "(引数)"),
        ("e\u0301 = ", "'e\u0301'"),
        ("\ta\tb = ", "c\td"),
    ],
    ids=["emoji", "Cyrillic", "CJK", "combining", "tabs"],
)
def test_wide_characters_and_tabs_before_the_cursor(start, left, suggested):
    editor = start({left[-4:]: suggested}, content=f"{left}\n".encode())
    editor.keys("A")
    editor.wait(lambda: editor.screen()[0] == shown(left + suggested), "the suggestion where it belongs")
    editor.keys("<Tab>")
    editor.wait_for_text(left + suggested)
    assert editor.cursor() == (1, len((left + suggested).encode()))


def shown(line):
    return line.expandtabs(8)


def test_a_suggestion_among_tabs(start, own):
    editor = start({"def f():": "\n\tif x:\n\t\treturn\t1"}, content=b"\tdef f():\n\tz\n")
    editor.keys("A")
    editor.wait_for_screen("        def f():", "        if x:", "                return  1", "        z")


def test_text_right_of_the_cursor_stays_where_it_is(start, own):
    editor = start({"f(": "a, b"}, content="x = f() # 漢\n".encode())
    editor.keys("f)i")
    editor.wait_for_screen("x = f(a, b) # 漢")
    editor.keys("<Tab>")
    editor.wait_for_text("x = f(a, b) # 漢")


PAIRS = "vim.keymap.set('i', '(', '()<Left>')"


def test_a_bracket_closed_by_the_editor_is_not_doubled(start, way):
    editor = start({"print": "(x)", "print(": "x)"}, before=PAIRS)
    editor.keys("iprint")
    editor.wait_for_screen("print(x)")
    editor.keys("(")
    editor.wait_for_screen("print(x" if way[1] else "print(x)")  # Neovim itself draws over the bracket
    editor.keys("<Tab>")
    editor.wait_for_text("print(x)")
    editor.keys("<Esc>:w<CR>")
    assert editor.file.read_bytes() == b"print(x)\n"


def test_nor_by_one_who_takes_the_suggestion_at_once(start):
    editor = start({"print": "(x)"}, before=PAIRS)
    editor.keys("iprint")
    editor.wait_for_screen("print(x)")
    editor.keys("(<Tab><Esc>:w<CR>")
    editor.wait(lambda: editor.file.read_bytes() == b"print(\t)\n", "a tab, for want of a suggestion")


def test_long_lines_wrap_like_text(start, own):
    long = "ab 漢 " * 4
    editor = start({"x = ": f"'{long}'\n'{long}'"}, size=(20, 10))
    editor.keys("ix = ")
    editor.wait(lambda: "'" in editor.screen()[2], "the suggestion")
    ghost = [row.ljust(20) for row in editor.screen()]
    editor.keys("<Tab>")
    editor.wait(lambda: len(editor.text()) == 2, "the text")
    assert [row.ljust(20) for row in editor.screen()[:4]] == ghost[:4]


def test_a_file_with_dos_line_ends(start):
    editor = start({"def f": "(x):\n    return x"}, content=b"# a\r\n\r\n")
    editor.keys("jidef f")
    editor.wait_for_screen("# a", "def f(x):", "    return x", "~")
    editor.keys("<Tab>")
    editor.wait_for_text("# a", "def f(x):", "    return x")
    editor.keys("<Esc>:w<CR>")
    assert editor.file.read_bytes() == b"# a\r\ndef f(x):\r\n    return x\r\n"


def test_going_through_several_suggestions(start, own):
    editor = start({"x = ": ["one", "two", "three"]})
    editor.keys("ix = ")
    editor.wait_for_screen("x = one")
    editor.keys("<M-Bslash>")  # asks for several
    editor.settled()
    for row in ("x = two (2/3)", "x = three (3/3)", "x = one (1/3)", "x = two (2/3)"):
        editor.keys("<M-]>")
        editor.wait_for_screen(row)
    editor.keys("<M-[>")
    editor.wait_for_screen("x = one (1/3)")
    editor.keys("<Tab>")
    editor.wait_for_text("x = one")


def test_two_files_have_suggestions_of_their_own(start, tmp_path):
    (tmp_path / "u.py").write_text("\n", encoding="utf-8")
    editor = start({"def f": "(x)", "def g": "(y)"})
    editor.keys(f":e {tmp_path / 'u.py'}<CR>idef g")
    editor.wait_for_screen("def g(y)")
    editor.keys("<Tab><Esc>:w<CR><C-^>idef f")
    editor.wait_for_screen("def f(x)")
