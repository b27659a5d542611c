"""How a trained model's outputs are searched for, as configuration."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from ..config import check

# What the options of one way of searching are where the other, which has no use for them, is used.
_BEAM_OPTIONS = {"beam_size": 1, "length_penalty": 0.0, "diversity": 0.0}
_SAMPLING_OPTIONS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0}


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How outputs are searched for, and how many of each text are given back: ``n_best``.

    One beam is greedy search; several are beam search, ranked with ``length_penalty``
    (:mod:`core.decoding.beam_search`). A ``diversity`` above 0 makes each output of the beam avoid
    the words of those before it (:mod:`core.decoding.diverse_beam_search`, with groups of one).
    With ``sample`` outputs are drawn at random instead, which takes ``temperature``, ``top_k``,
    ``top_p`` and ``seed`` (:mod:`core.decoding.sampling`).

    An output may have ``max_length_ratio`` times its source's tokens and ``max_length_extra`` more,
    but no more than ``max_length`` (None: no such limit), and has at least ``min_length_ratio``
    times its source's tokens; all are rounded down. No ``no_repeat_ngram`` tokens in a row come
    twice in it (0: they may). With ``int8`` a CPU computes with weights of eight bits.

    Raises:
        ConfigError: a value outside what is allowed, or one that has no effect beside the others.
    """

    beam_size: int = 5
    n_best: int = 1
    length_penalty: float = 1.0
    diversity: float = 0.0
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    max_length: int | None = None
    max_length_ratio: float = 2.0
    max_length_extra: int = 10
    min_length_ratio: float = 0.0
    no_repeat_ngram: int = 0
    int8: bool = False

    def __post_init__(self) -> None:
        for name in ("beam_size", "n_best"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("diversity", "max_length_ratio", "min_length_ratio"):
            self._check(name, 0.0 <= getattr(self, name) < math.inf, "0 or more")
        for name in ("max_length_extra", "no_repeat_ngram"):
            self._check(name, getattr(self, name) >= 0, "0 or more")
        # Beyond that the normaliser of a long output is no number any more.
        self._check("length_penalty", 0.0 <= self.length_penalty <= 10.0, "from 0 to 10")
        self._check("temperature", 0.0 < self.temperature < math.inf, "above 0")
        self._check("top_k", self.top_k >= 0, "0 (all tokens) or more")
        self._check("top_p", 0.0 < self.top_p <= 1.0, "above 0 and at most 1 (all tokens)")
        self._check("seed", 0 <= self.seed < 1 << 32, "from 0 to 2^32 - 1")
        limit = self.max_length
        self._check("max_length", limit is None or limit >= 1, "at least 1, or none")
        self._check_together()

    def _check_together(self) -> None:
        how = "with" if self.sample else "without"
        for name, neutral in _unused(self.sample).items():
            is_unused = getattr(self, name) == neutral
            self._check(name, is_unused, f"{neutral} {how} generation.sample")
        width, most = self.beam_size, self.max_length_ratio
        is_found = self.sample or self.n_best <= width
        self._check("n_best", is_found, f"at most generation.beam_size ({width})")
        is_wide = width > 1 or self.diversity == 0.0
        self._check("diversity", is_wide, "0 with generation.beam_size 1")
        is_below = self.min_length_ratio <= most
        self._check("min_length_ratio", is_below, f"at most generation.max_length_ratio ({most})")

    def _check(self, name: str, is_right: bool, allowed: str) -> None:
        check(is_right, f"generation.{name}", getattr(self, name), allowed)

    def replaced(self, **options: Any) -> GenerationConfig:
        """This configuration with ``options`` in the place of its own.

        Where they change ``sample``, the options of the other way of searching that are not among
        them go back to having no effect.

        Raises:
            ConfigError: as for a new configuration.
        """
        if options.get("sample", self.sample) != self.sample:
            options = _unused(options["sample"]) | options
        return dataclasses.replace(self, **options)

    def longest_output(self, source_length: int) -> int:
        """The most tokens that the output for ``source_length`` source tokens may have."""
        longest = int(self.max_length_ratio * source_length) + self.max_length_extra
        return longest if self.max_length is None else min(longest, self.max_length)

    def shortest_output(self, source_length: int) -> int:
        """The fewest tokens that the output for ``source_length`` source tokens may have."""
        return int(self.min_length_ratio * source_length)


def _unused(sample: bool) -> dict[str, Any]:
    """The options that have no effect where outputs are drawn, or else where they are searched."""
    return _BEAM_OPTIONS if sample else _SAMPLING_OPTIONS
