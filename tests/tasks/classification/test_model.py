"""The classifier's network: pooling over real positions, and padding that does not matter."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from core.model.config import POSITIONS
from data.batching import pad_sequence
from data.vocabulary import PAD_ID
from tasks.classification.config import CONCAT_TYPES
from tasks.classification.model import ClassificationModel, PackedClassificationModel, pool
from tests.tasks.tiny_models import spread


def pool_by_hand(states: Tensor, lengths: list[int], concat_type: str) -> Tensor:
    columns = []
    for number, length in enumerate(lengths):
        total = torch.zeros(states.shape[2])
        for place in range(length):
            total = total + states[place, number]
        if concat_type == "avg" and length:
            total = total / length
        if concat_type == "last":
            total = states[length - 1, number] if length else torch.zeros(states.shape[2])
        columns.append(total)
    return torch.stack(columns)


@pytest.mark.parametrize("concat_type", CONCAT_TYPES)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4), more=st.integers(0, 2))
def test_pooling_equals_a_loop_over_the_real_positions(
    concat_type: str, lengths: list[int], more: int
) -> None:
    places = max(1, *lengths) + more
    states = torch.randn(places, len(lengths), 3)
    is_pad = torch.arange(places).unsqueeze(0) >= torch.tensor(lengths).unsqueeze(1)
    expected = pool_by_hand(states, lengths, concat_type)
    torch.testing.assert_close(pool(states, is_pad, concat_type), expected)
    # Whatever stands at the padding, infinities included, counts nothing.
    states = states.masked_fill(is_pad.t().unsqueeze(2), float("inf"))
    torch.testing.assert_close(pool(states, is_pad, concat_type), expected)


def test_an_unknown_pooling_is_refused() -> None:
    with pytest.raises(ValueError, match="concat_type must be one of sum, avg, last, not 'max'"):
        pool(torch.zeros(1, 1, 1), torch.zeros(1, 1, dtype=torch.bool), "max")


def network(concat_type: str, **options: Any) -> ClassificationModel:
    torch.manual_seed(1)
    small = {"d_model": 8, "nhead": 2, "num_encoder_layers": 2, "dim_feedforward": 16}
    model = ClassificationModel(20, 5, **small, dropout=0.5, concat_type=concat_type, **options)
    spread(model)
    return model.eval()


@pytest.mark.parametrize("concat_type", CONCAT_TYPES)
@pytest.mark.parametrize(
    ("norm_first", "positions"),
    [(False, "sinusoidal"), *((True, positions) for positions in POSITIONS)],
)
def test_padding_and_company_do_not_matter(
    concat_type: str, norm_first: bool, positions: str
) -> None:
    model = network(concat_type, norm_first=norm_first, positions=positions)
    texts = [[4, 5, 6], [7], [8, 9, 10, 11, 12, 13, 14], [4, 6, 5]]
    with torch.no_grad():
        together = model(pad_sequence(texts))
        longer = model(torch.cat([pad_sequence(texts), torch.full((6, 4), PAD_ID)]))
        alone = torch.cat([model(pad_sequence([text])) for text in texts])
    assert together.shape == (4, 5)
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(longer, alone, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(alone[0], alone[3], atol=1e-3)  # the order of words matters


def test_every_weight_learns() -> None:
    model = network("avg").train()
    model(pad_sequence([[4, 5, 6], [7, 8, 9, 10]])).logsumexp(dim=1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("concat_type", CONCAT_TYPES)
@pytest.mark.parametrize("positions", POSITIONS)
def test_packed_weights_give_the_same_scores(concat_type: str, positions: str) -> None:
    model = network(concat_type, positions=positions)
    src = pad_sequence([[4, 5, 6], [7], [8, 9, 10, 11, 12, 13, 14], [4, 6, 5]])
    packed = PackedClassificationModel(model)
    with torch.no_grad():
        expected = model(src)
    for texts in ([0, 1, 2, 3], [0, 3]):
        scores, _ = packed.scores_and_states(src[: 7 if 2 in texts else 3, texts])
        torch.testing.assert_close(scores, expected[texts], atol=1e-5, rtol=1e-4)
