"""The picture of attention: every head's weights, beside the tokens that they belong to."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from core.errors import ConfigError, TextError
from core.inference.attention_maps import attention_weights
from data.vocabulary import BOS_ID, EOS_ID
from tasks.translation.predict import Translator
from tests.commands.command_line import error_of

Plot = Callable[..., Figure]

SOURCE, TARGET = "Ein Hund rennt.", "A dog runs."
CPU = ("--device", "cpu", "--threads", "1")


def panels(figure: Figure) -> dict[str, Any]:
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu")


@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_every_head_has_a_panel_with_its_weights(
    kind: str, plot: Plot, translator: Translator
) -> None:
    source, target = translator.source.encode(SOURCE), translator.target.encode(TARGET)
    src, tgt = torch.tensor([[*source, EOS_ID]]).t(), torch.tensor([[BOS_ID, *target]]).t()
    weights = getattr(attention_weights(translator.models[0], src, tgt), kind)[0, 0].numpy()
    read = ["<bos>", "▁A", "▁dog", "▁runs", "."]
    written = [*read[1:], "<eos>"]
    given = ["▁Ein", "▁Hund", "▁rennt", ".", "<eos>"]
    rows, columns = {
        "cross": (written, given),
        "encoder": (given, given),
        "decoder": (written, read),
    }[kind]
    figure = plot("attention", SOURCE, TARGET, "--kind", kind, "--layer", "1", *CPU)
    found = panels(figure)
    heads = [f"head {number}" for number in range(1, len(weights) + 1)]
    assert list(found) == [*heads, "mean of the heads"]
    for title, expected in zip(found, [*weights, weights.mean(axis=0)], strict=True):
        assert np.allclose(found[title].images[0].get_array(), expected, atol=1e-6)
        assert found[title].images[0].get_clim() == (0.0, 1.0)
    assert labels(found["head 1"].yaxis) == rows
    assert labels(found["mean of the heads"].xaxis) == columns
    layers = 6 if kind == "encoder" else 2
    assert figure.get_suptitle().endswith(f"layer 1 of {layers}")


def test_a_target_leaves_nothing_to_search_for(translator: Translator) -> None:
    with pytest.raises(ConfigError, match=r"left out with a target, not \['beam_size'\]"):
        translator.attention(SOURCE, TARGET, beam_size=2)
    with pytest.raises(TextError, match=f"the target has .* takes {translator.max_len - 1}"):
        translator.attention(SOURCE, "dog " * translator.max_len)
    (pair,) = translator.attention(SOURCE, "")
    assert pair.target == ["<bos>"]


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("Ein Hund. Eine Frau.",), 1, "the text has 2 sentences: give one"),
        (("",), 1, "the text has 0 sentences"),
        ((SOURCE, TARGET, "--layer", "4"), 2, "--layer must be from 1 to 2, not 4"),
        ((SOURCE, TARGET, "--kind", "both"), 2, "'both' is not one of"),
        ((SOURCE, "--task", "classification"), 2, "'classification' is not one of"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    arguments: tuple[str, ...], code: int, reason: str
) -> None:
    assert reason in error_of(code, "plot", "attention", *arguments, *CPU)
