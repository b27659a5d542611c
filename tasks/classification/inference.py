"""A classification model made ready for inference: the same function, with packed weights."""

from __future__ import annotations

import copy
import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from transformer_suite.core.inference.packed_linear import packed_linear_for
from transformer_suite.core.inference.packed_transformer import PackedEncoder
from transformer_suite.core.model.masks import padding_mask
from transformer_suite.tasks.classification.model import ClassificationModel, mean_scores, pool


class PackedClassificationModel:
    """A snapshot of ``model``, which computes its scores without dropout and gradients.

    Args:
        int8: compute linear layers with 8-bit integers, which is faster and a little less exact.

    Raises:
        ConfigError: ``int8`` for a model that is not on a CPU.
    """

    def __init__(self, model: ClassificationModel, *, int8: bool = False) -> None:
        device = model.embedding.weight.device
        make = packed_linear_for(device, int8=int8, option="int8")
        self._pad_id, self._concat_type = model.pad_id, model.config.concat_type
        with torch.no_grad():
            self._table = model.embedding.weight * math.sqrt(model.embedding.emb_size)
            self._positions = copy.deepcopy(model.positional_encoding).eval()
            self._encoder = PackedEncoder(model.encoder, make)
            first, last = (cast(nn.Linear, model.classifier[i]) for i in (0, -1))
            self._hidden = make(first.weight, first.bias)
            self._scores = make(last.weight, last.bias)
            self._query = copy.deepcopy(model.attention_query)
            self._ngrams = copy.deepcopy(model.ngrams)

    def __call__(self, src: Tensor) -> Tensor:
        """Ids ``[S, B]``, padded at the end -> class scores (logits) ``[B, C]``."""
        return self.scores_and_states(src)[0]

    @torch.no_grad()
    def scores_and_states(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the class scores ``[B, C]`` and the pooled states ``[B, D]``."""
        is_pad = padding_mask(src, self._pad_id)
        x = self._positions(embedding(src, self._table))
        states = self._encoder(x, is_pad if is_pad.any() else None)
        pooled = pool(states, is_pad, self._concat_type, self._query)
        scores = self._scores(self._hidden(pooled, relu=True))
        parts = [scores] if self._ngrams is None else [scores, self._ngrams(src)]
        return mean_scores(parts), pooled
