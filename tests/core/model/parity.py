"""What the comparisons with ``torch.nn`` share: random masks, gradients by name, tolerances."""

import torch
from torch import Tensor, nn

INF = float("inf")


def random_mask(kind: str, *shape: int, open_key: int = 0) -> Tensor:
    """A random mask, "bool" or "float", that leaves ``open_key`` open: no row is all blocked."""
    is_blocked = torch.rand(shape) < 0.4
    is_blocked[..., open_key] = False
    return is_blocked if kind == "bool" else as_float_mask(is_blocked)


def as_float_mask(is_blocked: Tensor) -> Tensor:
    """-inf where blocked, and random numbers to add to the scores elsewhere."""
    return torch.randn(is_blocked.shape).masked_fill(is_blocked, -INF)


def gradients(loss: Tensor, inputs: list[Tensor], module: nn.Module) -> dict[str, Tensor]:
    """By every input ("input 0", ...; one that is given twice counts once) and every parameter."""
    wanted = {f"input {i}": x for i, x in enumerate(dict.fromkeys(inputs))}
    wanted.update(module.named_parameters())
    return dict(zip(wanted, torch.autograd.grad(loss, list(wanted.values())), strict=True))


def assert_near(actual: object, expected: object, atol: float) -> None:
    """Every number of ``actual`` is within ``atol`` of its counterpart."""
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0.0)


def assert_same_function(
    ours: nn.Module, theirs: nn.Module, out: Tensor, expected: Tensor, inputs: list[Tensor]
) -> None:
    """The outputs are near, and so are their derivatives, each weighted by one random number."""
    assert_near(out, expected, 1e-5)
    upstream = torch.randn_like(out)
    by_ours = gradients((out * upstream).sum(), inputs, ours)
    assert_near(by_ours, gradients((expected * upstream).sum(), inputs, theirs), 1e-4)


def shake(module: nn.Module) -> None:
    """Random biases and norms: as the zeros and ones they start as, they would hide mistakes."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.5)
