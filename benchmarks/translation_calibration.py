"""Whether a translator's confidence, familiarity and language detector mean what they say.

    python -m benchmarks.translation_calibration --model FOLDER --data multi30k --data tatoeba

* Confidence, on the split ``--split`` of each corpus: translations are grouped by their confidence.
  In each group, the share of good ones (sentence chrF of at least 60) should be the mean
  confidence. Their mean difference is the expected calibration error; the AUC is the probability
  that a good translation has more confidence than another.
* Familiarity: the probability (AUC) that a source of the same split is more familiar than a legal
  or a medical sentence of ``unlike_texts.de.tsv``, which were written for this comparison.
* Languages, on ``val``: the share of sources that would pass through, which are false alarms, and
  of targets, which should.
"""

from __future__ import annotations

from pathlib import Path

import click
import torch

from core.errors import UserError
from data.pairs import read_parallel
from data.readers import iter_lines
from tasks.classification.decision import binned, calibration_error
from tasks.familiarity import UNFAMILIAR, is_unfamiliar
from tasks.translation.confidence import are_good
from tasks.translation.dataset import spaced
from tasks.translation.predict import Translation, Translator

_OWN = Path(__file__).with_name("unlike_texts.de.tsv")


def pairs_of(translator: Translator, corpus: Path, split: str) -> list[tuple[str, str]]:
    """Returns the pairs of one split."""
    data = translator.config.data
    files = (corpus / f"{split}.{language}" for language in (data.src, data.tgt))
    return read_parallel(*files)


def familiarities(found: list[Translation]) -> list[float]:
    """Returns the familiarity of every text that has one."""
    return [one.familiarity for one in found if one.familiarity is not None]


def confidence_table(name: str, found: list[Translation], references: list[str]) -> str:
    """Returns the reliability of the confidence in the translations of one corpus."""
    from sklearn.metrics import roc_auc_score

    rows = [row for row in zip(found, references, strict=True) if row[0].confidence is not None]
    p = [one.confidence for one, _ in rows if one.confidence is not None]
    is_good = are_good([one.text for one, _ in rows], [reference for _, reference in rows])
    confidences = torch.tensor(p, dtype=torch.double), torch.tensor(is_good)
    error = calibration_error(*confidences, bins=10)
    auc = roc_auc_score(is_good, p) if len(set(is_good)) == 2 else float("nan")
    lines = [
        f"{name}: {len(p)} translations, {100 * sum(is_good) / len(p):.1f}% good, "
        f"ECE {error:.3f}, AUC {auc:.3f}",
        f"  {'confidence':12} {'texts':>6} {'mean':>6} {'good':>6}",
    ]
    for number, (total, good, count) in enumerate(binned(*confidences, bins=10).tolist()):
        if count:
            interval = f"{number / 10:.1f} to {(number + 1) / 10:.1f}"
            mean, share = total / count, good / count
            lines.append(f"  {interval:12} {int(count):6} {mean:6.2f} {share:6.2f}")
    return "\n".join(lines)


@click.command()
@click.option("--model", type=click.Path(path_type=Path), help="Default: the shipped model.")
@click.option("--data", "corpora", type=click.Path(path_type=Path), multiple=True, required=True)
@click.option("--split", default="test", show_default=True, help="The beginning of its name.")
@click.option("--rows", default=1000, show_default=True, help="The most texts of each corpus.")
def main(model: Path | None, corpora: tuple[Path, ...], split: str, rows: int) -> None:
    """Print the tables."""
    from sklearn.metrics import roc_auc_score

    translator = Translator.load(model, device="cpu")
    if translator.confidence is None or translator.familiarity is None:
        raise UserError("the model is not calibrated: run `models calibrate` on its folder")
    unlike: dict[str, list[str]] = {}
    for line in iter_lines(_OWN):
        kind, _, text = line.partition("\t")
        unlike.setdefault(kind, []).append(text)
    others = {
        kind: familiarities(translator.translate_scored(texts, pass_through=False))
        for kind, texts in unlike.items()
    }
    for corpus in corpora:
        names = sorted(path.stem for path in corpus.glob(f"{split}*.{translator.config.data.src}"))
        if not names:
            raise UserError(f"{corpus}: no split whose name begins with {split}")
        pairs = spaced(pairs_of(translator, corpus, names[0]), rows)
        sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
        found = translator.translate_scored(sources, pass_through=False)
        click.echo(confidence_table(f"{corpus.name}, {names[0]}", found, references))
        own = familiarities(found)
        below = sum(is_unfamiliar(one.familiarity) for one in found) / len(found)
        click.echo(f"  familiarity below {UNFAMILIAR}: {100 * below:.1f}%")
        for kind, values in others.items():
            auc = roc_auc_score([1] * len(own) + [0] * len(values), own + values)
            below = sum(map(is_unfamiliar, values)) / len(values)
            click.echo(f"  {kind}: AUC {auc:.3f}, {100 * below:.0f}% below {UNFAMILIAR}")
        if translator.language is not None:
            for side in (0, 1):
                texts = [pair[side] for pair in pairs_of(translator, corpus, "val")]
                passed = [text for text in texts if translator.language.is_target(text)]
                side_name = ("sources", "targets")[side]
                click.echo(f"  val, {side_name} that pass through: {len(passed)} of {len(texts)}")


if __name__ == "__main__":
    main()
