"""How like the training data a text is: its distance from them in the space of the model.

Pooled states of the training texts are taken as samples of one normal distribution. A text is the
less familiar, the larger its Mahalanobis distance from their mean is (Lee et al. 2018, section 2.1,
with one distribution for all classes). Probabilities do not say this: they are high for any text.

The mean of n token states varies about 1 / sqrt(n) as much as a single state. With the lengths of
the texts, centered states are multiplied by sqrt(n): texts of all lengths then have one
distribution, and a long text that is unlike the others does not hide behind its small variance.

A short text is near the mean of any model. If there are texts of other kinds to compare with, a
logistic regression learns what tells the training texts from them ("outlier exposure": Hendrycks et
al. 2019), and adds to the distance of the texts that it takes for others.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.storage.checkpoint import load_optional, save_tensors
from tasks.runs.checkpoint_folder import FAMILIARITY_FILE

MAX_TEXTS = 5000
"""The most training texts that the distribution is estimated from."""
UNFAMILIAR = 0.05
"""A text of lower familiarity is unlike the training data; so is this share of held-out texts."""

_QUANTILES = 201
_CONTRAST_SCALE = 10.0
_CONTRAST_INVERSE_REGULARIZATION = 0.01
_SHRINKAGE = 0.01  # share of the mean variance that is added to every variance


def is_unfamiliar(familiarity: float | None) -> bool:
    """Returns whether a text is unlike the training data; False if its familiarity is unknown."""
    return familiarity is not None and familiarity < UNFAMILIAR


def unfamiliar_note(unlike: int, total: int) -> str:
    """Returns what a user should know if ``unlike`` of ``total`` lines are unfamiliar, or ""."""
    if unlike <= UNFAMILIAR * total:  # this share of texts like the training data is, too
        return ""
    return f"{unlike:,} of {total:,} lines look unlike anything that the model was trained on"


def familiarity_record(familiarity: float | None) -> dict[str, Any]:
    """Returns the fields of the JSON output; none if the familiarity is unknown."""
    if familiarity is None:
        return {}
    return {"familiarity": familiarity, "unfamiliar": is_unfamiliar(familiarity)}


@dataclass(eq=False)
class Familiarity:
    """The distribution of the training texts, and how far held-out texts are from its center.

    Attributes:
        mean: ``[D]``, of the pooled states of training texts.
        whitening: ``[D, D]``: a centered state times it has independent entries of variance 1.
        quantiles: the distances of held-out texts from the mean, at equal steps.
        contrast: ``[D + 1]``, the weights and the bias that give the log-odds of another kind of
            text. None: there was nothing to compare with.
    """

    mean: Tensor
    whitening: Tensor
    quantiles: Tensor
    contrast: Tensor | None = None

    @classmethod
    def fit(
        cls,
        states: Tensor,
        held_out: Tensor,
        lengths: tuple[Tensor, Tensor] | None = None,
        *,
        others: Tensor | None = None,
    ) -> "Familiarity":
        """Returns the familiarity with texts, given pooled states ``[N, D]`` and ``[M, D]``.

        ``lengths`` are the numbers of tokens of both, ``[N]`` and ``[M]``: :meth:`distance` and
        :meth:`of` then need lengths, too. ``others`` are states of texts of other kinds ``[K, D]``.
        """
        mean = states.mean(dim=0)
        contrast = None if others is None else _contrast(states, others)
        if lengths is not None:
            states = mean + (states - mean) * lengths[0].sqrt().unsqueeze(1)
        covariance = torch.cov(states.t(), correction=0)
        ridge = _SHRINKAGE * covariance.diagonal().mean() + 1e-12
        values, vectors = torch.linalg.eigh(covariance.double())
        scale = (values.clamp(min=0.0) + ridge).rsqrt()
        found = cls(mean, (vectors * scale).to(states), torch.zeros(1), contrast)
        steps = torch.linspace(0, 1, _QUANTILES)
        distances = found.distance(held_out, None if lengths is None else lengths[1])
        # M held-out texts cannot tell shares below 1 / M: no text is farther than infinity.
        distances = torch.cat([distances, torch.tensor([torch.inf])])
        found.quantiles = distances.quantile(steps, interpolation="higher")
        return found

    @classmethod
    def load(cls, folder: Path, *, width: int) -> "Familiarity | None":
        """Loads it from ``folder``, None without its file. Raises a CheckpointError if damaged."""
        shapes = {"mean": [width], "whitening": [width, width], "quantiles": [_QUANTILES]}
        path = folder / FAMILIARITY_FILE
        tensors = load_optional(
            path,
            shapes | {"contrast": [width + 1]},
            may_lack=["contrast"],
            may_be_infinite=["quantiles"],
        )
        if tensors is None:
            return None
        return cls(**{name: tensor.float() for name, tensor in tensors.items()})

    def save(self, folder: Path) -> None:
        """Writes it into a checkpoint folder; about 4 D * D bytes."""
        tensors = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        save_tensors(folder / FAMILIARITY_FILE, tensors)

    def distance(self, states: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns the Mahalanobis distance ``[N]`` of pooled states ``[N, D]``.

        What the contrast takes for another kind of text is farther away.
        """
        distances = ((states - self.mean) @ self.whitening).norm(dim=1)
        if lengths is not None:
            distances = distances * lengths.sqrt()
        if self.contrast is not None:
            odds = states @ self.contrast[:-1] + self.contrast[-1]
            distances = distances + _CONTRAST_SCALE * odds.clamp(min=0.0)
        return distances

    def of(self, states: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns the share of held-out texts that are at least as far from the mean ``[N]``.

        For texts such as the training texts it is spread evenly from 0 to 1; a text below
        :data:`UNFAMILIAR` is unlike them.
        """
        place = torch.searchsorted(self.quantiles, self.distance(states, lengths))
        return 1.0 - place.clamp(max=_QUANTILES - 1) / (_QUANTILES - 1)


def _contrast(states: Tensor, others: Tensor) -> Tensor:
    """Returns the weights and the bias of a logistic regression ``[D + 1]``: others, or not."""
    from sklearn.linear_model import LogisticRegression

    mean, scale = states.mean(dim=0), states.std(dim=0, correction=0) + 1e-6
    is_other = [0] * len(states) + [1] * len(others)
    strength = {"C": _CONTRAST_INVERSE_REGULARIZATION, "max_iter": 500}
    model = LogisticRegression(class_weight="balanced", **strength)
    model.fit(((torch.cat([states, others]) - mean) / scale).numpy(), is_other)
    weights = torch.from_numpy(model.coef_[0]).to(scale) / scale
    bias = float(model.intercept_[0]) - weights @ mean
    return torch.cat([weights, bias.unsqueeze(0)])
