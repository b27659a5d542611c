"""Generating for many sources at a time: order, limits, independence of batches."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from core.decoding.config import GenerationConfig
from core.decoding.search import Constraint, Hypothesis
from tests.tasks.searching import search
from tests.tasks.tiny_models import network

# More lengths than fit into a batch, in no order.
SOURCES = [[4 + (3 * i + j) % 16 for j in range(1 + 5 * i % 11)] for i in range(23)]
SHORT: dict[str, Any] = {"max_length_ratio": 1.0, "max_length_extra": 3}
SEARCHES = [
    GenerationConfig(beam_size=1, **SHORT),
    GenerationConfig(beam_size=3, **SHORT),
    GenerationConfig(beam_size=3, diversity=0.5, **SHORT),
    GenerationConfig(**SHORT).replaced(sample=True, seed=5, n_best=2),
]
every_search = pytest.mark.parametrize(
    "options", SEARCHES, ids=["greedy", "beam", "diverse", "sample"]
)


def tokens(found: Sequence[Sequence[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


@every_search
def test_the_batches_do_not_matter(options: GenerationConfig) -> None:
    model = network()
    each = enumerate(SOURCES)
    alone = [search(model, [source], options, numbers=[number])[0] for number, source in each]
    assert len({str(one) for one in tokens(alone)}) > len(SOURCES) // 2  # not all the same
    for batch_tokens in (1, 20, 10_000):
        found = search(model, SOURCES, options, batch_tokens=batch_tokens)
        assert tokens(found) == tokens(alone)
        for one, other in zip(found, alone, strict=True):
            assert math.isclose(one[0].score, other[0].score, rel_tol=1e-4)
    assert search(model, [], options) == []


@every_search
def test_outputs_end_at_their_own_limits(options: GenerationConfig) -> None:
    model = network()
    with torch.no_grad():
        model.generator.bias[3] = -100.0  # no output ends by itself
    limits = [i % 7 for i in range(len(SOURCES))]
    found = search(model, SOURCES, options, max_lengths=limits, batch_tokens=50)
    assert [len(hypotheses[0].tokens) for hypotheses in found] == limits
    found = search(model, SOURCES, options)
    assert [len(h[0].tokens) for h in found] == [len(source) + 3 for source in SOURCES]


def test_no_output_is_longer_than_the_model() -> None:
    model = network(max_len=12)
    with torch.no_grad():
        model.generator.bias[3] = -100.0
    options = GenerationConfig(beam_size=1, max_length_extra=100)
    assert len(search(model, [[5, 6]], options)[0][0].tokens) == 11


def test_a_source_is_never_cut() -> None:
    """The longest that fits is read to its end; one more is an error, not a shorter source."""
    model = network(max_len=12)
    options = GenerationConfig(beam_size=1)
    with torch.no_grad():
        one, other = (model.encode(torch.tensor([[*[5] * 10, w, 3]]).t()).states for w in (6, 7))
    assert not torch.equal(one[0], other[0])
    search(model, [[5] * 11], options)
    with pytest.raises(ValueError, match="12"):
        search(model, [[5] * 12], options)


def test_progress_is_reported_in_sources() -> None:
    counts: list[int] = []
    options = GenerationConfig(beam_size=1)
    search(network(), SOURCES, options, batch_tokens=30, on_batch=counts.append)
    assert len(counts) > 1
    assert sum(counts) == len(SOURCES)


@every_search
def test_each_batch_has_the_constraint_of_its_own_sources(options: GenerationConfig) -> None:
    """Here the output for source n may only hold the token 4 + n % 16."""

    def make_constraint(numbers: Sequence[int]) -> Constraint:
        words = torch.tensor([4 + n % 16 for n in numbers])

        def forbid(prefix: Tensor, sentences: Tensor) -> Tensor:
            forbidden = torch.ones(len(sentences), 20, dtype=torch.bool)
            return forbidden.scatter_(1, words[sentences].unsqueeze(1), False)

        return forbid

    found = search(
        network(),
        SOURCES,
        options,
        batch_tokens=40,
        max_lengths=[2] * len(SOURCES),
        form=make_constraint,
    )
    assert [h[0].tokens for h in found] == [[4 + n % 16] * 2 for n in range(len(SOURCES))]
