"""The configuration of a search."""

import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from core.config import check, check_options, option

# The most rows of a batch, and the most pairs of rows of a sentence: the sizes of the logits and of
# the attention scores of a step. Batches of ordinary searches are far smaller.
_MAX_ROWS = 4000
_MAX_ROW_PAIRS = 200_000

_MAX_RATIO = 1000
_MAX_LENGTH = 1_000_000

# The values with which the options of one kind of search have no effect, where the other is used.
_BEAM_OPTIONS = {"beam_size": 1, "length_penalty": 0.0, "diversity": 0.0}
_SAMPLING_OPTIONS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0}


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How outputs are searched for.

    This is the one table of search options, and checks them: commands, the service and requests
    take theirs from it. Beam search is in :mod:`.beam_search`, with ``diversity`` in
    :mod:`.diverse_beam_search`, and sampling in :mod:`.sampling`. Lengths are rounded down.

    Raises:
        ConfigError: a value outside its range, or one that has no effect with the others.
    """

    RETIRED = MappingProxyType({"int8": None})

    # A beam of N outputs of length L needs attention scores of N * N * L numbers.
    beam_size: int = option(5, "The width of the beam; 1: greedy.", "search", 1, 256, short="beam")
    n_best: int = option(
        1, "N best outputs, or samples, of each text, with scores.", "output", 1, 1000, metavar="N"
    )
    # The normalizer of a long output overflows beyond 10.
    length_penalty: float = option(
        1.0, "How strongly long outputs are favored; 0 favors short ones.", "search", 0, 10
    )
    diversity: float = option(
        0.0,
        "Make the outputs in the beam different; 0.2 to 0.8 is usual.",
        *("search", 0, 1000),
        short="diverse",
        metavar="STRENGTH",
    )
    sample: bool = option(False, "Draw outputs at random instead of searching.", "search")
    temperature: float = option(
        1.0, "For sampling: below 1, likely tokens become likelier.", "search", most=1000
    )
    top_k: int = option(
        0, "For sampling: draw from the K likeliest tokens; 0 means all.", "search", 0, 2**31 - 1
    )
    top_p: float = option(
        1.0,
        "For sampling: draw from the likeliest tokens of total probability P.",
        "search",
        most=1,
    )
    seed: int = option(0, "For sampling: the random seed; else 0.", "search", 0, 2**32 - 1)
    max_length: int | None = option(None, "The most tokens of an output.", "length", 1, _MAX_LENGTH)
    max_length_ratio: float = option(
        2.0, "The most tokens of an output for each token of its source.", "length", 0, _MAX_RATIO
    )
    max_length_extra: int = option(
        10, "This many tokens more than the ratio allows.", "length", 0, _MAX_LENGTH
    )
    min_length_ratio: float = option(
        0.0, "The least tokens of an output for each token of its source.", "length", 0, _MAX_RATIO
    )
    no_repeat_ngram: int = option(
        0,
        "No sequence of N tokens is repeated in an output; 0 allows all.",
        *("length", 0, _MAX_LENGTH),
        metavar="N",
    )

    def __post_init__(self) -> None:
        check_options(self, "generation.")
        how = "with" if self.sample else "without"
        for name, neutral in _unused(self.sample).items():
            self._check(name, getattr(self, name) == neutral, f"{neutral} {how} sampling")
        width, ratio = self.beam_size, self.max_length_ratio
        is_found = self.sample or self.n_best <= width
        self._check("n_best", is_found, f"at most the width of the beam ({width})")
        self._check("diversity", width > 1 or self.diversity == 0.0, "0 with a beam of 1")
        is_below = self.min_length_ratio <= ratio
        self._check("min_length_ratio", is_below, f"at most the largest ratio ({ratio})")

    def _check(self, name: str, is_right: bool, allowed: str) -> None:
        check(is_right, f"generation.{name}", getattr(self, name), allowed)

    def replaced(self, **options: Any) -> Self:
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
