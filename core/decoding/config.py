"""The configuration of a search."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from core.config import check

MAX_BEAM_SIZE = 256
"""The widest beam. A beam of N outputs of length L needs attention scores of N * N * L numbers."""

MAX_N_BEST = 1000
"""The most outputs for each text."""

# The most rows of a batch, and the most pairs of rows of a sentence: the sizes of the logits and of
# the attention scores of a step. Batches of ordinary searches are far smaller.
_MAX_ROWS = 4000
_MAX_ROW_PAIRS = 200_000

_MAX_RATIO = 1000.0
_MAX_EXTRA = 1_000_000
_MAX_DIVERSITY = 1000.0

# The values with which the options of one kind of search have no effect, where the other is used.
_BEAM_OPTIONS = {"beam_size": 1, "length_penalty": 0.0, "diversity": 0.0}
_SAMPLING_OPTIONS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0}


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How outputs are searched for.

    Attributes:
        beam_size: the number of unfinished outputs that beam search keeps
            (:mod:`core.decoding.beam_search`). 1: greedy search.
        n_best: the number of outputs that are returned for each text.
        length_penalty: how strongly beam search favors long outputs; 0 favors short ones.
        diversity: above 0, each output of the beam avoids the tokens of those before it
            (:mod:`core.decoding.diverse_beam_search`).
        sample: draw outputs at random (:mod:`core.decoding.sampling`); it has no beam.
        temperature: with ``sample``, logits are divided by it.
        top_k: with ``sample``, draw from this many most probable tokens. 0: from all.
        top_p: with ``sample``, draw from the most probable tokens that together have this
            probability.
        seed: with ``sample``, decides the draw.
        max_length: the most tokens of an output, whatever the source. None: no such limit.
        max_length_ratio: the longest output has this many times the tokens of its source,
        max_length_extra: plus this many. Lengths are rounded down.
        min_length_ratio: the shortest output has this many times the tokens of its source.
        no_repeat_ngram: no sequence of this many tokens occurs twice in an output. 0: no such rule.
        int8: compute with 8-bit weights on a CPU.

    Raises:
        ConfigError: a value outside its range, or one that has no effect with the others.
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
        for name, most in (("beam_size", MAX_BEAM_SIZE), ("n_best", MAX_N_BEST)):
            self._check(name, 1 <= getattr(self, name) <= most, f"from 1 to {most}")
        for name in ("max_length_ratio", "min_length_ratio"):
            self._check(name, 0.0 <= getattr(self, name) <= _MAX_RATIO, f"from 0 to {_MAX_RATIO:g}")
        is_finite = 0.0 <= self.diversity <= _MAX_DIVERSITY
        self._check("diversity", is_finite, f"from 0 to {_MAX_DIVERSITY:g}")
        is_usable = 0 <= self.max_length_extra <= _MAX_EXTRA
        self._check("max_length_extra", is_usable, f"from 0 to {_MAX_EXTRA}")
        self._check("no_repeat_ngram", self.no_repeat_ngram >= 0, "0 or more")
        # The normalizer of a long output overflows beyond that.
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
        """Returns this configuration with ``options`` in place of its own.

        Where they change ``sample``, the options of the other kind of search are reset to having no
        effect, unless they are given.

        Raises:
            ConfigError: as for a new configuration.
        """
        if options.get("sample", self.sample) != self.sample:
            options = _unused(options["sample"]) | options
        return dataclasses.replace(self, **options)

    def most_sentences(self) -> int:
        """Returns how many sentences a batch may have for a search to fit into memory."""
        rows = self.n_best if self.sample else self.beam_size
        pairs = 1 if self.sample else self.beam_size**2
        return max(1, min(_MAX_ROWS // rows, _MAX_ROW_PAIRS // pairs))

    def longest_output(self, source_length: int) -> int:
        """Returns the most tokens of an output for ``source_length`` source tokens."""
        longest = int(self.max_length_ratio * source_length) + self.max_length_extra
        return longest if self.max_length is None else min(longest, self.max_length)

    def shortest_output(self, source_length: int) -> int:
        """Returns the fewest tokens of an output for ``source_length`` source tokens."""
        return int(self.min_length_ratio * source_length)


def _unused(sample: bool) -> dict[str, Any]:
    """Returns the options that have no effect with ``sample``, or without it, and their values."""
    return _BEAM_OPTIONS if sample else _SAMPLING_OPTIONS
