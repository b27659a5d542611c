"""The translation model."""

from typing import Any

from core.config import complete
from core.model.config import TransformerConfig
from core.model.sequence_to_sequence import SequenceToSequence
from data.codec import TextCodec
from tasks.translation.config import TranslationConfig


class TranslationModel(SequenceToSequence):
    """The encoder-decoder of the paper, between two languages.

    Args:
        src_vocab_size, tgt_vocab_size: the sizes of the vocabularies.
        config: the sizes of the Transformer. They can also be given as keywords:
            ``TranslationModel(6000, 6000, d_model=512, nhead=8)``.
        share_embeddings: both languages have one vocabulary, and one table is source embedding,
            target embedding and output layer (Vaswani et al. 2017, section 3.4).
        sizes: fields of :class:`TransformerConfig`.

    Raises:
        ConfigError: an unknown or a wrong size.
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        config: TransformerConfig | None = None,
        *,
        share_embeddings: bool = True,
        **sizes: Any,
    ) -> None:
        config = complete(TransformerConfig, config, sizes)
        super().__init__(src_vocab_size, tgt_vocab_size, config, share_embeddings=share_embeddings)


def model_for(source: TextCodec, target: TextCodec, config: TranslationConfig) -> TranslationModel:
    """Returns a new model for the vocabularies of these codecs."""
    sizes = len(source.vocabulary), len(target.vocabulary)
    is_shared = config.data.share_vocabulary
    return TranslationModel(*sizes, config.model, share_embeddings=is_shared)
