"""A search as a tree: every output that it considered, recorded while it searches.

A :class:`SearchTree` is the ``record`` of a search (:data:`core.decoding.search.Record`). It sees
what the search computes anyway and changes nothing; a search without one is not slower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from core.decoding.beam_search import length_normalizer
from core.decoding.config import GenerationConfig
from core.decoding.search import Hypothesis, Step
from core.special_ids import SpecialIds

TEMPERATURES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
"""The temperatures whose normalizers are recorded, so that a distribution can be shown at each."""


class Next(NamedTuple):
    """A next token, its probability by the model alone, and whether the rules allow it."""

    token: int
    probability: float
    is_allowed: bool


@dataclass
class Node:
    """An output so far: that of ``parent`` and one more token.

    ``probability`` is that of the token by the model alone, ``log_prob`` that of the whole output
    over the tokens that were allowed. ``fate``: the search "kept" it, it "ended" with ``<eos>``, or
    it was "pruned". ``following`` are the best next tokens, if it was extended, and
    ``normalizers`` the logarithm of the sum of exp(log P / T) over all allowed ones for each of
    :data:`TEMPERATURES`.
    """

    parent: int
    token: int
    probability: float
    log_prob: float
    fate: str
    following: tuple[Next, ...] = ()
    normalizers: tuple[float, ...] = ()


class SearchTree:
    """Records the search for the outputs of one source.

    The outputs of several rows, or samples, of one beginning share its nodes.

    Attributes:
        nodes: the root, which is ``<bos>``, and all others, each after its parent.
        config: how the search went.
        max_length: the most tokens of an output.
        hypotheses: what was found, in the order of the search.
    """

    nodes: list[Node]
    config: GenerationConfig
    max_length: int
    hypotheses: list[Hypothesis]

    def __init__(self, size: int = 10) -> None:
        self._size = size

    def begin(
        self, step: Step, config: GenerationConfig, max_length: int, special: SpecialIds
    ) -> Step:
        """Forgets an earlier search, and returns ``step`` watched: what the model alone says."""
        self.config, self.max_length, self._special = config, max_length, special
        self.nodes = [Node(-1, special.bos, 1.0, 0.0, "kept")]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}

        def watched(tokens: Tensor, state: Any) -> Tensor:
            logits = step(tokens, state)
            own = logits.float().clone()
            own[:, [special.unk, special.pad, special.bos]] = -math.inf
            self._log_probs = own.log_softmax(dim=1)
            return logits

        return watched

    def __call__(
        self, history: Tensor, totals: Tensor, rows: Tensor, tokens: Tensor, width: int
    ) -> None:
        """Records a step; the arguments are those of :data:`core.decoding.search.Record`."""
        outputs = [tuple(output) for output in history[1:].t().tolist()]
        self._extend(outputs, totals.flatten(0, 1))
        first_rows = totals.shape[1] * torch.arange(len(rows), device=rows.device).unsqueeze(1)
        scores = totals.flatten(1).gather(1, rows * totals.shape[2] + tokens)
        own = self._log_probs[first_rows + rows, tokens].exp()
        columns = (first_rows + rows, tokens, scores, own)
        for sentence in zip(*(column.tolist() for column in columns), strict=True):
            kept = 0
            for rank, (row, token, log_prob, probability) in enumerate(zip(*sentence, strict=True)):
                if log_prob == -math.inf:
                    continue
                if token == self._special.eos:
                    fate = "ended" if rank < width else "pruned"
                else:
                    fate, kept = ("kept" if kept < width else "pruned"), kept + 1
                self._add(outputs[row], token, probability, log_prob, fate)

    def end(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Records the result."""
        self.hypotheses = list(hypotheses)

    def find(self, hypothesis: Hypothesis) -> int:
        """Returns the number of the node where an output ends."""
        tokens = tuple(hypothesis.tokens)
        ended = self._numbers.get((*tokens, self._special.eos))
        return self._numbers[tokens] if ended is None else ended

    def score(self, number: int) -> float:
        """Returns the score that a search ranks a node by, if its output ends there."""
        length, at = 0, number
        while at > 0:
            length, at = length + 1, self.nodes[at].parent
        is_beam = not self.config.sample and self.config.beam_size > 1
        alpha = self.config.length_penalty if is_beam else 0.0
        return self.nodes[number].log_prob / length_normalizer(length, alpha)

    def stop(self) -> str:
        """Returns why the search stopped.

        "length": the best output has the most tokens that one may have. "stuck": no token was
        allowed after it. "overtaken": no output that goes on can get a better score any more.
        "ended": no output goes on.
        """
        best = self.nodes[self.find(self.hypotheses[0])]
        if best.fate != "ended":
            is_full = len(self.hypotheses[0].tokens) >= self.max_length
            return "length" if is_full else "stuck"
        is_open = any(node.fate == "kept" and not node.following for node in self.nodes)
        return "overtaken" if is_open else "ended"

    def _extend(self, outputs: Sequence[tuple[int, ...]], totals: Tensor) -> None:
        """Records the best next tokens of every output; ``totals`` is ``[R, V]``."""
        count = min(self._size, totals.shape[1])
        allowed = totals.topk(count, dim=1)
        favorites = self._log_probs.topk(count, dim=1).indices
        log_probs = totals.log_softmax(dim=1)
        normalizers = [(log_probs / t).logsumexp(dim=1) for t in TEMPERATURES]
        ids = torch.cat([allowed.indices, favorites], dim=1)
        is_allowed = totals.gather(1, ids) > -math.inf
        columns = (
            ids,
            self._log_probs.gather(1, ids).exp(),
            is_allowed,
            torch.stack(normalizers, 1),
        )
        for output, *row in zip(outputs, *(column.tolist() for column in columns), strict=True):
            *parts, at_temperatures = row
            # A row of a beam may hold no output yet, or one that nothing may follow.
            if (number := self._numbers.get(output)) is None or not parts[2][0]:
                continue
            found = {each.token: each for each in map(Next, *parts) if each.probability > 0.0}
            best = sorted(found.values(), key=lambda each: -each.probability)
            self.nodes[number].following = tuple(best)
            self.nodes[number].normalizers = tuple(at_temperatures)

    def _add(
        self, output: tuple[int, ...], token: int, probability: float, log_prob: float, fate: str
    ) -> None:
        """Records a candidate; of several rows of one output, the one that went on counts."""
        longer = (*output, token)
        if (number := self._numbers.get(longer)) is None:
            self._numbers[longer] = len(self.nodes)
            parent = self._numbers[output]
            self.nodes.append(Node(parent, token, probability, log_prob, fate))
        elif fate != "pruned":
            self.nodes[number].fate = fate
