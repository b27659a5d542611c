"""What a task brings to a run: its model, its data, its loss and its measurements."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from core.decoding.config import GenerationConfig
from core.distributed.process_group import ALONE, ProcessGroup
from core.errors import ConfigError
from core.training.fit import FitOptions, TrainingData
from core.training.gradient import LossFunction
from core.training.state import Metrics
from tasks.runs.dataset import Dataset
from tasks.runs.initial import TokenWeights
from tasks.task import Report


@dataclass(frozen=True, kw_only=True)
class RunOptions(FitOptions):
    """What a run reads and writes, and how it begins; ``out`` becomes a checkpoint folder.

    Attributes:
        data: the corpus.
        init: the folder of a model to start from: its weights and its vocabulary. The configuration
            must have the same languages, the same options of the vocabulary, and the same model
            section, where only ``dropout``, ``ngram_dropout``, ``max_len`` and ``aligned`` may
            differ. A classifier for other classes gets a new last layer. Such a run is resumed
            without ``init``.
        new_vocabulary: with ``init``: build a vocabulary from the corpus. Tokens that the initial
            model does not know start from the vectors of its tokens that form them
            (:mod:`tasks.runs.initial`).

    Raises:
        ConfigError: ``resume`` and ``init``.
    """

    data: Path
    init: Path | None = None
    new_vocabulary: bool = False

    def __post_init__(self) -> None:
        if self.resume and self.init is not None:
            raise ConfigError("a run that is resumed has its weights already: leave out init")


@dataclass(frozen=True)
class SearchChoice:
    """The best of several searches, and the metric of the run with it and with greedy search."""

    generation: GenerationConfig
    value: float
    greedy: float


class Training(ABC):
    """The base class of every task's training. Its constructor reads the corpus.

    Args:
        vocabulary: the folder to load it from, of the run or of the initial model; None: build it.

    Attributes:
        config: that of the run, in which the constructor may fill in what follows from the corpus.
        task: the name of the task.
        dataset_class: that of its corpora.
        metric: the name of the figure by which epochs are compared.
        chooses_search: whether :meth:`choose_search` can be called.
        test_split: the split that is measured at the end; None: the corpus has none.
        files: those of the corpus that the run reads; a resumed run must find them unchanged.
    """

    task: ClassVar[str]
    dataset_class: ClassVar[Callable[..., Dataset[Any]]]
    metric: str
    model: nn.Module
    data: TrainingData
    loss: LossFunction
    files: Sequence[Path] = ()
    chooses_search: bool = False

    def __init__(self, config: Any, options: RunOptions, vocabulary: Path | None) -> None:
        self.config, self.options, self.vocabulary = config, options, vocabulary
        codecs = {} if vocabulary is None else self.load_codecs(vocabulary)
        self.dataset = dataset = self.dataset_class(
            options.data, config.data, seed=config.train.seed, save_to=options.out, **codecs
        )
        self.model = self.make_model().to(options.device)
        self.test_split = dataset.splits.test_split()
        if self.test_split is not None:
            dataset.read(self.test_split)  # an error in it is raised now, not after the training
        self.files = dataset.files("train", "val", *filter(None, [self.test_split]))
        self.data = dataset.training_data(
            batch_tokens=config.train.batch_tokens,
            seed=config.train.seed,
            max_len=config.model.max_len,
        )

    @abstractmethod
    def load_codecs(self, folder: Path) -> dict[str, Any]:
        """Returns the codecs in a checkpoint folder, as arguments of ``dataset_class``."""

    @abstractmethod
    def make_model(self) -> nn.Module:
        """Returns a new model for the vocabulary of the corpus."""

    @abstractmethod
    def validate(self, group: ProcessGroup = ALONE) -> Metrics:
        """Returns the metrics of the model on the validation data, ``metric`` among them.

        The processes of ``group`` call it together; each may measure a shard.
        """

    @abstractmethod
    def evaluate(self, config: Any) -> Report | None:
        """Returns the report on the test split, with the final configuration; None without one.

        It is called once, at the end of the run.
        """

    def choose_search(self) -> SearchChoice:
        """Returns the search that suits the current weights."""
        raise NotImplementedError

    def calibrate(self, config: Any) -> Any:
        """Returns the final configuration, with what is fitted on the validation data.

        It is called once, when the weights are final, before :meth:`evaluate`.
        """
        return config

    def new_weights(self) -> Sequence[str]:
        """Returns the names of the weights that a run does not take from its initial model.

        They belong to what that model does not know, such as other classes.
        """
        return ()

    def token_weights(self, initial: Path) -> TokenWeights:
        """Returns the weights with a row per token, and the codecs of ``initial`` and this run."""
        raise ConfigError(f"a model for {self.task} cannot change its vocabulary")
