"""Couplets as a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.couplet.config import PRESETS, CoupletConfig
from tasks.task import Report, Task

if TYPE_CHECKING:
    from tasks.couplet.predict import CoupletWriter
    from tasks.runs.checkpoint_folder import Folders
    from tasks.runs.run import RunOptions


class CoupletTask(Task):
    """The second line of a Chinese couplet."""

    name = "couplet"
    corpus = "couplet"
    presets = PRESETS

    def train(self, config: CoupletConfig, options: RunOptions) -> dict[str, Any]:
        from tasks.couplet.train import train

        return train(config, options)

    def load(self, folder: Folders = None, *, device: str = "auto") -> CoupletWriter:
        from tasks.couplet.predict import CoupletWriter

        return CoupletWriter.load(folder, device=device)

    def evaluate(
        self,
        folder: Folders,
        data: Path,
        *,
        split: str | None = None,
        device: str = "auto",
        **options: Any,
    ) -> Report:
        from tasks.couplet.evaluate import evaluate, open_split
        from tasks.seq2seq.request import GenerationRequest

        request = GenerationRequest.of(**options)
        return evaluate(*open_split(folder, data, split, device=device), request)


TASK = CoupletTask()
