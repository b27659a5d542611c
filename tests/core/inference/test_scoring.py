"""Scoring of given outputs: equal to the scores of the searches, alone and in any batch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.decoding.beam_search import beam_search
from core.decoding.diverse_beam_search import diverse_beam_search
from core.decoding.greedy_search import greedy_search
from core.decoding.sampling import sample_search
from core.decoding.search import Hypothesis
from core.errors import UserError
from core.inference.ensemble import Ensemble, StepModel
from core.inference.incremental_model import IncrementalModel
from core.inference.scoring import score
from tests.core.model.parity import assert_near
from tests.core.small_models import (
    BOS,
    EOS,
    SRC_WORDS,
    TGT_WORDS,
    UNK,
    chatty,
    column,
    model_of,
    together,
)

law = settings(max_examples=12, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
pairs_of_lengths = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4)


def outputs_of(model: StepModel, src: Tensor, limits: Tensor) -> list[tuple[int, Hypothesis]]:
    """Returns what every search finds, each with the number of its sentence."""
    with torch.inference_mode():
        found = [
            [[one] for one in greedy_search(model.step, model.start(src), max_lengths=limits)],
            [[one] for one in sample_search(model.step, model.start(src), max_lengths=limits)],
            beam_search(model.step, model.start(src), beam_size=3, max_lengths=limits),
            diverse_beam_search(
                model.step, model.start(src), beam_size=4, diversity=1.0, max_lengths=limits
            ),
        ]
    return [(b, one) for results in found for b, ranked in enumerate(results) for one in ranked]


def as_target(hypothesis: Hypothesis, limit: int) -> Tensor:
    """Returns ``[T, 1]``, with ``<eos>`` unless the output was cut at its limit."""
    end = [EOS] if len(hypothesis.tokens) < limit else []
    return torch.tensor([*hypothesis.tokens, *end], dtype=torch.long).unsqueeze(1)


@pytest.mark.parametrize("count", [1, 3], ids=["model", "ensemble"])
@law
@given(seed=seeds, lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_the_score_is_what_the_search_reports(count: int, seed: int, lengths: list[int]) -> None:
    """For every search. If the rows of a beam or a group were mixed up, it would differ."""
    models = [chatty(seed + i, i != 1) for i in range(count)]
    own = [IncrementalModel(model) for model in models]
    src = together([column(n, SRC_WORDS) for n in lengths])
    limits = torch.tensor([n + 2 for n in lengths])
    found = outputs_of(own[0] if count == 1 else Ensemble(own), src, limits)
    targets = [as_target(one, int(limits[b])) for b, one in found]
    scored = score(models, src[:, [b for b, _ in found]], together(targets))
    for i, (_, one) in enumerate(found):
        assert scored.sum(dim=0)[i].item() == pytest.approx(one.log_prob, abs=1e-4)


def test_an_ensemble_averages_before_tokens_are_forbidden() -> None:
    """By hand: the mean includes the forbidden tokens, as in a search."""
    models = [chatty(1, True), chatty(2, True)]
    src, tgt = column(4, SRC_WORDS), torch.tensor([[6], [UNK], [EOS]])
    with torch.inference_mode():
        given = torch.tensor([[BOS], [6], [UNK]])
        mean = (models[0](src, given).softmax(dim=2) + models[1](src, given).softmax(dim=2)) / 2
    candidates = [EOS, *range(4, TGT_WORDS)]
    share = mean[:, 0, candidates].sum(dim=1)
    share[1] += mean[1, 0, UNK]
    expected = (mean[[0, 1, 2], 0, tgt[:, 0]] / share).log()
    assert_near(score(models, src, tgt)[:, 0], expected, 1e-4)


@law
@given(seed=seeds, lengths=pairs_of_lengths, norm_first=st.booleans())
def test_a_pair_has_the_same_score_alone_and_in_a_batch(
    seed: int, lengths: list[tuple[int, int]], norm_first: bool
) -> None:
    model = chatty(seed, norm_first)
    sources = [column(s, SRC_WORDS) for s, _ in lengths]
    targets = [column(t, TGT_WORDS) for _, t in lengths]
    both = score([model], together(sources, extra=1), together(targets, extra=2))
    for b, (src, tgt) in enumerate(zip(sources, targets, strict=True)):
        alone = score([model], src, tgt)
        assert_near(both[: len(tgt), [b]], alone, 1e-4)
        assert (both[len(tgt) :, b] == 0.0).all()
        assert_near(both.sum(dim=0)[[b]], alone.sum(dim=0), 1e-4)


def test_the_probabilities_of_all_allowed_tokens_sum_to_one() -> None:
    """Over the words and <eos> at one position, and by hand from the logits of the model."""
    model = chatty(5, True)
    src = column(4, SRC_WORDS)
    allowed = [EOS, *range(4, TGT_WORDS)]
    tgt = torch.tensor([[6] * len(allowed), allowed])
    scored = score([model], src.expand(-1, len(allowed)), tgt)
    assert scored[1].exp().sum().item() == pytest.approx(1.0, abs=1e-5)
    with torch.inference_mode():
        logits = model(src, torch.tensor([[BOS], [6]]))[1, 0, allowed]
    assert_near(scored[1], logits.log_softmax(dim=0), 1e-4)


def test_an_unknown_word_is_scored_over_the_words_and_itself() -> None:
    model = chatty(5, True)
    src, tgt = column(4, SRC_WORDS), torch.tensor([[UNK], [6]])
    with torch.inference_mode():
        logits = model(src, torch.tensor([[BOS], [UNK]]))[:, 0]
    scored = score([model], src, tgt)[:, 0]
    candidates = [UNK, EOS, *range(4, TGT_WORDS)]
    assert scored[0].item() == pytest.approx(
        float(logits[0, candidates].log_softmax(dim=0)[0]), abs=1e-4
    )
    candidates = [6, EOS, 4, 5, *range(7, TGT_WORDS)]
    assert scored[1].item() == pytest.approx(
        float(logits[1, candidates].log_softmax(dim=0)[0]), abs=1e-4
    )
    assert math.isfinite(float(score([model], src, tgt).sum(dim=0)))


def test_a_target_from_bos_on_is_refused() -> None:
    """As in training. Its first token would be scored as a word."""
    with pytest.raises(ValueError, match="after <bos>"):
        score([model_of(1)], column(3, SRC_WORDS), torch.tensor([[BOS], [5], [EOS]]))


def test_nan_is_an_error() -> None:
    """It was printed as NaN, which is not JSON."""
    model = chatty(5, True)
    with torch.no_grad():
        model.generator.weight[7] = math.nan
    with pytest.raises(UserError, match="NaN"):
        score([model], column(4, SRC_WORDS), torch.tensor([[6], [EOS]]))
