"""Training a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from core.progress import log
from core.training.microbatches import LossFunction
from data.codec import TextCodec
from data.vocabulary import PAD_ID, UNK_ID
from tasks.classification.calibration import fit_temperature
from tasks.classification.classes import read_classes, write_classes
from tasks.classification.config import ClassificationConfig
from tasks.classification.dataset import (
    Example,
    LoadSentenceClassificationDataset,
)
from tasks.classification.embeddings import ppmi_embeddings
from tasks.classification.evaluate import evaluate
from tasks.classification.imbalance import class_weights
from tasks.classification.model import ClassificationModel
from tasks.classification.predict import Classifier, build_model
from tasks.classification.pretraining import pretrain
from tasks.familiarity import MAX_TEXTS, Familiarity
from tasks.runs.run import Prepared


def prepare(
    config: ClassificationConfig,
    *,
    corpus: Path,
    out: Path,
    device: torch.device,
    vocabulary: Path | None,
) -> Prepared:
    """Prepares the training of a classifier; see :class:`tasks.runs.run.Prepare`."""
    tokenizer = config.data.tokenizer
    dataset = LoadSentenceClassificationDataset(
        corpus,
        config.data,
        seed=config.train.seed,
        save_to=out,
        codec=None if vocabulary is None else TextCodec.load(vocabulary, tokenizer=tokenizer),
        classes=read_classes(out) if vocabulary == out else None,
    )
    soft_labels = dataset.soft_labels()
    model = build_model(dataset.codec, dataset.classes, config).to(device)
    if config.data.ppmi_window and vocabulary is None:
        start_from_ppmi(model, dataset, config)
    if config.data.pretraining_epochs and vocabulary is None:
        epochs = config.data.pretraining_epochs
        pretrain(model, dataset.training_texts(), config.train, epochs=epochs)
    has_other_classes = vocabulary is not None and read_classes(vocabulary) != dataset.classes
    if has_other_classes:
        write_classes(out, dataset.classes)
        log(f"the classes are not those of {vocabulary}: the last layer is newly initialized")
    classifier = Classifier(model, dataset.codec, dataset.classes, config, device)
    has_test = dataset.source.has("test")
    if has_test:
        dataset.read("test")  # an error in it is raised now, not after the training
    val_examples = dataset.encoded("val")
    classifier.check_thresholds()
    batch_tokens = config.train.batch_tokens

    def calibrate(config: ClassificationConfig) -> ClassificationConfig:
        (probabilities,), states = classifier.probabilities_and_states(
            [ids for ids, _ in val_examples], temperatures=(1.0,)
        )
        labels = torch.tensor([label for _, label in val_examples])
        temperature = round(fit_temperature(probabilities, labels), 3)
        log(f"temperature {temperature}, fitted on the validation data")
        familiarity_of(classifier, dataset.training_texts(), states).save(out)
        prediction = replace(config.prediction, temperature=temperature)
        classifier.config = replace(config, prediction=prediction)
        return classifier.config

    def test(final: ClassificationConfig) -> dict[str, Any]:
        report = evaluate(classifier, dataset, "test" if has_test else "val", report_in=out)
        return report if has_test else {}

    return Prepared(
        model=model,
        data=dataset.training_data(
            batch_tokens=batch_tokens, seed=config.train.seed, max_len=config.model.max_len
        ),
        loss=text_loss(
            model,
            config.train.label_smoothing,
            config.data.token_dropout,
            weights_of(dataset).to(device) if config.data.class_weight else None,
            soft_labels=None if soft_labels is None else soft_labels.to(device),
            soft_label_weight=config.data.soft_label_weight,
        ),
        validate=lambda: measure_texts(classifier, val_examples, batch_tokens=batch_tokens),
        metric="val_accuracy",
        evaluate=test,
        calibrate=calibrate,
        files=[
            *dataset.files("train", "val", *(["test"] if has_test else ())),
            *dataset.soft_label_files(),
        ],
        new_weights=model.last_layer_weights() if has_other_classes else (),
    )


def start_from_ppmi(
    model: ClassificationModel,
    dataset: LoadSentenceClassificationDataset,
    config: ClassificationConfig,
) -> None:
    """Sets the token embeddings of ``model`` to those of :mod:`.embeddings`, where there is one."""
    weight = model.embedding.weight
    vectors, has_vector = ppmi_embeddings(
        dataset.training_texts(),
        vocab_size=len(weight),
        width=weight.shape[1],
        window=config.data.ppmi_window,
        seed=config.train.seed,
    )
    with torch.no_grad():
        weight[has_vector] = vectors[has_vector].to(weight)
    log(f"{int(has_vector.sum()):,} of {len(weight):,} embeddings are from co-occurrence counts")


def familiarity_of(classifier: Classifier, train: Any, held_out: Tensor) -> Familiarity:
    """Returns the familiarity with texts, given the ids of training texts.

    ``held_out`` ``[N, D]`` are the pooled states of other texts.
    """
    train = train[:: max(1, len(train) // MAX_TEXTS)]
    return Familiarity.fit(classifier.probabilities_and_states(train)[1], held_out)


def weights_of(dataset: LoadSentenceClassificationDataset) -> Tensor:
    """Returns the weight of each class in the loss."""
    labels = [label for _, label in dataset.encoded("train")]
    return class_weights(dataset.config.class_weight, dataset.classes, labels)


def text_loss(
    model: ClassificationModel,
    label_smoothing: float,
    token_dropout: float,
    weights: Tensor | None = None,
    *,
    soft_labels: Tensor | None = None,
    soft_label_weight: float = 0.0,
) -> LossFunction:
    """Returns the training loss: label-smoothed cross-entropy, for each part of ``model``.

    Args:
        weights: those of the classes.
        soft_labels: the probabilities of the classes for all training rows, ``[N, C]``.
        soft_label_weight: their weight in the target distribution; the label has the rest.
    """

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        src, targets, *rows = batch
        if soft_labels is not None:
            probabilities = soft_labels[rows[0]]
            one_hot = F.one_hot(targets, probabilities.shape[1]).to(probabilities)
            targets = one_hot.lerp(probabilities, soft_label_weight)
        if token_dropout > 0.0:
            is_dropped = torch.rand(src.shape, device=src.device) < token_dropout
            src = src.masked_fill(is_dropped & (src != PAD_ID), UNK_ID)
        total = torch.zeros((), device=src.device)
        for part in model.scores_of_parts(src):
            scores = part.float()
            total = total + F.cross_entropy(
                scores,
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
    probabilities = classifier.probabilities(texts, batch_tokens=batch_tokens)
    # A true class of probability 0 costs the largest loss of float32, not infinity.
    log_probs = probabilities.clamp(min=torch.finfo(torch.float32).tiny).log()
    return {
        "val_loss": F.nll_loss(log_probs, labels).item(),
        "val_accuracy": (probabilities.argmax(dim=1) == labels).float().mean().item(),
    }
