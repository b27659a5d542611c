"""The quality of translations by the length of their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sacrebleu

from core.config import check, check_choice
from tasks.pictures import check_picture, picture
from tasks.runs.checkpoint_folder import Folders
from tasks.seq2seq.request import DEFAULT_REQUEST, GenerationRequest
from tasks.translation.evaluate import open_split

METRICS = ("chrf", "bleu")


@dataclass(frozen=True)
class LengthBin:
    """Sentences whose sources have similar lengths."""

    label: str
    """The numbers of tokens, such as 6-10."""
    sentences: int
    score: float
    """Of the corpus of these sentences, from 0 to 100."""


def quality_by_length(
    lengths: Sequence[int],
    translations: Sequence[str],
    references: Sequence[str],
    *,
    metric: str = "chrf",
    width: int = 5,
) -> tuple[list[LengthBin], str]:
    """Returns the score of each bin that has sentences, shortest first, and the signature.

    Bins have ``width`` lengths: 1 to width, width + 1 to 2 * width... A source without tokens is
    in the first.

    Args:
        lengths: the number of tokens of each source.
        metric: one of ``METRICS``: chrF (Popović 2015) or BLEU, of the corpus that is in a bin.

    Raises:
        ConfigError: an unknown metric, or a width below 1.
    """
    check_choice("metric", metric, METRICS)
    check(width >= 1, "width", width, "at least 1")
    scorer = sacrebleu.CHRF() if metric == "chrf" else sacrebleu.BLEU()
    numbers: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        numbers.setdefault((max(1, length) - 1) // width, []).append(index)
    bins = []
    for number, indices in sorted(numbers.items()):
        outputs, expected = ([texts[i] for i in indices] for texts in (translations, references))
        score = scorer.corpus_score(outputs, [expected]).score
        first, last = number * width + 1, (number + 1) * width
        label = f"{first}-{last}" if width > 1 else str(first)
        bins.append(LengthBin(label, len(indices), score))
    return bins, str(scorer.get_signature())


def draw_lengths(
    path: str | Path,
    model: Folders,
    data: str | Path,
    *,
    split: str | None = None,
    metric: str = "chrf",
    width: int = 5,
    device: str = "auto",
    request: GenerationRequest = DEFAULT_REQUEST,
) -> list[LengthBin]:
    """Translates a split of the corpus ``data``, draws the quality by length and returns the bins.

    Args:
        model: what :meth:`Translator.load` takes.
        split: by default the first whose name begins with ``test``.
        metric, width: as for :func:`quality_by_length`.

    Raises:
        ConfigError, UserError: a wrong metric, split or width; or as for :func:`.picture`.
        CorpusError: the corpus is not valid.
    """
    check_picture(Path(path))
    translator, dataset, split = open_split(model, data, split, device=device)
    sources, references = zip(*dataset.read(split), strict=True)
    translations = [translation.text for translation in translator.generate(sources, request)]
    lengths = [len(translator.source.encode(source)) for source in sources]
    bins, signature = quality_by_length(
        lengths, translations, references, metric=metric, width=width
    )
    with picture(path) as figure:
        figure.set_size_inches(max(6.0, 1.5 + 0.55 * len(bins)), 6)
        scores, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        labels = [b.label for b in bins]
        scores.plot(labels, [b.score for b in bins], "o-")
        scores.set_title(f"translation quality by source length, {split}")
        scores.set_ylabel(f"{'chrF' if metric == 'chrf' else 'BLEU'} (0 to 100)")
        scores.set_ylim(bottom=0)
        counts.bar(labels, [b.sentences for b in bins])
        counts.set_ylabel("sentences")
        counts.set_xlabel(f"source length (tokens of the model)\n{signature}")
        for axes in (scores, counts):
            axes.grid(axis="y")
    return bins
