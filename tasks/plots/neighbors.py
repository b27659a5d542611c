"""The nearest words of a word in the embedding of a model, as a list and as a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from core.config import check_choice, check_range
from core.errors import TextError, shown
from data.codec import TextCodec
from data.vocabulary import SPECIALS, UNK_ID
from tasks.pictures import ORANGE, picture
from tasks.predictor import Predictor


@dataclass(frozen=True)
class Neighbors:
    """The tokens whose vectors have the largest cosine similarity to that of ``word``."""

    word: str
    """A token of the vocabulary."""
    tokens: list[str]
    """The nearest first, without ``word``."""
    similarities: list[float]
    """From -1 to 1, of each of ``tokens``."""
    vectors: Tensor
    """``[1 + len(tokens), D]``, of length 1: those of ``word`` and of ``tokens``."""

    def draw(self, path: str | Path) -> None:
        """Draws the vectors in the plane in which they differ most (PCA).

        Errors are those of :func:`.picture`.
        """
        from sklearn.decomposition import PCA

        plane = PCA(n_components=2)
        points = plane.fit_transform(self.vectors.numpy())
        with picture(path) as figure:
            figure.set_size_inches(7, 6)
            axes = figure.subplots()
            dots = axes.scatter(points[1:, 0], points[1:, 1], c=self.similarities)
            axes.scatter(points[0, 0], points[0, 1], color=ORANGE, marker="*", s=160)
            for token, place in zip((self.word, *self.tokens), points, strict=True):
                axes.annotate(token, place, xytext=(5, 3), textcoords="offset points")
            figure.colorbar(dots, ax=axes, label=f"cosine similarity to {self.word}")
            axes.margins(0.12)
            axes.grid()
            first, second = plane.explained_variance_ratio_
            axes.set_title(f"nearest tokens of {self.word} (PCA)")
            axes.set_xlabel(f"first component ({first:.0%} of the variance)")
            axes.set_ylabel(f"second component ({second:.0%} of the variance)")


def neighbors(predictor: Predictor[Any], word: str, *, side: str, count: int) -> Neighbors:
    """Returns the ``count`` nearest tokens of ``word``; special tokens are left out.

    Args:
        word: a token of the vocabulary, or a word that is one token.
        side: one of the predictor's ``sides``; a classifier has one embedding, the "source".

    Raises:
        ConfigError: there is no such side, or ``count`` is out of range.
        TextError: ``word`` is unknown, or several tokens.
    """
    check_choice("side", side, predictor.sides)
    codec, table = predictor.embedding(side)
    return nearest(codec.vocabulary.itos, table, token_id(codec, predictor.as_read(word)), count)


def nearest(tokens: Sequence[str], table: Tensor, index: int, count: int) -> Neighbors:
    """Returns the ``count`` nearest rows of ``table`` ``[V, D]`` to row ``index``."""
    check_range("count", count, 1, len(tokens) - len(SPECIALS) - 1)
    vectors = F.normalize(table.detach().float().cpu(), dim=1)
    similarities = vectors @ vectors[index]
    similarities[: len(SPECIALS)] = similarities[index] = -torch.inf
    best = similarities.topk(count)
    ids = best.indices.tolist()
    return Neighbors(
        tokens[index], [tokens[i] for i in ids], best.values.tolist(), vectors[[index, *ids]]
    )


def token_id(codec: TextCodec, word: str) -> int:
    """Returns the id of the token that ``word`` is.

    Raises:
        TextError: it is unknown, or several tokens.
    """
    ids = codec.encode(word)
    if len(ids) == 1 and ids[0] != UNK_ID:
        return ids[0]
    (given,) = codec.vocabulary.encode([word])
    if given != UNK_ID:
        return given
    tokens = codec.tokenizer.tokenize(word)
    if len(tokens) > 1:
        raise TextError(f"{shown(word)} is {len(tokens)} tokens: ask for one of {' '.join(tokens)}")
    raise TextError(f"{shown(word)} is not in the vocabulary of the model")
