"""How well ``familiarity`` tells the texts of a classifier from others: the AUC for each kind.

    python -m benchmarks.familiarity --model runs/classification --data ag_news \\
        --other captions=multi30k/test_2016_flickr.en --other couplets=couplet/test/in.txt

The area under the ROC curve is the probability that a text of the test split is more familiar than
one of the other kind. The sentences in ``unlike_texts.tsv`` were written for this comparison, and
so were headlines of 2022 to 2025. ``--fit FOLDER`` fits it again, on the training split, and writes
it into that folder.
"""

from __future__ import annotations

from pathlib import Path

import click

from core.errors import UserError
from data.readers import iter_lines
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.classification.predict import Classifier
from tasks.classification.train import familiarity_with
from tasks.familiarity import MAX_TEXTS

_OWN = Path(__file__).with_name("unlike_texts.tsv")


def familiarities(classifier: Classifier, texts: list[str]) -> list[float]:
    """Returns the familiarity of every text that is not empty."""
    found = classifier.classify_scored(texts)
    return [result.familiarity for result in found if result.familiarity is not None]


def kinds(items: tuple[str, ...], rows: int) -> dict[str, list[str]]:
    """Returns the texts of each kind: those of this folder, and the first rows of each file."""
    texts: dict[str, list[str]] = {}
    for line in iter_lines(_OWN):
        name, _, text = line.partition("\t")
        texts.setdefault(name, []).append(text)
    for item in items:
        name, _, path = item.partition("=")
        texts[name] = [*iter_lines(path)][:rows]
    return texts


@click.command()
@click.option("--data", "folder", type=click.Path(path_type=Path), required=True)
@click.option("--model", type=click.Path(path_type=Path), help="Default: the shipped model.")
@click.option("--other", multiple=True, metavar="KIND=FILE", help="Texts of another kind.")
@click.option("--fit", "target", type=click.Path(path_type=Path), help="Where to write a new one.")
@click.option("--rows", default=1000, show_default=True, help="The most texts of each kind.")
def main(
    folder: Path, model: Path | None, other: tuple[str, ...], target: Path | None, rows: int
) -> None:
    """Print the table."""
    from sklearn.metrics import roc_auc_score

    classifier = Classifier.load(model, device="cpu")
    dataset = LoadSentenceClassificationDataset(
        folder,
        classifier.config.data,
        seed=classifier.config.train.seed,
        codec=classifier.codec,
        classes=classifier.classes,
    )
    if target is not None:
        texts, held_out = dataset.encoded("train").texts, dataset.encoded("val").texts
        texts = texts[:: max(1, len(texts) // MAX_TEXTS)]
        classifier.familiarity = familiarity_with(classifier, texts, held_out)
        classifier.familiarity.save(target)
    if classifier.familiarity is None:
        raise UserError("the model has no familiarity file: an older program made it")
    own = familiarities(classifier, [dataset.text_of(r) for r in dataset.read("test")[:rows]])
    if not own:
        raise UserError(f"{folder}: no test texts")
    click.echo(f"{'kind':16} {'texts':>6} {'AUC':>6} {'below 0.05':>11}")
    unlike = sum(value < 0.05 for value in own) / len(own)
    click.echo(f"{'the test split':16} {len(own):6} {'':>6} {100 * unlike:10.1f}%")
    for name, texts in kinds(other, rows).items():
        found = familiarities(classifier, texts)
        auc = roc_auc_score([1] * len(own) + [0] * len(found), own + found)
        unlike = sum(value < 0.05 for value in found) / len(found)
        click.echo(f"{name:16} {len(found):6} {auc:6.3f} {100 * unlike:10.1f}%")


if __name__ == "__main__":
    main()
