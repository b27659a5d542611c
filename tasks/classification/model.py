"""The classification model: an encoder, pooling over real tokens, two linear layers.

A linear model over hashed n-grams may stand beside the encoder (:mod:`.ngrams`).
"""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from core.config import complete
from core.errors import ConfigError
from core.inference.packed_transformer import PackedEncoder
from core.model.dropout import Dropout
from core.model.embedding import PositionalEncoding, TokenEmbedding
from core.model.masks import padding_mask
from core.model.transformer import (
    MyTransformerEncoder,
    MyTransformerEncoderLayer,
    initialize_matrices,
)
from tasks.classification.config import CONCAT_TYPES, ClassifierConfig
from tasks.classification.ngrams import HashedNgrams


class ClassificationModel(nn.Module):
    """Computes class scores from token ids.

    Args:
        vocab_size: V.
        num_classes: C.
        config: sizes, and ``concat_type``, the pooling. They can also be given as keywords:
            ``ClassificationModel(30_000, 4, d_model=128, concat_type="avg")``.
        pad_id: the id of padding.
        tokens: the V tokens, which n-grams of characters need.
        sizes: fields of :class:`ClassifierConfig`.

    Raises:
        ConfigError: an unknown or a wrong size.
        ValueError: n-grams of characters without ``tokens``.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        config: ClassifierConfig | None = None,
        *,
        pad_id: int = 1,
        tokens: Sequence[str] = (),
        **sizes: Any,
    ) -> None:
        super().__init__()
        config = complete(ClassifierConfig, config, sizes)
        self.config = config
        self.pad_id = pad_id
        layer = MyTransformerEncoderLayer(
            config.d_model,
            config.nhead,
            config.dim_feedforward,
            config.dropout,
            config.activation,
            norm_first=config.norm_first,
        )
        self.encoder = MyTransformerEncoder(
            layer,
            config.num_encoder_layers,
            nn.LayerNorm(config.d_model),
            rotary=config.positions == "rotary",
        )
        self.classifier = nn.Sequential(
            nn.Linear(config.d_model, config.d_model),
            nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(config.d_model, num_classes),
        )
        initialize_matrices(self)
        self.embedding = TokenEmbedding(vocab_size, config.d_model)
        self.positional_encoding = PositionalEncoding(
            config.d_model, config.dropout, config.max_len, positions=config.positions
        )
        self.ngram_weight = 0.5
        """The weight of the n-grams in the scores, from 0 to 1; that of the encoder is the rest."""
        self.ngrams: HashedNgrams | None = None
        if config.ngrams or config.char_ngrams:
            if config.char_ngrams and len(tokens) != vocab_size:
                raise ValueError(f"tokens must be all {vocab_size} tokens, not {len(tokens)}")
            self.ngrams = HashedNgrams(
                tokens,
                num_classes,
                order=config.ngrams,
                characters=config.char_ngrams,
                num_weights=config.ngram_weights,
                dropout=config.ngram_dropout,
                pad_id=pad_id,
            )

    def forward(self, src: Tensor) -> Tensor:
        """Ids ``[S, B]``, padded at the end -> class scores (logits) ``[B, C]``.

        With n-grams, the scores are the weighted mean of the scores of both parts of the model.
        """
        return self.scores_and_states(src)[0]

    def scores_and_states(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`forward`, with the pooled states ``[B, D]``."""
        pooled = self.pooled(src)
        scores = self.classifier(pooled)
        if self.ngrams is not None:
            scores = mean_scores(scores, self.ngrams(src), self.ngram_weight)
        return scores, pooled

    def scores_of_parts(self, src: Tensor) -> list[Tensor]:
        """As :meth:`forward`: the scores of the encoder and, if there are any, of the n-grams.

        In training, each part has a loss of its own. N-grams fit the training texts so well that
        with one loss for the sum, the encoder would hardly learn. N-grams that are not trained
        (:mod:`.linear`) are left out.
        """
        parts = [self.classifier(self.pooled(src))]
        if self.ngrams is not None and self.ngrams.weight.requires_grad:
            parts.append(self.ngrams(src))
        return parts

    def pooled(self, src: Tensor) -> Tensor:
        """Ids ``[S, B]`` -> one vector per text ``[B, D]``."""
        is_pad = padding_mask(src, self.pad_id)
        x = self.positional_encoding(self.embedding(src))
        states = self.encoder(x, src_key_padding_mask=is_pad)
        return pool(states, is_pad, self.config.concat_type)

    def last_layer_weights(self) -> list[str]:
        """Returns the names of the weights that depend on the classes."""
        last = (f"classifier.{len(self.classifier) - 1}.", "ngrams.")
        return [name for name, _ in self.named_parameters() if name.startswith(last)]


