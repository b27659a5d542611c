"""Classification as a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.classification.config import PRESETS, ClassificationConfig
from tasks.task import Report, Task

if TYPE_CHECKING:
    from tasks.classification.predict import Classifier
    from tasks.runs.checkpoint_folder import Folders
    from tasks.runs.run import RunOptions


class ClassificationTask(Task):
    """The class of a text, such as the topic of news."""

    name = "classification"
    corpus = "ag_news"
    presets = PRESETS
    has_tables = True
    has_search = False

    def train(self, config: ClassificationConfig, options: RunOptions) -> dict[str, Any]:
        from tasks.classification.train import train

        return train(config, options)

    def load(self, folder: Folders = None, *, device: str = "auto") -> Classifier:
        from tasks.classification.predict import Classifier

        return Classifier.load(folder, device=device)

    def evaluate(
        self,
        folder: Folders,
        data: Path,
        *,
        split: str | None = None,
        device: str = "auto",
        assignments: tuple[str, ...] = (),
        **options: Any,
    ) -> Report:
        """As :meth:`Task.evaluate`.

        Args:
            split: train, val, test, or all for every row of a table. None: test, but all for a
                table that the model was not trained on.
            assignments: changes of the model's configuration, such as ``data.label=topic``.
            options: those of :func:`.evaluate.evaluate`.
        """
        from tasks.classification.evaluate import evaluate, open_split

        opened = open_split(folder, data, split, device=device, assignments=assignments)
        return evaluate(*opened, **options)


TASK = ClassificationTask()
