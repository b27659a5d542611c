"""The attention of a model between a source and its output, labeled with tokens, for plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        weights: NDArray[np.float32] = getattr(self, kind)
        count = len(weights)
        check(-count <= layer < count, "layer", layer, f"from 0 to {count - 1}")
        rows = self.source if kind == "encoder" else self.written
        columns = self.target if kind == "decoder" else self.source
        heads = weights[layer]
        panels = {f"head {number}": head for number, head in enumerate(heads, start=1)}
        if len(heads) > 1:
            panels["mean of the heads"] = heads.mean(axis=0)
        with picture(path) as figure:
            title, *axis_names = _KINDS[kind]
            figure.suptitle(f"{title}, layer {layer % count + 1} of {count}")
            _draw_heads(figure, panels, rows, columns, axis_names)


def _draw_heads(
    figure: Figure,
    panels: Mapping[str, NDArray[np.float32]],
    rows: Sequence[str],
    columns: Sequence[str],
    axis_names: Sequence[str],
) -> None:
    """Draws the weights ``[T, S]`` of each panel, with its title."""
    width = len(panels) if len(panels) <= _MAX_IN_A_ROW else math.ceil(math.sqrt(len(panels)))
    height = math.ceil(len(panels) / width)
    cell = min(_CELL_INCHES, _MAX_PANEL_INCHES / max(len(rows), len(columns)))
    font_size = min(9.0, 72 * cell * 0.7)
    # Room for the tokens, whose letters are about 0.6 of the font size wide.
    margin = 0.5 + 0.6 * max(map(len, (*rows, *columns))) * font_size / 72
    panel = max(1.2, cell * len(columns)) + 0.3, max(1.2, cell * len(rows)) + 0.5
    figure.set_size_inches(panel[0] * width + margin + 1.0, panel[1] * height + margin + 0.5)
    grid = figure.subplots(height, width, squeeze=False).flatten().tolist()
    options: dict[str, Any] = {"font_size": font_size, "cmap": "Blues", "vmin": 0.0, "vmax": 1.0}
    for number, (axes, title) in enumerate(zip(grid, panels, strict=False)):
        image = draw_matrix(axes, panels[title], rows, columns, **options)
        axes.set(title=title, xlabel=axis_names[1], ylabel=axis_names[0])
        # Labels are slow to draw: only the outer panels have them.
        if number % width:
            axes.tick_params(labelleft=False)
            axes.set_ylabel("")
        if number + width < len(panels):
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
    for axes in grid[len(panels) :]:
        axes.remove()
    figure.colorbar(image, ax=grid[: len(panels)], label="attention weight", aspect=20 * height)


def attention(
    model: SequenceToSequence,
    source: Sequence[int],
    target: Sequence[int],
    vocabularies: tuple[Vocabulary, Vocabulary],
    device: torch.device,
) -> Attention:
    """Returns the attention of ``model`` between the ids of a source and those of its output.

    Args:
        source, target: without special tokens.
        vocabularies: of source and target.
    """
    src = source_tensor([source])
    tgt = pad_sequence([[BOS_ID, *target]])
    weights = attention_weights(model, src.to(device), tgt.to(device))
    encoder, decoder, cross = (layers[:, 0].float().cpu().numpy() for layers in weights)
    source_labels, target_labels = (
        [vocabulary.itos[i] for i in ids.flatten().tolist()]
        for vocabulary, ids in zip(vocabularies, (src, tgt), strict=True)
    )
    return Attention(source_labels, target_labels, encoder, decoder, cross)
