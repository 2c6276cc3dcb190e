"""The passes that a GPU makes, run eagerly on the CPU: the same texts, whatever is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine import checkpoint
from engine.cost_model import StepTimes
from engine.decoding import decode
from engine.device_reader import STEP_ROWS, DeviceReader, DeviceRow
from engine.device_step import TOP, DeviceStep
from engine.draft2 import Draft2
from engine.errors import DraftlineError
from engine.generation import sample_texts
from engine.linear import LinearKind
from engine.linear_device import DenseLinear, DeviceInt8Linear
from engine.linear_portable import PortableInt8Linear
from engine.reader import PREFILL_ROWS, Reader
from engine.request import CancelToken, SamplingParams
from engine.sampling import Row, Sampler
from engine.stages import Draft, Oracle, Request, Stage, coupled
from engine.transformer import Transformer
from tests.engine.tiny_models import TOKENS, committed, load_tiny, path_of, same, write_model

CAPACITY = 400
FREE = StepTimes((1, 64), (1.0, 1.0))
FP32 = partial(DenseLinear, dtype=torch.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), seed=1)


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def on_device(folder: Path, kind: LinearKind = FP32) -> Transformer:
    """The transformer as a GPU holds it, on the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint.Placement, "linear", lambda self: kind)
        return load_tiny(folder)


def reader(transformer: Transformer, dtype: torch.dtype = torch.float32) -> DeviceReader:
    return DeviceReader(transformer, CAPACITY, dtype, graphs=False)


def after(reader: Reader, text: list[int]) -> np.ndarray:
    """[vocab]: the logits of what follows ``text``."""
    reader.read(text[:-1], CancelToken())
    return reader.rows(text[-1:], [len(text) - 1], None)[0].logits


def near(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return bool(np.linalg.norm(ours - theirs) < 1e-5 * np.linalg.norm(theirs))


texts = st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=150)


@settings(max_examples=15, deadline=None)
@given(texts)
def test_it_computes_what_the_cpu_computes(folder: Path, text: list[int]):
    ours, exact = after(reader(on_device(folder)), text), after(Reader(load_tiny(folder), CAPACITY), text)
    assert near(ours, exact)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_16_bits_it_is_near(folder: Path, dtype: torch.dtype):
    text = list(range(3, 40))
    ours = after(reader(on_device(folder, partial(DenseLinear, dtype=dtype)), dtype), text)
    exact = after(Reader(load_tiny(folder), CAPACITY), text)
    assert np.linalg.norm(ours - exact) < 0.1 * np.linalg.norm(exact)


def test_its_int8_product_is_the_cpus_bit_for_bit():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(37, 101, generator=generator)
    bias = torch.randn(37, generator=generator)
    x = torch.randn(STEP_ROWS, 101, generator=generator)
    assert torch.equal(DeviceInt8Linear(weight, bias)(x), PortableInt8Linear(weight, bias)(x))


trees = st.lists(st.tuples(st.integers(0, 30), st.integers(0, TOKENS - 1)), max_size=STEP_ROWS - 1)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, TOKENS - 1), max_size=140), trees)
def test_a_node_of_a_tree_has_the_logits_of_its_path(folder: Path, text: list[int], tree):
    transformer = on_device(folder)
    tokens, paths = [5], [[0]]
    for parent, token in tree:
        tokens.append(token)
        paths.append([*paths[min(parent, len(paths) - 1)], len(paths)])
    visible = torch.zeros(len(tokens), len(tokens), dtype=torch.bool)
    for node, path in enumerate(paths):
        visible[node, path] = True
    whole = reader(transformer)
    whole.read(text, CancelToken())
    rows = whole.rows(tokens, [len(text) + len(path) - 1 for path in paths], visible)
    node = len(paths) - 1
    alone = reader(transformer)
    alone.read(text, CancelToken())
    for step in paths[node]:
        (row,) = alone.rows(tokens[step : step + 1], [len(alone.text)], None)
        alone.commit([len(alone.text)], tokens[step : step + 1])
    assert near(rows[node].logits, row.logits)


