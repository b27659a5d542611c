"""Translation as a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.task import Report, Task
from tasks.translation.config import PRESETS, TranslationConfig

if TYPE_CHECKING:
    from tasks.runs.checkpoint_folder import Folders
    from tasks.runs.run import RunOptions
    from tasks.translation.predict import Translator


class TranslationTask(Task):
    """Translation between two languages."""

    name = "translation"
    corpus = "multi30k"
    presets = PRESETS
    has_languages = True

    def train(self, config: TranslationConfig, options: RunOptions) -> dict[str, Any]:
        from tasks.translation.train import train

        return train(config, options)

    def load(self, folder: Folders = None, *, device: str = "auto") -> Translator:
        from tasks.translation.predict import Translator

        return Translator.load(folder, device=device)

    def evaluate(
        self,
        folder: Folders,
        data: Path,
        *,
        split: str | None = None,
        device: str = "auto",
        **options: Any,
    ) -> Report:
        from tasks.seq2seq.request import GenerationRequest
        from tasks.translation.evaluate import evaluate, open_split

        request = GenerationRequest.of(**options)
        return evaluate(*open_split(folder, data, split, device=device), request)


TASK = TranslationTask()
