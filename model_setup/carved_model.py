"""A draft as it is before any training, where it is carved out of the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.ngram_count import BITS
from engine.tokenizer import Tokenizer
from model_setup import store
from model_setup.carve import carve, frequent_tokens, plan_carving
from model_setup.peers import Peers
from model_setup.recall import Example
from model_setup.trainable import Trainable
from model_setup.translation import translate_head
from model_setup.trigram import general_counts


def carved_model(
    oracle: Path,
    folder: Path,
    tokenizer: Tokenizer,
    documents: Sequence[Sequence[int]],
    examples: Sequence[Example],
    peers: Peers,
) -> Trainable:
    """Carve a draft out of ``oracle`` into ``folder`` (see `plan_carving`) for the repository whose files'
    tokens are ``documents``, and fit its head to what the oracle said of ``examples``."""
    if peers.first:
        counts = _token_shares(tokenizer, documents)
        plan = plan_carving(oracle, counts)
        always = list(tokenizer.special.values())
        carve(oracle, folder, plan.layers, frequent_tokens(counts, plan.tokens, always))
    peers.wait()
    model = Trainable(folder).to(peers.device)
    translate_head(model, examples, peers.device)
    return model


def _token_shares(tokenizer: Tokenizer, documents: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """[vocab_size]: how often each token occurs in code, half of it the repository's, half in general."""
    general = general_counts(tokenizer, store.general_trigram_path(tokenizer.fingerprint))
    size = tokenizer.vocab_size
    counted = np.bincount(general.keys >> 2 * BITS, weights=general.counts, minlength=size)
    own = np.bincount(np.concatenate([np.array(ids) for ids in documents]), minlength=size)
    shares: NDArray[np.float64] = counted / counted.sum() + own / own.sum()
    return shares
