"""What the service computes: one class for each kind of work, with the options of a request.

Two requests are computed together if their work is equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks.seq2seq.labeled_attention import attention
from tasks.seq2seq.request import GenerationRequest
from tasks.web.errors import RequestError

MAX_ATTENTION_TOKENS = 128
"""The most tokens of a source or a target whose attention is shown."""

Check = Callable[[], None]


@dataclass(frozen=True)
class Search:
    """The search of a translator or of a writer of couplets."""

    predictor: Any
    request: GenerationRequest

    def __call__(self, texts: Sequence[str], numbers: Sequence[int], check: Check) -> Sequence[Any]:
        request = replace(self.request, numbers=numbers, on_step=check)
        return list(self.predictor.generate(texts, request))


@dataclass(frozen=True)
class Batches:
    """A function of a predictor and items, which calls ``on_batch`` after each of its batches."""

    function: Callable[..., Sequence[Any]]
    predictor: Any

    def __call__(self, items: Sequence[Any], numbers: Sequence[int], check: Check) -> Sequence[Any]:
        check()
        return self.function(self.predictor, items, on_batch=lambda count: check())


def score(predictor: Any, pairs: Sequence[tuple[str, str]], **options: Any) -> Sequence[Any]:
    """Returns the probability of each target, given its source."""
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    scores: Sequence[Any] = predictor.score(sources, targets, **options)
    return scores


@dataclass(frozen=True)
class AttentionMaps:
    """The attention of the decoder to the source, of all heads of one layer.

    Each result has the tokens and the weights ``[H, T, S]``; each row sums to 1.
    """

    predictor: Any
    layer: int

    def __call__(
        self, pairs: Sequence[tuple[str, str]], numbers: Sequence[int], check: Check
    ) -> Sequence[Any]:
        return [self._of(*pair, check) for pair in pairs]

    def _of(self, source: str, target: str, check: Check) -> dict[str, Any]:
        check()
        codecs = self.predictor.source, self.predictor.target
        ids = codecs[0].encode(source), codecs[1].encode(target)
        limit = min(MAX_ATTENTION_TOKENS, self.predictor.max_len) - 1
        for field, tokens in zip(("source", "target"), ids, strict=True):
            if len(tokens) > limit:
                message = f"attention is shown for at most {limit} tokens, not {len(tokens)}"
                raise RequestError(400, message, field=field)
        vocabularies = codecs[0].vocabulary, codecs[1].vocabulary
        maps = attention(self.predictor.models[0], *ids, vocabularies, self.predictor.device)
        layers, heads = maps.cross.shape[:2]
        return {
            "source": maps.source,
            "target": maps.written,
            "layers": layers,
            "heads": heads,
            "layer": self.layer,
            "weights": maps.cross[self.layer - 1].round(3).tolist(),
        }
