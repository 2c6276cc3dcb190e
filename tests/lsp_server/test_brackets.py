"""Which brackets and strings are open after some lines."""

from __future__ import annotations

import pytest

from lsp_server.brackets import Brackets


@pytest.mark.parametrize(
    ("lines", "opened", "quote", "unmatched"),
    [
        (["f(a[0], {"], "({", "", 0),
        (["f(", "    a)"], "", "", 0),
        (["a) + b]"], "", "", 2),
        (["f(a[0)", "b"], "", "", 0),
        (["f(a[0]]"], "(", "", 1),
        (["f(')', \"]\", `}`)"], "", "", 0),
        (["f('\\')')"], "", "", 0),
        (["it's (so)"], "", "", 0),
        (["f(  # :)", "#include <a(b>"], "((", "", 0),
        (["#", "# (", "  # ["], "", "", 0),
        (['x = """(', "]"], "", '"""', 0),
        (["return r'''a", "b''' + (c"], "(", "", 0),
        (["f('''", "'''"], "(", "", 0),
        (['x = """a""" + (b'], "(", "", 0),
        (['    """The sum of f(x)."""'], "", "", 0),
        (["def f():", '    """The sum (of', "    a"], "", '"""', 0),
        (["def f():", '    """The sum (of', '    a"""', "f("], "(", "", 0),
        (["def f():", '    """The sum', "    Raises:", '    """', "f("], "(", "", 0),
        (['    of them."""', "f("], "(", "", 0),  # a docstring that began before
    ],
)
def test_what_is_open(lines, opened, quote, unmatched):
    brackets = Brackets()
    for line in lines:
        brackets.read(line)
    assert ("".join(brackets.open), brackets.quote, brackets.unmatched) == (opened, quote, unmatched)
