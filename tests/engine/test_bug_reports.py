"""What went wrong in other engines, replayed on this one: a test a report, its number in the docstring.

Reports that another test covers fully:

    1. transformers 32867, a greedy draft used with the sampling ratio:
       test_laws.test_three_tokens_have_jointly_the_law_of_the_oracle
    2. transformers 47932, the q returned is not the law sampled: the same test, with its filters
    5. Medusa 99, changing the tree changes the output:
       test_decoding.test_staged_text_is_plain_text,
       test_draft.test_two_three_and_four_stages_write_what_the_oracle_alone_writes
    6. transformers 30042, wrong cache positions, one-token prompt:
       test_stages.test_a_prompt_of_one_token_needs_no_reading,
       test_orders.test_a_request_is_answered_as_by_a_fresh_engine
    7. transformers 30312, a crop reallocates the static cache:
       test_kv_cache.test_no_memory_is_allocated_after_the_start,
       test_engine.test_memory_does_not_grow_with_the_requests
    12. pytorch 103963, a fully masked row is NaN (here each row sees itself):
        test_attention.test_a_row_that_sees_only_itself_gets_its_own_value
    13. transformers 47912, EOS in the middle of an accepted block:
        test_decoding.test_a_stop_id_ends_the_text_even_inside_accepted_guesses
    15. vllm 47616, token ids left past a stop string (stop strings are the language server's):
        lsp_server.test_completer.test_tokens_are_counted_up_to_the_end_however_they_come
    17. mlc-llm 3212, 151936 and 152064 logits, in one model: test_engine.test_a_padded_vocabulary_never_shows
    18. llama.cpp 3812, mismatched vocabularies draft junk silently:
        test_engine.test_a_draft_of_another_tokenizer_is_refused,
        test_bad_input.test_a_draft_with_two_ids_swapped_is_refused
    21. TensorRT-LLM 17110, a CUDA graph replays the positions that it was captured with:
        test_device_reader.test_a_replayed_pass_goes_by_what_it_is_told_now, which records and replays on the
        CPU; with real graphs gpu.test_cuda.test_a_captured_pass_is_an_eager_pass
    22. vmlx-swift 148, held-back text never flushed:
        lsp_server.test_completer.test_a_character_of_several_tokens_comes_with_its_last
"""

from __future__ import annotations

import gc
import itertools
import json
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine import Engine, SamplingParams, load
from engine.cost_model import StepTimes
from engine.draft2 import Draft2
from engine.katz import write_table
from engine.reader import Reader
from engine.request import Cycle
from engine.sampling import Row
from engine.stages import Draft, Request, Stage
from engine.standard import ModelApproximation
from engine.tree import TokenTree
from tests.engine.tiny_models import (
    PADDED,
    SIZES,
    TOKENS,
    change_config,
    committed,
    linear_logits,
    load_tiny,
    write_model,
    write_tokenizer,
)

CONTEXT = SIZES["max_position_embeddings"]
ALL_PAY = StepTimes((1, 32), (1.0, 1.0))  # a pass of any size costs a second: guessing pays
NONE_PAYS = StepTimes((1, 32), (1e-12, 1e-9))
CHEAP = StepTimes((1, 32), (1e-3, 1e-3))
PROMPT = [random.Random(0).randrange(TOKENS) for _ in range(60)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "oracle")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", seed=5, num_hidden_layers=1)


@pytest.fixture(scope="module", params=["fp32", "int8"])
def loaded_twin(request: pytest.FixtureRequest, model: Path) -> Engine:
    return load(model, draft=model, weights=request.param)


@pytest.fixture
def twin(loaded_twin: Engine) -> Engine:
    """An engine whose draft is the oracle itself: all it guesses is right, unless its cache is wrong."""
    loaded_twin._oracle.times = ALL_PAY
    loaded_twin._draft_times = CHEAP  # those measured on a busy machine may let it rest
    loaded_twin.use_table(None)
    return loaded_twin


def ready(oracle: Path, draft: Path | None, weights: str = "fp32") -> Engine:
    engine = load(oracle, draft=draft, weights=weights)
    engine._oracle.times = ALL_PAY
    return engine


def cycles(engine: Engine, prompt: list[int], params: SamplingParams) -> list[Cycle]:
    return list(engine.generate(prompt, params))


def text(engine: Engine, prompt: list[int], params: SamplingParams) -> list[int]:
    return [token for cycle in cycles(engine, prompt, params) for token in cycle.tokens]


