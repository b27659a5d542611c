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

SIDES = ("source", "target")
"""The two embeddings of a model with an encoder and a decoder; they may be one table."""


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
        """Draws the vectors in the plane in which they differ most (:func:`principal_plane`).

        Args:
            path: the picture; its suffix is .png, .svg or .pdf.

        Raises:
            ConfigError: another suffix.
            UserError: the picture cannot be written.
        """
        points, shares = principal_plane(self.vectors)
        with picture(Path(path)) as figure:
            figure.set_size_inches(7, 6)
            axes = figure.subplots()
            (x, *xs), (y, *ys) = points.t().tolist()
            dots = axes.scatter(xs, ys, c=self.similarities, cmap="viridis")
            axes.scatter([x], [y], color=ORANGE, marker="*", s=160)
            for token, place in zip((self.word, *self.tokens), points.tolist(), strict=True):
                offset: dict[str, Any] = {"xytext": (5, 3), "textcoords": "offset points"}
                axes.annotate(token, place, **offset)
            bar = figure.colorbar(dots, ax=axes)
            bar.set_label(f"cosine similarity to {self.word}")
            axes.margins(0.12)
            axes.grid(alpha=0.3)
            axes.set_title(f"nearest tokens of {self.word} (PCA)")
            axes.set_xlabel(f"first component ({shares[0]:.0%} of the variance)")
            axes.set_ylabel(f"second component ({shares[1]:.0%} of the variance)")


def principal_plane(vectors: Tensor) -> tuple[Tensor, list[float]]:
    """Returns the coordinates ``[n, 2]`` of ``[n, D]`` on their first two principal components.

    And the share of the variance on each of the two.
    """
    left, values, _ = torch.linalg.svd(vectors - vectors.mean(dim=0), full_matrices=False)
    points = F.pad(left * values, (0, 2))[:, :2]  # vectors [n, 1] have one component
    variances = F.pad(values.square(), (0, 2))
    return points, (variances / variances.sum().clamp(min=1e-12))[:2].tolist()


def neighbors(task: str, predictor: Any, word: str, *, side: str, count: int) -> Neighbors:
    """Returns the ``count`` nearest tokens of ``word``; special tokens are left out.

    Args:
        task: the task of ``predictor``, a model that :func:`.registry.predictor` loaded.
        word: a token of the vocabulary, or a word that is one token.
        side: one of ``SIDES``; a classifier has one embedding, the "source".

    Raises:
        ConfigError: there is no such side, or ``count`` is out of range.
        TextError: ``word`` is unknown, or several tokens.
    """
    if task == "classification":
        from tasks.classification.dataset import normalize

        check_choice("side", side, SIDES[:1])
        codec, embedding = predictor.codec, predictor.model.embedding
        word = normalize(word, predictor.config.data)
    else:
        check_choice("side", side, SIDES)
        model, is_source = predictor.models[0], side == "source"
        codec = predictor.source if is_source else predictor.target
        embedding = model.src_embedding if is_source else model.tgt_embedding
    return nearest(codec.vocabulary.itos, embedding.weight, token_id(codec, word), count)


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
