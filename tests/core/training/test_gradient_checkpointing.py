"""Gradient checkpointing: layers that compute again change nothing but memory and time."""

from pathlib import Path

import torch

from tests.core.training.tiny_runs import run_fit, same, tiny_model, weights_of


def test_layers_that_are_computed_again_give_the_same_weights(tmp_path: Path) -> None:
    """To the bit, with dropout; and no layer computes only once."""
    models, calls = [tiny_model(), tiny_model()], [0, 0]
    for number, model in enumerate(models):

        def count(layer: torch.nn.Module, *_: object, number: int = number) -> None:
            calls[number] += layer.training

        model.transformer.encoder.layers[0].linear1.register_forward_pre_hook(count)
        run_fit(model, tmp_path / str(number), gradient_checkpointing=number == 1)
    assert calls == [24, 48]
    assert same(*map(weights_of, models))