def with_ties(model: Path, folder: Path, width: int) -> Path:
    """A copy in which ``width`` tokens in a row always have the same logit, and those of few are likely."""
    shutil.copytree(model, folder)
    tensors = load_file(folder / "model.safetensors")
    head = tensors["lm_head.weight"]
    head[:TOKENS] = 4 * head[:TOKENS:width].repeat_interleave(width, dim=0)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def assert_same_caches(twin: Engine) -> None:
    """What the draft has read of the text is what the oracle has, bit for bit, and it has read nearly all."""
    assert twin._draft is not None
    oracle, draft = twin._oracle._reader, twin._draft
    length = draft.cache.length
    assert draft.text == oracle.text[:length]
    # the oracle is ahead by what it took of draft2's guesses, and by the root if it was asked last
    assert len(oracle.text) - length <= 4
    ours, theirs = committed(draft.cache), committed(oracle.cache)
    assert all(torch.equal(mine, its[:, :length]) for mine, its in zip(ours, theirs, strict=True))


@torch.inference_mode()
def test_a_model_that_approximates_reads_the_whole_text_and_the_guesses_before(small: Path):
    """3. transformers 28166: off-by-one indexing. (Filters reach the draft too: see report 8.)"""
    reader = Reader(load_tiny(small), CONTEXT)
    approximation = ModelApproximation(reader)
    approximation.begin(Request(PROMPT[:20], PROMPT[:20]))
    emitted = PROMPT[20:23]
    wanted = linear_logits(reader.transformer, PROMPT, reader.transformer.new_cache(CONTEXT))
    for guesses in range(3):  # a chain is asked with growing paths
        row = approximation.logits(PROMPT[19 : 20 + guesses])
        assert np.array_equal(row, wanted[19 + guesses].numpy())
    approximation.advance(emitted)
    assert np.array_equal(approximation.logits(PROMPT[22:24]), wanted[23].numpy())


@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_equal_logits_are_the_same_token_whatever_the_number_of_rows(
    model: Path, small: Path, tmp_path: Path, weights: str
):
    """4. transformers 39421: argmax flips between batch shapes where two logits nearly tie. Here every
    token has the logit of its neighbour, exactly, and the first of equals is taken everywhere."""
    engine = ready(with_ties(model, tmp_path / "tied", 2), small, weights)
    prompt = PROMPT + PROMPT[:30]
    plain = text(engine, prompt, SamplingParams(60, mode="plain"))
    assert all(token % 2 == 0 for token in plain)
    assert text(engine, prompt, SamplingParams(60)) == plain
    assert text(engine, prompt, SamplingParams(60, mode="standard", approximation="draft")) == plain


@pytest.mark.parametrize(
    "sampling",
    [{}, {"temperature": 1.0}, {"temperature": 1.5, "top_k": 3}, {"temperature": 1.0, "top_p": 0.5}],
)
def test_a_chain_from_the_oracle_itself_is_accepted_whole(twin: Engine, sampling: dict[str, float]):
    """8. vllm 9730: the bonus token missing from the draft's KV. Then the draft would be wrong after it; and
    if the draft were not given the filters (3. transformers 28166), its guesses would be refused for them."""
    params = SamplingParams(60, **sampling, seed=3, mode="standard", approximation="draft", gamma=4)
    assert [len(cycle.tokens) for cycle in cycles(twin, PROMPT, params)] == [5] * 12


def test_a_draft_that_rested_is_right_when_it_is_asked_again(twin: Engine):
    """9. vllm-metal 716: the draft's KV stale after steps in which it was not asked."""
    expected = text(twin, PROMPT, SamplingParams(90, mode="plain"))
    twin._oracle.times = NONE_PAYS
    generation = twin.generate(PROMPT, SamplingParams(90))
    done = [next(generation) for _ in range(30)]
    alone = sum(len(cycle.tokens) == 1 for cycle in done)
    assert alone > 20
    twin._oracle.times = ALL_PAY
    rest = list(generation)
    assert all(len(cycle.tokens) > 1 for cycle in rest[:-1])
    assert_same_caches(twin)
    assert [token for cycle in (*done, *rest) for token in cycle.tokens] == expected


@torch.inference_mode()
@pytest.mark.parametrize("below", [None, Draft2(None)], ids=["alone", "with draft2"])
def test_the_draft_reads_each_node_after_its_path(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: Stage | None
):
    """10. sglang 8409: a draft node attends the wrong parent's KV. Where tokens tie, the tree branches."""
    transformer = load_tiny(with_ties(small, tmp_path / "tied", 2))
    reader = Reader(transformer, CONTEXT)
    stage = Draft(reader, StepTimes((1, 64), (1e-9, 1e-9)), below)
    prompt = PROMPT[:6] * 4  # so that draft2 has something to guess as well
    stage.begin(Request(prompt, prompt))
    passes: list[Sequence[Row]] = []
    read = reader.rows
    monkeypatch.setattr(reader, "rows", lambda *rows: passes.append(read(*rows)) or passes[-1])
    tree = TokenTree(prompt[-1])
    stage.propose(tree, 24, StepTimes((1, 64), (1.0, 1.0)))
    assert len(passes) > 1
    assert len({tree.parents[node] for node in stage._slots}) > 4  # not a chain
    for node, row in zip(stage._slots, itertools.chain(*passes), strict=True):
        path = [tree.tokens[step] for step in tree.path(node)[1:]]
        alone = linear_logits(transformer, [*prompt, *path], transformer.new_cache(CONTEXT))
        assert np.array_equal(row.logits, alone[-1].numpy())


