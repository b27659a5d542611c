"""Classifying texts with a trained model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from core.checkpoint import WEIGHTS_FILE, load_weights
from core.training import choose_device
from data.batching import bucket_by_length, pad_sequence
from data.codec import TextCodec
from tasks.classification.config import ClassificationConfig
from tasks.classification.dataset import clean, encode, read_classes
from tasks.classification.model import ClassificationModel
from tasks.folders import model_folder, read_config

DEFAULT_BATCH_TOKENS = 8000


@dataclass(frozen=True)
class Classification:
    """The most probable class of a text, and every class's probability, the highest first."""

    label: str
    probability: float
    probabilities: dict[str, float]


class Classifier:
    """A trained model, ready to classify.

        Classifier.load().classify(["Stocks fell on Monday."])
    """

    def __init__(
        self,
        model: ClassificationModel,
        codec: TextCodec,
        classes: Sequence[str],
        config: ClassificationConfig,
        device: torch.device,
    ) -> None:
        self.model = model
        self.codec = codec
        self.classes = list(classes)
        self.config = config
        self.device = device

    @classmethod
    def load(cls, folder: str | Path | None = None, *, device: str = "auto") -> Classifier:
        """The model in ``folder``, or the one that ships.

        Raises:
            CheckpointError: the folder is missing, incomplete, damaged or another task's.
        """
        path = model_folder("classification", folder)
        chosen = choose_device(device)
        config = read_config(path, "classification", ClassificationConfig)
        codec = TextCodec.load(path, tokenizer=config.data.tokenizer)
        classes = read_classes(path)
        model = ClassificationModel(len(codec.vocabulary), len(classes), config.model)
        load_weights(path / WEIGHTS_FILE, model)
        return cls(model.to(chosen).eval(), codec, classes, config, chosen)

    def classify(self, texts: Sequence[str]) -> list[str]:
        """The most probable class of each text, in their order; "" for an empty text."""
        return [result.label for result in self.classify_scored(texts)]

    def classify_scored(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        on_batch: Callable[[int], None] = lambda pieces: None,
    ) -> list[Classification]:
        """As :meth:`classify`, with probabilities.

        A text that is longer than the model can take is classified piece by piece, and the pieces'
        probabilities are averaged, weighted by their lengths.
        """
        cleaned = [clean(text) for text in texts]
        probabilities = self._probabilities(cleaned, batch_tokens, on_batch)
        results = []
        for text, row in zip(cleaned, probabilities.tolist(), strict=True):
            if not text:
                results.append(Classification("", 0.0, {}))
                continue
            by_class = dict(sorted(zip(self.classes, row, strict=True), key=lambda c: -c[1]))
            label = next(iter(by_class))
            results.append(Classification(label, by_class[label], by_class))
        return results

    def _probabilities(
        self, texts: Sequence[str], batch_tokens: int, on_batch: Callable[[int], None]
    ) -> Tensor:
        """``[len(texts), C]``; zeros for an empty text."""
        size = self.config.model.max_len
        if isinstance(self.config.data.max_sen_len, int):
            size = min(size, self.config.data.max_sen_len)
        pieces: list[list[int]] = []
        text_of: list[int] = []
        for number, text in enumerate(texts):
            ids = encode(self.codec, text) if text else []
            for start in range(0, len(ids), size):
                pieces.append(ids[start : start + size])
                text_of.append(number)
        total = torch.zeros(len(texts), len(self.classes))
        lengths = [(len(piece),) for piece in pieces]
        for indices in bucket_by_length(lengths, batch_tokens=batch_tokens, seed=None):
            with torch.inference_mode():
                src = pad_sequence([pieces[i] for i in indices]).to(self.device)
                found = self.model(src).float().softmax(dim=-1).cpu()
            weights = torch.tensor([float(len(pieces[i])) for i in indices])
            numbers = torch.tensor([text_of[i] for i in indices])
            total.index_add_(0, numbers, found * weights.unsqueeze(1))
            on_batch(len(indices))
        return total / total.sum(dim=1, keepdim=True).clamp(min=1e-9)
