"""The translation model."""

from __future__ import annotations

from transformer_suite.core.model.config import TransformerConfig
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence


class TranslationModel(SequenceToSequence):
    """The paper's encoder-decoder between two languages.

    With ``share_embeddings`` both languages use one vocabulary, and one table serves as source
    embedding, target embedding and output layer (Vaswani et al. 2017, section 3.4).
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        config: TransformerConfig,
        *,
        share_embeddings: bool = True,
    ) -> None:
        super().__init__(src_vocab_size, tgt_vocab_size, config, share_embeddings=share_embeddings)
