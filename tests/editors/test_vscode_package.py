"""The extension's description agrees with the server that it starts. Needs no editor."""

from __future__ import annotations

import dataclasses
import json
from importlib import metadata
from pathlib import Path

from engine.placement import DEVICES, WEIGHTS
from lsp_server.settings import Settings

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
PACKAGE = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
GROUPS = {group["id"]: group["properties"] for group in PACKAGE["contributes"]["configuration"]}


def test_each_setting_of_the_server_can_be_set_in_the_editor():
    offered = {name.removeprefix("draftline.") for name in GROUPS["draftline.server"]}
    assert offered == {field.name for field in dataclasses.fields(Settings)}


def test_the_choices_offered_are_those_that_the_server_takes():
    offered = {name: group["enum"] for name, group in GROUPS["draftline.server"].items() if "enum" in group}
    assert sorted(offered["draftline.weights"]) == sorted(["auto", *WEIGHTS])
    assert sorted(offered["draftline.device"]) == sorted(DEVICES)


def test_extension_and_server_have_one_version():
    assert PACKAGE["version"] == metadata.version("draftline")


def test_the_lock_file_names_no_registry():
    lock = json.loads((EXTENSION / "package-lock.json").read_text(encoding="utf-8"))
    assert not any("resolved" in package for package in lock["packages"].values())