def text_of(oracle: Reader, below: Stage | None, prompt: list[int], sampler: Sampler) -> list[int]:
    request = Request(prompt, prompt, sampler)
    cycles = decode(Oracle(oracle, FREE), below, coupled(sampler), False, request, SamplingParams(50))
    return [token for cycle in cycles for token in cycle.tokens]


@pytest.mark.parametrize("sampler", [Sampler(), Sampler(0.8, seed=4), Sampler(1.0, top_k=50)])
def test_staged_text_is_plain_text(folder: Path, tmp_path: Path, sampler: Sampler):
    large = on_device(folder)
    small = on_device(write_model(tmp_path / "small", seed=2, num_hidden_layers=1))
    prompt = [1, 2, 3, 4, 5] * 30  # longer than a chunk
    plain = text_of(reader(large), None, prompt, sampler)
    draft = Draft(reader(small), StepTimes((1, 64), (0.01, 0.01)), Draft2(None))
    used = reader(large)
    assert text_of(used, draft, prompt, sampler) == plain
    assert text_of(used, draft, prompt[:7], sampler) == text_of(reader(large), None, prompt[:7], sampler)


def test_no_row_sees_what_was_left_in_the_cache(folder: Path):
    transformer = on_device(folder)
    used, fresh = reader(transformer), reader(transformer)
    after(used, list(range(200)))
    for tensor in (*used.cache.keys, *used.cache.values):
        tensor[:, 30:] = 1e4
    text = list(range(20))
    assert np.array_equal(after(used, text), after(fresh, text))


def test_the_passes_before_a_capture_leave_the_text_alone(folder: Path):
    """They are made when a shape is first needed, which may be in the middle of a request."""
    used = reader(on_device(folder))
    used.read(list(range(9)), CancelToken())
    before = committed(used.cache)
    step = DeviceStep(used.transformer, used.cache, STEP_ROWS, STEP_ROWS, True)
    step._forward()
    step._forward()
    assert same(committed(used.cache), before)
    assert all(bool(tensor.isfinite().all()) for tensor in (*used.cache.keys, *used.cache.values))


