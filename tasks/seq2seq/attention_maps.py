"""The attention of a model between a source and its output, labeled with tokens, for plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.data.batching import pad_sequence
from transformer_suite.data.vocabulary import BOS_ID, EOS, Vocabulary
from transformer_suite.tasks.pictures import picture, warn_about_boxes
from transformer_suite.tasks.seq2seq.batches import source_tensor


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

    def draw(self, path: str | Path, *, layer: int = -1) -> None:
        """Draws the attention of a decoder layer to the source, averaged over its heads.

        There is a row for each token that the decoder writes, and a column for each source token.

        Args:
            path: the picture; its suffix is .png, .svg or .pdf.
            layer: the number of the layer, from 0; -1 is the last.

        Raises:
            ConfigError: another suffix.
            UserError: matplotlib is not installed, or the picture cannot be written.
        """
        with picture(Path(path)) as figure:
            warn_about_boxes([*self.source, *self.written])
            figure.set_size_inches(2 + 0.3 * len(self.source), 1 + 0.3 * len(self.written))
            axes = figure.subplots()
            axes.imshow(self.cross[layer].mean(axis=0), vmin=0)
            labels = {"parse_math": False}  # dollar signs are no formula
            axes.set_xticks(range(len(self.source)), self.source, rotation="vertical", **labels)
            axes.set_yticks(range(len(self.written)), self.written, **labels)


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
    weights = model.attention_weights(src.to(device), tgt.to(device))
    encoder, decoder, cross = (layers[:, 0].float().cpu().numpy() for layers in weights)
    source_labels, target_labels = (
        [vocabulary.itos[i] for i in ids.flatten().tolist()]
        for vocabulary, ids in zip(vocabularies, (src, tgt), strict=True)
    )
    return Attention(source_labels, target_labels, encoder, decoder, cross)
