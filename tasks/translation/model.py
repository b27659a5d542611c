"""The translation model, and the codecs of the two languages, which may be one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.config import complete
from core.model.config import TransformerConfig
from core.model.sequence_to_sequence import SequenceToSequence
from data.codec import TextCodec
from tasks.translation.config import TranslationConfig, TranslationData


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


def build_codecs(
    sources: Sequence[str], targets: Sequence[str], config: TranslationData, folder: Path
) -> tuple[TextCodec, TextCodec]:
    """Builds the codecs of both languages, with one vocabulary for both if so configured."""
    texts = [[*sources, *targets]] if config.share_vocabulary else [sources, targets]
    codecs = [
        TextCodec.build(
            side_texts, folder, config, side=side, tags=() if side == "tgt" else config.tags
        )
        for side_texts, side in zip(texts, _sides(config), strict=True)
    ]
    return codecs[0], codecs[-1]


def load_codecs(folder: Path, config: TranslationData) -> tuple[TextCodec, TextCodec]:
    """Loads the codecs that :func:`build_codecs` saved in ``folder``."""
    name = config.tokenizer
    codecs = [TextCodec.load(folder, tokenizer=name, side=side) for side in _sides(config)]
    return codecs[0], codecs[-1]


def _sides(config: TranslationData) -> tuple[str, ...]:
    """Returns the part of the file names that tells two vocabularies apart; "" for a shared one."""
    return ("",) if config.share_vocabulary else ("src", "tgt")
