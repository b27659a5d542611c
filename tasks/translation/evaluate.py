"""Measuring a translator: BLEU, token accuracy and loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sacrebleu

from core.config import override
from tasks.runs.checkpoint_folder import Folders, model_folders, read_metrics
from tasks.seq2seq.objective import measure_pairs
from tasks.seq2seq.request import DEFAULT_REQUEST, GenerationRequest
from tasks.task import Report
from tasks.translation.dataset import ParallelCorpus

if TYPE_CHECKING:
    from tasks.translation.predict import Engine, Translator


@dataclass(frozen=True, kw_only=True)
class TranslationReport(Report):
    """Corpus BLEU with its signatures; accuracy and loss (nats a token) are teacher-forced.

    ``sha256`` is the digest of the table of the training pairs, if there is one.
    """

    sentences: int
    bleu: float
    bleu_signature: str
    bleu_lowercase: float
    bleu_lowercase_signature: str
    token_accuracy: float
    loss: float
    sha256: str | None = None

    @property
    def headline(self) -> str:
        return f"BLEU {self.bleu:.2f} on {self.split}"

    def table(self) -> str:
        return "\n".join(
            (
                f"split            {self.split} ({self.sentences:,} sentences)",
                f"BLEU             {self.bleu:.2f}   {self.bleu_signature}",
                f"BLEU, lower case {self.bleu_lowercase:.2f}   {self.bleu_lowercase_signature}",
                f"token accuracy   {100 * self.token_accuracy:.2f}%",
                f"loss             {self.loss:.4f} nats a token",
            )
        )


def bleu(
    translations: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> tuple[float, str]:
    """Returns corpus BLEU (Papineni et al. 2002), 0 to 100, and its sacreBLEU signature (Post
    2018)."""
    metric = sacrebleu.BLEU(lowercase=lowercase)
    score = metric.corpus_score(translations, [references]).score
    return score, str(metric.get_signature())


def evaluate(
    translator: Translator,
    dataset: ParallelCorpus,
    split: str,
    request: GenerationRequest = DEFAULT_REQUEST,
) -> TranslationReport:
    """Returns the report on one split, whose sources are translated as ``request`` says."""
    sources, references = zip(*dataset.read(split), strict=True)
    translations = [translation.text for translation in translator.generate(sources, request)]
    measured = measure_pairs(
        translator.models,
        dataset.encoded(split, max_len=translator.max_len),
        batch_tokens=translator.config.train.batch_tokens,
        device=translator.device,
    )
    cased, cased_signature = bleu(translations, references)
    lowercase, lowercase_signature = bleu(translations, references, lowercase=True)
    return TranslationReport(
        split=split,
        sentences=len(sources),
        bleu=cased,
        bleu_signature=cased_signature,
        bleu_lowercase=lowercase,
        bleu_lowercase_signature=lowercase_signature,
        token_accuracy=measured["accuracy"],
        loss=measured["loss"],
        sha256=dataset.pairs.digest(),
    )


def evaluate_folder(
    model: Folders,
    data: str | Path,
    *,
    split: str | None,
    device: str,
    engine: Engine = "torch",
    int8: bool = False,
    assignments: Sequence[str] = (),
    **options: Any,
) -> TranslationReport:
    """Measures the model in a folder; ``options`` are those of :class:`GenerationRequest`.

    The other arguments and the errors are those of :func:`open_split`.
    """
    request = GenerationRequest.of(**options)
    opened = open_split(model, data, split, assignments, device=device, engine=engine, int8=int8)
    return evaluate(*opened, request)


def open_split(
    model: Folders,
    data: str | Path,
    split: str | None,
    assignments: Sequence[str] = (),
    **options: Any,
) -> tuple[Translator, ParallelCorpus, str]:
    """Returns a translator, a corpus with its codecs, and the name of a split.

    Args:
        model, options: what :meth:`Translator.load` takes.
        split: None for the first whose name begins with ``test``; for a table that the model was
            not trained on, all pairs.
        assignments: changes of the model's configuration for the corpus, such as ``data.src=de``.

    Raises:
        ConfigError: there is no such split.
        CorpusError: the corpus is not valid, or has no test split.
    """
    from tasks.translation.predict import Translator

    translator = Translator.load(model, **options)
    dataset = ParallelCorpus(
        Path(data),
        override(translator.config, assignments).data,
        seed=translator.config.train.seed,
        source=translator.source,
        target=translator.target,
    )
    if split is None:
        split = dataset.pairs.split_to_measure(
            read_metrics(model_folders(translator.task, model)[0])
        )
    dataset.pairs.check_split(split)
    return translator, dataset, split
