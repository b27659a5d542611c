"""The configuration of a couplet run, and its presets."""

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, get_args

from core.config import check, check_choice, check_range, complete, to_mapping
from core.decoding.config import GenerationConfig
from core.model.config import TransformerConfig
from core.training.config import MAX_COUNT, TrainConfig
from tasks.couplet.tones import SYSTEMS
from tasks.runs import config as presets

MAX_POOL = 200

ToneRules = Literal["off", "ending", "strict"]
TONES = get_args(ToneRules)


@dataclass(frozen=True, kw_only=True)
class CoupletTransformerConfig(TransformerConfig):
    """The sizes of the Transformer, whether its decoder is aligned, and its output layer.

    Attributes:
        aligned: the decoder reads, beside its own last character, the character of the first line
            that it answers next (:mod:`tasks.couplet.model`).
        tie_output: the embedding table is the weight of the output layer too, as in the paper
            (section 3.4). Without it, the model is larger and learns faster.
    """

    aligned: bool = False
    tie_output: bool = True


@dataclass(frozen=True, kw_only=True)
class CoupletData:
    """The corpus. Both lines share one vocabulary of characters.

    Attributes:
        extra: more training folders beside ``train``.
        extra_weights: how often a couplet of each of them is drawn in an epoch: 2 draws all of them
            twice, 0.3 a new random 30% once. Without it, 1 for each.
        exchanged: the share of what an epoch draws of each folder that it reads with exchanged
            lines besides, drawn anew. Above 0, the model answers second lines with first ones.
        min_freq: characters that occur less often than this become ``<unk>``.
        val_share: the share of the training couplets that is held out for validation if there is
            no ``val`` folder; ``train.seed`` selects them.
    """

    RETIRED = MappingProxyType({"swapped": (False,)})

    extra: tuple[str, ...] = ()
    extra_weights: tuple[float, ...] = ()
    exchanged: float = 0.0
    min_freq: int = 1
    val_share: float = 0.01

    def __post_init__(self) -> None:
        count, weights = len(self.extra), self.extra_weights
        one_each = f"{count} numbers, one for each of data.extra"
        check(len(weights) in (0, count), "data.extra_weights", list(weights), one_each)
        for weight in weights:
            presets.check_weight("data.extra_weights", weight)
        check(0.0 <= self.exchanged <= 1.0, "data.exchanged", self.exchanged, "from 0 to 1")
        check(self.min_freq >= 1, "data.min_freq", self.min_freq, "at least 1")
        share = self.val_share
        check(0.0 <= share < 1.0, "data.val_share", share, "at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class FormConfig:
    """Which tones an answer must have (:mod:`tasks.couplet.rules`).

    Attributes:
        tones: ``ending`` opposes the last words of the lines; ``strict`` also the words at places
            2, 4 and 6 of each clause, wherever the vocabulary can; ``off`` neither.
        rhyme: where tones are looked up: ``modern`` readings, or ``pingshui``, the classical table.
    """

    tones: str = "ending"
    rhyme: str = "modern"

    def __post_init__(self) -> None:
        check_choice("form.tones", self.tones, TONES)
        check_choice("form.rhyme", self.rhyme, SYSTEMS)


@dataclass(frozen=True, kw_only=True)
class RerankConfig:
    """How candidates are drawn and ranked (:mod:`tasks.couplet.reranking`).

    Attributes:
        is_default: rank candidates for every answer, unless a search is asked for; else only where
            candidates are asked for.
        pool: the number of candidates that are drawn for each answer.
        temperature: of their sampling.
        beam: as many are added by a beam search of this size.
        backward: the weight of the first line's probability given the answer; the forward one is 1.
        rarity: the weight of how rare the characters are.
        poor: where the best score is below this one, a note says so; None: nowhere.
    """

    RETIRED = MappingProxyType(dict.fromkeys(("parts_of_speech", "hard", "fluency")))

    is_default: bool = False
    pool: int = 32
    temperature: float = 0.6
    beam: int = 12
    backward: float = 0.3
    rarity: float = 0.1
    poor: float | None = None

    def __post_init__(self) -> None:
        check_range("rerank.pool", self.pool, 1, MAX_POOL)
        check_range("rerank.beam", self.beam, 1, MAX_POOL)
        check(self.temperature > 0.0, "rerank.temperature", self.temperature, "above 0")


@dataclass(frozen=True, kw_only=True)
class CoupletConfig:
    """The whole configuration of a couplet run. The lengths in ``generation`` have no effect."""

    model: CoupletTransformerConfig = field(default_factory=CoupletTransformerConfig)
    data: CoupletData = field(default_factory=CoupletData)
    train: TrainConfig = field(default_factory=TrainConfig)
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    rerank: RerankConfig = field(default_factory=RerankConfig)
    form: FormConfig = field(default_factory=FormConfig)

    def __post_init__(self) -> None:
        check_range("train.epochs", self.train.epochs, 1, MAX_COUNT)
        size = self.generation.no_repeat_ngram
        allowed = "0: an answer repeats characters where its first line does"
        check(size == 0, "generation.no_repeat_ngram", size, allowed)


STRICT = FormConfig(tones="strict")


def _sizes(model: TransformerConfig, **others: float) -> CoupletTransformerConfig:
    """Returns the sizes of ``model`` and others, with an aligned decoder unless they refuse it."""
    options = to_mapping(model) | {"aligned": True} | others
    return complete(CoupletTransformerConfig, None, options)


def tiny() -> CoupletConfig:
    """Returns a configuration for tests and first steps: seconds on any machine."""
    return CoupletConfig(
        form=STRICT,
        model=_sizes(presets.TINY_TRANSFORMER, max_len=64),
        train=presets.TINY_TRAIN,
        generation=GenerationConfig(beam_size=1),
    )


def small() -> CoupletConfig:
    """Returns the settings of a first useful model: 5 minutes, two CPU cores, 70,000 couplets."""
    return CoupletConfig(
        form=STRICT,
        model=_sizes(presets.SMALL_TRANSFORMER, dim_feedforward=256, max_len=128, tie_output=False),
        data=CoupletData(min_freq=3),
        train=replace(presets.SMALL_TRAINING, epochs=2, warmup=0.2, label_smoothing=0.0),
    )


def laptop() -> CoupletConfig:
    """Returns the default: 45 minutes of one core in bf16 for a third of a million couplets."""
    return CoupletConfig(
        form=STRICT,
        model=_sizes(presets.SMALL_TRANSFORMER, d_model=256, dropout=0.1, max_len=128),
        data=CoupletData(min_freq=3),
        train=TrainConfig(
            epochs=3,
            batch_tokens=4000,
            schedule="cosine",
            warmup=0.2,
            label_smoothing=0.0,
            average=3,
        ),
    )


def best() -> CoupletConfig:
    """Returns the settings of the shipped model, without its further couplets.

    That model did not begin at random: its layers were trained before. It is the mean of several
    runs, and the last of them read judged answers, too.
    """
    start = laptop()
    model = replace(
        start.model,
        num_encoder_layers=4,
        num_decoder_layers=4,
        dim_feedforward=1024,
        dropout=0.2,
        tie_output=False,
    )
    training = replace(
        start.train,
        seed=5,
        epochs=15,
        batch_tokens=8000,
        learning_rate=1.2e-3,
        warmup=0.028,
        average=0,
        weights_on_disk="int8",
    )
    data = replace(start.data, exchanged=0.2)
    rerank = RerankConfig(is_default=True)
    return replace(start, model=model, data=data, train=training, rerank=rerank)


def paper() -> CoupletConfig:
    """Returns the base model of Vaswani et al. (2017), table 3 and section 5, for a GPU."""
    model = _sizes(presets.PAPER_TRANSFORMER, aligned=False)
    return CoupletConfig(
        form=STRICT, model=model, train=presets.PAPER_TRAINING, generation=presets.PAPER_GENERATION
    )


PRESETS = {"tiny": tiny, "small": small, "default": laptop, "best": best, "paper": paper}
