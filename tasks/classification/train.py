"""Training a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from core.model.dropout import dropout
from core.progress import log
from core.training.microbatches import LossFunction
from data.codec import TextCodec
from data.vocabulary import PAD_ID, UNK_ID
from tasks.classification.classes import read_classes, write_classes
from tasks.classification.config import ClassificationConfig
from tasks.classification.dataset import Example, LoadSentenceClassificationDataset
from tasks.classification.decision import class_weights, fit_temperature
from tasks.classification.evaluate import ClassificationReport, evaluate
from tasks.classification.model import ClassificationModel
from tasks.classification.predict import Classifier, build_model
from tasks.classification.sources import has_news_layout
from tasks.familiarity import MAX_TEXTS, Familiarity
from tasks.runs import run
from tasks.runs.training import Place, Training


def train(config: ClassificationConfig, options: run.RunOptions) -> dict[str, Any]:
    """Trains a classifier; see :func:`tasks.runs.run.train`."""
    if config.data.clean is None:
        is_clean = has_news_layout(options.data, config.data)
        config = replace(config, data=replace(config.data, clean=is_clean))
    return run.train(config, options, ClassificationTraining, task=ClassificationTraining.task)


class ClassificationTraining(Training):
    """The training of a classifier."""

    task = Classifier.task
    metric = "val_accuracy"
    model: ClassificationModel

    def __init__(self, config: ClassificationConfig, place: Place) -> None:
        super().__init__(config, place)
        vocabulary, tokenizer = place.vocabulary, config.data.tokenizer
        dataset = self.dataset = LoadSentenceClassificationDataset(
            place.corpus,
            config.data,
            seed=config.train.seed,
            save_to=place.out,
            codec=None if vocabulary is None else TextCodec.load(vocabulary, tokenizer=tokenizer),
            classes=read_classes(place.out) if vocabulary == place.out else None,
        )
        self.model = build_model(dataset.codec, dataset.classes, config).to(place.device)
        self.has_other_classes = (
            vocabulary is not None and read_classes(vocabulary) != dataset.classes
        )
        if self.has_other_classes:
            write_classes(place.out, dataset.classes)
            log(f"the classes are not those of {vocabulary}: the last layer is newly initialized")
        config = replace(config, prediction=replace(config.prediction, temperature=1.0))
        self.classifier = Classifier(
            self.model, dataset.codec, dataset.classes, config, place.device
        )
        self.has_test = "test" in dataset.source.splits()
        if self.has_test:
            dataset.read("test")  # an error in it is raised now, not after the training
        self.val_examples = dataset.encoded("val")
        self.classifier.check_thresholds()
        self.data = dataset.training_data(
            batch_tokens=config.train.batch_tokens,
            seed=config.train.seed,
            max_len=config.model.max_len,
        )
        weights = None
        if items := config.data.class_weight:
            labels = [label for _, label in dataset.encoded("train")]
            weights = class_weights(items, dataset.classes, labels).to(place.device)
        smoothing, token_dropout = config.train.label_smoothing, config.data.token_dropout
        self.loss = text_loss(self.model, smoothing, token_dropout, weights)
        self.files = dataset.files("train", "val", *(["test"] if self.has_test else ()))

    def validate(self) -> dict[str, float]:
        batch_tokens = self.config.train.batch_tokens
        return measure_texts(self.classifier, self.val_examples, batch_tokens=batch_tokens)

    def calibrate(self, config: ClassificationConfig) -> ClassificationConfig:
        probabilities, held_out = self.classifier.outputs([ids for ids, _ in self.val_examples])
        labels = torch.tensor([label for _, label in self.val_examples])
        temperature = round(fit_temperature(probabilities, labels), 3)
        log(f"temperature {temperature}, fitted on the validation data")
        texts = self.dataset.training_texts()
        _, states = self.classifier.outputs(texts[:: max(1, len(texts) // MAX_TEXTS)])
        Familiarity.fit(states, held_out).save(self.place.out)
        prediction = replace(config.prediction, temperature=temperature)
        self.classifier.config = replace(config, prediction=prediction)
        return self.classifier.config

    def evaluate(self, config: ClassificationConfig) -> ClassificationReport | None:
        """Returns the report on the test split.

        It is also written as a page; that on the validation split if there is no other.
        """
        split = "test" if self.has_test else "val"
        report = evaluate(self.classifier, self.dataset, split, report_in=self.place.out)
        return report if self.has_test else None

    def new_weights(self) -> Sequence[str]:
        return self.model.last_layer_weights() if self.has_other_classes else ()


def text_loss(
    model: ClassificationModel,
    label_smoothing: float,
    token_dropout: float,
    weights: Tensor | None = None,
) -> LossFunction:
    """Returns the training loss: label-smoothed cross-entropy, for each part of ``model``.

    ``weights`` are those of the classes.
    """

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        src, targets = batch
        if token_dropout > 0.0:
            # Not torch.rand, whose generator is shared by microbatches, which take turns at random.
            is_dropped = dropout(torch.ones(src.shape, device=src.device), token_dropout) == 0.0
            src = src.masked_fill(is_dropped & (src != PAD_ID), UNK_ID)
        total = torch.zeros((), device=src.device)
        for scores in model.scores_of_parts(src):
            total = total + F.cross_entropy(
                scores.float(),
                targets,
                weight=weights,
                label_smoothing=label_smoothing,
                reduction="sum",
            )
        return total, len(targets)

    return loss


def measure_texts(
    classifier: Classifier, examples: Sequence[Example], *, batch_tokens: int
) -> dict[str, float]:
    """Returns the mean loss (nats per text, without smoothing) and the accuracy."""
    labels = torch.tensor([label for _, label in examples])
    texts = [ids for ids, _ in examples]
    probabilities, _ = classifier.outputs(texts, batch_tokens=batch_tokens)
    # A true class of probability 0 costs the largest loss of float32, not infinity.
    log_probs = probabilities.clamp(min=torch.finfo(torch.float32).tiny).log()
    return {
        "val_loss": F.nll_loss(log_probs, labels).item(),
        "val_accuracy": (probabilities.argmax(dim=1) == labels).float().mean().item(),
    }
