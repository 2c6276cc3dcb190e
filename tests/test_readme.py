"""The README is true: its commands are understood, and what it names and promises is there."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import lsp_server.cli
import model_setup.cli
from lsp_server.completer import MAX_TOKENS
from lsp_server.prompt_budget import HEAD_TOKENS, PREFIX_TOKENS, SUFFIX_TOKENS
from lsp_server.setting_kinds import FLAG
from lsp_server.settings import TABLE, Settings
from lsp_server.settings_sources import PROJECT_FILE, user_file
from model_setup.presets import default_preset

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "editors/README.md", *sorted(ROOT.glob("editors/*/README.md")))
}
PACKAGES = ("engine", "lsp_server", "model_setup")
# As installed; building a wheel leaves another description, of the sources, in the checkout
ELSEWHERE = [folder for folder in sys.path if Path(folder).resolve() != ROOT]
INSTALLED = next(iter(metadata.distributions(name="draftline", path=ELSEWHERE)))
PLACEHOLDERS = {
    "FILE:LINE:COL": "a.py:1:0",
    "NAME": "smollm2-135m",
    "PATH": ".",
    "REPO": ".",
    "N": "8",
    "TIME": "10m",
}


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def inline_code(text):
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]


def shell_commands():
    """Every simple command in the pages' shell blocks, then our own ones in their prose."""
    lines = [line for text in PAGES.values() for block in blocks(text, "sh") for line in block.splitlines()]
    commands = [part for line in lines for part in line.split("&&")]
    for text in PAGES.values():
        commands += [
            code for code in inline_code(text) if re.match(r"(draftline|model-setup|npm|code) ", code)
        ]
    split = (tuple(shlex.split(command, comments=True)) for command in commands)
    return sorted({words for words in split if words})


def table_after(heading):
    """The rows of the first table below ``heading``, as lists of cells."""
    section = README[README.index(f"\n## {heading}\n") :]
    table = re.search(r"^\|.*\n\|[-|]+\n((?:\|.*\n)*)", section, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1].splitlines()]


def imported_modules(package):
    """(file, module) for every import statement in the package."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((path, name.name) for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield path, node.module


@pytest.fixture
def understand(monkeypatch, tmp_path):
    """Runs one of our commands as far as the work that it is to do; fails if it does not get there."""
    done = []

    def work(*arguments, **options):
        done.append(arguments)
        return 0

    for target in (
        "lsp_server.cli.serve",
        "lsp_server.cli.complete",
        "lsp_server.demo.demo",
        "lsp_server.host_command.show_status",
        "lsp_server.host_command.stop",
        "lsp_server.settings_command.show_settings",
        "model_setup.export.export_draft",
        "model_setup.fetch.fetch_model",
        "model_setup.inventory.show_status",
        "model_setup.inventory.take_away",
        "model_setup.repository.build_trigram",
        "model_setup.set_up.list_files",
        "model_setup.set_up.set_up",
        "model_setup.measuring_steps.show_report",
    ):
        monkeypatch.setattr(target, work)
    monkeypatch.setattr("model_setup.store.resolve_model", lambda *_name: tmp_path)
    monkeypatch.setattr("model_setup.store.trained_draft", lambda *_names: tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(program, *arguments):
        main = {"draftline": lsp_server.cli.main, "model-setup": model_setup.cli.main}[program]
        words = [PLACEHOLDERS.get(word.strip("[]"), word) for word in arguments]
        if words == ["--version"]:
            with pytest.raises(SystemExit, match="0"):
                main(words)
        else:
            assert main(words) == 0
            assert len(done) == 1
        done.clear()

    return run


@pytest.mark.parametrize("command", shell_commands(), ids=" ".join)
def test_a_command_is_understood(command, understand):
    program, *arguments = command
    if program in {"draftline", "model-setup"}:
        understand(program, *arguments)
    elif program == "pip":
        check_pip(arguments)
    elif program == "python":
        script, *options = arguments
        if script == "-m":
            script = options.pop(0).replace(".", "/") + ".py"
        source = (ROOT / script).read_text(encoding="utf-8")
        assert all(f'"{option}"' in source for option in options if option.startswith("--"))
    elif program == "npm":
        package = json.loads((ROOT / "editors/vscode/package.json").read_text(encoding="utf-8"))
        assert arguments == ["ci", "--ignore-scripts"] or set(package["scripts"]) >= {arguments[-1]}
    elif program == "code":
        assert arguments == ["--install-extension", f"draftline-{INSTALLED.version}.vsix"]
    else:
        assert command == ("pytest",) or program == "cd"


def check_pip(arguments):
    verb, *wanted = arguments
    assert verb == "install"
    if "--index-url" in wanted:
        option = wanted.index("--index-url")
        del wanted[option : option + 2]
    for what in wanted:
        if extras := re.fullmatch(r"\.(?:\[(.+)\])?", what):
            known = INSTALLED.metadata.get_all("Provides-Extra")
            assert extras[1] is None or set(extras[1].split(",")) <= set(known)
        else:  # what is to be installed beforehand must be what is asked for afterwards
            assert Requirement(what) in [Requirement(text) for text in INSTALLED.requires]


@pytest.mark.parametrize("row", table_after("Commands"), ids=" | ".join)
def test_each_option_of_the_commands_table_is_understood(row, understand):
    commands, meaning = row
    for command in re.findall(r"`([^`]+)`", commands):
        for option in re.findall(r"`(--[^`]+)`", meaning):
            understand(*shlex.split(command), *shlex.split(option))


def test_the_settings_table_says_what_the_code_says():
    in_project = {True: "yes", "preset": "a preset", False: ""}
    said = [
        [f"`{name}`", setting.kind.words, default_of(name), setting.meaning, in_project[setting.project]]
        for name, setting in TABLE.items()
    ]
    assert table_after("Settings") == said


def default_of(name):
    usual = getattr(Settings(), name)
    if isinstance(usual, bool):
        usual = str(usual).lower()
    return TABLE[name].unset or (f"`{usual:g}`" if isinstance(usual, float) else f"`{usual}`")


def test_the_settings_that_stand_on_the_command_line(understand):
    options = {setting.option for setting in TABLE.values() if setting.option}
    (sentence,) = re.findall(r"^4\. the command line: (.*);$", README, re.MULTILINE)
    assert set(re.findall(r"`([^`]+)`", sentence)) == options
    for option in options:
        kind = next(setting.kind for setting in TABLE.values() if setting.option == option)
        understand("draftline", "--stdio", option, *([] if kind is FLAG else ["int8"]))


def test_the_places_of_settings_are_named():
    assert f"the project's file `{PROJECT_FILE}`" in README
    assert f"`{user_file().name}`" in README


@pytest.mark.parametrize(
    "path",
    [*PAGES, *sorted(ROOT.glob("editors/neovim/lsp/*.lua"))],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_what_an_editor_starts_is_understood(path, understand):
    text = path.read_text(encoding="utf-8")
    for words in re.findall(r"cmd = \{(.*?)\}", text):
        understand(*re.findall(r"'([^']+)'", words))
    assert "cmd = " in text or path.suffix == ".md"


def test_the_settings_of_other_editors_can_be_read_and_start_the_server(understand):
    page = PAGES[ROOT / "editors/README.md"]
    (kate, sublime) = (json.loads(block) for block in blocks(page, "json"))
    (helix,) = blocks(page, "toml")
    given = [kate["servers"]["python"]["command"], sublime["clients"]["draftline"]["command"]]
    given.append(re.findall(r'"(\S+?)"', helix.partition("[[language]]")[0]))
    given += [re.findall(r'"(\S+?)"', block) for block in blocks(page, "elisp")]
    assert len(given) == 5
    for words in given:
        understand(*words)


@pytest.mark.parametrize("command", ["draftline --version", "model-setup --version", "model-setup status"])
def test_the_installed_commands_run(command, tmp_path):
    program, *arguments = command.split()
    done = run_installed(program, *arguments, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (INSTALLED.version if "--version" in arguments else str(tmp_path)) in done.stdout


@pytest.mark.parametrize(
    "command",
    ["draftline", "draftline complete nowhere.py:1:0", "model-setup nowhere", "model-setup fetch --x"],
)
def test_what_goes_wrong_is_one_sentence(command, tmp_path):
    program, *arguments = command.split()
    done = run_installed(program, *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def run_installed(program, *arguments, folder):
    """The command as pip installed it, not the checkout's code."""
    command = [str(Path(sysconfig.get_path("scripts")) / program), *arguments]
    of_tests = ("DRAFTLINE_VSCODE", "DRAFTLINE_SCREENS")  # which the command would take for settings
    environment = {name: value for name, value in os.environ.items() if name not in of_tests}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_into_the_repository_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGES[path]):
        assert (path.parent / target).exists(), target


