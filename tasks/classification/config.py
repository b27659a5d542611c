"""The configuration of a classification run, and its presets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from core.config import check, check_choice, check_range
from core.errors import ConfigError, shown
from core.model.config import EncoderConfig
from core.training.config import MAX_COUNT, TrainConfig
from data.codec import CodecConfig
from data.tables import TableLayout
from tasks.runs.config import PAPER_TRAINING

CONCAT_TYPES = ("sum", "avg", "last")
MIN_CHARACTERS = 3
"""The shortest n-gram of characters."""
MAX_NGRAM = 8
MAX_NGRAM_WEIGHTS = 1 << 28
TEXT_COLUMNS = ("title", "description")
BALANCED = "balanced"
MAX_CLASS_WEIGHT = 1e6
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(EncoderConfig):
    """The encoder, how its states are pooled, and a linear model over n-grams beside it.

    Attributes:
        concat_type: the sum of the states, their mean ("avg"), or the last one.
        ngrams: n-grams of up to this many tokens are hashed and scored; the scores of a class are a
            weighted mean of theirs and the encoder's (:mod:`tasks.classification.ngrams`). 0: none.
        char_ngrams: the same for n-grams of 3 to this many characters. 0: none.
        ngram_weights: the number of weights of all n-grams; if it is low, many n-grams share one.
        ngram_dropout: the probability that an n-gram is left out in training.
    """

    concat_type: str = "avg"
    ngrams: int = 0
    char_ngrams: int = 0
    ngram_weights: int = 1 << 22
    ngram_dropout: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("model.concat_type", self.concat_type, CONCAT_TYPES)
        check_range("model.ngrams", self.ngrams, 0, MAX_NGRAM)
        order = self.char_ngrams
        is_right = order == 0 or MIN_CHARACTERS <= order <= MAX_NGRAM
        range_ = f"0, or from {MIN_CHARACTERS} to {MAX_NGRAM}"
        check(is_right, "model.char_ngrams", order, range_)
        check_range("model.ngram_weights", self.ngram_weights, 1, MAX_NGRAM_WEIGHTS)
        dropout = self.ngram_dropout
        check(0.0 <= dropout < 1.0, "model.ngram_dropout", dropout, "at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class ClassificationData(CodecConfig, TableLayout):
    """The corpus: which text is read, and how it becomes ids.

    Attributes:
        text: the columns of a table with the text, joined by a space. Empty: the corpus is in
            AG_News' layout, or a folder of texts for every label.
        label: the column of a table with the label.
        delimiter, header, encoding: see :class:`data.tables.TableLayout`.
        columns: the columns of AG_News that are read, joined by a space.
        clean: HTML tags, entities and backslashes are removed from texts (:mod:`.cleaning`). None:
            from those of a folder in AG_News' layout; the run stores which. A model of version 1.0,
            which stores none, removes them.
        lowercase: texts are read in lower case.
        token_dropout: how probably a token becomes ``<unk>`` in training (Iyyer et al. 2015).
        max_sen_len: the length of training batches. None: the longest text of the batch. "same":
            the longest training text, for every batch. A number: that many tokens; longer training
            texts are cut and counted, while evaluation and prediction split them into segments.
        val_share: the share of the training rows that is held out for validation if there is no
            validation file; ``train.seed`` selects the rows. None: 0.03, or what gives 100 rows and
            ten of each class on average, if that is more, but at most 0.2.
        test_share: the share of a table to hold out for the test if there is no test table.
        fit_ngrams: up to this number of training rows, the n-grams are fitted as a logistic
            regression before the training (:mod:`.linear`), and only the encoder is trained. With
            more rows, or from an initial model, both are trained.
        class_weight: the weights of the classes in the training loss: ``balanced`` for weights
            inversely proportional to the numbers of rows, or ``LABEL=WEIGHT`` for each class whose
            weight is not 1 (:mod:`.decision`).
    """

    RETIRED = MappingProxyType(
        CodecConfig.RETIRED
        | dict.fromkeys(("ppmi_window", "pretraining_epochs", "soft_labels", "soft_label_weight"))
    )
    """See :func:`core.config.without_retired`."""

    text: tuple[str, ...] = ()
    label: str = "label"
    columns: tuple[str, ...] = TEXT_COLUMNS
    clean: bool | None = None
    lowercase: bool = False
    vocab_size: int | None = 16000
    token_dropout: float = 0.0
    max_sen_len: int | str | None = None
    val_share: float | None = None
    test_share: float = 0.1
    fit_ngrams: int = 10_000
    class_weight: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_table()
        is_right = 0 < len(self.columns) == len(set(self.columns))
        check(is_right, "data.columns", list(self.columns), "one column or more, each once")
        for column in self.columns:
            check_choice("data.columns", column, TEXT_COLUMNS)
        check_range("data.fit_ngrams", self.fit_ngrams, 0, MAX_COUNT)
        for name in ("token_dropout", "val_share", "test_share"):
            value = getattr(self, name) or 0.0
            check(0.0 <= value < 1.0, f"data.{name}", value, "at least 0 and below 1")
        length = self.max_sen_len
        is_right = length in (None, "same") or (isinstance(length, int) and length >= 1)
        check(is_right, "data.max_sen_len", length, "none, 'same', or a whole number from 1")

    def _check_table(self) -> None:
        is_right = all(self.text) and len(set(self.text)) == len(self.text)
        check(is_right, "data.text", list(self.text), "names of columns, each once")
        is_right = bool(self.label) and self.label not in self.text
        check(is_right, "data.label", self.label, "the name of a column that is not in data.text")
        self.check_layout()
        if self.class_weight != (BALANCED,):
            named_numbers("data.class_weight", self.class_weight, MAX_CLASS_WEIGHT)


def named_numbers(option: str, items: Sequence[str], most: float) -> dict[str, float]:
    """Returns the numbers by name in items such as ``spam=0.8``, or raises a ConfigError."""
    numbers: dict[str, float] = {}
    for item in items:
        name, equals, text = item.rpartition("=")
        name = name.strip()
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        is_right = bool(equals and name) and 0.0 < number <= most
        check(is_right, option, item, f"LABEL=NUMBER, above 0 and at most {most:g}")
        if name in numbers:
            raise ConfigError(f"has {shown(name)} twice", option=option)
        numbers[name] = number
    return numbers


@dataclass(frozen=True, kw_only=True)
class PredictionConfig:
    """How the scores of a trained model become probabilities.

    Attributes:
        temperature: the scores are divided by it. A run replaces it, at its end, by the one that
            suits the validation data (:mod:`.decision`).
        ngram_weight: the weight of the n-grams in the scores, from 0 to 1; that of the encoder is
            the rest. A run with fitted n-grams chooses it on the validation data.
        thresholds: ``LABEL=PROBABILITY``: this class is chosen exactly when its probability is at
            least that (:mod:`.decision`).
    """

    temperature: float = 1.0
    ngram_weight: float = 0.5
    thresholds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named_numbers("prediction.thresholds", self.thresholds, 1.0)
        name = "prediction.temperature"
        check_range(name, self.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE)
        check_range("prediction.ngram_weight", self.ngram_weight, 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig:
    """Everything that decides a classification run."""

    model: ClassifierConfig = field(default_factory=ClassifierConfig)
    data: ClassificationData = field(default_factory=ClassificationData)
    train: TrainConfig = field(default_factory=TrainConfig)
    prediction: PredictionConfig = field(default_factory=PredictionConfig)


def tiny() -> ClassificationConfig:
    """Trains in seconds on any machine: for tests and first steps."""
    return ClassificationConfig(
        model=ClassifierConfig(d_model=32, nhead=4, num_encoder_layers=1, dim_feedforward=64),
        data=ClassificationData(vocab_size=300, val_share=0.1),
        train=TrainConfig(epochs=2, batch_tokens=1000, warmup_steps=20, average=0),
    )


def small() -> ClassificationConfig:
    """Returns the settings of a first useful model: five minutes on two CPU cores with AG_News."""
    return ClassificationConfig(
        model=ClassifierConfig(
            d_model=128,
            nhead=4,
            num_encoder_layers=1,
            dim_feedforward=256,
            dropout=0.2,
            ngrams=3,
            char_ngrams=5,
            ngram_dropout=0.1,
        ),
        data=ClassificationData(lowercase=True, token_dropout=0.2),
        train=TrainConfig(
            epochs=0,
            batch_tokens=6000,
            learning_rate=2e-3,
            schedule="cosine",
            warmup=0.1,
            weight_decay=0.05,
            average=0,
        ),
    )


def best() -> ClassificationConfig:
    """Returns the settings of the shipped model, which version 1.0 also pretrained on its texts."""
    start = small()
    return replace(
        start,
        data=replace(start.data, val_share=0.05),
        train=replace(start.train, epochs=3, warmup_steps=200, weights_on_disk="fp16"),
    )


def paper() -> ClassificationConfig:
    """The encoder of the base model of Vaswani et al. (2017), table 3, for a GPU."""
    return ClassificationConfig(
        model=ClassifierConfig(
            d_model=512,
            nhead=8,
            num_encoder_layers=6,
            dim_feedforward=2048,
            dropout=0.1,
            norm_first=False,
        ),
        data=ClassificationData(vocab_size=37000),
        train=replace(PAPER_TRAINING, epochs=10),
    )


PRESETS = {"tiny": tiny, "small": small, "default": small, "best": best, "paper": paper}
