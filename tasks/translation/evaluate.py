"""Measuring a translator: BLEU, token accuracy and loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sacrebleu
from sacrebleu.metrics.bleu import BLEUScore

from tasks.pairs import measure_pairs

if TYPE_CHECKING:
    from tasks.translation.dataset import LoadEnglishGermanDataset
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
