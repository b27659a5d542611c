"""A search as a tree: every output that it considered, recorded while it searches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from core.decoding.config import GenerationConfig
from core.decoding.search import Hypothesis, Step
from core.errors import TextError
from core.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

MAX_TOKENS = 60  # of a source
TEMPERATURES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
_FOLLOWING, _DIGITS = 10, 4


class Next(NamedTuple):
    """A next token, its probability by the model alone, and that over the allowed tokens."""

    token: int
    probability: float
    allowed: float


@dataclass
class Node:
    """An output so far, which the search "kept", which "ended" with ``<eos>``, or was "pruned".

    If the search went on from it, ``following`` are the best next tokens, and ``normalizers``
    log sum exp(log P / T) over the allowed ones, for T in ``TEMPERATURES``.
    """

    parent: int  # the number of the node that this one continues; -1 for <bos>
    token: int
    probability: float  # of the token, by the model alone
    log_prob: float  # of the output, over the allowed tokens
    fate: str
    following: Sequence[Next] = ()
    normalizers: Sequence[float] = ()


class SearchTree:
    """Records the search for the outputs of one source (:data:`core.decoding.search.Record`).

    Rows that begin alike share ``nodes``. ``hypotheses`` is what was found; number ``chosen`` of
    them becomes ``output``. ``stop`` says why the search stopped: "length", the output is as long
    as allowed; "stuck", no token may follow it; "ended", no hypothesis is unfinished; "overtaken",
    the unfinished ones cannot get a better score any more.
    """

    stop = output = ""

    def begin(
        self, step: Step, sources: Sequence[Sequence[int]], limit: int, config: GenerationConfig
    ) -> Step:
        """Begins a new record. Returns ``step``, which now also notes the model's probabilities."""
        check_sources(sources)
        self.source, self.max_length, self.config = sources[0], limit, config
        self.nodes = [Node(-1, BOS_ID, 1.0, 0.0, "kept")]
        self._numbers: dict[tuple[int, ...], int] = {(BOS_ID,): 0}  # of the nodes, by tokens

        def watched(tokens: Tensor, state: Any) -> Tensor:
            logits = step(tokens, state)
            own = logits.float().clone()
            own[:, [UNK_ID, PAD_ID, BOS_ID]] = -math.inf
            self._log_probs = own.log_softmax(dim=1)  # [R, V], by the model alone
            return logits

        return watched

    def __call__(
        self, history: Tensor, totals: Tensor, rows: Tensor, tokens: Tensor, width: int
    ) -> None:
        outputs = [tuple(output) for output in history.t().tolist()]
        self._extend(outputs, totals.flatten(0, 1))
        log_probs = totals.flatten(1).gather(1, rows * totals.shape[2] + tokens)
        rows = rows + totals.shape[1] * torch.arange(len(rows), device=rows.device).unsqueeze(1)
        own = self._log_probs[rows, tokens].exp()
        is_end = tokens == EOS_ID
        is_first = torch.arange(tokens.shape[1], device=tokens.device) < width
        fates = (~is_end & ((~is_end).cumsum(dim=1) <= width)) + 2 * (is_end & is_first)
        columns = (x.flatten().tolist() for x in (rows, tokens, own, log_probs, fates))
        for row, token, probability, log_prob, fate in zip(*columns, strict=True):
            output, name = (*outputs[row], token), ("pruned", "kept", "ended")[fate]
            if node := self.node(output[1:]):  # of another row
                node.fate = name if fate else node.fate
            elif log_prob > -math.inf:
                self._numbers[output] = len(self.nodes)
                shown = _short(probability), round(log_prob, _DIGITS), name
                self.nodes.append(Node(self._numbers[outputs[row]], token, *shown))

    def _extend(self, outputs: Sequence[tuple[int, ...]], totals: Tensor) -> None:
        """Records the best next tokens of every output; ``totals`` is ``[R, V]``."""
        best = [x.topk(min(_FOLLOWING, x.shape[1])).indices for x in (totals, self._log_probs)]
        ids, allowed = torch.cat(best, dim=1), totals.log_softmax(dim=1)
        normalizers = torch.stack([(allowed / t).logsumexp(dim=1) for t in TEMPERATURES], dim=1)
        found = torch.stack([self._log_probs.gather(1, ids), allowed.gather(1, ids)], dim=2).exp()
        columns = (ids.tolist(), found.tolist(), normalizers.tolist())
        for output, tokens, pairs, at in zip(outputs, *columns, strict=True):
            # A row of a beam may hold no output yet, or one that nothing may follow.
            if (node := self.node(output[1:])) and not math.isnan(at[0]):
                unique = dict(zip(tokens, pairs, strict=True)).items()
                ranked = sorted(unique, key=lambda each: -each[1][0])
                likely = [Next(token, *map(_short, pair)) for token, pair in ranked]
                # The likeliest ones, and of the others those that are allowed.
                node.following = [n for i, n in enumerate(likely) if i < _FOLLOWING or n.allowed]
                node.normalizers = [round(x, _DIGITS) for x in at]

    def node(self, tokens: Sequence[int]) -> Node | None:
        """Returns the node of an output, without ``<bos>``; None if the search has none."""
        number = self._numbers.get((BOS_ID, *tokens))
        return None if number is None else self.nodes[number]

    def end(self, hypotheses: Sequence[Hypothesis], chosen: int = 0) -> None:
        """Records what was found, and which hypothesis becomes the output."""
        self.hypotheses, self.chosen = hypotheses, chosen
        best = hypotheses[chosen].tokens
        is_open = any(node.fate == "kept" and not node.following for node in self.nodes)
        self.stop = "overtaken" if is_open else "ended"
        if self.node((*best, EOS_ID)) is None:
            self.stop = "length" if len(best) >= self.max_length else "stuck"


def check_sources(sources: Sequence[Sequence[int]]) -> None:
    """Raises a TextError for anything but the ids of one text of 1 to :data:`MAX_TOKENS` tokens."""
    if len(sources) != 1:
        raise TextError(f"the text has {len(sources)} sentences; a trace shows one")
    if not 0 < (count := len(sources[0])) <= MAX_TOKENS:
        raise TextError(f"the text has {count} tokens; a trace shows 1 to {MAX_TOKENS}")


def _short(probability: float) -> float:
    return float(f"{probability:.{_DIGITS}g}")
