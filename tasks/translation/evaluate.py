"""Measuring a translator: BLEU, token accuracy and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sacrebleu
from sacrebleu.metrics.bleu import BLEUScore

from core.errors import UserError
from tasks.pairs import measure_pairs
from tasks.translation.dataset import LoadEnglishGermanDataset

if TYPE_CHECKING:
    from tasks.translation.predict import Translator


def bleu(
    translations: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> BLEUScore:
    """Corpus BLEU as sacreBLEU computes it (Papineni et al. 2002; Post 2018), 0 to 100."""
    return sacrebleu.BLEU(lowercase=lowercase).corpus_score(list(translations), [list(references)])


def evaluate(
    translator: Translator, dataset: LoadEnglishGermanDataset, split: str, **options: Any
) -> dict[str, Any]:
    """The report on one split; ``options`` are those of :meth:`Translator.translate`."""
    sources, references = dataset.read(split)
    translations = translator.translate(sources, **options)
    measured = measure_pairs(
        translator.model,
        dataset.encoded(split),
        batch_tokens=translator.config.train.batch_tokens,
        device=translator.device,
    )
    report: dict[str, Any] = {"split": split, "sentences": len(sources)}
    for name, lowercase in (("bleu", False), ("bleu_lowercase", True)):
        metric = sacrebleu.BLEU(lowercase=lowercase)
        report[name] = metric.corpus_score(translations, [references]).score
        report[f"{name}_signature"] = str(metric.get_signature())
    report |= {"token_accuracy": measured["accuracy"], "loss": measured["loss"]}
    report["headline"] = f"BLEU {report['bleu']:.2f} on {split}"
    return report


def run(
    model: Path | None, data: Path, *, split: str | None = None, device: str = "auto", **options: Any
) -> dict[str, Any]:
    """Measures the model in ``model`` (None: the one that ships) on a split of the corpus ``data``.

    Args:
        split: by default the first that is called ``test*``.
        options: those of :meth:`Translator.translate`.
    """
    from tasks.translation.predict import Translator

    translator = Translator.load(model, device=device)
    dataset = LoadEnglishGermanDataset(
        data, translator.config.data, source=translator.source, target=translator.target
    )
    split = split or dataset.test_split()
    if split is None:
        raise UserError(f"{data}: there is no test split here; name one with --split")
    return evaluate(translator, dataset, split, **options)


def as_table(report: Mapping[str, Any]) -> str:
    """The report for people."""
    return "\n".join(
        (
            f"split            {report['split']} ({report['sentences']:,} sentences)",
            f"BLEU             {report['bleu']:.2f}   {report['bleu_signature']}",
            f"BLEU, lower case {report['bleu_lowercase']:.2f}   {report['bleu_lowercase_signature']}",
            f"token accuracy   {100 * report['token_accuracy']:.2f}%",
            f"loss             {report['loss']:.4f} nats a token",
        )
    )
