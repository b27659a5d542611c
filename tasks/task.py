"""What a task is: its configurations, its training, its predictor and its evaluation.

A task imports the modules of its package when they are used: help and configurations need no torch.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from core.config import check_choice, override

if TYPE_CHECKING:
    from tasks.predictor import Predictor
    from tasks.runs.checkpoint_folder import Folders
    from tasks.runs.training import RunOptions


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """What was measured on one split of a corpus."""

    split: str

    @property
    @abstractmethod
    def headline(self) -> str:
        """The most important figure."""

    @abstractmethod
    def table(self) -> str:
        """Returns the report as text for people."""

    def row(self) -> dict[str, str]:
        """Returns the figures, by name, that a table of several corpora shows."""
        return {"result": self.headline}

    def notes(self) -> list[str]:
        """Returns lines that stand below such a table."""
        return []

    def record(self) -> dict[str, Any]:
        """Returns the report as plain values for JSON; what is None is left out."""
        figures = {name: value for name, value in asdict(self).items() if value is not None}
        return figures | {"headline": self.headline}


@dataclass(frozen=True, kw_only=True)
class Task:
    """An application of the Transformer.

    Attributes:
        name: of the package, and on the command line.
        corpus: the name of its corpus in the catalog, where no other is given.
        dataset: the name of the class of its corpora in the module ``dataset``.
        predictor: the name of its class in the module ``predict``.
        load_options: those that the ``load`` of its predictor alone has.
        table_options: the settings of its data that commands have as options (``--text``).
        has_search: whether it searches for its results.
    """

    name: str
    corpus: str
    dataset: str
    predictor: str
    load_options: tuple[str, ...] = ()
    table_options: tuple[str, ...] = ()
    has_search: bool = True

    @property
    def presets(self) -> Mapping[str, Callable[[], Any]]:
        """Functions that return its configurations, by name."""
        return self._module("config").PRESETS

    @property
    def config_class(self) -> type[Any]:
        """The class of its configurations."""
        return type(self.presets["default"]())

    def train(self, config: Any, options: RunOptions) -> dict[str, Any]:
        """Trains a model and returns the content of ``metrics.json`` (:mod:`tasks.runs.run`)."""
        return self._module("train").train(config, options)

    def load(
        self, folder: Folders = None, *, device: str = "auto", **options: Any
    ) -> Predictor[Any]:
        """Returns the predictor with the model in ``folder``, or the shipped one (None)."""
        predictor = getattr(self._module("predict"), self.predictor)
        return predictor.load(folder, device=device, **options)

    def evaluate(
        self,
        folder: Folders,
        data: Path,
        *,
        split: str | None = None,
        device: str = "auto",
        assignments: Sequence[str] = (),
        **options: Any,
    ) -> Report:
        """Measures a model on a split of a corpus (:meth:`open_split`).

        ``options`` are those of :meth:`load`, and how to predict.
        """
        how_to_load = {name: options.pop(name) for name in self.load_options if name in options}
        opened = self.open_split(folder, data, split, assignments, device=device, **how_to_load)
        return self._module("evaluate").evaluate(*opened, **options)

    def open_split(
        self,
        folder: Folders,
        data: Path,
        split: str | None,
        assignments: Sequence[str] = (),
        **options: Any,
    ) -> tuple[Any, Any, str]:
        """Returns a predictor, a corpus with its codecs, and the name of a split.

        Args:
            folder, options: what :meth:`load` takes.
            split: None for the test split; for a table that the model was not trained on, all rows.
            assignments: changes of the model's configuration for the corpus: ``data.src=de``.
        """
        predictor = self.load(folder, **options)
        config = override(predictor.config, assignments)
        kind = getattr(self._module("dataset"), self.dataset)
        dataset = kind(data, config.data, seed=config.train.seed, **predictor.codecs)
        if split is None:
            from tasks.runs.checkpoint_folder import model_folders, read_metrics

            metrics = read_metrics(model_folders(self.name, folder)[0])
            split = str(dataset.splits.split_to_measure(metrics))
        dataset.splits.check_split(split)
        return predictor, dataset, split

    def _module(self, name: str) -> ModuleType:
        return importlib.import_module(f".{self.name}.{name}", __package__)


_TRANSLATION = Task(
    name="translation",
    corpus="multi30k",
    dataset="ParallelCorpus",
    predictor="Translator",
    load_options=("engine", "int8"),
    table_options=("src", "tgt", "delimiter", "header", "encoding"),
)
_CLASSIFICATION = Task(
    name="classification",
    corpus="ag_news",
    dataset="LoadSentenceClassificationDataset",
    predictor="Classifier",
    table_options=("text", "label", "delimiter", "header", "encoding"),
    has_search=False,
)
_COUPLET = Task(
    name="couplet", corpus="couplet", dataset="LoadCoupletDataset", predictor="CoupletWriter"
)

_BY_NAME = {task.name: task for task in (_TRANSLATION, _CLASSIFICATION, _COUPLET)}
TASKS = tuple(_BY_NAME)
SEARCHING_TASKS = tuple(name for name in TASKS if _BY_NAME[name].has_search)
"""The tasks that search for their results; they score pairs, too."""


def task_named(name: str) -> Task:
    """Returns the task with this name."""
    check_choice("task", name, TASKS)
    return _BY_NAME[name]
