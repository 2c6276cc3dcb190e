"""What a draft learns from and what it is judged by are never the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tokenizer import Tokenizer
from model_setup.corpus import held_out
from model_setup.material import HELD_OUT, read_material
from model_setup.windows import Window, cut_windows
from tests.model_setup.toy_oracle import LENGTH, write_oracle


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_oracle(tmp_path_factory.mktemp("models") / "oracle")


def text_of(name: str) -> str:
    return "".join(f"{name}_{line} = other_{name}({line})\n" for line in range(40))


def written(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / f"{name}.py").write_text(text_of(name), encoding="utf-8")
    return folder


def windows_of(names: list[str], tokenizer: Tokenizer) -> list[Window]:
    return cut_windows(tokenizer.encode_batch(list(map(text_of, names))), tokenizer.special, LENGTH)


@pytest.mark.parametrize("kept_back", [0, 1, 3])
def test_the_tenth_that_is_held_out_is_not_learned_from_and_one_file_at_least_is_held_out(
    tmp_path, oracle, kept_back
):
    tokenizer = Tokenizer(oracle / "tokenizer.json")
    numbered = [f"name{number}" for number in range(200)]
    out = [name for name in numbered if held_out(Path(f"{name}.py"))][:kept_back]
    others = [name for name in numbered if not held_out(Path(f"{name}.py"))][:6]
    material = read_material(written(tmp_path, [*out, *others]), oracle, tokenizer)

    names = {text_of(name): name for name in [*out, *others]}
    learned = [names[tokenizer.decode(ids)] for ids in material.documents]
    judged = [name for name in names.values() if name not in learned]
    assert judged == (out or judged[:1])
    assert set(material.windows) == set(windows_of(learned, tokenizer))
    assert 0 < len(material.held) <= HELD_OUT
    assert set(material.held) <= set(windows_of(judged, tokenizer))
    assert not set(material.held) & set(material.windows)