def mean_scores(encoder: Tensor, ngrams: Tensor, ngram_weight: float) -> Tensor:
    """Returns the scores ``[B, C]`` of a model, given those of its parts."""
    return (1.0 - ngram_weight) * encoder + ngram_weight * ngrams


def pool(states: Tensor, is_pad: Tensor, concat_type: str) -> Tensor:
    """Returns one vector per text ``[B, D]``, pooled from its real positions; zeros without any.

    Args:
        states: ``[S, B, D]``.
        is_pad: ``[B, S]``, True at padding, which stands at the end.
        concat_type: "sum", "avg", or "last" for the state of the last real position.
    """
    if concat_type not in CONCAT_TYPES:
        raise ValueError(
            f"concat_type must be one of {', '.join(CONCAT_TYPES)}, not {concat_type!r}"
        )
    is_token = ~is_pad.t().unsqueeze(2)
    tokens = states.masked_fill(~is_token, 0.0)
    if concat_type == "sum":
        return tokens.sum(dim=0)
    count = is_token.sum(dim=0)
    if concat_type == "avg":
        return tokens.sum(dim=0) / count.clamp(min=1)
    last = (count - 1).clamp(min=0).expand(1, -1, states.shape[2])
    return tokens.gather(0, last.reshape(1, *states.shape[1:])).squeeze(0)


class PackedClassificationModel:
    """A snapshot of ``model`` for inference: the same scores from packed weights, no gradients.

    Args:
        early_exit: if the n-grams alone give a class at least this probability, the encoder does
            not read the text ("early exit": Schwartz et al. 2020, section 3). None: it reads all.
        temperature: the scores are divided by it to get this probability.

    Raises:
        ConfigError: ``early_exit`` for a model without n-grams.
    """

    def __init__(
        self,
        model: ClassificationModel,
        *,
        early_exit: float | None = None,
        temperature: float = 1.0,
    ) -> None:
        if early_exit is not None and model.ngrams is None:
            raise ConfigError("needs a model with n-grams (model.ngrams)", option="early_exit")
        self._model, self._encoder = copy.deepcopy(model).eval(), PackedEncoder(model.encoder)
        self._early_exit, self._temperature = early_exit, temperature

    @torch.no_grad()
    def scores_and_states(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the class scores ``[B, C]`` and the pooled states ``[B, D]``.

        The states of a text that the encoder does not read are not numbers.
        """
        ngrams, weight = self._model.ngrams, self._model.ngram_weight
        if ngrams is None:
            return self._read(src)
        scores = ngrams(src)
        if self._early_exit is None:
            encoded, states = self._read(src)
            return mean_scores(encoded, scores, weight), states
        highest = (scores.float() / self._temperature).softmax(dim=1).amax(dim=1)
        is_open = highest < self._early_exit
        states = scores.new_full((len(scores), self._model.config.d_model), math.nan)
        if is_open.any():
            encoded, states[is_open] = self._read(src[:, is_open])
            scores[is_open] = mean_scores(encoded, scores[is_open], weight)
        return scores, states

    def _read(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the scores of the encoder and the pooled states."""
        model, is_pad = self._model, padding_mask(src, self._model.pad_id)
        x = model.positional_encoding(model.embedding(src))
        states = self._encoder(x, is_pad if is_pad.any() else None)
        pooled = pool(states, is_pad, model.config.concat_type)
        return model.classifier(pooled), pooled
