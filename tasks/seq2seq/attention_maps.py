"""Who attends to whom in a sentence and its output, with the words' names: for pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from transformer_suite.core.errors import ConfigError
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.data.batching import pad_sequence
from transformer_suite.data.vocabulary import BOS_ID, EOS, Vocabulary
from transformer_suite.tasks.seq2seq.pairs import source_tensor


@dataclass(frozen=True)
class Attention:
    """The attention of every layer and head, for one sentence; every row of weights sums to 1.

    import matplotlib.pyplot as plt
    plt.imshow(attention.cross[-1].mean(axis=0))  # the last layer, the mean of its heads
    plt.xticks(range(len(attention.source)), attention.source)
    plt.yticks(range(len(attention.written)), attention.written)
    """

    source: list[str]
    """The S source tokens, ``<eos>`` at the end."""
    target: list[str]
    """The T tokens that the decoder reads, from ``<bos>`` on."""
    encoder: NDArray[np.float32]
    """``[L, H, S, S]``: the source among itself."""
    decoder: NDArray[np.float32]
    """``[L, H, T, T]``: the target among itself."""
    cross: NDArray[np.float32]
    """``[L, H, T, S]``: of the target over the source."""

    @property
    def written(self) -> list[str]:
        """The T tokens that the decoder writes, reading ``target``: each is one further on.

        The last, ``<eos>``, is there even where an output ended because it could grow no longer.
        """
        return [*self.target[1:], EOS]


def attention(
    models: Sequence[SequenceToSequence],
    source: Sequence[int],
    target: Sequence[int],
    vocabularies: tuple[Vocabulary, Vocabulary],
    device: torch.device,
) -> Attention:
    """What the model attends to between the ids of a source and those of its output.

    Args:
        source, target: without special tokens.
        vocabularies: of source and target.

    Raises:
        ConfigError: the model is an ensemble, of which each has its own attention.
    """
    if len(models) != 1:
        raise ConfigError("attention is one model's own: load the ensemble's models one by one")
    src = source_tensor([source])
    tgt = pad_sequence([[BOS_ID, *target]])
    weights = models[0].attention_weights(src.to(device), tgt.to(device))
    encoder, decoder, cross = (layers[:, 0].float().cpu().numpy() for layers in weights)
    words = [
        [vocabulary.itos[i] for i in ids.flatten().tolist()]
        for vocabulary, ids in zip(vocabularies, (src, tgt), strict=True)
    ]
    return Attention(words[0], words[1], encoder, decoder, cross)
