"""The optimizer, against their papers' algorithms written out in double precision."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from core.training.step import AdamW
from tests.core.training.tiny_runs import tiny_config


def by_the_paper(
    weight: Tensor, gradients: list[Tensor], rates: list[float], weight_decay: float
) -> Tensor:
    """Loshchilov and Hutter (2019), algorithm 2 in green; without decay Kingma and Ba (2015)."""
    m = v = torch.zeros_like(weight)
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient**2
        step = (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
        weight = weight - rate * (step + weight_decay * weight)
    return weight


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_steps_are_the_papers(weight_decay: float) -> None:
    torch.manual_seed(1)
    start = torch.randn(5, 3)
    gradients = [torch.randn(5, 3) for _ in range(7)]
    rates = [0.1 / n for n in range(1, 8)]
    weight = nn.Parameter(start.clone())
    optimizer = AdamW(tiny_config(weight_decay=weight_decay), [weight])
    for gradient, rate in zip(gradients, rates, strict=True):
        weight.grad = gradient
        optimizer.step(rate)
    expected = by_the_paper(start.double(), [g.double() for g in gradients], rates, weight_decay)
    torch.testing.assert_close(weight.detach().double(), expected, atol=1e-5, rtol=1e-5)


def test_the_compiler_of_torch_is_not_imported(tmp_path: Path) -> None:
    """Comparing shapes on the meta device imported it, which took every command 1.5 seconds.

    So did the optimizer; and it made a folder for its cache among the temporary files.
    """
    program = (
        "import sys; import torch; from transformer_suite import Translator\n"
        "from core.training.config import TrainConfig; from core.training.step import AdamW\n"
        "Translator.load(device='cpu'); weight = torch.nn.Parameter(torch.ones(2))\n"
        "weight.grad = weight.detach(); AdamW(TrainConfig(), [weight]).step(0.1)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", program], cwd=root, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