def test_what_only_the_oracle_has_read_the_draft_reads_as_well(twin: Engine):
    """11. sglang 19897: where the oracle's cache is hit, the draft's holds nothing."""
    first = SamplingParams(40, mode="plain")
    prompt = PROMPT + text(twin, PROMPT, first)
    done = cycles(twin, prompt, SamplingParams(40))
    assert len(done) < 20
    assert_same_caches(twin)
    assert text(twin, prompt, SamplingParams(40, mode="plain")) == [t for c in done for t in c.tokens]


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 5, 6, 7])
@pytest.mark.parametrize("approximation", ["draft", "trigram", "unigram", "lookup", "random", None])
def test_no_proposer_overshoots_max_tokens(
    twin: Engine, tmp_path: Path, approximation: str | None, max_tokens: int
):
    """14. transformers 47195: drafting by n-grams overshoots max tokens, here with a chain of 5."""
    prompt = PROMPT[:5] * 8
    write_table(tmp_path / "table", [np.array(prompt, dtype=np.uint32)], TOKENS, twin.tokenizer.fingerprint)
    twin.use_table(tmp_path / "table")
    standard = {"mode": "standard", "approximation": approximation} if approximation else {}
    done = cycles(twin, prompt, SamplingParams(max_tokens, **standard))
    assert sum(len(cycle.tokens) for cycle in done) == max_tokens
    assert all(cycle.rows <= max_tokens for cycle in done)


def test_a_model_that_names_no_end_writes_as_much_as_was_asked_for(tmp_path: Path):
    """16. transformers 46790: a crash when EOS is None."""
    endless = write_model(tmp_path / "endless")
    write_tokenizer(endless / "tokenizer.json", ["<|one|>", "<|two|>"])
    change_config(endless, eos_token_id=None)
    (endless / "generation_config.json").write_text(json.dumps({"eos_token_id": None}), encoding="utf-8")
    engine = ready(endless, endless)
    assert engine.eos_ids == ()
    plain = text(engine, PROMPT, SamplingParams(40, mode="plain", stop_ids=engine.eos_ids))
    assert len(plain) == 40
    assert text(engine, PROMPT, SamplingParams(40, stop_ids=engine.eos_ids)) == plain


@pytest.mark.parametrize("rows", [TOKENS, PADDED + 128])
def test_a_draft_whose_vocabulary_is_padded_otherwise_serves(model: Path, tmp_path: Path, rows: int):
    """17. mlc-llm 3212: 151936 logits of one model against 152064 of its relative."""
    engine = ready(model, write_model(tmp_path / "other", seed=5, num_hidden_layers=1, vocab_size=rows))
    for sampling in ({}, {"temperature": 1.0}):
        plain = text(engine, PROMPT, SamplingParams(30, **sampling, mode="plain"))
        assert text(engine, PROMPT, SamplingParams(30, **sampling)) == plain
    params = SamplingParams(30, temperature=1.0, mode="standard", approximation="draft")
    assert all(0 <= token < TOKENS for token in text(engine, PROMPT, params))


def test_a_draft_of_a_shorter_context_than_the_prompt_serves(model: Path, tmp_path: Path):
    """19. ik_llama.cpp 732: the draft's context is shorter than the prompt."""
    short = write_model(tmp_path / "short", seed=5, num_hidden_layers=1, max_position_embeddings=16)
    engine = ready(model, short)
    prompt = (PROMPT * 3)[: CONTEXT - 40]
    for prefix in (prompt[:10], prompt):  # passing its end while writing, and from the start
        plain = text(engine, prefix, SamplingParams(40, mode="plain"))
        assert text(engine, prefix, SamplingParams(40)) == plain
        standard = SamplingParams(40, mode="standard", approximation="draft")
        assert text(engine, prefix, standard) == plain


def test_requests_leave_nothing_behind(model: Path, small: Path):
    """20. vllm 15506: memory grows. The caches stay where they are (see report 7); this is all the rest."""
    engine = ready(model, small, "int8")

    def objects_after(seeds: range) -> int:
        for seed in seeds:
            prompt = [random.Random(seed).randrange(40) for _ in range(30)]
            text(engine, prompt, SamplingParams(8, temperature=0.7, seed=seed))
        gc.collect()
        return sys.getallocatedblocks()

    before = objects_after(range(15))  # what is learned has filled its buckets by then
    assert (objects_after(range(15, 40)) - before) / 25 < 20  # a prompt's lookup alone takes a hundred
