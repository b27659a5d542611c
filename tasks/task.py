"""What a task is: a class with its configurations, its training, its predictor and its evaluation.

Each task package has one, in its module ``task``. It imports the other modules of the package when
they are used: help and configurations need no torch.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from core.config import check_choice

if TYPE_CHECKING:
    from tasks.predictor import Predictor
    from tasks.runs.checkpoint_folder import Folders
    from tasks.runs.run import RunOptions

TASKS = ("translation", "classification", "couplet")
PAIR_TASKS = ("translation", "couplet")
"""The tasks whose predictors score pairs."""


def task_named(name: str) -> Task:
    """Returns the task with this name."""
    check_choice("task", name, TASKS)
    task: Task = importlib.import_module(f".{name}.task", __package__).TASK
    return task


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


class Task:
    """An application of the Transformer: the base class of all tasks.

    Attributes:
        name: of the package, and on the command line.
        corpus: the name of its corpus in the catalog, where no other is given.
        presets: functions that return its configurations, by name.
        predictor: the name of its class in the module ``predict``.
        table_options: the settings of its data that commands have as options (``--text``).
        has_search: whether it searches for its results.
    """

    name: ClassVar[str]
    corpus: ClassVar[str]
    presets: ClassVar[Mapping[str, Callable[[], Any]]]
    predictor: ClassVar[str]
    table_options: ClassVar[tuple[str, ...]] = ()
    has_search: ClassVar[bool] = True

    @property
    def config_class(self) -> type[Any]:
        """The class of its configurations."""
        return type(self.presets["default"]())

    def train(self, config: Any, options: RunOptions) -> dict[str, Any]:
        """Trains a model and returns the content of ``metrics.json`` (:mod:`tasks.runs.run`)."""
        metrics: dict[str, Any] = self._module("train").train(config, options)
        return metrics

    def load(
        self, folder: Folders = None, *, device: str = "auto", **options: Any
    ) -> Predictor[Any]:
        """Returns the predictor with the model in ``folder``; None for the shipped one.

        ``options`` are those that the ``load`` of the task's predictor alone has.
        """
        kind: type[Predictor[Any]] = getattr(self._module("predict"), self.predictor)
        return kind.load(folder, device=device, **options)

    def evaluate(
        self,
        folder: Folders,
        data: Path,
        *,
        split: str | None = None,
        device: str = "auto",
        **options: Any,
    ) -> Report:
        """Measures a model on a split of the corpus ``data``; None: the test split.

        Args:
            folder: what :meth:`load` takes.
            options: how to predict.
        """
        measure = self._module("evaluate").evaluate_folder
        report: Report = measure(folder, data, split=split, device=device, **options)
        return report

    def _module(self, name: str) -> ModuleType:
        return importlib.import_module(f".{self.name}.{name}", __package__)
