"""Dropout: how often, where, by how much, and with which gradient.

Tests of frequencies have a fixed seed and a bound of five standard deviations of the binomial
distribution, sqrt(p (1 - p) / n): a correct mask fails once in a million seeds.
"""

import itertools
from collections.abc import Iterator

import pytest
import torch

from core.model import dropout as dropout_module
from core.model.dropout import Dropout, dropout, private_rng

LANES = 4  # elements that one 64-bit number serves


@pytest.fixture(params=["PyTorch's random numbers", "private_rng"])
def any_rng(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "private_rng":
        with private_rng(7):
            yield
    else:
        yield


def bound(p: float, count: int) -> float:
    return 5 * (p * (1 - p) / count) ** 0.5


@pytest.mark.usefixtures("any_rng")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [0.001, 0.1, 0.15, 0.5, 0.9])
def test_share_of_dropped_elements_in_all_and_in_each_lane(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    is_dropped = dropout(torch.ones(1000, 1000, dtype=dtype), p).eq(0).flatten().double()
    assert abs(is_dropped.mean() - p) < bound(p, len(is_dropped))
    for lane in range(LANES):
        of_lane = is_dropped[lane::LANES]
        assert abs(of_lane.mean() - p) < bound(p, len(of_lane)), lane


@pytest.mark.usefixtures("any_rng")
def test_elements_of_one_draw_are_independent() -> None:
    """Two lanes drop together with probability p^2, no matter which two; and so do neighbours."""
    torch.manual_seed(2)
    p, count = 0.3, 10**6
    is_dropped = dropout(torch.ones(count), p).eq(0).view(-1, LANES)
    for a, b in itertools.combinations(range(LANES), 2):
        both = (is_dropped[:, a] & is_dropped[:, b]).double().mean()
        assert abs(both - p * p) < bound(p * p, len(is_dropped)), (a, b)
    across_draws = (is_dropped[:-1, 3] & is_dropped[1:, 0]).double().mean()
    assert abs(across_draws - p * p) < bound(p * p, len(is_dropped) - 1)


@pytest.mark.parametrize("p", [1e-5, 0.1, 1 / 3, 0.5, 0.9, 0.99999, 1 - 1e-9])
def test_the_expectation_is_exact(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """If each of the 2^16 possible numbers is drawn once, the outputs sum to the inputs."""
    every_draw = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
    monkeypatch.setattr(dropout_module, "_random_int64", lambda count: every_draw.view(torch.int64))
    out = dropout(torch.ones(1 << 16, dtype=torch.float64), p)
    assert out.sum().item() == pytest.approx(1 << 16, rel=1e-12)
    assert out.eq(0).double().mean().item() == pytest.approx(p, abs=2**-16)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_kept_elements_are_scaled_and_the_input_is_untouched(p: float) -> None:
    torch.manual_seed(3)
    x = torch.randn(101, 37)  # no multiple of the four elements of a draw
    before = x.clone()
    out = dropout(x, p)
    is_kept = out != 0
    torch.testing.assert_close(out[is_kept], x[is_kept] / (1 - p), rtol=2e-5, atol=0.0)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_gradient_has_the_mask_and_the_scale_of_the_output(dtype: torch.dtype) -> None:
    torch.manual_seed(4)
    x = torch.ones(100, 37, dtype=dtype, requires_grad=True)
    out = dropout(x, 0.3)
    out.sum().backward()
    assert torch.equal(x.grad, out)
    assert 0 < out.eq(0).sum() < out.numel()


def test_same_seed_same_mask() -> None:
    x = torch.ones(100, 37)
    torch.manual_seed(5)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.5), first)
    assert torch.equal(dropout(x, 0.5), second)
    assert not torch.equal(first, second)


def test_no_dropout_is_the_very_input() -> None:
    x = torch.randn(5, 3)
    state = torch.get_rng_state()
    assert dropout(x, 0.0) is x
    assert Dropout(0.9).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_the_module_drops_in_training_only() -> None:
    torch.manual_seed(10)
    module, x = Dropout(0.5), torch.ones(100, 37)
    assert 0 < module(x).eq(0).sum() < x.numel()
    assert module.eval()(x) is x
    assert "p=0.5" in repr(module)


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(p: float) -> None:
    """p = 1.5 used to drop half and to negate the rest; p = 1 was a division by zero."""
    with pytest.raises(ValueError, match=f"not {p}"):
        Dropout(p)
    with pytest.raises(ValueError, match=f"not {p}"):
        dropout(torch.ones(3), p)


def test_private_rng_is_its_own_and_ends() -> None:
    x = torch.ones(1000)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    draws = []
    for seed in (7, 7, 8):
        with private_rng(seed):
            draws.append(dropout(x, 0.5))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    dropout(x, 0.5)
    assert not torch.equal(torch.get_rng_state(), before)
