"""Measuring a translator: BLEU, chrF, TER, loops, confidence, token accuracy and loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

from core.errors import ConfigError
from core.progress import Progress
from tasks.familiarity import is_unfamiliar
from tasks.task import Report
from tasks.translation.confidence import has_loop
from tasks.translation.dataset import ParallelCorpus

if TYPE_CHECKING:
    from tasks.translation.predict import Translator


@dataclass(frozen=True, kw_only=True)
class TranslationReport(Report):
    """Corpus BLEU, chrF and TER with their signatures; accuracy and loss are teacher-forced.

    Attributes:
        loops: the outputs that repeat themselves (:func:`.confidence.has_loop`).
        unfamiliar: the sources that look unlike the training data; None if the model cannot tell.
        confidence: the mean; None if the model is not calibrated.
        loss: nats a token.
        sha256: the digest of the table of the training pairs, if there is one.
    """

    sentences: int
    bleu: float
    bleu_signature: str
    bleu_lowercase: float
    bleu_lowercase_signature: str
    chrf: float
    chrf_signature: str
    ter: float
    ter_signature: str
    loops: int
    unfamiliar: int | None
    confidence: float | None
    token_accuracy: float
    loss: float
    sha256: str | None = None

    @property
    def headline(self) -> str:
        return f"BLEU {self.bleu:.2f} on {self.split}"

    def table(self) -> str:
        rows = {
            "split": f"{self.split} ({self.sentences:,} sentences)",
            "BLEU": f"{self.bleu:.2f}   {self.bleu_signature}",
            "BLEU, lower case": f"{self.bleu_lowercase:.2f}   {self.bleu_lowercase_signature}",
            "chrF": f"{self.chrf:.2f}   {self.chrf_signature}",
            "TER": f"{self.ter:.2f}   {self.ter_signature}",
            "loops": f"{self.loops:,}",
            "token accuracy": f"{100 * self.token_accuracy:.2f}%",
            "loss": f"{self.loss:.4f} nats a token",
        }
        return "\n".join(f"{name:<16} {value}" for name, value in rows.items())

    def row(self) -> dict[str, str]:
        return {
            "sentences": f"{self.sentences:,}",
            "BLEU": f"{self.bleu:.2f}",
            "chrF": f"{self.chrf:.2f}",
            "TER": f"{self.ter:.2f}",
            "loops": f"{self.loops:,}",
            "unfamiliar": "" if self.unfamiliar is None else f"{self.unfamiliar:,}",
            "confidence": "" if self.confidence is None else f"{self.confidence:.2f}",
        }

    def notes(self) -> list[str]:
        chrf, ter = f"chrF {self.chrf_signature}", f"TER {self.ter_signature}"
        return [f"BLEU {self.bleu_signature}", chrf, ter]


def score(
    metric: Metric, translations: Sequence[str], references: Sequence[str]
) -> tuple[float, str]:
    """Returns the score of a corpus, 0 to 100, and its sacreBLEU signature (Post 2018)."""
    value = metric.corpus_score(translations, [references]).score
    return value, str(metric.get_signature())


def evaluate(
    translator: "Translator", dataset: ParallelCorpus, split: str, **options: Any
) -> TranslationReport:
    """Returns the report on one split; ``options`` are those of a request.

    Raises:
        ConfigError: the corpus has the direction that is opposite to the model's.
    """
    own, asked = translator.config.data, dataset.config
    if (asked.src, asked.tgt) == (own.tgt, own.src):
        raise ConfigError(f"the model translates from {own.src} to {own.tgt}, not the reverse")
    sources, references = zip(*dataset.read(split), strict=True)
    with Progress(len(sources), split, unit="sentence") as bar:
        found = translator.predict(sources, **options, on_batch=bar.advance)
    translations = [translation.text for translation in found]
    confidences = [each.confidence for each in found if each.confidence is not None]
    familiarities = [each.familiarity for each in found if each.familiarity is not None]
    measured = translator.measure(dataset.encoded(split, max_len=translator.max_len))
    metrics = {"bleu": BLEU(), "bleu_lowercase": BLEU(lowercase=True), "chrf": CHRF(), "ter": TER()}
    figures: dict[str, Any] = {}
    for name, metric in metrics.items():
        figures[name], figures[f"{name}_signature"] = score(metric, translations, references)
    return TranslationReport(
        split=split,
        sentences=len(sources),
        **figures,
        loops=sum(map(has_loop, sources, translations)),
        unfamiliar=sum(map(is_unfamiliar, familiarities)) if familiarities else None,
        confidence=fmean(confidences) if confidences else None,
        token_accuracy=measured["accuracy"],
        loss=measured["loss"],
        sha256=dataset.splits.digest(),
    )
