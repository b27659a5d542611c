"""What the searches share: compact indices, and probabilities over the allowed tokens."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.decoding.search import (
    argmax,
    check_log_probs,
    compact_indices,
    log_probabilities,
    mask_forbidden,
    topk,
)
from core.errors import UserError
from tests.core.decoding.every_search import every_search
from tests.core.decoding.search_tables import Histories

law = settings(max_examples=100, deadline=None, derandomize=True)
INF = float("inf")


def test_compact_indices_by_hand() -> None:
    assert compact_indices([True, False, True, False, True, True]) == [0, 4, 2, 5]


@law
@given(st.lists(st.booleans(), max_size=12))
def test_kept_indices_appear_once_and_stay_in_place_if_they_can(kept: list[bool]) -> None:
    order = compact_indices(kept)
    assert sorted(order) == [i for i, is_kept in enumerate(kept) if is_kept]
    assert all(order[i] == i for i in range(len(order)) if kept[i])
    # Moved indices are in order, so the result depends only on what is kept.
    moved = [number for place, number in enumerate(order) if number != place]
    assert moved == sorted(moved)


@law
@given(
    seed=st.integers(0, 2**31 - 1),
    rows=st.integers(1, 5),
    words=st.integers(1, 40),
    blocked=st.sampled_from([0.0, 0.5, 0.95]),
)
def test_log_probabilities_are_log_softmax(
    seed: int, rows: int, words: int, blocked: float
) -> None:
    torch.manual_seed(seed)
    logits = 10.0 * torch.randn(rows, words)
    logits[torch.rand(rows, words) < blocked] = -INF
    is_stuck = logits.eq(-INF).all(dim=1)
    expected = logits.double().log_softmax(dim=1).float()
    expected[is_stuck] = -INF
    found = log_probabilities(logits)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-6)
    assert found.data_ptr() == logits.data_ptr()


@law
@given(
    seed=st.integers(0, 2**31 - 1),
    rows=st.integers(1, 3),
    words=st.integers(10, 4000),
    count=st.integers(1, 10),
    blocked=st.sampled_from([0.0, 0.5, 0.999]),
)
def test_topk_is_pytorchs(seed: int, rows: int, words: int, count: int, blocked: float) -> None:
    torch.manual_seed(seed)
    totals = torch.randn(rows, words)
    totals[torch.rand(rows, words) < blocked] = -INF
    values, places = topk(totals, count)
    assert values.equal(totals.topk(count).values)
    assert values.equal(totals.gather(1, places))
    assert all(len(set(row)) == count for row in places.tolist())


@law
@given(seed=st.integers(0, 2**31 - 1), words=st.integers(1, 700), values=st.integers(1, 2000))
def test_argmax_is_the_first_of_equal_values(seed: int, words: int, values: int) -> None:
    torch.manual_seed(seed)
    logits = torch.randint(values, (9, words)).float()
    found = argmax(logits).tolist()
    assert found == [row.index(max(row)) for row in logits.tolist()]


@pytest.mark.parametrize("wrong", [float("nan"), INF])
@pytest.mark.parametrize("place", [0, 1])
def test_logits_that_cannot_be_ranked_are_an_error(wrong: float, place: int) -> None:
    logits = torch.tensor([[0.0, 1.0], [-INF, -INF], [0.0, -INF]])
    logits[0, place] = wrong
    found = log_probabilities(logits)
    assert found.isnan().any(dim=1).tolist() == [True, False, False]
    with pytest.raises(UserError, match="NaN or infinite logits"):
        check_log_probs(found[:, 0].tolist())
    check_log_probs(found[1:].flatten().tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_special_tokens_and_those_of_the_constraint_are_forbidden(dtype: torch.dtype) -> None:
    logits, outputs = torch.zeros(2, 7, dtype=dtype), torch.tensor([[4, 5]])
    masked = mask_forbidden(
        logits,
        outputs,
        torch.tensor([0, 1]),
        lambda prefix, sentences: torch.zeros(2, 7, dtype=torch.bool).scatter(1, prefix.t(), True),
    )
    assert masked.dtype == torch.float32
    assert masked.eq(-INF).nonzero().tolist() == [
        [row, token] for row in (0, 1) for token in (0, 1, 2, 4 + row)
    ]


@every_search
def test_a_search_over_nan_is_an_error(search) -> None:  # type: ignore[no-untyped-def]
    """Beam search returned an empty list, and its caller ended in an IndexError."""

    def step(tokens: Tensor, state: object) -> Tensor:
        return torch.full((len(tokens), 9), float("nan"))

    with pytest.raises(UserError, match="NaN or infinite logits"):
        search(step, Histories(2), torch.tensor([4, 4]))
