"""A draft exported is a model like any other, and says what the draft says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint import check_directory
from engine.errors import DraftlineError
from engine.trimmed_vocabulary import trim_vocabulary
from model_setup.export import export_draft
from tests.engine.tiny_models import (
    PADDED,
    TOKENS,
    linear_logits,
    load_reference,
    load_tiny,
    reference_logits,
    write_model,
)

KEPT = [*range(0, 200, 2), 201, 256, 257]
TEXT = [KEPT[i % len(KEPT)] for i in range(0, 350, 7)]


@pytest.fixture(autouse=True)
def _code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "model_setup.export.general_texts",
        lambda: (f"def f{n}(x):\n    return x + {n}\n" * 8 for n in range(99)),
    )


@pytest.fixture(params=["own head", "tied head"])
def draft(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A draft with a trimmed vocabulary. Like a real model's, its features have much in common everywhere."""
    whole = write_model(tmp_path / "whole", tie_word_embeddings=request.param == "tied head")
    tensors = load_file(whole / "model.safetensors")
    tensors["model.embed_tokens.weight"][:, 0] += 20
    save_file(tensors, whole / "model.safetensors", {"format": "pt"})
    trim_vocabulary(whole, tmp_path / "draft", KEPT)
    return tmp_path / "draft"


def test_transformers_and_the_engine_say_of_the_draft_s_tokens_what_the_draft_says(draft, tmp_path):
    export_draft(draft, tmp_path / "exported")
    small = load_tiny(draft)
    said = linear_logits(small, TEXT, small.new_cache(64), chunk=16)[:, KEPT]
    whole = load_tiny(tmp_path / "exported")
    torch.testing.assert_close(linear_logits(whole, TEXT, whole.new_cache(64), chunk=16)[:, KEPT], said)
    theirs = reference_logits(load_reference(tmp_path / "exported"), TEXT)
    torch.testing.assert_close(theirs[:, KEPT], said, atol=1e-3, rtol=1e-3)


def test_other_tokens_lie_far_below(draft, tmp_path):
    export_draft(draft, tmp_path / "exported")
    logits = reference_logits(load_reference(tmp_path / "exported"), TEXT)
    others = [token for token in range(TOKENS) if token not in KEPT]
    assert bool((logits[:, others].amax(dim=1) < logits[:, KEPT].amax(dim=1)).all())


def test_a_token_that_the_draft_does_not_know_is_read_as_the_draft_reads_it(draft, tmp_path):
    export_draft(draft, tmp_path / "exported")
    text = [1, KEPT[3], 3, 199, KEPT[8]]  # 1, 3 and 199 are not kept
    small, whole = load_tiny(draft), load_tiny(tmp_path / "exported")
    ours, theirs = (linear_logits(model, text, model.new_cache(64))[:, KEPT] for model in (small, whole))
    torch.testing.assert_close(theirs, ours)


def test_it_has_as_many_rows_as_the_oracle_where_the_draft_says_how_many(draft, tmp_path):
    (draft / "training.json").write_text(json.dumps({"oracle_rows": PADDED}), encoding="utf-8")
    export_draft(draft, tmp_path / "exported")
    check_directory(tmp_path / "exported")
    described = json.loads((tmp_path / "exported" / "config.json").read_text(encoding="utf-8"))
    assert described["vocab_size"] == PADDED
    assert load_reference(tmp_path / "exported").lm_head.weight.shape[0] == PADDED


def test_a_whole_draft_is_copied(tmp_path):
    whole = write_model(tmp_path / "whole")
    export_draft(whole, tmp_path / "exported")
    for model in (load_reference(tmp_path / "exported"), load_reference(whole)):
        torch.testing.assert_close(
            reference_logits(model, TEXT), reference_logits(load_reference(whole), TEXT)
        )


def test_what_vllm_is_to_be_told_names_the_directory(draft, tmp_path):
    told = json.loads(export_draft(draft, tmp_path / "exported"))
    assert told == {"model": str(tmp_path / "exported"), "num_speculative_tokens": 5, "method": "draft_model"}


@pytest.mark.parametrize("there", ["draft", "whole"])
def test_nothing_is_written_over(draft, tmp_path, there):
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(DraftlineError, match="there already"):
        export_draft(draft, tmp_path / there)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_is_no_draft_is_refused(tmp_path):
    with pytest.raises(DraftlineError, match="not a model directory"):
        export_draft(tmp_path, tmp_path / "exported")
