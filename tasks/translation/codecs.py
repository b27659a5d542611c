"""The codecs of the two languages, which may be one."""

from collections.abc import Sequence
from pathlib import Path

from data.codec import TextCodec
from tasks.translation.config import TranslationData


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
    codecs = [
        TextCodec.load(folder, tokenizer=config.tokenizer, side=side) for side in _sides(config)
    ]
    return codecs[0], codecs[-1]


def _sides(config: TranslationData) -> tuple[str, ...]:
    """Returns the part of the file names that tells two vocabularies apart; "" for a shared one."""
    return ("",) if config.share_vocabulary else ("src", "tgt")
