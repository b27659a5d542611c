"""The classifier compared with linear models on the same rows, and with a padded encoder in speed.

    python -m benchmarks.classification --data ag_news --split test

The linear models are trained on the rows that the model was trained on: without those that it held
out. Seconds include everything from texts to labels; those of the model's training are in its
``metrics.json``, and may be from another machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor, nn

from data.batching import pad_sequence
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.classification.decision import calibration_error, most_probable
from tasks.classification.evaluate import score
from tasks.classification.predict import Classifier
from tasks.runs.checkpoint_folder import model_folder, read_metrics

Corpus = tuple[list[str], list[int]]
Predict = Callable[[list[str]], tuple[list[int], Tensor | None]]
"""Maps texts to class numbers and, if the model has them, probabilities ``[N, C]``."""

_TUTORIAL_BATCH = 64

_VARIANTS: dict[str, dict[str, Any]] = {"ours, early exit at 0.9": {"early_exit": 0.9}}


def baselines() -> dict[str, Callable[[], Any]]:
    """Returns functions that make untrained scikit-learn models, by name."""
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    def words() -> Any:
        return TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)

    def characters() -> Any:
        return TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=5, sublinear_tf=True)

    def hashed() -> Any:
        return HashingVectorizer(ngram_range=(1, 2), n_features=1 << 20, alternate_sign=False)

    return {
        "TF-IDF of words and pairs, logistic regression": lambda: make_pipeline(
            words(), LogisticRegression(C=10.0, max_iter=300)
        ),
        "TF-IDF of words and pairs, linear SVM": lambda: make_pipeline(words(), LinearSVC(C=0.3)),
        "TF-IDF of words, pairs and characters, linear SVM": lambda: make_pipeline(
            make_union(words(), characters()), LinearSVC(C=0.3)
        ),
        "hashed words and pairs, SGD (as fastText)": lambda: make_pipeline(
            hashed(), SGDClassifier(loss="log_loss", alpha=1e-6, max_iter=20, random_state=1)
        ),
    }


def measure(predict: Predict, split: Corpus) -> dict[str, Any]:
    """Returns the figures of a classifier on ``split``."""
    texts, labels = split
    started = time.perf_counter()
    predicted, probabilities = predict(texts)
    seconds = time.perf_counter() - started
    names = [str(number) for number in range(max(labels) + 1)]
    figures = score([names[i] for i in predicted], [names[i] for i in labels], names)
    return {
        "accuracy": 100 * figures.accuracy,
        "macro F1": 100 * figures.macro_f1,
        "ECE": None
        if probabilities is None
        else 100 * calibration_error(*most_probable(probabilities, torch.tensor(labels))),
        "rows/s": len(texts) / seconds,
    }


def rows_of_baselines(training: Corpus, split: Corpus) -> Iterator[dict[str, Any]]:
    """Yields the figures of each baseline."""
    for name, make in baselines().items():
        model = make()
        started = time.perf_counter()
        model.fit(*training)
        seconds = time.perf_counter() - started

        def predict(texts: list[str], model: Any = model) -> tuple[list[int], Tensor | None]:
            if not hasattr(model, "predict_proba"):
                return model.predict(texts).tolist(), None
            probabilities = torch.from_numpy(model.predict_proba(texts))
            return probabilities.argmax(dim=1).tolist(), probabilities

        yield {"model": name, "trained in s": seconds, **measure(predict, split)}


def rows_of_ours(classifiers: Mapping[str, Classifier], split: Corpus) -> Iterator[dict[str, Any]]:
    """Yields the figures of each classifier."""
    for name, classifier in classifiers.items():

        def predict(
            texts: list[str], classifier: Classifier = classifier
        ) -> tuple[list[int], Tensor]:
            probabilities, _ = classifier.outputs(classifier.encode(texts))
            return probabilities.argmax(dim=1).tolist(), probabilities

        yield {"model": name, **measure(predict, split)}


def variants(folder: Path | None) -> dict[str, Classifier]:
    """Returns the model in ``folder`` (None: the shipped one), and its faster ways, by name."""
    ours = Classifier.load(folder, device="cpu")
    has_ngrams = ours.model.ngrams is not None
    return {"ours": ours} | {
        name: Classifier.load(folder, device="cpu", **options)
        for name, options in _VARIANTS.items()
        if has_ngrams or "early_exit" not in options
    }


class PaddedEncoder(nn.Module):
    """The tutorials' classifier: ``torch.nn.TransformerEncoder`` with the weights of ours."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        model, sizes = classifier.model, classifier.model.config
        layer = nn.TransformerEncoderLayer(
            sizes.d_model,
            sizes.nhead,
            sizes.dim_feedforward,
            activation=sizes.activation,
            norm_first=sizes.norm_first,
        )
        norm = nn.LayerNorm(sizes.d_model)
        self.encoder = nn.TransformerEncoder(
            layer, sizes.num_encoder_layers, norm, enable_nested_tensor=not sizes.norm_first
        )
        self.encoder.load_state_dict(model.encoder.state_dict(), strict=False)
        self.embedding, self.positions = model.embedding, model.positional_encoding
        self.classifier, self.pad_id = model.classifier, model.pad_id

    def forward(self, src: Tensor) -> Tensor:
        """Ids ``[S, B]`` -> class scores ``[B, C]``."""
        is_pad = (src == self.pad_id).t()
        states = self.encoder(self.positions(self.embedding(src)), src_key_padding_mask=is_pad)
        is_token = (~is_pad).t().unsqueeze(2)
        return self.classifier((states * is_token).sum(dim=0) / is_token.sum(dim=0))


