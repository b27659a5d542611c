"""Ensembles: the interface of one model, with averaged probabilities."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.errors import ConfigError
from core.inference.ensemble import Ensemble
from core.inference.incremental_model import IncrementalModel
from core.model.sequence_to_sequence import SequenceToSequence
from tests.core.decoding.every_search import assert_same, every_search, greedily
from tests.core.model.parity import assert_near
from tests.core.small_models import (
    BOS,
    MAX_LEN,
    SRC_WORDS,
    TGT_WORDS,
    Uncached,
    chatty,
    column,
    model_of,
    sizes,
    together,
)

law = settings(max_examples=10, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
source_lengths = st.lists(st.integers(1, 6), min_size=1, max_size=3)


class UncachedEnsemble:
    """Runs every model over the whole prefix at every step and averages the probabilities."""

    def __init__(self, models: list[SequenceToSequence], src: Tensor) -> None:
        self.states = [Uncached(model, src) for model in models]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        for state in self.states:
            state.select(rows, sentences)

    @staticmethod
    def step(tokens: Tensor, state: "UncachedEnsemble") -> Tensor:
        mean = sum(Uncached.step(tokens, own).softmax(dim=1) for own in state.states)
        return torch.log(torch.as_tensor(mean) / len(state.states))


@every_search
@law
@given(seed=seeds, lengths=source_lengths)
def test_three_models_are_their_mean_in_every_search(search, seed: int, lengths: list[int]) -> None:  # type: ignore[no-untyped-def]
    """Rows move and sentences leave in all of them in the same way."""
    models = [chatty(seed + i, i != 1) for i in range(3)]
    ensemble = Ensemble([IncrementalModel(model) for model in models])
    src = together([column(n, SRC_WORDS) for n in lengths])
    limits = torch.tensor([n + 3 for n in lengths])
    with torch.inference_mode():
        found = search(ensemble.step, ensemble.start(src), limits)
        assert_same(found, search(UncachedEnsemble.step, UncachedEnsemble(models, src), limits))


def test_probabilities_are_averaged_not_logits() -> None:
    models = [IncrementalModel(chatty(seed, True)) for seed in (1, 2)]
    ensemble = Ensemble(models)
    src, begin = column(4, SRC_WORDS), torch.tensor([BOS])
    with torch.inference_mode():
        first, second = (model.step(begin, model.start(src)).softmax(dim=1) for model in models)
        mean = ensemble.step(begin, ensemble.start(src)).exp()
    assert (first - second).abs().max() > 0.05
    assert_near(mean, (first + second) / 2, 1e-5)


def test_models_may_have_different_sizes() -> None:
    """The smallest ``max_len`` is the limit of the ensemble."""
    small = model_of(1, max_len=9)
    torch.manual_seed(1)
    config = sizes(d_model=12, nhead=3, num_encoder_layers=2, max_len=MAX_LEN)
    large = SequenceToSequence(SRC_WORDS, TGT_WORDS, config, share_embeddings=False).eval()
    ensemble = Ensemble([IncrementalModel(large), IncrementalModel(small)])
    assert ensemble.max_len == 9
    with torch.inference_mode():
        (found,) = greedily(ensemble.step, ensemble.start(column(4, SRC_WORDS)), torch.tensor([5]))
    assert len(found[0].tokens) <= 5


def ensemble_of(*models: SequenceToSequence) -> Ensemble:
    return Ensemble([IncrementalModel(model) for model in models])


def test_other_vocabularies_are_refused_by_their_sizes() -> None:
    config, model = sizes(), model_of(1)
    more_words = SequenceToSequence(SRC_WORDS, TGT_WORDS + 1, config, share_embeddings=False)
    with pytest.raises(ConfigError, match=r"11 source and 13 .* number 3 has 11 source and 14"):
        ensemble_of(model, model, more_words)
    more_words = SequenceToSequence(SRC_WORDS + 1, TGT_WORDS, config, share_embeddings=False)
    with pytest.raises(ConfigError, match=r"11 source .* number 2 has 12 source"):
        ensemble_of(model, more_words)


def test_an_empty_ensemble_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one model"):
        Ensemble([])
