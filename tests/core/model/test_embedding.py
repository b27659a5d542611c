"""Token embeddings and positions against the formulas, written out."""

import math

import pytest
import torch
from torch import Tensor

from core.model.embedding import PositionalEncoding, TokenEmbedding


def sinusoids(length: int, width: int) -> Tensor:
    """Section 3.5 in two loops: dimension 2i is a sine, 2i + 1 the cosine of the same angle."""
    rows = []
    for position in range(length):
        row = []
        for dimension in range(width):
            i = dimension // 2
            angle = position / 10000 ** (2 * i / width)
            row.append(math.sin(angle) if dimension % 2 == 0 else math.cos(angle))
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("width", [1, 2, 3, 6, 7, 64, 511])
def test_positions_are_the_papers_sinusoids(width: int) -> None:
    """Far positions too: with angles in float32, number 5000 would be off by 2e-5."""
    max_len = 5001
    encoding = PositionalEncoding(width, max_len=max_len)
    out = encoding(torch.zeros(max_len, 1, width))
    expected = sinusoids(max_len, width) if width < 64 else sinusoids(30, width)
    error = (out[: len(expected), 0].double() - expected).abs().max()
    assert error < 1e-7


def test_positions_by_hand() -> None:
    out = PositionalEncoding(4, max_len=3)(torch.zeros(3, 1, 4))
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [0.841471, 0.540302, 0.010000, 0.999950],  # sin 1, cos 1, sin 0.01, cos 0.01
        [0.909297, -0.416147, 0.019999, 0.999800],
    ]
    torch.testing.assert_close(out[:, 0], torch.tensor(expected), atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("shape", [(5, 3, 8), (5, 3, 1), (5, 6), (2, 5, 3, 6)], ids=str)
def test_an_input_of_another_rank_or_width_is_refused(shape: tuple[int, ...]) -> None:
    """``[S, 1]`` and ``[S, D]`` used to be broadcast to an output of another shape silently."""
    with pytest.raises(ValueError, match="D = 6, not") as error:
        PositionalEncoding(6)(torch.zeros(shape))
    assert str(list(shape)) in str(error.value)


def test_the_sum_is_dropped_out_in_training_only() -> None:
    torch.manual_seed(1)
    encoding = PositionalEncoding(64, dropout=0.25)
    x = torch.ones(50, 3, 64)
    out = encoding(x)
    plain = encoding.eval()(x)
    assert 0.2 < out.eq(0).float().mean() < 0.3
    is_kept = out != 0
    torch.testing.assert_close(out[is_kept], plain[is_kept] / 0.75)


def test_the_table_is_no_weight() -> None:
    assert PositionalEncoding(6).state_dict() == {}
    assert list(PositionalEncoding(6).parameters()) == []


def test_fresh_token_vectors_have_entries_of_variance_one() -> None:
    torch.manual_seed(2)
    out = TokenEmbedding(1000, 256)(torch.arange(1000).unsqueeze(1))
    assert out.mean().item() == pytest.approx(0.0, abs=0.01)
    assert out.std().item() == pytest.approx(1.0, abs=0.01)
