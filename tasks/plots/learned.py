"""What a model has learned: near words in its embedding, and quality by length."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from core.config import check_choice, check_range
from core.errors import TextError, shown
from data.codec import TextCodec
from data.vocabulary import SPECIALS, UNK_ID
from tasks.pictures import ORANGE, picture
from tasks.predictor import Predictor
from tasks.runs.checkpoint_folder import Folders
from tasks.seq2seq.request import GenerationRequest
from tasks.task import task_named


def draw_neighbors(
    path: str | Path, predictor: Predictor[Any], word: str, *, side: str, count: int
) -> list[tuple[str, str]]:
    """Draws the nearest tokens of ``word`` in the plane in which they differ most (PCA).

    Returns the tokens, the nearest first, each with its cosine similarity to ``word``.

    Args:
        word: a token of the vocabulary, or a word that is one token.
        side: one of the predictor's ``sides``; a classifier has one embedding, the "source".

    Raises:
        ConfigError: there is no such side, or ``count`` is out of range.
        TextError: ``word`` is unknown, or several tokens.
        UserError: as for :func:`.picture`.
    """
    from sklearn.decomposition import PCA

    check_choice("side", side, predictor.sides)
    codec, table = predictor.embedding(side)
    names, vectors = codec.vocabulary.itos, F.normalize(table.detach().float().cpu(), dim=1)
    index = _token_id(codec, predictor.as_read(word))
    ids, similarities = nearest(vectors, index, count)
    plane = PCA(n_components=2)
    points = plane.fit_transform(vectors[[index, *ids]].numpy())
    with picture(path) as figure:
        figure.set_size_inches(7, 6)
        axes = figure.subplots()
        dots = axes.scatter(points[1:, 0], points[1:, 1], c=similarities)
        axes.scatter(points[0, 0], points[0, 1], color=ORANGE, marker="*", s=160)
        for i, place in zip((index, *ids), points, strict=True):
            axes.annotate(names[i], place, xytext=(5, 3), textcoords="offset points")
        figure.colorbar(dots, ax=axes, label=f"cosine similarity to {names[index]}")
        axes.margins(0.12)
        axes.grid()
        first, second = plane.explained_variance_ratio_
        axes.set_title(f"nearest tokens of {names[index]} (PCA)")
        axes.set_xlabel(f"first component ({first:.0%} of the variance)")
        axes.set_ylabel(f"second component ({second:.0%} of the variance)")
    return [(names[i], f"{value:.3f}") for i, value in zip(ids, similarities, strict=True)]


def nearest(vectors: Tensor, index: int, count: int) -> tuple[list[int], list[float]]:
    """Returns the rows of unit ``vectors`` ``[V, D]`` nearest to row ``index``, and the cosines."""
    check_range("count", count, 1, len(vectors) - len(SPECIALS) - 1)
    cosines = vectors @ vectors[index]
    cosines[: len(SPECIALS)] = cosines[index] = -torch.inf
    best = cosines.topk(count)
    return best.indices.tolist(), best.values.tolist()


def _token_id(codec: TextCodec, word: str) -> int:
    for ids in (codec.encode(word), codec.vocabulary.encode([word])):
        if len(ids) == 1 and ids[0] != UNK_ID:
            return ids[0]
    tokens = codec.tokenizer.tokenize(word)
    if len(tokens) > 1:
        raise TextError(f"{shown(word)} is {len(tokens)} tokens: ask for one of {' '.join(tokens)}")
    raise TextError(f"{shown(word)} is not in the vocabulary of the model")


class LengthBin(NamedTuple):
    """Sentences whose sources have similar lengths."""

    label: str  # the numbers of tokens, such as 6-10
    sentences: int
    score: float  # of the corpus of these sentences, from 0 to 100


def quality_by_length(
    lengths: Sequence[int],
    translations: Sequence[str],
    references: Sequence[str],
    *,
    metric: str = "chrf",
    width: int = 5,
) -> tuple[list[LengthBin], str]:
    """Returns the score of each bin of ``width`` lengths that has sentences, and the signature.

    Args:
        lengths: the number of tokens of each source, 0 counted as 1.
        metric: "chrf" (Popović 2015) or "bleu", of the corpus that is in a bin.
    """
    import sacrebleu
    from pandas import DataFrame

    scorer = sacrebleu.CHRF() if metric == "chrf" else sacrebleu.BLEU()
    rows, bins = DataFrame({"output": translations, "reference": references}), []
    for number, group in rows.groupby((np.maximum(lengths, 1) - 1) // width):
        score = scorer.corpus_score([*group["output"]], [[*group["reference"]]]).score
        first, last = number * width + 1, (number + 1) * width
        label = f"{first}-{last}" if width > 1 else str(first)
        bins.append(LengthBin(label, len(group), score))
    return bins, str(scorer.get_signature())


def draw_lengths(
    path: str | Path,
    model: Folders,
    data: str | Path,
    *,
    split: str | None,
    metric: str,
    width: int,
    device: str,
    request: GenerationRequest,
) -> list[LengthBin]:
    """Draws the quality of translations of a split by their length, and returns the bins.

    Without a ``split``, it is the first whose name begins with ``test``.
    """
    task = task_named("translation")
    translator, dataset, split = task.open_split(model, Path(data), split, device=device)
    sources, references = zip(*dataset.read(split), strict=True)
    outputs = [translation.text for translation in translator.generate(sources, request)]
    lengths = [len(translator.source.encode(source)) for source in sources]
    bins, signature = quality_by_length(lengths, outputs, references, metric=metric, width=width)
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
