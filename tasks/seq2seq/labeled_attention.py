"""The attention of a model between a source and its output, labeled with tokens, for plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from core.config import check, check_choice
from core.inference.attention_maps import attention_weights
from core.model.sequence_to_sequence import SequenceToSequence
from data.batching import pad_sequence
from data.vocabulary import BOS_ID, EOS, Vocabulary
from tasks.pictures import draw_matrix, picture
from tasks.seq2seq.batches import source_tensor

# Which attention: the title, and the names of the axes of queries and of keys.
_KINDS = {
    "cross": ("attention of the decoder to the source", "token to write", "source token"),
    "encoder": ("self-attention of the encoder", "query", "key"),
    "decoder": ("self-attention of the decoder", "token to write", "token read"),
}
_MAX_IN_A_ROW = 5  # panels
_CELL_INCHES, _MAX_PANEL_INCHES = 0.25, 8.0


@dataclass(frozen=True)
class Attention:
    """The attention weights of every layer and head for one segment; each row sums to 1."""

    source: list[str]
    """The S source tokens, with ``<eos>`` at the end."""
    target: list[str]
    """The T tokens that the decoder reads, from ``<bos>`` on."""
    encoder: NDArray[np.float32]
    """``[L, H, S, S]``: encoder self-attention."""
    decoder: NDArray[np.float32]
    """``[L, H, T, T]``: decoder self-attention."""
    cross: NDArray[np.float32]
    """``[L, H, T, S]``: attention of the decoder to the source."""

    @property
    def written(self) -> list[str]:
        """The T tokens that the decoder writes while it reads ``target``: each is one further on.

        The last is ``<eos>``, even if the output ended because it had reached its longest length.
        """
        return [*self.target[1:], EOS]

    def draw(self, path: str | Path, *, kind: str = "cross", layer: int = -1) -> None:
        """Draws the attention of all heads of one layer side by side, and their mean.

        A row is a query. In "cross" and "decoder" it has the token that the decoder writes there.
        A column is a key: a source token, or in "decoder" a token that the decoder has read.

        Args:
            kind: "cross" (from the decoder to the source), "encoder" or "decoder".
            layer: the number of the layer, from 0; -1 is the last.

        Raises:
            ConfigError, UserError: another kind, or no such layer; or as for :func:`.picture`.
        """
        check_choice("kind", kind, _KINDS)
        title, row_name, column_name = _KINDS[kind]
        rows = self.source if kind == "encoder" else self.written
        columns = self.target if kind == "decoder" else self.source
        layers: NDArray[np.float32] = getattr(self, kind)
        check(-len(layers) <= layer < len(layers), "layer", layer, f"from 0 to {len(layers) - 1}")
        panels = {f"head {number}": head for number, head in enumerate(layers[layer], start=1)}
        if len(panels) > 1:
            panels["mean of the heads"] = layers[layer].mean(axis=0)
        # All in one row, or in a square; a token has the same place in all panels.
        width = len(panels) if len(panels) <= _MAX_IN_A_ROW else math.ceil(len(panels) ** 0.5)
        height = math.ceil(len(panels) / width)
        cell = min(_CELL_INCHES, _MAX_PANEL_INCHES / max(len(rows), len(columns)))
        with picture(path) as figure:
            figure.suptitle(f"{title}, layer {layer % len(layers) + 1} of {len(layers)}")
            margin = 1.5 + 0.07 * max(map(len, (*rows, *columns)))  # for the tokens
            figure.set_size_inches(
                width * (max(1.2, cell * len(columns)) + 0.3) + margin + 0.5,
                height * (max(1.2, cell * len(rows)) + 0.5) + margin,
            )
            grid = figure.subplots(height, width, sharex=True, sharey=True, squeeze=False)
            style = {"cmap": "Blues", "vmin": 0.0, "vmax": 1.0, "fontsize": min(9.0, 50 * cell)}
            shown, unused = grid.flat[: len(panels)], grid.flat[len(panels) :]
            for axes in shown[-width:]:
                axes.tick_params(labelbottom=True)
            for axes, (name, weights) in zip(shown, panels.items(), strict=True):
                image = draw_matrix(axes, weights, rows, columns, **style)
                axes.set_title(name)
            for axes in unused:
                axes.remove()
            for axes in grid[:, 0]:
                axes.set_ylabel(row_name)
            figure.supxlabel(column_name)
            figure.colorbar(image, ax=shown, label="attention weight", aspect=20 * height)


def attention(
    model: SequenceToSequence,
    source: Sequence[int],
    target: Sequence[int],
    vocabularies: tuple[Vocabulary, Vocabulary],
    device: torch.device,
) -> Attention:
    """Returns the attention between the ids of a source and its output, without special tokens."""
    src = source_tensor([source])
    tgt = pad_sequence([[BOS_ID, *target]])
    weights = attention_weights(model, src.to(device), tgt.to(device))
    encoder, decoder, cross = (layers[:, 0].float().cpu().numpy() for layers in weights)
    source_labels, target_labels = (
        [vocabulary.itos[i] for i in ids.flatten().tolist()]
        for vocabulary, ids in zip(vocabularies, (src, tgt), strict=True)
    )
    return Attention(source_labels, target_labels, encoder, decoder, cross)
