"""The couplet model."""

from __future__ import annotations

from typing import Any

from transformer_suite.core.config import complete
from transformer_suite.core.model.config import TransformerConfig
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence


class CoupletModel(SequenceToSequence):
    """The encoder-decoder of the paper, with one vocabulary and one embedding for both lines.

    Args:
        vocab_size: the size of the vocabulary.
        config: the sizes of the Transformer. They can also be given as keywords:
            ``CoupletModel(3000, d_model=256, nhead=4)``.
        sizes: fields of :class:`TransformerConfig`.

    Raises:
        ConfigError: an unknown or a wrong size.
    """

    def __init__(
        self, vocab_size: int, config: TransformerConfig | None = None, **sizes: Any
    ) -> None:
        config = complete(TransformerConfig, config, sizes)
        super().__init__(vocab_size, vocab_size, config, share_embeddings=True)
