"""Training a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from core.training import LossFunction
from data.batching import bucket_by_length
from data.codec import TextCodec
from data.vocabulary import PAD_ID, UNK_ID
from tasks import runs
from tasks.classification.config import ClassificationConfig
from tasks.classification.dataset import Example, LoadSentenceClassificationDataset, as_tensors
from tasks.classification.evaluate import evaluate
from tasks.classification.model import ClassificationModel
from tasks.classification.predict import Classifier


def train(
    config: ClassificationConfig,
    *,
    data: Path,
    out: Path,
    device: torch.device,
    resume: bool = False,
) -> dict[str, Any]:
    """Trains a model on the corpus in ``data`` and leaves a checkpoint folder in ``out``.

    Raises:
        UserError: a corpus, a folder or a configuration that cannot be used.
        Interrupted: SIGINT or SIGTERM came.
    """

    def prepare() -> runs.Prepared:
        return _prepare(config, data, out, device, resume)

    return runs.train(
        "classification", config, prepare, data=data, out=out, device=device, resume=resume
    )


def _prepare(
    config: ClassificationConfig, folder: Path, out: Path, device: torch.device, resume: bool
) -> runs.Prepared:
    codec = TextCodec.load(out, tokenizer=config.data.tokenizer) if resume else None
    dataset = LoadSentenceClassificationDataset(
        folder, config.data, seed=config.train.seed, save_to=out, codec=codec
    )
    model = ClassificationModel(
        len(dataset.codec.vocabulary), len(dataset.classes), config.model
    ).to(device)
    classifier = Classifier(model, dataset.codec, dataset.classes, config, device)
    max_len = config.model.max_len
    val_examples = [(ids[:max_len], label) for ids, label in dataset.encoded("val")]
    batch_tokens = config.train.batch_tokens

    def test() -> dict[str, Any]:
        return evaluate(classifier, dataset, "test") if (folder / "test.csv").is_file() else {}

    return runs.Prepared(
        model=model,
        data=dataset.training_data(
            batch_tokens=batch_tokens, seed=config.train.seed, max_len=max_len
        ),
        loss=text_loss(model, config.train.label_smoothing, config.data.token_dropout),
        validate=lambda: measure_texts(
            model, val_examples, batch_tokens=batch_tokens, device=device
        ),
        metric="val_accuracy",
        evaluate=test,
    )


def text_loss(
    model: ClassificationModel, label_smoothing: float, token_dropout: float
) -> LossFunction:
    """The training loss of ``model``: label-smoothed cross-entropy of the class."""

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        src, labels = batch
        if token_dropout > 0.0:
            is_dropped = torch.rand(src.shape, device=src.device) < token_dropout
            src = src.masked_fill(is_dropped & (src != PAD_ID), UNK_ID)
        scores = model(src).float()
        total = F.cross_entropy(scores, labels, label_smoothing=label_smoothing, reduction="sum")
        return total, len(labels)

    return loss


def measure_texts(
    model: ClassificationModel,
    examples: Sequence[Example],
    *,
    batch_tokens: int,
    device: torch.device,
) -> dict[str, float]:
    """The mean loss (nats a text, no smoothing) and the accuracy."""
    loss, right = 0.0, 0
    lengths = [(len(ids),) for ids, _ in examples]
    with torch.inference_mode():
        for indices in bucket_by_length(lengths, batch_tokens=batch_tokens, seed=None):
            src, labels = (x.to(device) for x in as_tensors([examples[i] for i in indices]))
            scores = model(src).float()
            loss += F.cross_entropy(scores, labels, reduction="sum").item()
            right += int((scores.argmax(dim=-1) == labels).sum())
    return {"val_loss": loss / len(examples), "val_accuracy": right / len(examples)}
