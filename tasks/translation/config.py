"""The configuration of a translation run, and its presets."""

import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from core.config import check, check_range
from core.decoding.config import GenerationConfig
from core.model.config import TransformerConfig
from core.training.config import MAX_COUNT, TrainConfig
from data.codec import MAX_TOKENS, CodecConfig
from data.tables import TableLayout
from data.tokenizers import SentencePieceBPE
from tasks.runs import config as presets


@dataclass(frozen=True, kw_only=True)
class ExtraCorpus:
    """More training pairs, in a folder of their own.

    Attributes:
        path: a folder with ``train.de`` and ``train.en``, a table or a TMX file; a relative path
            begins at the current folder.
        weight: how often a pair is drawn in an epoch. With 2 every pair is drawn twice, with 0.3 a
            new random 30% of the pairs once.
        tag: a token that is put before the source of these pairs alone, such as ``bt`` for
            synthetic sources (Caswell et al. 2019, "Tagged Back-Translation"); "" for none.
    """

    path: str = ""
    weight: float = 1.0
    tag: str = ""

    def __post_init__(self) -> None:
        check(bool(self.path), "data.extra.path", self.path, "the path of a corpus")
        presets.check_weight("data.extra.weight", self.weight)
        is_tag = re.fullmatch(r"(?!(unk|pad|bos|eos)\Z)[a-z][a-z0-9_-]{0,19}", self.tag)
        allowed = "up to 20 of a-z, 0-9, _ and -, the first a letter, and not a special token"
        check(not self.tag or is_tag is not None, "data.extra.tag", self.tag, allowed)


@dataclass(frozen=True, kw_only=True)
class TranslationData(CodecConfig, TableLayout):
    """The corpus: its languages, and how their text becomes ids.

    Attributes:
        src, tgt: the source and the target language, as in the file names ``train.de`` and
            ``train.en``, the columns of a table, or a TMX file.
        delimiter, header, encoding: see :class:`data.tables.TableLayout`.
        share_vocabulary: use one vocabulary and one embedding table for both languages.
        max_tokens: training pairs with a longer side, or one that is too long for the model, are
            left out and counted; longer texts are translated in segments.
        augment: the share of the training pairs that are changed, in every epoch anew, as people
            write and to learn copying (:mod:`tasks.translation.augmentation`).
        extra: further training pairs. The vocabulary is built from theirs, too.
        val_share: the share of the training pairs that is held out for validation if there are no
            ``val`` files; ``train.seed`` selects the pairs.
        test_share: the same for the test, in tables and TMX files alone. 0: there is no test then.
    """

    RETIRED = MappingProxyType(CodecConfig.RETIRED | {"bpe_dropout_side": None})

    src: str = "de"
    tgt: str = "en"
    vocab_size: int | None = 6000
    share_vocabulary: bool = True
    max_tokens: int = 250
    augment: float = 0.0
    extra: tuple[ExtraCorpus, ...] = ()
    val_share: float = 0.03
    test_share: float = 0.03

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("data.max_tokens", self.max_tokens, 1, MAX_TOKENS)
        self.check_layout()
        for name in ("val_share", "test_share"):
            share = getattr(self, name)
            check(0.0 <= share < 1.0, f"data.{name}", share, "at least 0 and below 1")
        check(self.src != self.tgt, "data.tgt", self.tgt, "another language than data.src")
        check_range("data.augment", self.augment, 0.0, 1.0)
        is_possible = self.tokenizer == SentencePieceBPE.name or not self.tags
        check(is_possible, "data.tokenizer", self.tokenizer, "sentencepiece for a data.extra.tag")

    @property
    def tags(self) -> list[str]:
        """The tags of the extra folders."""
        return sorted({extra.tag for extra in self.extra if extra.tag})


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    """The whole configuration of a translation run."""

    model: TransformerConfig = field(default_factory=TransformerConfig)
    data: TranslationData = field(default_factory=TranslationData)
    train: TrainConfig = field(default_factory=TrainConfig)
    generation: GenerationConfig = field(default_factory=GenerationConfig)

    def __post_init__(self) -> None:
        check_range("train.epochs", self.train.epochs, 1, MAX_COUNT)


def tiny() -> TranslationConfig:
    """Returns a configuration for tests and first steps: seconds on any machine."""
    return TranslationConfig(
        model=presets.TINY_TRANSFORMER,
        data=TranslationData(vocab_size=600, byte_fallback=True),
        train=presets.TINY_TRAIN,
        generation=GenerationConfig(beam_size=1),
    )


def small() -> TranslationConfig:
    """Returns a configuration for a first useful model: five minutes on two CPU cores.

    That holds for the 29,000 pairs of Multi30k. The search is not chosen on the validation data,
    which would take another minute or two.
    """
    return TranslationConfig(
        model=presets.SMALL_TRANSFORMER,
        data=TranslationData(vocab_size=4000, byte_fallback=True, max_tokens=60),
        train=replace(presets.SMALL_TRAINING, choose_search=False),
        generation=GenerationConfig(beam_size=4),
    )


def laptop() -> TranslationConfig:
    """Returns the default: half an hour of one CPU core for the 29,000 pairs of Multi30k."""
    return TranslationConfig(
        model=TransformerConfig(
            d_model=192, nhead=6, dim_feedforward=768, dropout=0.1, positions="rotary"
        ),
        data=TranslationData(byte_fallback=True, max_tokens=80),
        train=replace(presets.SMALL_TRAINING, epochs=10, learning_rate=2e-3, warmup=0.078),
    )


def best() -> TranslationConfig:
    """Returns the settings of the longest run of the shipped model, without its further corpora.

    A run of this length starts from another model (``--init``); from nothing it needs more epochs.
    """
    training = replace(
        laptop().train,
        epochs=4,
        batch_tokens=2000,
        learning_rate=1.2e-3,
        warmup=0.0274,
        weights_on_disk="int8",
    )
    return TranslationConfig(
        model=TransformerConfig(
            num_encoder_layers=6, num_decoder_layers=2, dropout=0.05, positions="rotary"
        ),
        data=TranslationData(vocab_size=12000, byte_fallback=True, max_tokens=100, augment=0.1),
        train=training,
    )


def paper() -> TranslationConfig:
    """Returns the base model of Vaswani et al. (2017), table 3 and section 5, for a GPU."""
    return TranslationConfig(
        model=presets.PAPER_TRANSFORMER,
        data=TranslationData(vocab_size=37000, byte_fallback=True),
        train=presets.PAPER_TRAINING,
        generation=presets.PAPER_GENERATION,
    )


PRESETS = {"tiny": tiny, "small": small, "default": laptop, "best": best, "paper": paper}
