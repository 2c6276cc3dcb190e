"""The extension's description agrees with the server, and its own checks pass. Needs no editor."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from lsp_server.settings import TABLE, Settings

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
PACKAGE = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
OFFERED = {
    name: entry
    for group in PACKAGE["contributes"]["configuration"]
    for name, entry in group["properties"].items()
    if name != "draftline.path"
}


def camel_case(name):
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def test_the_settings_offered_are_those_of_the_server():
    assert set(OFFERED) == {f"draftline.{camel_case(name)}" for name in TABLE}


@pytest.mark.parametrize("name", TABLE)
def test_a_setting_is_offered_as_the_server_takes_it(name):
    setting, usual = TABLE[name], getattr(Settings(), name)
    offered = dict(OFFERED[f"draftline.{camel_case(name)}"])
    text, unset = offered.pop("markdownDescription"), offered.pop("default")
    assert text.lower() == f"{setting.meaning}.{f' Empty: {setting.unset}.' if setting.unset else ''}".lower()
    # others may have written a workspace's settings, as they may have written a project's file
    assert offered.pop("scope") == ("window" if setting.project is True else "machine")
    expected = dict(setting.kind.schema)
    if setting.unset and "enum" in expected:
        expected["enum"] = ["", *expected["enum"]]
    if setting.unset and expected["type"] == "integer":
        expected["type"] = ["integer", "null"]
    assert offered == expected
    assert unset in (None, "", {"*": True}, []) if setting.unset else unset == usual


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_no_link_leads_from_the_package_into_the_repository(page):
    """The packager refuses it: who has installed the extension has no repository beside it."""
    links = re.findall(r"\]\(([^)]*)\)", (EXTENSION / page).read_text(encoding="utf-8"))
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_extension_and_server_have_one_version():
    assert PACKAGE["version"] == metadata.version("draftline")


def test_the_lock_file_names_no_registry():
    lock = json.loads((EXTENSION / "package-lock.json").read_text(encoding="utf-8"))
    assert not any("resolved" in package for package in lock["packages"].values())


@pytest.mark.skipif(
    not (shutil.which("npm") and (EXTENSION / "node_modules" / "esbuild").exists()),
    reason="the extension's packages are not installed: run npm ci --ignore-scripts in editors/vscode",
)
@pytest.mark.parametrize("script", ["check", "test"])
def test_the_extension_s_own_checks_pass(script):
    """Its types, and the tests of what needs no editor."""
    command = [str(shutil.which("npm")), "run", script]
    done = subprocess.run(command, cwd=EXTENSION, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
