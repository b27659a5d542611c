"""Training a classifier."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.distributed.process_group import ALONE, ProcessGroup
from core.model.dropout import dropout
from core.progress import log
from core.storage.checkpoint import WEIGHTS_FILE, save_weights
from core.training.gradient import LossFunction
from data.codec import TextCodec
from data.examples import IdLists
from data.readers import iter_lines
from data.vocabulary import PAD_ID, UNK_ID
from tasks.classification.config import ClassificationConfig
from tasks.classification.dataset import LabeledTexts, LoadSentenceClassificationDataset, TextData
from tasks.classification.decision import class_weights, fit_temperature, scaled
from tasks.classification.evaluate import ClassificationReport, evaluate
from tasks.classification.linear import baseline_is_right, fitted_weights
from tasks.classification.model import ClassificationModel
from tasks.classification.ngrams import HashedNgrams
from tasks.classification.predict import Classifier, build_model
from tasks.classification.sources import Row, has_news_layout, read_classes, write_classes
from tasks.familiarity import MAX_TEXTS, Familiarity
from tasks.runs import run
from tasks.runs.checkpoint_folder import file_digests
from tasks.runs.training import RunOptions, Training

_TOKENS = 400_000  # in all epochs of a training on few texts
_LEAST_EPOCHS, _MOST_EPOCHS = 3, 40
_PATIENCE = 5
_SHORTEST = 4  # tokens of the beginning of a text
_OTHER_TEXTS = Path(__file__).with_name("other_texts.txt")
_NGRAM_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def train(config: ClassificationConfig, options: RunOptions) -> dict[str, Any]:
    """Trains a classifier; see :func:`tasks.runs.run.train`."""
    data = config.data
    if data.clean is None:
        data = replace(data, clean=has_news_layout(options.data, data))
    if options.init is not None:
        data = replace(data, fit_ngrams=0)
    config = replace(config, data=data)
    return run.train(config, options, ClassificationTraining)


class ClassificationTraining(Training):
    """The training of a classifier."""

    task = Classifier.task
    dataset_class = LoadSentenceClassificationDataset
    metric = "val_accuracy"
    model: ClassificationModel
    data: TextData
    dataset: LoadSentenceClassificationDataset

    def __init__(
        self, config: ClassificationConfig, options: RunOptions, vocabulary: Path | None
    ) -> None:
        super().__init__(config, options, vocabulary)
        dataset = self.dataset
        before = dataset.classes if vocabulary is None else read_classes(vocabulary)
        self.has_other_classes = before != dataset.classes
        if self.has_other_classes:
            write_classes(options.out, dataset.classes)
            log(f"the classes are not those of {vocabulary}: the last layer is newly initialized")
        config = replace(config, prediction=replace(config.prediction, temperature=1.0))
        parts = (self.model, dataset.codec, dataset.classes, config)
        self.classifier = Classifier(*parts, options.device)
        self.examples = {name: dataset.encoded(name) for name in ("train", "val")}
        self.classifier.check_thresholds()
        if config.train.epochs == 0:
            self.config = with_epochs(self.config, self.data)
        labels = self.examples["train"].labels.tolist()
        self.weights = None
        if items := config.data.class_weight:
            self.weights = class_weights(items, dataset.classes, labels).to(options.device)
        smoothing, token_dropout = config.train.label_smoothing, config.data.token_dropout
        self.loss = text_loss(self.model, smoothing, token_dropout, self.weights)
        self.fitted: Tensor | None = None
        if self.model.ngrams and len(labels) <= config.data.fit_ngrams and len(set(labels)) > 1:
            self.metric, self.model.ngram_weight = "val_loss", 0.5
            self.fitted = self._set_ngrams(self._fitted_ngrams("train"))
        self.validation: dict[str, float] | None = None

    def load_codecs(self, folder: Path) -> dict[str, Any]:
        codec = TextCodec.load(folder, tokenizer=self.config.data.tokenizer)
        classes = read_classes(folder) if folder == self.options.out else None
        return {"codec": codec, "classes": classes}

    def make_model(self) -> ClassificationModel:
        return build_model(self.dataset.codec, self.dataset.classes, self.config)

    def _fitted_ngrams(self, *splits: str) -> Tensor:
        """Returns the weights of n-grams that suit some splits (:mod:`.linear`)."""
        parts = [self.examples[split] for split in splits]
        texts = IdLists.of(ids for part in parts for ids in part.texts)
        labels = [number for part in parts for number in part.labels.tolist()]
        ngrams, size = cast(HashedNgrams, self.model.ngrams), self.config.model.max_len
        return fitted_weights(ngrams, texts.cut(size), labels, self.weights)

    def _set_ngrams(self, weights: Tensor) -> Tensor:
        """Gives the n-grams weights that are not trained, and returns these."""
        ngrams = cast(HashedNgrams, self.model.ngrams)
        ngrams.weight = nn.Parameter(weights.clone(), requires_grad=False)
        return weights

    def validate(self, group: ProcessGroup = ALONE) -> dict[str, float]:
        if self.validation is not None:
            return self.validation
        examples, batch_tokens = self.examples["val"], self.config.train.batch_tokens
        # Texts are few and short, and have a row of logits each: the main process is enough.
        measure = partial(measure_texts, self.classifier, examples, batch_tokens=batch_tokens)
        return group.broadcast(measure)

    def calibrate(self, config: ClassificationConfig) -> ClassificationConfig:
        """Fits temperature and familiarity, and with fitted n-grams their weight.

        These are then fitted again, on the validation rows, too, unless the report is on them.
        """
        prediction, out = config.prediction, self.options.out
        texts, labels = self.examples["val"].texts, torch.from_numpy(self.examples["val"].labels)
        if self.fitted is not None:
            self._set_ngrams(self.fitted)  # a run that is resumed may have those of its end
            self.model.ngram_weight = self._best_ngram_weight(texts, labels)
            prediction = replace(prediction, ngram_weight=self.model.ngram_weight)
            log(f"weight {prediction.ngram_weight} of the n-grams, chosen on the validation data")
        probabilities, _ = self.classifier.outputs(texts)
        temperature = round(fit_temperature(probabilities, labels), 3)
        log(f"temperature {temperature}, fitted on the validation data")
        known = self.examples["train"].texts
        known = known[:: max(1, len(known) // MAX_TEXTS)]
        familiarity_with(self.classifier, known, texts).save(out)
        prediction = replace(prediction, temperature=temperature)
        self.classifier.config = replace(config, prediction=prediction)
        if self.fitted is not None and self.test_split is not None:
            self.validation = self.validate()
            self._set_ngrams(self._fitted_ngrams("train", "val"))
            dtype = torch.float16 if config.train.weights_on_disk == "fp16" else None
            save_weights(out / WEIGHTS_FILE, self.model, dtype=dtype, digests=file_digests(out))
        return self.classifier.config

    def _best_ngram_weight(self, texts: Sequence[Sequence[int]], labels: Tensor) -> float:
        """Returns the weight with the least loss on validation texts, at its best temperature.

        It is 1 unless another has fewer errors, and a loss lower by more than two standard errors.
        """
        losses, right = {}, {}
        for weight in _NGRAM_WEIGHTS:
            self.model.ngram_weight = weight
            probabilities, _ = self.classifier.outputs(texts)
            right[weight] = int((probabilities.argmax(dim=1) == labels).sum())
            probabilities = scaled(probabilities, fit_temperature(probabilities, labels))
            losses[weight] = -probabilities[torch.arange(len(labels)), labels].log()

        def is_better(weight: float) -> bool:
            gain = losses[1.0] - losses[weight]
            error = float(gain.std(correction=0)) / len(gain) ** 0.5
            return right[weight] > right[1.0] and float(gain.mean()) > 2.0 * error

        return min(filter(is_better, losses), key=lambda w: float(losses[w].mean()), default=1.0)

    def evaluate(self, config: ClassificationConfig) -> ClassificationReport | None:
        """Returns the report on the test split.

        It is also written as a page; that on the validation split if there is no other.
        """
        split = self.test_split or "val"
        known = [row for each in ("train", "val") if each != split for row in self._rows(each)]
        baseline = baseline_is_right(known, self._rows(split))
        report = evaluate(
            self.classifier,
            self.dataset,
            split,
            report_in=self.options.out,
            baseline_is_right=baseline,
        )
        gap = report.accuracy - (report.baseline_accuracy or 0.0)
        if gap < -(report.baseline_gap_error or 0.0) and not config.prediction.thresholds:
            log(
                f"a linear model is {-100 * gap:.1f} points better than this one: train for more "
                "epochs (train.epochs), or let n-grams be fitted for more rows (data.fit_ngrams)"
            )
        return report if self.test_split else None

    def _rows(self, split: str) -> list[Row]:
        """Returns the rows of a split, with texts as a model reads them."""
        return [row._replace(text=self.dataset.text_of(row)) for row in self.dataset.read(split)]

    def new_weights(self) -> Sequence[str]:
        return self.model.last_layer_weights() if self.has_other_classes else ()


def familiarity_with(
    classifier: Classifier, texts: Sequence[Sequence[int]], held_out: Sequence[Sequence[int]]
) -> Familiarity:
    """Returns the familiarity with training ``texts`` as ids, and with the beginnings of such."""
    rng = random.Random(1)
    lines = [classifier.as_read(line) for line in iter_lines(_OTHER_TEXTS)]
    states = []
    for kind in (texts, held_out):
        cuts = [max(_SHORTEST, round(len(ids) ** rng.uniform(0.4, 1.0))) for ids in kind]
        parts = [ids[:cut] for ids, cut in zip(kind, cuts, strict=True)]
        states.append(classifier.outputs([*kind, *parts]).states)
    others = classifier.outputs(classifier.encode(lines)).states
    return Familiarity.fit(states[0], states[1], others=others)


def with_epochs(config: ClassificationConfig, data: TextData) -> ClassificationConfig:
    """Returns ``config`` with as many epochs as ``data`` need, and patience."""
    epochs = _TOKENS // max(1, int(data.examples.lengths.sum()))
    epochs = min(_MOST_EPOCHS, max(_LEAST_EPOCHS, epochs))
    patience = config.train.patience or _PATIENCE
    log(f"{epochs} epochs at most; {patience} without a gain end the run")
    return replace(config, train=replace(config.train, epochs=epochs, patience=patience))


def text_loss(
    model: ClassificationModel,
    label_smoothing: float,
    token_dropout: float,
    weights: Tensor | None = None,
) -> LossFunction:
    """Returns the training loss: label-smoothed cross-entropy, for each part of ``model``."""

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
    classifier: Classifier, examples: LabeledTexts, *, batch_tokens: int
) -> dict[str, float]:
    """Returns the mean loss (nats per text, without smoothing) and the accuracy."""
    labels = torch.from_numpy(examples.labels)
    probabilities, _ = classifier.outputs(examples.texts, batch_tokens=batch_tokens)
    # A true class of probability 0 costs the largest loss of float32, not infinity.
    log_probs = probabilities.clamp(min=torch.finfo(torch.float32).tiny).log()
    return {
        "val_loss": F.nll_loss(log_probs, labels).item(),
        "val_accuracy": (probabilities.argmax(dim=1) == labels).float().mean().item(),
    }
