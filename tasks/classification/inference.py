"""A classification model made ready for inference: the same function, with packed weights."""

from __future__ import annotations

import copy
import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from core.errors import ConfigError
from core.inference.packed_linear import packed_linear_for
from core.inference.packed_transformer import PackedEncoder
from core.model.masks import padding_mask
from tasks.classification.model import ClassificationModel, mean_scores, pool


class PackedClassificationModel:
    """A snapshot of ``model``, which computes its scores without dropout and gradients.

    Args:
        int8: compute linear layers with 8-bit integers, which is faster and a little less exact.
        early_exit: if the n-grams alone give a class at least this probability, the encoder does
            not read the text ("early exit": Schwartz et al. 2020, section 3). None: it reads all.
        temperature: the scores are divided by it to get this probability.

    Raises:
        ConfigError: ``int8`` for a model that is not on a CPU, or ``early_exit`` for a model
            without n-grams.
    """

    def __init__(
        self,
        model: ClassificationModel,
        *,
        int8: bool = False,
        early_exit: float | None = None,
        temperature: float = 1.0,
    ) -> None:
        if early_exit is not None and model.ngrams is None:
            raise ConfigError("early_exit needs a model with n-grams (model.ngrams)")
        make = packed_linear_for(model.embedding.weight, int8=int8, option="int8")
        self._pad_id, self._concat_type = model.pad_id, model.config.concat_type
        self._early_exit, self._temperature = early_exit, temperature
        with torch.no_grad():
            self._table = model.embedding.weight * math.sqrt(model.embedding.emb_size)
            self._positions = copy.deepcopy(model.positional_encoding).eval()
            self._encoder = PackedEncoder(model.encoder, make)
            first, last = (cast(nn.Linear, model.classifier[i]) for i in (0, -1))
            self._hidden = make(first.weight, first.bias)
            self._scores = make(last.weight, last.bias)
            self._ngrams = copy.deepcopy(model.ngrams)

    def __call__(self, src: Tensor) -> Tensor:
        """Ids ``[S, B]``, padded at the end -> class scores (logits) ``[B, C]``."""
        return self.scores_and_states(src)[0]

    @torch.no_grad()
    def scores_and_states(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the class scores ``[B, C]`` and the pooled states ``[B, D]``.

        The states of a text that the encoder does not read are not numbers.
        """
        if self._ngrams is None:
            return self._read(src)
        scores = self._ngrams(src)
        if self._early_exit is None:
            encoded, states = self._read(src)
            return mean_scores([encoded, scores]), states
        highest = (scores.float() / self._temperature).softmax(dim=1).amax(dim=1)
        is_open = highest < self._early_exit
        states = self._table.new_full((len(scores), self._table.shape[1]), math.nan)
        if is_open.any():
            encoded, states[is_open] = self._read(src[:, is_open])
            scores[is_open] = mean_scores([encoded, scores[is_open]])
        return scores, states

    def _read(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the scores of the encoder and the pooled states."""
        is_pad = padding_mask(src, self._pad_id)
        x = self._positions(embedding(src, self._table))
        states = self._encoder(x, is_pad if is_pad.any() else None)
        pooled = pool(states, is_pad, self._concat_type)
        return self._scores(self._hidden(pooled, relu=True)), pooled