def test_the_python_versions_are_those_that_pip_accepts():
    first, last = map(int, re.search(r"Python 3\.(\d+) to 3\.(\d+)", README).groups())
    accepted = SpecifierSet(INSTALLED.metadata["Requires-Python"])
    assert [minor for minor in range(40) if f"3.{minor}.0" in accepted] == list(range(first, last + 1))


def test_the_layout_and_who_uses_whom():
    layout = next(block for block in blocks(README, "text") if block.startswith("engine/"))
    rows = {line.split("/")[0]: line.partition("  uses ")[2] for line in layout.splitlines()}
    assert set(PACKAGES) < set(rows)
    for folder, uses in rows.items():
        assert (ROOT / folder).is_dir()
        if folder in PACKAGES:
            assert (ROOT / "tests" / folder).is_dir()
            imported = {module.split(".")[0] for _, module in imported_modules(folder)}
            assert imported & set(PACKAGES) - {folder} == set(uses.split(" and ")) - {""}


def test_only_fetching_a_model_and_a_team_s_server_use_the_network():
    network = re.compile(
        r"(socket|ssl|http|urllib\.request|ftplib|smtplib|requests|httpx|aiohttp|websockets|huggingface_hub)\b"
    )
    users = {
        path.name for package in PACKAGES for path, name in imported_modules(package) if network.match(name)
    }
    of_the_team_s_server = {"completions_api.py", "server_errors.py"}
    on_this_machine = {"line.py"}
    assert users == {"hub.py"} | of_the_team_s_server | on_this_machine


def test_nothing_but_the_packages_is_installed():
    folders = {file.parts[0] for file in INSTALLED.files if file.suffix == ".py" and len(file.parts) > 1}
    assert folders <= set(PACKAGES)


def test_every_message_quoted_is_one_that_we_give():
    given = "\n".join(
        node.value
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    quoted = re.findall(r"“([^”]+)”", README)
    assert len(quoted) > 2
    assert [message for message in quoted if message not in given] == []


def test_the_sizes_are_those_of_the_default_model_and_prompt():
    preset = default_preset()
    assert f"{preset.gguf_size / 1e9:.1f} GB, once" in README
    assert f"The model takes {preset.converted_size / 1e9:.1f} GB" in README
    assert (
        f"{PREFIX_TOKENS} before it, {SUFFIX_TOKENS} after. A suggestion has at most {MAX_TOKENS} tokens"
        in README
    )
    assert f"Up to {HEAD_TOKENS} more tokens are read" in README