def compare_speed(
    classifiers: Mapping[str, Classifier], texts: Sequence[str], count: int
) -> dict[str, float]:
    """Returns the rows a second of each classifier and of the padded encoder, on ``count`` rows.

    Ours encodes all texts in one call of the same tokenizer. The padded encoder takes batches of 64
    rows in the order of the corpus, padded to the longest.
    """
    texts = [texts[i % len(texts)] for i in range(count)]
    ours = classifiers["ours"]
    padded = PaddedEncoder(ours).eval()
    longest = ours.config.model.max_len

    def tutorial() -> None:
        for start in range(0, count, _TUTORIAL_BATCH):
            batch = [ours.codec.encode(t)[:longest] for t in texts[start : start + _TUTORIAL_BATCH]]
            with torch.no_grad():
                padded(pad_sequence(batch)).softmax(dim=1)

    def classify(classifier: Classifier) -> None:
        classifier.outputs(classifier.encode(texts))

    rates: dict[str, float] = {}
    contestants: dict[str, Callable[[], None]] = {"padded encoder": tutorial}
    contestants |= {name: partial(classify, each) for name, each in classifiers.items()}
    for name, run in contestants.items():
        started = time.perf_counter()
        run()
        rates[name] = count / (time.perf_counter() - started)
    return rates


@click.command()
@click.option("--data", "folder", type=click.Path(path_type=Path), required=True)
@click.option("--model", type=click.Path(path_type=Path), help="Default: the shipped model.")
@click.option("--split", type=click.Choice(["val", "test"]), default="val", show_default=True)
@click.option("--speed-rows", default=20_000, show_default=True, help="0: no comparison of speed.")
@click.option("--baselines/--no-baselines", "is_compared", default=True, show_default=True)
def main(folder: Path, model: Path | None, split: str, speed_rows: int, is_compared: bool) -> None:
    """Print the tables."""
    from pandas import DataFrame

    classifiers = variants(model)
    classifier = classifiers["ours"]
    config = classifier.config
    dataset = LoadSentenceClassificationDataset(
        folder,
        config.data,
        seed=config.train.seed,
        codec=classifier.codec,
        classes=classifier.classes,
    )

    def corpus(name: str) -> Corpus:
        rows = dataset.read(name)
        return [dataset.text_of(row) for row in rows], [row.label for row in rows]

    training, chosen = corpus("train"), corpus(split)
    rows = list(rows_of_baselines(training, chosen)) if is_compared else []
    rows += rows_of_ours(classifiers, chosen)
    seconds = read_metrics(model_folder("classification", model)).get("training_seconds", math.nan)
    next(row for row in rows if row["model"] == "ours")["trained in s"] = seconds
    click.echo(f"{split}: {len(chosen[0]):,} rows; {len(training[0]):,} training rows")
    click.echo(DataFrame(rows).set_index("model").to_string(float_format="{:,.2f}".format))
    if speed_rows:
        rates = compare_speed(classifiers, training[0], speed_rows)
        click.echo(f"\n{speed_rows:,} rows, rows a second ({torch.get_num_threads()} threads):")
        for name, rate in rates.items():
            click.echo(f"{name:24} {rate:10,.0f} {rate / rates['padded encoder']:6.2f}x")


if __name__ == "__main__":
    main()
