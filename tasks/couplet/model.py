"""The couplet model."""

from __future__ import annotations

from transformer_suite.core.model.config import TransformerConfig
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence


class CoupletModel(SequenceToSequence):
    """The paper's encoder-decoder with one vocabulary and one embedding for both lines."""

    def __init__(self, vocab_size: int, config: TransformerConfig) -> None:
        super().__init__(vocab_size, vocab_size, config, share_embeddings=True)
