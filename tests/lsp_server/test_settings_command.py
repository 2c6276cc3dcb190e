"""`draftline settings`: what is printed."""

from __future__ import annotations

from lsp_server import cli


def test_what_holds_and_where_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DRAFTLINE_HOME", str(tmp_path))
    monkeypatch.setenv("DRAFTLINE_TRIGGER", "manual")
    file = tmp_path / "settings.toml"
    file.write_text('seed = 7\nexclude = ["gen/"]\nmax_tokens = 0\n', encoding="utf-8")
    assert cli.main(["settings", "--weights", "int8"]) == 0
    printed = capsys.readouterr()
    shown = dict(line.split(maxsplit=1) for line in printed.out.splitlines() if "  " in line)
    assert shown["seed"] == f"7  ({file})"
    assert shown["exclude"] == f'["gen/"]  ({file})'
    assert shown["trigger"] == '"manual"  (the environment)'
    assert shown["weights"] == '"int8"  (the command line)'
    assert shown["max_tokens"] == "64"
    assert shown["threads"] == "one for each physical core"
    assert str(file) in printed.out.splitlines()[-1]
    assert printed.err.startswith(f"max_tokens in {file} must be a whole number from 1 to 512, not 0;")
