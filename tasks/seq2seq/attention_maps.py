"""The attention of a model between a source and its output, labeled with tokens, for plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.data.batching import pad_sequence
from transformer_suite.data.vocabulary import BOS_ID, EOS, Vocabulary
from transformer_suite.tasks.seq2seq.batches import source_tensor


@dataclass(frozen=True)
class Attention:
    """The attention weights of every layer and head for one segment; each row sums to 1.

    import matplotlib.pyplot as plt
    plt.imshow(attention.cross[-1].mean(axis=0))  # the last layer, averaged over its heads
    plt.xticks(range(len(attention.source)), attention.source)
    plt.yticks(range(len(attention.written)), attention.written)
    """

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