class Recording(TorchDispatchMode):
    """A CUDA graph on the CPU: the operations of one call, replayed on the memory that they ran on then.

    So what the host knew at that time, a length or a position, is frozen in it.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self._operations: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []
        self.replays = 0
        with self:
            call()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = operation(*args, **kwargs)
        self._operations.append((operation, args, kwargs, result))
        return result

    def replay(self) -> None:
        self.replays += 1
        for operation, args, kwargs, result in self._operations:
            again = operation(*args, **kwargs)
            for memory, value in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if memory.data_ptr() != value.data_ptr():  # neither a view nor written in place
                    memory.copy_(value)


def test_a_replayed_pass_goes_by_what_it_is_told_now(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """At other positions, behind longer and shorter texts, with another tree: as a fresh reader's pass.

    21. TensorRT-LLM 17110: a CUDA graph replays the positions that it was captured with.
    """
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(
        DeviceStep, "_capture", lambda step, pool: setattr(step, "_graph", Recording(step._forward))
    )
    transformer = on_device(folder)
    used = DeviceReader(transformer, CAPACITY, torch.float32, graphs=True)
    for first, length in enumerate((3, 150, 40, 1, 360, 152)):
        text = [first, *(7 * n % TOKENS for n in range(1, length))]  # nothing of the text before is kept
        fresh = reader(transformer)
        parents = ([-1, 0, 0, 2, 1], [-1, 0, 1, 2, 3])[first % 2]
        paths = [path_of(parents, node) for node in range(5)]
        tree = torch.zeros(5, 5, dtype=torch.bool)
        for node, path in enumerate(paths):
            tree[node, path] = True
        tokens, positions = [4, 9, first, first, 8], [length + len(path) - 1 for path in paths]
        answers = []
        for each in (used, fresh):
            each.read(text, CancelToken())
            said = []
            for part in (slice(0, 3), slice(3, 5)):  # as a draft reads on in a tree
                rows = each.rows(tokens[part], positions[part], tree[part, : part.stop])
                said += [(row.logits.copy(), row.likeliest(4)) for row in rows]
            each.commit([length + node for node in paths[3]], [tokens[node] for node in paths[3]])
            answers.append(said)
        for (ours, ours_best), (theirs, theirs_best) in zip(*answers, strict=True):
            assert np.array_equal(ours, theirs)
            assert ours_best == theirs_best
        assert used.text == fresh.text
        assert same(committed(used.cache), committed(fresh.cache))
    assert len(used._steps) == 3  # reading much, reading little, checking guesses
    assert all(step._graph.replays >= 4 for step in used._steps.values())


def test_committed_slots_are_those_of_a_linear_pass(folder: Path):
    transformer = on_device(folder)
    used, linear = reader(transformer), reader(transformer)
    used.read([1, 2, 3], CancelToken())
    visible = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)
    used.rows([4, 9, 5], [3, 4, 4], visible)
    used.commit([3, 5], [4, 5])
    linear.read([1, 2, 3], CancelToken())
    for token in (4, 5):
        linear.rows([token], [len(linear.text)], None)
        linear.commit([len(linear.text)], [token])
    assert used.text == linear.text
    for ours, theirs in zip(
        used.cache.keys + used.cache.values, linear.cache.keys + linear.cache.values, strict=True
    ):
        assert near(ours[:, :5].numpy(), theirs[:, :5].numpy())


def test_a_forest_of_many_texts_is_sampled_as_on_the_cpu(folder: Path):
    starts = [[1, 2, 3], [1, 2, 4], [1, 5]]
    ours = sample_texts(reader(on_device(folder)), starts, 20, Sampler(1.0, seed=1))
    assert [len(text) for text in ours] == [20, 20, 20]
    alone = [sample_texts(reader(on_device(folder)), [start], 20, Sampler(1.0, seed=1), first=n)
             for n, start in enumerate(starts)]  # fmt: skip
    assert ours == [text for (text,) in alone]


logits_rows = st.lists(st.sampled_from([-np.inf, -3.0, 0.5, 0.5, 2.0, 7.0]), min_size=TOP, max_size=40).map(
    lambda values: np.array([*values, 1.0], dtype=np.float32)
)


@given(logits_rows, st.integers(1, 4))
def test_a_row_on_the_device_answers_as_one_on_the_host(logits: np.ndarray, k: int):
    tensor = torch.from_numpy(logits)
    values, ids = tensor.topk(TOP)
    top = torch.cat([ids.double(), values.double(), tensor.logsumexp(0, True).double()]).numpy()
    ours, theirs = DeviceRow(top, tensor), Row(logits)
    if (logits == logits.max()).sum() <= TOP - k:  # more equals than were told have no order
        assert [token for token, _ in ours.likeliest(k)][:1] == [theirs.best()]
    assert [chance for _, chance in ours.likeliest(k)] == pytest.approx(
        [chance for _, chance in theirs.likeliest(k)], rel=1e-5
    )
    assert np.array_equal(ours.logits, logits)


def test_values_that_are_no_numbers_are_refused():
    tensor = torch.full((TOP,), float("nan"))
    top = torch.cat([torch.arange(TOP).double(), tensor.double(), tensor[:1].double()]).numpy()
    with pytest.raises(DraftlineError, match="not numbers"):
        DeviceRow(top, tensor).best()


def test_a_prompt_of_any_length_is_read_in_two_shapes_at_most(folder: Path):
    used = reader(on_device(folder))
    for length in (1, 2, 31, 32, 33, 127, 128, 129, 190):
        used.keep([])
        assert used.read(list(range(TOKENS))[:length] * 2, CancelToken())
    assert set(used._steps) == {
        (STEP_ROWS, STEP_ROWS, False),
        (PREFILL_ROWS, PREFILL_ROWS, False),
    }
